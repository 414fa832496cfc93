#include "train/grpo.h"
#include "base/clock.h"
#include "base/text.h"
#include "tidemark.h"
#include "train/config.h"
#include "train/prompts.h"
#include "train/rewards.h"
#include "train/rollout.h"
#include "train/streamed.h"
#include "train/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUMS_PROMPTS = 64, SUMS_NEW_TOKENS = 4, SUMS_SEQUENCE = 20, USUAL_NEW_TOKENS = 256 };
enum { SOME_QUESTIONS = 100, MANY_QUESTIONS = 500, QUESTION = 8 };
enum { MICRO_BATCH_TOKENS = 1536 }; /* of a pass, where nothing was said */

#define OF(field) offsetof(struct tide_grpo_settings, field)

const struct tide_setting tide_grpo_settings[] = {
    {"prompts", TIDE_SETTING_COUNT, OF(prompts), 1, INT32_MAX, NULL, false},
    {"group", TIDE_SETTING_COUNT, OF(group), 2, INT32_MAX, NULL, false},
    {"new_tokens", TIDE_SETTING_COUNT, OF(new_tokens), 1, INT32_MAX, NULL, false},
    {"epochs", TIDE_SETTING_COUNT, OF(epochs), 1, INT32_MAX, NULL, false},
    {"micro_batch", TIDE_SETTING_COUNT, OF(micro_batch), 1, INT32_MAX, NULL, false},
    {"top_k", TIDE_SETTING_COUNT, OF(top_k), 0, INT32_MAX, NULL, false},
    {"temperature", TIDE_SETTING_REAL, OF(temperature), 0, 0, NULL, false},
    {"top_p", TIDE_SETTING_REAL, OF(top_p), 0, 0, NULL, false},
    {"epsilon", TIDE_SETTING_REAL, OF(epsilon), 0, 0, NULL, false},
    {"epsilon_high", TIDE_SETTING_REAL, OF(epsilon_high), 0, 0, NULL, false},
    {"beta", TIDE_SETTING_REAL, OF(beta), 0, 0, NULL, false},
    {"loss", TIDE_SETTING_CHOICE, OF(loss), 0, 0, tide_policy_kinds, false},
    {"scale_rewards", TIDE_SETTING_CHOICE, OF(scale_rewards), 0, 0, tide_policy_scales, false},
    {"reference", TIDE_SETTING_PATH, OF(reference), 0, 0, NULL, false},
    {0},
};

const struct tide_grpo_settings tide_grpo_settings_not_given = {
    .prompts = TIDE_NOT_GIVEN,
    .group = TIDE_NOT_GIVEN,
    .new_tokens = TIDE_NOT_GIVEN,
    .epochs = TIDE_NOT_GIVEN,
    .micro_batch = TIDE_NOT_GIVEN,
    .top_k = TIDE_NOT_GIVEN,
    .temperature = TIDE_NOT_GIVEN,
    .top_p = TIDE_NOT_GIVEN,
    .epsilon = TIDE_NOT_GIVEN,
    .epsilon_high = TIDE_NOT_GIVEN,
    .beta = TIDE_NOT_GIVEN,
};

enum {
    LOSS,
    REWARD,
    SPREAD,
    KL,
    CLIPPED,
    LENGTH,
    ENDED,
    EQUAL,
    ROLLOUT_SPEED,
    UPDATE_SPEED,
    RATE,
    NORM,
    EXACT,
    NUMBERS
};

struct grpo {
    struct tide_task task;
    struct tide_grpo_options options; /* settings are settled */
    struct tide_task_number numbers[NUMBERS];
    struct tide_language language;
    struct tide_policy_rule rule;
    struct tide_sample_rule sampling;
    int32_t end;            /* -1: none */
    struct tide_data *sums; /* NULL: prompts are a file's */
    struct tide_prompts *prompts;
    struct tide_rewarder *rewarder;
    struct tide_streamed *streamed; /* NULL: there is no reference, or it is the model without adapters */
    int reference_fd;               /* of one without a name; -1: none */
    int64_t sequences, prompt_most; /* of a step; tokens of the longest prompt */
    struct tide_gpt_policy policy;
    struct tide_gpt_decoder decoder;
    struct tide_rollout *rollout;
    /* Of a step. */
    struct tide_rollout_prompt *asked;  /* prompts */
    struct tide_policy_sequence *made;  /* sequences */
    struct tide_completion_text *texts; /* of a group */
    int32_t *tokens, *prompt_tokens;    /* of all sequences, sequence + 1 each; of all prompts */
    float *logs;                        /* old and reference log-probabilities */
    double *rewards;
    float *advantages, *group_rewards;
    char *text; /* of a group */
    size_t text_most;
    int64_t shown; /* step whose first completion is in `sample`; 0: none */
    char sample[512];
};

