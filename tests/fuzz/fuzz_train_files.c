/*
 * fuzz_train_files.c - any bytes as weights, as a model's configuration and as the state of a run.
 */
#include "base/check.h"
#include "train/checkpoint_private.h"
#include "train/gpt.h"
#include "train/lm.h"
#include "train/config.h"
#include "train/safetensors.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_weights(const char *path)
{
    struct tide_safetensors file;
    struct tide_err err;
    if (tide_safetensors_open(&file, path, &err))
        return;
    for (size_t i = 0; i < file.count; i++) {
        float *numbers = malloc(file.tensors[i].bytes * 2 + sizeof *numbers);
        if (numbers)
            tide_safetensors_read(&file, &file.tensors[i], TIDE_F32, numbers, &err);
        free(numbers);
    }
    tide_safetensors_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tide_gpt_config config;
    struct tide_train_settings train = {0};
    struct tide_lm_settings own = {0};
    struct tide_checkpoint_state state = {.task = "lm", .train = &train, .own = &own};
    struct tide_checkpoint_part parts[TIDE_CHECKPOINT_PARTS];
    struct tide_err err;
    char path[32];
    int fd = memfd_create("file", MFD_CLOEXEC);
    TIDE_CHECK(fd, >=, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    TIDE_CHECK(write(fd, data, size), ==, (ssize_t)size);
    if (!tide_checkpoint_parse((const char *)data, size, &state, parts, &err) &&
        (state.step < 0 || (state.is_of_task && (own.batch < 1 || !train.schedule))))
        abort();
    read_weights(path);
    if (!tide_config_read(path, &config, &err)) {
        struct tide_graph *graph = tide_graph_new(TIDE_F32);
        struct tide_gpt gpt;
        if (graph && config.blocks < 8)
            tide_gpt_build(graph, &config, 2, config.positions, &gpt, &err);
        tide_graph_free(graph);
    }
    close(fd);
    return 0;
}
