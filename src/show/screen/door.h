/*
 * door.h - stands between the terminal and the view, so that a user who quits never waits.
 *
 * The view reads, judges and draws in a thread of its own, however long that takes; the terminal belongs to
 * the thread that opened it. The door carries keys one way and frames the other. A user who wants to leave is
 * let out by the door itself, which also asks what becomes of a program that runs.
 *
 * tide_door_new -> the view: { _size, _show, _wait } until _end; the terminal: _serve -> both: _close, and
 * the last to close frees the door. After _serve has returned the view is on its own, with nobody to show to.
 */
#ifndef TIDE_DOOR_H
#define TIDE_DOOR_H

#include "base/err.h"
#include "show/screen/screen.h"
#include "term/term.h"

struct tide_door;

/* Where a program runs for the view, config->interrupt gets the first Ctrl-C, called by the door itself, and
 * leaving needs an answer. NULL: out of memory. */
struct tide_door *tide_door_new(const struct tide_term *term, const struct tide_screen_config *config);
void tide_door_close(struct tide_door *door);

/* ---- the view's side */

/* As those of the terminal; a frame that is not shown before the next one comes is left out. */
void tide_door_size(struct tide_door *door, int *ret_columns, int *ret_rows);
void tide_door_show(struct tide_door *door, const struct tide_cells *cells);
enum tide_term_event tide_door_wait(struct tide_door *door, int64_t timeout_ns, int *ret_key);

enum tide_door_word {
    TIDE_DOOR_REDRAW,        /* the next frame is drawn whole */
    TIDE_DOOR_LEAVE,         /* the user wants to leave by another way than a key that the door knows */
    TIDE_DOOR_PROGRAM_ENDED, /* nothing has to be asked any more, and whoever is being asked leaves */
};
void tide_door_tell(struct tide_door *door, enum tide_door_word word);

/* What the view would say at its end. Copies it. */
void tide_door_say(struct tide_door *door, const char *text);

/* Whether somebody is still there; if so they stay until tide_door_let(). Around what is theirs. */
bool tide_door_hold(struct tide_door *door);
void tide_door_let(struct tide_door *door);

/* The view wants to end. `err` NULL: it did not fail. */
void tide_door_end(struct tide_door *door, enum tide_screen_end end, const struct tide_err *err);

/* ---- the terminal's side */

/* Until the view ends or the user leaves. 0, or -1 with the view's error. */
int tide_door_serve(struct tide_door *door, struct tide_term *term, struct tide_screen_outcome *ret_outcome,
                    struct tide_err *err);

#endif
