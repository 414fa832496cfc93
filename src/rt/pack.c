#include "rt/pack.h"
#include "rt/avx512.h"
#include "rt/kernel.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t numbers_in_cell(const struct tide_operand *o)
{
    return o->to == TIDE_BF16 ? 2 : 1;
}

struct tide_lines tide_pack_lines(const struct tide_operand *o, struct tide_strip s)
{
    int64_t size = (int64_t)tide_dtype_bytes(o->from), per_cell = numbers_in_cell(o),
            lines = smaller(s.vectors * TIDE_LANES, o->lines - s.line),
            numbers = smaller(s.last * per_cell, o->numbers) - s.first * per_cell;
    int64_t rows = o->is_along ? lines : numbers, bytes = (o->is_along ? numbers : lines) * size;
    struct tide_lines found = {.stride = o->stride};
    if (rows <= 0 || bytes <= 0)
        return found;
    found.row = o->data + (o->is_along ? s.line * o->stride + s.first * per_cell * size
                                       : s.first * per_cell * o->stride + s.line * size);
    found.per_row = (bytes + TIDE_LINE - 1) / TIDE_LINE;
    found.count = rows * found.per_row;
    return found;
}

#if defined(__x86_64__)

/* Sixteen cells of a row that k runs along, of which `numbers` numbers are there, or all. */
TIDE_INLINE TIDE_AVX512 __m512i cells_along(const char *row, bool all, int64_t numbers, enum tide_dtype from,
                                            enum tide_dtype as)
{
    __mmask16 first = all ? 0xffff : tide_first_16(numbers),
              second = all ? 0xffff : tide_first_16(numbers - 16);
    if (as == TIDE_F32)
        return _mm512_maskz_loadu_epi32(first, row);
    if (from == TIDE_BF16)
        return _mm512_maskz_loadu_epi16(_mm512_kunpackw(second, first), row);
    __m512 low = _mm512_maskz_loadu_ps(first, row), high = _mm512_maskz_loadu_ps(second, row + sizeof low);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Rows become columns. */
TIDE_INLINE TIDE_AVX512 void transpose(__m512i r[TIDE_LANES])
{
    __m512i t[TIDE_LANES];
    for (int i = 0; i < TIDE_LANES; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < TIDE_LANES; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
        }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < TIDE_LANES; j += 8) {
            t[j + i] = _mm512_shuffle_i32x4(r[j + i], r[j + 4 + i], 0x88);
            t[j + 4 + i] = _mm512_shuffle_i32x4(r[j + i], r[j + 4 + i], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    }
}

/* Sixteen cells of sixteen lines; all: each of them is there. */
TIDE_INLINE TIDE_AVX512 void pack_square(const struct tide_operand *o, int64_t line, int64_t cell, bool all,
                                         int64_t cells, uint32_t *to, int64_t width, enum tide_dtype from,
                                         enum tide_dtype as)
{
    const int64_t per_cell = as == TIDE_BF16 ? 2 : 1, size = from == TIDE_BF16 ? 2 : 4;
    const char *data = o->data + line * o->stride + cell * per_cell * size;
    __m512i rows[TIDE_LANES];
#pragma GCC unroll 16
    for (int i = 0; i < TIDE_LANES; i++)
        rows[i] = all || line + i < o->lines
                      ? cells_along(data + i * o->stride, all, o->numbers - cell * per_cell, from, as)
                      : _mm512_setzero_si512();
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < TIDE_LANES; i++)
        if (all || i < cells)
            _mm512_store_si512(to + i * width, rows[i]);
}

TIDE_INLINE TIDE_AVX512 void pack_along(const struct tide_operand *o, struct tide_strip s, uint32_t *to,
                                        int64_t width, enum tide_dtype from, enum tide_dtype as)
{
    const int64_t per_cell = as == TIDE_BF16 ? 2 : 1;
    int64_t cell = s.first, whole = smaller(s.last, o->numbers / per_cell);
    if (s.line + TIDE_LANES <= o->lines)
        for (; cell + TIDE_LANES <= whole; cell += TIDE_LANES)
            pack_square(o, s.line, cell, true, TIDE_LANES, to + cell * width, width, from, as);
    for (; cell < s.last; cell += TIDE_LANES)
        pack_square(o, s.line, cell, false, s.last - cell, to + cell * width, width, from, as);
}

