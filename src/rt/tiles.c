#include "rt/tiles.h"
#include "base/check.h"
#include "rt/avx512.h"
#include "rt/pack.h"
#include "rt/threads.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)

/* A tile of the result is ROWS x COLUMNS: 24 vectors of sums and three of b, of the 32 there are. Rows of a
 * are packed in groups of sixteen, columns of b in panels as wide as a tile. */
enum { LANES = TIDE_LANES, ROWS = 8, VECTORS = 3, COLUMNS = VECTORS * LANES, LINES = LANES };

/* Cells of k that are multiplied at a time, unless the result is bf16, which would round between: a panel of
 * them is 144 KiB, which leaves most of a second-level cache of 1 MiB to the rest. */
enum { BLOCK = 768 };

/* Groups of rows that are packed at a time: 2 MiB, which each panel reads again. */
enum { MOST_GROUPS = 44 };

/* Groups of rows in a part of a panel, which is what a thread takes over from another. */
enum { PART_GROUPS = 4 };

/* How a product is cut. The result is shared out among the threads in rectangles, of which each thread packs
 * the rows and the columns for itself: they never wait for each other, nor read what another has written,
 * which takes long where they share no cache. Whoever is done first takes parts of panels over from the end
 * of another's, where both have packed the same rows; who computes a tile does not change it. */
struct tiling {
    int64_t cells, block;    /* of k: all, and at a time */
    int64_t groups, panels;  /* of rows of a, of columns of b */
    int64_t down, across;    /* rectangles */
    int64_t band;            /* groups of a rectangle that are multiplied at a time */
    size_t a_bytes, b_bytes; /* packed: a band's rows, a panel */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t each(int64_t count, int64_t parts)
{
    return (count + parts - 1) / parts;
}

/* What the largest rectangle costs. To pack a number takes as long as to multiply it with eight others; rows
 * count double, since they are read again for each panel. */
static int64_t cost_of(const struct tiling *t, int64_t down, int64_t across)
{
    enum { PACKING = 8 };
    int64_t rows = each(t->groups, down) * LINES, columns = each(t->panels, across) * COLUMNS;
    return rows * columns + PACKING * (2 * rows + columns);
}

static void share_out(struct tiling *t, int64_t threads)
{
    t->down = threads;
    t->across = 1;
    for (int64_t down = 1; down < threads; down++)
        if (threads % down == 0 && cost_of(t, down, threads / down) <= cost_of(t, t->down, t->across)) {
            t->down = down;
            t->across = threads / down;
        }
}

static struct tiling tiling_of(const struct tide_product *p)
{
    struct tiling t = {.cells = p->from == TIDE_BF16 ? each(p->k, 2) : p->k,
                       .groups = each(p->m, LINES),
                       .panels = each(p->n, COLUMNS)};
    t.block = p->to == TIDE_BF16 ? t.cells : smaller(t.cells, BLOCK);
    share_out(&t, tide_threads());
    t.band = each(each(t.groups, t.down), each(each(t.groups, t.down), MOST_GROUPS));
    t.a_bytes = (size_t)(t.band * LINES * t.block) * sizeof(uint32_t);
    t.b_bytes = (size_t)(COLUMNS * t.block) * sizeof(uint32_t);
    return t;
}

bool tide_tiles_can(enum tide_dtype from)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           (from != TIDE_BF16 || __builtin_cpu_supports("avx512bf16"));
}

/* What a thread has of scratch, before what it packs. */
struct desk {
    double squares[TIDE_MATMULS_AT_ONCE][LANES]; /* their sums, for each product */
    _Atomic uint64_t parts; /* of panels, that nobody has begun: the first, and above it the end */
    char rest[TIDE_LINE - sizeof(uint64_t)];
};

static size_t thread_bytes(const struct tiling *t)
{
    return sizeof(struct desk) + t->a_bytes + 2 * t->b_bytes;
}

size_t tide_tiles_scratch(const struct tide_product *product)
{
    struct tiling t = tiling_of(product);
    return (size_t)(t.down * t.across) * thread_bytes(&t);
}

/* ---- a tile */

/* Lines that a tile asks for with each cell, beside those of the next panel. */
TIDE_INLINE int more_per_cell(enum tide_dtype from)
{
    return from == TIDE_BF16 ? 2 : 1;
}

