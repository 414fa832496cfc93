/*
 * trainer.h - the loop: from options to a model on disk, in memory that is fixed beforehand.
 *
 * A task (task.h) says what is trained: tide_lm_new() makes one. tide_trainer_new (settles options and plans;
 * allocates nothing of the plan) -> tide_trainer_start (arena, weights made or loaded) -> tide_trainer_step()
 * until done -> _free. The caller prints, and decides when to evaluate and save; the trainer sends the marks
 * of steps and phases (tidemark.h).
 *
 * After the first step, steps and evaluations allocate nothing and touch no new page. Step n is a function of
 * the seed, n and the weights before it: stopping and resuming changes no bit.
 */
#ifndef TIDE_TRAINER_H
#define TIDE_TRAINER_H

#include "train/task.h"
#include "train/tuning.h"

struct tide_train_options {
    struct tide_train_settings settings; /* not given: as in the resumed run, or the default */
    const char *out, *resume;            /* resume: "auto" or a path */
    int64_t threads;                     /* or TIDE_NOT_GIVEN */
    int64_t budget_bytes;                /* 0: none */
    int64_t keep;                        /* checkpoints */
    bool plans_only;                     /* it will not be started: `out` is neither made nor locked */
    bool (*hurries)(void);               /* true: stop in the middle of a step; called often; NULL: never */
};

/* Others read it and change nothing. */
struct tide_trainer {
    struct tide_task *task;
    struct tide_train_options options; /* settled */
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_plan plan, least;          /* the chosen and the smallest one */
    struct tide_machine *machine;          /* NULL before the start */
    int64_t done;                          /* steps, with those before a resume */
    char resumed[TIDE_SETTING_PATH_BYTES]; /* from where; "": a new run */
    char passed_over[512];                 /* why newer checkpoints were skipped; "": there were none */
    struct tide_checkpoint_dir out;        /* held while the run goes on */
    struct tide_tuning tuning;
    bool is_warm; /* after the first step of this process: no more allocations */
};

/* Refuses a budget that no exact plan fits, with the least possible and what would fit, and a directory that
 * holds a run that is not resumed, or that another process trains into. Locks the directory until the trainer
 * is freed. Takes ownership of the task, even if it fails. Caller frees. */
int tide_trainer_new(struct tide_task *task, const struct tide_train_options *options,
                     struct tide_trainer **ret_trainer, struct tide_err *err);
int tide_trainer_start(struct tide_trainer *trainer, struct tide_err *err);
void tide_trainer_free(struct tide_trainer *trainer);

/* Does one step. 1: stopped in the middle, at a point that can be saved and resumed. -1, with the step, if
 * the loss or the norm is not finite, or the data changed; the weights are then those before it (unless the
 * norm failed in a fused update without a clip). */
int tide_trainer_step(struct tide_trainer *trainer, struct tide_task_step *ret_step, struct tide_err *err);

/* Updates the task's numbers of held-out data; last: after the last step. */
int tide_trainer_evaluate(struct tide_trainer *trainer, bool last, struct tide_err *err);

/* What the model writes, as text: untrusted bytes, to be escaped before they are shown. */
int tide_trainer_sample(struct tide_trainer *trainer, char *out, size_t size, struct tide_err *err);

/* Saves into the directory of the options. -1: what was there stays. Refuses weights that are not finite. */
int tide_trainer_save(struct tide_trainer *trainer, struct tide_err *err);

/* All memory of the run: the arena, and what the task holds besides it. */
size_t tide_trainer_planned(const struct tide_trainer *trainer);

/* The number of threads that steps are fastest with, as far as is known; at most that of the options. */
int tide_trainer_threads(const struct tide_trainer *trainer);

/* ---- for tasks */

/* For a size of the task that is too large for the budget: returns the largest that fits; 0: none does.
 * Leaves the size as it was tried last. */
int64_t tide_trainer_most_that_fits(const struct tide_trainer *trainer, int64_t *size);

/* For a loss or a norm that is not finite: -1, with the step and what to do. */
int tide_trainer_stop_at(int64_t step, const char *what, struct tide_err *err);

#endif
