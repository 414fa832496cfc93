#include "rt/cpu/few.h"
#include "base/whole.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/threads.h"

/* Each cell always holds sixteen rows of a, side by side. */
enum { ROWS = TIDE_LANES };

/* Cells multiplied at a time: for b as (k, n), where the next are prefetched meanwhile; for b as (n, k). */
enum { ACROSS_CELLS = 32, ALONG_CELLS = TIDE_FEW_CELLS };

/* The fewest numbers of b for which this pays, and the bytes of b that are worth a thread: starting and
 * ending work on several threads takes about two microseconds, reading these bytes ten. */
enum { LEAST_NUMBERS = 128 << 10, BYTES_WORTH_A_THREAD = 192 << 10 };

bool tide_few_fits(const struct tide_tile_kind *kind, const struct tide_product *p)
{
    return (p->b_transposed ? kind->along : kind->across) && p->m <= ROWS && p->n * p->k >= LEAST_NUMBERS;
}

/* A thread's room is a multiple of this. So it is at the same address in product after product, and the
 * thread writes to its own cache, not to lines in another's, which takes ten microseconds and more. */
enum { ROOM_BYTES = 256 << 10 };

/* Columns are cut into panels; a thread takes several consecutive panels. */
struct job {
    const struct tide_tile_kind *kind;
    const struct tide_product *product;
    const struct tide_operands *operands;
    int64_t cells, columns, panels, threads;
    int64_t chunk; /* panels of a thread for whose sums there is room */
    struct tide_operand a, b;
    bool a_stays;                           /* it is read in place */
    char *rooms;                            /* of threads */
    size_t a_bytes, pack_bytes, room_bytes; /* per thread: packed a; some cells of a panel; all */
};

/* True if a can be read in place: one row, in the type that is multiplied, in whole cells. With several rows,
 * consecutive numbers would be far apart, which is slower than packing. */
static bool a_stays(const struct tide_tile_kind *kind, const struct tide_product *p)
{
    return p->m == 1 && !p->b_transposed && !p->a_transposed && p->a_from == kind->cells &&
           (kind->cells == TIDE_F32 || p->k % 2 == 0);
}

static struct job job_of(const struct tide_tile_kind *kind, const struct tide_product *p)
{
    int64_t per_cell = kind->cells == TIDE_BF16 ? 2 : 1;
    double bytes = (double)tide_row_bytes(p->b_from, p->n) * (double)p->k;
    struct job j = {.kind = kind,
                    .product = p,
                    .cells = tide_ceiling(tide_ceiling(p->k, per_cell), kind->cell_step) * kind->cell_step};
    j.columns = p->b_transposed ? TIDE_FEW_LINES : kind->columns;
    j.panels = tide_ceiling(p->n, j.columns);
    j.threads = tide_smaller(tide_threads(), 1 + (int64_t)(bytes / BYTES_WORTH_A_THREAD));
    j.chunk = p->b_transposed ? 1 : tide_ceiling(j.panels, j.threads);
    j.pack_bytes = p->b_transposed ? 0 : sizeof(uint32_t) * (size_t)(ACROSS_CELLS * j.columns);
    j.a_stays = a_stays(kind, p);
    j.a_bytes = j.a_stays ? 0 : sizeof(uint32_t) * (size_t)(ROWS * j.cells);
    size_t sum_bytes = sizeof(float) * (size_t)(ROWS * j.columns * (j.chunk + 1));
    j.room_bytes = (j.a_bytes + j.pack_bytes + sum_bytes + ROOM_BYTES - 1) / ROOM_BYTES * ROOM_BYTES;
    return j;
}

size_t tide_few_scratch(const struct tide_tile_kind *kind, const struct tide_product *product)
{
    struct job job = job_of(kind, product);
    return (size_t)job.threads * job.room_bytes;
}

/* Writes the sums of consecutive columns of a row to c. */
TIDE_KERNEL(void, write_row,
            (char *c, const char *add, enum tide_dtype to, const float *restrict sums,
             const float *restrict bias, bool relu, int64_t count),
            (c, add, to, sums, bias, relu, count))
{
    float *wide = (float *)(void *)c;
    const float *wide_add = (const float *)(const void *)add;
    tide_bf16 *half = (tide_bf16 *)(void *)c;
    const tide_bf16 *half_add = (const tide_bf16 *)(const void *)add;
    for (int64_t j = 0; to == TIDE_F32 && j < count; j++) {
        float sum = bias ? sums[j] + bias[j] : sums[j];
        sum = add ? sum + wide_add[j] : sum;
        wide[j] = relu && !(sum > 0) ? 0 : sum;
    }
    for (int64_t j = 0; to == TIDE_BF16 && j < count; j++) {
        float sum = bias ? sums[j] + bias[j] : sums[j];
        sum = add ? sum + tide_from_bf16(half_add[j]) : sum;
        half[j] = tide_to_bf16(relu && !(sum > 0) ? 0 : sum);
    }
}