/* Numbers of an update whose lines a tile of so many cells can ask for, and still has time for them to come.
 */
static int64_t due_numbers(enum tide_dtype from, int64_t cells)
{
    enum { ARRAYS = 4, PER_LINE = TIDE_LINE / sizeof(float) };
    return cells * more_per_cell(from) * 2 / 3 / ARRAYS * PER_LINE;
}

struct tile {
    const uint32_t *a, *b;
    int64_t b_stride, cells; /* cells from one to the next in b */
    char *c;
    int64_t c_stride;    /* in numbers */
    int64_t rows, width; /* of the tile, that there are */
    const float *bias;   /* NULL: none */
    bool adds;
    double *squares;                 /* NULL, or sixteen sums, to which those of the tile are added */
    struct tide_lines ask, ask_more; /* for meanwhile: of the next panel; of rows, or of an update */
};

TIDE_INLINE TIDE_AVX512 __m512 number_of(const char *c, int64_t at, __mmask16 lanes, enum tide_dtype to)
{
    if (to == TIDE_F32)
        return _mm512_maskz_loadu_ps(lanes, (const float *)c + at);
    return (__m512)_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, (const tide_bf16 *)c + at)), 16);
}

TIDE_INLINE TIDE_AVX512 void set_number(char *c, int64_t at, __mmask16 lanes, enum tide_dtype to,
                                        __m512 value)
{
    if (to == TIDE_F32)
        _mm512_mask_storeu_ps((float *)c + at, lanes, value);
    else
        _mm256_mask_storeu_epi16((tide_bf16 *)c + at, lanes, (__m256i)_mm512_cvtneps_pbh(value));
}

TIDE_INLINE TIDE_AVX512 void add_squares(double *to, __m512 squares)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(squares)),
            high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(squares, 1));
    _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), low));
    _mm512_storeu_pd(to + 8, _mm512_add_pd(_mm512_loadu_pd(to + 8), high));
}

TIDE_INLINE TIDE_AVX512 void write_tile(const struct tile *t, __m512 sums[ROWS][VECTORS], enum tide_dtype to)
{
    __m512 squares = _mm512_setzero_ps();
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) {
        __mmask16 lanes = tide_first_16(t->width - v * LANES);
        __m512 bias =
            t->bias && lanes ? _mm512_maskz_loadu_ps(lanes, t->bias + v * LANES) : _mm512_setzero_ps();
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            if (i >= t->rows)
                break;
            int64_t at = i * t->c_stride + v * LANES;
            __m512 sum = _mm512_add_ps(sums[i][v], bias);
            if (t->adds)
                sum = _mm512_add_ps(sum, number_of(t->c, at, lanes, to));
            set_number(t->c, at, lanes, to, sum);
            squares = _mm512_mask3_fmadd_ps(sum, sum, squares, lanes);
        }
    }
    if (t->squares)
        add_squares(t->squares, squares);
}

TIDE_INLINE TIDE_AVX512 void tile(const struct tile *t, enum tide_dtype from, enum tide_dtype to)
{
    enum { AHEAD = 16 }; /* cells; b comes from the second-level cache */
    __m512 sums[ROWS][VECTORS];
    const uint32_t *a = t->a, *b = t->b;
    const int64_t stride = t->b_stride;
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            sums[i][v] = _mm512_setzero_ps();
    const char *c = t->c;
    int64_t c_left = t->rows;
    struct tide_lines ask = t->ask, ask_more = t->ask_more;
    int64_t asks = ask.count ? each(ask.count * AHEAD, t->cells) : 0; /* at a time */
    const int per_cell = more_per_cell(from);
    for (int64_t cell = 0; cell < t->cells;) {
        int64_t stop = smaller(cell + AHEAD, t->cells);
        tide_lines_ask(&ask, ask.count > asks ? ask.count - asks : 0);
        if (c_left > 0) {
            for (int v = 0; v < VECTORS; v++)
                __builtin_prefetch(c + v * LANES * (to == TIDE_BF16 ? 2 : 4), 1, 3);
            c += t->c_stride * (to == TIDE_BF16 ? 2 : 4);
            c_left--;
        }
        bool asks_more = ask_more.count > 0;
        const char *more = asks_more ? tide_lines_next(&ask_more, AHEAD * per_cell) : (const char *)a;
        const int64_t step = asks_more ? TIDE_LINE : 0;
        for (; cell < stop; cell++, a += LINES, b += stride) {
            __m512 columns[VECTORS];
            for (int i = 0; i < per_cell; i++)
                _mm_prefetch(more + i * AHEAD * TIDE_LINE, _MM_HINT_T1);
            more += step;
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++) {
                columns[v] = _mm512_load_ps(b + v * LANES);
                _mm_prefetch((const char *)(b + AHEAD * stride + v * LANES), _MM_HINT_T0);
            }
#pragma GCC unroll 8
            for (int i = 0; i < ROWS; i++) {
                __m512 row = (__m512)_mm512_set1_epi32((int)a[i]);
#pragma GCC unroll 3
                for (int v = 0; v < VECTORS; v++)
                    sums[i][v] = from == TIDE_BF16
                                     ? _mm512_dpbf16_ps(sums[i][v], (__m512bh)row, (__m512bh)columns[v])
                                     : _mm512_fmadd_ps(row, columns[v], sums[i][v]);
            }
        }
    }
    write_tile(t, sums, to);
}

