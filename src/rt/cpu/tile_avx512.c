/*
 * tile_avx512.c - tiles of 8 x 48, also of windows: 24 vectors of sums and three of b, out of 32 registers.
 */
#include "rt/cpu/read_avx512.h"
#include "rt/cpu/tile_write.h"

#if defined(__x86_64__)

enum { ROWS = 8, VECTORS = 3, LANES = TIDE_LANES };

TIDE_INLINE TIDE_AVX512 void write_sums(const struct tide_tile *t, __m512 sums[ROWS][VECTORS],
                                        const int vectors, enum tide_dtype to)
{
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) {
        __mmask16 lanes = tide_first_16(t->width - v * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            if (i >= t->rows || !lanes)
                break;
            tide_tile_write(t, i, v * LANES, lanes, sums[i][v], to);
        }
    }
}

/* What a tile prefetches while it multiplies: its part of c, and the next columns. */
struct asking {
    const char *c;
    int64_t c_left, c_bytes;
    struct tide_cache_lines ask;
    int64_t at_a_time;
};

enum { AHEAD = 16 }; /* cells; b is in the second-level cache */

TIDE_INLINE struct asking asking_of(const struct tide_tile *t)
{
    return (struct asking){.c = t->c,
                           .c_left = t->ends ? t->rows : 0,
                           .c_bytes = t->c_stride * (int64_t)tide_dtype_bytes(t->to),
                           .ask = t->ask,
                           .at_a_time = t->ask.count ? (t->ask.count * AHEAD + t->cells - 1) / t->cells : 0};
}

TIDE_INLINE void ask_some(struct asking *a)
{
    tide_cache_lines_ask_some(&a->ask, a->at_a_time);
    if (a->c_left > 0) {
        for (int v = 0; v < VECTORS; v++)
            __builtin_prefetch(a->c + v * TIDE_CACHE_LINE, 1, 3);
        a->c += a->c_bytes;
        a->c_left--;
    }
}

#define READ_COLUMNS(i, v, with)                                                                             \
    if ((v) < vectors) {                                                                                     \
        columns[v] = _mm512_load_ps(b + (v)*LANES);                                                          \
        _mm_prefetch((const char *)(b + AHEAD * b_cell + (v)*LANES), _MM_HINT_T0);                           \
    }
#define ADD_ROW(i, PRODUCT)                                                                                  \
    row = (__m512)_mm512_set1_epi32((int)a[(i)*a_row]);                                                      \
    TIDE_EACH_VECTOR(TIDE_ADD, i, PRODUCT)

/* The bf16 product needs a target with its instruction, so the loop is a macro for both. */
#define MULTIPLY(name, marks, PRODUCT)                                                                       \
    TIDE_INLINE marks void name(const struct tide_tile *t, const int64_t a_row, const int64_t a_cell,        \
                                const int vectors)                                                           \
    {                                                                                                        \
        __m512 sums[ROWS][VECTORS], own[ROWS][VECTORS];                                                      \
        const uint32_t *a = t->a, *b = t->b;                                                                 \
        const int64_t b_cell = t->b_cell;                                                                    \
        struct asking asking = asking_of(t);                                                                 \
        _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++)                                               \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) sums[i][v] =                           \
                t->begins ? _mm512_setzero_ps() : _mm512_load_ps(t->sums + (i * VECTORS + v) * LANES);       \
        TIDE_EACH_ROW(TIDE_TAKE_ROW, )                                                                       \
        for (int64_t cell = 0; cell < t->cells;) {                                                           \
            int64_t stop = cell + AHEAD < t->cells ? cell + AHEAD : t->cells;                                \
            ask_some(&asking);                                                                               \
            for (; cell < stop; cell++, a += a_cell, b += b_cell) {                                          \
                __m512 columns[VECTORS], row;                                                                \
                TIDE_EACH_VECTOR(READ_COLUMNS, , )                                                           \
                TIDE_EACH_ROW(ADD_ROW, PRODUCT)                                                              \
            }                                                                                                \
        }                                                                                                    \
        TIDE_EACH_ROW(TIDE_GIVE_ROW, )                                                                       \
        if (!t->ends)                                                                                        \
            tide_sums_keep(t->sums, sums, vectors);                                                          \
        else if (t->to == TIDE_F32)                                                                          \
            write_sums(t, sums, vectors, TIDE_F32);                                                          \
        else                                                                                                 \
            write_sums(t, sums, vectors, TIDE_BF16);                                                         \
    }

