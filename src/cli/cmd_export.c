/*
 * cmd_export.c - tidemark export: a recording in the formats of other tools.
 */
#include "cli/command.h"
#include "assess/assessment.h"
#include "base/outfile.h"
#include "base/text.h"
#include "show/export/export.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct values {
    const char *format, *out, *at, *what;
    bool growth;
};

static const struct tide_option options[] = {
    {'f', "format", TIDE_OPTION_CHOICE, offsetof(struct values, format), "FORMAT",
     "pprof|speedscope|collapsed|chrome-trace|openmetrics|csv", 0, 0, "the format to write"},
    {'o', "output", TIDE_OPTION_TEXT, offsetof(struct values, out), "FILE", NULL, 0, 0,
     "write to this file instead of standard output"},
    {0, "at", TIDE_OPTION_TEXT, offsetof(struct values, at), "MOMENT", NULL, 0, 0,
     "write the state at this step, at the peak of all call sites, or at the end of training (default); not for chrome-trace and csv"},
    {0, "growth", TIDE_OPTION_FLAG, offsetof(struct values, growth), NULL, NULL, 0, 0,
     "pprof, speedscope, collapsed: what was allocated in training and not freed, instead of what is live"},
    {0, "what", TIDE_OPTION_CHOICE, offsetof(struct values, what), "ROWS", "processes|sites|marks", 0, 0,
     "csv: memory of processes at each sample (default), of call sites at each change, or the marks"},
    {0},
};

static int read_options(const struct values *v, int count, const struct tide_export_format **ret_format,
                        struct tide_export_options *ret_options, struct tide_err *err)
{
    struct tide_export_options o = {.at = {TIDE_MOMENT_END, NAN}, .growth = v->growth};
    if (v->at && tide_moment_parse(v->at, &o.at, err))
        return tide_err_wrap(err, "export: --at");
    if (!v->format) {
        tide_err_set(err, "export: --format is missing");
        return tide_err_hint(err, "tidemark export --format pprof -o heap.pb.gz RUN.tide");
    }
    if (count != 1) {
        tide_err_set(err, "export: expected one recording, got %d", count);
        return tide_err_hint(err, "tidemark export --format %s RUN.tide", v->format);
    }
    const struct tide_export_format *format = tide_export_find(v->format);
    if (v->at && !format->has_moment)
        return tide_err_set(err, "export: %s holds the whole run: --at is for the other formats",
                            format->name);
    if (v->growth && !format->needs_sites)
        return tide_err_set(err, "export: --growth is for pprof, speedscope and collapsed");
    if (v->at && v->growth)
        return tide_err_set(err, "export: --at and --growth cannot be used together");
    if (v->what && strcmp(format->name, "csv"))
        return tide_err_set(err, "export: --what is for csv");
    if (v->what)
        o.rows = !strcmp(v->what, "sites")   ? TIDE_EXPORT_SITES
                 : !strcmp(v->what, "marks") ? TIDE_EXPORT_MARKS
                                             : TIDE_EXPORT_PROCESSES;
    bool to_stdout = !v->out || !strcmp(v->out, "-");
    if (format->is_binary && to_stdout && isatty(STDOUT_FILENO)) {
        tide_err_set(err, "export: %s is binary, and standard output is a terminal", format->name);
        return tide_err_hint(err, "name a file: -o heap%s", format->suffix);
    }
    *ret_format = format;
    *ret_options = o;
    return 0;
}

/* Refuses to overwrite a recording, which -o may name by mistake. */
static int check_place(const char *to, struct tide_err *err)
{
    struct stat there;
    if (!strcmp(to, "-") || stat(to, &there) || !S_ISREG(there.st_mode) ||
        tide_reader_is_recording(to, NULL) <= 0)
        return 0;
    tide_err_set(err, "cannot write '%s': it is a recording, which is never overwritten",
                 TIDE_SHOWN(to, 256));
    return tide_err_hint(err, "name another file with -o");
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *v = (const void *)call->values;
    const char *path = call->operands[0], *to = v->out ? v->out : "-";
    const struct tide_export_format *format = NULL;
    struct tide_export_options o = {0};
    struct tide_answer answer = {0};
    struct tide_reader *reader = NULL;
    struct tide_outfile file = {0};
    int status = -1;
    if (read_options(v, call->count, &format, &o, err) || check_place(to, err) ||
        tide_answer_init(&answer, path, NULL, err))
        return -1;
    if (tide_reader_new(path, &reader, err) || tide_outfile_open(&file, to, err))
        goto release;
    status = tide_export_write(format, answer.history, answer.assessment, reader, &o, file.out, err);
    if (status)
        tide_outfile_abort(&file);
    else
        status = tide_outfile_commit(&file, err);
release:
    tide_reader_free(reader);
    tide_answer_release(&answer);
    return status;
}

const struct tide_command tide_command_export = {
    .name = "export",
    .synopsis = "--format FORMAT [-o FILE] [options] FILE",
    .operands = ":files",
    .summary = "write a recording in the format of another tool",
    .details =
        "pprof, speedscope and collapsed hold the call stacks of a recording that was made with `tidemark run --heap`, weighted with the bytes that they hold at a moment; "
        "chrome-trace holds the run over time, openmetrics its state at a moment, csv its rows.\n"
        "\n"
        " pprof         a heap profile, compressed: go tool pprof -http : heap.pb.gz\n"
        " speedscope    JSON for https://www.speedscope.app, a profile per process\n"
        " collapsed     'frame;frame;frame bytes', for flame graph tools\n"
        " chrome-trace  JSON for https://ui.perfetto.dev and chrome://tracing\n"
        " openmetrics   text for Prometheus and tools like it\n"
        " csv           one row per process and look, per change of a call site, or per mark\n"
        "\n"
        "The file appears under its name only when it is complete.",
    .exits = "0, or 2 when there is trouble.",
    .examples = "tidemark export --format pprof -o heap.pb.gz train.tide\n"
                "tidemark export --format collapsed --growth train.tide | flamegraph.pl > growth.svg\n"
                "tidemark export --format chrome-trace -o train.json train.tide\n"
                "tidemark export --format csv --what sites train.tide > sites.csv",
    .options = options,
    .values_size = sizeof(struct values),
    .run = run,
};