/* One number each of sixteen columns, in the low half of their cells. */
TIDE_INLINE TIDE_AVX512 __m512i halves(const char *row, __mmask16 columns, enum tide_dtype from)
{
    if (from == TIDE_BF16)
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(columns, row));
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(columns, row)));
}

/* Sixteen columns from the first on that there are; two: there is a second number in the cell. */
TIDE_INLINE TIDE_AVX512 __m512i cell_across(const char *row, int64_t stride, __mmask16 columns, bool two,
                                            enum tide_dtype from, enum tide_dtype as)
{
    if (as == TIDE_F32)
        return _mm512_maskz_loadu_epi32(columns, row);
    __m512i low = halves(row, columns, from);
    return two ? _mm512_or_si512(low, _mm512_slli_epi32(halves(row + stride, columns, from), 16)) : low;
}

TIDE_INLINE TIDE_AVX512 void pack_across(const struct tide_operand *o, struct tide_strip s, uint32_t *to,
                                         int64_t width, int64_t next, enum tide_dtype from,
                                         enum tide_dtype as)
{
    const int64_t per_cell = as == TIDE_BF16 ? 2 : 1, size = from == TIDE_BF16 ? 2 : 4;
    const char *data = o->data + s.line * size;
    int64_t cell = s.first, whole = smaller(s.last, o->numbers / per_cell);
    if (s.line + s.vectors * TIDE_LANES <= o->lines)
        for (; cell < whole; cell++) {
            const char *row = data + cell * per_cell * o->stride;
            uint32_t *place = to + cell * width;
            for (int64_t v = 0; v < s.vectors; v++, row += TIDE_LANES * size, place += next)
                _mm512_store_si512(place, cell_across(row, o->stride, 0xffff, true, from, as));
        }
    for (; cell < s.last; cell++)
        for (int64_t v = 0; v < s.vectors; v++)
            _mm512_store_si512(to + cell * width + v * next,
                               cell_across(data + cell * per_cell * o->stride + v * TIDE_LANES * size,
                                           o->stride, tide_first_16(o->lines - s.line - v * TIDE_LANES),
                                           per_cell * cell + 1 < o->numbers, from, as));
}

/* One function for each pair of types, so that none is asked for cell by cell. */
TIDE_INLINE TIDE_AVX512 void pack_as(const struct tide_operand *o, struct tide_strip s, uint32_t *to,
                                     int64_t width, int64_t next, enum tide_dtype from, enum tide_dtype as)
{
    if (!o->is_along) {
        pack_across(o, s, to, width, next, from, as);
        return;
    }
    for (int64_t v = 0; v < s.vectors; v++, s.line += TIDE_LANES)
        pack_along(o, s, to + v * next, width, from, as);
}

TIDE_AVX512 static void pack_f32(const struct tide_operand *o, struct tide_strip s, uint32_t *to,
                                 int64_t width, int64_t next)
{
    pack_as(o, s, to, width, next, TIDE_F32, TIDE_F32);
}

TIDE_AVX512 static void pack_rounded(const struct tide_operand *o, struct tide_strip s, uint32_t *to,
                                     int64_t width, int64_t next)
{
    pack_as(o, s, to, width, next, TIDE_F32, TIDE_BF16);
}

TIDE_AVX512 static void pack_bf16(const struct tide_operand *o, struct tide_strip s, uint32_t *to,
                                  int64_t width, int64_t next)
{
    pack_as(o, s, to, width, next, TIDE_BF16, TIDE_BF16);
}

void tide_pack(const struct tide_operand *operand, struct tide_strip strip, uint32_t *to, int64_t width,
               int64_t next)
{
    (operand->to == TIDE_F32     ? pack_f32
     : operand->from == TIDE_F32 ? pack_rounded
                                 : pack_bf16)(operand, strip, to, width, next);
}

#endif
