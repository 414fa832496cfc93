#include "rt/cpu/tile_products.h"
#include "base/whole.h"
#include "rt/cpu/shares.h"
#include "rt/cpu/threads.h"

/* Rows are always packed sixteen side by side, however many a tile takes. */
enum { LINES = TIDE_LANES };

/* Words of a that are packed at a time; rows of them that panels read again and again. */
enum { MOST_WORDS = 4 << 20, BAND_ROWS = 704 };

/* a is read in place if it has at most SMALL_A numbers, because it then stays in a cache; or if its rows have
 * at most SHORT_ROW numbers and at most FEW_PANELS panels read them, because packing would cost more than it
 * saves. (Products with b transposed, those of gradients, showed no gain.) */
enum { SMALL_A = 64 << 10, SHORT_ROW = 512, FEW_PANELS = 4 };

/* Rows that an idle thread steals at a time; parts per thread. */
enum { PART_ROWS = 64, PARTS_EACH = 8 };

static const double flops_worth_a_thread = 1e6;

static int64_t up_to(int64_t count, int64_t step)
{
    return tide_ceiling(count, step) * step;
}

int tide_tiles_threads(double flops)
{
    double most = flops / flops_worth_a_thread, there = (double)tide_threads();
    return most < 1 ? 1 : most < there ? (int)most : (int)there;
}

/* How a product is cut. Rows are cut into slabs; one slab at a time is packed. A slab is cut into bands,
 * columns into panels, and panels, if k is cut as well, into groups. A band by a group is a field. It
 * consists of parts, the unit that threads take. */
struct tiling {
    int64_t cells, block; /* of k: all, and at a time */
    int64_t panels, group;
    int64_t stripe;           /* rows handled together: those of a tile, at least sixteen */
    int64_t slab, band, part; /* rows, in stripes */
    int64_t threads;
    bool a_stays, b_may_stay; /* read in place; of b, only whole panels */
    size_t a_bytes, b_bytes;  /* packed: a slab, a panel */
    size_t sum_bytes;         /* sums of a band by a panel, if k is cut */
};

static bool b_may_stay(const struct tide_tile_kind *kind, const struct tide_product *p)
{
    return p->b_from == TIDE_F32 && !p->b_transposed && p->n * p->k <= kind->most_in_place;
}

static bool a_stays(const struct tide_tile_kind *kind, const struct tide_product *p)
{
    return kind->most_in_place && p->a_from == TIDE_F32 && p->m % kind->rows == 0 &&
           (p->m * p->k <= SMALL_A ||
            (!p->b_transposed && p->n <= FEW_PANELS * kind->columns && p->k <= SHORT_ROW));
}

/* Returns the least number of bands in a slab. Threads should have rows of their own: a thread reads its own
 * output in the next product, and another thread's output is slow to fetch. Each thread packs the columns it
 * multiplies, so it should have enough rows for that, unless nothing needs packing. */
static int64_t shared_by_rows(const struct tide_tile_kind *kind, const struct tiling *t)
{
    int64_t least = t->a_stays || t->b_may_stay ? t->stripe : kind->rows_to_pack_for, down = t->threads;
    while (down > 1 && (t->threads % down || t->slab * t->stripe < down * least))
        down--;
    return down;
}

