/*
 * task.h - what a loop trains: a table of functions.
 *
 * A task's own file makes its struct, whose first member is a tide_task, and fills in the table. The loop
 * (trainer.h) calls, in this order: settle, build; then start; then step, evaluate, sample and write as often
 * as they are due; free. The loop handles options, resuming, plans and checkpoints, and knows nothing of
 * models and data; a task builds programs, fills their inputs, and reports numbers.
 *
 * Steps, evaluations and samples allocate nothing after the first step.
 */
#ifndef TIDE_TASK_H
#define TIDE_TASK_H

#include "rt/machine.h"
#include "train/checkpoint.h"

struct tide_trainer;
struct tide_task;

/* What is reported after steps and evaluations. Unknown: NAN. */
struct tide_task_number {
    const char *name;  /* in JSON */
    const char *label; /* in a line of text; NULL: not shown there */
    bool is_share;     /* shown in percent */
    double value;
};

/* Memory that a task holds besides the arena from its start on. It is planned too and counts in budgets. */
struct tide_task_memory {
    const char *name;
    size_t bytes;
};

/* The result of one step. */
struct tide_task_step {
    double loss, norm; /* norm: of the gradients before clipping; NAN: not known */
    int64_t tokens;
};

struct tide_task_kind {
    const char *name;              /* tidemark train NAME; a row of tide_task_settings() */
    const char *schema;            /* of its lines of JSON */
    const char *rate, *rate_label; /* name of its speed (tide_task_step.tokens a second): in JSON, in text */
    bool keeps_evaluations;        /* checkpoints contain its results, so it runs before they are saved */
    bool is_uneven;   /* steps differ in work, so their times do not show the best thread count */
    bool is_all_work; /* a step is six operations per parameter and token, and little else */
    /* Settles the rest, which model and data, from the given options and those of the resumed run (already in
     * the settings). resumed: a path of tide_checkpoint_find; NULL: none. */
    int (*settle)(struct tide_task *task, const char *resumed, struct tide_train_settings *train,
                  struct tide_err *err);
    /* Appends the programs, one of which trains. */
    int (*build)(struct tide_task *task, struct tide_graph *graph, struct tide_err *err);
    /* Called if the smallest plan exceeds the budget: reduces what the user did not ask for, as far as is
     * needed. False, or NULL: there is nothing to reduce. */
    bool (*fit)(struct tide_task *task, const struct tide_trainer *trainer);
    /* Nothing fits the budget: hints at what would. tide_trainer_most_that_fits() tries sizes. */
    int (*suggest)(struct tide_task *task, const struct tide_trainer *trainer, struct tide_err *err);
    /* The machine exists: fills in the weights that are not loaded from what is resumed. */
    int (*start)(struct tide_task *task, struct tide_trainer *trainer, struct tide_err *err);
    /* Does step number rule->step.step, from inputs to update. 1: it was told to hurry (trainer.h) and will
     * continue another time. */
    int (*step)(struct tide_task *task, struct tide_trainer *trainer, struct tide_update_rule *rule,
                struct tide_task_step *ret_step, struct tide_err *err);
    /* Fills in its numbers that come from held-out data. last: after the last step, more thoroughly. */
    int (*evaluate)(struct tide_task *task, struct tide_trainer *trainer, bool last, struct tide_err *err);
    /* What the model writes now: untrusted bytes, to be escaped before they are shown. */
    int (*sample)(struct tide_task *task, struct tide_trainer *trainer, char *out, size_t size,
                  struct tide_err *err);
    /* Writes its own files; the context is the task. */
    tide_checkpoint_writer *write;
    /* Describes model and data in lines for people. */
    void (*describe)(const struct tide_task *task, const struct tide_trainer *trainer, FILE *out);
    void (*free)(struct tide_task *task);
    /* Called in a signal handler before the program dies of a signal: ends processes that would go on alone.
     * NULL: there are none. */
    void (*abandon)(void);
};

struct tide_task {
    const struct tide_task_kind *kind;
    void *settings; /* described by tide_task_settings() */
    struct tide_task_number *numbers;
    int number_count;
    bool starts_anew; /* what is resumed is a model to begin with, not a run to continue */
    /* Of a training pass: sequences and their length; passes per step. Set by settle, and changed when other
     * sizes are tried. */
    int64_t batch, sequence, passes;
    /* Of the model, also set by settle. */
    int64_t blocks, vocabulary;
    const char *model; /* its name */
    const struct tide_task_memory *memory;
    int memory_count;
};

/* Everything that a task holds besides the arena. */
static inline size_t tide_task_beside(const struct tide_task *task)
{
    size_t sum = 0;
    for (int i = 0; i < task->memory_count; i++)
        sum += task->memory[i].bytes;
    return sum;
}

#endif