/* ---- settling */

/* What the model is from: what is resumed, or the model to begin with. */
static int find_model(struct grpo *g, const char *resumed, char *ret_path, struct tide_err *err)
{
    char shown[256];
    const char *model = g->options.model;
    ret_path[0] = '\0';
    if (resumed) {
        strcpy(ret_path, resumed);
        return 0;
    }
    if (!model)
        return 0;
    int status = tide_checkpoint_find(model, ret_path, TIDE_LANGUAGE_PATH, err);
    if (status > 0)
        return tide_err_set(err, "there is no model in '%s'",
                            tide_text_escape(model, strlen(model), shown, sizeof shown));
    return status;
}

static int refuse_symbols(struct tide_err *err)
{
    tide_err_set(err, "a new model has no vocabulary for these prompts");
    return tide_err_hint(err, "name a model with --model DIR, or a tokenizer with --tokenizer DIR");
}

/* The model's own; of a new model the tokenizer's, or that of sums. */
static int open_vocabulary(struct grpo *g, const char *from, uint64_t seed, struct tide_err *err)
{
    const struct tide_grpo_options *o = &g->options;
    struct tide_gpt_config *config = &g->language.config;
    struct tide_data_source source = {
        .seed = seed, .sequence = SUMS_SEQUENCE, .vocabulary = config->vocabulary};
    if (!o->prompts && tide_data_open(&source, &g->sums, err))
        return -1;
    if (from[0])
        return tide_vocabulary_new(from, config->vocabulary, &g->language.vocabulary, err);
    if (!o->prompts) {
        config->vocabulary = config->vocabulary ? config->vocabulary : tide_data_vocabulary(g->sums);
        return tide_vocabulary_of_data(g->sums, &g->language.vocabulary, err);
    }
    if (!o->tokenizer)
        return refuse_symbols(err);
    if (tide_vocabulary_named(o->tokenizer, config->vocabulary, &g->language.vocabulary, err))
        return -1;
    if (!config->vocabulary)
        config->vocabulary = tide_tokenizer_size(tide_vocabulary_pairs(g->language.vocabulary));
    return 0;
}

/* Sums need a model whose symbols are theirs. */
static int check_sums(const struct grpo *g, struct tide_err *err)
{
    char prompt[QUESTION + 1];
    int32_t tokens[QUESTION + 1];
    struct tide_err why = {0};
    if (!g->sums)
        return 0;
    tide_data_question(g->sums, 0, true, prompt, sizeof prompt);
    if (tide_vocabulary_kind(g->language.vocabulary) == TIDE_VOCABULARY_BYTES &&
        tide_vocabulary_tokens(g->language.vocabulary, prompt, tokens, &why) > 0)
        return 0;
    tide_err_set(err, "the model does not know the symbols of sums");
    return tide_err_hint(err, "name what it is to be asked: --prompts FILE --reward COMMAND");
}

static int settle_end(struct grpo *g, struct tide_err *err)
{
    const struct tide_vocabulary *v = g->language.vocabulary;
    const char *stop = g->options.stop;
    int32_t tokens[64];
    char shown[64];
    g->end = tide_vocabulary_end(v);
    if (!stop && g->end < 0 && tide_vocabulary_kind(v) == TIDE_VOCABULARY_BYTES)
        g->end = tide_vocabulary_begin(v); /* a line's end */
    if (!stop)
        return 0;
    if (tide_vocabulary_most(v, stop) > sizeof tokens / sizeof *tokens ||
        tide_vocabulary_tokens(v, stop, tokens, err) != 1)
        return tide_err_set(err, "--stop '%s' is not one token of the model",
                            tide_text_escape(stop, strlen(stop), shown, sizeof shown));
    g->end = tokens[0];
    return 0;
}

