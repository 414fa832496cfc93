/*
 * task.h - what a loop trains: a table of functions.
 *
 * A task's own file makes its struct, whose first member is a tide_task, and fills in the table. The loop
 * (trainer.h) calls, in this order: settle, build; then start; then step, evaluate, sample and write as often
 * as they are due; free. The loop knows options, resuming, plans and checkpoints, and nothing of models and
 * data; a task builds programs, fills their inputs, and reports numbers.
 *
 * Steps, evaluations and samples allocate nothing after the first step.
 */
#ifndef TIDE_TASK_H
#define TIDE_TASK_H

#include "rt/machine.h"
#include "train/checkpoint.h"

struct tide_trainer;
struct tide_task;

/* What is told after steps and evaluations. What is not known is NAN. */
struct tide_task_number {
    const char *name;  /* in JSON */
    const char *label; /* in a line of text; NULL: not there */
    bool is_share;     /* shown in percent */
    double value;
};

/* What a task holds beside the arena from its start on. It is planned as the arena is, and counts in budgets.
 */
struct tide_task_memory {
    const char *name;
    size_t bytes;
};

/* What one step was. */
struct tide_task_step {
    double loss, norm; /* norm: of the gradients before clipping; NAN: not known */
    int64_t tokens;
};

struct tide_task_kind {
    const char *name;              /* tidemark train NAME; a row of tide_task_settings() */
    const char *schema;            /* of its lines of JSON */
    const char *rate, *rate_label; /* how fast it goes through what it counts (tide_task_step.tokens): in
                                      JSON, and in a line of text */
    bool keeps_evaluations; /* what an evaluation finds is in checkpoints, so that it comes before them */
    bool is_uneven;         /* steps differ in work: how long they take does not say which threads are best */
    bool is_all_work;       /* a step does six operations for each parameter and token, and little else */
    /* Of options that were given and what a run that goes on had (now in the settings), the rest: which model
     * and data. resumed: a path of tide_checkpoint_find; NULL: nothing is. */
    int (*settle)(struct tide_task *task, const char *resumed, struct tide_train_settings *train,
                  struct tide_err *err);
    /* Appends the programs, one of which trains. */
    int (*build)(struct tide_task *task, struct tide_graph *graph, struct tide_err *err);
    /* Where the smallest plan is over the budget: takes less of what nobody asked for. False: nothing helps.
     * NULL: there is no such thing. */
    bool (*fit)(struct tide_task *task, const struct tide_trainer *trainer);
    /* Nothing fits the budget: what would, as a hint. tide_trainer_most_that_fits() tries sizes. */
    int (*suggest)(struct tide_task *task, const struct tide_trainer *trainer, struct tide_err *err);
    /* The machine is there: fills the weights that are not loaded from what is resumed. */
    int (*start)(struct tide_task *task, struct tide_trainer *trainer, struct tide_err *err);
    /* Step number rule->step.step, from its inputs to the update. 1: it was told to hurry (trainer.h), and
     * goes on from there another time. */
    int (*step)(struct tide_task *task, struct tide_trainer *trainer, struct tide_update_rule *rule,
                struct tide_task_step *ret_step, struct tide_err *err);
    /* Fills in those of its numbers that are of held-out data. last: after the last step, more thoroughly. */
    int (*evaluate)(struct tide_task *task, struct tide_trainer *trainer, bool last, struct tide_err *err);
    /* What the model says now: untrusted bytes, to be escaped before they are shown. */
    int (*sample)(struct tide_task *task, struct tide_trainer *trainer, char *out, size_t size,
                  struct tide_err *err);
    /* A tide_checkpoint_writer of its own files. */
    bool (*write)(struct tide_task *task, const char *name, struct tide_durable *file);
    /* Model and data, in lines for people. */
    void (*describe)(const struct tide_task *task, const struct tide_trainer *trainer, FILE *out);
    void (*free)(struct tide_task *task);
    /* From a handler of signals, before the program dies of one: ends what would go on alone. NULL: nothing
     * would. */
    void (*abandon)(void);
};

struct tide_task {
    const struct tide_task_kind *kind;
    void *settings; /* as tide_task_settings() has them */
    struct tide_task_number *numbers;
    int number_count;
    bool starts_anew; /* what is resumed is a model to begin with, not a run that goes on */
    /* Of a pass of training: sequences and their length; passes of a step. Set by settle. */
    int64_t batch, sequence, passes;
    /* Of the model, likewise. */
    int64_t blocks, vocabulary;
    const char *model; /* its name */
    const struct tide_task_memory *memory;
    int memory_count;
};

/* All that a task holds beside the arena. */
static inline size_t tide_task_beside(const struct tide_task *task)
{
    size_t sum = 0;
    for (int i = 0; i < task->memory_count; i++)
        sum += task->memory[i].bytes;
    return sum;
}

#endif
