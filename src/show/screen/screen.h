/*
 * screen.h - the full-screen view of a recording that grows, or of one that has ended.
 *
 * tide_screen_run() runs until the user leaves. Everything shown comes from the recording, which is read
 * again and again, and from its assessment. The assessment is renewed as often as that takes less than a
 * twentieth of the time, in a thread of its own, so that keys never wait for it (meanwhile the history is not
 * changed). The screen is drawn when something changed, for new data at most four times a second. Quitting
 * waits for none of this: the view has a thread of its own too, which may be left behind at work (door.h).
 *
 * With `dump` there is no terminal: `frames` frames are drawn into cells, with one key before each, and the
 * last frame is printed. Time then advances by a quarter of a second per frame, unless the recording is live.
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
    const char *log_path; /* file with the program's output, or NULL */
    struct tide_assess_options assess;
    bool live; /* it is still being written */

    bool (*ended)(void *context);     /* true if the writer is done; NULL: not known */
    void (*interrupt)(void *context); /* sends Ctrl-C to the program of this view; NULL: there is none */
    void *context;

    int64_t frames;    /* 0: until the user leaves; else stop the program after that many */
    const char *keys;  /* one is pressed per frame; others are named, like "<down>"; or NULL */
    int columns, rows; /* 0: the terminal's size; 80x24 without one */
    bool dump;
    FILE *out; /* for the dump */
};

enum tide_screen_end {
    TIDE_SCREEN_QUIT, /* the user left, or had to; a program that runs keeps running */
    TIDE_SCREEN_STOP, /* the user wants to stop the program */
};

struct tide_screen_outcome {
    enum tide_screen_end end;
    char *said; /* the last verdict, as lines; caller frees with free(). NULL: none yet */
};

/* Checks that there is a terminal to draw on. -1 with an error and a hint if not. */
int tide_screen_check(struct tide_err *err);

/* After the call only config->keys is still used. */
int tide_screen_run(const struct tide_screen_config *config, struct tide_screen_outcome *ret_outcome,
                    struct tide_err *err);

/* Returns the first key of a text for `keys` ("z", "<enter>"), and where it ends. 0: none, or unknown. */
int tide_screen_key(const char *text, const char **ret_rest);

#endif
