/*
 * grpo_settle.c - from the options of `train grpo` to a task that can be built: model, vocabulary, prompts
 * and the rule of the update.
 */
#include "train/grpo_private.h"
#include "base/text.h"
#include "train/config.h"

#include <stdlib.h>
#include <string.h>

enum { SUMS_PROMPTS = 64, SUMS_NEW_TOKENS = 4, SUMS_SEQUENCE = 20, USUAL_NEW_TOKENS = 256 };
enum { MICRO_BATCH_TOKENS = 1536 }; /* per pass, by default */

#define OF(field) offsetof(struct tide_grpo_settings, field)

const struct tide_setting tide_grpo_settings[] = {
    {"prompts", TIDE_SETTING_COUNT, OF(prompts), 1, INT32_MAX, NULL, false},
    {"group", TIDE_SETTING_COUNT, OF(rule.group), 2, INT32_MAX, NULL, false},
    {"new_tokens", TIDE_SETTING_COUNT, OF(rule.new_tokens), 1, INT32_MAX, NULL, false},
    {"epochs", TIDE_SETTING_COUNT, OF(rule.epochs), 1, INT32_MAX, NULL, false},
    {"micro_batch", TIDE_SETTING_COUNT, OF(micro_batch), 1, INT32_MAX, NULL, false},
    {"top_k", TIDE_SETTING_COUNT, OF(top_k), 0, INT32_MAX, NULL, false},
    {"temperature", TIDE_SETTING_REAL, OF(rule.temperature), 0, 0, NULL, false},
    {"top_p", TIDE_SETTING_REAL, OF(top_p), 0, 0, NULL, false},
    {"epsilon", TIDE_SETTING_REAL, OF(rule.epsilon), 0, 0, NULL, false},
    {"epsilon_high", TIDE_SETTING_REAL, OF(rule.epsilon_high), 0, 0, NULL, false},
    {"beta", TIDE_SETTING_REAL, OF(rule.beta), 0, 0, NULL, false},
    {"loss", TIDE_SETTING_CHOICE, OF(loss), 0, 0, tide_policy_kinds, false},
    {"scale_rewards", TIDE_SETTING_CHOICE, OF(scale_rewards), 0, 0, tide_policy_scales, false},
    {"kl", TIDE_SETTING_CHOICE, OF(kl), 0, 0, tide_policy_kls, true},
    {"reference", TIDE_SETTING_PATH, OF(reference), 0, 0, NULL, false},
    {"reference_sum", TIDE_SETTING_COUNT, OF(reference_sum), TIDE_NOT_GIVEN, UINT32_MAX, NULL, true},
    {0},
};

/* Finds where the model comes from: what is resumed, or the model to begin with. */
static int find_model(struct tide_grpo *g, const char *resumed, char *ret_path, struct tide_err *err)
{
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
        return tide_err_set(err, "there is no model in '%s'", TIDE_SHOWN(model, 256));
    return status;
}

/* Opens the model's own vocabulary; for a new model, the tokenizer's or that of sums. */
static int open_vocabulary(struct tide_grpo *g, const char *from, uint64_t seed, struct tide_err *err)
{
    const struct tide_grpo_options *o = &g->options;
    struct tide_gpt_config *config = &g->language.config;
    struct tide_tokenizer *tokenizer = NULL;
    const char *own = from[0] ? tide_language_vocabulary_in(from, g->language.base) : NULL;
    struct tide_data_source source = {
        .seed = seed, .sequence = SUMS_SEQUENCE, .vocabulary = config->vocabulary};
    if (!o->prompts && tide_data_open(&source, &g->sums, err))
        return -1;
    if (!o->tokenizer && !own && o->prompts) {
        tide_err_set(err, "a new model has no vocabulary for these prompts");
        return tide_err_hint(err, "name a model with --model DIR, or a tokenizer with --tokenizer DIR");
    }
    int status = 0;
    if (own && !o->tokenizer)
        status = tide_vocabulary_new(own, config->vocabulary, &g->vocabulary, err);
    else if (own || o->prompts)
        status = tide_vocabulary_tokenizer(o->tokenizer, own, config->vocabulary, &tokenizer, err) ||
                 tide_vocabulary_with(tokenizer, config->vocabulary, &g->vocabulary, err);
    if (status)
        return -1;
    g->language.vocabulary = g->vocabulary ? g->vocabulary : g->sums->vocabulary;
    if (!config->vocabulary)
        config->vocabulary = g->language.vocabulary->size;
    return 0;
}

/* Checks that the model knows all symbols of sums. */
static int check_sums(const struct tide_grpo *g, struct tide_err *err)
{
    char prompt[TIDE_GRPO_QUESTION + 1];
    int32_t tokens[TIDE_GRPO_QUESTION + 1];
    struct tide_err why = {0};
    if (!g->sums)
        return 0;
    tide_data_question(g->sums, 0, true, prompt, sizeof prompt);
    if (g->language.vocabulary->kind == TIDE_VOCABULARY_BYTES &&
        tide_vocabulary_tokens(g->language.vocabulary, prompt, tokens, &why) > 0)
        return 0;
    tide_err_set(err, "the model does not know the symbols of sums");
    return tide_err_hint(err, "give it prompts of your own: --prompts FILE --reward COMMAND");
}

