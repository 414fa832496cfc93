/*
 * cmd_run.c - `tidemark run`: runs a command and says where its memory goes.
 */
#include "cli/command.h"
#include "cli/track.h"

#include <stddef.h>
#include <string.h>

static const struct tide_option options[] = {TIDE_TRACK_OPTIONS, {0}};

static int run(int argc, char **argv)
{
    struct tide_track_options values;
    struct tide_track_config config;
    struct tide_track_outcome outcome;
    struct tide_err err = {0};
    char **command;
    int count, code;
    tide_track_options_init(&values);
    if (tide_command_parse(&tide_command_run, TIDE_OPTIONS_STOP_AT_OPERAND, argc, argv, &values, &command,
                           &count, NULL, &code))
        return code;
    if (count == 0) {
        tide_err_set(&err, "run: there is no command to run");
        tide_err_hint(&err, "tidemark run -- python train.py");
        return tide_report(&err);
    }
    command[count] = NULL;
    tide_track_options_apply(&values, &config);
    config.command = command;
    if (tide_track(&config, &outcome, &err)) {
        tide_report(&err);
        return outcome.exit_code;
    }
    tide_track_report(&outcome, values.quiet);
    return outcome.exit_code;
}

const struct tide_command tide_command_run = {
    .name = "run",
    .synopsis = "[-o FILE] [-i INTERVAL] [-l SIZE] [options] -- CMD...",
    .summary = "run a command, record its memory, and say at the end whether it leaks",
    .details =
        "Runs CMD with its input, output, terminal and signals passed through, watches the memory of it and of every "
        "process it starts, and prints a verdict on stderr when all of them have ended. Exits with the status of "
        "CMD: 128 + N when signal N killed it, 127 when it was not found, 126 when it could not be executed, 2 "
        "when the recording could not be begun.\n"
        "\n"
        "Without -o the recording is called after the program and the time, in the current directory, and its name is "
        "the last line on stderr. It can be read while it grows and survives the death of everything.\n"
        "\n"
        "Steps come from the program itself (tidemark.h, or the Python package), else from what it prints: "
        "progress bars, 'step 12', 'iter 12/100', 'Epoch 3', or what --step-regex finds. Without steps, time is the "
        "axis.\n"
        "\n"
        "When the command ends before processes that it started, recording goes on until they end too, or "
        "until Ctrl-C. A terminal gets a status line in its last row, where the program's own output permits.",
    .examples = "tidemark run -- python train.py\n"
                "tidemark run -o base.tide --limit 24G -- uv run python train.py --epochs 3\n"
                "tidemark run --items 663 --per-step 8 -- ./train\n"
                "tidemark run --step-regex 'update ([0-9]+)' -- ./selfplay",
    .options = options,
    .run = run,
};
