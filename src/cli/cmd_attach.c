/*
 * cmd_attach.c - `tidemark attach`: records a process tree that is already running.
 */
#include "cli/command.h"
#include "cli/track.h"
#include "base/text.h"
#include "base/units.h"
#include "sense/proc_parse.h"
#include "sense/proc_read.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_TEXT = 32 * 1024 };

static const struct tide_option options[] = {TIDE_TRACK_OPTIONS, {0}};

/* Checks that the process has memory to record: 0, or -1 with an error. A zombie has given its memory back, a
 * kernel thread never had any. */
static int has_memory(int64_t pid, struct tide_err *err)
{
    char text[STATUS_TEXT];
    struct tide_proc_status status;
    ssize_t len = tide_proc_read_pid(AT_FDCWD, pid, "status", text, sizeof text);
    if (len <= 0 || tide_proc_parse_status(text, (size_t)len, &status))
        return tide_err_set(err, "attach: cannot read the memory of process %lld: permission denied",
                            (long long)pid);
    if (status.state == 'Z' || status.state == 'X') {
        tide_err_set(err, "attach: process %lld has ended and is a zombie", (long long)pid);
        return tide_err_hint(err, "its parent, process %lld, has not waited for it yet",
                             (long long)status.parent_pid);
    }
    return status.mapped_bytes != TIDE_UNKNOWN
               ? 0
               : tide_err_set(err, "attach: %lld is a kernel thread; it has no memory of its own",
                              (long long)pid);
}

/* Returns the PID, or -1 with an error. */
static int64_t read_pid(const char *text, struct tide_err *err)
{
    int64_t pid;
    char path[64];
    const char *shown = TIDE_SHOWN(text, 64);
    if (tide_count_parse(text, &pid) || pid <= 0 || pid > INT_MAX) {
        tide_err_set(err, "attach: '%s' is not a process ID", shown);
        return tide_err_hint(err, "find one with 'pgrep -f train.py'");
    }
    if (pid == getpid())
        return tide_err_set(err, "attach: %lld is tidemark itself", (long long)pid);
    snprintf(path, sizeof path, "/proc/%lld", (long long)pid);
    struct stat about;
    if (stat(path, &about)) {
        tide_err_set(err, "attach: there is no process %lld", (long long)pid);
        return tide_err_hint(err, "find one with 'pgrep -f train.py'");
    }
    return has_memory(pid, err) ? -1 : pid;
}

/* Warns about what will be missing from the recording. */
static void say_what_is_missing(int64_t pid, const struct tide_track_config *config)
{
    char path[64], text[2];
    if (tide_proc_read_pid(AT_FDCWD, pid, "smaps_rollup", text, sizeof text) <= 0)
        fprintf(stderr, "tidemark: cannot read which pages process %lld shares: it belongs to another user\n",
                (long long)pid);
    struct stat about;
    snprintf(path, sizeof path, "/proc/%lld/fd/1", (long long)pid);
    bool has_file = !stat(path, &about) && S_ISREG(about.st_mode) && !access(path, R_OK);
    if (config->step_regex && !has_file)
        fprintf(stderr, "tidemark: --step-regex has no effect: process %lld does not write to a file\n",
                (long long)pid);
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    struct tide_track_config *config = (void *)call->values;
    if (call->count != 1) {
        tide_err_set(err, "attach: expected one process ID, got %d arguments", call->count);
        return tide_err_hint(err, "tidemark attach 4711; to start a program: tidemark run -- PROG");
    }
    config->pid = read_pid(call->operands[0], err);
    if (config->pid < 0)
        return -1;
    say_what_is_missing(config->pid, config);
    if (!config->quiet && isatty(STDERR_FILENO))
        fprintf(stderr,
                "tidemark: recording process %lld and its children until they end; Ctrl-C stops recording\n",
                (long long)config->pid);
    return tide_track_and_report(config, err);
}

static const struct tide_track_config usual = TIDE_TRACK_USUAL;

const struct tide_command tide_command_attach = {
    .name = "attach",
    .synopsis = "[-o FILE] [-i INTERVAL] [-l SIZE] [options] PID",
    .operands = ":pids",
    .summary = "record a process tree that is already running",
    .details =
        "Records the memory of process PID and of all its descendants, until all of them have ended or you press Ctrl-C, "
        "and prints a verdict on stderr. The processes are not touched.\n"
        "\n"
        "A program that tidemark did not start leaves no marks. Steps are found only if its standard output is a "
        "regular file: tidemark reads what the program appends to it. Without steps, the axis is time.",
    .examples = "tidemark attach $(pgrep -of train.py)\n"
                "tidemark attach -i 1s -o job.tide 4711",
    .options = options,
    .values_size = sizeof usual,
    .usual = &usual,
    .run = run,
};
