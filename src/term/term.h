/*
 * term.h - the real terminal: shows cells, reads keys, and restores the state in which it was found.
 *
 * tide_term_open -> { _show, _wait } -> tide_term_close. Only one may be open in a process, because signal
 * handlers need it. The terminal is restored by _close, by a fatal signal or a failed check (the handler
 * restores it and then dies of the same signal), and around a stop with Ctrl-Z. While it is open, output to
 * stderr is kept and written at the end, so that no message is overdrawn or lost with the screen.
 */
#ifndef TIDE_TERM_H
#define TIDE_TERM_H

#include "base/err.h"
#include "term/cells.h"

#include <stdint.h>

struct tide_term;

enum tide_term_event {
    TIDE_TERM_NOTHING, /* the timeout passed */
    TIDE_TERM_KEY,     /* in ret_key: a character, or one of keys.h; Ctrl-C is one too */
    TIDE_TERM_CLICK,   /* first mouse button; only after tide_term_mouse() */
    TIDE_TERM_RESIZED, /* or continued after a stop: draw again */
    TIDE_TERM_LEAVE,   /* SIGTERM, SIGHUP, or the terminal is gone */
};

/* Fails if there is no terminal, or if it cannot place a cursor. The error begins with `who`, which needs
 * one. */
int tide_term_check(const char *who, struct tide_err *err);

/* Fails as tide_term_check() does. Uses colour unless NO_COLOR is set or the terminal has none. */
int tide_term_open(const char *who, struct tide_term **ret_term, struct tide_err *err);
void tide_term_close(struct tide_term *term);

void tide_term_size(const struct tide_term *term, int *ret_columns, int *ret_rows);

/* True if the locale can show more than ASCII. */
bool tide_term_unicode(void);

void tide_term_show(struct tide_term *term, const struct tide_cells *cells);

/* The next _show draws every cell, even those that it believes unchanged. */
void tide_term_redraw(struct tide_term *term);

/* Turns clicks into events, where the terminal has a mouse. */
void tide_term_mouse(struct tide_term *term);

/* Returns the cell of the last click, from 0. */
void tide_term_clicked(const struct tide_term *term, int *ret_row, int *ret_column);

/* Waits for an event. If `wake` (-1: none) becomes readable first, returns TIDE_TERM_NOTHING. */
enum tide_term_event tide_term_wait(struct tide_term *term, int64_t timeout_ns, int wake, int *ret_key);

#endif
