/*
 * cmd_run.c - `tidemark run`: runs a command and says where its memory goes.
 */
#include "channel/heap.h"
#include "cli/command.h"
#include "cli/track.h"

#include <stddef.h>

struct values {
    struct tide_track_config track; /* first: TIDE_TRACK_OPTIONS are offsets in it */
    bool heap;
};

static const struct tide_option options[] = {
    TIDE_TRACK_OPTIONS,
    {0, "heap", TIDE_OPTION_FLAG, offsetof(struct values, heap), NULL, NULL, 0, 0,
     "also record which call stacks hold the memory; preloads a library into the command"},
    {0, "heap-interval", TIDE_OPTION_BYTES, TIDE_TRACK_OPTION(heap_interval_bytes), "SIZE", NULL, 1,
     INT64_C(1) << 40, "sample small allocations once every SIZE bytes on average (512Ki); implies --heap"},
    {0, "python-objects", TIDE_OPTION_FLAG, TIDE_TRACK_OPTION(python_objects), NULL, NULL, 0, 0,
     "also see Python's small objects one by one, not only the arenas they live in: about 10 % slower pure "
     "Python; implies --heap"},
    {0, "no-census", TIDE_OPTION_FLAG, TIDE_TRACK_OPTION(no_census), NULL, NULL, 0, 0,
     "with --heap, do not ask a PyTorch program who holds its tensors"},
    {0},
};

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *values = (const void *)call->values;
    struct tide_track_config config = values->track;
    if (call->count == 0) {
        tide_err_set(err, "run: no command was given");
        return tide_err_hint(err, "tidemark run -- python train.py");
    }
    config.command = call->operands;
    if ((values->heap || config.python_objects) && !config.heap_interval_bytes)
        config.heap_interval_bytes = TIDE_HEAP_INTERVAL;
    return tide_track_and_report(&config, err);
}

static const struct values usual = {.track = TIDE_TRACK_USUAL};

const struct tide_command tide_command_run = {
    .name = "run",
    .synopsis = "[-o FILE] [-i INTERVAL] [-l SIZE] [--heap] [options] -- CMD...",
    .operands = ":program",
    .summary = "run a command, record its memory, and say at the end whether it leaks",
    .details =
        "Runs CMD with its input, output, terminal and signals passed through, watches the memory of it and of every "
        "process it starts, and prints a verdict on stderr when all of them have ended.\n"
        "\n"
        "Without -o the recording is named after the program and the time, in the current directory, and its name is "
        "the last line on stderr. It can be read while it grows, and it survives kill -9 of tidemark and of the command.\n"
        "\n"
        "Steps come from the program itself (tidemark.h, or the Python package), or else from what it prints: "
        "progress bars, 'step 12', 'iter 12/100', 'it 12', 'update 12', '[12/100] loss 0.3', 'Epoch 3', or what --step-regex finds; output that goes to "
        "/dev/null is read too. If the output counts items, as in 'Train Epoch: 1 [640/60000 (1%)]', a step is an item. Without steps, the axis is time. This is also the case for a program that buffers its output, as Python does in a pipe unless PYTHONUNBUFFERED=1.\n"
        "\n"
        "With --heap a library is preloaded into the command and every program it starts. It keeps live bytes by call "
        "stack: allocations of at least a quarter of --heap-interval are all counted, smaller ones are sampled and scaled up. "
        "The recording has the stacks, with functions, files and lines as far as symbols and debug information give "
        "them. A program with its own pool or arena can report what it hands out (tidemark.h); then users of the pool are "
        "named instead of the code that made it grow. The library cannot see into a program that is statically linked, setuid, or built with a sanitizer; the verdict names such programs.\n"
        "\n"
        "If the command is a PyTorch program whose Python can import the package tidemark, --heap also asks it a few times what holds the tensors that "
        "accumulate, and prints that below the culprit: held by list `losses`, train.py:31; keep `loss.item()`. "
        "The census runs between two instructions of its main thread; --no-census leaves it out.\n"
        "\n"
        "When the command ends before processes that it started, recording goes on until they end too, or "
        "until you press Ctrl-C. On a terminal, a status line is shown in the last row where the program's own output permits it.\n"
        "\n"
        "The command does not depend on tidemark: if tidemark is killed, the command goes on and its output still arrives, "
        "in a file, a pipe or on the terminal. The shell then has the terminal again, and keys no longer reach the command.",
    .exits =
        "that of CMD, 128 + N if signal N killed it; 127 if it was not found, 126 if it could not be executed, 2 if the recording could not be begun.",
    .examples = "tidemark run -- python train.py\n"
                "tidemark run -o base.tide --limit 24G -- uv run python train.py --epochs 3\n"
                "tidemark run --heap -- ./train\n"
                "tidemark run --items 663 --per-step 8 -- ./train\n"
                "tidemark run --step-regex 'update ([0-9]+)' -- ./selfplay",
    .options = options,
    .values_size = sizeof usual,
    .usual = &usual,
    .parsing = TIDE_OPTIONS_STOP_AT_OPERAND,
    .run = run,
};