/* The longest prompt in tokens; each is looked at. */
static int measure_prompts(struct grpo *g, struct tide_err *err)
{
    const struct tide_vocabulary *v = g->language.vocabulary;
    int64_t positions = g->language.config.positions, new_tokens = g->options.settings.new_tokens;
    int32_t *room = NULL;
    size_t size = 0;
    int status = 0;
    for (int64_t i = 0; !status && i < tide_prompts_count(g->prompts); i++) {
        struct tide_prompt p = {0};
        status = tide_prompts_read_in_order(g->prompts, i, &p, err);
        size_t most = status ? 0 : tide_vocabulary_most(v, p.text);
        if (most > size) {
            free(room);
            size = most;
            room = malloc(size * sizeof *room);
            status = room ? 0 : tide_err_set(err, "out of memory for the prompts");
        }
        int64_t count = status ? 0 : tide_vocabulary_tokens(v, p.text, room, err);
        if (!status && count + new_tokens > positions) {
            tide_err_set(err, "its %lld tokens and %lld new ones are more than the model's %lld positions",
                         (long long)count, (long long)new_tokens, (long long)positions);
            count = -1;
        }
        if (count < 0)
            status = tide_prompts_wrap(g->prompts, p.line, err);
        g->prompt_most = count > g->prompt_most ? count : g->prompt_most;
    }
    free(room);
    return status;
}

static int open_prompts(struct grpo *g, uint64_t seed, struct tide_err *err)
{
    const struct tide_grpo_options *o = &g->options;
    if (o->prompts && !o->reward) {
        tide_err_set(err, "--prompts needs somebody who rewards the answers");
        return tide_err_hint(err, "name a command: --reward 'python3 reward.py'");
    }
    if (o->prompts ? tide_prompts_open(o->prompts, seed, &g->prompts, err)
                   : tide_prompts_sums(g->sums, &g->prompts, err))
        return -1;
    return measure_prompts(g, err);
}

static int find_name(const char *const *names, const char *name)
{
    int i = 0;
    while (strcmp(names[i], name) != 0)
        i++;
    return i;
}

static int settle_rule(struct grpo *g, uint64_t seed, struct tide_err *err)
{
    struct tide_grpo_settings *s = &g->options.settings;
    const struct tide_policy_rule *usual = &tide_policy_default;
    int64_t positions = g->language.config.positions;
    tide_setting_usual(&s->prompts, g->options.prompts ? 1 : SUMS_PROMPTS);
    tide_setting_usual(&s->group, usual->group);
    tide_setting_usual(&s->epochs, usual->epochs);
    tide_setting_usual(&s->top_k, 0);
    tide_setting_usual(&s->new_tokens, !g->options.prompts                ? SUMS_NEW_TOKENS
                                       : positions < 2 * USUAL_NEW_TOKENS ? positions / 2
                                                                          : USUAL_NEW_TOKENS);
    tide_setting_usual_real(&s->temperature, usual->temperature);
    tide_setting_usual_real(&s->top_p, 1);
    tide_setting_usual_real(&s->epsilon, usual->epsilon);
    tide_setting_usual_real(&s->epsilon_high, s->epsilon);
    tide_setting_usual_real(&s->beta, usual->beta);
    s->loss = s->loss ? s->loss : tide_policy_kinds[usual->kind];
    s->scale_rewards = s->scale_rewards ? s->scale_rewards : tide_policy_scales[usual->scale_rewards];
    g->rule = (struct tide_policy_rule){
        .kind = (enum tide_policy_kind)find_name(tide_policy_kinds, s->loss),
        .scale_rewards = (enum tide_policy_scale)find_name(tide_policy_scales, s->scale_rewards),
        .group = s->group,
        .new_tokens = s->new_tokens,
        .epochs = s->epochs,
        .temperature = s->temperature,
        .epsilon = s->epsilon,
        .epsilon_high = s->epsilon_high,
        .beta = s->beta,
    };
    g->sampling = (struct tide_sample_rule){
        .temperature = s->temperature, .top_k = s->top_k, .top_p = s->top_p, .seed = seed};
    if (s->group > INT32_MAX / s->prompts)
        return tide_err_set(err, "%lld prompts of %lld completions are too many", (long long)s->prompts,
                            (long long)s->group);
    g->sequences = s->prompts * s->group;
    return tide_policy_rule_check(&g->rule, err) || tide_sample_rule_check(&g->sampling, err) ? -1 : 0;
}

/* How sequences are divided, which are as long as the longest may become. */
static void settle_sizes(struct grpo *g)
{
    struct tide_grpo_settings *s = &g->options.settings;
    struct tide_task *task = &g->task;
    task->sequence = g->prompt_most + s->new_tokens - 1;
    int64_t usual = MICRO_BATCH_TOKENS / task->sequence;
    tide_setting_usual(&s->micro_batch, usual < 1 ? 1 : usual);
    if (s->micro_batch > g->sequences)
        s->micro_batch = g->sequences;
    task->batch = s->micro_batch;
    task->passes = (g->sequences + s->micro_batch - 1) / s->micro_batch;
    task->blocks = g->language.config.blocks;
    task->vocabulary = g->language.config.vocabulary;
    task->model = g->options.language.preset ? g->options.language.preset : "model";
}

