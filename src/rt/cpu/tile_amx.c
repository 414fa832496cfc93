/*
 * tile_amx.c - tiles of 32 x 32 bf16: four of AMX's eight tiles are sums, two are of a, two of b.
 *
 * In a product of a few rows with a table along whose rows k runs, AMX takes the table for its rows: the
 * table is read where it lies, and the sums are transposed afterwards.
 */
#include "rt/cpu/amx.h"
#include "rt/cpu/tile_write.h"

#if defined(__x86_64__)

enum { SIDE = 16, ROWS = 2 * SIDE, COLUMNS = 2 * SIDE, STEP = 16 }; /* cells of a tile */
enum { ROW_BYTES = TIDE_CACHE_LINE, SUM_BYTES = COLUMNS * sizeof(float), SQUARE = STEP * SIDE };

/* Some lines at each step of k. */
TIDE_INLINE void ask_some(struct tide_cache_lines *lines, int64_t count)
{
    tide_cache_lines_ask(lines, lines->count > count ? lines->count - count : 0);
}

TIDE_INLINE int64_t per_step(int64_t lines, int64_t cells)
{
    return (lines * STEP + cells - 1) / cells;
}

TIDE_INLINE TIDE_AMX void begin_sums(const struct tide_tile *t, bool has_second)
{
    if (t->begins) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, t->sums, SUM_BYTES);
    _tile_loadd(1, t->sums + SIDE, SUM_BYTES);
    if (has_second) {
        _tile_loadd(2, t->sums + SIDE * COLUMNS, SUM_BYTES);
        _tile_loadd(3, t->sums + SIDE * COLUMNS + SIDE, SUM_BYTES);
    }
}

/* Its part of c, some rows at each step. */
TIDE_INLINE void ask_for_c(const struct tide_tile *t, int64_t cell)
{
    const int64_t size = t->to == TIDE_BF16 ? 2 : 4, steps = 8, rows = ROWS / steps;
    int64_t row = cell / STEP * rows;
    for (int64_t i = row; t->ends && i < row + rows && i < t->rows; i++)
        for (int64_t j = 0; j < COLUMNS * size; j += TIDE_CACHE_LINE)
            __builtin_prefetch(t->c + i * t->c_stride * size + j, 1, 3);
}

TIDE_INLINE TIDE_AMX void multiply(const struct tide_tile *t, float *sums, bool has_second)
{
    const uint32_t *a = t->a, *second = t->a + t->a_row, *b = t->b;
    struct tide_cache_lines ask = t->ask, more = t->ask_more;
    int64_t asks = per_step(ask.count, t->cells), asks_more = per_step(more.count, t->cells);
    begin_sums(t, has_second);
    for (int64_t cell = 0; cell < t->cells; cell += STEP, a += SQUARE, second += SQUARE, b += 2 * SQUARE) {
        _tile_loadd(6, b, ROW_BYTES);
        _tile_loadd(4, a, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (has_second) {
            _tile_loadd(5, second, ROW_BYTES);
            _tile_dpbf16ps(2, 5, 6);
        }
        _tile_loadd(7, b + SQUARE, ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        if (has_second)
            _tile_dpbf16ps(3, 5, 7);
        ask_for_c(t, cell);
        ask_some(&ask, asks);
        ask_some(&more, asks_more);
    }
    _tile_stored(0, sums, SUM_BYTES);
    _tile_stored(1, sums + SIDE, SUM_BYTES);
    if (has_second) {
        _tile_stored(2, sums + SIDE * COLUMNS, SUM_BYTES);
        _tile_stored(3, sums + SIDE * COLUMNS + SIDE, SUM_BYTES);
    }
}

TIDE_INLINE TIDE_AVX512 void write_sums(const struct tide_tile *t, const float *sums, enum tide_dtype to)
{
    __mmask16 first = tide_first_16(t->width), second = tide_first_16(t->width - SIDE);
    for (int64_t i = 0; i < t->rows; i++, sums += COLUMNS) {
        tide_tile_write(t, i, 0, first, _mm512_load_ps(sums), to);
        if (second)
            tide_tile_write(t, i, SIDE, second, _mm512_load_ps(sums + SIDE), to);
    }
}

TIDE_AMX static void tile_amx(const struct tide_tile *t)
{
    _Alignas(TIDE_CACHE_LINE) float room[ROWS * COLUMNS], *sums = t->ends ? room : t->sums;
    if (t->rows > SIDE)
        multiply(t, sums, true);
    else
        multiply(t, sums, false);
    if (t->ends && t->to == TIDE_F32)
        write_sums(t, sums, TIDE_F32);
    else if (t->ends)
        write_sums(t, sums, TIDE_BF16);
}

/* Columns lie in squares, those of 16 cells beside each other: a tile is read from memory that is in one
 * piece. */
static void pack_columns(const struct tide_operand *o, struct tide_strip s, uint32_t *to)
{
    for (int64_t cell = s.first; cell < s.last; cell += STEP)
        for (int64_t v = 0; v < COLUMNS; v += SIDE)
            tide_pack_avx512(o, (struct tide_strip){s.line + v, SIDE, cell, cell + STEP},
                             to + (cell + v) * SIDE);
}

/* ---- a few rows */

TIDE_AMX static void along_amx(const struct tide_few *f)
{
    _Alignas(TIDE_CACHE_LINE) uint32_t room[TIDE_FEW_CELLS * SIDE];
    const struct tide_operand *o = f->b;
    const int64_t first = f->strip.first, count = f->strip.last - first;
    const bool stays = o->from == TIDE_BF16 && f->strip.lanes == SIDE && 2 * f->strip.last <= o->numbers;
    struct tide_cache_lines ask = f->ask;
    const int64_t asks = per_step(ask.count, count);
    if (!stays)
        tide_pack_squares(o, (struct tide_strip){f->strip.line, SIDE, first, f->strip.last},
                          room - first * SIDE);
    if (f->begins)
        _tile_zero(0);
    else
        _tile_loadd(0, f->sums, ROW_BYTES);
    for (int64_t cell = 0; cell < count; cell += STEP) {
        if (stays)
            _tile_loadd(4, o->data + f->strip.line * o->stride + (first + cell) * 4, o->stride);
        else
            _tile_loadd(4, room + cell * SIDE, ROW_BYTES);
        _tile_loadd(6, f->a + cell * SIDE, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        ask_some(&ask, asks);
    }
    _tile_stored(0, f->sums, ROW_BYTES);
}

TIDE_AMX static void begin(void)
{
    tide_amx_begin();
}

TIDE_AMX static void end(void)
{
    _tile_release();
}

const struct tide_tile_kind tide_tile_amx = {.name = "AMX",
                                             .cells = TIDE_BF16,
                                             .rows = ROWS,
                                             .columns = COLUMNS,
                                             .cell_step = STEP,
                                             .block = 384,
                                             .group = 4,
                                             .rows_to_pack_for = 4096,
                                             .more_per_cell = 1,
                                             .pack_a = tide_pack_squares,
                                             .pack_b = pack_columns,
                                             .pack_cells = tide_pack_avx512,
                                             .tile = tile_amx,
                                             .along = along_amx,
                                             .begin = begin,
                                             .end = end};

#endif
