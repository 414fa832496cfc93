/*
 * fuzz_adapters.c - any bytes as adapters on a small model: adapter_config.json, then after a NUL
 * adapter_model.safetensors. What is refused has overwritten nothing.
 */
#include "base/check.h"
#include "rt/cpu/cpu_device.h"
#include "train/language.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"config.json", "adapter_config.json", "adapter_model.safetensors"};
enum { FILES = sizeof names / sizeof *names, RANK_MOST = 64 };
static const char model[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 4, \"n_head\": 2, \"n_layer\": 1, \"n_inner\": 8,"
    " \"n_positions\": 4, \"vocab_size\": 5, \"activation_function\": \"gelu_new\"}";
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

static void write_file(const char *name, const void *data, size_t size)
{
    char path[128];
    path_of(name, path);
    FILE *out = fopen(path, "we");
    TIDE_CHECK_TRUE(out != NULL);
    TIDE_CHECK(fwrite(data, 1, size, out), ==, size);
    TIDE_CHECK(fclose(out), ==, 0);
}

static void begin(void)
{
    if (directory[0])
        return;
    snprintf(directory, sizeof directory, "/dev/shm/fuzz-adapters-%d-XXXXXX", (int)getpid());
    TIDE_CHECK_TRUE(mkdtemp(directory) != NULL);
    atexit(clean_up);
    write_file(names[0], model, sizeof model - 1);
}

static bool is_untouched(const struct tide_graph *graph, struct tide_machine *machine)
{
    for (int i = 0; i < graph->tensor_count; i++) {
        const float *numbers = tide_tensor_trains(&graph->tensors[i])
                                   ? tide_machine_lend(machine, tide_machine_place(machine, i))
                                   : NULL;
        for (int64_t k = 0; numbers && k < tide_tensor_count(&graph->tensors[i]); k++)
            if (numbers[k] != 0)
                return false;
    }
    return true;
}

static void load(const char *path, const struct tide_gpt_config *config)
{
    struct tide_graph *graph = tide_graph_new(TIDE_F32);
    struct tide_machine *machine = NULL;
    struct tide_choices choices = {0};
    struct tide_plan plan;
    struct tide_gpt gpt;
    struct tide_err err;
    TIDE_CHECK_TRUE(graph != NULL);
    if (tide_gpt_build(graph, config, 1, config->positions, &gpt, &err) ||
        tide_plan_make(graph, &tide_cpu_device, &choices, &plan, &err) ||
        tide_machine_new(graph, &tide_cpu_device, &plan, &machine, &err))
        abort();
    if (tide_checkpoint_load(path, graph, machine, false, &err))
        TIDE_CHECK_TRUE(is_untouched(graph, machine));
    tide_machine_free(machine);
    tide_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t first = end ? (size_t)(end - data) : size;
    struct tide_gpt_config config;
    struct tide_err err;
    char path[128], base[TIDE_LANGUAGE_PATH];
    begin();
    write_file(names[1], data, first);
    write_file(names[2], end ? end + 1 : data, end ? size - first - 1 : 0);
    if (tide_checkpoint_find(directory, path, sizeof path, &err) ||
        tide_language_read(path, &config, base, &err))
        return 0;
    TIDE_CHECK_TRUE(config.adapters && config.adapter_rank >= 1 && config.adapter_scale > 0 &&
                    isfinite(config.adapter_scale));
    if (config.adapter_rank <= RANK_MOST)
        load(path, &config);
    return 0;
}
