/*
 * cmd_sample.c - tidemark sample: prints text from a model as it is generated.
 *
 * The model's weights are loaded into a machine whose programs decode. On a terminal, the text goes through
 * the stream below, which holds back incomplete runes and escapes control characters; otherwise the bytes are
 * written unchanged.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/room.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/threads.h"
#include "train/language.h"
#include "train/lm.h"
#include "train/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TOKENS = 1000000, MOST_JSON_BYTES = 64 << 20 };

struct values {
    const char *prompt, *dtype;
    int64_t tokens, seed, threads;
    struct tide_sample_rule rule;
    bool json;
};

static const struct tide_option options[] = {
    {0, "prompt", TIDE_OPTION_TEXT, offsetof(struct values, prompt), "TEXT", NULL, 0, 0,
     "the text to continue (default: none, the model begins)"},
    {0, "tokens", TIDE_OPTION_COUNT, offsetof(struct values, tokens), "N", NULL, 0, MOST_TOKENS,
     "how many tokens to add (200)"},
    {0, "temperature", TIDE_OPTION_REAL, offsetof(struct values, rule.temperature), "X", NULL, 0, 0,
     "0 always takes the most likely token; 1 (default) samples from the model's probabilities"},
    {0, "top-k", TIDE_OPTION_COUNT, offsetof(struct values, rule.top_k), "K", NULL, 0, 0,
     "sample only from the K most likely tokens (0: from all)"},
    {0, "top-p", TIDE_OPTION_REAL, offsetof(struct values, rule.top_p), "P", NULL, 0, 0,
     "sample only from the fewest tokens whose probabilities add up to P (1: from all); applied after --top-k"},
    {0, "seed", TIDE_OPTION_COUNT, offsetof(struct values, seed), "N", NULL, 0, 0,
     "seed of the random choice (1); the same seed gives the same text"},
    {0, "dtype", TIDE_OPTION_CHOICE, offsetof(struct values, dtype), "TYPE", "f32|bf16", 0, 0,
     "number type in matrix products (f32)"},
    {0, "threads", TIDE_OPTION_COUNT, offsetof(struct values, threads), "N", NULL, 1, TIDE_THREADS_MOST,
     "number of threads (one per processor)"},
    {0, "json", TIDE_OPTION_FLAG, offsetof(struct values, json), NULL, NULL, 0, 0,
     "one JSON document, at the end"},
    {0},
};

/* ---- what is printed */

struct stream {
    bool escapes; /* stdout is a terminal */
    char held[4]; /* an incomplete rune */
    size_t held_len;
};

/* True if more bytes could complete these to a rune. */
static bool is_beginning(const char *text, size_t len)
{
    unsigned char lead = (unsigned char)text[0];
    size_t need = (lead & 0xe0) == 0xc0 ? 2 : (lead & 0xf0) == 0xe0 ? 3 : (lead & 0xf8) == 0xf0 ? 4 : 1;
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return false;
    return len < need;
}

/* Prints the held bytes. Keeps an incomplete rune, unless the text ends here. */
static void stream_drain(struct stream *s, bool ends)
{
    while (s->held_len && (ends || !is_beginning(s->held, s->held_len))) {
        size_t rune = tide_text_rune(s->held, s->held_len, NULL), taken = rune ? rune : 1;
        if (s->held[0] == '\n' || s->held[0] == '\t')
            putchar(s->held[0]);
        else
            fputs(TIDE_ESCAPED(s->held, taken, 16), stdout);
        s->held_len -= taken;
        memmove(s->held, s->held + taken, s->held_len);
    }
}

static void stream_put(struct stream *s, const char *text, size_t len)
{
    if (!s->escapes)
        fwrite(text, 1, len, stdout);
    for (size_t i = 0; i < len && s->escapes; i++) {
        s->held[s->held_len++] = text[i];
        stream_drain(s, false);
    }
    fflush(stdout);
}

/* ---- the model */

struct model {
    char path[4096];
    struct tide_gpt_config config;
    char base[TIDE_LANGUAGE_PATH]; /* path of the base model; only for adapters */
    int64_t step;                  /* steps that its run made; 0: a model from elsewhere */
    int64_t window;
    struct tide_vocabulary *vocabulary;
    struct tide_graph *graph;
    struct tide_machine *machine;
    struct tide_sampler *sampler;
};

/* Opens the checkpoint's own vocabulary, or that of the directory named on the command line. */
static int find_vocabulary(struct model *m, const char *dir, struct tide_err *err)
{
    const char *own = tide_language_vocabulary_in(m->path, m->base);
    if (tide_vocabulary_new(own, m->config.vocabulary, &m->vocabulary, err))
        return -1;
    if (m->vocabulary->kind != TIDE_VOCABULARY_NUMBERS || !strcmp(m->path, dir))
        return 0;
    tide_vocabulary_free(m->vocabulary);
    m->vocabulary = NULL;
    return tide_vocabulary_new(dir, m->config.vocabulary, &m->vocabulary, err);
}

