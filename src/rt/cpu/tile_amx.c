/*
 * tile_amx.c - tiles of 32 x 32 bf16: of AMX's eight tiles, four hold sums, two hold a, two hold b.
 *
 * AMX multiplies so fast that writing takes longer. So a tile's results are written a few rows at a time
 * while the next tile is multiplied, and past the caches if c need not be read first. Columns of b stay in
 * the first-level cache; rows of a pass through once and use streaming loads.
 *
 * In a product of a few rows with a table whose rows k runs along, AMX uses the table as its rows: the table
 * is read in place, and the sums are transposed afterwards.
 */
#include "rt/cpu/amx.h"
#include "rt/cpu/tile_write.h"

#if defined(__x86_64__)

enum { SIDE = 16, ROWS = 2 * SIDE, COLUMNS = 2 * SIDE, STEP = 16 }; /* STEP: cells of a tile */
enum { ROW_BYTES = TIDE_CACHE_LINE, SUM_BYTES = COLUMNS * sizeof(float), SQUARE = STEP * SIDE };

/* How many lines to prefetch, or rows to write, at each step of k. */
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

/* ---- numbers of c */

/* True if c consists of whole cache lines that need not be read. */
TIDE_INLINE bool goes_past_caches(const struct tide_tile *t)
{
    return !t->add && t->width == COLUMNS && (uintptr_t)t->c % TIDE_CACHE_LINE == 0 &&
           t->c_stride * (int64_t)tide_dtype_bytes(t->to) % TIDE_CACHE_LINE == 0;
}

TIDE_INLINE TIDE_AVX512 __m512 with_bias_and_relu(const struct tide_tile *t, int64_t j, __m512 sum)
{
    if (t->bias)
        sum = _mm512_add_ps(sum, _mm512_loadu_ps(t->bias + j));
    return t->relu ? _mm512_max_ps(sum, _mm512_setzero_ps()) : sum;
}

TIDE_INLINE TIDE_AVX512 void write_past_caches(const struct tide_tile *t, int64_t i, const float *sums)
{
    char *row = t->c + i * t->c_stride * (int64_t)tide_dtype_bytes(t->to);
    __m512 first = with_bias_and_relu(t, 0, _mm512_load_ps(sums)),
           second = with_bias_and_relu(t, SIDE, _mm512_load_ps(sums + SIDE));
    if (t->to == TIDE_F32) {
        _mm512_stream_ps((float *)(void *)row, first);
        _mm512_stream_ps((float *)(void *)row + SIDE, second);
    } else {
        __m512i low = _mm512_castsi256_si512(_mm512_cvtepi32_epi16(tide_narrow_16(first)));
        _mm512_stream_si512((__m512i *)(void *)row,
                            _mm512_inserti64x4(low, _mm512_cvtepi32_epi16(tide_narrow_16(second)), 1));
    }
}

TIDE_INLINE TIDE_AVX512 void write_row(const struct tide_tile *t, int64_t i, const float *sums)
{
    __mmask16 second = tide_first_16(t->width - SIDE);
    tide_tile_write(t, i, 0, tide_first_16(t->width), _mm512_load_ps(sums), t->to);
    if (second)
        tide_tile_write(t, i, SIDE, second, _mm512_load_ps(sums + SIDE), t->to);
}

/* Writes the next `rows` rows, or those that are left. */
TIDE_INLINE TIDE_AVX512 void write_some(struct tide_unwritten *u, int64_t rows)
{
    int64_t end = u->row + rows < u->tile.rows ? u->row + rows : u->tile.rows;
    bool past_caches = goes_past_caches(&u->tile);
    for (; u->row < end; u->row++)
        if (past_caches)
            write_past_caches(&u->tile, u->row, u->sums + u->row * COLUMNS);
        else
            write_row(&u->tile, u->row, u->sums + u->row * COLUMNS);
}

TIDE_AVX512 static void finish(struct tide_unwritten *unwritten)
{
    write_some(unwritten, ROWS);
    _mm_sfence();
}

/* ---- multiplying */

/* Prefetches the tile's part of c, some rows at each step. */
TIDE_INLINE void ask_for_c(const struct tide_tile *t, int64_t cell)
{
    const int64_t size = (int64_t)tide_dtype_bytes(t->to), steps = 8, rows = ROWS / steps;
    int64_t row = cell / STEP * rows;
    for (int64_t i = row; i < row + rows && i < t->rows; i++)
        for (int64_t j = 0; j < COLUMNS * size; j += TIDE_CACHE_LINE)
            __builtin_prefetch(t->c + i * t->c_stride * size + j, 1, 3);
}

TIDE_INLINE TIDE_AMX void multiply(const struct tide_tile *t, bool has_second)
{
    const uint32_t *a = t->a, *second = t->a + t->a_row, *b = t->b;
    struct tide_cache_lines ask = t->ask;
    struct tide_unwritten *before = t->unwritten;
    int64_t asks = per_step(ask.count, t->cells),
            writes = per_step(before->tile.rows - before->row, t->cells);
    bool asks_for_c = t->ends && !goes_past_caches(t);
    begin_sums(t, has_second);
    for (int64_t cell = 0; cell < t->cells; cell += STEP, a += SQUARE, second += SQUARE, b += 2 * SQUARE) {
        _tile_loadd(6, b, ROW_BYTES);
        _tile_stream_loadd(4, a, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (has_second) {
            _tile_stream_loadd(5, second, ROW_BYTES);
            _tile_dpbf16ps(2, 5, 6);
        }
        _tile_loadd(7, b + SQUARE, ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        if (has_second)
            _tile_dpbf16ps(3, 5, 7);
        write_some(before, writes);
        if (asks_for_c)
            ask_for_c(t, cell);
        tide_cache_lines_ask_some(&ask, asks);
    }
    float *sums = t->ends ? before->sums : t->sums;
    _tile_stored(0, sums, SUM_BYTES);
    _tile_stored(1, sums + SIDE, SUM_BYTES);
    if (has_second) {
        _tile_stored(2, sums + SIDE * COLUMNS, SUM_BYTES);
        _tile_stored(3, sums + SIDE * COLUMNS + SIDE, SUM_BYTES);
    }
    if (t->ends) {
        before->tile = *t;
        before->row = 0;
    }
}

TIDE_AMX static void tile_amx(const struct tide_tile *t)
{
    if (t->rows > SIDE)
        multiply(t, true);
    else
        multiply(t, false);
}

/* Packs columns in squares of 16 x 16 cells, so that a tile is loaded from contiguous memory. */
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
        tide_cache_lines_ask_some(&ask, asks);
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
                                             .block = 192,
                                             .group = 4,
                                             .rows_to_pack_for = 4096,
                                             .pack_a = tide_pack_squares,
                                             .pack_b = pack_columns,
                                             .pack_cells = tide_pack_avx512,
                                             .tile = tile_amx,
                                             .finish = finish,
                                             .along = along_amx,
                                             .begin = begin,
                                             .end = end};

#endif
