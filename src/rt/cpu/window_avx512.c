/*
 * window_avx512.c - tiles of windows with AVX-512: as in tile_avx512.c, 8 x 48.
 */
#include "rt/cpu/tile_write.h"

#if defined(__x86_64__)

enum { ROWS = TIDE_WINDOW_ROWS, VECTORS = 3, LANES = TIDE_LANES, COLUMNS = VECTORS * LANES };
enum { AHEAD = 16 }; /* cells; b is in the second-level cache */

TIDE_INLINE TIDE_AVX512 void write_sums(const struct tide_window_tile *t, __m512 sums[ROWS][VECTORS],
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
struct asking {
    struct tide_cache_lines lines[2];
    int64_t at_a_time[2];
};

TIDE_INLINE struct asking asking_of(const struct tide_window_tile *t)
{
    struct asking a = {.lines = {t->ask[0], t->ask[1]}};
    for (int i = 0; i < 2; i++)
        a.at_a_time[i] = a.lines[i].count ? (a.lines[i].count * AHEAD + t->cells - 1) / t->cells : 0;
    return a;
}

TIDE_INLINE void ask_some(struct asking *a)
{
    for (int i = 0; i < 2; i++)
        tide_cache_lines_ask_some(&a->lines[i], a->at_a_time[i]);
}

#define READ_COLUMNS(i, v, with)                                                                             \
    if ((v) < vectors)                                                                                       \
        columns[v] = cuts && (v) == vectors - 1 ? _mm512_maskz_loadu_ps(lanes, b + (v)*LANES)                \
                                                : _mm512_loadu_ps(b + (v)*LANES);
#define ADD_ROW(i, PRODUCT)                                                                                  \
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
        struct asking asking = asking_of(t);                                                                 \
        const int64_t step = asking.at_a_time[0] ? AHEAD : INT64_MAX / 2;                                    \
        ask_for_c(t);                                                                                        \
        _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++)                                               \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) sums[i][v] =                           \
                t->begins ? _mm512_setzero_ps() : _mm512_load_ps(t->sums + i * COLUMNS + v * LANES);         \
        TIDE_EACH_ROW(TIDE_TAKE_ROW, )                                                                       \
        for (int64_t s = 0; s < t->stretch_count; s++) {                                                     \
            const struct tide_stretch stretch = t->stretches[s];                                             \
            const uint32_t *b = t->b + stretch.b * b_cell;                                                   \
            int64_t at = stretch.a;                                                                          \
            for (int64_t cell = 0, stop; cell < stretch.cells; cell = stop) {                                \
                stop = cell + step < stretch.cells ? cell + step : stretch.cells;                            \
                ask_some(&asking);                                                                           \
                for (int64_t left = stop - cell; left > 0; left--, at += a_cell, b += b_cell) {              \
                    __m512 columns[VECTORS], row;                                                            \
                    TIDE_EACH_VECTOR(READ_COLUMNS, , )                                                       \
                    TIDE_EACH_ROW(ADD_ROW, PRODUCT)                                                          \
                }                                                                                            \
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

WINDOW(window_f32, TIDE_AVX512, TIDE_F32_PRODUCT)
WINDOW(window_bf16, TIDE_AVX512_BF16, TIDE_BF16_PRODUCT)

/* The last columns may need fewer vectors. */
TIDE_AVX512 void tide_window_avx512(const struct tide_window_tile *t)
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

TIDE_AVX512_BF16 void tide_window_avx512_bf16(const struct tide_window_tile *t)
{
    if (t->width > 2 * LANES)
        window_bf16(t, 3, false);
    else if (t->width > LANES)
        window_bf16(t, 2, false);
    else
        window_bf16(t, 1, false);
}

#endif
