#include "base/clock.h"
#include "base/text.h"
#include "tidemark.h"
#include "train/grpo_private.h"
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOME_QUESTIONS = 100, MANY_QUESTIONS = 500 };

/* ---- memory besides the arena */

/* Places what a step needs in `room`; NULL: only returns its size. *ret_texts: where what rewards need
 * begins. */
static size_t place(struct tide_grpo *g, char *room, size_t *ret_texts)
{
    const struct tide_grpo_settings *s = &g->options.settings;
    size_t prompts = (size_t)s->prompts, group = (size_t)s->rule.group,
           new_tokens = (size_t)s->rule.new_tokens;
    size_t sequences = prompts * group, length = (size_t)g->task.sequence + 1, at = 0;
    size_t logs = (g->rule->epochs > 1 ? 1 : 0) + (g->rule->beta > 0 ? 1 : 0);
    g->asked = tide_part(room, &at, prompts * sizeof *g->asked);
    g->prompt_tokens = tide_part(room, &at, prompts * (size_t)g->prompt_most * sizeof *g->prompt_tokens);
    g->made = tide_part(room, &at, sequences * sizeof *g->made);
    g->tokens = tide_part(room, &at, sequences * length * sizeof *g->tokens);
    g->logs = tide_part(room, &at, logs * sequences * new_tokens * sizeof *g->logs);
    g->rewards = tide_part(room, &at, sequences * sizeof *g->rewards);
    g->advantages = tide_part(room, &at, sequences * sizeof *g->advantages);
    *ret_texts = at;
    g->texts = tide_part(room, &at, group * sizeof *g->texts);
    g->group_rewards = tide_part(room, &at, group * sizeof *g->group_rewards);
    g->text = tide_part(room, &at, group * new_tokens * g->longest + 1);
    return at;
}

static size_t longest_text(const struct tide_grpo *g)
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

/* Computes the passes of a step and the size of each part. Called again for other sizes if nothing fits. */
static void size_step(struct tide_grpo *g)
{
    const struct tide_grpo_settings *s = &g->options.settings;
    const struct tide_tokenizer *tokenizer = g->language.vocabulary->tokenizer;
    g->sequences = s->prompts * s->rule.group;
    g->task.passes = (g->sequences + g->task.batch - 1) / g->task.batch;
    g->longest = g->longest ? g->longest : longest_text(g);
    size_t texts, all = place(g, NULL, &texts);
    size_t rollout = tide_rollout_bytes(g->task.batch, g->sequences, s->rule.new_tokens);
    size_t rewarder = g->options.reward ? tide_rewarder_bytes(s->rule.group) : 0;
    g->memory[ROLLOUT] = (struct tide_task_memory){"rollout", rollout + texts};
    g->memory[REWARDS] = (struct tide_task_memory){"rewards", rewarder + all - texts};
    g->memory[PROMPTS] = (struct tide_task_memory){"prompts", tide_prompts_bytes(g->prompts)};
    if (tokenizer)
        g->memory[TOKENIZER] = (struct tide_task_memory){"tokenizer", tide_tokenizer_bytes(tokenizer)};
    g->task.memory = g->memory;
    g->task.memory_count = tokenizer ? MEMORY : TOKENIZER;
}

static int build(struct tide_task *task, struct tide_graph *graph, struct tide_err *err)
{
    struct tide_grpo *g = (struct tide_grpo *)task;
    const struct tide_gpt_config *config = &g->language.config;
    size_step(g);
    if (tide_gpt_build_policy(graph, config, task->batch, task->sequence, g->rule, &g->policy, err))
        return -1;
    return tide_gpt_build_decoder(graph, config, task->batch, task->sequence + 1, &g->decoder, err);
}

/* Reduces the sequences per pass, about equally many in each; to one if nothing fits. */
static bool fit(struct tide_task *task, const struct tide_trainer *trainer)
{
    struct tide_grpo *g = (struct tide_grpo *)task;
    if (!g->chose_micro_batch)
        return false;
    int64_t fits = tide_trainer_most_that_fits(trainer, &task->batch);
    int64_t passes = fits ? (g->sequences + fits - 1) / fits : g->sequences;
    task->batch = (g->sequences + passes - 1) / passes;
    g->options.settings.micro_batch = task->batch;
    return true;
}

