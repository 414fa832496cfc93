/*
 * term.h - the real terminal: cells on the screen, keys from the keyboard, and the state it was in.
 *
 * tide_term_open -> { _show, _wait } -> tide_term_close. One at a time in a process: signal handlers need it.
 * The terminal is put back as it was by _close, by a fatal signal or a failed check (the handler does it and
 * then dies of the same signal), and around a stop with Ctrl-Z. While it is open, what is written to stderr
 * is kept and comes out at the end, so that no message is drawn over or lost with the screen.
 */
#ifndef TIDE_TERM_H
#define TIDE_TERM_H

#include "base/err.h"
#include "term/cells.h"

#include <stdint.h>

struct tide_term;

enum tide_term_event {
    TIDE_TERM_NOTHING, /* the time is over */
    TIDE_TERM_KEY,     /* in ret_key: a character, or one of keys.h; Ctrl-C is one too */
    TIDE_TERM_CLICK,   /* of the mouse's first button; only after tide_term_mouse() */
    TIDE_TERM_RESIZED, /* or came back from a stop: draw again */
    TIDE_TERM_LEAVE,   /* SIGTERM, SIGHUP, or the terminal is gone */
};

/* Fails on what is not a terminal, or one that cannot place a cursor; the sentence begins with who needs one.
 */
int tide_term_check(const char *who, struct tide_err *err);

/* Fails likewise. Colour unless NO_COLOR is set or there is none. */
int tide_term_open(const char *who, struct tide_term **ret_term, struct tide_err *err);
void tide_term_close(struct tide_term *term);

void tide_term_size(const struct tide_term *term, int *ret_columns, int *ret_rows);

/* Whether the locale can show more than ASCII. */
bool tide_term_unicode(void);

void tide_term_show(struct tide_term *term, const struct tide_cells *cells);

/* The next _show draws every cell, whatever the terminal is thought to show. */
void tide_term_redraw(struct tide_term *term);

/* From now on clicks are events, where the terminal has a mouse. */
void tide_term_mouse(struct tide_term *term);

/* Where the last one was, from 0. */
void tide_term_clicked(const struct tide_term *term, int *ret_row, int *ret_column);

/* Also until `wake` can be read (-1: no such descriptor), which is nothing. */
enum tide_term_event tide_term_wait(struct tide_term *term, int64_t timeout_ns, int wake, int *ret_key);

#endif