TIDE_AVX512 static void tile_f32(const struct tile *t)
{
    tile(t, TIDE_F32, TIDE_F32);
}

TIDE_AVX512 static void tile_bf16_to_f32(const struct tile *t)
{
    tile(t, TIDE_BF16, TIDE_F32);
}

TIDE_AVX512 static void tile_bf16(const struct tile *t)
{
    tile(t, TIDE_BF16, TIDE_BF16);
}

/* ---- a product */

struct job {
    const struct tide_product *product;
    struct tiling tiling;
    const void *a, *b;
    const float *bias;
    char *c;
    double *squares; /* NULL: not wanted */
    struct tide_due *due;
    void (*tile)(const struct tile *t);
};

struct jobs {
    struct job list[TIDE_MATMULS_AT_ONCE];
    int count, threads;
    char *scratch;
    size_t bytes; /* of a thread */
};

static struct desk *desk_of(const struct jobs *jobs, int thread)
{
    return (struct desk *)(void *)(jobs->scratch + (size_t)thread * jobs->bytes);
}

/* Of a rectangle what is multiplied at a time. */
struct rectangle {
    const struct job *job;
    int thread;
    int64_t first_group, last_group, first_panel, last_panel;
    struct tide_operand a, b;
    bool is_first, is_last, in_place; /* of the blocks; b as it lies */
    double *squares;
    _Atomic uint64_t *parts; /* NULL: they are not shared */
    uint32_t *a_packed, *b_packed[2];
};

static int64_t parts_of(const struct rectangle *r)
{
    return each(r->last_group - r->first_group, PART_GROUPS);
}

/* ---- parts that nobody has begun: their thread takes the first, the others the last */

static uint64_t parts_from(int64_t first, int64_t end)
{
    return (uint64_t)end << 32 | (uint64_t)first;
}

/* One of them; -1: there is none. The very last is left to its thread: to pack its panel anew would take as
 * long. */
static int64_t take_part(_Atomic uint64_t *parts, bool is_own)
{
    const int64_t left = is_own ? 0 : 1;
    uint64_t now = atomic_load_explicit(parts, memory_order_acquire);
    for (;;) {
        int64_t first = (int64_t)(now & UINT32_MAX), end = (int64_t)(now >> 32);
        if (end - first <= left)
            return -1;
        uint64_t then = is_own ? parts_from(first + 1, end) : parts_from(first, end - 1);
        if (atomic_compare_exchange_weak_explicit(parts, &now, then, memory_order_acq_rel,
                                                  memory_order_acquire))
            return is_own ? first : end - 1;
    }
}

/* ---- what is multiplied at a time */

/* The cells [first, first + cells) of an operand. */
static struct tide_operand operand_of(const struct tide_product *p, const void *data, int64_t stride,
                                      bool is_along, int64_t lines, enum tide_dtype from, int64_t first,
                                      int64_t cells)
{
    int64_t per_cell = p->from == TIDE_BF16 ? 2 : 1, before = first * per_cell,
            size = (int64_t)tide_dtype_bytes(from);
    struct tide_operand o = {.stride = stride * size,
                             .is_along = is_along,
                             .lines = lines,
                             .numbers = smaller(p->k - before, cells * per_cell),
                             .cells = cells,
                             .from = from,
                             .to = p->from};
    o.data = (const char *)data + before * (is_along ? size : o.stride);
    return o;
}

