/*
 * cmd_train_grpo.c - tidemark train grpo: trains a language model by rewards, in memory laid out beforehand.
 */
#include "base/clock.h"
#include "cli/train_loop.h"
#include "train/grpo.h"
#include "train/rewards.h"

#include <stddef.h>

struct values {
    struct tide_train_values shared;
    struct tide_grpo_options grpo;
    int64_t timeout_ns;
};

#define GRPO(field)    offsetof(struct values, grpo.field)
#define SETTING(field) GRPO(settings.field)

static const struct tide_option options[] = {
    {0, "model", TIDE_OPTION_TEXT, GRPO(model), "DIR", NULL, 0, 0,
     "begin with this model: a run of tidemark train, or a directory of Hugging Face's GPT-2"},
    {0, "preset", TIDE_OPTION_CHOICE, GRPO(language.preset), "NAME", "tiny|small|medium|large|gpt2", 0, 0,
     "begin with a new model of this size, with weights from the seed (tiny)"},
    {0, "tokenizer", TIDE_OPTION_TEXT, GRPO(tokenizer), "DIR", NULL, 0, 0,
     "tokenizer of a model that has none: a tokenizer.json, or a directory with one or with vocab.json and merges.txt"},
    {0, "adapt", TIDE_OPTION_TEXT, GRPO(language.adapt), "NAME", NULL, 0, 0,
     "lora:RANK or lora:RANK:ALPHA: train adapters on every linear layer, and leave the model as it is"},
    {0, "prompts", TIDE_OPTION_TEXT, GRPO(prompts), "FILE", NULL, 0, 0,
     "a JSON object on each line, with a text 'prompt' and fields of your own (without it, sums)"},
    {0, "reward", TIDE_OPTION_TEXT, GRPO(reward), "COMMAND", NULL, 0, 0,
     "a command that is started once, reads a line of JSON for each group and answers with a line of rewards (in Python, tidemark.reward makes one from a function)"},
    {0, "reward-timeout", TIDE_OPTION_DURATION, offsetof(struct values, timeout_ns), "TIME", NULL,
     TIDE_NS_PER_MS, 0, "how long the reward command may take to answer (60s)"},
    {0, "group", TIDE_OPTION_COUNT, SETTING(rule.group), "N", NULL, 2, 1 << 16,
     "completions of each prompt (8)"},
    {0, "prompts-per-step", TIDE_OPTION_COUNT, SETTING(prompts), "N", NULL, 1, 1 << 16,
     "prompts in each step (1; for sums 64)"},
    {0, "new-tokens", TIDE_OPTION_COUNT, SETTING(rule.new_tokens), "N", NULL, 1, 1 << 20,
     "most tokens of a completion (256, or half of the model's positions; for sums 4)"},
    {0, "micro-batch", TIDE_OPTION_COUNT, SETTING(micro_batch), "N", NULL, 1, 1 << 16,
     "sequences that are generated and trained on together (about 1500 tokens, or as many as fit --budget)"},
    {0, "inner-epochs", TIDE_OPTION_COUNT, SETTING(rule.epochs), "N", NULL, 1, 1 << 16,
     "updates with the completions of each step (1)"},
    {0, "loss", TIDE_OPTION_CHOICE, SETTING(loss), "NAME", "grpo|bnpo|dr_grpo|dapo", 0, 0,
     "how tokens are weighted (dapo): grpo, each completion the same; bnpo and dapo, each token the same; dr_grpo, by a constant"},
    {0, "scale-rewards", TIDE_OPTION_CHOICE, SETTING(scale_rewards), "NAME", "group|batch|none", 0, 0,
     "divide advantages by the standard deviation of rewards in the group (default) or in the batch, or by nothing"},
    {0, "epsilon", TIDE_OPTION_REAL, SETTING(rule.epsilon), "X", NULL, 0, 0,
     "clip ratios of probabilities below 1 - X and above 1 + X (0.2)"},
    {0, "epsilon-high", TIDE_OPTION_REAL, SETTING(rule.epsilon_high), "X", NULL, 0, 0,
     "clip above 1 + X instead (as --epsilon)"},
    {0, "beta", TIDE_OPTION_REAL, SETTING(rule.beta), "X", NULL, 0, 0,
     "weight of the KL divergence from the model that the run began with (0: none)"},
    {0, "kl", TIDE_OPTION_CHOICE, SETTING(kl), "NAME", "corrected|plain", 0, 0,
     "how the KL divergence is estimated (corrected): the k3 estimate times the ratio of probabilities, which has the divergence's own gradient, or plain"},
    {0, "temperature", TIDE_OPTION_REAL, SETTING(rule.temperature), "X", NULL, 0, 0,
     "sampling temperature, more than 0 (1)"},
    {0, "top-k", TIDE_OPTION_COUNT, SETTING(top_k), "N", NULL, 0, 1 << 30,
     "choose among the N likeliest tokens (0: all)"},
    {0, "top-p", TIDE_OPTION_REAL, SETTING(top_p), "X", NULL, 0, 0,
     "choose among the likeliest tokens that together have this probability (1: all)"},
    {0, "stop", TIDE_OPTION_TEXT, GRPO(stop), "TEXT", NULL, 0, 0,
     "the token that ends a completion (the tokenizer's end of text or, without one, the end of a line)"},
    {0},
};