static int suggest(struct tide_task *task, const struct tide_trainer *trainer, struct tide_err *err)
{
    struct tide_grpo_settings *s = &((struct tide_grpo *)task)->options.settings;
    int64_t fits = tide_trainer_most_that_fits(trainer, &task->batch);
    if (fits)
        return tide_err_hint(err, "--micro-batch %lld would fit", (long long)fits);
    task->batch = 1;
    fits = tide_trainer_most_that_fits(trainer, &s->prompts);
    if (fits)
        return tide_err_hint(err, "--micro-batch 1 --prompts-per-step %lld would fit", (long long)fits);
    s->prompts = 1;
    fits = tide_trainer_most_that_fits(trainer, &s->rule.group);
    return fits > 1 ? tide_err_hint(err, "--micro-batch 1 --prompts-per-step 1 --group %lld would fit",
                                    (long long)fits)
                    : 0;
}

/* ---- starting */

/* Allocates what steps need besides the arena and the rollout, and touches its pages. */
static int take_room(struct tide_grpo *g, struct tide_err *err)
{
    size_t texts, all = place(g, NULL, &texts);
    g->room = malloc(all);
    if (!g->room)
        return tide_err_set(err, "out of memory for a step's sequences");
    memset(g->room, 0, all);
    place(g, g->room, &texts);
    return 0;
}

static int open_rewarder(struct tide_grpo *g, struct tide_err *err)
{
    const struct tide_grpo_options *o = &g->options;
    struct tide_reward_command how = {.command = o->reward,
                                      .timeout_ms = o->reward_timeout_ms,
                                      .most = o->settings.rule.group,
                                      .say = o->say};
    return o->reward ? tide_rewarder_command(&how, &g->rewarder, err) : 0;
}

static int refuse_later_reference(const char *resumed, struct tide_err *err)
{
    tide_err_set(err, "the run began without a KL term and kept no weights for it");
    return tide_err_hint(err, "begin a new run with its model: --model %s --out DIR --beta X",
                         TIDE_SHOWN(resumed, 256));
}

/* A file that the run wrote is next to its checkpoints, wherever they were moved to. */
static void find_beside(char path[static TIDE_SETTING_PATH_BYTES], const char *resumed)
{
    char place[TIDE_LANGUAGE_PATH + 32], found[TIDE_SETTING_PATH_BYTES];
    const char *name = strrchr(path, '/');
    if (!*resumed || !name || strcmp(name + 1, TIDE_CHECKPOINT_KEPT) != 0)
        return;
    snprintf(place, sizeof place, "%s/../" TIDE_CHECKPOINT_KEPT, resumed);
    if (realpath(place, found))
        strcpy(path, found);
}

/* Sets the file with the weights that the run begins with: the model's own, or one that is written now. */
static int keep_reference(struct tide_grpo *g, const struct tide_trainer *trainer, struct tide_err *err)
{
    char *path = g->options.settings.reference;
    char place[TIDE_LANGUAGE_PATH];
    const char *resumed = trainer->resumed;
    if (path[0]) {
        find_beside(path, resumed);
        return 0;
    }
    if (trainer->done > 0)
        return refuse_later_reference(resumed, err);
    if (!g->language.from[0])
        return tide_checkpoint_keep(g->options.out, trainer->graph, trainer->machine, path,
                                    sizeof g->options.settings.reference, &g->reference_fd, err);
    /* The model may be in several files, and the run may be resumed in another directory. */
    if (!realpath(g->language.from, place))
        return tide_err_set(err, "cannot find the model: %s", strerror(errno));
    if (snprintf(path, sizeof g->options.settings.reference, "%s/model.safetensors", place) >=
        (int)sizeof g->options.settings.reference)
        return tide_err_set(err, "the path of the model is too long");
    return 0;
}

/* Compares all of the weights, because a model may be replaced by a similar one. To read them once costs what
 * each step costs that reads them. Runs of older versions have no checksum yet. */
static int check_reference(struct tide_grpo *g, struct tide_err *err)
{
    struct tide_grpo_settings *s = &g->options.settings;
    uint32_t sum;
    if (tide_streamed_checksum(g->streamed, &sum, err))
        return -1;
    tide_setting_usual(&s->reference_sum, sum);
    if (s->reference_sum == sum)
        return 0;
    tide_err_set(err, "'%s' does not have the weights that the run began with",
                 TIDE_SHOWN(s->reference, 256));
    return tide_err_hint(err, "put that model back, or begin a new run");
}