static struct tide_strip rows_of(const struct rectangle *r, int64_t group)
{
    return (struct tide_strip){.line = group * LINES, .vectors = 1, .last = r->a.cells};
}

static void pack_rows(const struct rectangle *r, int64_t group)
{
    uint32_t *to = r->a_packed + (group - r->first_group) * LINES * r->a.cells;
    tide_pack(&r->a, rows_of(r, group), to, LINES, 0);
}

/* Of a panel, from one cell to another. */
static struct tide_strip strip_of(int64_t panel, int64_t first, int64_t last)
{
    return (struct tide_strip){.line = panel * COLUMNS, .vectors = VECTORS, .first = first, .last = last};
}

/* Whether b can be read where it lies: as it is multiplied, in whole vectors and panels, and not with every
 * cell a multiple of 4096 bytes after the last, for which a cache has but a few places. */
static bool can_stay(const struct rectangle *r)
{
    enum { PAGE = 4096 };
    const struct tide_operand *b = &r->b;
    return b->to == TIDE_F32 && !b->is_along && b->lines >= r->last_panel * COLUMNS &&
           (uintptr_t)b->data % TIDE_LINE == 0 && b->stride % TIDE_LINE == 0 && b->stride % PAGE != 0;
}

/* The first of some rows and a panel. */
static struct tile first_tile(const struct rectangle *r, int64_t panel, int64_t group)
{
    const struct job *job = r->job;
    const struct tide_product *p = job->product;
    int64_t column = panel * COLUMNS, row = group * LINES;
    struct tile t = {.a = r->a_packed + (group - r->first_group) * LINES * r->a.cells,
                     .b = r->b_packed[panel & 1],
                     .b_stride = COLUMNS,
                     .cells = r->a.cells,
                     .c = job->c + (row * p->c_stride + column) * (int64_t)tide_dtype_bytes(p->to),
                     .c_stride = p->c_stride,
                     .width = smaller(COLUMNS, p->n - column),
                     .bias = p->has_bias && r->is_first ? job->bias + column : NULL,
                     .adds = p->adds || !r->is_first,
                     .squares = job->squares && r->is_last ? r->squares : NULL};
    if (r->in_place) {
        t.b = (const uint32_t *)r->b.data + column;
        t.b_stride = r->b.stride / (int64_t)sizeof *t.b;
    }
    return t;
}

/* From the tile at `row` to the one below. */
static void go_down(struct tile *t, int64_t row, enum tide_dtype to)
{
    t->a += (row + ROWS) % LINES ? ROWS : LINES * t->cells - (LINES - ROWS);
    t->c += ROWS * t->c_stride * (int64_t)tide_dtype_bytes(to);
}

/* A panel that is packed while another is multiplied: evenly, a few cells after each tile. */
struct packing {
    struct tide_strip strip; /* after this tile */
    int64_t blocks, tiles, owed;
};

static void next_strip(struct packing *p, int64_t cells)
{
    p->strip.first = p->strip.last;
    for (p->owed += p->blocks; p->owed >= p->tiles; p->owed -= p->tiles)
        p->strip.last += LANES;
    p->strip.last = smaller(p->strip.last, cells);
}

/* Before a tile of the first panel: the first one of a group packs its rows, and asks for the next group's.
 */
static void prepare_rows(const struct rectangle *r, int64_t row, struct tile *t)
{
    int64_t group = row / LINES;
    if (row % LINES)
        return;
    pack_rows(r, group);
    if (group + 1 < r->last_group)
        t->ask_more = tide_pack_lines(&r->a, rows_of(r, group + 1));
}

/* Some rows by a panel, which is packed. Meanwhile the next one is, a part of it after each tile, which has
 * asked for its memory. (In place it is only asked for.) Some of the update that is due is done in the same
 * way. */
