/*
 * bench_products.c - how near products with few rows, as decoding has them, come to reading their weights
 * once: the linear layers and the table of GPT-2 124M, one after another, together far more than any cache.
 *
 * A round reads a buffer of that size from end to end on the same threads (a plain sum), then does all
 * products, for each type that weights are stored in. Prints what each reads in a second, and the share of
 * the plain sum's. The best round counts for both: neighbours only ever slow a round down.
 */
#include "base/clock.h"
#include "base/option.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct values {
    const char *dtype;
    int64_t rows, rounds, threads, blocks;
};

#define FIELD(name) offsetof(struct values, name)
static const struct tide_option options[] = {
    {.name = "dtype", .kind = TIDE_OPTION_CHOICE, .offset = FIELD(dtype), .arg = "T", .choices = "f32|bf16"},
    {.name = "rows", .kind = TIDE_OPTION_COUNT, .offset = FIELD(rows), .arg = "N", .least = 1},
    {.name = "rounds", .kind = TIDE_OPTION_COUNT, .offset = FIELD(rounds), .arg = "N", .least = 1},
    {.name = "threads", .kind = TIDE_OPTION_COUNT, .offset = FIELD(threads), .arg = "N", .least = 1},
    {.name = "blocks", .kind = TIDE_OPTION_COUNT, .offset = FIELD(blocks), .arg = "N", .least = 1},
    {0},
};

enum { SHAPES = 5, CHANNELS = 768, HIDDEN = 4 * CHANNELS, VOCABULARY = 50257, TABLE = 4 };

/* In and out; the table lies as (out, in). */
static const int64_t shapes[SHAPES][2] = {{CHANNELS, 3 * CHANNELS},
                                          {CHANNELS, CHANNELS},
                                          {CHANNELS, HIDDEN},
                                          {HIDDEN, CHANNELS},
                                          {CHANNELS, VOCABULARY}};

enum { TYPES = 3 };
static const enum tide_dtype types[TYPES] = {TIDE_F32, TIDE_BF16, TIDE_I8};
static const char *const names[TYPES] = {"f32", "bf16", "int8"};

struct bench {
    struct values values;
    char *weights; /* of any type, one product's after another's */
    size_t weight_bytes;
    void *x, *scratch;
    float *y, *bias;
    double read;                     /* GB/s: the best of the rounds */
    double rates[TYPES][SHAPES + 1]; /* likewise: each shape, and all together */
};

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* As the arena of a run has. */
static void *large_pages(size_t bytes)
{
    enum { PAGE = 2 << 20 };
    size_t whole = (bytes / PAGE + 1) * PAGE;
    void *room = aligned_alloc(PAGE, whole);
    if (room)
        madvise(room, whole, MADV_HUGEPAGE);
    return room;
}

static struct tide_product product_of(const struct bench *b, int shape, enum tide_dtype type)
{
    enum tide_dtype from = strcmp(b->values.dtype, "bf16") ? TIDE_F32 : TIDE_BF16;
    struct tide_product p = tide_product(b->values.rows, shapes[shape][1], shapes[shape][0], false,
                                         shape == TABLE, from, TIDE_F32);
    tide_product_stored(&p, from, type);
    return p;
}

static size_t weight_bytes(const struct tide_product *p)
{
    int64_t rows = p->b_transposed ? p->n : p->k, columns = p->b_transposed ? p->k : p->n;
    return (size_t)rows * tide_row_bytes(p->b_from, columns);
}

static int64_t times_of(const struct bench *b, int shape)
{
    return shape == TABLE ? 1 : b->values.blocks;
}

static int make(struct bench *b, struct tide_err *err)
{
    size_t scratch = 0;
    for (int i = 0; i < SHAPES; i++) {
        struct tide_product p = product_of(b, i, TIDE_F32);
        b->weight_bytes += (size_t)times_of(b, i) * tide_aligned(weight_bytes(&p));
        for (int t = 0; t < TYPES; t++) {
            p = product_of(b, i, types[t]);
            scratch = most(scratch, tide_matmul_scratch(&p));
        }
    }
    size_t row_bytes = (size_t)b->values.rows * sizeof(float);
    b->weights = large_pages(b->weight_bytes);
    b->x = large_pages(row_bytes * HIDDEN);
    b->y = large_pages(row_bytes * VOCABULARY);
    b->bias = large_pages(sizeof(float) * HIDDEN);
    b->scratch = large_pages(scratch);
    if (!b->weights || !b->x || !b->y || !b->bias || !b->scratch)
        return tide_err_set(err, "out of memory");
    /* An ordinary number, whatever it is read as. */
    memset(b->weights, 0x3e, b->weight_bytes);
    memset(b->x, 0x3e, row_bytes * HIDDEN);
    memset(b->bias, 0x3e, sizeof(float) * HIDDEN);
    memset(b->y, 0, row_bytes * VOCABULARY);
    memset(b->scratch, 0, scratch);
    return 0;
}

