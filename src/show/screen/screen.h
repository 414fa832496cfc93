/*
 * screen.h - the full-screen view of a recording that grows, or of one that has ended.
 *
 * One call, tide_screen_run(), until the user leaves. Everything shown comes from the recording, read again
 * and again, and from the assessment, made anew as often as it costs less than a twentieth of the time, in a
 * thread of its own so that keys never wait for it (the history is not touched meanwhile). The screen is
 * drawn when something changed, for new data at most four times a second. Quitting waits for none of it: the
 * view has a thread of its own as well, which may be left behind at its work (door.h).
 *
 * With `dump` there is no terminal: `frames` frames are drawn into cells, one of the keys before each, and
 * the last is printed. Time then goes on by a quarter of a second per frame, whatever the clock says, unless
 * the recording is live.
 */
#ifndef TIDE_SCREEN_H
#define TIDE_SCREEN_H

#include "assess/assessment.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tide_screen_config {
    const char *path;     /* the recording */
    const char *log_path; /* what the program prints, or NULL */
    struct tide_assess_options assess;
    bool live; /* somebody is writing it */

    bool (*ended)(void *context);     /* whether the writer of the recording is done; NULL: not known */
    void (*interrupt)(void *context); /* Ctrl-C for a program that runs for this view; NULL: there is none */
    void *context;

    int64_t frames;    /* 0: until the user leaves; else the program is stopped after them */
    const char *keys;  /* pressed one per frame; "<down>" and the like are keys with names; or NULL */
    int columns, rows; /* 0: as the terminal says; 80x24 without one */
    bool dump;
    FILE *out; /* of the dump */
};

enum tide_screen_end {
    TIDE_SCREEN_QUIT, /* the user left, or was made to; a program that runs keeps running */
    TIDE_SCREEN_STOP, /* the user wants the program ended */
};

struct tide_screen_outcome {
    enum tide_screen_end end;
    char *said; /* the last verdict, in lines; caller frees with free(). NULL: there was none yet */
};

/* Whether there is a terminal to draw on; -1 with a sentence and a hint when there is none. */
int tide_screen_check(struct tide_err *err);

/* After the call nothing of `config` is used but `keys`. */
int tide_screen_run(const struct tide_screen_config *config, struct tide_screen_outcome *ret_outcome,
                    struct tide_err *err);

/* The first key of a text for `keys` ("z", "<enter>"), and where it ends; 0: none, or no such name. */
int tide_screen_key(const char *text, const char **ret_rest);

#endif
