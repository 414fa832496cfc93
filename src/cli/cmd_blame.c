/*
 * cmd_blame.c - tidemark blame: which code holds the bytes.
 */
#include "cli/command.h"
#include "assess/assessment.h"
#include "assess/blame.h"
#include "base/units.h"
#include "show/text/blame_text.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct values {
    bool json;
    const char *by, *phase;
    int64_t most, frames;
    bool between;
};

static const struct tide_option options[] = {
    {0, "json", TIDE_OPTION_FLAG, offsetof(struct values, json), NULL, NULL, 0, 0,
     "print one JSON document (schema tidemark.blame/1)"},
    {0, "by", TIDE_OPTION_CHOICE, offsetof(struct values, by), "ORDER", "growth|peak|end", 0, 0,
     "rank by growth, or by bytes held at the peak or at the end (default: by what the verdict is about)"},
    {0, "phase", TIDE_OPTION_TEXT, offsetof(struct values, phase), "NAME", NULL, 0, 0,
     "rank by what is held during this phase beyond what was held before it"},
    {0, "between", TIDE_OPTION_FLAG, offsetof(struct values, between), NULL, NULL, 0, 0,
     "rank by growth between two steps, given after the file: FILE STEP STEP"},
    {'n', "number", TIDE_OPTION_COUNT, offsetof(struct values, most), "N", NULL, 1, 1000,
     "show at most N culprits (default 5)"},
    {0, "frames", TIDE_OPTION_COUNT, offsetof(struct values, frames), "N", NULL, 1, 60,
     "show at most N frames of each stack (default 6; --json has all)"},
    {0},
};

static int read_options(const struct values *v, char **operands, int count, struct tide_blame_options *want,
                        struct tide_err *err)
{
    *want = (struct tide_blame_options){
        .by = TIDE_BLAME_VERDICT, .most = (size_t)v->most, .from_x = NAN, .to_x = NAN};
    int expected = v->between ? 3 : 1;
    if (count != expected) {
        tide_err_set(err,
                     v->between ? "blame: --between needs a file and two steps"
                                : "blame: expected one recording, got %d",
                     count);
        return tide_err_hint(err, v->between ? "tidemark blame --between RUN.tide 100 200"
                                             : "tidemark blame RUN.tide");
    }
    if ((v->by != NULL) + (v->phase != NULL) + v->between > 1)
        return tide_err_set(err, "blame: --by, --phase and --between cannot be used together");
    if (v->by)
        want->by = !strcmp(v->by, "peak")  ? TIDE_BLAME_PEAK
                   : !strcmp(v->by, "end") ? TIDE_BLAME_END
                                           : TIDE_BLAME_GROWTH;
    if (v->phase) {
        want->by = TIDE_BLAME_PHASE;
        want->phase = v->phase;
    }
    if (!v->between)
        return 0;
    want->by = TIDE_BLAME_BETWEEN;
    if (tide_real_parse(operands[1], &want->from_x) || tide_real_parse(operands[2], &want->to_x))
        return tide_err_set(err, "blame: --between needs two steps, as numbers");
    return 0;
}

/* Share of the growth that makes a call site its culprit, even if it has too few samples to fit a line. */
static const double MOST_OF_IT = 0.5;

/* True if a call site grows or, for a rise that the verdict reports as a finding, if there is one. */
static bool is_found(const struct tide_blame *blame, int verdict)
{
    const struct tide_culprit *first = blame->count ? &blame->culprits[0] : NULL;
    if (!first || blame->by != TIDE_BLAME_GROWTH)
        return first && blame->by == TIDE_BLAME_RISE && verdict == TIDE_EXIT_FOUND;
    return first->bytes_per_x > 0 || (first->share >= MOST_OF_IT && first->on.verdict.kind != TIDE_JUMP);
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *v = (const void *)call->values;
    struct tide_blame_options want;
    if (read_options(v, call->operands, call->count, &want, err))
        return -1;
    const char *path = call->operands[0];
    struct tide_answer answer = {0};
    struct tide_blame *blame = NULL;
    int code = -1;
    if (!tide_answer_init(&answer, path, NULL, err) &&
        !tide_blame_new(answer.history, answer.assessment, &want, &blame, err)) {
        bool of_verdict = blame->by == TIDE_BLAME_GROWTH || blame->by == TIDE_BLAME_RISE;
        int verdict = of_verdict ? tide_assessment_exit_code(answer.assessment) : TIDE_EXIT_OK;
        bool jumped = of_verdict && answer.assessment->judged[0].verdict.kind == TIDE_JUMP;
        /* Memory grows, may grow, or jumped, and no call site is known to. */
        bool cannot_tell = verdict != TIDE_EXIT_OK || (jumped && !blame->count && blame->unjudged);
        code = is_found(blame, verdict) ? TIDE_EXIT_FOUND : cannot_tell ? TIDE_EXIT_UNDECIDED : TIDE_EXIT_OK;
        if (!v->json && of_verdict)
            tide_assessment_print(answer.assessment, stdout);
        if (v->json)
            tide_blame_json(blame, answer.history, path, stdout);
        else
            tide_blame_print(blame, answer.history, (size_t)v->most, (size_t)v->frames, stdout);
    }
    tide_blame_free(blame);
    tide_answer_release(&answer);
    return code;
}

static const struct values usual = {.most = 5, .frames = 6};

const struct tide_command tide_command_blame = {
    .name = "blame",
    .synopsis = "[options] FILE [STEP STEP]",
    .operands = ":files",
    .summary = "name the code that holds the bytes",
    .details =
        "Ranks the call stacks of a recording made with `tidemark run --heap`. Each stack is a series over the steps and is judged like a process: "
        "the culprits are the stacks whose growth explains the growth of the process in the verdict. A stack that rose and stopped is called bounded. Stacks that meet in one line of the program, such as "
        "its own allocator, are one culprit, with the callers below it. A container that doubles whenever it is full "
        "counts with what the program adds to it per step. Where memory rises within each step and is freed again, the culprits are the stacks that hold more at the peak than they did before the rise. After the culprits come healthy places: phases that free their memory each time, and caches that filled and stopped. "
        "Other orders: bytes live at the peak, at the end or in a phase, or growth between two steps.",
    .exits =
        "0 no call site grows, 1 a call site grows or explains most of the growth, 2 trouble, 3 it is too early to say, or memory grows and no call site is known to.",
    .examples = "tidemark run --heap -o train.tide -- python train.py\n"
                "tidemark blame train.tide\n"
                "tidemark blame --by peak train.tide\n"
                "tidemark blame --between train.tide 100 200",
    .options = options,
    .values_size = sizeof usual,
    .usual = &usual,
    .run = run,
};