MULTIPLY(multiply_f32, TIDE_AVX512, TIDE_F32_PRODUCT)
MULTIPLY(multiply_bf16, TIDE_AVX512_BF16, TIDE_BF16_PRODUCT)

/* The last columns may need fewer vectors. */
#define TILE(name, marks, multiply)                                                                          \
    TIDE_INLINE marks void name(const struct tide_tile *t, const int64_t a_row, const int64_t a_cell)        \
    {                                                                                                        \
        if (t->width > 2 * LANES)                                                                            \
            multiply(t, a_row, a_cell, 3);                                                                   \
        else if (t->width > LANES)                                                                           \
            multiply(t, a_row, a_cell, 2);                                                                   \
        else                                                                                                 \
            multiply(t, a_row, a_cell, 1);                                                                   \
    }
TILE(tile_of_f32, TIDE_AVX512, multiply_f32)
TILE(tile_of_bf16, TIDE_AVX512_BF16, multiply_bf16)

TIDE_AVX512 static void tile_f32(const struct tide_tile *t)
{
    if (t->a_row == 1 && t->a_cell == LANES)
        tile_of_f32(t, 1, LANES);
    else
        tile_of_f32(t, t->a_row, t->a_cell);
}

TIDE_AVX512_BF16 static void tile_bf16(const struct tide_tile *t)
{
    tile_of_bf16(t, 1, LANES);
}

/* ---- a few rows */

/* Prefetches the columns next to a strip in this row, and the same columns of a later row. */
TIDE_INLINE void ask_for_row(const char *row, int64_t beside, int64_t ahead, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += TIDE_CACHE_LINE) {
        _mm_prefetch(row + beside + i, _MM_HINT_T0);
        _mm_prefetch(row + ahead + i, _MM_HINT_T1);
    }
}

/* Multiplies rows from `row` on by the columns of a strip. */
#define ACROSS(name, as, PRODUCT)                                                                            \
    TIDE_INLINE TIDE_AVX512_BF16 void name(const struct tide_few *f, int64_t row, const int rows,            \
                                           const bool is_packed, enum tide_dtype from)                       \
    {                                                                                                        \
        enum { COLUMNS = VECTORS * LANES };                                                                  \
        const int64_t per_cell = (as) == TIDE_BF16 ? 2 : 1, size = (int64_t)tide_dtype_bytes(from),          \
                      line = f->strip.line, last = f->strip.last, beside = f->beside, ahead = f->ahead,      \
                      a_cell = f->a_cell;                                                                    \
        const struct tide_operand b = *f->b;                                                                 \
        const char *place = b.data + f->strip.first * per_cell * b.stride;                                   \
        const uint32_t *a = f->a + row, *packed = f->packed;                                                 \
        float *kept = f->sums + row * COLUMNS;                                                               \
        __m512 sums[ROWS][VECTORS];                                                                          \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                               \
            _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++) sums[i][v] =                           \
                f->begins ? _mm512_setzero_ps() : _mm512_loadu_ps(kept + i * COLUMNS + v * LANES);           \
        for (int64_t cell = f->strip.first; cell < last; cell++, a += a_cell) {                              \
            __m512 columns[VECTORS];                                                                         \
            const bool two = cell * per_cell + 1 < b.numbers;                                                \
            _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++) columns[v] =                           \
                is_packed ? _mm512_load_ps(packed + v * LANES)                                               \
                          : (__m512)tide_cell_across(&b, place, line + v * LANES, 0xffff, two, from, as);    \
            for (int64_t i = 0; !is_packed && i < per_cell; i++, place += b.stride)                          \
                ask_for_row(place + line * size, beside, ahead, COLUMNS * size);                             \
            packed += is_packed ? COLUMNS : 0;                                                               \
            _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                           \
            {                                                                                                \
                __m512 factor = (__m512)_mm512_set1_epi32((int)a[i]);                                        \
                _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++) sums[i][v] =                       \
                    PRODUCT(sums[i][v], factor, columns[v]);                                                 \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                               \
            _Pragma("GCC unroll 3") for (int v = 0; v < VECTORS; v++)                                        \
                _mm512_storeu_ps(kept + i * COLUMNS + v * LANES, sums[i][v]);                                \
    }
ACROSS(across_f32, TIDE_F32, TIDE_F32_PRODUCT)
ACROSS(across_bf16, TIDE_BF16, TIDE_BF16_PRODUCT)

