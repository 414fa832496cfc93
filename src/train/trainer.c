#include "train/trainer.h"
#include "base/allocations.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/processor.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/tiles.h"
#include "rt/cpu/update.h"
#include "tidemark.h"
#include "train/adapters.h"
#include "train/config.h"
#include "train/initial.h"
#include "train/sample.h"
#include "train/tuning.h"
#include "train/vocabulary.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PROMPT = 8, SAMPLE = 64 };
enum {
    PATH_BYTES = 4096,
    USUAL_SEQUENCE = 64,
    USUAL_BATCH = 16,
    USUAL_WARMUP = 100,
    USUAL_STEPS = 2000,
    HELD = 500
};
/* Two lines: what is learned of a sum is learned for each place in the sequence where one may stand. */
enum { SUMS_SEQUENCE = 20, SUMS_BATCH = 48 };

struct tide_trainer {
    struct tide_train_options options; /* settled */
    char resumed[PATH_BYTES];          /* "": from nothing */
    char passed_over[512];             /* why newer ones than that were not taken */
    char base[PATH_BYTES];             /* of adapters: the model that they adapt; "": first weights */
    bool is_base;                      /* what is resumed is that model, and adapters are new */
    struct tide_checkpoint_state state;
    struct tide_gpt_config config;
    struct tide_data *data;
    struct tide_graph *graph;
    struct tide_gpt gpt;
    struct tide_device *device;
    struct tide_plan plan, least;
    struct tide_gpt_decoder decoder;
    struct tide_machine *machine;
    struct tide_sampler *sampler; /* NULL: it never samples */
    int64_t done;
    struct tide_tuning tuning;
    bool is_warm; /* after the first step of this process: nothing is allocated any more */
};

/* ---- what run this is */

static const char *shown(const char *text, char out[static 256])
{
    return tide_text_escape(text, strlen(text), out, 256);
}

