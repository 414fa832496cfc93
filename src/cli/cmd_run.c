/*
 * cmd_run.c - `tidemark run`: runs a command and says where its memory goes.
 */
#include "channel/heap.h"
#include "cli/command.h"
#include "cli/track.h"

#include <stddef.h>
#include <string.h>

struct values {
    struct tide_track_options track; /* first: TIDE_TRACK_OPTIONS are offsets in it */
    bool heap, python_objects, no_census;
    int64_t heap_interval_bytes;
};

static const struct tide_option options[] = {
    TIDE_TRACK_OPTIONS,
    {0, "heap", TIDE_OPTION_FLAG, offsetof(struct values, heap), NULL,
     "also record which call stacks hold the memory: preloads a library into the command", NULL, 0, 0},
    {0, "heap-interval", TIDE_OPTION_BYTES, offsetof(struct values, heap_interval_bytes), "SIZE",
     "sample small allocations once every SIZE bytes in the mean (512Ki); implies --heap", NULL, 1,
     INT64_C(1) << 40},
    {0, "python-objects", TIDE_OPTION_FLAG, offsetof(struct values, python_objects), NULL,
     "also see Python's small objects one by one, not only the arenas they live in: about 10 % slower pure "
     "Python; implies --heap",
     NULL, 0, 0},
    {0, "no-census", TIDE_OPTION_FLAG, offsetof(struct values, no_census), NULL,
     "with --heap, do not ask a PyTorch program who holds its tensors", NULL, 0, 0},
    {0},
};

static int run(int argc, char **argv)
{
    struct values values = {.heap = false};
    struct tide_track_config config;
    struct tide_track_outcome outcome;
    struct tide_err err = {0};
    char **command;
    int count, code;
    tide_track_options_init(&values.track);
    if (tide_command_parse(&tide_command_run, TIDE_OPTIONS_STOP_AT_OPERAND, argc, argv, &values, &command,
                           &count, NULL, &code))
        return code;
    if (count == 0) {
        tide_err_set(&err, "run: there is no command to run");
        tide_err_hint(&err, "tidemark run -- python train.py");
        return tide_report(&err);
    }
    command[count] = NULL;
    tide_track_options_apply(&values.track, &config);
    config.command = command;
    config.python_objects = values.python_objects;
    config.no_census = values.no_census;
    if (values.heap || values.heap_interval_bytes || values.python_objects)
        config.heap_interval_bytes =
            values.heap_interval_bytes ? values.heap_interval_bytes : TIDE_HEAP_INTERVAL;
    if (tide_track(&config, &outcome, &err)) {
        tide_report(&err);
        return outcome.exit_code;
    }
    tide_track_report(&outcome, values.track.quiet);
    return outcome.exit_code;
}

const struct tide_command tide_command_run = {
    .name = "run",
    .synopsis = "[-o FILE] [-i INTERVAL] [-l SIZE] [--heap] [options] -- CMD...",
    .operands = ":program",
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
        "progress bars, 'step 12', 'iter 12/100', 'it 12', 'update 12', '[12/100] loss 0.3', 'Epoch 3', or what --step-regex finds; output that goes to "
        "/dev/null is looked at too. Without steps, time is the "
        "axis; so it is where a program holds its output back until much of it is there, as Python does in a pipe "
        "unless PYTHONUNBUFFERED=1.\n"
        "\n"
        "With --heap a library is preloaded into the command and everything that it starts. It keeps live bytes by call "
        "stack: allocations of a quarter of --heap-interval and more are all counted, smaller ones are sampled and scaled up. "
        "The stacks are in the recording, with functions, files and lines as far as symbols and debug information tell "
        "them. A program with a pool or arena of its own can say what it hands out (tidemark.h), so that users of the pool are "
        "named and not whoever made it grow. A program that is statically linked, setuid, or built with a sanitizer cannot be seen into, and is "
        "named.\n"
        "\n"
        "Where the command is a PyTorch program whose Python can import the package tidemark, --heap also asks it a few times who holds the tensors that "
        "become more, and says it below the culprit: held by list `losses`, train.py:31; keep `loss.item()`. "
        "The census runs between two instructions of its main thread; --no-census leaves it out.\n"
        "\n"
        "When the command ends before processes that it started, recording goes on until they end too, or "
        "until Ctrl-C. A terminal gets a status line in its last row, where the program's own output permits.\n"
        "\n"
        "The command does not depend on tidemark: should tidemark be killed, the command goes on and what it prints arrives, "
        "in a file, a pipe or on the terminal, which the shell has again then; keys no longer reach the command.",
    .examples = "tidemark run -- python train.py\n"
                "tidemark run -o base.tide --limit 24G -- uv run python train.py --epochs 3\n"
                "tidemark run --heap -- ./train\n"
                "tidemark run --items 663 --per-step 8 -- ./train\n"
                "tidemark run --step-regex 'update ([0-9]+)' -- ./selfplay",
    .options = options,
    .run = run,
};
