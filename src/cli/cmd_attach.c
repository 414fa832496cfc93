/*
 * cmd_attach.c - `tidemark attach`: records a process tree that is already running.
 */
#include "cli/command.h"
#include "cli/track.h"
#include "sense/proc_read.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct tide_option options[] = {TIDE_TRACK_OPTIONS, {0}};

/* Warns about what will be missing from the recording. */
static void say_what_is_missing(int64_t pid, const struct tide_track_config *config)
{
    char path[64], text[2];
    if (tide_proc_read_pid(AT_FDCWD, pid, "smaps_rollup", text, sizeof text) <= 0)
        fprintf(stderr,
                "tidemark: cannot read which pages process %lld shares: "
                "no permission, because it belongs to another user or has other privileges\n",
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
        tide_err_set(err, "attach: expected one process ID, got %d", call->count);
        return tide_err_hint(err, "tidemark attach 4711; to start a program: tidemark run -- PROG");
    }
    if (tide_track_read_pid(call->operands[0], &config->pid, err))
        return tide_err_wrap(err, "attach");
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
