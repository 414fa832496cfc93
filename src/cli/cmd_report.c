/*
 * cmd_report.c - tidemark report: a recording as one page for a browser.
 *
 * Without --force it overwrites only its own pages.
 */
#include "cli/command.h"
#include "assess/assessment.h"
#include "base/infile.h"
#include "base/outfile.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/plan_text.h"
#include "show/report/report.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct values {
    const char *output, *plan;
    bool force;
};

static const struct tide_option options[] = {
    {'o', "output", TIDE_OPTION_TEXT, offsetof(struct values, output), "FILE", NULL, 0, 0,
     "write the page to FILE; - is standard output (default: run.html beside run.tide)"},
    {0, "plan", TIDE_OPTION_TEXT, offsetof(struct values, plan), "FILE", NULL, 0, 0,
     "show this plan beside the recording; 'tidemark plan --json' prints one"},
    {0, "force", TIDE_OPTION_FLAG, offsetof(struct values, force), NULL, NULL, 0, 0,
     "overwrite a file that is not a page of tidemark"},
    {0},
};

/* "run.tide" -> "run.html"; any other name gets ".html" appended. */
static int name_output(const char *recording, char *out, size_t size, struct tide_err *err)
{
    size_t len = strlen(recording);
    if (len > 5 && !strcmp(recording + len - 5, ".tide") && recording[len - 6] != '/')
        len -= 5;
    int need = snprintf(out, size, "%.*s.html", (int)len, recording);
    if (need < 0 || (size_t)need >= size)
        return tide_err_set(err, "the name of the recording is too long; name the page with -o");
    return 0;
}

static bool is_our_page(const char *path)
{
    char text[512] = "";
    struct stat about;
    int fd = tide_infile_open(path, &about);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    return got > 0 && strstr(text, TIDE_REPORT_GENERATOR) != NULL;
}

/* Fails if a page must not be written to this path. */
static int check_place(const char *path, const char *recording, bool force, struct tide_err *err)
{
    struct stat at, of;
    const char *shown = TIDE_SHOWN(path, 256);
    if (stat(path, &at))
        return 0;
    if (S_ISDIR(at.st_mode)) {
        tide_err_set(err, "'%s' is a directory", shown);
        return tide_err_hint(err, "name the page: -o %s/report.html", shown);
    }
    if (!S_ISREG(at.st_mode))
        return 0;
    if (!stat(recording, &of) && at.st_dev == of.st_dev && at.st_ino == of.st_ino)
        return tide_err_set(err, "'%s' is the recording itself", shown);
    if (force || at.st_size == 0 || is_our_page(path))
        return 0;
    tide_err_set(err, "'%s' exists and is not a page of tidemark", shown);
    return tide_err_hint(err, "choose another name with -o, or overwrite it with --force");
}

static int write_page(const struct values *v, const char *recording, const char *path, struct tide_err *err)
{
    struct tide_answer answer = {0};
    struct tide_outfile file = {0};
    static struct tide_forecast plan;
    bool host = false;
    if ((v->plan && tide_plan_read(v->plan, &plan, &host, err)) ||
        tide_answer_init(&answer, recording, NULL, err))
        return -1;
    struct tide_report report = {.history = answer.history,
                                 .assessment = answer.assessment,
                                 .source = recording,
                                 .version = TIDE_VERSION,
                                 .plan = v->plan ? &plan : NULL,
                                 .plan_host = host};
    int bad = tide_outfile_open(&file, path, err);
    if (!bad && (bad = tide_report_write(&report, file.out, err)))
        tide_outfile_abort(&file);
    if (!bad)
        bad = tide_outfile_commit(&file, err);
    tide_answer_release(&answer);
    return bad;
}

static int make_report(const struct values *v, const char *recording, struct tide_err *err)
{
    char path[PATH_MAX];
    bool to_stdout = v->output && !strcmp(v->output, "-");
    if (v->output)
        snprintf(path, sizeof path, "%s", v->output);
    else if (name_output(recording, path, sizeof path, err))
        return -1;
    if ((!to_stdout && check_place(path, recording, v->force, err)) || write_page(v, recording, path, err))
        return -1;
    struct stat at;
    if (!to_stdout && !stat(path, &at) && S_ISREG(at.st_mode))
        printf("report: %s (%s)\n", TIDE_SHOWN(path, PATH_MAX), TIDE_SIZE((double)at.st_size));
    return 0;
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    signal(SIGXFSZ, SIG_IGN); /* a file size limit makes a write fail, which is reported */
    if (call->count == 1)
        return make_report((const void *)call->values, call->operands[0], err);
    tide_err_set(err, "report: expected one recording, got %d", call->count);
    return tide_err_hint(err, "tidemark report RUN.tide");
}

const struct tide_command tide_command_report = {
    .name = "report",
    .synopsis = "[-o FILE] [options] FILE",
    .operands = ":files",
    .summary = "write a recording as one page for a browser",
    .details =
        "Writes a self-contained page: the verdict first, then the timeline with floor, spikes, phases and epochs, the culprits with their stacks, live "
        "bytes by call stack at any moment, and the tables. It loads nothing from anywhere, stays under 2 MB, shows verdict, tables and a chart without "
        "JavaScript, and can be printed and sent. A recording that is still being written works too.\n"
        "\n"
        "In the page: drag over the timeline to zoom, click it to choose a moment. With the keyboard, when the timeline has the focus: arrows move, + and - "
        "zoom, 0 shows all.\n"
        "\n"
        "A file that is not a page of tidemark is overwritten only with --force.",
    .exits = "0 the page was written, 2 trouble.",
    .examples = "tidemark run --heap -o train.tide -- python train.py\n"
                "tidemark report train.tide\n"
                "tidemark report -o /tmp/monday.html train.tide",
    .options = options,
    .values_size = sizeof(struct values),
    .run = run,
};