static struct tiling tiling_of(const struct tide_tile_kind *kind, const struct tide_product *p)
{
    int64_t per_cell = kind->cells == TIDE_BF16 ? 2 : 1;
    struct tiling t = {.cells = up_to(tide_ceiling(p->k, per_cell), kind->cell_step),
                       .panels = tide_ceiling(p->n, kind->columns),
                       .stripe = tide_larger(kind->rows, LINES),
                       .threads = tide_tiles_threads(2.0 * (double)p->m * (double)p->n * (double)p->k),
                       .a_stays = a_stays(kind, p),
                       .b_may_stay = b_may_stay(kind, p)};
    int64_t stripes = tide_ceiling(p->m, t.stripe);
    t.block = tide_smaller(t.cells, kind->block);
    t.slab = tide_ceiling(stripes, tide_ceiling(stripes * t.stripe * t.cells, MOST_WORDS));
    int64_t bands = tide_ceiling(t.slab * t.stripe, BAND_ROWS);
    t.band = tide_ceiling(t.slab, up_to(bands, shared_by_rows(kind, &t)));
    t.group = t.block < t.cells ? tide_larger(1, tide_smaller(kind->group, t.panels / t.threads)) : 1;
    int64_t parts = tide_larger(tide_ceiling(t.slab, t.band),
                                tide_ceiling(PARTS_EACH * t.threads, tide_ceiling(t.panels, t.group)));
    t.part = tide_larger(1, tide_smaller(tide_ceiling(t.slab, parts), PART_ROWS / t.stripe));
    t.a_bytes = t.a_stays ? 0 : (size_t)(t.slab * t.stripe * t.cells) * sizeof(uint32_t);
    t.b_bytes = (size_t)(kind->columns * t.block) * sizeof(uint32_t);
    t.sum_bytes = t.block < t.cells ? (size_t)(t.band * t.stripe * kind->columns) * sizeof(float) : 0;
    return t;
}

/* Scratch holds a share per thread, then the slab, then for each thread two panels and the sums of a
 * field. */
size_t tide_tiles_scratch(const struct tide_tile_kind *kind, const struct tide_product *product)
{
    struct tiling t = tiling_of(kind, product);
    return t.a_bytes +
           (size_t)t.threads * (sizeof(struct tide_share) + 2 * t.b_bytes + (size_t)t.group * t.sum_bytes);
}

/* ---- a product */

struct job {
    const struct tide_tile_kind *kind;
    const struct tide_product *product;
    const struct tide_operands *operands;
    struct tiling tiling;
    struct tide_share *shares;
    uint32_t *a_packed;
    char *rooms;         /* of threads */
    int64_t first, last; /* stripes of the slab */
};

/* Returns `cells` cells of k of an operand, from cell `first` on. */
static struct tide_operand operand_of(const struct job *job, const void *data, int64_t stride, bool is_along,
                                      int64_t lines, enum tide_dtype from, int64_t first, int64_t cells)
{
    int64_t per_cell = job->kind->cells == TIDE_BF16 ? 2 : 1, before = first * per_cell,
            size = (int64_t)tide_dtype_bytes(from);
    struct tide_operand o =
        tide_operand_of(data, from, stride, is_along, lines,
                        tide_larger(0, tide_smaller(job->product->k - before, cells * per_cell)));
    o.to = job->kind->cells;
    o.data += before * (is_along ? size : o.stride);
    if (from == TIDE_I8 && is_along)
        o.scales -= before - before / TIDE_BLOCK * (int64_t)sizeof(float);
    return o;
}

static struct tide_operand a_of(const struct job *job, int64_t first, int64_t cells)
{
    const struct tide_product *p = job->product;
    return operand_of(job, job->operands->a, p->a_stride, !p->a_transposed, p->m, p->a_from, first, cells);
}

static struct tide_operand b_of(const struct job *job, int64_t first, int64_t cells)
{
    const struct tide_product *p = job->product;
    return operand_of(job, job->operands->b, p->b_stride, p->b_transposed, p->n, p->b_from, first, cells);
}

/* ---- rows */

/* In order of blocks of k, and within a block of groups of rows. */
static uint32_t *packed_group(const struct job *job, int64_t cell, int64_t cells, int64_t row)
{
    int64_t lines = job->tiling.slab * job->tiling.stripe, at = row - job->first * job->tiling.stripe;
    return job->a_packed + cell * lines + at * cells;
}

static void pack_group(const struct job *job, int64_t row)
{
    const struct tiling *t = &job->tiling;
    enum { STEP = 4 * TIDE_LANES };
    for (int64_t first = 0; first < t->cells; first += t->block) {
        int64_t cells = tide_smaller(t->block, t->cells - first);
        struct tide_operand a = a_of(job, first, cells);
        uint32_t *to = packed_group(job, first, cells, row);
        for (int64_t cell = 0; cell < cells; cell += STEP) {
            int64_t next = tide_smaller(cell + STEP, cells), end = tide_smaller(next + STEP, cells);
            struct tide_cache_lines ask =
                tide_pack_cache_lines(&a, (struct tide_strip){row, LINES, next, end});
            tide_cache_lines_ask(&ask, 0);
            job->kind->pack_a(&a, (struct tide_strip){row, LINES, cell, next}, to);
        }
    }
}

