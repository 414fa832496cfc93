#include "train/lm.h"
#include "base/units.h"
#include "tidemark.h"
#include "train/config.h"
#include "train/sample.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 8, SAMPLE = 64, EVALUATION_BATCHES = 8, SOME_QUESTIONS = 100, MANY_QUESTIONS = 500 };
enum { USUAL_SEQUENCE = 64, USUAL_BATCH = 16 };
/* Two lines: a model learns sums separately for each position in the sequence where a line may begin. */
enum { SUMS_SEQUENCE = 20, SUMS_BATCH = 48 };

#define OF(field) offsetof(struct tide_lm_settings, field)

const struct tide_setting tide_lm_settings[] = {
    {"batch", TIDE_SETTING_COUNT, OF(batch), 1, INT32_MAX, NULL, false},
    {"sequence", TIDE_SETTING_COUNT, OF(sequence), 1, INT32_MAX, NULL, false},
    {"accumulate", TIDE_SETTING_COUNT, OF(accumulate), 1, INT32_MAX, NULL, false},
    {0},
};

enum { LOSS, HELD_OUT_LOSS, EXACT, RATE, NORM, NUMBERS };

struct lm {
    struct tide_task task;
    struct tide_lm_options options; /* settings are settled */
    struct tide_task_number numbers[NUMBERS];
    struct tide_language language;
    struct tide_task_memory memory; /* the tokenizer's */
    struct tide_data *data;
    struct tide_gpt gpt;
    struct tide_gpt_decoder decoder;
    struct tide_sampler *sampler; /* NULL: it never samples */
};

/* ---- model and data */

static int open_data(struct lm *lm, const char *resumed, uint64_t seed, struct tide_err *err)
{
    const struct tide_lm_options *o = &lm->options;
    struct tide_gpt_config *config = &lm->language.config;
    const char *learned = resumed ? tide_language_vocabulary_in(resumed, lm->language.base) : NULL;
    struct tide_data_source source = {.path = o->data,
                                      .seed = seed,
                                      .sequence = o->settings.sequence,
                                      .vocabulary = config->vocabulary,
                                      .tell = o->tell};
    if (tide_vocabulary_tokenizer(o->tokenizer, learned, config->vocabulary, &source.tokenizer, err) ||
        tide_data_open(&source, &lm->data, err))
        return -1;
    lm->language.vocabulary = lm->data->vocabulary;
    if (!config->vocabulary)
        config->vocabulary = lm->data->vocabulary->size;
    if (learned && tide_language_check(&lm->language, learned, err))
        return -1;
    return tide_config_check(config, err);
}

static int settle(struct tide_task *task, const char *resumed, struct tide_train_settings *train,
                  struct tide_err *err)
{
    struct lm *lm = (struct lm *)task;
    struct tide_lm_options *o = &lm->options;
    struct tide_lm_settings *s = &o->settings;
    const struct tide_gpt_config *config = &lm->language.config;
    if (tide_language_settle(&lm->language, &o->model, resumed, train->stored, err))
        return -1;
    int64_t usual = o->data ? USUAL_SEQUENCE : SUMS_SEQUENCE;
    tide_setting_usual(&s->sequence, config->positions < usual ? config->positions : usual);
    tide_setting_usual(&s->batch, o->data ? USUAL_BATCH : SUMS_BATCH);
    tide_setting_usual(&s->accumulate, 1);
    tide_setting_usual_real(&train->rate, 0.128 / (double)config->channels);
    if (s->sequence > config->positions) {
        tide_err_set(err, "a sequence of %lld is longer than the model's %lld positions",
                     (long long)s->sequence, (long long)config->positions);
        return tide_err_hint(err, "use --seq %lld or less", (long long)config->positions);
    }
    if (open_data(lm, resumed, (uint64_t)train->seed, err))
        return -1;
    const struct tide_tokenizer *tokenizer = lm->language.vocabulary->tokenizer;
    if (tokenizer) {
        lm->memory = (struct tide_task_memory){"tokenizer", tide_tokenizer_bytes(tokenizer)};
        task->memory = &lm->memory;
        task->memory_count = 1;
    }
    task->batch = s->batch;
    task->sequence = s->sequence;
    task->passes = s->accumulate;
    task->blocks = config->blocks;
    task->vocabulary = config->vocabulary;
    task->model = o->model.preset ? o->model.preset : o->model.config ? "config" : "tiny";
    return 0;
}