static int find_model(struct model *m, const char *dir, struct tide_err *err)
{
    int status = tide_checkpoint_find(dir, m->path, sizeof m->path, err);
    if (status > 0) {
        tide_err_set(err, "there is no model in '%s'", TIDE_SHOWN(dir, 256));
        return tide_err_hint(err, "train one: tidemark train lm --out DIR");
    }
    if (status)
        return -1;
    if (err->text[0])
        fprintf(stderr, "tidemark: %s\n", err->text);
    struct tide_lm_settings run = {0};
    struct tide_checkpoint_state state = {.task = "lm", .own = &run};
    if (tide_language_read(m->path, &m->config, m->base, err) || tide_checkpoint_read(m->path, &state, err))
        return -1;
    m->step = state.step;
    bool shorter = run.sequence > 0 && run.sequence < m->config.positions;
    m->window = shorter ? run.sequence : m->config.positions;
    return find_vocabulary(m, dir, err);
}

static int check_room(const struct tide_plan *plan, struct tide_err *err)
{
    int64_t room = tide_room_bytes();
    if (room < 0 || plan->total <= (size_t)room)
        return 0;
    return tide_err_set(err, "the model needs %s (%zu bytes), and the system has %s",
                        TIDE_SIZE((double)plan->total), plan->total, TIDE_SIZE((double)room));
}

static int load_model(struct model *m, enum tide_dtype dtype, struct tide_err *err)
{
    struct tide_choices none = {0};
    struct tide_plan plan;
    struct tide_gpt_decoder decoder;
    m->graph = tide_graph_new(dtype);
    if (!m->graph)
        return tide_err_set(err, "out of memory for the model");
    if (tide_gpt_build_decoder(m->graph, &m->config, 1, m->window, &decoder, err) ||
        tide_checkpoint_check(m->path, m->graph, err) ||
        tide_plan_make(m->graph, &tide_cpu_device, &none, &plan, err) || check_room(&plan, err) ||
        tide_machine_new(m->graph, &tide_cpu_device, &plan, &m->machine, err) ||
        (m->base[0] && tide_checkpoint_load_base(m->base, m->graph, m->machine, err)) ||
        tide_checkpoint_load(m->path, m->graph, m->machine, false, err))
        return -1;
    return tide_sampler_new(&m->config, &decoder, m->machine, &m->sampler, err);
}

/* ---- sampling */

struct talk {
    struct model model;
    const struct values *values;
    struct stream stream;
    struct tide_buf text; /* generated text, for --json */
    int32_t *prompt;      /* followed by the generated tokens, for --json */
    int64_t prompt_count, made;
    double seconds;
};

static int read_prompt(struct talk *t, struct tide_err *err)
{
    const char *text = t->values->prompt ? t->values->prompt : "";
    size_t room = tide_vocabulary_most(t->model.vocabulary, text) + 1 +
                  (t->values->json ? (size_t)t->values->tokens : 0);
    t->prompt = malloc(room * sizeof *t->prompt);
    if (!t->prompt)
        return tide_err_set(err, "out of memory for the prompt");
    t->prompt_count = tide_vocabulary_tokens(t->model.vocabulary, text, t->prompt, err);
    if (t->prompt_count < 0)
        return tide_err_wrap(err, "--prompt");
    return 0;
}

static void say(struct talk *t, int32_t token)
{
    char room[16];
    size_t len;
    const char *text = tide_vocabulary_text(t->model.vocabulary, token, room, &len);
    if (t->values->json) {
        t->prompt[t->prompt_count + t->made] = token;
        for (size_t i = 0; i < len; i++) /* a NUL would end the C string; 0xff is no text in JSON either */
            tide_buf_append(&t->text, text[i] ? text + i : "\xff", 1);
    } else {
        stream_put(&t->stream, text, len);
    }
}

static int generate(struct talk *t, struct tide_err *err)
{
    struct tide_sample_rule rule = t->values->rule;
    int32_t begin = tide_vocabulary_begin(t->model.vocabulary),
            end = tide_vocabulary_end(t->model.vocabulary);
    rule.seed = (uint64_t)t->values->seed;
    int64_t before = tide_clock_ns();
    if (t->prompt_count)
        tide_sampler_start(t->model.sampler, t->prompt, t->prompt_count);
    else
        tide_sampler_start(t->model.sampler, &begin, 1);
    if (!t->values->json && t->values->prompt) {
        stream_put(&t->stream, t->values->prompt, strlen(t->values->prompt));
        if (t->model.vocabulary->kind == TIDE_VOCABULARY_NUMBERS && t->prompt_count)
            stream_put(&t->stream, " ", 1);
    }
    while (t->made < t->values->tokens && !ferror(stdout)) {
        int32_t token = tide_sampler_next(t->model.sampler, &rule);
        if (token < 0)
            return tide_err_set(err, "the model's output is not a number: its weights are damaged");
        if (token == end)
            break;
        say(t, token);
        t->made++;
    }
    t->seconds = (double)(tide_clock_ns() - before) / TIDE_NS_PER_S;
    return t->text.failed ? tide_err_set(err, "out of memory for the text") : 0;
}

