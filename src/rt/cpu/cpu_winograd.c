/*
 * cpu_winograd.c - convolutions by points (winograd.h) on processors.
 *
 * A thread takes some patches at a time, few enough that its data stay in its second-level cache. It computes
 * the points of their windows (36, patches, I). Then, panel by panel of columns, it does 36 products with the
 * weight's points (36, patches, 48), in tiles that read both in place (tile.h), and computes the patches from
 * them, with bias, an added tensor and ReLU. Cells beyond an edge are read as zeros and not written.
 *
 * Each number is computed alone and in one order, so neither threads nor the other patches change a bit.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/shares.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/tile_products.h"
#include "rt/op_winograd.h"

enum { SIDE = TIDE_POINTS_SIDE, POINTS = TIDE_POINTS, LANES = 8, PANEL = TIDE_PANEL };

/* The most and the fewest patches at a time: multiples of every tile's rows. */
enum { MOST = 32, LEAST = 8 };

/* One extra cache line between points; else all points would map to the same cache sets. */
enum { APART = TIDE_CACHE_LINE / sizeof(float) };

struct job {
    struct tide_winograd d;
    const struct tide_call *call;
    const struct tide_tile_kind *kind;
    int64_t threads, most;            /* most: patches at a time */
    int64_t window_point, sums_point; /* numbers from one point to the next, in windows and in sums */
    size_t room_bytes;                /* of a thread */
    struct tide_share *shares;
    float *zeros; /* a row of x */
    char *rooms;
};

static struct job job_of(const struct tide_graph *graph, const struct tide_node *node)
{
    struct job j = {.d = tide_winograd_of(graph, node), .kind = tide_tile_kind(TIDE_F32)};
    j.threads = tide_tiles_threads(2.0 * POINTS * (double)j.d.patches * (double)j.d.in * (double)j.d.out);
    int64_t each = (j.d.patches + j.threads - 1) / j.threads, rounded = (each + LEAST - 1) / LEAST * LEAST;
    j.most = rounded < MOST ? rounded : MOST;
    j.window_point = j.most * j.d.in + APART;
    j.sums_point = j.most * PANEL + APART;
    j.room_bytes = tide_aligned(sizeof(float) * (size_t)(POINTS * (j.window_point + j.sums_point)));
    return j;
}

static size_t zeros_bytes(const struct job *job)
{
    return tide_aligned(sizeof(float) * (size_t)job->d.in);
}

static size_t scratch(const struct tide_need *n)
{
    struct job job = job_of(n->graph, n->node);
    return zeros_bytes(&job) + (size_t)job.threads * (sizeof(struct tide_share) + job.room_bytes);
}

/* ---- between places and points, in one direction; numbers are `apart` vectors apart */

typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t eight_bits __attribute__((vector_size(32), aligned(4), may_alias));

static const float a = (float)TIDE_POINT_A, b = (float)TIDE_POINT_B,
                   a2 = (float)(TIDE_POINT_A * TIDE_POINT_A), b2 = (float)(TIDE_POINT_B * TIDE_POINT_B);

TIDE_INLINE void points_of_six(eight *to, const eight *x, const int apart)
{
    eight x1 = x[apart], x2 = x[2 * apart], x3 = x[3 * apart], x4 = x[4 * apart];
    eight even_a = x4 - b2 * x2, odd_a = a * (x3 - b2 * x1), even_b = x4 - a2 * x2,
          odd_b = b * (x3 - a2 * x1);
    to[0] = a2 * b2 * x[0] + (x4 - (a2 + b2) * x2);
    to[apart] = even_a + odd_a;
    to[2 * apart] = even_a - odd_a;
    to[3 * apart] = even_b + odd_b;
    to[4 * apart] = even_b - odd_b;
    to[5 * apart] = a2 * b2 * x1 + (x[5 * apart] - (a2 + b2) * x3);
}

