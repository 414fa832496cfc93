/*
 * tile_plain.c - tiles of 2 x 16, with the compiler's vectors, on any processor.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/tile.h"

enum { ROWS = 2, COLUMNS = 16 };

static void tile_plain(const struct tide_tile *t)
{
    tide_16 sums[ROWS] = {{0}, {0}};
    for (int i = 0; i < ROWS && !t->begins; i++)
        sums[i] = ((const tide_16 *)t->sums)[i];
    const float *a = (const float *)(const void *)t->a, *b = (const float *)(const void *)t->b;
    for (int64_t cell = 0; cell < t->cells; cell++, a += t->a_cell, b += t->b_cell) {
        tide_16 columns = *(const tide_16 *)b;
        for (int i = 0; i < ROWS; i++)
            sums[i] += a[i * t->a_row] * columns;
    }
    if (t->ends)
        tide_tile_write_plainly(t, (const float *)sums, COLUMNS);
    for (int i = 0; i < ROWS && !t->ends; i++)
        ((tide_16 *)t->sums)[i] = sums[i];
}

const struct tide_tile_kind tide_tile_plain = {.name = "vectors of the compiler",
                                               .cells = TIDE_F32,
                                               .rows = ROWS,
                                               .columns = COLUMNS,
                                               .cell_step = 1,
                                               .most_in_place = 256 << 10,
                                               .block = 768,
                                               .group = 1,
                                               .rows_to_pack_for = 512,
                                               .pack_a = tide_pack,
                                               .pack_b = tide_pack,
                                               .pack_cells = tide_pack,
                                               .tile = tile_plain};