static int settle_end(struct tide_grpo *g, struct tide_err *err)
{
    const struct tide_vocabulary *v = g->language.vocabulary;
    const char *stop = g->options.stop;
    int32_t tokens[64];
    g->end = tide_vocabulary_end(v);
    if (!stop && g->end < 0 && v->kind == TIDE_VOCABULARY_BYTES)
        g->end = tide_vocabulary_begin(v); /* a line's end */
    if (!stop)
        return 0;
    if (tide_vocabulary_most(v, stop) > sizeof tokens / sizeof *tokens ||
        tide_vocabulary_tokens(v, stop, tokens, err) != 1)
        return tide_err_set(err, "--stop '%s' is not one token of the model", TIDE_SHOWN(stop, 64));
    g->end = tokens[0];
    return 0;
}

/* Checks each prompt and finds the longest, in tokens. */
static int measure_prompts(struct tide_grpo *g, struct tide_err *err)
{
    const struct tide_vocabulary *v = g->language.vocabulary;
    int64_t positions = g->language.config.positions, new_tokens = g->options.settings.rule.new_tokens;
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
            tide_err_hint(err, "ask for fewer with --new-tokens, or leave the prompt out");
            count = -1;
        }
        if (count < 0)
            status = tide_prompts_wrap(g->prompts, p.line, err);
        g->prompt_most = count > g->prompt_most ? count : g->prompt_most;
    }
    free(room);
    return status;
}

static int open_prompts(struct tide_grpo *g, uint64_t seed, struct tide_err *err)
{
    const struct tide_grpo_options *o = &g->options;
    if (o->prompts && !o->reward) {
        tide_err_set(err, "--prompts needs a command that rewards the answers");
        return tide_err_hint(err, "name one: --reward 'python3 reward.py'");
    }
    if (o->reward && !o->reward[strspn(o->reward, " \t\n")])
        return tide_err_set(err, "--reward is empty");
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

static int settle_rule(struct tide_grpo *g, uint64_t seed, struct tide_err *err)
{
    struct tide_grpo_settings *s = &g->options.settings;
    const struct tide_policy_rule *usual = &tide_policy_default;
    int64_t positions = g->language.config.positions;
    tide_setting_usual(&s->prompts, g->options.prompts ? 1 : SUMS_PROMPTS);
    tide_setting_usual(&s->rule.group, usual->group);
    tide_setting_usual(&s->rule.epochs, usual->epochs);
    tide_setting_usual(&s->top_k, 0);
    tide_setting_usual(&s->rule.new_tokens, !g->options.prompts                ? SUMS_NEW_TOKENS
                                            : positions < 2 * USUAL_NEW_TOKENS ? positions / 2
                                                                               : USUAL_NEW_TOKENS);
    tide_setting_usual_real(&s->rule.temperature, usual->temperature);
    tide_setting_usual_real(&s->top_p, 1);
    tide_setting_usual_real(&s->rule.epsilon, usual->epsilon);
    tide_setting_usual_real(&s->rule.epsilon_high, s->rule.epsilon);
    tide_setting_usual_real(&s->rule.beta, usual->beta);
    s->loss = s->loss ? s->loss : tide_policy_kinds[usual->kind];
    s->scale_rewards = s->scale_rewards ? s->scale_rewards : tide_policy_scales[usual->scale_rewards];
    s->kl = s->kl ? s->kl : tide_policy_kls[usual->plain_kl ? TIDE_KL_PLAIN : TIDE_KL_CORRECTED];
    s->rule.kind = (enum tide_policy_kind)find_name(tide_policy_kinds, s->loss);
    s->rule.scale_rewards = (enum tide_policy_scale)find_name(tide_policy_scales, s->scale_rewards);
    s->rule.plain_kl = find_name(tide_policy_kls, s->kl) == TIDE_KL_PLAIN;
    g->rule = &s->rule;
    g->sampling = (struct tide_sample_rule){
        .temperature = s->rule.temperature, .top_k = s->top_k, .top_p = s->top_p, .seed = seed};
    if (s->rule.group > INT32_MAX / s->prompts)
        return tide_err_set(err, "%lld prompts of %lld completions are too many", (long long)s->prompts,
                            (long long)s->rule.group);
    g->sequences = s->prompts * s->rule.group;
    return tide_policy_rule_check(g->rule, err) || tide_sample_rule_check(&g->sampling, err) ? -1 : 0;
}

/* Decides how sequences are divided; each counts with the longest length that it may reach. */
static void settle_sizes(struct tide_grpo *g)
{
    struct tide_grpo_settings *s = &g->options.settings;
    struct tide_task *task = &g->task;
    task->sequence = g->prompt_most + s->rule.new_tokens - 1;
    int64_t usual = MICRO_BATCH_TOKENS / task->sequence;
    g->chose_micro_batch = s->micro_batch == TIDE_NOT_GIVEN;
    tide_setting_usual(&s->micro_batch, usual < 1 ? 1 : usual);
    if (s->micro_batch > g->sequences)
        s->micro_batch = g->sequences;
    task->batch = s->micro_batch;
    task->blocks = g->language.config.blocks;
    task->vocabulary = g->language.config.vocabulary;
    task->model = g->options.language.preset ? g->options.language.preset : "model";
}

int tide_grpo_settle(struct tide_task *task, const char *resumed, struct tide_train_settings *train,
                     struct tide_err *err)
{
    struct tide_grpo *g = (struct tide_grpo *)task;
    struct tide_gpt_config *config = &g->language.config;
    char from[TIDE_LANGUAGE_PATH];
    if (g->options.model && g->options.language.preset)
        return tide_err_set(err, "--model and --preset cannot be used together");
    g->options.language.goes_on = resumed;
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