static bool samples(const struct lm *lm)
{
    return lm->options.samples || lm->data->kind == TIDE_DATA_SUMS;
}

static int build(struct tide_task *task, struct tide_graph *graph, struct tide_err *err)
{
    struct lm *lm = (struct lm *)task;
    const struct tide_lm_settings *s = &lm->options.settings;
    const struct tide_gpt_config *config = &lm->language.config;
    if (tide_gpt_build(graph, config, task->batch, task->sequence, &lm->gpt, err))
        return -1;
    return samples(lm) ? tide_gpt_build_decoder(graph, config, 1, s->sequence, &lm->decoder, err) : 0;
}

static int suggest(struct tide_task *task, const struct tide_trainer *trainer, struct tide_err *err)
{
    int64_t batch = tide_trainer_most_that_fits(trainer, &task->batch);
    if (batch)
        return tide_err_hint(err, "--batch %lld would fit", (long long)batch);
    task->batch = 1;
    int64_t sequence = tide_trainer_most_that_fits(trainer, &task->sequence);
    return sequence ? tide_err_hint(err, "--batch 1 --seq %lld would fit", (long long)sequence) : 0;
}

static int start(struct tide_task *task, struct tide_trainer *trainer, struct tide_err *err)
{
    struct lm *lm = (struct lm *)task;
    struct tide_machine *machine = trainer->machine;
    uint64_t seed = (uint64_t)trainer->options.settings.seed;
    if (samples(lm) && tide_sampler_new(&lm->language.config, &lm->decoder, machine, &lm->sampler, err))
        return -1;
    return tide_language_start(&lm->language, trainer->graph, machine, seed, err);
}

static void free_lm(struct tide_task *task)
{
    struct lm *lm = (struct lm *)task;
    tide_sampler_free(lm->sampler);
    tide_data_free(lm->data);
    free(lm);
}

/* ---- steps */

static int fill_batch(struct lm *lm, struct tide_machine *machine, int64_t number, bool held_out,
                      struct tide_err *err)
{
    return tide_data_batch(lm->data, (uint64_t)number, held_out, lm->task.batch,
                           tide_machine_input(machine, lm->gpt.tokens),
                           tide_machine_input(machine, lm->gpt.targets), err);
}

static int step(struct tide_task *task, struct tide_trainer *trainer, struct tide_update_rule *rule,
                struct tide_task_step *ret_step, struct tide_err *err)
{
    struct lm *lm = (struct lm *)task;
    struct tide_machine *machine = trainer->machine;
    int64_t number = rule->step.step;
    double loss = 0;
    for (int64_t i = 0; i < task->passes; i++) {
        if (fill_batch(lm, machine, (number - 1) * task->passes + i, false, err))
            return tide_err_wrap(err, "step %lld", (long long)number);
        loss += (double)tide_machine_pass(machine, i, rule);
        if (!isfinite(loss))
            return tide_trainer_stop_at(number, "loss", err);
    }
    ret_step->loss = loss / (double)task->passes;
    ret_step->norm = tide_machine_update(machine, rule);
    ret_step->tokens = task->batch * task->sequence * task->passes;
    lm->numbers[LOSS].value = ret_step->loss;
    lm->numbers[RATE].value = (double)rule->step.rate;
    lm->numbers[NORM].value = ret_step->norm;
    return 0;
}

