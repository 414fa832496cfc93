/*
 * pack_avx512.c - packing with AVX-512. Its bf16 instructions are used only where numbers are rounded; only
 * kinds of tiles that have them ask for that.
 */
#include "base/whole.h"
#include "rt/cpu/read_avx512.h"

#if defined(__x86_64__)

/* Transposes sixteen rows of sixteen cells. */
TIDE_INLINE TIDE_AVX512_BF16 void transpose(__m512i r[TIDE_LANES])
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

/* Sixteen cells of sixteen lines that k runs along; all: every cell exists. */
TIDE_INLINE TIDE_AVX512_BF16 void read_along(const struct tide_operand *o, int64_t line, int64_t cell,
                                             bool all, __m512i rows[TIDE_LANES], enum tide_dtype from,
                                             enum tide_dtype as)
{
    const int64_t per_cell = as == TIDE_BF16 ? 2 : 1, size = (int64_t)tide_dtype_bytes(from);
    const char *row = o->data + line * o->stride, *data = row + cell * per_cell * size;
    int64_t there = all ? TIDE_LANES : cell * per_cell < o->numbers ? o->lines - line : 0;
#pragma GCC unroll 16
    for (int i = 0; i < TIDE_LANES; i++) {
        bool is_there = all || i < there;
        float scale =
            from == TIDE_I8 && is_there ? tide_operand_scale(o, row + i * o->stride, cell * per_cell) : 0;
        rows[i] = is_there ? tide_cells_along(data + i * o->stride, all, o->numbers - cell * per_cell, from,
                                              as, scale)
                           : _mm512_setzero_si512();
    }
}

TIDE_INLINE TIDE_AVX512_BF16 void pack_along(const struct tide_operand *o, struct tide_strip s, uint32_t *to,
                                             enum tide_dtype from, enum tide_dtype as)
{
    const int64_t per_cell = as == TIDE_BF16 ? 2 : 1;
    for (int64_t v = 0; v < s.lanes; v += TIDE_LANES)
        for (int64_t cell = s.first; cell < s.last; cell += TIDE_LANES) {
            __m512i rows[TIDE_LANES];
            int64_t line = s.line + v, cells = tide_smaller(TIDE_LANES, s.last - cell);
            if (line + TIDE_LANES <= o->lines && (cell + TIDE_LANES) * per_cell <= o->numbers)
                read_along(o, line, cell, true, rows, from, as);
            else
                read_along(o, line, cell, false, rows, from, as);
            transpose(rows);
            uint32_t *place = to + cell * s.lanes + v;
            if (cells == TIDE_LANES)
#pragma GCC unroll 16
                for (int i = 0; i < TIDE_LANES; i++)
                    _mm512_store_si512(place + i * s.lanes, rows[i]);
            else
                for (int i = 0; i < cells; i++)
                    _mm512_store_si512(place + i * s.lanes, rows[i]);
        }
}

TIDE_INLINE TIDE_AVX512_BF16 void pack_across(const struct tide_operand *o, struct tide_strip s, uint32_t *to,
                                              enum tide_dtype from, enum tide_dtype as)
{
    const int64_t per_cell = as == TIDE_BF16 ? 2 : 1;
    int64_t cell = s.first, whole = tide_smaller(s.last, o->numbers / per_cell);
    if (s.line + s.lanes <= o->lines)
        for (; cell < whole; cell++) {
            const char *row = o->data + cell * per_cell * o->stride;
            for (int64_t v = 0; v < s.lanes; v += TIDE_LANES)
                _mm512_store_si512(to + cell * s.lanes + v,
                                   tide_cell_across(o, row, s.line + v, 0xffff, true, from, as));
        }
    for (; cell < s.last; cell++)
        for (int64_t v = 0; v < s.lanes; v += TIDE_LANES) {
            int64_t there = per_cell * cell < o->numbers ? o->lines - s.line - v : 0;
            _mm512_store_si512(to + cell * s.lanes + v,
                               tide_cell_across(o, o->data + cell * per_cell * o->stride, s.line + v,
                                                tide_first_16(there), per_cell * cell + 1 < o->numbers, from,
                                                as));
        }
}

/* One function per pair of types, so that no type is tested cell by cell. */
#define PACK_AS(name, from, as)                                                                              \
    TIDE_AVX512_BF16 static void name(const struct tide_operand *o, struct tide_strip s, uint32_t *to)       \
    {                                                                                                        \
        if (o->is_along)                                                                                     \
            pack_along(o, s, to, from, as);                                                                  \
        else                                                                                                 \
            pack_across(o, s, to, from, as);                                                                 \
    }
PACK_AS(pack_f32, TIDE_F32, TIDE_F32)
PACK_AS(pack_widened, TIDE_BF16, TIDE_F32)
PACK_AS(pack_scaled, TIDE_I8, TIDE_F32)
PACK_AS(pack_rounded, TIDE_F32, TIDE_BF16)
PACK_AS(pack_bf16, TIDE_BF16, TIDE_BF16)
PACK_AS(pack_scaled_rounded, TIDE_I8, TIDE_BF16)

void tide_pack_avx512(const struct tide_operand *o, struct tide_strip s, uint32_t *to)
{
    static tide_packer *const packers[][TIDE_I8 + 1] = {
        [TIDE_F32] = {[TIDE_F32] = pack_f32, [TIDE_BF16] = pack_widened, [TIDE_I8] = pack_scaled},
        [TIDE_BF16] = {[TIDE_F32] = pack_rounded, [TIDE_BF16] = pack_bf16, [TIDE_I8] = pack_scaled_rounded}};
    packers[o->to][o->from](o, s, to);
}

/* Squares that k runs along need no transposition. */
TIDE_INLINE TIDE_AVX512_BF16 void square_along(const struct tide_operand *o, struct tide_strip s,
                                               uint32_t *to, enum tide_dtype from)
{
    for (int64_t cell = s.first; cell < s.last; cell += TIDE_LANES) {
        __m512i rows[TIDE_LANES];
        if (s.line + TIDE_LANES <= o->lines && (cell + TIDE_LANES) * 2 <= o->numbers)
            read_along(o, s.line, cell, true, rows, from, TIDE_BF16);
        else
            read_along(o, s.line, cell, false, rows, from, TIDE_BF16);
#pragma GCC unroll 16
        for (int i = 0; i < TIDE_LANES; i++)
            _mm512_store_si512(to + (cell + i) * TIDE_LANES, rows[i]);
    }
}

TIDE_AVX512_BF16 void tide_pack_squares(const struct tide_operand *o, struct tide_strip s, uint32_t *to)
{
    if (o->is_along && o->from == TIDE_F32) {
        square_along(o, s, to, TIDE_F32);
    } else if (o->is_along && o->from == TIDE_BF16) {
        square_along(o, s, to, TIDE_BF16);
    } else if (o->is_along) {
        square_along(o, s, to, TIDE_I8);
    } else {
        tide_pack_avx512(o, s, to);
        for (int64_t cell = s.first; cell < s.last; cell += TIDE_LANES) {
            __m512i rows[TIDE_LANES];
#pragma GCC unroll 16
            for (int i = 0; i < TIDE_LANES; i++)
                rows[i] = _mm512_load_si512(to + (cell + i) * TIDE_LANES);
            transpose(rows);
#pragma GCC unroll 16
            for (int i = 0; i < TIDE_LANES; i++)
                _mm512_store_si512(to + (cell + i) * TIDE_LANES, rows[i]);
        }
    }
}

#endif
