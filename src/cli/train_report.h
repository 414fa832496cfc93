/*
 * train_report.h - what `tidemark train` prints: the layout, progress, what each phase took; as text or JSON.
 *
 * Progress is one line that is redrawn where stderr is a terminal, and lines on stdout elsewhere; with JSON,
 * a document per line on stdout. Nothing here allocates once the first line is out.
 */
#ifndef TIDE_TRAIN_REPORT_H
#define TIDE_TRAIN_REPORT_H

#include "cli/train_breakdown.h"
#include "train/trainer.h"

struct tide_train_view {
    bool json, bar;                /* bar: progress is one line on the terminal, redrawn in place */
    bool drawn;                    /* that line is on the screen now */
    int64_t first_anonymous_bytes; /* after the first step; -1: not yet */
    struct {
        int64_t step, evaluation, checkpoint;
    } resident; /* bytes of this process after each of these; -1: not yet known */
};

/* Progress of the run. NAN: not known. */
struct tide_train_progress {
    const struct tide_task *task; /* the task whose numbers are shown */
    int64_t step, steps;
    double tokens_per_second, steps_per_second, peak_share;
    double seconds, seconds_left;
    int64_t plan_bytes, arena_high_bytes;
    int64_t rss_bytes,
        anonymous_bytes; /* anonymous_bytes: without file pages, which come in as code first runs */
    bool final;
    const char *sample; /* text from the model; NULL: it was not asked */
};

void tide_train_view_init(struct tide_train_view *view, bool json);

/* Prints the memory layout. With JSON and `only`, one document on stdout; with JSON alone, text on stderr. */
int tide_train_print_layout(bool json, const struct tide_trainer *trainer, bool only, struct tide_err *err);

/* Prints a report: a line that stays. */
void tide_train_print(struct tide_train_view *view, const struct tide_train_progress *progress);

/* Redraws the progress line; does nothing where there is none. */
void tide_train_draw(struct tide_train_view *view, const struct tide_train_progress *progress);

/* Clears that line, so that others can write. */
void tide_train_clear(struct tide_train_view *view);

/* Prints the planned and used arena of each phase, and the largest tensors at the peak. */
void tide_train_print_memory(const struct tide_train_view *view, const struct tide_trainer *trainer);

#endif