TIDE_INLINE void four_of_points(eight *to, const eight *p, const int apart)
{
    eight sum_a = p[apart] + p[2 * apart], less_a = p[apart] - p[2 * apart],
          sum_b = p[3 * apart] + p[4 * apart], less_b = p[3 * apart] - p[4 * apart];
    to[0] = p[0] + (sum_a + sum_b);
    to[apart] = a * less_a + b * less_b;
    to[2 * apart] = a2 * sum_a + b2 * sum_b;
    to[3 * apart] = a2 * a * less_a + (b2 * b * less_b + p[5 * apart]);
}

/* The points of a window, whose cells are rows anywhere: to[point * apart + channel]. */
TIDE_KERNEL(void, write_points,
            (float *restrict to, int64_t apart, const float *const *rows, int64_t channels),
            (to, apart, rows, channels))
{
    for (int64_t c = 0; c < channels; c += LANES) {
        eight x[POINTS], half[POINTS];
#pragma GCC unroll 6
        for (int i = 0; i < SIDE; i++) {
#pragma GCC unroll 6
            for (int k = 0; k < SIDE; k++)
                x[k * SIDE + i] = *(const eight *)(rows[k * SIDE + i] + c);
            points_of_six(half + i, x + i, SIDE);
        }
#pragma GCC unroll 6
        for (int i = 0; i < SIDE; i++) {
            points_of_six(x + i * SIDE, half + i * SIDE, 1);
#pragma GCC unroll 6
            for (int k = 0; k < SIDE; k++)
                *(eight *)(to + (i * SIDE + k) * apart + c) = x[i * SIDE + k];
        }
    }
}

/* Where the cells of a patch go. */
struct patch {
    float *to[TIDE_PATCH];        /* NULL: beyond an edge */
    const float *add[TIDE_PATCH]; /* if something is added */
    const float *bias;
    bool adds, relu;
};

TIDE_INLINE void write_cell(const struct patch *patch, int cell, int64_t column, eight sum)
{
    if (!patch->to[cell])
        return;
    sum += *(const eight *)(patch->bias + column);
    if (patch->adds)
        sum += *(const eight *)(patch->add[cell] + column);
    if (patch->relu)
        sum = (eight)((eight_bits)sum & (sum > (eight){0}));
    *(eight *)(patch->to[cell] + column) = sum;
}

TIDE_KERNEL(void, write_patch,
            (const struct patch *patch, const float *restrict sums, int64_t apart, int64_t columns),
            (patch, sums, apart, columns))
{
    enum { FOUR = TIDE_PATCH_SIDE };
    for (int64_t c = 0; c < columns; c += LANES) {
        eight x[POINTS], half[POINTS];
#pragma GCC unroll 6
        for (int i = 0; i < SIDE; i++) {
#pragma GCC unroll 6
            for (int k = 0; k < SIDE; k++)
                x[k * SIDE + i] = *(const eight *)(sums + (k * SIDE + i) * apart + c);
            four_of_points(half + i, x + i, SIDE);
        }
#pragma GCC unroll 4
        for (int i = 0; i < FOUR; i++) {
            four_of_points(x + i * SIDE, half + i * SIDE, 1);
#pragma GCC unroll 4
            for (int k = 0; k < FOUR; k++)
                write_cell(patch, i * FOUR + k, c, x[i * SIDE + k]);
        }
    }
}

/* ---- some patches */

static void read_window(const struct job *job, int64_t patch, float *to)
{
    const float *rows[POINTS], *x = job->call->in[X];
    for (int i = 0; i < POINTS; i++) {
        int64_t cell = tide_patch_cell(&job->d.board, patch, i / SIDE - 1, i % SIDE - 1);
        rows[i] = cell < 0 ? job->zeros : x + cell * job->d.in;
    }
    write_points(to, job->window_point, rows, job->d.in);
}

