#include "term/cells.h"
#include "base/check.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void tide_cells_init(struct tide_cells *cells, bool ascii)
{
    *cells = (struct tide_cells){.ascii = ascii};
}

void tide_cells_release(struct tide_cells *cells)
{
    free(cells->cells);
    *cells = (struct tide_cells){0};
}

static int clamp(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

int tide_cells_resize(struct tide_cells *cells, int columns, int rows)
{
    columns = clamp(columns, 1, TIDE_CELLS_COLUMNS);
    rows = clamp(rows, 1, TIDE_CELLS_ROWS);
    if (!cells->cells || columns != cells->columns || rows != cells->rows) {
        struct tide_cell *fresh = calloc((size_t)columns * (size_t)rows, sizeof *fresh);
        if (!fresh)
            return -1;
        free(cells->cells);
        cells->cells = fresh;
        cells->columns = columns;
        cells->rows = rows;
    }
    tide_cells_clear(cells);
    return 0;
}

void tide_cells_clear(struct tide_cells *cells)
{
    tide_cells_blank(cells, 0, cells->rows);
}

void tide_cells_blank(struct tide_cells *cells, int row, int rows)
{
    for (int y = row < 0 ? 0 : row; y < row + rows && y < cells->rows; y++)
        for (int x = 0; x < cells->columns; x++)
            cells->cells[(size_t)y * (size_t)cells->columns + (size_t)x] =
                (struct tide_cell){.rune = ' ', .style = TIDE_STYLE_PLAIN, .columns = 1};
}

static struct tide_cell *cell_at(const struct tide_cells *cells, int row, int column)
{
    if (row < 0 || row >= cells->rows || column < 0 || column >= cells->columns)
        return NULL;
    return &cells->cells[(size_t)row * (size_t)cells->columns + (size_t)column];
}

/* Blanks the other half of a wide rune, one half of which is about to be overwritten. */
static void split_wide(struct tide_cells *cells, int row, int column)
{
    struct tide_cell *cell = cell_at(cells, row, column);
    struct tide_cell *other = cell->columns == 0   ? cell_at(cells, row, column - 1)
                              : cell->columns == 2 ? cell_at(cells, row, column + 1)
                                                   : NULL;
    if (other)
        *other = (struct tide_cell){.rune = ' ', .style = other->style, .columns = 1};
}

static void put(struct tide_cells *cells, int row, int column, enum tide_style style, uint32_t rune,
                int columns)
{
    struct tide_cell *cell = cell_at(cells, row, column);
    if (!cell || (columns == 2 && !cell_at(cells, row, column + 1)))
        return;
    split_wide(cells, row, column);
    *cell = (struct tide_cell){.rune = rune, .style = (uint8_t)style, .columns = (uint8_t)columns};
    if (columns == 2) {
        split_wide(cells, row, column + 1);
        cell[1] = (struct tide_cell){.rune = 0, .style = (uint8_t)style, .columns = 0};
    }
}

static uint32_t harmless(const struct tide_cells *cells, uint32_t rune)
{
    bool control = rune < 0x20 || (rune >= 0x7f && rune < 0xa0);
    return control || (cells->ascii && rune > 0x7e) ? '?' : rune;
}

void tide_cells_rune(struct tide_cells *cells, int row, int column, enum tide_style style, uint32_t rune)
{
    put(cells, row, column, style, harmless(cells, rune), 1);
}

/* Draws the first len bytes, which must fit. Returns the columns used. */
static int draw(struct tide_cells *cells, int row, int column, enum tide_style style, const char *text,
                size_t len)
{
    int used = 0;
    for (size_t i = 0; i < len;) {
        unsigned rune = '?';
        size_t taken = tide_text_rune(text + i, len - i, &rune);
        size_t bytes = taken ? taken : 1;
        int columns = taken ? (int)tide_text_columns(text + i, taken) : 1;
        rune = harmless(cells, rune);
        if (columns > 0)
            put(cells, row, column + used, style, rune, rune == '?' ? 1 : columns);
        used += rune == '?' ? (columns > 0) : columns;
        i += bytes;
    }
    return used;
}

int tide_cells_text(struct tide_cells *cells, int row, int column, int width, enum tide_style style,
                    const char *text)
{
    size_t len = strlen(text);
    if (width <= 0)
        return 0;
    if (tide_text_fitting(text, len, (size_t)width) == len)
        return draw(cells, row, column, style, text, len);
    int dots = width > 4 ? 2 : 0;
    int used = draw(cells, row, column, style, text, tide_text_fitting(text, len, (size_t)(width - dots)));
    return used + draw(cells, row, column + used, style, "..", (size_t)dots);
}

int tide_cells_format(struct tide_cells *cells, int row, int column, int width, enum tide_style style,
                      const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tide_cells_text(cells, row, column, width, style, text);
}

void tide_cells_right(struct tide_cells *cells, int row, int column, int width, enum tide_style style,
                      const char *text)
{
    int columns = (int)tide_text_columns(text, strlen(text));
    int skip = columns < width ? width - columns : 0;
    tide_cells_text(cells, row, column + skip, width - skip, style, text);
}

/* Returns the bytes of the next line: up to the last space that fits, or as much as fits if there is none. */
static size_t line_bytes(const char *text, int width)
{
    size_t len = strcspn(text, "\n");
    size_t fits = tide_text_fitting(text, len, (size_t)width);
    if (fits == len)
        return len;
    for (size_t at = fits + 1; at-- > 1;)
        if (text[at] == ' ')
            return at;
    return fits ? fits : 1;
}

int tide_cells_wrap(struct tide_cells *cells, int row, int column, int width, int lines, int hang,
                    enum tide_style style, const char *text)
{
    int used = 0;
    while (*text && used < lines && width > 0) {
        if (used == lines - 1) {
            char last[TIDE_CELLS_COLUMNS * 4 + 8];
            snprintf(last, sizeof last, "%.*s", (int)strcspn(text, "\n"), text);
            tide_cells_text(cells, row + used++, column, width, style, last);
            break;
        }
        size_t len = line_bytes(text, width);
        draw(cells, row + used, column, style, text, len);
        text += len;
        text += *text == '\n';
        text += strspn(text, " ");
        if (used++ == 0 && width > 2 * hang) {
            column += hang;
            width -= hang;
        }
    }
    return used;
}

void tide_cells_paint(struct tide_cells *cells, int row, int column, int width, enum tide_style style)
{
    TIDE_CHECK(style, <, TIDE_STYLES);
    for (int x = column; x < column + width; x++) {
        struct tide_cell *cell = cell_at(cells, row, x);
        if (cell)
            cell->style = (uint8_t)style;
    }
}

static void write_rune(FILE *out, uint32_t rune)
{
    static const uint32_t leads[] = {0, 0xc0, 0xe0, 0xf0};
    int more = rune < 0x80 ? 0 : rune < 0x800 ? 1 : rune < 0x10000 ? 2 : 3;
    fputc((int)(leads[more] | rune >> 6 * more), out);
    while (more-- > 0)
        fputc((int)(0x80 | (rune >> 6 * more & 0x3f)), out);
}

void tide_cells_dump(const struct tide_cells *cells, FILE *out)
{
    for (int row = 0; row < cells->rows; row++) {
        int last = cells->columns;
        while (last > 0 && cell_at(cells, row, last - 1)->rune == ' ')
            last--;
        for (int column = 0; column < last; column++) {
            const struct tide_cell *cell = cell_at(cells, row, column);
            if (cell->columns)
                write_rune(out, cell->rune);
        }
        fputc('\n', out);
    }
}
