#include "train/initial.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "base/random.h"
#include "base/whole.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The sum of four uniform numbers, with mean 0 and deviation 1: near normal, never beyond 3.5. */
static float near_normal(uint64_t bits)
{
    int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) + (int32_t)(bits >> 32 & 0xffff) +
                  (int32_t)(bits >> 48);
    return (float)(sum - 2 * 0xffff) * (1.7320508F / 65536.0F);
}

enum { WINDOW = 1 << 20 }; /* bytes of host memory for making numbers */

/* How to fill a tensor: with near-normal numbers, or with one number. */
struct filling {
    float *wide;            /* the window's rows before they are converted */
    char *rows;             /* and after */
    int64_t first, columns; /* the first row in the window */
    enum tide_dtype dtype;
    uint64_t seed;
    int tensor;
    float deviation, value;
};

static float number_of(const struct filling *f, int64_t index)
{
    return f->deviation > 0
               ? f->deviation * near_normal(tide_random_at(f->seed, (uint64_t)f->tensor, (uint64_t)index))
               : f->value;
}

static void fill_rows(void *context, int64_t first, int64_t last)
{
    const struct filling *f = context;
    for (int64_t i = first; i < last; i++) {
        float *wide = f->wide + i * f->columns;
        for (int64_t k = 0; k < f->columns; k++)
            wide[k] = number_of(f, (f->first + i) * f->columns + k);
        tide_rows_convert_here(f->rows + (size_t)i * tide_row_bytes(f->dtype, f->columns), f->dtype, wide,
                               TIDE_F32, f->columns);
    }
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* Fills as many rows at a time as the window holds. */
int tide_initial_fill(const struct tide_graph *graph, struct tide_machine *machine, int tensor, uint64_t seed,
                      float deviation, float value, struct tide_err *err)
{
    const struct tide_tensor *t = &graph->tensors[tensor];
    struct filling f = {.columns = tide_tensor_columns(t),
                        .dtype = t->dtype,
                        .seed = seed,
                        .tensor = tensor,
                        .deviation = deviation,
                        .value = value};
    size_t row = tide_row_bytes(t->dtype, f.columns), wide = (size_t)f.columns * sizeof *f.wide,
           place = tide_machine_place(machine, tensor);
    int64_t rows = tide_tensor_rows(t), most = tide_smaller(rows, 1 + (int64_t)(WINDOW / (row + wide))),
            count;
    f.wide = malloc((size_t)most * (row + wide));
    if (!f.wide)
        return tide_err_set(err, "out of memory");
    f.rows = (char *)(f.wide + most * f.columns);
    for (; f.first < rows; f.first += count) {
        count = tide_smaller(rows - f.first, most);
        tide_parallel(count, 1 + (1 << 14) / f.columns, fill_rows, &f);
        tide_machine_write(machine, place + (size_t)f.first * row, f.rows, (size_t)count * row);
    }
    free(f.wide);
    return 0;
}

/* Fills a tensor of GPT-2. */
static int make_one(const struct tide_graph *graph, struct tide_machine *machine, int tensor, uint64_t seed,
                    struct tide_err *err)
{
    const struct tide_tensor *t = &graph->tensors[tensor];
    float deviation = 0, value = 0;
    if (t->rank < 2) /* a bias or the scale of a norm */
        value = ends_with(t->name, ".weight") ? 1.0F : 0.0F;
    else if (ends_with(t->name, ".lora_A.weight")) /* variance of PEFT's uniform numbers: 1 / (3 in) */
        deviation = sqrtf(1.0F / (3.0F * (float)t->dims[1]));
    else if (!ends_with(t->name, ".lora_B.weight")) /* an adapter starts by adding nothing */
        deviation = 0.02F;
    if (ends_with(t->name, "c_proj.weight"))
        deviation /= sqrtf(2.0F * (float)graph->programs[tide_graph_training(graph)].block_count);
    return tide_initial_fill(graph, machine, tensor, seed, deviation, value, err);
}

int tide_initial_weights(const struct tide_graph *graph, struct tide_machine *machine, uint64_t seed,
                         struct tide_err *err)
{
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TIDE_PARAMETER && make_one(graph, machine, i, seed, err))
            return -1;
    return 0;
}