static int settle(struct tide_task *task, const char *resumed, struct tide_train_settings *train,
                  struct tide_err *err)
{
    struct grpo *g = (struct grpo *)task;
    struct tide_gpt_config *config = &g->language.config;
    char from[TIDE_LANGUAGE_PATH];
    if (g->options.model && g->options.language.preset)
        return tide_err_set(err, "--model and --preset cannot be used together");
    if (find_model(g, resumed, from, err) ||
        tide_language_settle(&g->language, &g->options.language, from[0] ? from : NULL, train->stored, err) ||
        open_vocabulary(g, from, (uint64_t)train->seed, err) || tide_config_check(config, err) ||
        check_sums(g, err) || settle_end(g, err) || settle_rule(g, (uint64_t)train->seed, err) ||
        open_prompts(g, (uint64_t)train->seed, err))
        return -1;
    settle_sizes(g);
    tide_setting_usual_real(&train->rate, 0.0128 / (double)config->channels);
    tide_setting_usual_real(&train->weight_decay, 0);
    tide_setting_usual(&train->warmup, 0);
    train->schedule = train->schedule ? train->schedule : "constant";
    return 0;
}

static int build(struct tide_task *task, struct tide_graph *graph, struct tide_err *err)
{
    struct grpo *g = (struct grpo *)task;
    const struct tide_gpt_config *config = &g->language.config;
    if (tide_gpt_build_policy(graph, config, task->batch, task->sequence, &g->rule, &g->policy, err))
        return -1;
    return tide_gpt_build_decoder(graph, config, task->batch, task->sequence + 1, &g->decoder, err);
}

static int suggest(struct tide_task *task, const struct tide_trainer *trainer, struct tide_err *err)
{
    int64_t fits = tide_trainer_most_that_fits(trainer, &task->batch);
    return fits ? tide_err_hint(err, "--micro-batch %lld would fit", (long long)fits) : 0;
}

/* ---- starting */

static size_t longest_text(const struct grpo *g)
{
    size_t longest = 1;
    for (int32_t token = 0; token < g->language.config.vocabulary; token++) {
        char room[16];
        size_t len;
        tide_vocabulary_text(g->language.vocabulary, token, room, &len);
        longest = len > longest ? len : longest;
    }
    return longest;
}

/* All that steps need beside the arena. Pages are touched now. */
static int take_room(struct grpo *g, struct tide_err *err)
{
    const struct tide_grpo_settings *s = &g->options.settings;
    size_t sequences = (size_t)g->sequences, length = (size_t)g->task.sequence + 1;
    size_t logs = (g->rule.epochs > 1 ? 1 : 0) + (g->rule.beta > 0 ? 1 : 0);
    g->text_most = (size_t)s->group * (size_t)s->new_tokens * longest_text(g) + 1;
    g->asked = calloc((size_t)s->prompts, sizeof *g->asked);
    g->made = calloc(sequences, sizeof *g->made);
    g->texts = calloc((size_t)s->group, sizeof *g->texts);
    g->tokens = calloc(sequences * length, sizeof *g->tokens);
    g->prompt_tokens = calloc((size_t)s->prompts * (size_t)g->prompt_most, sizeof *g->prompt_tokens);
    g->logs = calloc(logs ? logs * sequences * (size_t)s->new_tokens : 1, sizeof *g->logs);
    g->rewards = calloc(sequences, sizeof *g->rewards);
    g->advantages = calloc(sequences, sizeof *g->advantages);
    g->group_rewards = calloc((size_t)s->group, sizeof *g->group_rewards);
    g->text = malloc(g->text_most);
    if (!g->asked || !g->made || !g->texts || !g->tokens || !g->prompt_tokens || !g->logs || !g->rewards ||
        !g->advantages || !g->group_rewards || !g->text)
        return tide_err_set(err, "out of memory for a step's sequences");
    memset(g->text, 'x', g->text_most);
    memset(g->tokens, 1, sequences * length * sizeof *g->tokens);
    return 0;
}

static int open_rewarder(struct grpo *g, struct tide_err *err)
{
    const struct tide_grpo_options *o = &g->options;
    struct tide_reward_command how = {
        .command = o->reward, .timeout_ms = o->reward_timeout_ms, .most = o->settings.group, .say = o->say};
    return o->reward ? tide_rewarder_command(&how, &g->rewarder, err) : tide_rewarder_sums(&g->rewarder, err);
}

