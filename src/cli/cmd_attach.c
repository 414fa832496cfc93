/*
 * cmd_attach.c - `tidemark attach`: records a process tree that is already running.
 */
#include "cli/command.h"
#include "cli/track.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static const struct tide_option options[] = {TIDE_TRACK_OPTIONS, {0}};

static int run(struct tide_command_call *call, struct tide_err *err)
{
    struct tide_track_config *config = (void *)call->values;
    if (call->count != 1) {
        tide_err_set(err, "attach: expected one process ID, got %d", call->count);
        return tide_err_hint(err, "tidemark attach 4711; to start a program: tidemark run -- PROG");
    }
    if (tide_track_read_pid(call->operands[0], &config->pid, err))
        return tide_err_wrap(err, "attach");
    tide_track_say_what_is_missing(config);
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