static void multiply_rows(const struct rectangle *r, int64_t panel, int64_t first_group, int64_t last_group,
                          struct packing *packing)
{
    const struct job *job = r->job;
    int64_t end = smaller(last_group * LINES, job->product->m),
            numbers = due_numbers(job->product->from, r->a.cells);
    struct tile t = first_tile(r, panel, first_group);
    for (int64_t row = first_group * LINES; row < end; go_down(&t, row, job->product->to), row += ROWS) {
        struct tide_piece piece;
        next_strip(packing, r->b.cells);
        bool packs = packing->strip.last > packing->strip.first;
        bool updates = panel != r->first_panel && tide_due_take(job->due, r->thread, numbers, &piece);
        t.rows = smaller(ROWS, end - row);
        t.ask = packs ? tide_pack_lines(&r->b, packing->strip) : (struct tide_lines){0};
        t.ask_more = updates ? tide_piece_lines(&piece) : (struct tide_lines){0};
        if (panel == r->first_panel)
            prepare_rows(r, row, &t);
        job->tile(&t);
        if (packs && !r->in_place)
            tide_pack(&r->b, packing->strip, r->b_packed[(panel + 1) & 1], COLUMNS, LANES);
        if (updates)
            tide_piece_do(&piece);
    }
}

/* All rows of the rectangle by a panel, or as many as others have left. */
static void multiply_panel(const struct rectangle *r, int64_t panel)
{
    int64_t rows = smaller(r->last_group * LINES, r->job->product->m) - r->first_group * LINES;
    struct packing packing = {.strip = strip_of(panel + 1, 0, 0),
                              .blocks = panel + 1 < r->last_panel ? each(r->b.cells, LANES) : 0,
                              .tiles = each(rows, ROWS)};
    if (!r->parts || panel == r->first_panel) {
        multiply_rows(r, panel, r->first_group, r->last_group, &packing);
        return;
    }
    for (int64_t group = r->first_group; group < r->last_group && take_part(r->parts, true) >= 0;
         group += PART_GROUPS)
        multiply_rows(r, panel, group, smaller(group + PART_GROUPS, r->last_group), &packing);
}

/* A whole panel, for which nobody has asked. */
static void pack_panel(const struct rectangle *r, int64_t panel)
{
    enum { STEP = 2 * LANES };
    for (int64_t cell = 0; cell < r->b.cells && !r->in_place; cell += STEP) {
        int64_t next = smaller(cell + STEP, r->b.cells), end = smaller(next + STEP, r->b.cells);
        struct tide_lines ask = tide_pack_lines(&r->b, strip_of(panel, next, end));
        tide_lines_ask(&ask, 0);
        tide_pack(&r->b, strip_of(panel, cell, next), r->b_packed[panel & 1], COLUMNS, LANES);
    }
}

/* A band of a rectangle, and a block of k. */
static void multiply_block(struct rectangle *r, int64_t first)
{
    const struct tide_product *p = r->job->product;
    const struct tiling *t = &r->job->tiling;
    int64_t cells = smaller(t->block, t->cells - first);
    r->is_first = !first;
    r->is_last = first + cells == t->cells;
    r->a = operand_of(p, r->job->a, p->a_stride, !p->a_transposed, p->m, p->a_from, first, cells);
    r->b = operand_of(p, r->job->b, p->b_stride, p->b_transposed, p->n, p->b_from, first, cells);
    r->in_place = can_stay(r);
    if (r->parts) /* all but the first panel, with which the rows are packed */
        atomic_store_explicit(r->parts, parts_from(0, (r->last_panel - r->first_panel - 1) * parts_of(r)),
                              memory_order_release);
    pack_panel(r, r->first_panel);
    for (int64_t panel = r->first_panel; panel < r->last_panel; panel++)
        multiply_panel(r, panel);
}

static int64_t first_panel_of(const struct tiling *t, int64_t across)
{
    return t->panels * across / t->across;
}

/* Parts of another thread's panels, of the band and the block that were the last here as well. */
static void help(const struct jobs *jobs, const struct rectangle *own, int other)
{
    struct rectangle r = *own;
    int64_t after = first_panel_of(&r.job->tiling, other) + 1, packed = -1, part;
    struct packing none = {.tiles = 1};
    r.first_panel = -1; /* the rows are packed */
    while ((part = take_part(&desk_of(jobs, other)->parts, false)) >= 0) {
        int64_t panel = after + part / parts_of(&r),
                group = r.first_group + part % parts_of(&r) * PART_GROUPS;
        r.last_panel = panel + 1;
        r.in_place = can_stay(&r);
        if (panel != packed)
            pack_panel(&r, panel);
        packed = panel;
        multiply_rows(&r, panel, group, smaller(group + PART_GROUPS, r.last_group), &none);
    }
}

