/*
 * cmd_judge.c - tidemark judge: the verdict on a recording, or on a plain series of numbers.
 */
#include "cli/command.h"
#include "assess/assessment.h"
#include "base/text.h"
#include "record/reader.h"
#include "record/series.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct values {
    bool json, quiet, all;
    int64_t items;
    double per_step;
    int64_t limit;
    const char *unit, *column;
};

static const struct tide_option options[] = {
    {0, "json", TIDE_OPTION_FLAG, offsetof(struct values, json), NULL, NULL, 0, 0,
     "print one JSON document (schema tidemark.verdict/1) per file"},
    {'a', "all", TIDE_OPTION_FLAG, offsetof(struct values, all), NULL, NULL, 0, 0,
     "print a line for every series, not only the worst"},
    {'q', "quiet", TIDE_OPTION_FLAG, offsetof(struct values, quiet), NULL, NULL, 0, 0,
     "print nothing; the exit code is the answer"},
    {0, "items", TIDE_OPTION_COUNT, offsetof(struct values, items), "N", NULL, 1, 0,
     "items in one pass over the data; tidemark then recognises a cache that fills once"},
    {0, "per-step", TIDE_OPTION_REAL, offsetof(struct values, per_step), "K", NULL, 0, 0,
     "items that one step uses"},
    {0, "limit", TIDE_OPTION_SIZE, offsetof(struct values, limit), "SIZE", NULL, 1, 0,
     "the memory limit; the forecast says when it is reached"},
    {0, "unit", TIDE_OPTION_TEXT, offsetof(struct values, unit), "UNIT", NULL, 0, 0,
     "unit of the numbers in a plain series: B, KB, MB, GB, KiB, MiB or GiB"},
    {0, "column", TIDE_OPTION_TEXT, offsetof(struct values, column), "NAME", NULL, 0, 0,
     "judge this column of a plain series"},
    {0},
};

static int assess_file(const char *path, const struct values *v, struct tide_series_set *set,
                       struct tide_assessment **ret, struct tide_err *err)
{
    struct tide_assess_options want = {.items = v->items > 0 ? (double)v->items : NAN,
                                       .items_per_step = v->per_step > 0 ? v->per_step : NAN,
                                       .limit_bytes = v->limit > 0 ? (double)v->limit : NAN};
    int recording = strcmp(path, "-") ? tide_reader_is_recording(path, err) : 0;
    if (recording < 0)
        return -1;
    if (!recording) {
        struct tide_series_options how = {.unit = v->unit, .column = v->column};
        return tide_series_read(path, &how, set, err) ? -1 : tide_assess_series(set, &want, ret, err);
    }
    if (v->unit || v->column) {
        tide_err_set(err, "judge: --%s is for a plain series, and '%s' is a recording",
                     v->unit ? "unit" : "column", TIDE_SHOWN(path, 256));
        return tide_err_hint(err, "a recording has bytes; --all prints every series of it");
    }
    struct tide_answer answer;
    if (tide_answer_init(&answer, path, &want, err))
        return -1;
    *ret = answer.assessment;
    answer.assessment = NULL;
    tide_answer_release(&answer);
    return 0;
}

static void print_all(const struct tide_assessment *a)
{
    for (size_t i = 1; i < a->count; i++) {
        char sentence[1024];
        tide_judged_sentence(&a->judged[i], a, sentence, sizeof sentence);
        tide_evidence_print(stdout, i == 1 ? "also" : "", sentence);
    }
}

/* Returns the exit code for several files: 2 is worse than 1, 1 than 3, 3 than 0. */
static int worse_code(int a, int b)
{
    static const int rank[] = {
        [TIDE_EXIT_OK] = 0, [TIDE_EXIT_FOUND] = 2, [TIDE_EXIT_TROUBLE] = 3, [TIDE_EXIT_UNDECIDED] = 1};
    return rank[a] >= rank[b] ? a : b;
}

static int judge_file(const char *path, const struct values *v, bool several)
{
    struct tide_err err = {{0}, {0}};
    struct tide_series_set set = {0};
    struct tide_assessment *a = NULL;
    int code;
    if (assess_file(path, v, &set, &a, &err))
        code = tide_report(&err);
    else {
        code = tide_assessment_exit_code(a);
        if (v->json)
            tide_assessment_json(a, path, stdout);
        else if (!v->quiet) {
            if (several)
                printf("%s\n", TIDE_SHOWN(path, 256));
            tide_assessment_print(a, stdout);
            if (v->all)
                print_all(a);
        }
    }
    tide_assessment_free(a);
    tide_series_release(&set);
    return code;
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *v = (const void *)call->values;
    if (call->count == 0) {
        tide_err_set(err, "judge: no file was given");
        return tide_err_hint(err, "tidemark judge RUN.tide, or a log: tidemark judge memory.csv");
    }
    if ((v->items > 0) != (v->per_step > 0)) {
        tide_err_set(err, "judge: --items and --per-step go together");
        return tide_err_hint(err, "663 images, 8 per step: --items 663 --per-step 8");
    }
    if (v->quiet && (v->json || v->all))
        return tide_err_set(err, "judge: --%s and --quiet cannot be used together", v->json ? "json" : "all");
    int code = TIDE_EXIT_OK;
    for (int i = 0; i < call->count; i++)
        code = worse_code(code, judge_file(call->operands[i], v, call->count > 1));
    return code;
}

const struct tide_command tide_command_judge = {
    .name = "judge",
    .synopsis = "[options] FILE...",
    .operands = ":files",
    .summary = "say whether memory leaks, spikes, levels off or jumps",
    .details =
        "Judges a recording made by `tidemark run`, or a plain series: CSV, TSV or JSON lines with a column of steps (or of time) and a column "
        "of memory whose name or cells have the unit, such as `step,rss_mb` or `512 MiB`. Numbers look like 1234.5. `-` is standard input.\n"
        "\n"
        "The verdict is flat, spikes, leak, plateau, jump, undecided or, where `--heap` recorded what the program holds, retention: memory that rises "
        "although the program holds no more, because the allocator keeps what was freed.\n"
        "\n"
        "If a process was killed, the first line says what killed it (the OOM killer and its limit, or a signal), which process it was, its size, "
        "and the step and phase.",
    .exits =
        "0 no leak, 1 leak, or retention that keeps growing (it ends the job as a leak does; bounded retention is 0), or a process that the kernel "
        "killed for lack of memory, 2 trouble, 3 not enough data to tell.",
    .examples = "tidemark judge train.tide\n"
                "tidemark judge --items 663 --per-step 8 rss.csv\n"
                "tidemark judge --json train.tide\n"
                "grep rss train.log | tidemark judge --unit MB -",
    .options = options,
    .values_size = sizeof(struct values),
    .run = run,
};
