/*
 * cells.h - a screen as an array of cells, into which the terminal view is drawn.
 *
 * tide_cells_init -> tide_cells_resize/_clear -> draw -> copy to a terminal, or tide_cells_dump() ->
 * _release. Drawing outside the array is clipped, never an error, so that panes need not know how small the
 * screen is.
 *
 * Nothing that could move a cursor can be stored: control characters become '?', and so does everything
 * beyond ASCII when `ascii` is set. Untrusted text must still go through tide_text_escape first, to be
 * readable. A wide rune takes two cells, the second with columns 0; a combining rune is dropped.
 */
#ifndef TIDE_CELLS_H
#define TIDE_CELLS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum tide_style {
    TIDE_STYLE_PLAIN,
    TIDE_STYLE_STRONG,
    TIDE_STYLE_DIM,
    TIDE_STYLE_GOOD,  /* flat, ended well */
    TIDE_STYLE_BAD,   /* grows, died */
    TIDE_STYLE_DOUBT, /* undecided, notes */
    TIDE_STYLE_FLOOR,
    TIDE_STYLE_SPIKE,
    TIDE_STYLE_LIMIT,
    TIDE_STYLE_PHASE,
    TIDE_STYLE_HEADING, /* of the table */
    TIDE_STYLE_CHOSEN,  /* the selected row */
    TIDE_STYLE_KEY,     /* a key in a help line */
    TIDE_STYLES
};

struct tide_cell {
    uint32_t rune;
    uint8_t style;
    uint8_t columns; /* 1, 2, or 0 for the right half of a wide rune */
};

enum { TIDE_CELLS_COLUMNS = 1000, TIDE_CELLS_ROWS = 500 };

struct tide_cells {
    struct tide_cell *cells; /* rows x columns */
    int columns, rows;
    bool ascii;
};

void tide_cells_init(struct tide_cells *cells, bool ascii);
void tide_cells_release(struct tide_cells *cells);

/* Also clears. Sizes are clamped to 1..TIDE_CELLS_*. -1: out of memory; the size is unchanged. */
int tide_cells_resize(struct tide_cells *cells, int columns, int rows);
void tide_cells_clear(struct tide_cells *cells);

/* Draws one rune of one column. */
void tide_cells_rune(struct tide_cells *cells, int row, int column, enum tide_style style, uint32_t rune);

/* Draws text in at most `width` columns; text that does not fit ends in "..". Returns the columns used. */
int tide_cells_text(struct tide_cells *cells, int row, int column, int width, enum tide_style style,
                    const char *text);
int tide_cells_format(struct tide_cells *cells, int row, int column, int width, enum tide_style style,
                      const char *format, ...) __attribute__((format(printf, 6, 7)));

/* The same, aligned to the right end of the field. */
void tide_cells_right(struct tide_cells *cells, int row, int column, int width, enum tide_style style,
                      const char *text);

/* Wraps text at spaces into at most `lines` lines of `width`, all but the first indented by `hang`. Returns
 * the number of lines used. */
int tide_cells_wrap(struct tide_cells *cells, int row, int column, int width, int lines, int hang,
                    enum tide_style style, const char *text);

/* Gives existing cells another style, or blanks them. */
void tide_cells_paint(struct tide_cells *cells, int row, int column, int width, enum tide_style style);
void tide_cells_blank(struct tide_cells *cells, int row, int rows);

/* Writes plain text, without the spaces at line ends. */
void tide_cells_dump(const struct tide_cells *cells, FILE *out);

#endif