static void say(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "reward: %s\n", line);
}

static struct tide_task *make(void *values, struct tide_err *err)
{
    (void)err;
    struct values *v = values;
    v->grpo.say = say;
    v->grpo.reward_timeout_ms = v->timeout_ns / TIDE_NS_PER_MS;
    v->grpo.out = v->shared.train.out;
    return tide_grpo_new(&v->grpo);
}

static void init(void *values)
{
    struct values *v = values;
    tide_train_values_init(&v->shared, make);
    tide_settings_clear(tide_grpo_settings, &v->grpo.settings);
    v->timeout_ns = (int64_t)TIDE_REWARD_TIMEOUT_MS * TIDE_NS_PER_MS;
}

const struct tide_command tide_train_grpo = {
    .name = "train grpo",
    .synopsis = "[--model DIR] [--prompts FILE --reward COMMAND] [--budget SIZE] [--out DIR] [options]",
    .summary = "train a language model by rewards for what it writes",
    .details =
        "Group-relative policy optimization: in each step the model generates a group of completions of a prompt, each gets a reward, and those that are better than "
        "the mean of their group become likelier. Names and meanings are those of TRL's GRPO. All memory is laid out before the first step, for the longest sequences: a run that starts "
        "cannot run out of memory on a long answer.\n"
        "\n"
        "The reward command reads a line for each group, {\"prompt\": ..., \"completions\": [...], and the other fields of the prompt's line}, and answers with a line like "
        "[1, 0.5, ...]. If it dies, is late or answers with anything else, the run ends with one sentence; the last checkpoint stays.\n"
        "\n"
        "Without --prompts the model is asked for sums of two numbers. A right answer gets 1, any other less than a half. Begin with a model that knows some sums, made by 'tidemark train lm --steps 760 --out DIR'.\n"
        "\n"
        "The reference of --beta is the model without its adapters or, without --adapt, the weights that the run began with, which are read from their file in every step.\n"
        "\n"
        "The first SIGINT, SIGTERM or SIGHUP ends the run after the current step, saves a checkpoint if --out is given, and exits with 128 plus the signal's "
        "number. The second signal kills it. Exit code: 0 when all steps are done, 2 when there is trouble.",
    .examples =
        "tidemark train lm --steps 760 --out sums && tidemark train grpo --model sums --lr 0.0005 --schedule cosine --steps 1500\n"
        "tidemark train grpo --model gpt2 --prompts prompts.jsonl --reward 'python3 reward.py' --new-tokens 144 --adapt lora:16 --weights bf16 --out run --budget 640M\n"
        "tidemark train grpo --model gpt2 --prompts prompts.jsonl --reward 'python3 reward.py' --out run --resume auto --steps 500",
    .options = options,
    .shared = tide_train_shared,
    .values_size = sizeof(struct values),
    .init = init,
    .run = tide_train_main,
};
