/*
 * status_line.h - a status line in the last row of a terminal that another program writes to.
 *
 * All output to the terminal passes through here: tide_status_line_init -> _feed() the program's bytes,
 * _draw() a text now and then, _resize() -> _end(). The bytes to write are handed to `put`, in order. Apart
 * from what this file adds, they are exactly the bytes that were fed; an incomplete escape sequence is held
 * back until it is complete, or until _flush. No I/O of its own; one thread.
 *
 * The last row is reserved with a scroll region, and the program sees a terminal one row smaller
 * (tide_status_line_rows). Nothing is added while the program is inside an escape sequence, a string or a
 * UTF-8 sequence, while its cursor waits at the right edge or its column is not known, in the alternate
 * screen, or while it has a scroll region of its own. Nothing is ever added again once it has saved its
 * cursor, because a terminal has only one place to save it. The row is given back before such a sequence is
 * passed on. Terminals with fewer than 6 rows or 40 columns get no line.
 */
#ifndef TIDE_STATUS_LINE_H
#define TIDE_STATUS_LINE_H

#include <stdbool.h>
#include <stddef.h>

typedef void tide_status_put(void *context, const char *bytes, size_t len);

enum { TIDE_STATUS_SEQUENCE = 64 };

struct tide_status_line {
    tide_status_put *put;
    void *context;
    int rows, columns; /* of the real terminal */
    bool colour;
    bool wanted;    /* false: bytes pass straight through */
    bool shown;     /* the scroll region is in place */
    bool stale;     /* the program may have erased the row */
    bool retired;   /* the program saved its cursor: no status line any more */
    bool alternate; /* the program is in the alternate screen */
    bool region;    /* the program has a scroll region of its own */
    int state;
    unsigned rune_left; /* bytes of a UTF-8 sequence still to come */
    size_t cells;       /* column of the cursor, if known; == columns: the cursor waits at the right edge */
    bool cells_known;
    char held[TIDE_STATUS_SEQUENCE];
    size_t held_len;
};

void tide_status_line_init(struct tide_status_line *line, int rows, int columns, bool wanted, bool colour,
                           tide_status_put *put, void *context);

/* Returns the number of rows that the program may use. */
int tide_status_line_rows(const struct tide_status_line *line);

void tide_status_line_feed(struct tide_status_line *line, const char *bytes, size_t len);

/* Passes on what is held back. */
void tide_status_line_flush(struct tide_status_line *line);

/* Shows the text (already escaped, cut to fit) if that is safe now. True if the row now shows it. */
bool tide_status_line_draw(struct tide_status_line *line, const char *text);

/* Writes a message among the program's output, as a line of its own. */
void tide_status_line_say(struct tide_status_line *line, const char *text);

void tide_status_line_resize(struct tide_status_line *line, int rows, int columns);

/* Clears the row and removes the scroll region; a later _draw brings it back. */
void tide_status_line_end(struct tide_status_line *line);

#endif