/* Cells of a line of the strip; zeros beyond an edge. */
TIDE_INLINE TIDE_AVX512_BF16 void read_line(const struct tide_few *f, int64_t line, uint32_t *to,
                                            enum tide_dtype from, enum tide_dtype as)
{
    const struct tide_operand *o = f->b;
    const int64_t per_cell = as == TIDE_BF16 ? 2 : 1, size = (int64_t)tide_dtype_bytes(from),
                  last = f->strip.last * per_cell;
    const char *row = o->data + (f->strip.line + line) * o->stride;
    int64_t at = f->strip.first * per_cell, there = line < f->strip.lanes ? o->numbers : 0;
    for (; at < last; at += LANES * per_cell, to += LANES) {
        float scale = from == TIDE_I8 && at < there ? tide_operand_scale(o, row, at) : 0;
        __m512i cells = at + LANES * per_cell <= there
                            ? tide_cells_along(row + at * size, true, 0, from, as, scale)
                            : tide_cells_along(row + at * size, false, there - at, from, as, scale);
        _mm512_store_si512(to, cells);
    }
}

/* A cell from any address, in all lanes. */
TIDE_INLINE TIDE_AVX512_BF16 __m256 in_all_lanes(const char *from)
{
    int cell;
    __builtin_memcpy(&cell, from, sizeof cell);
    return (__m256)_mm256_set1_epi32(cell);
}

/* Multiplies lines of b by the interleaved rows of a. Each cell of b is broadcast to all lanes. It is read in
 * place if it has the type that is multiplied; else some cells of all lines are converted first. */
#define ALONG(name, as, PRODUCT)                                                                             \
    TIDE_INLINE TIDE_AVX512_BF16 void name(const struct tide_few *f, enum tide_dtype from)                   \
    {                                                                                                        \
        enum { LINES = TIDE_FEW_LINES, CELLS = TIDE_FEW_CELLS, HALF = 8, ASK_EACH = 4 };                     \
        _Alignas(TIDE_CACHE_LINE) uint32_t cells[LINES][CELLS];                                              \
        const struct tide_operand *o = f->b;                                                                 \
        const int64_t per_cell = (as) == TIDE_BF16 ? 2 : 1, count = f->strip.last - f->strip.first;          \
        const bool stays =                                                                                   \
            from == (as) && f->strip.lanes == LINES && f->strip.last * per_cell <= o->numbers;               \
        for (int64_t j = 0; !stays && j < LINES; j++)                                                        \
            read_line(f, j, cells[j], from, as);                                                             \
        const int64_t stride = stays ? o->stride : (int64_t)sizeof cells[0];                                 \
        const char *first =                                                                                  \
                       stays ? o->data + f->strip.line * stride + f->strip.first * 4 : (const char *)cells,  \
                   *lines[] = {first, first + 4 * stride, first + 8 * stride, first + 12 * stride};          \
        struct tide_cache_lines ask = f->ask;                                                                \
        const int64_t asks = (ASK_EACH * ask.count + count - 1) / count;                                     \
        for (int64_t row = 0; row < f->rows; row += HALF) {                                                  \
            const uint32_t *a = f->a + row;                                                                  \
            __m256 sums[LINES];                                                                              \
            _Pragma("GCC unroll 16") for (int j = 0; j < LINES; j++) sums[j] =                               \
                f->begins ? _mm256_setzero_ps() : _mm256_loadu_ps(f->sums + j * LANES + row);                \
            _Pragma("GCC unroll 4") for (int64_t k = 0; k < count; k++, a += LANES)                          \
            {                                                                                                \
                __m256 factors = _mm256_loadu_ps((const float *)(const void *)a);                            \
                if (k % ASK_EACH == 0)                                                                       \
                    tide_cache_lines_ask_some(&ask, asks);                                                   \
                _Pragma("GCC unroll 16") for (int j = 0; j < LINES; j++) sums[j] =                           \
                    PRODUCT(sums[j], factors, in_all_lanes(lines[j / 4] + j % 4 * stride + 4 * k));          \
            }                                                                                                \
            _Pragma("GCC unroll 16") for (int j = 0; j < LINES; j++)                                         \
                _mm256_storeu_ps(f->sums + j * LANES + row, sums[j]);                                        \
        }                                                                                                    \
    }