/* For a panel's columns from `column` on. */
static void finish_patch(const struct job *job, int64_t patch, int64_t column, int64_t width,
                         const float *sums)
{
    const float *added = tide_added(job->call);
    struct patch p = {
        .bias = (const float *)job->call->in[BIAS] + column, .adds = added, .relu = job->d.relu};
    for (int i = 0; i < TIDE_PATCH; i++) {
        int64_t cell = tide_patch_cell(&job->d.board, patch, i / TIDE_PATCH_SIDE, i % TIDE_PATCH_SIDE),
                at = cell * job->d.out + column;
        p.to[i] = cell < 0 ? NULL : (float *)job->call->out[0] + at;
        p.add[i] = cell < 0 || !added ? NULL : added + at;
    }
    write_patch(&p, sums, job->sums_point, width);
}

/* Also multiplies rows after the last patch; nothing reads the result. */
static void multiply_panel(const struct job *job, int64_t panel, int64_t width, int64_t patches,
                           const float *windows, float *sums)
{
    const int64_t in = job->d.in, columns = job->kind->columns, rows = job->kind->rows;
    for (int64_t point = 0; point < POINTS; point++)
        for (int64_t row = 0; row < patches; row += rows)
            for (int64_t column = 0; column < width; column += columns) {
                const float *weight = (const float *)job->call->in[WEIGHT] +
                                      (panel * POINTS + point) * in * PANEL + column,
                            *window = windows + point * job->window_point + row * in;
                float *to = sums + point * job->sums_point + row * PANEL + column;
                struct tide_tile tile = {.a = (const uint32_t *)(const void *)window,
                                         .a_row = in,
                                         .a_cell = 1,
                                         .b = (const uint32_t *)(const void *)weight,
                                         .b_cell = PANEL,
                                         .cells = in,
                                         .c = (char *)to,
                                         .c_stride = PANEL,
                                         .to = TIDE_F32,
                                         .rows = rows,
                                         .width = width - column < columns ? width - column : columns,
                                         .begins = true,
                                         .ends = true};
                job->kind->tile(&tile);
            }
}

static void convolve_patches(const struct job *job, int64_t first, int64_t patches, float *windows)
{
    float *sums = windows + POINTS * job->window_point;
    for (int64_t i = 0; i < patches; i++)
        read_window(job, first + i, windows + i * job->d.in);
    for (int64_t panel = 0; panel < tide_panels(job->d.out); panel++) {
        int64_t column = panel * PANEL, left = job->d.out - column, width = left < PANEL ? left : PANEL;
        multiply_panel(job, panel, width, patches, windows, sums);
        for (int64_t i = 0; i < patches; i++)
            finish_patch(job, first + i, column, width, sums + i * PANEL);
    }
}

static void convolve_share(void *context, int64_t first, int64_t last)
{
    const struct job *job = context;
    struct tide_taker taker = {job->shares, job->threads, tide_thread(), 0};
    float *room = (float *)(void *)(job->rooms + (size_t)tide_thread() * job->room_bytes);
    int64_t unit;
    (void)first, (void)last;
    while (tide_share_take(&taker, 1, &unit)) {
        int64_t from = unit * job->most, left = job->d.patches - from;
        convolve_patches(job, from, left < job->most ? left : job->most, room);
    }
}

static void forward(const struct tide_call *call)
{
    struct job job = job_of(call->graph, call->node);
    job.call = call;
    job.shares = call->scratch;
    job.zeros = (float *)(void *)(job.shares + job.threads);
    job.rooms = (char *)job.zeros + zeros_bytes(&job);
    memset(job.zeros, 0, zeros_bytes(&job));
    tide_shares_begin(job.shares, job.threads, (job.d.patches + job.most - 1) / job.most);
    tide_parallel(job.threads, 1, convolve_share, &job);
}

const struct tide_cpu_kernels tide_cpu_winograd = {
    .scratch = scratch,
    .forward = forward,
};