static void pack_groups(void *context, int64_t first, int64_t last)
{
    const struct job *job = context;
    for (int64_t group = first; group < last; group++)
        pack_group(job, job->first * job->tiling.stripe + group * LINES);
}

/* ---- fields */

/* Some rows of a field, one panel, and one block of k. */
struct sheet {
    int64_t panel, group_end;
    int64_t first, last; /* stripes; first == last: there is none */
    int64_t cell, cells;
    const uint32_t *b;
    int64_t b_cell;
    bool is_new, packs; /* of b: it differs from the sheet before; it must be packed first */
};

struct worker {
    const struct job *job;
    struct tide_taker taker;
    uint32_t *room[2];
    int used; /* the room of the last packed sheet */
    float *sums;
    struct tide_unwritten *unwritten;
};

static int64_t parts_in_field(const struct tiling *t)
{
    return tide_ceiling(t->band, t->part);
}

static int64_t groups_of(const struct tiling *t)
{
    return tide_ceiling(t->panels, t->group);
}

/* All parts, numbered by band, then by group. */
static int64_t parts_of(const struct job *job)
{
    const struct tiling *t = &job->tiling;
    return tide_ceiling(job->last - job->first, t->band) * groups_of(t) * parts_in_field(t);
}

/* True if a panel of b can be read in place: it is whole, in whole vectors and in the type that is
 * multiplied, and its cells are not a multiple of 4096 bytes apart, for which a cache has only a few
 * places. */
static bool b_stays(const struct job *job, const struct tide_operand *b, int64_t panel)
{
    enum { PAGE = 4096, FEW = 64 };
    return job->tiling.b_may_stay && (panel + 1) * job->kind->columns <= b->lines &&
           (uintptr_t)b->data % TIDE_CACHE_LINE == 0 && b->stride % TIDE_CACHE_LINE == 0 &&
           (b->stride % PAGE != 0 || b->numbers <= FEW);
}

/* Finds where the columns of a sheet are, or will be packed. */
static void find_columns(struct worker *w, const struct sheet *before, struct sheet *s)
{
    const struct job *job = w->job;
    struct tide_operand b = b_of(job, s->cell, s->cells);
    s->is_new = before->first == before->last || before->panel != s->panel || before->cell != s->cell;
    s->packs = false;
    if (!s->is_new) {
        s->b = before->b;
        s->b_cell = before->b_cell;
    } else if (b_stays(job, &b, s->panel)) {
        s->b = (const uint32_t *)(const void *)b.data + s->panel * job->kind->columns;
        s->b_cell = b.stride / (int64_t)sizeof *s->b;
    } else {
        w->used ^= 1;
        s->b = w->room[w->used];
        s->b_cell = job->kind->columns;
        s->packs = true;
    }
}

/* Returns the next panel of the same rows, or their next block of k, or else other rows. */
static struct sheet next_sheet(struct worker *w, const struct sheet *now)
{
    const struct job *job = w->job;
    const struct tiling *t = &job->tiling;
    struct sheet next = *now;
    if (++next.panel >= now->group_end) {
        next.panel = now->panel / t->group * t->group;
        next.cell = now->cell + now->cells;
    }
    if (now->first == now->last || next.cell >= t->cells) {
        int64_t part = 0, count, whole = parts_in_field(t);
        do { /* a part may lie after the last rows */
            count = tide_share_take(&w->taker, whole, &part);
            int64_t field = part / whole, band = job->first + field / groups_of(t) * t->band,
                    end = tide_smaller(band + t->band, job->last), panel = field % groups_of(t) * t->group;
            next = (struct sheet){.panel = panel,
                                  .group_end = tide_smaller(panel + t->group, t->panels),
                                  .first = tide_smaller(band + part % whole * t->part, end),
                                  .last = tide_smaller(band + (part % whole + count) * t->part, end)};
        } while (count && next.first == next.last);
        if (!count)
            return (struct sheet){0};
    }
    next.cells = tide_smaller(t->block, t->cells - next.cell);
    find_columns(w, now, &next);
    return next;
}

