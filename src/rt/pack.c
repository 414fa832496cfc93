#include "rt/pack.h"
#include "base/check.h"
#include "rt/kernel.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct tide_lines tide_pack_lines(const struct tide_operand *o, struct tide_strip s)
{
    int64_t size = (int64_t)tide_dtype_bytes(o->from), per_cell = o->to == TIDE_BF16 ? 2 : 1,
            lines = smaller(s.lanes, o->lines - s.line),
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

TIDE_INLINE float number_at(const char *row, int64_t at, enum tide_dtype from)
{
    return from == TIDE_BF16 ? tide_bits_float((uint32_t)((const tide_bf16 *)(const void *)row)[at] << 16)
                             : ((const float *)(const void *)row)[at];
}

/* k runs along rows: sixteen cells of each line at a time, so that what is written stays near. */
TIDE_INLINE void pack_along(const char *data, int64_t stride, int64_t lines, int64_t lanes, int64_t first,
                            int64_t last, float *to, enum tide_dtype from)
{
    for (int64_t block = first; block < last; block += TIDE_LANES)
        for (int64_t lane = 0; lane < lanes; lane++) {
            const char *row = data + (lane < lines ? lane : 0) * stride;
            for (int64_t cell = block; cell < smaller(block + TIDE_LANES, last); cell++)
                to[cell * lanes + lane] = lane < lines ? number_at(row, cell, from) : 0;
        }
}

TIDE_INLINE void pack_across(const char *data, int64_t stride, int64_t lines, int64_t lanes, int64_t first,
                             int64_t last, float *to, enum tide_dtype from)
{
    for (int64_t cell = first; cell < last; cell++) {
        const char *row = data + cell * stride;
        float *at = to + cell * lanes;
        for (int64_t lane = 0; lane < lines; lane++)
            at[lane] = number_at(row, lane, from);
        for (int64_t lane = lines; lane < lanes; lane++)
            at[lane] = 0;
    }
}

TIDE_KERNEL(void, pack_numbers,
            (const char *data, int64_t stride, bool is_along, int64_t lines, int64_t lanes, int64_t first,
             int64_t last, float *to, enum tide_dtype from),
            (data, stride, is_along, lines, lanes, first, last, to, from))
{
    if (is_along && from == TIDE_F32)
        pack_along(data, stride, lines, lanes, first, last, to, TIDE_F32);
    else if (is_along)
        pack_along(data, stride, lines, lanes, first, last, to, TIDE_BF16);
    else if (from == TIDE_F32)
        pack_across(data, stride, lines, lanes, first, last, to, TIDE_F32);
    else
        pack_across(data, stride, lines, lanes, first, last, to, TIDE_BF16);
}

void tide_pack(const struct tide_operand *o, struct tide_strip s, uint32_t *to)
{
    int64_t size = (int64_t)tide_dtype_bytes(o->from), lines = smaller(s.lanes, o->lines - s.line);
    float *cells = (float *)(void *)to;
    TIDE_CHECK(o->to, ==, TIDE_F32);
    pack_numbers(o->data + s.line * (o->is_along ? o->stride : size), o->stride, o->is_along, lines, s.lanes,
                 s.first, smaller(s.last, o->numbers), cells, o->from);
    for (int64_t i = (s.first > o->numbers ? s.first : smaller(s.last, o->numbers)) * s.lanes;
         i < s.last * s.lanes; i++)
        cells[i] = 0;
}
