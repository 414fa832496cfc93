/*
 * tile.h - a tile of a matrix product: a few rows by a few columns, whose sums stay in registers over a range
 * of k. There is one kind per instruction set; tile_products.h builds products of them.
 */
#ifndef TIDE_TILE_H
#define TIDE_TILE_H

#include "rt/cpu/pack.h"
#include "rt/cpu/processor.h"

/* The most rows of a tile of windows. */
enum { TIDE_WINDOW_ROWS = 8 };

struct tide_tile {
    const uint32_t *a; /* cell k of row i at a[i * a_row + k * a_cell]; packed: 1 and 16, or squares */
    int64_t a_row, a_cell;
    const uint32_t *b; /* cell k of column j at b[k * b_cell + j]; or squares, as the kind packs them */
    int64_t b_cell, cells;
    char *c;
    int64_t c_stride;    /* in numbers */
    enum tide_dtype to;  /* of c */
    int64_t rows, width; /* rows and columns of the tile that exist */
    const float *bias;   /* NULL: none */
    const char *add;     /* stored like c, may be c; NULL: nothing is added */
    bool relu;
    bool begins, ends; /* at the first cells of k sums start at 0; after the last they are written to c */
    float *sums;       /* in between, sums are kept here: [rows][columns] of the kind */
    struct tide_cache_lines ask;      /* to prefetch meanwhile: the next columns */
    struct tide_unwritten *unwritten; /* of the thread: the tile before this one */
};

/* A tile with complete sums that are not in c yet from `row` on: a kind may write them while it multiplies
 * the next tile. */
struct tide_unwritten {
    struct tide_tile tile; /* rows is 0 if there is none */
    int64_t row;
    _Alignas(TIDE_CACHE_LINE) float sums[32 * 32]; /* [rows][columns] of the kind */
};

/* Some cells of b, as stored in memory, times a few rows of a (few.h). */
enum { TIDE_FEW_LINES = 16, TIDE_FEW_CELLS = 64 };
struct tide_few {
    const struct tide_operand *b;
    struct tide_strip strip; /* of b */
    const uint32_t *packed;  /* across: the same, packed; NULL: all its columns exist and are read in place */
    /* To prefetch, across: byte offsets of the columns and of the rows that are read next; 0: none. */
    int64_t beside, ahead;
    struct tide_cache_lines ask; /* along: cache lines that are read next */
    const uint32_t *a;           /* starts at the first cell: row i of cell k at a[k * a_cell + i] */
    int64_t a_cell;              /* 16; across with one row, it may be 1 */
    int64_t rows;                /* that exist */
    bool begins;                 /* the first cells of k: sums start at 0 */
    float *sums;                 /* across: [16 rows][columns of the kind]; along: [16 lines][16 rows] */
};

/* A range of k whose cells are contiguous in each row of a and in b. */
struct tide_stretch {
    int64_t a, b, cells; /* a: words from the start of a row; b: cells */
};

/* A tile whose rows lie anywhere and that uses only some ranges of k: of windows (window_products.h). */
struct tide_window_tile {
    const uint32_t *a[TIDE_WINDOW_ROWS]; /* missing rows repeat the first */
    int64_t a_cell;                      /* words from one cell of a row to the next */
    const struct tide_stretch *stretches;
    int64_t stretch_count;
    const uint32_t *b; /* cell k of column j at b[k * b_cell + j] */
    int64_t b_cell;
    char *c;
    int64_t c_row[TIDE_WINDOW_ROWS]; /* bytes from c to each row */
    enum tide_dtype to;              /* of c */
    int64_t rows, width;
    bool is_cut;       /* b ends with the tile's last column; else with a whole vector */
    const float *bias; /* from here on as above */
    const char *add;
    bool relu, begins, ends;
    float *sums;
    int64_t cells;                  /* of all stretches */
    struct tide_cache_lines ask[2]; /* what to prefetch */
};

struct tide_tile_kind {
    const char *name;
    enum tide_dtype cells; /* f32, or pairs of bf16 */
    int rows, columns;
    int cell_step;         /* the number of cells is a multiple of this, padded with 0 */
    int64_t most_in_place; /* f32 b of at most this many numbers may be read in place; 0: neither a nor b */
    int block;             /* cells that are multiplied at a time, so that columns of them stay in a cache */
    int group;             /* panels that are multiplied with one block of rows before the next block */
    int rows_to_pack_for;  /* for fewer rows, threads do not each pack columns */
    tide_packer *pack_a, *pack_b;
    tide_packer *pack_cells; /* cell by cell, sixteen lanes, whatever the others do */
    void (*tile)(const struct tide_tile *tile);
    void (*finish)(struct tide_unwritten *unwritten); /* after the last tile; NULL: everything is written */
    void (*begin)(void), (*end)(void); /* called by each thread around its tiles; NULL: nothing to do */
    /* For up to sixteen rows. across: a strip of the kind's columns. along: up to TIDE_FEW_LINES lines and
     * TIDE_FEW_CELLS cells. NULL: this kind cannot. */
    void (*across)(const struct tide_few *few), (*along)(const struct tide_few *few);
    void (*window)(const struct tide_window_tile *tile); /* NULL: there is none */
};

/* Chooses the kind for cells of that type and an instruction set. multiplies_bf16: AVX-512 does it clearly
 * faster than f32; else bf16 is widened to f32 cells. packs: b may be packed first, which AMX needs if k runs
 * across it. */
const struct tide_tile_kind *tide_tile_choose(enum tide_isa isa, bool multiplies_bf16, enum tide_dtype from,
                                              bool packs);

/* The same for this processor: for products in tiles, and for few rows, where reading b is the limit. */
const struct tide_tile_kind *tide_tile_kind(enum tide_dtype from);
const struct tide_tile_kind *tide_tile_kind_of_few(enum tide_dtype from, bool b_transposed);

/* Ends a tile in plain C: writes sums [rows][columns] to c. */
void tide_tile_write_plainly(const struct tide_tile *tile, const float *sums, int64_t columns);

extern const struct tide_tile_kind tide_tile_plain, tide_tile_avx2, tide_tile_avx512, tide_tile_avx512_bf16,
    tide_tile_amx;

#endif
