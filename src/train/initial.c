#include "train/initial.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/random.h"

#include <math.h>
#include <string.h>

/* The sum of four uniform numbers, of mean 0 and deviation 1: near normal, never beyond 3.5. */
static float near_normal(uint64_t bits)
{
    int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) + (int32_t)(bits >> 32 & 0xffff) +
                  (int32_t)(bits >> 48);
    return (float)(sum - 2 * 0xffff) * (1.7320508F / 65536.0F);
}

struct filling {
    void *to;
    enum tide_dtype dtype;
    uint64_t seed;
    int tensor;
    float deviation;
};

static float number_of(const struct filling *f, int64_t index)
{
    return f->deviation * near_normal(tide_random_at(f->seed, (uint64_t)f->tensor, (uint64_t)index));
}

static void fill_some(void *context, int64_t first, int64_t last, int thread)
{
    const struct filling *f = context;
    (void)thread;
    for (int64_t i = first; i < last; i++)
        tide_number_set(f->to, f->dtype, i, (double)number_of(f, i));
}

/* Where numbers share a scale, a block of them at a time. */
static void fill_blocks(const struct tide_tensor *t, const struct filling *f)
{
    int64_t columns = tide_tensor_columns(t);
    for (int64_t i = 0; i < tide_tensor_rows(t); i++)
        for (int64_t first = 0; first < columns; first += TIDE_BLOCK) {
            float block[TIDE_BLOCK];
            char packed[TIDE_BLOCK + sizeof(float)];
            int64_t count = columns - first < TIDE_BLOCK ? columns - first : TIDE_BLOCK;
            char *row = (char *)f->to + (size_t)i * tide_row_bytes(t->dtype, columns);
            for (int64_t k = 0; k < count; k++)
                block[k] = number_of(f, i * columns + first + k);
            tide_rows_convert_here(packed, TIDE_I8, block, TIDE_F32, count);
            memcpy(row + first, packed, (size_t)count);
            memcpy(row + tide_row_scales(columns) + (size_t)(first / TIDE_BLOCK) * sizeof(float),
                   packed + tide_row_scales(count), sizeof(float));
        }
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

static void make_one(const struct tide_graph *graph, struct tide_machine *machine, int tensor, uint64_t seed)
{
    const struct tide_tensor *t = &graph->tensors[tensor];
    void *to = tide_machine_data(machine, tensor);
    int64_t count = tide_tensor_count(t);
    if (t->rank < 2) { /* a bias or the scale of a norm */
        float value = ends_with(t->name, ".weight") ? 1.0F : 0.0F;
        for (int64_t i = 0; i < count; i++)
            tide_number_set(to, t->dtype, i, (double)value);
        return;
    }
    if (ends_with(t->name, ".lora_B.weight")) { /* an adapter begins with nothing to add */
        memset(to, 0, t->bytes);
        return;
    }
    struct filling f = {.to = to, .dtype = t->dtype, .seed = seed, .tensor = tensor, .deviation = 0.02F};
    if (ends_with(t->name, ".lora_A.weight")) /* as much as PEFT's uniform numbers: sqrt(1 / (3 in)) */
        f.deviation = sqrtf(1.0F / (3.0F * (float)t->dims[1]));
    else if (ends_with(t->name, "c_proj.weight"))
        f.deviation /= sqrtf(2.0F * (float)graph->programs[tide_graph_training(graph)].block_count);
    if (t->dtype != TIDE_I8)
        tide_parallel(count, 1 << 16, fill_some, &f);
    else
        fill_blocks(t, &f);
}

void tide_initial_weights(const struct tide_graph *graph, struct tide_machine *machine, uint64_t seed)
{
    for (int i = 0; i < graph->tensor_count; i++) {
        if (graph->tensors[i].role == TIDE_PARAMETER)
            make_one(graph, machine, i, seed);
    }
}