/* The weights that the run begins with, as a file: that of the model, or one that is written now. */
static int keep_reference(struct grpo *g, const struct tide_graph *graph, struct tide_machine *machine,
                          struct tide_err *err)
{
    char *path = g->options.settings.reference;
    char place[TIDE_LANGUAGE_PATH];
    if (path[0])
        return 0;
    if (g->language.from[0]) {
        if (snprintf(place, sizeof place, "%s/model.safetensors", g->language.from) >= (int)sizeof place)
            return tide_err_set(err, "the path of the model is too long");
        if (!realpath(place, path) && snprintf(path, sizeof g->options.settings.reference, "%s", place) < 0)
            return -1;
        return 0;
    }
    return tide_checkpoint_keep(g->options.out, "reference.safetensors", graph, machine, path,
                                sizeof g->options.settings.reference, &g->reference_fd, err);
}

static int open_reference(struct grpo *g, const struct tide_graph *graph, struct tide_machine *machine,
                          struct tide_err *err)
{
    if (g->rule.beta <= 0 || g->language.config.adapter_rank)
        return 0;
    if (keep_reference(g, graph, machine, err) ||
        tide_streamed_open(graph, TIDE_GPT_REFERENCE, g->options.settings.reference, &g->streamed, err))
        return tide_err_wrap(err, "the reference of the KL term");
    tide_machine_source(machine, tide_streamed_read, g->streamed);
    return 0;
}

static int start(struct tide_task *task, struct tide_trainer *trainer, struct tide_err *err)
{
    struct grpo *g = (struct grpo *)task;
    const struct tide_language *l = &g->language;
    const struct tide_graph *graph = tide_trainer_graph(trainer);
    struct tide_machine *machine = tide_trainer_machine(trainer);
    uint64_t seed = (uint64_t)tide_trainer_options(trainer)->settings.seed;
    bool loads = l->from[0] && !l->base[0] && !tide_trainer_resumed(trainer);
    if (open_rewarder(g, err) || take_room(g, err) ||
        tide_rollout_new(&l->config, &g->decoder, machine, g->sequences, g->options.settings.new_tokens,
                         &g->rollout, err) ||
        tide_language_start(l, graph, machine, seed, err) ||
        (loads && tide_checkpoint_load(l->from, graph, machine, false, err)))
        return -1;
    return open_reference(g, graph, machine, err);
}

static void free_grpo(struct tide_task *task)
{
    struct grpo *g = (struct grpo *)task;
    tide_rollout_free(g->rollout);
    tide_streamed_close(g->streamed);
    tide_rewarder_free(g->rewarder);
    tide_prompts_free(g->prompts);
    tide_vocabulary_free(g->language.vocabulary);
    tide_data_free(g->sums);
    if (g->reference_fd >= 0)
        close(g->reference_fd);
    free(g->asked);
    free(g->made);
    free(g->texts);
    free(g->tokens);
    free(g->prompt_tokens);
    free(g->logs);
    free(g->rewards);
    free(g->advantages);
    free(g->group_rewards);
    free(g->text);
    free(g);
}

/* ---- a step */

/* The prompts of a step as tokens. */
static int read_prompts(struct grpo *g, int64_t step, struct tide_err *err)
{
    int64_t prompts = g->options.settings.prompts;
    for (int64_t i = 0; i < prompts; i++) {
        struct tide_prompt p;
        int32_t *to = g->prompt_tokens + i * g->prompt_most;
        if (tide_prompts_read(g->prompts, (uint64_t)((step - 1) * prompts + i), &p, err))
            return -1;
        g->asked[i].tokens = to;
        g->asked[i].count = tide_vocabulary_tokens(g->language.vocabulary, p.text, to, err);
        if (g->asked[i].count < 0)
            return tide_prompts_wrap(g->prompts, p.line, err);
    }
    return 0;
}

static int roll_out(struct grpo *g, const struct tide_rollout_request *request, struct tide_err *err)
{
    int more = tide_rollout_start(g->rollout, request, err) ? -1 : 1;
    while (more > 0)
        more = tide_rollout_next(g->rollout, err);
    return more;
}

