/*
 * train_report.h - what `tidemark train` says: the layout, how it goes, what each phase took; as text or
 * JSON.
 *
 * Progress is one line that is drawn again where stderr is a terminal, and lines on stdout elsewhere; with
 * JSON, a document per line on stdout. Nothing here allocates once the first line is out.
 */
#ifndef TIDE_TRAIN_REPORT_H
#define TIDE_TRAIN_REPORT_H

#include "cli/train_breakdown.h"
#include "train/trainer.h"

struct tide_train_view {
    bool json, bar;                /* bar: a line on the terminal that is drawn again */
    bool drawn;                    /* it is there now */
    int statm;                     /* /proc/self/statm; -1: cannot be read */
    int64_t first_anonymous_bytes; /* after the first step; -1: not yet */
};

/* How it goes. What is not known is NAN. */
struct tide_train_progress {
    const struct tide_task *task; /* whose numbers are told */
    int64_t step, steps;
    double tokens_per_second, steps_per_second, peak_share;
    double seconds, seconds_left;
    int64_t plan_bytes, arena_high_bytes;
    int64_t rss_bytes,
        anonymous_bytes; /* the second: without pages of files, which come as code is first run */
    bool final;
    const char *sample; /* what the model says; NULL: it was not asked */
};

/* What the system says that this process has, after steps, evaluations and checkpoints; -1: not yet. */
struct tide_train_resident {
    int64_t step, evaluation, checkpoint;
};

void tide_train_view_init(struct tide_train_view *view, bool json);
void tide_train_view_release(struct tide_train_view *view);

/* Of this process, from the system; -1: unknown. Returns the whole; ret_anonymous may be NULL. */
int64_t tide_train_rss(const struct tide_train_view *view, int64_t *ret_anonymous);

/* What is where, and why. With JSON and `only`, one document on stdout; with JSON alone, text on stderr. */
int tide_train_print_layout(const struct tide_train_view *view, const struct tide_trainer *trainer, bool only,
                            struct tide_err *err);

/* A report: a line that stays. */
void tide_train_print(struct tide_train_view *view, const struct tide_train_progress *progress);

/* Draws the line of the terminal again; does nothing where there is none. */
void tide_train_draw(struct tide_train_view *view, const struct tide_train_progress *progress);

/* Takes that line away, so that others can write. */
void tide_train_clear(struct tide_train_view *view);

/* What each phase was planned to take of the arena and took, and who has it at the peak. */
void tide_train_print_memory(const struct tide_train_view *view, const struct tide_trainer *trainer,
                             const struct tide_train_resident *resident);

#endif