#define F32_PRODUCT_8(sum, row, column)  _mm256_fmadd_ps(row, column, sum)
#define BF16_PRODUCT_8(sum, row, column) _mm256_dpbf16_ps(sum, (__m256bh)(row), (__m256bh)(column))
ALONG(along_f32, TIDE_F32, F32_PRODUCT_8)
ALONG(along_bf16, TIDE_BF16, BF16_PRODUCT_8)

/* For each type of b in memory, and one, four or eight rows at a time. */
#define FEW(name, across, along)                                                                             \
    TIDE_INLINE TIDE_AVX512_BF16 void name##_across_from(const struct tide_few *f, const bool is_packed,     \
                                                         enum tide_dtype from)                               \
    {                                                                                                        \
        int64_t row = 0;                                                                                     \
        for (; row + ROWS / 2 < f->rows; row += ROWS)                                                        \
            across(f, row, ROWS, is_packed, from);                                                           \
        if (f->rows == 1)                                                                                    \
            across(f, row, 1, is_packed, from);                                                              \
        else if (row < f->rows)                                                                              \
            across(f, row, ROWS / 2, is_packed, from);                                                       \
    }                                                                                                        \
    TIDE_AVX512_BF16 static void name##_across(const struct tide_few *f)                                     \
    {                                                                                                        \
        if (f->packed)                                                                                       \
            name##_across_from(f, true, TIDE_F32);                                                           \
        else if (f->b->from == TIDE_F32)                                                                     \
            name##_across_from(f, false, TIDE_F32);                                                          \
        else if (f->b->from == TIDE_BF16)                                                                    \
            name##_across_from(f, false, TIDE_BF16);                                                         \
        else                                                                                                 \
            name##_across_from(f, false, TIDE_I8);                                                           \
    }                                                                                                        \
    TIDE_AVX512_BF16 static void name##_along(const struct tide_few *f)                                      \
    {                                                                                                        \
        if (f->b->from == TIDE_F32)                                                                          \
            along(f, TIDE_F32);                                                                              \
        else if (f->b->from == TIDE_BF16)                                                                    \
            along(f, TIDE_BF16);                                                                             \
        else                                                                                                 \
            along(f, TIDE_I8);                                                                               \
    }
FEW(few_f32, across_f32, along_f32)
FEW(few_bf16, across_bf16, along_bf16)

/* ---- windows */

TIDE_INLINE TIDE_AVX512 void write_window(const struct tide_window_tile *t, __m512 sums[ROWS][VECTORS],
                                          const int vectors, enum tide_dtype to)
{
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) {
        __mmask16 lanes = tide_first_16(t->width - v * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            if (i >= t->rows)
                break;
            tide_sums_write(t->c + t->c_row[i], t->add ? t->add + t->c_row[i] : NULL, v * LANES, lanes,
                            sums[i][v], to, t->bias, t->relu);
        }
    }
}

TIDE_INLINE void ask_for_c(const struct tide_window_tile *t)
{
    int64_t bytes = t->width * (int64_t)tide_dtype_bytes(t->to);
    for (int64_t i = 0; t->ends && i < t->rows; i++)
        for (int64_t at = 0; at < bytes; at += TIDE_CACHE_LINE)
            __builtin_prefetch(t->c + t->c_row[i] + at, 1, 3);
}

/* What a tile prefetches while it multiplies, some lines at a time. */
struct window_asking {
    struct tide_cache_lines lines[2];
    int64_t at_a_time[2];
};

TIDE_INLINE struct window_asking window_asking_of(const struct tide_window_tile *t)
{
    struct window_asking a = {.lines = {t->ask[0], t->ask[1]}};
    for (int i = 0; i < 2; i++)
        a.at_a_time[i] = a.lines[i].count ? (a.lines[i].count * AHEAD + t->cells - 1) / t->cells : 0;
    return a;
}

TIDE_INLINE void ask_window(struct window_asking *a)
{
    for (int i = 0; i < 2; i++)
        tide_cache_lines_ask_some(&a->lines[i], a->at_a_time[i]);
}

#define READ_WINDOW(i, v, with)                                                                              \
    if ((v) < vectors)                                                                                       \
        columns[v] = cuts && (v) == vectors - 1 ? _mm512_maskz_loadu_ps(lanes, b + (v)*LANES)                \
                                                : _mm512_loadu_ps(b + (v)*LANES);
#define ADD_WINDOW_ROW(i, PRODUCT)                                                                           \
    row = (__m512)_mm512_set1_epi32((int)a[i][at]);                                                          \
    TIDE_EACH_VECTOR(TIDE_ADD, i, PRODUCT)

