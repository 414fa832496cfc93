/*
 * trainer.h - the loop: from options to a model on disk, in a memory fixed beforehand.
 *
 * A task (task.h) says what is trained: tide_lm_new() makes one. tide_trainer_new (options settled, plan: no
 * memory of the plan is taken) -> tide_trainer_start (arena, weights made or loaded) -> tide_trainer_step()
 * until done -> _free. The caller prints, and decides when to evaluate and save; marks of steps and phases go
 * out through tidemark.h from here.
 *
 * After the first step, steps and evaluations allocate nothing and touch no new page. Step n is a function of
 * the seed, n and what the weights were: stopping and going on changes no bit.
 */
#ifndef TIDE_TRAINER_H
#define TIDE_TRAINER_H

#include "train/task.h"

struct tide_train_options {
    struct tide_train_settings settings; /* what was not given: as the run that goes on has it, or usual */
    const char *out, *resume;            /* resume: "auto" or a path */
    int64_t threads;                     /* or TIDE_NOT_GIVEN */
    int64_t budget_bytes;                /* 0: none */
    int keep;                            /* checkpoints */
    bool reference;                      /* products in plain C, for tests */
    bool (*hurries)(void); /* whether to stop in the middle of a step, asked often; NULL: never */
};

struct tide_trainer;

/* A budget into which nothing exact fits is refused here, with the least possible and what would fit; so is a
 * directory that holds a run which is not resumed. The task is the trainer's from now on, whatever comes of
 * it. Caller frees. */
int tide_trainer_new(struct tide_task *task, const struct tide_train_options *options,
                     struct tide_trainer **ret_trainer, struct tide_err *err);
int tide_trainer_start(struct tide_trainer *trainer, struct tide_err *err);
void tide_trainer_free(struct tide_trainer *trainer);

struct tide_train_report {
    int64_t step;            /* steps done */
    double loss, norm, rate; /* norm: NAN without a clip */
    int64_t tokens;          /* of this step */
};

/* One step. 1: stopped in the middle, at a point from which it can go on when it is saved. -1 when the loss
 * or the norm is not a number any more, or the data are not what they were, with the step; the weights are
 * then those before it (with a fused update and no clip, not if it was the norm). */
int tide_trainer_step(struct tide_trainer *trainer, struct tide_train_report *ret_report,
                      struct tide_err *err);

/* The task's numbers of held-out data; last: after the last step. */
int tide_trainer_evaluate(struct tide_trainer *trainer, bool last, struct tide_err *err);

/* What the model says, as text: untrusted bytes, to be escaped before they are shown. */
int tide_trainer_sample(struct tide_trainer *trainer, char *out, size_t size, struct tide_err *err);

/* Into the directory of the options. -1: what was there stays. Weights that are no numbers are not saved. */
int tide_trainer_save(struct tide_trainer *trainer, struct tide_err *err);

/* All borrowed. The options are the settled ones; the machine is NULL before the start. */
const struct tide_task *tide_trainer_task(const struct tide_trainer *trainer);
const struct tide_train_options *tide_trainer_options(const struct tide_trainer *trainer);
const struct tide_graph *tide_trainer_graph(const struct tide_trainer *trainer);
const struct tide_plan *tide_trainer_layout(const struct tide_trainer *trainer);
const struct tide_plan *tide_trainer_least(const struct tide_trainer *trainer);
/* All memory of the run: the arena, and what the task holds beside it. */
size_t tide_trainer_planned(const struct tide_trainer *trainer);
struct tide_device *tide_trainer_device(const struct tide_trainer *trainer);
struct tide_machine *tide_trainer_machine(const struct tide_trainer *trainer);
int64_t tide_trainer_done(const struct tide_trainer *trainer); /* steps, those before a resume included */
const char *tide_trainer_resumed(const struct tide_trainer *trainer); /* from where; NULL: from nothing */
/* How many threads steps are fastest with, as far as was found; of those that the options have. */
int tide_trainer_threads(const struct tide_trainer *trainer);

/* Why newer checkpoints than the one resumed from were not taken; NULL: there were none. */
const char *tide_trainer_passed_over(const struct tide_trainer *trainer);

/* ---- for tasks */

/* Of a size of the task that is too large for the budget: the most that fits; 0: nothing does. The size is
 * left as it was tried last. */
int64_t tide_trainer_most_that_fits(const struct tide_trainer *trainer, int64_t *size);

/* A loss or a norm that is not a number: -1, with the step and what to do. */
int tide_trainer_stop_at(int64_t step, const char *what, struct tide_err *err);

#endif
