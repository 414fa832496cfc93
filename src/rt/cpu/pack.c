#include "rt/cpu/pack.h"
#include "base/check.h"
#include "base/whole.h"
#include "rt/cpu/inner_loops.h"

struct tide_operand tide_operand_of(const void *data, enum tide_dtype from, int64_t stride, bool is_along,
                                    int64_t lines, int64_t numbers)
{
    struct tide_operand o = {.data = data,
                             .stride = stride * (int64_t)tide_dtype_bytes(from),
                             .is_along = is_along,
                             .lines = lines,
                             .numbers = numbers,
                             .from = from};
    if (from == TIDE_I8)
        o.scales = (int64_t)tide_row_scales_in((size_t)o.stride);
    return o;
}

struct tide_cache_lines tide_pack_cache_lines(const struct tide_operand *o, struct tide_strip s)
{
    int64_t size = (int64_t)tide_dtype_bytes(o->from), per_cell = o->to == TIDE_BF16 ? 2 : 1,
            lines = tide_smaller(s.lanes, o->lines - s.line),
            numbers = tide_smaller(s.last * per_cell, o->numbers) - s.first * per_cell;
    int64_t rows = o->is_along ? lines : numbers, bytes = (o->is_along ? numbers : lines) * size;
    struct tide_cache_lines found = {.stride = o->stride};
    if (rows <= 0 || bytes <= 0)
        return found;
    found.row = o->data + (o->is_along ? s.line * o->stride + s.first * per_cell * size
                                       : s.first * per_cell * o->stride + s.line * size);
    found.per_row = (bytes + TIDE_CACHE_LINE - 1) / TIDE_CACHE_LINE;
    found.count = rows * found.per_row;
    return found;
}

TIDE_INLINE float number_at(const char *row, int64_t at, enum tide_dtype from, float scale)
{
    return from == TIDE_I8     ? (float)((const int8_t *)row)[at] * scale
           : from == TIDE_BF16 ? tide_bits_float((uint32_t)((const tide_bf16 *)(const void *)row)[at] << 16)
                               : ((const float *)(const void *)row)[at];
}

/* k runs along rows. Packs sixteen cells of each line at a time, so that the output stays in the cache. */
TIDE_INLINE void pack_along(const struct tide_operand *o, struct tide_strip s, float *to,
                            enum tide_dtype from)
{
    int64_t lines = tide_smaller(s.lanes, o->lines - s.line);
    for (int64_t block = s.first; block < s.last; block += TIDE_LANES)
        for (int64_t lane = 0; lane < s.lanes; lane++) {
            const char *row = o->data + (s.line + (lane < lines ? lane : 0)) * o->stride;
            float scale = from == TIDE_I8 ? tide_operand_scale(o, row, block) : 0;
            for (int64_t cell = block; cell < tide_smaller(block + TIDE_LANES, s.last); cell++)
                to[cell * s.lanes + lane] = lane < lines ? number_at(row, cell, from, scale) : 0;
        }
}

TIDE_INLINE void pack_across(const struct tide_operand *o, struct tide_strip s, float *to,
                             enum tide_dtype from)
{
    const int64_t size = (int64_t)tide_dtype_bytes(from), stride = o->stride, lanes = s.lanes;
    const char *data = o->data + s.line * size;
    int64_t lines = tide_smaller(lanes, o->lines - s.line);
    for (int64_t cell = s.first; cell < s.last; cell++) {
        const char *row = data + cell * stride;
        float *at = to + cell * lanes;
        for (int64_t lane = 0; from != TIDE_I8 && lane < lines; lane++)
            at[lane] = number_at(row, lane, from, 0);
        for (int64_t lane = 0, end; from == TIDE_I8 && lane < lines; lane = end) {
            float scale = tide_operand_scale(o, row - s.line, s.line + lane);
            end = tide_smaller(lines, lane + TIDE_BLOCK - (s.line + lane) % TIDE_BLOCK);
            for (int64_t i = lane; i < end; i++)
                at[i] = number_at(row, i, from, scale);
        }
        for (int64_t lane = lines; lane < lanes; lane++)
            at[lane] = 0;
    }
}

TIDE_KERNEL(void, pack_numbers, (const struct tide_operand *o, struct tide_strip s, float *restrict to),
            (o, s, to))
{
    if (o->is_along && o->from == TIDE_F32)
        pack_along(o, s, to, TIDE_F32);
    else if (o->is_along && o->from == TIDE_BF16)
        pack_along(o, s, to, TIDE_BF16);
    else if (o->is_along)
        pack_along(o, s, to, TIDE_I8);
    else if (o->from == TIDE_F32)
        pack_across(o, s, to, TIDE_F32);
    else if (o->from == TIDE_BF16)
        pack_across(o, s, to, TIDE_BF16);
    else
        pack_across(o, s, to, TIDE_I8);
}

void tide_pack(const struct tide_operand *o, struct tide_strip s, uint32_t *to)
{
    float *cells = (float *)(void *)to;
    struct tide_strip there = s;
    TIDE_CHECK(o->to, ==, TIDE_F32);
    there.last = tide_smaller(s.last, o->numbers);
    pack_numbers(o, there, cells);
    for (int64_t i = (s.first > there.last ? s.first : there.last) * s.lanes; i < s.last * s.lanes; i++)
        cells[i] = 0;
}