/* cuts: only some lanes of the last vector may be read. */
#define WINDOW(name, marks, PRODUCT)                                                                         \
    TIDE_INLINE marks void name(const struct tide_window_tile *t, const int vectors, const bool cuts)        \
    {                                                                                                        \
        __m512 sums[ROWS][VECTORS], own[ROWS][VECTORS];                                                      \
        const uint32_t *const a[ROWS] = {t->a[0], t->a[1], t->a[2], t->a[3],                                 \
                                         t->a[4], t->a[5], t->a[6], t->a[7]};                                \
        const int64_t b_cell = t->b_cell, a_cell = t->a_cell;                                                \
        const __mmask16 lanes = tide_first_16(t->width - (vectors - 1) * LANES);                             \
        struct window_asking asking = window_asking_of(t);                                                   \
        const int64_t step = asking.at_a_time[0] ? AHEAD : INT64_MAX / 2;                                    \
        ask_for_c(t);                                                                                        \
        _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++)                                               \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) sums[i][v] =                           \
                t->begins ? _mm512_setzero_ps()                                                              \
                          : _mm512_load_ps(t->sums + i * (VECTORS * LANES) + v * LANES);                     \
        TIDE_EACH_ROW(TIDE_TAKE_ROW, )                                                                       \
        for (int64_t s = 0; s < t->stretch_count; s++) {                                                     \
            const struct tide_stretch stretch = t->stretches[s];                                             \
            const uint32_t *b = t->b + stretch.b * b_cell;                                                   \
            int64_t at = stretch.a;                                                                          \
            for (int64_t cell = 0, stop; cell < stretch.cells; cell = stop) {                                \
                stop = cell + step < stretch.cells ? cell + step : stretch.cells;                            \
                ask_window(&asking);                                                                         \
                for (int64_t left = stop - cell; left > 0; left--, at += a_cell, b += b_cell) {              \
                    __m512 columns[VECTORS], row;                                                            \
                    TIDE_EACH_VECTOR(READ_WINDOW, , )                                                        \
                    TIDE_EACH_ROW(ADD_WINDOW_ROW, PRODUCT)                                                   \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        TIDE_EACH_ROW(TIDE_GIVE_ROW, )                                                                       \
        if (!t->ends)                                                                                        \
            tide_sums_keep(t->sums, sums, vectors);                                                          \
        else if (t->to == TIDE_F32)                                                                          \
            write_window(t, sums, vectors, TIDE_F32);                                                        \
        else                                                                                                 \
            write_window(t, sums, vectors, TIDE_BF16);                                                       \
    }

WINDOW(window_f32, TIDE_AVX512, TIDE_F32_PRODUCT)
WINDOW(window_bf16, TIDE_AVX512_BF16, TIDE_BF16_PRODUCT)

TIDE_AVX512 static void window_of_f32(const struct tide_window_tile *t)
{
    if (t->width > 2 * LANES && !t->is_cut)
        window_f32(t, 3, false);
    else if (t->width > 2 * LANES)
        window_f32(t, 3, true);
    else if (t->width > LANES)
        window_f32(t, 2, true);
    else
        window_f32(t, 1, true);
}

TIDE_AVX512_BF16 static void window_of_bf16(const struct tide_window_tile *t)
{
    if (t->width > 2 * LANES)
        window_bf16(t, 3, false);
    else if (t->width > LANES)
        window_bf16(t, 2, false);
    else
        window_bf16(t, 1, false);
}

#define IN_BOTH                                                                                              \
    .rows = ROWS, .columns = VECTORS * LANES, .cell_step = 1, .block = 768, .group = 1,                      \
    .rows_to_pack_for = 512, .pack_a = tide_pack_avx512, .pack_b = tide_pack_avx512,                         \
    .pack_cells = tide_pack_avx512

const struct tide_tile_kind tide_tile_avx512 = {
    IN_BOTH,          .name = "AVX-512",        .cells = TIDE_F32,      .most_in_place = INT64_MAX,
    .tile = tile_f32, .across = few_f32_across, .along = few_f32_along, .window = window_of_f32};

const struct tide_tile_kind tide_tile_avx512_bf16 = {IN_BOTH,
                                                     .name = "AVX-512 bf16",
                                                     .cells = TIDE_BF16,
                                                     .tile = tile_bf16,
                                                     .across = few_bf16_across,
                                                     .along = few_bf16_along,
                                                     .window = window_of_bf16};

#endif
