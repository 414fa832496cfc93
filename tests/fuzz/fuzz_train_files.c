/*
 * fuzz_train_files.c - any bytes as weights, as a model's configuration and as the state of a run.
 */
#include "train/checkpoint_private.h"
#include "train/gpt.h"
#include "train/lm.h"
#include "train/config.h"
#include "train/safetensors.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_weights(const char *bytes, size_t size)
{
    struct tide_safetensors file;
    struct tide_err err;
    if (tide_safetensors_parse(&file, bytes, size, &err))
        return;
    for (size_t i = 0; i < file.count; i++) {
        float *numbers = malloc(file.tensors[i].bytes * 2 + sizeof *numbers);
        if (numbers)
            tide_safetensors_read(&file, &file.tensors[i], numbers, &err);
        free(numbers);
    }
    free(file.tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tide_gpt_config config;
    struct tide_train_settings train = {0};
    struct tide_lm_settings own = {0};
    struct tide_checkpoint_state state = {.task = "lm", .train = &train, .own = &own};
    struct tide_checkpoint_part parts[TIDE_CHECKPOINT_PARTS];
    struct tide_err err;
    if (!tide_checkpoint_parse((const char *)data, size, &state, parts, &err) &&
        (state.step < 0 || (state.is_of_task && (own.batch < 1 || !train.schedule))))
        abort();
    read_weights((const char *)data, size);
    if (!tide_config_parse((const char *)data, size, &config, &err)) {
        struct tide_graph *graph = tide_graph_new(TIDE_F32);
        struct tide_gpt gpt;
        if (graph && config.blocks < 8)
            tide_gpt_build(graph, &config, 2, config.positions, &gpt, &err);
        tide_graph_free(graph);
    }
    return 0;
}
