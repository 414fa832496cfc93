#include "train/initial.h"
#include "rt/threads.h"
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

static void fill_some(void *context, int64_t first, int64_t last, int thread)
{
    const struct filling *f = context;
    (void)thread;
    for (int64_t i = first; i < last; i++)
        tide_number_set(
            f->to, f->dtype, i,
            (double)(f->deviation * near_normal(tide_random_at(f->seed, (uint64_t)f->tensor, (uint64_t)i))));
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
    struct filling f = {.to = to, .dtype = t->dtype, .seed = seed, .tensor = tensor, .deviation = 0.02F};
    if (ends_with(t->name, "c_proj.weight"))
        f.deviation /= sqrtf(2.0F * (float)graph->programs[tide_graph_training(graph)].block_count);
    tide_parallel(count, 1 << 16, fill_some, &f);
}

void tide_initial_weights(const struct tide_graph *graph, struct tide_machine *machine, uint64_t seed)
{
    for (int i = 0; i < graph->tensor_count; i++) {
        if (graph->tensors[i].role == TIDE_PARAMETER)
            make_one(graph, machine, i, seed);
    }
}