static int open_reference(struct tide_grpo *g, const struct tide_trainer *trainer, struct tide_err *err)
{
    if (g->rule->beta <= 0 || g->language.config.adapter_rank)
        return 0;
    if (keep_reference(g, trainer, err) ||
        tide_streamed_open(trainer->graph, TIDE_GPT_REFERENCE, g->options.settings.reference, &g->streamed,
                           err) ||
        check_reference(g, err))
        return tide_err_wrap(err, "the reference of the KL term");
    tide_machine_source(trainer->machine, tide_streamed_read, g->streamed);
    return 0;
}

static int start(struct tide_task *task, struct tide_trainer *trainer, struct tide_err *err)
{
    struct tide_grpo *g = (struct tide_grpo *)task;
    const struct tide_language *l = &g->language;
    const struct tide_graph *graph = trainer->graph;
    struct tide_machine *machine = trainer->machine;
    uint64_t seed = (uint64_t)trainer->options.settings.seed;
    bool loads = l->from[0] && !l->base[0] && !trainer->resumed[0];
    if (open_rewarder(g, err) || take_room(g, err) ||
        tide_rollout_new(&l->config, &g->decoder, machine, g->sequences, g->options.settings.rule.new_tokens,
                         &g->rollout, err) ||
        tide_language_start(l, graph, machine, seed, err) ||
        (loads && tide_checkpoint_load(l->from, graph, machine, false, err)))
        return -1;
    return open_reference(g, trainer, err);
}

static void free_grpo(struct tide_task *task)
{
    struct tide_grpo *g = (struct tide_grpo *)task;
    tide_rollout_free(g->rollout);
    tide_streamed_close(g->streamed);
    tide_rewarder_free(g->rewarder);
    tide_prompts_free(g->prompts);
    tide_vocabulary_free(g->vocabulary);
    tide_data_free(g->sums);
    if (g->reference_fd >= 0)
        close(g->reference_fd);
    free(g->room);
    free(g);
}

/* ---- a step */

/* Reads the prompts of a step as tokens. */
static int read_prompts(struct tide_grpo *g, int64_t step, struct tide_err *err)
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

static int roll_out(struct tide_grpo *g, const struct tide_rollout_request *request, struct tide_err *err)
{
    int more = tide_rollout_start(g->rollout, request, err) ? -1 : 1;
    while (more > 0)
        more = tide_rollout_next(g->rollout, err);
    return more;
}

/* Copies completions from the rollout to the sequences of the update. */
static void take_sequences(struct tide_grpo *g)
{
    int64_t length = g->task.sequence + 1, new_tokens = g->rule->new_tokens;
    float *reference = g->logs + (g->rule->epochs > 1 ? g->sequences * new_tokens : 0);
    int64_t tokens = 0, ended = 0;
    for (int64_t i = 0; i < g->sequences; i++) {
        struct tide_completion made = tide_rollout_completion(g->rollout, i);
        const struct tide_rollout_prompt *prompt = &g->asked[i / g->rule->group];
        int32_t *to = g->tokens + i * length;
        memcpy(to, prompt->tokens, (size_t)prompt->count * sizeof *to);
        memcpy(to + prompt->count, made.tokens, (size_t)made.count * sizeof *to);
        g->made[i] = (struct tide_policy_sequence){
            .tokens = to,
            .prompt = prompt->count,
            .completion = made.count,
            .old_log = g->rule->epochs > 1 ? g->logs + i * new_tokens : NULL,
            .reference_log = g->rule->beta > 0 ? reference + i * new_tokens : NULL};
        tokens += made.count;
        ended += made.ended;
    }
    g->numbers[LENGTH].value = (double)tokens / (double)g->sequences;
    g->numbers[ENDED].value = (double)ended / (double)g->sequences;
}

/* Appends the text of a completion, without its end token, to `text` at `at`. Returns where it ends. */
static size_t put_text(struct tide_grpo *g, int64_t sequence, size_t at,
                       struct tide_completion_text *ret_text)
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

