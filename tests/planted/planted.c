/*
 * planted.c - faults that the sanitizers are there to find, one a run: `planted NAME`. make check fails if
 * one goes unseen (tools/check has what is said of each).
 *
 * `volatile` hides a fault from the compiler, which would warn of it or leave it out.
 */
#include "rt/cpu/threads.h"
#include "rt/cpu/tile.h"
#include "rt/graph.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 16, LARGE = 1 << 16 };

static volatile int size = SIZE;
static char global[SIZE];

/* What tests of the runtime would lose, while its threads wait for work. */
static void lose_graph(void)
{
    tide_threads_set(3);
    for (int i = 0; i < 8; i++)
        tide_graph_new(TIDE_F32);
}

static void lose(void *context, int64_t first, int64_t last)
{
    (void)context;
    for (int64_t i = first; i < last; i++)
        *(volatile char *)malloc(SIZE) = 1;
}

static void lose_in_threads(void)
{
    tide_threads_set(3);
    tide_parallel(24, 8, lose, NULL);
}

static void pass_heap(void)
{
    char *volatile block = calloc(1, SIZE); /* else some compilers know its size, and another finds it */
    *(volatile char *)&block[size] = 1;
    free(block);
}

static void pass_stack(void)
{
    char block[SIZE] = {0}, *at = block;
    memset(at, 1, (size_t)size + 1);
    size = at[0];
}

static void pass_global(void)
{
    memset(global, 1, (size_t)size + 1);
}

static void use_freed(void)
{
    char *volatile block = calloc(1, SIZE), *kept = block;
    free(block);
    size = *kept;
}

static void pass_greatest_number(void)
{
    size = INT_MAX - SIZE + 1 + size;
}

/* In a struct no byte lies between an array and the next member. */
static void pass_member(void)
{
    struct {
        char first[SIZE], second[SIZE];
    } block = {{0}, {0}};
    block.first[size] = 1;
    size = block.second[0];
}

/* So far beyond one block that it is the middle of another. */
static void reach_other_block(void)
{
    char *block = malloc(SIZE), *other = malloc(LARGE);
    volatile ptrdiff_t from_one_to_another = other - block;
    block[from_one_to_another + LARGE / 2] = 1;
    free(block);
    free(other);
}

static float *zeros(int64_t count)
{
    void *block = NULL;
    size_t bytes = (size_t)count * sizeof(float);
    return posix_memalign(&block, TIDE_CACHE_LINE, bytes) ? NULL : memset(block, 0, bytes);
}

/* A tile that takes four cells and keeps its sums. (How some processors read a, sanitizers do not see.) */
static void multiply(int64_t cells_of_b, int64_t rows_of_sums)
{
    enum { CELLS = 4 };
    const struct tide_tile_kind *kind = tide_tile_kind(TIDE_F32);
    float *a = zeros(CELLS * TIDE_LANES), *b = zeros(cells_of_b * kind->columns),
          *sums = zeros(rows_of_sums * kind->columns);
    kind->tile(&(struct tide_tile){.a = (const uint32_t *)(const void *)a,
                                   .a_row = 1,
                                   .a_cell = TIDE_LANES,
                                   .b = (const uint32_t *)(const void *)b,
                                   .b_cell = kind->columns,
                                   .cells = CELLS,
                                   .rows = kind->rows,
                                   .width = kind->columns,
                                   .begins = true,
                                   .sums = sums});
    free(a);
    free(b);
    free(sums);
}

static void pass_columns(void)
{
    multiply(3, tide_tile_kind(TIDE_F32)->rows);
}

static void pass_sums(void)
{
    multiply(4, tide_tile_kind(TIDE_F32)->rows - 1);
}

static const struct {
    const char *name;
    void (*commit)(void);
} faults[] = {
    {"lose-graph", lose_graph},
    {"lose-in-threads", lose_in_threads},
    {"pass-heap", pass_heap},
    {"pass-stack", pass_stack},
    {"pass-global", pass_global},
    {"use-freed", use_freed},
    {"pass-greatest-number", pass_greatest_number},
    {"pass-member", pass_member},
    {"reach-other-block", reach_other_block},
    {"pass-columns", pass_columns},
    {"pass-sums", pass_sums},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (argc == 2 && !strcmp(argv[1], faults[i].name)) {
            faults[i].commit();
            return 0;
        }
    fprintf(stderr, "usage: planted FAULT\n");
    return 2;
}