/* sums: [rows][columns]. */
static void write_panel(const struct job *job, int64_t panel, const float *sums)
{
    const struct tide_product *p = job->product;
    const struct tide_operands *o = job->operands;
    const char *add = o->added;
    int64_t column = panel * job->columns;
    for (int64_t i = 0; i < p->m; i++) {
        int64_t at = (i * p->c_stride + column) * (int64_t)tide_dtype_bytes(p->to);
        write_row((char *)o->c + at, add ? add + at : NULL, p->to, sums + i * job->columns,
                  o->bias ? o->bias + column : NULL, p->relu, tide_smaller(job->columns, p->n - column));
    }
}

/* b as (k, n): some of its rows at a time, for all the thread's panels. A last panel that is narrower than
 * what is multiplied at once is packed. */
static void multiply_across(const struct job *job, int64_t first, int64_t last, char *room)
{
    const struct tide_tile_kind *kind = job->kind;
    const uint32_t *a = (const uint32_t *)(const void *)(job->a_stays ? job->a.data : room);
    uint32_t *packed = (uint32_t *)(void *)(room + job->a_bytes);
    float *sums = (float *)(void *)(room + job->a_bytes + job->pack_bytes);
    int64_t rows_each = kind->cells == TIDE_BF16 ? 2 : 1, block = rows_each * ACROSS_CELLS,
            a_cell = job->a_stays ? 1 : ROWS, beside = job->columns * (int64_t)tide_dtype_bytes(job->b.from);
    for (int64_t cell = 0; cell < job->cells; cell += ACROSS_CELLS) {
        int64_t end = tide_smaller(cell + ACROSS_CELLS, job->cells);
        for (int64_t panel = first; panel < last; panel++) {
            struct tide_strip strip = {panel * job->columns, job->columns, cell, end};
            struct tide_few few = {.b = &job->b,
                                   .strip = strip,
                                   .a = a + cell * a_cell,
                                   .a_cell = a_cell,
                                   .rows = job->product->m,
                                   .begins = !cell,
                                   .beside = panel + 1 < last ? beside : 0,
                                   .ahead =
                                       end * rows_each + block <= job->b.numbers ? block * job->b.stride : 0,
                                   .sums = sums + (panel - first) * ROWS * job->columns};
            if (strip.line + job->columns > job->b.lines) {
                kind->pack_b(&job->b, strip, packed - cell * job->columns);
                few.packed = packed;
            }
            kind->across(&few);
        }
    }
    for (int64_t panel = first; panel < last; panel++)
        write_panel(job, panel, sums + (panel - first) * ROWS * job->columns);
}

/* b as (n, k): a few whole rows, then the next. */
static void multiply_along(const struct job *job, int64_t panel, char *room)
{
    enum { LINES = TIDE_FEW_LINES };
    const uint32_t *a = (const uint32_t *)(const void *)room;
    float *sums = (float *)(void *)(room + job->a_bytes), *turned = sums + ROWS * LINES;
    int64_t line = panel * LINES, lines = tide_smaller(LINES, job->b.lines - line);
    for (int64_t cell = 0; cell < job->cells; cell += ALONG_CELLS) {
        struct tide_few few = {
            .b = &job->b,
            .strip = {line, lines, cell, tide_smaller(cell + ALONG_CELLS, job->cells)},
            .a = a + cell * ROWS,
            .a_cell = ROWS,
            .rows = job->product->m,
            .begins = !cell,
            .ask = tide_pack_cache_lines(&job->b,
                                         (struct tide_strip){line + LINES, LINES, cell, cell + ALONG_CELLS}),
            .sums = sums};
        job->kind->along(&few);
    }
    struct tide_operand all = {.data = (const char *)sums,
                               .stride = ROWS * sizeof(float),
                               .is_along = true,
                               .lines = LINES,
                               .numbers = ROWS};
    job->kind->pack_cells(&all, (struct tide_strip){0, LINES, 0, ROWS}, (uint32_t *)(void *)turned);
    write_panel(job, panel, turned);
}

/* Each thread packs a for itself: that is faster than reading it from another's cache. */
static void multiply_panels(void *context, int64_t first, int64_t last)
{
    const struct job *job = context;
    const struct tide_tile_kind *kind = job->kind;
    char *room = job->rooms + (size_t)tide_thread() * job->room_bytes;
    if (!job->a_stays)
        kind->pack_cells(&job->a, (struct tide_strip){0, ROWS, 0, job->cells}, (uint32_t *)(void *)room);
    if (kind->begin)
        kind->begin();
    for (int64_t panel = first; panel < last; panel += job->chunk) {
        if (job->product->b_transposed)
            multiply_along(job, panel, room);
        else
            multiply_across(job, panel, tide_smaller(panel + job->chunk, last), room);
    }
    if (kind->end)
        kind->end();
}

void tide_few_multiply(const struct tide_tile_kind *kind, const struct tide_product *p,
                       const struct tide_operands *operands, void *scratch)
{
    struct job job = job_of(kind, p);
    job.a = tide_operand_of(operands->a, p->a_from, p->a_stride, !p->a_transposed, p->m, p->k);
    job.operands = operands;
    job.b = tide_operand_of(operands->b, p->b_from, p->b_stride, p->b_transposed, p->n, p->k);
    job.a.to = job.b.to = kind->cells;
    job.rooms = scratch;
    tide_parallel(job.panels, tide_ceiling(job.panels, job.threads), multiply_panels, &job);
}
