/*
 * steps.c - memory as a training step uses it.
 *
 * Usage: steps [STEPS]
 *
 * Each step makes 200 blocks of 4 KiB to 4 MiB (uniform in the logarithm), at most 16 at a time, and computes
 * in them for about 15 ms altogether.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 200, HELD = 16 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static __attribute__((noinline)) float *tensor(size_t bytes)
{
    float *data = malloc(bytes);
    if (!data)
        exit(2);
    return data;
}

static __attribute__((noinline)) float forward(float *data, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i += 4) {
        data[i] = (float)i * 0.5f;
        sum += data[i];
    }
    return sum;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    float sum = 0;
    float *held[HELD] = {0};
    for (int step = 0; step < steps; step++)
        for (int i = 0; i < BLOCKS; i++) {
            size_t bytes = (size_t)(4096 * exp2((double)(next_random() % 10240) / 1024));
            free(held[i % HELD]);
            held[i % HELD] = tensor(bytes);
            sum += forward(held[i % HELD], bytes / sizeof(float));
        }
    for (int i = 0; i < HELD; i++)
        free(held[i]);
    printf("%g\n", (double)sum);
    return 0;
}