static int ask(struct tide_grpo *g, int64_t step, struct tide_err *err)
{
    int64_t prompts = g->options.settings.prompts, group = g->rule->group;
    for (int64_t i = 0; i < prompts; i++) {
        struct tide_prompt p;
        size_t at = 0;
        for (int64_t k = 0; k < group; k++)
            at = put_text(g, i * group + k, at, &g->texts[k]);
        if (tide_prompts_read(g->prompts, (uint64_t)((step - 1) * prompts + i), &p, err))
            return -1;
        if (!g->rewarder)
            tide_rewards_of_sums(&p, g->texts, group, g->group_rewards);
        else if (tide_rewarder_ask(g->rewarder, &p, g->texts, group, g->group_rewards, err))
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

/* Returns the number of sequences in a micro-batch. */
static int64_t count_of(const struct tide_grpo *g, int64_t micro_batch)
{
    int64_t left = g->sequences - micro_batch * g->task.batch;
    return left < g->task.batch ? left : g->task.batch;
}

static int refer(struct tide_grpo *g, struct tide_machine *machine, struct tide_err *err)
{
    struct tide_policy_batch batch = tide_gpt_policy_batch(&g->policy, machine);
    for (int64_t i = 0; i < g->task.passes; i++) {
        const struct tide_policy_sequence *some = g->made + i * g->task.batch;
        int64_t count = count_of(g, i);
        tide_policy_fill(&batch, g->rule, some, count, 0);
        if (tide_machine_run(machine, g->policy.reference)) {
            tide_streamed_failed(g->streamed, err);
            return tide_err_wrap(err, "the reference of the KL term");
        }
        tide_policy_take(some, count,
                         tide_machine_result(machine, g->policy.reference, g->policy.reference_log), true);
    }
    return 0;
}

static int update(struct tide_grpo *g, struct tide_machine *machine, struct tide_update_rule *rule,
                  int64_t epoch, struct tide_policy_sums *sums, struct tide_task_step *ret_step,
                  struct tide_err *err)
{
    struct tide_policy_batch batch = tide_gpt_policy_batch(&g->policy, machine);
    double loss = 0;
    for (int64_t i = 0; i < g->task.passes; i++) {
        const struct tide_policy_sequence *some = g->made + i * g->task.batch;
        int64_t count = count_of(g, i);
        tide_policy_fill(&batch, g->rule, some, count, epoch);
        loss += (double)tide_machine_pass(machine, i, rule);
        if (!isfinite(loss))
            return tide_trainer_stop_at((rule->step.step - 1) / g->rule->epochs + 1, "loss", err);
        const float *logs = tide_machine_result(machine, g->policy.gpt.train, g->policy.log_probabilities);
        tide_policy_count(&batch, logs, sums);
        if (epoch == 0 && g->rule->epochs > 1)
            tide_policy_take(some, count, logs, false);
    }
    ret_step->loss = loss / (double)g->task.passes;
    ret_step->norm = tide_machine_update(machine, rule);
    return 0;
}

static int learn(struct tide_grpo *g, struct tide_machine *machine, struct tide_update_rule *rule,
                 struct tide_task_step *ret_step, struct tide_err *err)
{
    struct tide_policy_rewards rewards;
    struct tide_policy_sums sums = {0};
    int64_t step = rule->step.step;
    tide_policy_advantages(g->rule, g->rewards, g->options.settings.prompts, g->advantages, &rewards);
    for (int64_t i = 0; i < g->sequences; i++)
        g->made[i].advantage = g->advantages[i];
    tide_policy_weigh(g->rule, g->made, g->sequences, g->task.batch);
    if (g->policy.reference >= 0) {
        tide_phase_begin("reference");
        int bad = refer(g, machine, err);
        tide_phase_end("reference");
        if (bad)
            return -1;
    }
    tide_phase_begin("update");
    int bad = 0;
    for (int64_t epoch = 0; !bad && epoch < g->rule->epochs; epoch++) {
        rule->step.step = (step - 1) * g->rule->epochs + epoch + 1;
        bad = update(g, machine, rule, epoch, &sums, ret_step, err);
    }
    tide_phase_end("update");
    rule->step.step = step;
    double tokens = sums.tokens > 0 ? (double)sums.tokens : 1;
    g->numbers[REWARD].value = rewards.mean;
    g->numbers[SPREAD].value = rewards.spread;
    g->numbers[EQUAL].value = rewards.equal_share;
    g->numbers[KL].value = g->rule->beta > 0 ? sums.kl / tokens : NAN;
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
    struct tide_grpo *g = (struct tide_grpo *)task;
    struct tide_machine *machine = trainer->machine;
    int64_t number = rule->step.step, began = tide_clock_ns();
    struct tide_rollout_request request = {.prompts = g->asked,
                                           .prompt_count = g->options.settings.prompts,
                                           .group = g->rule->group,
                                           .new_tokens = g->rule->new_tokens,
                                           .end = g->end,
                                           .rule = g->sampling,
                                           .step = (uint64_t)number};
    rule->step.beta2 = 0.999F; /* as in TRL */
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

/* For sums: the share of held-out questions that greedy decoding answers exactly. */
static int evaluate(struct tide_task *task, struct tide_trainer *trainer, bool last, struct tide_err *err)
{
    struct tide_grpo *g = (struct tide_grpo *)task;
    int64_t right = 0, questions = last ? MANY_QUESTIONS : SOME_QUESTIONS,
            prompts = g->options.settings.prompts;
    bool (*hurries)(void) = trainer->options.hurries;
    if (!g->sums)
        return 0;
    struct tide_rollout_request request = {.prompts = g->asked,
                                           .group = 1,
                                           .new_tokens = g->rule->new_tokens,
                                           .end = g->end,
                                           .rule = {.top_p = 1}};
    for (int64_t first = 0; first < questions; first += prompts) {
        char question[TIDE_GRPO_QUESTION + 1];
        if (hurries && hurries()) /* earlier results stay */
            return 0;
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

/* The first completion of the last step. */
static int sample(struct tide_task *task, struct tide_trainer *trainer, char *out, size_t size,
                  struct tide_err *err)
{
    struct tide_grpo *g = (struct tide_grpo *)task;
    (void)trainer;
    (void)err;
    snprintf(out, size, "%s", g->shown ? g->sample : "");
    return 0;
}

static bool write_file(void *task, const char *name, struct tide_durable *file)
{
    return tide_language_write(&((struct tide_grpo *)task)->language, name, file);
}

static void describe(const struct tide_task *task, const struct tide_trainer *trainer, FILE *out)
{
    const struct tide_grpo *g = (const struct tide_grpo *)task;
    const struct tide_grpo_settings *s = &g->options.settings;
    const struct tide_tokenizer *tokenizer = g->language.vocabulary->tokenizer;
    tide_language_describe(&g->language, trainer, tokenizer ? tokenizer->source : NULL, out);
    fprintf(
        out,
        "prompts  %lld%s, the longest of %lld tokens; %lld a step, %lld completions of at most %lld tokens each\n",
        (long long)tide_prompts_count(g->prompts), g->sums ? " sums made up here" : "",
        (long long)g->prompt_most, (long long)s->prompts, (long long)s->rule.group,
        (long long)s->rule.new_tokens);
    fprintf(out, "update   loss %s, advantages by %s", s->loss, s->scale_rewards);
    if (s->rule.beta > 0)
        fprintf(out, ", beta %g to %s", s->rule.beta,
                g->language.config.adapter_rank ? "the model without adapters" : "the first weights");
    fprintf(out, "; %lld sequences a pass%s\n", (long long)s->micro_batch,
            s->rule.epochs > 1 ? ", several inner epochs" : "");
}

static const struct tide_task_kind kind = {
    .name = "grpo",
    .schema = "tidemark.grpo/1",
    .rate = "tokens_per_second",
    .rate_label = "tok/s",
    .settle = tide_grpo_settle,
    .build = build,
    .fit = fit,
    .suggest = suggest,
    .start = start,
    .step = step,
    .evaluate = evaluate,
    .sample = sample,
    .write = write_file,
    .describe = describe,
    .free = free_grpo,
    .abandon = tide_rewards_abandon,
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
        [ROLLOUT_SPEED] = {"rollout_tokens_per_second", "rollout tok/s", false, NAN},
        [UPDATE_SPEED] = {"update_tokens_per_second", "update tok/s", false, NAN},
        [RATE] = {"learning_rate", NULL, false, NAN},
        [NORM] = {"gradient_norm", NULL, false, NAN},
        [EXACT] = {"accuracy", "exact", true, NAN},
    };
    struct tide_grpo *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->options = *options;
    g->reference_fd = -1;
    memcpy(g->numbers, numbers, sizeof numbers);
    g->task = (struct tide_task){
        .kind = &kind, .settings = &g->options.settings, .numbers = g->numbers, .number_count = NUMBERS};
    return &g->task;
}