static void print_json(const struct talk *t)
{
    static const char *const kinds[] = {"bytes", "pairs", "numbers"};
    struct tide_json json;
    tide_json_document(&json, stdout, false, "tidemark.sample/1");
    tide_json_text(&json, "model", t->model.path);
    tide_json_whole(&json, "step", t->model.step > 0 ? (double)t->model.step : NAN);
    tide_json_text(&json, "vocabulary", kinds[t->model.vocabulary->kind]);
    tide_json_integer(&json, "window", t->model.window);
    tide_json_integer(&json, "seed", t->values->seed);
    tide_json_text(&json, "prompt", t->values->prompt ? t->values->prompt : "");
    tide_json_text(&json, "text", tide_buf_view(&t->text));
    tide_json_array(&json, "tokens");
    for (int64_t i = 0; i < t->made; i++)
        tide_json_integer(&json, NULL, t->prompt[t->prompt_count + i]);
    tide_json_end(&json);
    tide_json_integer(&json, "prompt_tokens", t->prompt_count);
    tide_json_real(&json, "tokens_per_second", t->seconds > 0 ? (double)t->made / t->seconds : 0);
    tide_json_end(&json);
}

static int sample(const struct values *v, const char *dir, struct tide_err *err)
{
    struct talk t = {.values = v, .stream.escapes = isatty(STDOUT_FILENO)};
    tide_buf_init(&t.text, MOST_JSON_BYTES);
    enum tide_dtype dtype = strcmp(v->dtype, "bf16") ? TIDE_F32 : TIDE_BF16;
    int status = tide_sample_rule_check(&v->rule, err) || find_model(&t.model, dir, err) ||
                         read_prompt(&t, err) || load_model(&t.model, dtype, err)
                     ? -1
                     : 0;
    if (!status) {
        status = generate(&t, err);
        stream_drain(&t.stream, true);
        if (t.stream.escapes && !v->json)
            putchar('\n'); /* so that the shell's prompt starts on a new line */
        if (v->json && !status)
            print_json(&t);
    }
    tide_sampler_free(t.model.sampler);
    tide_machine_free(t.model.machine);
    tide_graph_free(t.model.graph);
    tide_vocabulary_free(t.model.vocabulary);
    tide_buf_release(&t.text);
    free(t.prompt);
    return status;
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    const struct values *v = (const void *)call->values;
    if (call->count != 1) {
        tide_err_set(err, "sample: expected one directory with a model, got %d", call->count);
        return tide_err_hint(err, "tidemark sample DIR --prompt TEXT");
    }
    if (v->threads)
        tide_threads_set((int)v->threads);
    return sample(v, call->operands[0], err) ? tide_err_wrap(err, "sample") : TIDE_EXIT_OK;
}

static const struct values usual = {
    .dtype = "f32", .tokens = 200, .seed = 1, .rule = {.temperature = 1, .top_p = 1}};

const struct tide_command tide_command_sample = {
    .name = "sample",
    .synopsis = "[--prompt TEXT] [--tokens N] [options] DIR",
    .operands = ":directories",
    .summary = "continue a text with a model",
    .details =
        "DIR is a run of `tidemark train lm --out DIR` (its newest complete checkpoint is used), one of its checkpoints, or a GPT-2 of Hugging Face. "
        "The text is printed as it is generated, the prompt first; control characters are escaped on a terminal.\n"
        "\n"
        "A model with a tokenizer (tokenizer.json, or vocab.json and merges.txt, in DIR or in the checkpoint) reads the prompt with it, and stops at "
        "<|endoftext|>. A model whose tokens are bytes knows only the bytes of its training text; a prompt with other bytes is refused. Without either, tokens are numbers, "
        "in the prompt (\"464 2068\") and in the output.\n"
        "\n"
        "A model sees at most as many tokens as it was trained on. When that window is full, it goes on with the newer half. It sees only the end of a longer prompt.",
    .exits = "0, or 2 when there is trouble.",
    .examples = "tidemark sample run --prompt '12+34=' --tokens 4 --temperature 0\n"
                "tidemark sample run --prompt 'Once ' --tokens 500 --temperature 0.8 --top-k 40\n"
                "tidemark sample gpt2 --prompt 'The meaning of life is' --top-p 0.9 --json",
    .options = options,
    .values_size = sizeof usual,
    .usual = &usual,
    .run = run,
    .computes = true,
};
