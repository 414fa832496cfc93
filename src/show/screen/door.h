/*
 * door.h - connects the terminal and the view, so that a user who quits never waits.
 *
 * The view reads, judges and draws in a thread of its own, however long that takes; the terminal belongs to
 * the thread that opened it. The door passes keys to the view and frames to the terminal. It handles quitting
 * itself, and asks what becomes of a program that still runs.
 *
 * tide_door_new -> the view: { _size, _show, _wait } until _end; the terminal: _serve -> both: _close; the
 * last one frees the door. After _serve has returned, nobody sees the view's frames any more.
 */
#ifndef TIDE_DOOR_H
#define TIDE_DOOR_H

#include "base/err.h"
#include "show/screen/screen.h"
#include "term/term.h"

struct tide_door;

/* If a program runs for the view, the door passes the first Ctrl-C to config->interrupt, and asks before the
 * user leaves. NULL: out of memory or of descriptors. */
struct tide_door *tide_door_new(const struct tide_term *term, const struct tide_screen_config *config);
void tide_door_close(struct tide_door *door);

/* ---- the view's side */

/* Like the functions of term.h. A frame that was not shown before the next one comes is dropped. */
void tide_door_size(struct tide_door *door, int *ret_columns, int *ret_rows);
void tide_door_show(struct tide_door *door, const struct tide_cells *cells);
enum tide_term_event tide_door_wait(struct tide_door *door, int64_t timeout_ns, int *ret_key);

enum tide_door_word {
    TIDE_DOOR_REDRAW,        /* draw every cell of the next frame */
    TIDE_DOOR_LEAVE,         /* the user wants to leave, not by a key that the door knows */
    TIDE_DOOR_PROGRAM_ENDED, /* there is nothing to ask any more; an open question means leaving */
};
void tide_door_tell(struct tide_door *door, enum tide_door_word word);

/* Sets what the view would say at its end. Copies it. */
void tide_door_say(struct tide_door *door, const char *text);

/* Asks config->ended, while the terminal's side is still there: its data may go with it. */
bool tide_door_program_ended(struct tide_door *door);

/* The view ends. `err` NULL: it did not fail. */
void tide_door_end(struct tide_door *door, enum tide_screen_end end, const struct tide_err *err);

/* ---- the terminal's side */

/* Runs until the view ends or the user leaves. 0, or -1 with the view's error. */
int tide_door_serve(struct tide_door *door, struct tide_term *term, struct tide_screen_outcome *ret_outcome,
                    struct tide_err *err);

#endif
