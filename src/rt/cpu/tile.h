/*
 * tile.h - a tile of a matrix product: a few rows by a few columns, whose sums stay in registers over a
 * stretch of k. One kind for each instruction set; tile_products.h makes products of them.
 */
#ifndef TIDE_TILE_H
#define TIDE_TILE_H

#include "rt/cpu/pack.h"
#include "rt/cpu/processor.h"

/* Rows of a tile of windows, at the most. */
enum { TIDE_WINDOW_ROWS = 8 };

struct tide_tile {
    const uint32_t *a; /* cell k of row i at a[i * a_row + k * a_cell]; packed: 1 and 16, or squares */
    int64_t a_row, a_cell;
    const uint32_t *b; /* cell k of column j at b[k * b_cell + j]; or squares, as its kind packs them */
    int64_t b_cell, cells;
    char *c;
    int64_t c_stride;    /* in numbers */
    enum tide_dtype to;  /* of c */
    int64_t rows, width; /* of the tile, that there are */
    const float *bias;   /* NULL: none */
    const char *add;     /* lies as c, and may be c; NULL: nothing is added */
    bool relu;
    bool begins, ends; /* the first and the last cells of k: sums begin at 0, and become numbers of c */
    float *sums;       /* else they come from here and stay here: [rows][columns] of the kind */
    /* For meanwhile: cache lines of the next columns; those of what else will be read soon. */
    struct tide_cache_lines ask, ask_more;
    struct tide_unwritten *unwritten; /* of the thread: what was multiplied before */
};

/* A tile whose sums are complete, and from a row on are not in c yet: a kind may write them while it
 * multiplies the next one. */
struct tide_unwritten {
    struct tide_tile tile; /* rows: 0 if there is none */
    int64_t row;
    _Alignas(TIDE_CACHE_LINE) float sums[32 * 32]; /* [rows][columns] of the kind */
};

/* Some cells of b, as it lies in memory, by a few rows of a (few.h). */
enum { TIDE_FEW_LINES = 16, TIDE_FEW_CELLS = 64 };
struct tide_few {
    const struct tide_operand *b;
    struct tide_strip strip; /* of b */
    const uint32_t *packed;  /* across: the same, packed; NULL: its columns are all there, and are read */
    /* For asking, across: bytes to the columns that are read next, and to the rows; 0: there are none. */
    int64_t beside, ahead;
    struct tide_cache_lines ask; /* along: cache lines that are read next */
    const uint32_t *a;           /* from the first cell on: row i of cell k at a[k * a_cell + i] */
    int64_t a_cell;              /* 16; across, of one row, it may be 1 */
    int64_t rows;                /* that there are */
    bool begins;                 /* the first cells of k: sums begin at 0 */
    float *sums;                 /* across: [16 rows][columns of the kind]; along: [16 lines][16 rows] */
};

/* Some of k, whose cells follow each other in each row of a and in b. */
struct tide_stretch {
    int64_t a, b, cells; /* of a: words from where the rows begin; of b: cells */
};

/* A tile whose rows lie anywhere, and of k only some stretches count: of windows (window_products.h). */
struct tide_window_tile {
    const uint32_t *a[TIDE_WINDOW_ROWS]; /* rows; those that are not there are as the first */
    int64_t a_cell;                      /* words from a cell of a row to the next */
    const struct tide_stretch *stretches;
    int64_t stretch_count;
    const uint32_t *b; /* cell k of column j at b[k * b_cell + j] */
    int64_t b_cell;
    char *c;
    int64_t c_row[TIDE_WINDOW_ROWS]; /* bytes from c to each row */
    enum tide_dtype to;              /* of c */
    int64_t rows, width;
    bool is_cut;       /* b ends with the tile's last column; else with a vector */
    const float *bias; /* these are as above */
    const char *add;
    bool relu, begins, ends;
    float *sums;
    int64_t cells;                  /* of all stretches */
    struct tide_cache_lines ask[2]; /* cache lines of what will be read soon */
};

struct tide_tile_kind {
    const char *name;
    enum tide_dtype cells; /* f32, or pairs of bf16 */
    int rows, columns;
    int cell_step;         /* cells are a multiple of this, beyond the last one 0 */
    int64_t most_in_place; /* numbers of b that may be read where they lie, if they are f32; 0: none, nor a */
    int block;             /* cells that are multiplied at a time: columns of them stay in a cache */
    int group;             /* panels that are multiplied with a block of rows before the next block */
    int rows_to_pack_for;  /* for fewer rows columns are not packed by each thread */
    int more_per_cell;     /* cache lines of ask_more that a tile asks for with each cell */
    tide_packer *pack_a, *pack_b;
    tide_packer *pack_cells; /* cell by cell, whatever the others do: sixteen lanes */
    void (*tile)(const struct tide_tile *tile);
    void (*finish)(struct tide_unwritten *unwritten); /* after the last tile; NULL: all is written */
    void (*begin)(void), (*end)(void);                /* by each thread, around its tiles; NULL: nothing */
    /* For few rows, up to sixteen: across, a strip of its columns; along, up to TIDE_FEW_LINES lines and
     * TIDE_FEW_CELLS cells. NULL: not by this kind. */
    void (*across)(const struct tide_few *few), (*along)(const struct tide_few *few);
    void (*window)(const struct tide_window_tile *tile); /* NULL: there is none */
};

/* What multiplies cells of that type with those instructions. multiplies_bf16: AVX-512 does so clearly faster
 * than f32; else bf16 is widened to cells of f32. packs: b may be packed first, which AMX needs where k runs
 * across it. */
const struct tide_tile_kind *tide_tile_choose(enum tide_isa isa, bool multiplies_bf16, enum tide_dtype from,
                                              bool packs);

/* The same on this processor: of products in tiles; and of a few rows, which read b as fast as it comes. */
const struct tide_tile_kind *tide_tile_kind(enum tide_dtype from);
const struct tide_tile_kind *tide_tile_kind_of_few(enum tide_dtype from, bool b_transposed);

/* The end of a tile in plain C: sums [rows][columns] become numbers of c. */
void tide_tile_write_plainly(const struct tide_tile *tile, const float *sums, int64_t columns);

/* Of kinds that have one. */
void tide_window_avx2(const struct tide_window_tile *tile);
void tide_window_avx512(const struct tide_window_tile *tile);
void tide_window_avx512_bf16(const struct tide_window_tile *tile);

extern const struct tide_tile_kind tide_tile_plain, tide_tile_avx2, tide_tile_avx512, tide_tile_avx512_bf16,
    tide_tile_amx;

#endif