static void release(struct bench *b)
{
    free(b->weights);
    free(b->x);
    free(b->y);
    free(b->bias);
    free(b->scratch);
}

/* ---- reading alone */

TIDE_KERNEL(uint64_t, sum_of, (const uint64_t *restrict from, int64_t count), (from, count))
{
    enum { SUMS = 64 };
    uint64_t sums[SUMS] = {0}, sum = 0;
    for (int64_t i = 0; i + SUMS <= count; i += SUMS)
        for (int j = 0; j < SUMS; j++)
            sums[j] += from[i + j];
    for (int j = 0; j < SUMS; j++)
        sum += sums[j];
    return sum;
}

static uint64_t sums[TIDE_THREADS_MOST];

static void read_part(void *context, int64_t first, int64_t last)
{
    const struct bench *b = context;
    sums[tide_thread()] += sum_of((const uint64_t *)(const void *)b->weights + first, last - first);
}

static double rate(size_t bytes, int64_t start_ns)
{
    return (double)bytes / (double)(tide_clock_ns() - start_ns);
}

static void keep_best(double *best, double found)
{
    *best = found > *best ? found : *best;
}

static void read_all(struct bench *b)
{
    int64_t start = tide_clock_ns();
    tide_parallel((int64_t)(b->weight_bytes / sizeof(uint64_t)), 1, read_part, b);
    keep_best(&b->read, rate(b->weight_bytes, start));
}

/* ---- products */

/* One product of each shape in turn, as the blocks of a model have them, then the table. */
static void multiply_all(struct bench *b, int type)
{
    size_t at = 0, read[SHAPES] = {0};
    int64_t took[SHAPES] = {0}, start = tide_clock_ns();
    for (int64_t block = 0; block < b->values.blocks; block++)
        for (int i = 0; i < SHAPES; i++) {
            if (block >= times_of(b, i))
                continue;
            struct tide_product p = product_of(b, i, types[type]);
            int64_t begin = tide_clock_ns();
            tide_matmul(
                &p, &(struct tide_operands){b->x, b->weights + at, i == TABLE ? NULL : b->bias, b->y, NULL},
                b->scratch);
            took[i] += tide_clock_ns() - begin;
            read[i] += weight_bytes(&p);
            at += tide_aligned(weight_bytes(&p));
        }
    keep_best(&b->rates[type][SHAPES], rate(at, start));
    for (int i = 0; i < SHAPES; i++)
        keep_best(&b->rates[type][i], (double)read[i] / (double)took[i]);
}

static void show(const struct bench *b)
{
    printf("rows %" PRId64 "\nread_gb_s %.2f\n", b->values.rows, b->read);
    for (int t = 0; t < TYPES; t++) {
        for (int i = 0; i < SHAPES; i++)
            printf("%s_%" PRId64 "x%" PRId64 "_share %.3f\n", names[t], shapes[i][0], shapes[i][1],
                   b->rates[t][i] / b->read);
        printf("%s_gb_s %.2f\n%s_share %.3f\n", names[t], b->rates[t][SHAPES], names[t],
               b->rates[t][SHAPES] / b->read);
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.values = {.dtype = "f32", .rows = 8, .rounds = 5, .threads = 2, .blocks = 12}};
    struct tide_err err = {0};
    char **operands;
    int count, dashes;
    if (tide_options_parse(options, 0, argc, argv, &b.values, &operands, &count, &dashes, &err)) {
        fprintf(stderr, "bench_products: %s\n", err.text);
        return 2;
    }
    tide_threads_set((int)b.values.threads);
    int bad = make(&b, &err);
    for (int64_t round = 0; !bad && round < b.values.rounds; round++) {
        read_all(&b);
        for (int t = 0; t < TYPES; t++)
            multiply_all(&b, t);
    }
    if (bad)
        fprintf(stderr, "bench_products: %s\n", err.text);
    else
        show(&b);
    release(&b);
    return bad ? 2 : 0;
}
