/*
 * cmd_train.c - tidemark train TASK: finds the task's own command.
 */
#include "cli/train_loop.h"
#include "base/text.h"

static const struct tide_command *const parts[] = {&tide_train_lm, &tide_train_grpo, &tide_train_selfplay,
                                                   NULL};

/* Reached only if no task was named: reports that. */
static int run(struct tide_command_call *call, struct tide_err *err)
{
    if (call->count)
        tide_err_set(err, "train: there is no task '%s'", TIDE_SHOWN(call->operands[0], 96));
    else
        tide_err_set(err, "train: no task was given");
    return tide_err_hint(err, "to train a language model: tidemark train lm");
}

const struct tide_command tide_command_train = {
    .name = "train",
    .synopsis = "TASK [options]",
    .summary = "train a model in memory that is planned beforehand",
    .details =
        "Before the first step all memory of the run is laid out in one arena, and the layout is printed; after the first step nothing is allocated and no page is "
        "added. With --budget the fastest layout that fits is chosen.",
    .exits = "0 when all steps are done, 2 trouble, 128 + N when signal N ended the run.",
    .parts = parts,
    .run = run,
    .computes = true,
};