/* Uses the same batches every time. A model that learns sums is also asked some questions. */
static int evaluate(struct tide_task *task, struct tide_trainer *trainer, bool last, struct tide_err *err)
{
    struct lm *lm = (struct lm *)task;
    struct tide_machine *machine = trainer->machine;
    double sum = 0;
    for (int64_t i = 0; i < EVALUATION_BATCHES; i++) {
        if (fill_batch(lm, machine, i, true, err))
            return -1;
        tide_machine_run(machine, lm->gpt.evaluate);
        sum += (double)*(const float *)tide_machine_result(machine, lm->gpt.evaluate, lm->gpt.loss);
    }
    lm->numbers[HELD_OUT_LOSS].value = sum / EVALUATION_BATCHES;
    if (lm->data->kind != TIDE_DATA_SUMS)
        return 0;
    tide_phase_begin("sampling");
    lm->numbers[EXACT].value = tide_sampler_accuracy(lm->sampler, lm->data, lm->language.vocabulary,
                                                     last ? MANY_QUESTIONS : SOME_QUESTIONS);
    tide_phase_end("sampling");
    return 0;
}

/* The beginning of some held-out text, and how the model continues it. */
static int sample(struct tide_task *task, struct tide_trainer *trainer, char *out, size_t size,
                  struct tide_err *err)
{
    struct lm *lm = (struct lm *)task;
    struct tide_machine *machine = trainer->machine;
    int32_t tokens[PROMPT + SAMPLE];
    struct tide_sample_rule rule = {.temperature = 0.8, .top_p = 0.95, .seed = (uint64_t)trainer->done};
    int64_t prompt = task->sequence < PROMPT ? task->sequence : PROMPT;
    if (fill_batch(lm, machine, 0, true, err))
        return -1;
    memcpy(tokens, tide_machine_input(machine, lm->gpt.tokens), (size_t)prompt * sizeof *tokens);
    int64_t said = tide_sampler_tokens(lm->sampler, tokens, prompt, &rule, -1, tokens + prompt, SAMPLE);
    tide_vocabulary_show(lm->language.vocabulary, tokens, prompt + said, out, size);
    return 0;
}

/* ---- files and messages */

static bool write(void *task, const char *name, struct tide_durable *file)
{
    return tide_language_write(&((struct lm *)task)->language, name, file);
}

static void describe(const struct tide_task *task, const struct tide_trainer *trainer, FILE *out)
{
    const struct lm *lm = (const struct lm *)task;
    static const char *const kinds[] = {"text by bytes", "tokens", "sums made up here",
                                        "text by its tokenizer"};
    char count[TIDE_UNITS_TEXT];
    enum tide_data_kind kind = lm->data->kind;
    const struct tide_tokenizer *tokenizer = lm->language.vocabulary->tokenizer;
    tide_language_describe(&lm->language, trainer,
                           tokenizer                ? tokenizer->source
                           : kind == TIDE_DATA_TEXT ? "bytes"
                                                    : NULL,
                           out);
    fprintf(out, "data     %s, %s for training; %lld x %lld a batch", kinds[kind],
            tide_count_text((double)lm->data->train_count, count), (long long)task->batch,
            (long long)task->sequence);
    if (task->passes > 1)
        fprintf(out, ", %lld batches a step", (long long)task->passes);
    fputc('\n', out);
}

static const struct tide_task_kind kind = {
    .name = "lm",
    .schema = "tidemark.train/1",
    .rate = "tokens_per_second",
    .rate_label = "tok/s",
    .is_all_work = true,
    .settle = settle,
    .build = build,
    .suggest = suggest,
    .start = start,
    .step = step,
    .evaluate = evaluate,
    .sample = sample,
    .write = write,
    .describe = describe,
    .free = free_lm,
};

struct tide_task *tide_lm_new(const struct tide_lm_options *options)
{
    static const struct tide_task_number numbers[NUMBERS] = {
        [LOSS] = {"loss", "loss", false, NAN},        [HELD_OUT_LOSS] = {"val_loss", "val", false, NAN},
        [EXACT] = {"accuracy", "exact", true, NAN},   [RATE] = {"learning_rate", NULL, false, NAN},
        [NORM] = {"gradient_norm", NULL, false, NAN},
    };
    struct lm *lm = calloc(1, sizeof *lm);
    if (!lm)
        return NULL;
    lm->options = *options;
    memcpy(lm->numbers, numbers, sizeof numbers);
    lm->task = (struct tide_task){.kind = &kind,
                                  .settings = &lm->options.settings,
                                  .numbers = lm->numbers,
                                  .number_count = NUMBERS,
                                  .starts_anew = options->model.adapt};
    return &lm->task;
}