/* Whether a checkpoint lies in the directory of a run. */
static bool is_in(const char *checkpoint, const char *dir)
{
    char above[PATH_BYTES + 4];
    struct stat a, b;
    snprintf(above, sizeof above, "%s/..", checkpoint);
    return !stat(above, &a) && !stat(dir, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int refuse_occupied(const char *dir, struct tide_err *err)
{
    char text[256];
    tide_err_set(err, "'%s' already holds a run", shown(dir, text));
    return tide_err_hint(err, "continue it with --resume auto, or name another directory");
}

/* Where to go on from, if anywhere; a directory with a run is not written to by another. */
static int find_resumed(struct tide_trainer *t, struct tide_err *err)
{
    const struct tide_train_options *o = &t->options;
    char text[256];
    bool automatic = o->resume && !strcmp(o->resume, "auto");
    if (automatic && !o->out) {
        tide_err_set(err, "--resume auto needs the directory of the run");
        return tide_err_hint(err, "name it: --out DIR --resume auto");
    }
    int here = o->out ? tide_checkpoint_find(o->out, t->resumed, sizeof t->resumed, err) : 1;
    int there =
        o->resume && !automatic ? tide_checkpoint_find(o->resume, t->resumed, sizeof t->resumed, err) : here;
    if (here < 0 || there < 0)
        return -1;
    if (!here && (!o->resume || !is_in(t->resumed, o->out)))
        return refuse_occupied(o->out, err);
    if (there > 0 && o->resume && !automatic)
        return tide_err_set(err, "there is no checkpoint in '%s'", shown(o->resume, text));
    if (there > 0) {
        t->resumed[0] = '\0';
        return 0;
    }
    if (err && err->text[0])
        snprintf(t->passed_over, sizeof t->passed_over, "%s", err->text);
    return tide_checkpoint_config(t->resumed, &t->config, &t->state, err);
}

static int settle_model(struct tide_trainer *t, struct tide_err *err)
{
    const struct tide_train_options *o = &t->options;
    struct tide_gpt_config asked;
    if (o->preset && o->config)
        return tide_err_set(err, "--preset and --config cannot be used together");
    if (t->resumed[0] && !o->preset && !o->config)
        return 0;
    if (o->config ? tide_config_read(o->config, &asked, err)
                  : tide_config_preset(o->preset ? o->preset : "tiny", &asked, err))
        return -1;
    if (t->resumed[0]) {
        asked.vocabulary = t->config.vocabulary; /* a preset leaves it to the data */
        asked.epsilon = t->config.epsilon;
        if (memcmp(&asked, &t->config, offsetof(struct tide_gpt_config, epsilon)) != 0)
            return tide_err_set(err, "--%s names another model than the run to continue has",
                                o->preset ? "preset" : "config");
        return 0;
    }
    t->config = asked;
    return 0;
}

/* New adapters on what is resumed, or on first weights; or those of the run that goes on. */
static int settle_adapters(struct tide_trainer *t, struct tide_err *err)
{
    const char *adapt = t->options.adapt;
    if (adapt && t->config.adapter_rank)
        return tide_err_set(err, "the run to go on with has adapters: leave --adapt out");
    if (adapt && tide_adapters_parse(adapt, &t->config, err))
        return -1;
    t->is_base = adapt && t->resumed[0];
    if (t->is_base) {
        if (!realpath(t->resumed, t->base))
            return tide_err_set(err, "cannot find the model to adapt: %s", strerror(errno));
        t->state = (struct tide_checkpoint_state){0};
    } else
        strcpy(t->base, t->state.base);
    if (t->options.stored != TIDE_I8 || t->config.adapter_rank)
        return 0;
    tide_err_set(err, "weights stored as int8 cannot be trained");
    return tide_err_hint(err, "adapters on them can: --adapt lora:16");
}

static void take(int64_t *value, int64_t resumed, int64_t usual)
{
    if (*value == TIDE_NOT_GIVEN)
        *value = resumed > 0 ? resumed : usual;
}

static void take_real(double *value, bool goes_on, double resumed, double usual)
{
    if (*value < 0)
        *value = goes_on ? resumed : usual;
}

/* What was not given: as the run had it, or as is usual. */
static int settle_numbers(struct tide_trainer *t, struct tide_err *err)
{
    struct tide_train_options *o = &t->options;
    const struct tide_checkpoint_state *s = &t->state;
    bool goes_on = s->batch > 0; /* not with a model from elsewhere */
    int64_t positions = t->config.positions, usual = o->data ? USUAL_SEQUENCE : SUMS_SEQUENCE;
    take(&o->steps, s->steps, USUAL_STEPS);
    take(&o->sequence, s->sequence, positions < usual ? positions : usual);
    take(&o->batch, s->batch, o->data ? USUAL_BATCH : SUMS_BATCH);
    take(&o->accumulate, s->accumulate, 1);
    take(&o->seed, (int64_t)s->seed, 1);
    take(&o->warmup, goes_on ? s->warmup : USUAL_WARMUP, 0);
    take_real(&o->rate, goes_on, s->rate, 0.128 / (double)t->config.channels);
    take_real(&o->weight_decay, goes_on, s->weight_decay, 0.1);
    take_real(&o->clip, goes_on, s->clip, 1);
    if (!o->schedule)
        o->schedule = goes_on ? s->schedule : "inverse";
    if ((int)o->dtype == TIDE_NOT_GIVEN)
        o->dtype = goes_on ? s->dtype : TIDE_F32;
    if ((int)o->stored == TIDE_NOT_GIVEN)
        o->stored = goes_on ? s->stored : TIDE_F32;
    if (!o->optimizer)
        o->optimizer = goes_on ? s->optimizer : tide_optimizers[0];
    if (goes_on && o->optimizer != s->optimizer) {
        tide_err_set(err, "the run trained with --optimizer %s, whose state %s cannot go on with",
                     s->optimizer->name, o->optimizer->name);
        return tide_err_hint(err, "leave --optimizer out");
    }
    if (o->sequence <= positions)
        return 0;
    tide_err_set(err, "a sequence of %lld is longer than the model's %lld positions", (long long)o->sequence,
                 (long long)positions);
    return tide_err_hint(err, "use --seq %lld or less", (long long)positions);
}

static int open_data(struct tide_trainer *t, struct tide_err *err)
{
    const struct tide_train_options *o = &t->options;
    struct tide_data_source source = {.path = o->data,
                                      .seed = (uint64_t)o->seed,
                                      .sequence = o->sequence,
                                      .vocabulary = t->config.vocabulary,
                                      .tell = o->tell};
    if (tide_vocabulary_tokenizer(o->tokenizer, t->resumed[0] ? t->resumed : NULL, t->config.vocabulary,
                                  &source.tokenizer, err) ||
        tide_data_open(&source, &t->data, err))
        return -1;
    if (!t->config.vocabulary)
        t->config.vocabulary = tide_data_vocabulary(t->data);
    if (t->resumed[0] && tide_checkpoint_check_data(t->resumed, t->data, err))
        return -1;
    return tide_config_check(&t->config, err);
}

/* ---- the plan */

static bool samples(const struct tide_trainer *t)
{
    return t->options.samples || tide_data_kind(t->data) == TIDE_DATA_SUMS;
}

static int make_graph(const struct tide_trainer *t, int64_t batch, int64_t sequence, struct tide_gpt *ret_gpt,
                      struct tide_gpt_decoder *ret_decoder, struct tide_graph **ret_graph,
                      struct tide_err *err)
{
    struct tide_graph *graph = tide_graph_new(t->options.dtype);
    if (!graph)
        return tide_err_set(err, "out of memory for the model");
    graph->optimizer = t->options.optimizer;
    graph->stored = t->options.stored;
    if (tide_gpt_build(graph, &t->config, batch, sequence, ret_gpt, err) ||
        (samples(t) && tide_gpt_build_decoder(graph, &t->config, 1, t->options.sequence, ret_decoder, err))) {
        tide_graph_free(graph);
        return -1;
    }
    *ret_graph = graph;
    return 0;
}

/* Whether the smallest plan of other sizes fits. */
static bool would_fit(const struct tide_trainer *t, int64_t batch, int64_t sequence)
{
    struct tide_graph *graph = NULL;
    struct tide_gpt gpt;
    struct tide_gpt_decoder decoder;
    struct tide_plan plan;
    if (make_graph(t, batch, sequence, &gpt, &decoder, &graph, NULL))
        return false;
    bool fits = !tide_plan_make(graph, t->device, &t->least.choices, &plan, NULL) &&
                plan.total <= (size_t)t->options.budget_bytes;
    tide_graph_free(graph);
    return fits;
}

/* The most that fits, of what is known not to fit; 0: nothing does. */
static int64_t most_that_fits(const struct tide_trainer *t, bool of_batch, int64_t too_much)
{
    int64_t fits = 0;
    while (too_much - fits > 1) {
        int64_t middle = fits + (too_much - fits) / 2;
        if (of_batch ? would_fit(t, middle, t->options.sequence) : would_fit(t, 1, middle))
            fits = middle;
        else
            too_much = middle;
    }
    return fits;
}

static int refuse_budget(const struct tide_trainer *t, struct tide_err *err)
{
    const struct tide_train_options *o = &t->options;
    char budget[TIDE_UNITS_TEXT], least[TIDE_UNITS_TEXT], model[TIDE_UNITS_TEXT];
    tide_err_set(err, "nothing exact fits into %s: the least possible is %s (%zu bytes)",
                 tide_typed_size_text((double)o->budget_bytes, budget),
                 tide_memory_text((double)t->least.total, least), t->least.total);
    int64_t batch = most_that_fits(t, true, o->batch);
    if (batch)
        return tide_err_hint(err, "--batch %lld would fit", (long long)batch);
    int64_t sequence = most_that_fits(t, false, o->sequence);
    if (sequence)
        return tide_err_hint(err, "--batch 1 --seq %lld would fit", (long long)sequence);
    return tide_err_hint(
        err, "weights and optimizer alone take %s: a smaller model, or more memory",
        tide_memory_text((double)(t->least.bytes[TIDE_TRAINED] + t->least.bytes[TIDE_OPTIMIZER]), model));
}

/* As many as are given, or as the largest operator is worth: more would wait for each other. */
static void settle_threads(struct tide_trainer *t)
{
    struct tide_train_options *o = &t->options;
    double most = 0;
    for (int i = 0; i < t->graph->programs[t->gpt.train].end; i++)
        most = fmax(most, t->graph->nodes[i].op->work(t->graph, &t->graph->nodes[i]));
    tide_threads_set(o->threads > 0 ? (int)o->threads : tide_processors());
    if (o->threads <= 0)
        tide_threads_set(tide_tiles_threads(most));
    tide_tuning_init(&t->tuning, o->threads > 0 ? 1 : tide_threads());
    o->threads = tide_threads();
}

static int make_plan(struct tide_trainer *t, struct tide_err *err)
{
    const struct tide_train_options *o = &t->options;
    if (tide_cpu_device_new(o->reference, &t->device, err) ||
        make_graph(t, o->batch, o->sequence, &t->gpt, &t->decoder, &t->graph, err))
        return -1;
    settle_threads(t);
    if (!tide_plan_choose(t->graph, t->device, (size_t)o->budget_bytes, o->accumulate, o->clip > 0, &t->plan,
                          &t->least, err))
        return 0;
    return t->least.total > (size_t)o->budget_bytes ? refuse_budget(t, err) : -1;
}

int tide_trainer_new(const struct tide_train_options *options, struct tide_trainer **ret_trainer,
                     struct tide_err *err)
{
    struct tide_trainer *t = calloc(1, sizeof *t);
    if (!t)
        return tide_err_set(err, "out of memory");
    t->options = *options;
    if (find_resumed(t, err) || settle_model(t, err) || settle_adapters(t, err) || settle_numbers(t, err) ||
        open_data(t, err) || make_plan(t, err)) {
        tide_trainer_free(t);
        return -1;
    }
    t->done = t->state.step;
    *ret_trainer = t;
    return 0;
}

static int load(struct tide_trainer *t, struct tide_err *err)
{
    char path[PATH_BYTES];
    if (t->base[0]) {
        int found = tide_checkpoint_find(t->base, path, sizeof path, err);
        if (found > 0)
            return tide_err_set(err, "the model that is adapted is not in '%s' any more", t->base);
        if (found < 0 || tide_checkpoint_load_base(path, t->graph, t->machine, err))
            return -1;
    }
    if (!t->resumed[0] || t->is_base)
        return 0;
    return tide_checkpoint_load(t->resumed, t->graph, t->machine, t->done > 0, err);
}

int tide_trainer_start(struct tide_trainer *t, struct tide_err *err)
{
    if (t->options.out && tide_checkpoint_prepare(t->options.out, err))
        return -1;
    if (tide_machine_new(t->graph, t->device, &t->plan, &t->machine, err))
        return -1;
    if (samples(t) && tide_sampler_new(&t->config, &t->decoder, t->machine, &t->sampler, err))
        return -1;
    tide_gauge("arena", (int64_t)t->plan.total);
    tide_initial_weights(t->graph, t->machine, (uint64_t)t->options.seed);
    return load(t, err);
}

void tide_trainer_free(struct tide_trainer *t)
{
    if (!t)
        return;
    tide_sampler_free(t->sampler);
    tide_machine_free(t->machine);
    tide_device_free(t->device);
    tide_graph_free(t->graph);
    tide_data_free(t->data);
    free(t);
}

/* ---- steps */

/* Of step n, from 1. What goes down to an end is at a tenth there. */
static double rate_at(const struct tide_train_options *o, int64_t step)
{
    if (step <= o->warmup)
        return o->rate * (double)step / (double)o->warmup;
    double rest = (double)(o->steps - o->warmup);
    double gone = rest > 0 ? (double)(step - o->warmup) / rest : 1;
    gone = gone > 1 ? 1 : gone;
    if (!strcmp(o->schedule, "cosine"))
        return o->rate * (0.1 + 0.9 * 0.5 * (1 + cos(3.14159265358979323846 * gone)));
    if (!strcmp(o->schedule, "linear"))
        return o->rate * (1 - 0.9 * gone);
    if (!strcmp(o->schedule, "inverse") && step > HELD)
        return o->rate * fmax((double)HELD / (double)step, 0.1);
    return o->rate;
}

static int fill_batch(struct tide_trainer *t, int64_t number, bool held_out, struct tide_err *err)
{
    return tide_data_batch(t->data, (uint64_t)number, held_out, t->options.batch,
                           tide_machine_data(t->machine, t->gpt.tokens),
                           tide_machine_data(t->machine, t->gpt.targets), err);
}

static int stop_at(int64_t step, const char *what, struct tide_err *err)
{
    tide_err_set(err, "the %s of step %lld is not a finite number", what, (long long)step);
    return tide_err_hint(err, "try a lower --lr, a longer --warmup, or --clip");
}

int tide_trainer_step(struct tide_trainer *t, struct tide_train_report *ret_report, struct tide_err *err)
{
    const struct tide_train_options *o = &t->options;
    int64_t step = t->done + 1;
    struct tide_update_rule rule = {
        .step = {.rate = (float)rate_at(o, step),
                 .beta1 = 0.9F,
                 .beta2 = 0.95F,
                 .epsilon = 1e-8F,
                 .decay = (float)o->weight_decay,
                 .step = step,
                 .seed = (uint64_t)o->seed},
        .clip = (float)o->clip,
        .micro_batches = o->accumulate,
    };
    double loss = 0;
    tide_step(step);
    int64_t allocations = tide_allocations(), start = tide_clock_ns();
    for (int64_t i = 0; i < o->accumulate; i++) {
        if (fill_batch(t, t->done * o->accumulate + i, false, err))
            return tide_err_wrap(err, "step %lld", (long long)step);
        loss += (double)tide_machine_pass(t->machine, i, &rule);
        if (!isfinite(loss))
            return stop_at(step, "loss", err);
    }
    double norm = tide_machine_update(t->machine, &rule);
    if (t->tuning.most > 1)
        tide_threads_use(tide_tuning_step(&t->tuning, tide_clock_ns() - start));
    if (t->is_warm)
        TIDE_CHECK(tide_allocations(), ==, allocations);
    t->is_warm = true;
    if (o->clip > 0 && !isfinite(norm))
        return stop_at(step, "norm of the gradients", err);
    t->done = step;
    *ret_report = (struct tide_train_report){.step = step,
                                             .loss = loss / (double)o->accumulate,
                                             .norm = norm,
                                             .rate = (double)rule.step.rate,
                                             .tokens = o->batch * o->sequence * o->accumulate};
    return 0;
}

/* Phases between steps; nothing is allocated in them either. */
static int64_t begin_phase(const char *name)
{
    tide_phase_begin(name);
    return tide_allocations();
}

static void end_phase(const struct tide_trainer *t, const char *name, int64_t allocations)
{
    if (t->is_warm)
        TIDE_CHECK(tide_allocations(), ==, allocations);
    tide_phase_end(name);
}

int tide_trainer_evaluate(struct tide_trainer *t, int64_t batches, double *ret_loss, struct tide_err *err)
{
    double sum = 0;
    int bad = 0;
    int64_t allocations = begin_phase("evaluation");
    for (int64_t i = 0; !bad && i < batches; i++) {
        bad = fill_batch(t, i, true, err);
        if (bad)
            break;
        tide_machine_run(t->machine, t->gpt.evaluate);
        sum += (double)*(const float *)tide_machine_result(t->machine, t->gpt.evaluate, t->gpt.loss);
    }
    end_phase(t, "evaluation", allocations);
    if (!bad)
        *ret_loss = sum / (double)batches;
    return bad;
}

double tide_trainer_accuracy(struct tide_trainer *t, int64_t questions)
{
    int64_t allocations = begin_phase("sampling");
    double share = tide_sampler_accuracy(t->sampler, t->data, questions);
    end_phase(t, "sampling", allocations);
    return share;
}

static void show_tokens(const struct tide_trainer *t, const int32_t *tokens, int64_t count, char *out,
                        size_t size)
{
    size_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        char room[16];
        size_t len;
        const char *text = tide_data_text(t->data, tokens[i], room, &len);
        if (len >= size - used)
            break;
        memcpy(out + used, text, len);
        used += len;
    }
    out[used] = '\0';
}

int tide_trainer_sample(struct tide_trainer *t, char *out, size_t size, struct tide_err *err)
{
    int32_t tokens[PROMPT + SAMPLE];
    struct tide_sample_rule rule = {.temperature = 0.8, .top_p = 0.95, .seed = (uint64_t)t->done};
    int64_t allocations = begin_phase("sampling");
    int64_t prompt = t->options.sequence < PROMPT ? t->options.sequence : PROMPT;
    int bad = fill_batch(t, 0, true, err);
    if (!bad) {
        memcpy(tokens, tide_machine_data(t->machine, t->gpt.tokens), (size_t)prompt * sizeof *tokens);
        int64_t said = tide_sampler_tokens(t->sampler, tokens, prompt, &rule, -1, tokens + prompt, SAMPLE);
        show_tokens(t, tokens, prompt + said, out, size);
    }
    end_phase(t, "sampling", allocations);
    return bad;
}

/* ---- saving */

static bool weights_are_numbers(struct tide_trainer *t)
{
    for (int i = 0; i < t->graph->tensor_count; i++) {
        const struct tide_tensor *one = &t->graph->tensors[i];
        if (tide_tensor_trains(one) && !isfinite(tide_update_squares(tide_machine_data(t->machine, i),
                                                                     one->dtype, tide_tensor_count(one))))
            return false;
    }
    return true;
}

int tide_trainer_save(struct tide_trainer *t, struct tide_err *err)
{
    const struct tide_train_options *o = &t->options;
    struct tide_checkpoint_state state = {.step = t->done,
                                          .steps = o->steps,
                                          .seed = (uint64_t)o->seed,
                                          .batch = o->batch,
                                          .sequence = o->sequence,
                                          .accumulate = o->accumulate,
                                          .warmup = o->warmup,
                                          .rate = o->rate,
                                          .weight_decay = o->weight_decay,
                                          .clip = o->clip,
                                          .schedule = o->schedule,
                                          .dtype = o->dtype,
                                          .stored = o->stored,
                                          .optimizer = o->optimizer};
    TIDE_CHECK_TRUE(o->out);
    strcpy(state.base, t->base);
    if (!weights_are_numbers(t))
        return tide_err_set(err, "the weights after step %lld are not finite numbers; they are not saved",
                            (long long)t->done);
    tide_phase_begin("checkpoint");
    int status =
        tide_checkpoint_save(o->out, o->keep, t->graph, t->machine, &t->config, t->data, &state, err);
    tide_phase_end("checkpoint");
    return status;
}

/* ---- looking */

const struct tide_train_options *tide_trainer_options(const struct tide_trainer *t)
{
    return &t->options;
}

const struct tide_gpt_config *tide_trainer_config(const struct tide_trainer *t)
{
    return &t->config;
}

const struct tide_data *tide_trainer_data(const struct tide_trainer *t)
{
    return t->data;
}

const struct tide_graph *tide_trainer_graph(const struct tide_trainer *t)
{
    return t->graph;
}

const struct tide_plan *tide_trainer_layout(const struct tide_trainer *t)
{
    return &t->plan;
}

const struct tide_plan *tide_trainer_least(const struct tide_trainer *t)
{
    return &t->least;
}

struct tide_device *tide_trainer_device(const struct tide_trainer *t)
{
    return t->device;
}

struct tide_machine *tide_trainer_machine(const struct tide_trainer *t)
{
    return t->machine;
}

int64_t tide_trainer_done(const struct tide_trainer *t)
{
    return t->done;
}

const char *tide_trainer_resumed(const struct tide_trainer *t)
{
    return t->resumed[0] ? t->resumed : NULL;
}

int tide_trainer_threads(const struct tide_trainer *t)
{
    return t->tuning.most > 1 ? t->tuning.now : (int)t->options.threads;
}

const char *tide_trainer_passed_over(const struct tide_trainer *t)
{
    return t->passed_over[0] ? t->passed_over : NULL;
}