/* Columns that are prefetched, and packed if necessary, while others are multiplied: evenly, a few cells with
 * each tile. */
struct packing {
    struct tide_operand b;
    struct tide_strip strip; /* for the current tile */
    int64_t blocks, tiles, owed, cells;
};

static struct packing packing_of(const struct job *job, const struct sheet *s, int64_t tiles)
{
    struct packing p = {.tiles = tiles, .cells = s->cells};
    if (s->first == s->last || !s->is_new)
        return p;
    p.b = b_of(job, s->cell, s->cells);
    p.strip = (struct tide_strip){s->panel * job->kind->columns, job->kind->columns, 0, 0};
    p.blocks = tide_ceiling(s->cells, TIDE_LANES);
    return p;
}

static void next_strip(struct packing *p)
{
    p->strip.first = p->strip.last;
    for (p->owed += p->blocks; p->owed >= p->tiles; p->owed -= p->tiles)
        p->strip.last += TIDE_LANES;
    p->strip.last = tide_smaller(p->strip.last, p->cells);
}

/* Packs all columns of a sheet; nothing has prefetched them yet. */
static void pack_columns(const struct job *job, const struct sheet *s)
{
    enum { STEP = 2 * TIDE_LANES };
    struct packing p = packing_of(job, s, 1);
    for (int64_t cell = 0; cell < p.cells && s->packs; cell += STEP) {
        int64_t next = tide_smaller(cell + STEP, p.cells), end = tide_smaller(next + STEP, p.cells);
        struct tide_cache_lines ask =
            tide_pack_cache_lines(&p.b, (struct tide_strip){p.strip.line, p.strip.lanes, next, end});
        tide_cache_lines_ask(&ask, 0);
        job->kind->pack_b(&p.b, (struct tide_strip){p.strip.line, p.strip.lanes, cell, next},
                          (uint32_t *)s->b);
    }
}

static struct tide_tile first_tile(const struct job *job, const struct sheet *s)
{
    const struct tide_product *p = job->product;
    const struct tiling *t = &job->tiling;
    int64_t column = s->panel * job->kind->columns, row = s->first * t->stripe;
    int64_t at = (row * p->c_stride + column) * (int64_t)tide_dtype_bytes(p->to);
    const char *add = job->operands->added;
    struct tide_tile tile = {.b = s->b,
                             .b_cell = s->b_cell,
                             .cells = s->cells,
                             .c = (char *)job->operands->c + at,
                             .c_stride = p->c_stride,
                             .to = p->to,
                             .width = tide_smaller(job->kind->columns, p->n - column),
                             .bias = job->operands->bias ? job->operands->bias + column : NULL,
                             .add = add ? add + at : NULL,
                             .relu = p->relu,
                             .begins = !s->cell,
                             .ends = s->cell + s->cells == t->cells};
    return tile;
}

/* Finds the tile's rows, in place or packed. */
static void find_rows(const struct job *job, const struct sheet *s, int64_t row, struct tide_tile *tile)
{
    const struct tide_product *p = job->product;
    if (job->tiling.a_stays) {
        tile->a_row = p->a_transposed ? 1 : p->a_stride;
        tile->a_cell = p->a_transposed ? p->a_stride : 1;
        tile->a = (const uint32_t *)job->operands->a + row * tile->a_row + s->cell * tile->a_cell;
        return;
    }
    tile->a = packed_group(job, s->cell, s->cells, row / LINES * LINES) + row % LINES;
    tile->a_row = job->kind->rows > LINES ? LINES * s->cells : 1;
    tile->a_cell = LINES;
}

