/*
 * trainer.h - the loop: from options to a model on disk, in a memory fixed beforehand.
 *
 * tide_trainer_new (data, graph, plan, arena, weights: made or loaded) -> tide_trainer_step() until done ->
 * _free. The caller prints and decides when to evaluate, sample and save; marks of steps and phases go out
 * through tidemark.h from here.
 */
#ifndef TIDE_TRAINER_H
#define TIDE_TRAINER_H

#include "train/checkpoint.h"

struct tide_train_options {
    const char *preset, *config, *data, *out, *resume; /* NULL: not given */
    int64_t steps, batch, sequence, accumulate, warmup, eval_every, sample_every, save_every, threads;
    double rate, weight_decay, clip;
    const char *schedule; /* "cosine", "linear", "constant" */
    enum tide_dtype dtype;
    int64_t budget_bytes; /* 0: none */
    uint64_t seed;
    int keep;
    bool plain; /* without the matrix library */
};

struct tide_trainer;

/* What the layout is, without taking its memory: for --dry-run. */
int tide_trainer_plan(const struct tide_train_options *options, struct tide_plan *ret_plan,
                      struct tide_plan *ret_least, struct tide_gpt_config *ret_config, struct tide_err *err);

int tide_trainer_new(const struct tide_train_options *options, struct tide_trainer **ret_trainer,
                     struct tide_err *err);
void tide_trainer_free(struct tide_trainer *trainer);

struct tide_train_report {
    int64_t step; /* steps done */
    double loss, norm, rate;
    double seconds; /* of this step */
    int64_t tokens; /* of this step */
};

/* One step. -1 when the loss is no number any more, with the step; the weights are then those before it. */
int tide_trainer_step(struct tide_trainer *trainer, struct tide_train_report *ret_report,
                      struct tide_err *err);
double tide_trainer_evaluate(struct tide_trainer *trainer, int64_t batches);
int tide_trainer_save(struct tide_trainer *trainer, struct tide_err *err);

const struct tide_plan *tide_trainer_layout(const struct tide_trainer *trainer);
const struct tide_graph *tide_trainer_graph(const struct tide_trainer *trainer);
struct tide_machine *tide_trainer_machine(struct tide_trainer *trainer);
int64_t tide_trainer_done(const struct tide_trainer *trainer);

#endif
