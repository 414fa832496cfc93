/*
 * tile_avx2.c - tiles of 4 x 24, also of windows: twelve vectors of sums, three of b and one of a use all
 * sixteen registers.
 */
#include "base/whole.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/tile.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))

enum { ROWS = 4, VECTORS = 3, LANES = 8, COLUMNS = VECTORS * LANES, AHEAD = 16 };

/* Eight numbers of a row, all with the same scale if they have one. */
TIDE_INLINE AVX2 __m256 read_8(const struct tide_operand *o, const char *row, int64_t at,
                               enum tide_dtype from)
{
    const char *place = row + at * (int64_t)tide_dtype_bytes(from);
    if (from == TIDE_F32)
        return _mm256_loadu_ps((const float *)(const void *)place);
    if (from == TIDE_BF16)
        return (__m256)_mm256_slli_epi32(
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)place)), 16);
    __m256i whole = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)place));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(whole), _mm256_set1_ps(tide_operand_scale(o, row, at)));
}

/* Transposes eight cells of eight lines that k runs along. */
TIDE_INLINE AVX2 void pack_square(const struct tide_operand *o, int64_t line, int64_t cell, float *to,
                                  int64_t lanes, enum tide_dtype from)
{
    const char *row = o->data + line * o->stride;
    __m256 r[8], t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = read_8(o, row + i * o->stride, cell, from);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * lanes, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * lanes, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* For strips whose lines and cells all exist. */
TIDE_INLINE AVX2 void pack_whole(const struct tide_operand *o, struct tide_strip s, float *to,
                                 enum tide_dtype from)
{
    const int64_t lanes = s.lanes, stride = o->stride;
    if (o->is_along) {
        for (int64_t lane = 0; lane < lanes; lane += LANES)
            for (int64_t cell = s.first; cell < s.last; cell += LANES)
                pack_square(o, s.line + lane, cell, to + cell * lanes + lane, lanes, from);
        return;
    }
    for (int64_t cell = s.first; cell < s.last; cell++)
        for (int64_t lane = 0; lane < lanes; lane += LANES)
            _mm256_storeu_ps(to + cell * lanes + lane,
                             read_8(o, o->data + cell * stride, s.line + lane, from));
}

AVX2 static void pack_avx2(const struct tide_operand *o, struct tide_strip s, uint32_t *to)
{
    int64_t end = tide_smaller(s.last, o->numbers),
            whole = o->is_along ? s.first + (end - s.first) / LANES * LANES : end;
    struct tide_strip first = {s.line, s.lanes, s.first, whole};
    if (s.line + s.lanes > o->lines || whole <= s.first) {
        tide_pack(o, s, to);
        return;
    }
    if (o->from == TIDE_F32)
        pack_whole(o, first, (float *)(void *)to, TIDE_F32);
    else if (o->from == TIDE_BF16)
        pack_whole(o, first, (float *)(void *)to, TIDE_BF16);
    else
        pack_whole(o, first, (float *)(void *)to, TIDE_I8);
    if (whole < s.last) /* fewer than eight, with one scale, and zeros */
        tide_pack(o, (struct tide_strip){s.line, s.lanes, whole, s.last}, to);
}

/* ---- tiles */

TIDE_INLINE AVX2 void begin_sums(__m256 sums[ROWS][VECTORS], bool begins, const float *kept)
{
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            sums[i][v] = begins ? _mm256_setzero_ps() : _mm256_load_ps(kept + i * COLUMNS + v * LANES);
}

TIDE_INLINE AVX2 void keep_sums(__m256 sums[ROWS][VECTORS], float *to)
{
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            _mm256_store_ps(to + i * COLUMNS + v * LANES, sums[i][v]);
}

/* Writes whole vectors of a row; there may be fewer than VECTORS. */
TIDE_INLINE AVX2 void write_row(char *c, const char *add, const float *bias, bool relu, int64_t width,
                                const __m256 sums[VECTORS])
{
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) {
        __m256 sum = sums[v];
        if (v * LANES >= width)
            break;
        if (bias)
            sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias + v * LANES));
        if (add)
            sum = _mm256_add_ps(sum, _mm256_loadu_ps((const float *)(const void *)add + v * LANES));
        if (relu)
            sum = _mm256_max_ps(sum, _mm256_setzero_ps());
        _mm256_storeu_ps((float *)(void *)c + v * LANES, sum);
    }
}

