/*
 * fuzz_tokens.c - any bytes as a file of tokens or of text that a model is to learn. The first byte is the
 * length of a sequence, the second says for how many tokens a model was made (0: for as many as there are).
 */
#include "base/check.h"
#include "train/data.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 3 };

static void read_batches(const struct tide_data *from, int64_t sequence)
{
    int32_t tokens[ROWS * 256], targets[ROWS * 256];
    struct tide_err err;
    for (uint64_t number = 0; number < 4; number++) {
        TIDE_CHECK(tide_data_batch(from, number, number == 3, ROWS, tokens, targets, &err), ==, 0);
        for (int64_t i = 0; i < ROWS * sequence; i++) {
            TIDE_CHECK(tokens[i], >=, 0);
            TIDE_CHECK(tokens[i], <, from->vocabulary->size);
            TIDE_CHECK(targets[i], <, from->vocabulary->size);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    struct tide_data *opened;
    struct tide_err err;
    if (size < 2)
        return 0;
    int64_t sequence = data[0] ? data[0] : 1, vocabulary = data[1];
    int fd = memfd_create("tokens", MFD_CLOEXEC);
    TIDE_CHECK(fd, >=, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    TIDE_CHECK(write(fd, data + 2, size - 2), ==, (ssize_t)(size - 2));
    struct tide_data_source source = {
        .path = path, .seed = 1, .sequence = sequence, .vocabulary = vocabulary};
    if (!tide_data_open(&source, &opened, &err)) {
        read_batches(opened, sequence);
        tide_data_free(opened);
    }
    close(fd);
    return 0;
}
