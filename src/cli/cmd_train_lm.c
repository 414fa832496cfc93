/*
 * cmd_train_lm.c - tidemark train lm: trains a language model in memory that is laid out beforehand.
 */
#include "base/clock.h"
#include "cli/train_loop.h"
#include "train/lm.h"

#include <stddef.h>
#include <unistd.h>

enum { DRAW_MS = 200 };

struct values {
    struct tide_train_values shared;
    struct tide_lm_options lm;
};

#define LM(field) offsetof(struct values, lm.field)

static const struct tide_option options[] = {
    {0, "preset", TIDE_OPTION_CHOICE, LM(model.preset), "NAME", "tiny|small|medium|large|gpt2", 0, 0,
     "the size of the model (tiny)"},
    {0, "config", TIDE_OPTION_TEXT, LM(model.config), "FILE", NULL, 0, 0,
     "read the model from a config.json of Hugging Face's GPT-2"},
    {0, "data", TIDE_OPTION_TEXT, LM(data), "FILE", NULL, 0, 0,
     "train on a text, cut by the model's tokenizer or else byte by byte, or on a token file of llm.c; without it, on sums, whose answers are checked"},
    {0, "tokenizer", TIDE_OPTION_TEXT, LM(tokenizer), "DIR", NULL, 0, 0,
     "cut the text into tokens with this: a tokenizer.json, or a directory with one or with vocab.json and merges.txt (a resumed model has its own)"},
    {0, "batch", TIDE_OPTION_COUNT, LM(settings.batch), "N", NULL, 1, 1 << 20,
     "sequences per batch (16; for sums 48)"},
    {0, "seq", TIDE_OPTION_COUNT, LM(settings.sequence), "N", NULL, 1, 1 << 20,
     "tokens per sequence (64; for sums 20)"},
    {0, "accumulate", TIDE_OPTION_COUNT, LM(settings.accumulate), "N", NULL, 1, 1 << 20,
     "batches per step (1)"},
    {0, "adapt", TIDE_OPTION_TEXT, LM(model.adapt), "NAME", NULL, 0, 0,
     "lora:RANK or lora:RANK:ALPHA: train adapters on every linear layer and keep the model; they are saved as PEFT's"},
    {0},
};

/* ---- a text that is read */

/* Shows progress on a terminal after the first second: some megabytes of text take less than that. */
static void tell_read(double share)
{
    static int64_t began_ns, told_ns;
    int64_t now = tide_clock_ns();
    began_ns = began_ns ? began_ns : now;
    if (!isatty(STDERR_FILENO) ||
        (share < 1 && (now - began_ns < TIDE_NS_PER_S || now - told_ns < DRAW_MS * TIDE_NS_PER_MS)))
        return;
    if (share < 1)
        fprintf(stderr, "\rtidemark: cutting the text into tokens: %.0f %%", 100 * share);
    else if (told_ns)
        fputs("\r\033[K", stderr);
    told_ns = now;
}

static struct tide_task *make(void *values, struct tide_err *err)
{
    (void)err;
    struct values *v = values;
    v->lm.tell = tell_read;
    v->lm.samples = v->shared.sample_every > 0;
    return tide_lm_new(&v->lm);
}

static void init(void *values)
{
    struct values *v = values;
    tide_train_values_init(&v->shared, make);
    tide_settings_clear(tide_lm_settings, &v->lm.settings);
}

const struct tide_command tide_train_lm = {
    .name = "train lm",
    .synopsis = "[--preset NAME] [--data FILE] [--budget SIZE] [--out DIR] [options]",
    .summary = "train a language model in memory that is planned beforehand",
    .details =
        "Trains a GPT-2 of the wanted size. Before the first step all memory of the run is laid out in one arena, and the layout is printed; after the first step nothing "
        "is allocated and no page is added. With --budget the fastest layout that fits is chosen (blocks are recomputed instead of kept, gradients "
        "are used as soon as they are complete); all layouts are exact and give the same bits. If none fits, the least possible size and what would fit are printed, and nothing is allocated.\n"
        "\n"
        "The model's tokenizer cuts the text into tokens: the one in the directory of --resume, or the one that --tokenizer names (tokenizer.json, or vocab.json and "
        "merges.txt of Hugging Face; byte-level BPE as in GPT-2, Llama 3 and Qwen). Without one, a token is a byte. The first line says which is used.\n"
        "\n"
        "Without --data the model learns sums of two numbers; at the end the share of exact answers to sums it has never seen is printed.\n"
        "\n"
        "The first SIGINT, SIGTERM or SIGHUP ends the run after the current step, saves a checkpoint if --out is given, and exits with 128 plus the signal's "
        "number; the second kills it. Exit code: 0 when all steps are done, 2 when there is trouble.",
    .examples =
        "tidemark train lm\n"
        "tidemark train lm --preset small --data corpus.txt --out run --steps 10000\n"
        "tidemark train lm --preset small --data corpus.txt --out run --steps 20000 --resume auto\n"
        "tidemark train lm --preset gpt2 --tokenizer gpt2 --data corpus.txt --batch 8 --seq 174 --budget 2.2G --dry-run\n"
        "tidemark train lm --resume gpt2 --data corpus.txt --out tuned --steps 500\n"
        "tidemark run -- tidemark train lm --preset tiny",
    .options = options,
    .shared = tide_train_shared,
    .values_size = sizeof(struct values),
    .init = init,
    .run = tide_train_main,
};