/* Meanwhile packs the next columns, some after each tile, which has prefetched them. */
static void multiply_sheet(const struct worker *w, const struct sheet *now, const struct sheet *next)
{
    const struct job *job = w->job;
    const struct tide_product *p = job->product;
    const struct tiling *t = &job->tiling;
    int64_t row = now->first * t->stripe, end = tide_smaller(now->last * t->stripe, p->m),
            rows = job->kind->rows, step = rows * p->c_stride * (int64_t)tide_dtype_bytes(p->to);
    struct packing packing = packing_of(job, next, tide_ceiling(end - row, rows));
    struct tide_tile tile = first_tile(job, now);
    tile.unwritten = w->unwritten;
    tile.sums = w->sums + (size_t)(now->panel % t->group) * (t->sum_bytes / sizeof(float));
    for (; row < end; row += rows) {
        next_strip(&packing);
        bool asks = packing.strip.last > packing.strip.first;
        find_rows(job, now, row, &tile);
        tile.rows = tide_smaller(rows, end - row);
        tile.ask = asks ? tide_pack_cache_lines(&packing.b, packing.strip) : (struct tide_cache_lines){0};
        job->kind->tile(&tile);
        if (asks && next->packs)
            job->kind->pack_b(&packing.b, packing.strip, (uint32_t *)next->b);
        tile.c += step;
        tile.add += tile.add ? step : 0;
        tile.sums += rows * job->kind->columns;
    }
}

static void multiply_fields(void *context, int64_t first, int64_t last)
{
    const struct job *job = context;
    const struct tiling *t = &job->tiling;
    int thread = tide_thread();
    char *room = job->rooms + (size_t)thread * (2 * t->b_bytes + (size_t)t->group * t->sum_bytes);
    struct tide_unwritten unwritten;
    struct worker w = {.job = job, .taker = {job->shares, t->threads, thread, 0}, .unwritten = &unwritten};
    struct sheet none = {0};
    (void)first, (void)last;
    unwritten.tile = (struct tide_tile){0}; /* empty; its sums need not be set */
    unwritten.row = 0;
    w.room[0] = (uint32_t *)(void *)room;
    w.room[1] = (uint32_t *)(void *)(room + t->b_bytes);
    w.sums = (float *)(void *)(room + 2 * t->b_bytes);
    if (job->kind->begin)
        job->kind->begin();
    struct sheet now = next_sheet(&w, &none);
    pack_columns(job, &now);
    while (now.first < now.last) {
        struct sheet next = next_sheet(&w, &now);
        multiply_sheet(&w, &now, &next);
        now = next;
    }
    if (job->kind->finish)
        job->kind->finish(&unwritten);
    if (job->kind->end)
        job->kind->end();
}

static void multiply_slab(struct job *job)
{
    const struct tiling *t = &job->tiling;
    int64_t parts = parts_of(job),
            groups = tide_ceiling(
                tide_smaller(job->last * t->stripe, job->product->m) - job->first * t->stripe, LINES);
    enum { GROUPS_EACH = 2 };
    groups = up_to(groups, t->stripe / LINES);
    if (!t->a_stays)
        tide_parallel(groups, tide_larger(GROUPS_EACH, tide_ceiling(groups, t->threads)), pack_groups, job);
    tide_shares_begin(job->shares, t->threads, parts);
    tide_parallel(t->threads, 1, multiply_fields, job);
}

void tide_tiles_multiply(const struct tide_tile_kind *kind, const struct tide_product *product,
                         const struct tide_operands *operands, void *scratch)
{
    struct job job = {.kind = kind, .product = product, .operands = operands, .shares = scratch};
    struct tiling *t = &job.tiling;
    *t = tiling_of(kind, job.product);
    char *room = (char *)scratch + (size_t)t->threads * sizeof(struct tide_share);
    job.a_packed = (uint32_t *)(void *)room;
    job.rooms = room + t->a_bytes;
    int64_t stripes = tide_ceiling(job.product->m, t->stripe);
    for (job.first = 0; job.first < stripes; job.first = job.last) {
        job.last = tide_smaller(job.first + t->slab, stripes);
        multiply_slab(&job);
    }
}