/* Completions, from where they are read as text and as sequences of the update. */
static void take_sequences(struct grpo *g)
{
    int64_t length = g->task.sequence + 1, new_tokens = g->rule.new_tokens;
    float *reference = g->logs + (g->rule.epochs > 1 ? g->sequences * new_tokens : 0);
    int64_t tokens = 0, ended = 0;
    for (int64_t i = 0; i < g->sequences; i++) {
        struct tide_completion made = tide_rollout_completion(g->rollout, i);
        const struct tide_rollout_prompt *prompt = &g->asked[i / g->rule.group];
        int32_t *to = g->tokens + i * length;
        memcpy(to, prompt->tokens, (size_t)prompt->count * sizeof *to);
        memcpy(to + prompt->count, made.tokens, (size_t)made.count * sizeof *to);
        g->made[i] = (struct tide_policy_sequence){
            .tokens = to,
            .prompt = prompt->count,
            .completion = made.count,
            .old_log = g->rule.epochs > 1 ? g->logs + i * new_tokens : NULL,
            .reference_log = g->rule.beta > 0 ? reference + i * new_tokens : NULL};
        tokens += made.count;
        ended += made.ended;
    }
    g->numbers[LENGTH].value = (double)tokens / (double)g->sequences;
    g->numbers[ENDED].value = (double)ended / (double)g->sequences;
}

/* The text of a completion, without the token that ended it, at the end of `text`. Returns its end. */
static size_t put_text(struct grpo *g, int64_t sequence, size_t at, struct tide_completion_text *ret_text)
{
    struct tide_completion made = tide_rollout_completion(g->rollout, sequence);
    size_t begin = at;
    for (int64_t i = 0; i < made.count - made.ended; i++) {
        char room[16];
        size_t len;
        const char *text = tide_vocabulary_text(g->language.vocabulary, made.tokens[i], room, &len);
        memcpy(g->text + at, text, len);
        at += len;
    }
    *ret_text = (struct tide_completion_text){.bytes = g->text + begin, .len = at - begin};
    return at;
}

static int ask(struct grpo *g, int64_t step, struct tide_err *err)
{
    int64_t prompts = g->options.settings.prompts, group = g->rule.group;
    for (int64_t i = 0; i < prompts; i++) {
        struct tide_prompt p;
        size_t at = 0;
        for (int64_t k = 0; k < group; k++)
            at = put_text(g, i * group + k, at, &g->texts[k]);
        if (tide_prompts_read(g->prompts, (uint64_t)((step - 1) * prompts + i), &p, err) ||
            tide_rewarder_ask(g->rewarder, &p, g->texts, group, g->group_rewards, err))
            return -1;
        for (int64_t k = 0; k < group; k++)
            g->rewards[i * group + k] = (double)g->group_rewards[k];
        if (i == 0) {
            snprintf(g->sample, sizeof g->sample, "%s%.*s", p.text, (int)g->texts[0].len, g->texts[0].bytes);
            g->shown = step;
        }
    }
    return 0;
}

/* Sequences of a micro-batch. */
static int64_t count_of(const struct grpo *g, int64_t micro_batch)
{
    int64_t left = g->sequences - micro_batch * g->task.batch;
    return left < g->task.batch ? left : g->task.batch;
}

static int refer(struct grpo *g, struct tide_machine *machine, struct tide_err *err)
{
    struct tide_policy_batch batch = tide_gpt_policy_batch(&g->policy, machine);
    for (int64_t i = 0; i < g->task.passes; i++) {
        const struct tide_policy_sequence *some = g->made + i * g->task.batch;
        int64_t count = count_of(g, i);
        tide_policy_fill(&batch, &g->rule, some, count, 0);
        if (tide_machine_run(machine, g->policy.reference)) {
            tide_streamed_failed(g->streamed, err);
            return tide_err_wrap(err, "the reference of the KL term");
        }
        tide_policy_take_reference(
            some, count, tide_machine_result(machine, g->policy.reference, g->policy.reference_log));
    }
    return 0;
}

static int update(struct grpo *g, struct tide_machine *machine, struct tide_update_rule *rule, int64_t epoch,
                  struct tide_policy_sums *sums, struct tide_task_step *ret_step, struct tide_err *err)
{
    struct tide_policy_batch batch = tide_gpt_policy_batch(&g->policy, machine);
    double loss = 0;
    for (int64_t i = 0; i < g->task.passes; i++) {
        const struct tide_policy_sequence *some = g->made + i * g->task.batch;
        int64_t count = count_of(g, i);
        tide_policy_fill(&batch, &g->rule, some, count, epoch);
        loss += (double)tide_machine_pass(machine, i, rule);
        if (!isfinite(loss))
            return tide_trainer_stop_at((rule->step.step - 1) / g->rule.epochs + 1, "loss", err);
        const float *logs = tide_machine_result(machine, g->policy.gpt.train, g->policy.log_probabilities);
        tide_policy_count(&batch, logs, sums);
        if (epoch == 0 && g->rule.epochs > 1)
            tide_policy_take_old(some, count, logs);
    }
    ret_step->loss = loss / (double)g->task.passes;
    ret_step->norm = tide_machine_update(machine, rule);
    return 0;
}

