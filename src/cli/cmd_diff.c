/*
 * cmd_diff.c - tidemark diff: what is different between two runs, or two moments of one.
 */
#include "cli/command.h"
#include "assess/diff.h"
#include "show/text/diff_text.h"

#include <stdbool.h>

struct values {
    bool json, between;
    const char *at;
    int64_t most, frames;
};

static const struct tide_option options[] = {
    {0, "json", TIDE_OPTION_FLAG, offsetof(struct values, json), NULL, NULL, 0, 0,
     "print one JSON document (schema tidemark.diff/1)"},
    {0, "at", TIDE_OPTION_TEXT, offsetof(struct values, at), "MOMENT", NULL, 0, 0,
     "compare live memory at this step of both, at the peak of each, or at the end of each (default: the end, or the last step that both reached)"},
    {0, "between", TIDE_OPTION_FLAG, offsetof(struct values, between), NULL, NULL, 0, 0,
     "compare two steps of one recording, given after the file: FILE STEP STEP"},
    {'n', "number", TIDE_OPTION_COUNT, offsetof(struct values, most), "N", NULL, 1, 100000,
     "show at most N call sites and N roles (default 5)"},
    {0, "frames", TIDE_OPTION_COUNT, offsetof(struct values, frames), "N", NULL, 1, 60,
     "show at most N frames of each stack (default 6; --json has all)"},
    {0},
};

static int read_operands(const struct values *v, char **operands, int count, struct tide_diff_options *want,
                         struct tide_err *err)
{
    *want = (struct tide_diff_options){.between = v->between, .usual = !v->between && !v->at};
    if (v->between && v->at)
        return tide_err_set(err, "diff: --at and --between cannot be used together");
    if (v->at && tide_moment_parse(v->at, &want->moments[0], err))
        return tide_err_wrap(err, "diff: --at");
    if (v->at)
        want->moments[1] = want->moments[0];
    if (count != (v->between ? 3 : 2)) {
        if (v->between)
            tide_err_set(err, "diff: --between needs a file and two moments");
        else
            tide_err_set(err, "diff: expected two recordings, got %d", count);
        return tide_err_hint(err, v->between ? "tidemark diff --between RUN.tide 100 200"
                                             : "tidemark diff BEFORE.tide AFTER.tide");
    }
    for (int i = 0; i < 2 && v->between; i++)
        if (tide_moment_parse(operands[1 + i], &want->moments[i], err))
            return tide_err_wrap(err, "diff: --between");
    return 0;
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *v = (const void *)call->values;
    char **operands = call->operands;
    int code = -1, second = v->between ? 0 : 1;
    struct tide_diff_options want;
    struct tide_answer answers[2] = {{0}, {0}};
    struct tide_diff *diff = NULL;
    if (read_operands(v, operands, call->count, &want, err))
        return -1;
    if (tide_answer_init(&answers[0], operands[0], NULL, err) ||
        (second && tide_answer_init(&answers[1], operands[1], NULL, err)))
        goto release;
    const struct tide_answer *both[2] = {&answers[0], &answers[second]};
    const char *sources[2] = {operands[0], operands[second]};
    if (tide_diff_new(both, sources, &want, &diff, err))
        goto release;
    if (v->json)
        tide_diff_json(diff, (size_t)v->most, stdout);
    else
        tide_diff_print(diff, (size_t)v->most, (size_t)v->frames, stdout);
    code = tide_diff_exit_code(diff);
    tide_diff_free(diff);
release:
    tide_answer_release(&answers[1]);
    tide_answer_release(&answers[0]);
    return code;
}

static const struct values usual = {.most = 5, .frames = 6};

const struct tide_command tide_command_diff = {
    .name = "diff",
    .synopsis = "[options] FILE FILE | --between FILE STEP STEP",
    .operands = ":files",
    .summary = "say what is different between two runs, or two steps of one",
    .details =
        "Compares two recordings: their verdicts, the memory of their processes by role, and, where both were made with `tidemark run --heap`, the code that "
        "holds the bytes. Call sites are matched by the functions and files of their stacks, even when lines have moved. A difference that sampling alone can "
        "cause is not reported.\n"
        "\n"
        "The second run is worse when something leaks that did not leak in the first, or when it leaks faster by more than a tenth and beyond the 95 % intervals of both rates. A new leak of less than 256 KiB in all is undecided. It is also worse when only the second run was killed for lack of memory. Memory that is "
        "larger but does not grow is shown, and does not count as worse.",
    .exits =
        "0 the second is no worse, 1 it is worse, 2 trouble, 3 not enough data to tell. Between two steps of one recording: 0, or 2.",
    .examples = "tidemark diff before.tide after.tide\n"
                "tidemark diff --at 1000 before.tide after.tide\n"
                "tidemark diff --between train.tide 100 200\n"
                "tidemark diff --json main.tide branch.tide > diff.json || exit 1",
    .options = options,
    .values_size = sizeof usual,
    .usual = &usual,
    .run = run,
};
