/*
 * fuzz_vocabulary.c - any bytes as the vocabulary of a run, and every token of it as text.
 */
#include "base/check.h"
#include "train/vocabulary.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[64], path[96];

static void clean_up(void)
{
    unlink(path);
    rmdir(directory);
}

static void write_file(const uint8_t *data, size_t size)
{
    if (!directory[0]) {
        snprintf(directory, sizeof directory, "/dev/shm/fuzz-vocabulary-%d-XXXXXX", (int)getpid());
        TIDE_CHECK_TRUE(mkdtemp(directory) != NULL);
        snprintf(path, sizeof path, "%s/vocabulary.json", directory);
        atexit(clean_up);
    }
    FILE *out = fopen(path, "we");
    TIDE_CHECK_TRUE(out != NULL);
    TIDE_CHECK(fwrite(data, 1, size, out), ==, size);
    TIDE_CHECK(fclose(out), ==, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { VOCABULARY = 40 };
    struct tide_vocabulary *vocabulary;
    struct tide_err err;
    write_file(data, size);
    if (tide_vocabulary_new(directory, VOCABULARY, &vocabulary, &err))
        return 0;
    for (int32_t token = -1; token <= VOCABULARY; token++) {
        char room[16];
        size_t len = 0;
        const char *text = tide_vocabulary_text(vocabulary, token, room, &len);
        TIDE_CHECK_TRUE(text != NULL || len == 0);
    }
    tide_vocabulary_free(vocabulary);
    return 0;
}
