/*
 * replay.c - runs a fuzz target over files, without a fuzzer: `fuzz_X FILE-OR-DIRECTORY...`.
 *
 * Directories are walked one level deep. Says how many inputs it replayed; none at all is a failure, since a
 * corpus that has gone missing tests nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_MOST = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int complain(const char *path)
{
    fprintf(stderr, "replay: cannot read '%s': %s\n", path, strerror(errno));
    return -1;
}

/* The input is handed over in a block of exactly its size, so that a sanitizer sees the first byte read past
 * its end. */
static int replay_file(const char *path, size_t bytes)
{
    FILE *in = fopen(path, "rb");
    uint8_t *data = malloc(bytes ? bytes : 1);
    int bad = -1;
    if (in && data && fread(data, 1, bytes, in) == bytes) {
        LLVMFuzzerTestOneInput(data, bytes);
        bad = 0;
    } else {
        complain(path);
    }
    free(data);
    if (in)
        fclose(in);
    return bad;
}

static int replay(const char *path, int depth, long *count)
{
    struct stat is;
    if (stat(path, &is))
        return complain(path);
    if (!S_ISDIR(is.st_mode)) {
        if (is.st_size > INPUT_MOST) {
            errno = EFBIG;
            return complain(path);
        }
        ++*count;
        return replay_file(path, (size_t)is.st_size);
    }
    if (depth > 0)
        return 0;
    DIR *directory = opendir(path);
    if (!directory)
        return complain(path);
    int bad = 0;
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        char inner[4096];
        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < (int)sizeof inner)
            bad |= replay(inner, depth + 1, count);
    }
    closedir(directory);
    return bad;
}

int main(int argc, char **argv)
{
    long count = 0;
    int bad = 0;
    for (int i = 1; i < argc; i++)
        bad |= replay(argv[i], 0, &count);
    printf("%s: %ld inputs replayed\n", argv[0], count);
    return bad || count == 0;
}