static int learn(struct grpo *g, struct tide_machine *machine, struct tide_update_rule *rule,
                 struct tide_task_step *ret_step, struct tide_err *err)
{
    struct tide_policy_rewards rewards;
    struct tide_policy_sums sums = {0};
    int64_t step = rule->step.step;
    tide_policy_advantages(&g->rule, g->rewards, g->options.settings.prompts, g->advantages, &rewards);
    for (int64_t i = 0; i < g->sequences; i++)
        g->made[i].advantage = g->advantages[i];
    tide_policy_weigh(&g->rule, g->made, g->sequences, g->task.batch);
    if (g->policy.reference >= 0) {
        tide_phase_begin("reference");
        int bad = refer(g, machine, err);
        tide_phase_end("reference");
        if (bad)
            return -1;
    }
    tide_phase_begin("update");
    int bad = 0;
    for (int64_t epoch = 0; !bad && epoch < g->rule.epochs; epoch++) {
        rule->step.step = (step - 1) * g->rule.epochs + epoch + 1;
        bad = update(g, machine, rule, epoch, &sums, ret_step, err);
    }
    tide_phase_end("update");
    rule->step.step = step;
    double tokens = sums.tokens > 0 ? (double)sums.tokens : 1;
    g->numbers[REWARD].value = rewards.mean;
    g->numbers[SPREAD].value = rewards.spread;
    g->numbers[EQUAL].value = rewards.equal_share;
    g->numbers[KL].value = g->rule.beta > 0 ? sums.kl / tokens : NAN;
    g->numbers[CLIPPED].value = (sums.clipped_low + sums.clipped_high) / tokens;
    return bad;
}

static double speed(int64_t tokens, int64_t from_ns)
{
    double seconds = (double)(tide_clock_ns() - from_ns) / TIDE_NS_PER_S;
    return seconds > 0 ? (double)tokens / seconds : NAN;
}

static int step(struct tide_task *task, struct tide_trainer *trainer, struct tide_update_rule *rule,
                struct tide_task_step *ret_step, struct tide_err *err)
{
    struct grpo *g = (struct grpo *)task;
    struct tide_machine *machine = tide_trainer_machine(trainer);
    int64_t number = rule->step.step, began = tide_clock_ns();
    struct tide_rollout_request request = {.prompts = g->asked,
                                           .prompt_count = g->options.settings.prompts,
                                           .group = g->rule.group,
                                           .new_tokens = g->rule.new_tokens,
                                           .end = g->end,
                                           .rule = g->sampling,
                                           .step = (uint64_t)number};
    rule->step.beta2 = 0.999F; /* as TRL has it */
    tide_phase_begin("rollout");
    int bad = read_prompts(g, number, err) || roll_out(g, &request, err);
    tide_phase_end("rollout");
    if (bad)
        return tide_err_wrap(err, "step %lld", (long long)number);
    int64_t made = tide_rollout_made(g->rollout);
    g->numbers[ROLLOUT_SPEED].value = speed(made, began);
    take_sequences(g);
    tide_phase_begin("reward");
    bad = ask(g, number, err);
    tide_phase_end("reward");
    if (bad)
        return tide_err_wrap(err, "step %lld", (long long)number);
    began = tide_clock_ns();
    if (learn(g, machine, rule, ret_step, err))
        return -1;
    ret_step->tokens = made;
    g->numbers[UPDATE_SPEED].value = speed(made, began);
    g->numbers[LOSS].value = ret_step->loss;
    g->numbers[RATE].value = (double)rule->step.rate;
    g->numbers[NORM].value = ret_step->norm;
    return 0;
}

/* ---- between steps */

