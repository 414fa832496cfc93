/*
 * fuzz_shards.c - any bytes as the index of a model in several files, and as two of them: the index, then
 * after a NUL the length of the first file in two bytes, then the files "a.safetensors" and "b.safetensors".
 */
#include "base/check.h"
#include "train/shards.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"model.safetensors.index.json", "a.safetensors", "b.safetensors"};
enum { FILES = sizeof names / sizeof *names };
static char directory[64];

static void path_of(const char *name, char path[static 128])
{
    snprintf(path, 128, "%s/%s", directory, name);
}

static void clean_up(void)
{
    char path[128];
    for (int i = 0; i < FILES; i++) {
        path_of(names[i], path);
        unlink(path);
    }
    rmdir(directory);
}

static void write_file(const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    if (!directory[0]) {
        snprintf(directory, sizeof directory, "/dev/shm/fuzz-shards-%d-XXXXXX", (int)getpid());
        TIDE_CHECK_TRUE(mkdtemp(directory) != NULL);
        atexit(clean_up);
    }
    path_of(name, path);
    FILE *out = fopen(path, "we");
    TIDE_CHECK_TRUE(out != NULL);
    TIDE_CHECK(fwrite(data, 1, size, out), ==, size);
    TIDE_CHECK(fclose(out), ==, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t index = end ? (size_t)(end - data) : size, left = end ? size - index - 1 : 0;
    size_t first = left >= 2 ? (size_t)(end[1] | end[2] << 8) : 0;
    const uint8_t *files = left >= 2 ? end + 3 : data + size;
    left = left >= 2 ? left - 2 : 0;
    first = first < left ? first : left;
    write_file(names[0], data, index);
    write_file(names[1], files, first);
    write_file(names[2], files + first, left - first);
    char path[128];
    struct tide_safetensors file;
    struct tide_err err;
    path_of("model.safetensors", path);
    if (tide_shards_open(&file, path, &err))
        return 0;
    for (size_t i = 0; i < file.count; i++) {
        float *numbers = malloc(file.tensors[i].bytes * 2 + sizeof *numbers);
        TIDE_CHECK_TRUE(tide_safetensors_find(&file, file.tensors[i].name) == &file.tensors[i]);
        if (numbers)
            tide_safetensors_read(&file, &file.tensors[i], TIDE_F32, numbers, &err);
        free(numbers);
    }
    tide_safetensors_close(&file);
    return 0;
}