TIDE_INLINE AVX2 void multiply(const struct tide_tile *t, const int64_t a_row, const int64_t a_cell)
{
    __m256 sums[ROWS][VECTORS];
    const float *a = (const float *)(const void *)t->a, *b = (const float *)(const void *)t->b;
    const int64_t b_cell = t->b_cell;
    struct tide_cache_lines ask = t->ask;
    int64_t asks = (ask.count * AHEAD + t->cells - 1) / t->cells;
    begin_sums(sums, t->begins, t->sums);
    for (int64_t cell = 0; cell < t->cells;) {
        int64_t stop = cell + AHEAD < t->cells ? cell + AHEAD : t->cells;
        tide_cache_lines_ask_some(&ask, asks);
#pragma GCC unroll 4
        for (; cell < stop; cell++, a += a_cell, b += b_cell) {
            __m256 columns[VECTORS];
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++)
                columns[v] = _mm256_loadu_ps(b + v * LANES);
#pragma GCC unroll 4
            for (int i = 0; i < ROWS; i++) {
                __m256 row = _mm256_broadcast_ss(a + i * a_row);
#pragma GCC unroll 3
                for (int v = 0; v < VECTORS; v++)
                    sums[i][v] = _mm256_fmadd_ps(row, columns[v], sums[i][v]);
            }
        }
    }
    if (t->ends && t->to == TIDE_F32 && t->rows == ROWS && t->width % LANES == 0) {
        const int64_t row = t->c_stride * (int64_t)sizeof(float);
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++)
            write_row(t->c + i * row, t->add ? t->add + i * row : NULL, t->bias, t->relu, t->width, sums[i]);
        return;
    }
    _Alignas(32) float room[ROWS * COLUMNS], *all = t->ends ? room : t->sums;
    keep_sums(sums, all);
    if (t->ends)
        tide_tile_write_plainly(t, all, COLUMNS);
}

AVX2 static void tile_avx2(const struct tide_tile *t)
{
    if (t->a_row == 1 && t->a_cell == TIDE_LANES)
        multiply(t, 1, TIDE_LANES);
    else
        multiply(t, t->a_row, t->a_cell);
}

/* ---- a few rows: as in AVX-512, but four rows by 24 columns, and eight lines at a time */