/* Whether threads may take parts over: the last product, of which each has packed all rows, and whose squares
 * are not summed, which is done thread by thread. */
static bool is_shared(const struct jobs *jobs, const struct job *job)
{
    return job == &jobs->list[jobs->count - 1] && job->tiling.down == 1 && !job->squares;
}

static void multiply_rectangle(const struct jobs *jobs, const struct job *job, int64_t number, int thread)
{
    const struct tiling *t = &job->tiling;
    struct desk *desk = desk_of(jobs, thread);
    char *room = (char *)(desk + 1);
    int64_t down = number / t->across, across = number % t->across, end = t->groups * (down + 1) / t->down;
    struct rectangle r = {.job = job,
                          .thread = thread,
                          .last_group = t->groups * down / t->down,
                          .first_panel = first_panel_of(t, across),
                          .last_panel = first_panel_of(t, across + 1),
                          .squares = desk->squares[job - jobs->list],
                          .a_packed = (uint32_t *)(void *)room,
                          .b_packed = {(uint32_t *)(void *)(room + t->a_bytes),
                                       (uint32_t *)(void *)(room + t->a_bytes + t->b_bytes)}};
    if (r.first_panel == r.last_panel)
        return;
    while (r.last_group < end) {
        r.first_group = r.last_group;
        r.last_group = smaller(r.first_group + t->band, end);
        for (int64_t cell = 0; cell < t->cells; cell += t->block) {
            bool is_end = r.last_group == end && cell + t->block >= t->cells;
            r.parts = is_end && is_shared(jobs, job) ? &desk->parts : NULL;
            multiply_block(&r, cell);
        }
    }
    for (int other = 0; other < jobs->threads && r.parts; other++)
        help(jobs, &r, other);
}

static void multiply_rectangles(void *context, int64_t first, int64_t last, int thread)
{
    const struct jobs *jobs = context;
    struct desk *desk = desk_of(jobs, thread);
    memset(desk->squares, 0, sizeof desk->squares);
    for (int i = 0; i < jobs->count; i++)
        for (int64_t number = first; number < last; number++)
            multiply_rectangle(jobs, &jobs->list[i], number, thread);
}

/* Always in the same order. */
static double sum_squares(const struct jobs *jobs, int job)
{
    double sum = 0;
    for (int thread = 0; thread < jobs->threads; thread++)
        for (int i = 0; i < LANES; i++)
            sum += desk_of(jobs, thread)->squares[job][i];
    return sum;
}

void tide_tiles_multiply(const struct tide_matmul_call *calls, int count, void *scratch, struct tide_due *due)
{
    /* As many rectangles in each product as there are threads. */
    struct jobs jobs = {.count = count, .threads = tide_threads(), .scratch = scratch};
    for (int i = 0; i < count; i++) {
        const struct tide_product *p = &calls[i].product;
        struct job *job = &jobs.list[i];
        *job = (struct job){.product = p,
                            .tiling = tiling_of(p),
                            .a = calls[i].a,
                            .b = calls[i].b,
                            .bias = calls[i].bias,
                            .c = calls[i].c,
                            .squares = calls[i].squares,
                            .due = due,
                            .tile = p->from == TIDE_F32 ? tile_f32
                                    : p->to == TIDE_F32 ? tile_bf16_to_f32
                                                        : tile_bf16};
        size_t bytes = thread_bytes(&job->tiling);
        jobs.bytes = bytes > jobs.bytes ? bytes : jobs.bytes;
    }
    for (int thread = 0; thread < jobs.threads; thread++)
        atomic_init(&desk_of(&jobs, thread)->parts, parts_from(0, 0));
    tide_parallel(jobs.threads, 1, multiply_rectangles, &jobs);
    for (int i = 0; i < count; i++)
        if (calls[i].squares)
            *calls[i].squares = sum_squares(&jobs, i);
}

#else

bool tide_tiles_can(enum tide_dtype from)
{
    (void)from;
    return false;
}

size_t tide_tiles_scratch(const struct tide_product *product)
{
    (void)product;
    return 0;
}

void tide_tiles_multiply(const struct tide_matmul_call *calls, int count, void *scratch, struct tide_due *due)
{
    (void)calls, (void)count, (void)scratch, (void)due;
    TIDE_CHECK_TRUE(!"a processor with AVX-512");
}

#endif