/* Of sums: the share of held-out ones that are answered exactly, greedily. */
static int evaluate(struct tide_task *task, struct tide_trainer *trainer, bool last, struct tide_err *err)
{
    struct grpo *g = (struct grpo *)task;
    int64_t right = 0, questions = last ? MANY_QUESTIONS : SOME_QUESTIONS,
            prompts = g->options.settings.prompts;
    (void)trainer;
    if (!g->sums)
        return 0;
    struct tide_rollout_request request = {.prompts = g->asked,
                                           .group = 1,
                                           .new_tokens = g->rule.new_tokens,
                                           .end = g->end,
                                           .rule = {.top_p = 1}};
    for (int64_t first = 0; first < questions; first += prompts) {
        char question[QUESTION + 1];
        request.prompt_count = questions - first < prompts ? questions - first : prompts;
        for (int64_t i = 0; i < request.prompt_count; i++) {
            int32_t *to = g->prompt_tokens + i * g->prompt_most;
            tide_data_question(g->sums, (uint64_t)(first + i), true, question, sizeof question);
            g->asked[i].tokens = to;
            g->asked[i].count = tide_vocabulary_tokens(g->language.vocabulary, question, to, err);
        }
        if (roll_out(g, &request, err))
            return -1;
        for (int64_t i = 0; i < request.prompt_count; i++) {
            struct tide_completion_text text;
            g->text[put_text(g, i, 0, &text)] = '\0';
            tide_data_question(g->sums, (uint64_t)(first + i), true, question, sizeof question);
            right += tide_data_is_right(question, text.bytes);
        }
    }
    g->numbers[EXACT].value = (double)right / (double)questions;
    return 0;
}

/* The first completion of the step that was made last. */
static int sample(struct tide_task *task, struct tide_trainer *trainer, char *out, size_t size,
                  struct tide_err *err)
{
    struct grpo *g = (struct grpo *)task;
    (void)trainer;
    (void)err;
    snprintf(out, size, "%s", g->shown ? g->sample : "");
    return 0;
}

static bool write_file(struct tide_task *task, const char *name, struct tide_durable *file)
{
    return tide_language_write(&((struct grpo *)task)->language, name, file);
}

static void describe(const struct tide_task *task, const struct tide_trainer *trainer, FILE *out)
{
    const struct grpo *g = (const struct grpo *)task;
    const struct tide_grpo_settings *s = &g->options.settings;
    const struct tide_tokenizer *tokenizer = tide_vocabulary_pairs(g->language.vocabulary);
    tide_language_describe(&g->language, trainer, tokenizer ? tide_tokenizer_source(tokenizer) : NULL, out);
    fprintf(
        out,
        "prompts  %lld%s, the longest of %lld tokens; %lld a step, %lld completions of at most %lld tokens each\n",
        (long long)tide_prompts_count(g->prompts), g->sums ? " sums made up here" : "",
        (long long)g->prompt_most, (long long)s->prompts, (long long)s->group, (long long)s->new_tokens);
    fprintf(out, "update   loss %s, advantages by %s", s->loss, s->scale_rewards);
    if (s->beta > 0)
        fprintf(out, ", beta %g to %s", s->beta,
                g->language.config.adapter_rank ? "the model without adapters" : "the first weights");
    fprintf(out, "; %lld sequences a pass%s\n", (long long)s->micro_batch,
            s->epochs > 1 ? ", several inner epochs" : "");
}

static const struct tide_task_kind kind = {
    .name = "grpo",
    .schema = "tidemark.grpo/1",
    .rate = "tokens_per_second",
    .rate_label = "tok/s",
    .settle = settle,
    .build = build,
    .suggest = suggest,
    .start = start,
    .step = step,
    .evaluate = evaluate,
    .sample = sample,
    .write = write_file,
    .describe = describe,
    .free = free_grpo,
};

struct tide_task *tide_grpo_new(const struct tide_grpo_options *options)
{
    static const struct tide_task_number numbers[NUMBERS] = {
        [LOSS] = {"loss", "loss", false, NAN},
        [REWARD] = {"reward_mean", "reward", false, NAN},
        [SPREAD] = {"reward_std", "spread", false, NAN},
        [KL] = {"kl", "kl", false, NAN},
        [CLIPPED] = {"clip_share", "clipped", true, NAN},
        [LENGTH] = {"completion_tokens", "length", false, NAN},
        [ENDED] = {"ended_share", NULL, false, NAN},
        [EQUAL] = {"equal_rewards_share", NULL, false, NAN},
        [ROLLOUT_SPEED] = {"rollout_tokens_per_second", "rollout/s", false, NAN},
        [UPDATE_SPEED] = {"update_tokens_per_second", "update/s", false, NAN},
        [RATE] = {"learning_rate", NULL, false, NAN},
        [NORM] = {"gradient_norm", NULL, false, NAN},
        [EXACT] = {"accuracy", "exact", true, NAN},
    };
    struct grpo *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->options = *options;
    g->reference_fd = -1;
    memcpy(g->numbers, numbers, sizeof numbers);
    g->task = (struct tide_task){
        .kind = &kind, .settings = &g->options.settings, .numbers = g->numbers, .number_count = NUMBERS};
    return &g->task;
}