TIDE_INLINE AVX2 void across_rows(const struct tide_few *f, int64_t row, const int rows, const bool is_packed,
                                  enum tide_dtype from)
{
    const int64_t size = (int64_t)tide_dtype_bytes(from), line = f->strip.line, last = f->strip.last;
    const struct tide_operand b = *f->b;
    const char *place = b.data + f->strip.first * b.stride;
    const float *a = (const float *)(const void *)f->a + row,
                *packed = (const float *)(const void *)f->packed;
    float *kept = f->sums + row * COLUMNS;
    __m256 sums[ROWS][VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            sums[i][v] = f->begins ? _mm256_setzero_ps() : _mm256_loadu_ps(kept + i * COLUMNS + v * LANES);
    for (int64_t cell = f->strip.first; cell < last; cell++, a += f->a_cell, place += b.stride) {
        __m256 columns[VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            columns[v] =
                is_packed ? _mm256_loadu_ps(packed + v * LANES) : read_8(&b, place, line + v * LANES, from);
        for (int64_t i = 0; !is_packed && i < COLUMNS * size; i += TIDE_CACHE_LINE)
            _mm_prefetch(place + f->ahead + line * size + i, _MM_HINT_T1);
        packed += is_packed ? COLUMNS : 0;
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            __m256 factor = _mm256_broadcast_ss(a + i);
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++)
                sums[i][v] = _mm256_fmadd_ps(factor, columns[v], sums[i][v]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            _mm256_storeu_ps(kept + i * COLUMNS + v * LANES, sums[i][v]);
}

TIDE_INLINE AVX2 void across_from(const struct tide_few *f, const bool is_packed, enum tide_dtype from)
{
    if (f->rows == 1)
        across_rows(f, 0, 1, is_packed, from);
    for (int64_t row = 0; f->rows > 1 && row < f->rows; row += ROWS)
        across_rows(f, row, ROWS, is_packed, from);
}

AVX2 static void across_avx2(const struct tide_few *f)
{
    if (f->packed)
        across_from(f, true, TIDE_F32);
    else if (f->b->from == TIDE_F32)
        across_from(f, false, TIDE_F32);
    else if (f->b->from == TIDE_BF16)
        across_from(f, false, TIDE_BF16);
    else
        across_from(f, false, TIDE_I8);
}

/* Cells of a line of the strip; zeros beyond an edge. */
TIDE_INLINE AVX2 void read_line(const struct tide_few *f, int64_t line, float *to, enum tide_dtype from)
{
    const struct tide_operand *o = f->b;
    const char *row = o->data + (f->strip.line + line) * o->stride;
    int64_t cell = f->strip.first,
            whole = line < f->strip.lanes ? tide_smaller(f->strip.last, o->numbers) : cell;
    for (; cell + LANES <= whole; cell += LANES, to += LANES)
        _mm256_storeu_ps(to, read_8(o, row, cell, from));
    for (; cell < f->strip.last; cell++)
        *to++ = cell < whole ? (float)tide_operand_number(o, row, cell) : 0;
}

/* Eight rows of a by eight lines of b. */
TIDE_INLINE AVX2 void along_lines(const struct tide_few *f, int64_t row, int64_t line,
                                  const float cells[][TIDE_FEW_CELLS])
{
    enum { LINES = 8 };
    const float *a = (const float *)(const void *)f->a + row;
    float *kept = f->sums + line * TIDE_LANES + row;
    const int64_t count = f->strip.last - f->strip.first;
    __m256 sums[LINES];
#pragma GCC unroll 8
    for (int j = 0; j < LINES; j++)
        sums[j] = f->begins ? _mm256_setzero_ps() : _mm256_loadu_ps(kept + j * TIDE_LANES);
    for (int64_t k = 0; k < count; k++, a += TIDE_LANES) {
        __m256 factors = _mm256_loadu_ps(a);
#pragma GCC unroll 8
        for (int j = 0; j < LINES; j++)
            sums[j] = _mm256_fmadd_ps(factors, _mm256_broadcast_ss(&cells[line + j][k]), sums[j]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < LINES; j++)
        _mm256_storeu_ps(kept + j * TIDE_LANES, sums[j]);
}

AVX2 static void along_avx2(const struct tide_few *f)
{
    _Alignas(TIDE_CACHE_LINE) float cells[TIDE_FEW_LINES][TIDE_FEW_CELLS];
    struct tide_cache_lines ask = f->ask;
    int64_t asks = ask.count / TIDE_FEW_LINES + 1;
    for (int64_t j = 0; j < TIDE_FEW_LINES; j++) {
        tide_cache_lines_ask_some(&ask, asks);
        if (f->b->from == TIDE_F32)
            read_line(f, j, cells[j], TIDE_F32);
        else if (f->b->from == TIDE_BF16)
            read_line(f, j, cells[j], TIDE_BF16);
        else
            read_line(f, j, cells[j], TIDE_I8);
    }
    for (int64_t row = 0; row < f->rows; row += LANES)
        for (int64_t line = 0; line < TIDE_FEW_LINES; line += LANES)
            along_lines(f, row, line, cells);
}

/* ---- windows */

static void write_window(const struct tide_window_tile *t, const float *sums)
{
    struct tide_tile row = {.to = t->to, .rows = 1, .width = t->width, .bias = t->bias, .relu = t->relu};
    for (int64_t i = 0; i < t->rows; i++) {
        row.c = t->c + t->c_row[i];
        row.add = t->add ? t->add + t->c_row[i] : NULL;
        tide_tile_write_plainly(&row, sums + i * COLUMNS, COLUMNS);
    }
}

/* cuts: only some lanes of the last vector may be read. */
TIDE_INLINE AVX2 void multiply_window(const struct tide_window_tile *t, const int vectors, const bool cuts)
{
    __m256 sums[ROWS][VECTORS];
    const float *a[ROWS];
    const int64_t b_cell = t->b_cell, a_cell = t->a_cell;
    const __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)t->width - (vectors - 1) * LANES),
                                             _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    begin_sums(sums, t->begins, t->sums);
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
        a[i] = (const float *)(const void *)t->a[i];
    for (int64_t s = 0; s < t->stretch_count; s++) {
        const struct tide_stretch stretch = t->stretches[s];
        const float *b = (const float *)(const void *)t->b + stretch.b * b_cell;
        int64_t at = stretch.a;
        for (int64_t cell = 0; cell < stretch.cells; cell++, at += a_cell, b += b_cell) {
            __m256 columns[VECTORS];
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++)
                columns[v] = cuts && v == vectors - 1 ? _mm256_maskload_ps(b + v * LANES, lanes)
                                                      : _mm256_loadu_ps(b + v * LANES);
#pragma GCC unroll 4
            for (int i = 0; i < ROWS; i++) {
                __m256 row = _mm256_broadcast_ss(a[i] + at);
#pragma GCC unroll 3
                for (int v = 0; v < vectors; v++)
                    sums[i][v] = _mm256_fmadd_ps(row, columns[v], sums[i][v]);
            }
        }
    }
    if (t->ends && t->to == TIDE_F32 && t->rows == ROWS && t->width == COLUMNS) {
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++)
            write_row(t->c + t->c_row[i], t->add ? t->add + t->c_row[i] : NULL, t->bias, t->relu, COLUMNS,
                      sums[i]);
        return;
    }
    _Alignas(32) float room[ROWS * COLUMNS], *all = t->ends ? room : t->sums;
    keep_sums(sums, all);
    if (t->ends)
        write_window(t, all);
}

AVX2 static void window_avx2(const struct tide_window_tile *t)
{
    if (t->width > 2 * LANES && !t->is_cut)
        multiply_window(t, 3, false);
    else if (t->width > 2 * LANES)
        multiply_window(t, 3, true);
    else if (t->width > LANES)
        multiply_window(t, 2, true);
    else
        multiply_window(t, 1, true);
}

const struct tide_tile_kind tide_tile_avx2 = {.name = "AVX2",
                                              .cells = TIDE_F32,
                                              .rows = ROWS,
                                              .columns = COLUMNS,
                                              .cell_step = 1,
                                              .most_in_place = 256 << 10,
                                              .block = 768,
                                              .group = 4,
                                              .rows_to_pack_for = 128,
                                              .pack_a = pack_avx2,
                                              .pack_b = pack_avx2,
                                              .pack_cells = pack_avx2,
                                              .tile = tile_avx2,
                                              .across = across_avx2,
                                              .along = along_avx2,
                                              .window = window_avx2};

#endif
