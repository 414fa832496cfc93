/*
 * bench_optimizer.c - how fast each optimizer updates a matrix, of weights in f32 and in bf16, against AdamW
 * in f32 in the same rounds.
 *
 *     bench_optimizer [MILLIONS [THREADS]]      100 million numbers and two threads unless it is said
 *
 * A round takes a step with each in turn, so that a machine that is slow for a while is slow for all; the
 * table has the best of ROUNDS. Time of processors is shown beside time of the wall: neighbours disturb it
 * less, and where there are more threads than processors it alone says something.
 */
#include "rt/cpu/update.h"
#include "rt/optimizer.h"
#include "base/random.h"
#include "rt/cpu/threads.h"
#include "../tests/unit/optimizer_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7, COLUMNS = 1024, MOST = 8 };

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Memory that is there. */
static void *made(size_t bytes)
{
    void *at = aligned_alloc(TIDE_ALIGN, tide_aligned(bytes + 1));
    if (!at) {
        fprintf(stderr, "bench_optimizer: out of memory\n");
        exit(2);
    }
    return memset(at, 0, tide_aligned(bytes + 1));
}

struct result {
    double wall, processors; /* seconds of a step */
};

/* The best of steps from 2 on: the first makes the state. */
static void measure(const struct tide_optimizer *optimizer, struct tide_trained t, void *state, size_t bytes,
                    void *scratch, struct result *best)
{
    struct tide_optimizer_step s = {.rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F};
    s.decay = 0.1F;
    s.scale = 0.5F;
    memset(state, 0, bytes);
    place_state(optimizer, state, &t);
    for (s.step = 1; s.step <= 3; s.step++) {
        struct tide_factors f = tide_optimizer_factors(&s);
        double wall = now(CLOCK_MONOTONIC), processors = now(CLOCK_PROCESS_CPUTIME_ID);
        tide_optimizer_update(optimizer, &t, &f, scratch);
        if (s.step == 1)
            continue;
        best->wall = smaller(best->wall, now(CLOCK_MONOTONIC) - wall);
        best->processors = smaller(best->processors, now(CLOCK_PROCESS_CPUTIME_ID) - processors);
    }
}

/* Bytes of memory that a step reads and writes. Adafactor reads each gradient three times, and each weight
 * twice before it is written. */
static double traffic(const struct tide_optimizer *optimizer, int64_t rows, enum tide_dtype dtype)
{
    int passes = optimizer == &tide_optimizer_adafactor ? 6 : 3;
    return (double)rows * COLUMNS * (double)tide_dtype_bytes(dtype) * passes +
           2 * (double)bytes_of_state(optimizer, rows, COLUMNS);
}

static void show(const struct tide_optimizer *optimizer, int64_t rows, enum tide_dtype dtype,
                 const struct result *is, const struct result *adamw)
{
    double count = (double)rows * COLUMNS;
    printf("%-10s %-5s %11.2f %11.1f %13.2f %13.2f %9.2f %9.2f\n", optimizer->name,
           dtype == TIDE_BF16 ? "bf16" : "f32", (double)bytes_of_state(optimizer, rows, COLUMNS) / count,
           traffic(optimizer, rows, dtype) / count, count / is->wall / 1e9, count / is->processors / 1e9,
           adamw->wall / is->wall, adamw->processors / is->processors);
}

int main(int argc, char **argv)
{
    int64_t millions = argc > 1 ? strtoll(argv[1], NULL, 10) : 100;
    int threads = argc > 2 ? atoi(argv[2]) : 2;
    int64_t rows = millions * 1000000 / COLUMNS, count = rows * COLUMNS;
    if (rows < 2 || threads < 1 || threads > TIDE_THREADS_MOST) {
        fprintf(stderr, "usage: bench_optimizer [MILLIONS [THREADS]]\n");
        return 2;
    }
    tide_threads_set(threads);
    size_t state_bytes = 0, scratch_bytes = 0;
    for (int k = 0; tide_optimizers[k]; k++) {
        size_t state = bytes_of_state(tide_optimizers[k], rows, COLUMNS);
        size_t scratch = tide_optimizer_scratch(tide_optimizers[k], rows, COLUMNS);
        state_bytes = state > state_bytes ? state : state_bytes;
        scratch_bytes = scratch > scratch_bytes ? scratch : scratch_bytes;
    }
    float *weight = made((size_t)count * sizeof *weight), *gradient = made((size_t)count * sizeof *gradient);
    tide_bf16 *half_gradient = made((size_t)count * sizeof *half_gradient);
    void *state = made(state_bytes), *scratch = made(scratch_bytes);
    for (int64_t i = 0; i < count; i++) {
        gradient[i] = (float)tide_random_unit(1, 2, (uint64_t)i) - 0.5F;
        half_gradient[i] = tide_to_bf16(gradient[i]);
    }

    struct result best[MOST][2];
    for (int i = 0; i < 2 * MOST; i++)
        best[i / 2][i % 2] = (struct result){1e9, 1e9};
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; tide_optimizers[k]; k++)
            for (int half = 0; half < 2; half++) {
                struct tide_trained t = {.rows = rows, .columns = COLUMNS, .weight = weight};
                t.dtype = half ? TIDE_BF16 : TIDE_F32;
                t.gradient = half ? (const void *)half_gradient : gradient;
                memset(weight, 0, (size_t)count * sizeof *weight);
                measure(tide_optimizers[k], t, state, state_bytes, scratch, &best[k][half]);
            }
    printf("%lld million numbers, %d threads; speed against adamw of f32 by wall and by processors\n",
           (long long)millions, threads);
    printf("%-10s %-5s %11s %11s %13s %13s %9s %9s\n", "optimizer", "type", "state B/n", "moved B/n",
           "G/s wall", "G/s processor", "wall", "processor");
    for (int k = 0; tide_optimizers[k]; k++)
        for (int half = 0; half < 2; half++)
            show(tide_optimizers[k], rows, half ? TIDE_BF16 : TIDE_F32, &best[k][half], &best[0][0]);
    free(weight);
    free(gradient);
    free(half_gradient);
    free(state);
    free(scratch);
    return 0;
}
