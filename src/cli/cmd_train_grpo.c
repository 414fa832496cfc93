/*
 * cmd_train_grpo.c - tidemark train grpo: trains a language model by rewards, in a memory laid out
 * beforehand.
 */
#include "base/clock.h"
#include "cli/cmd_train.h"
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
    {0, "model", TIDE_OPTION_TEXT, GRPO(model), "DIR",
     "begin with this model: a run of tidemark train, or a directory of Hugging Face's GPT-2", NULL, 0, 0},
    {0, "preset", TIDE_OPTION_CHOICE, GRPO(language.preset), "NAME",
     "begin with a new model of this size, with weights from the seed (tiny)", "tiny|small|medium|large|gpt2",
     0, 0},
    {0, "tokenizer", TIDE_OPTION_TEXT, GRPO(tokenizer), "DIR",
     "tokenizer of a new model: a tokenizer.json, or a directory with one or with vocab.json and merges.txt",
     NULL, 0, 0},
    {0, "adapt", TIDE_OPTION_TEXT, GRPO(language.adapt), "NAME",
     "lora:RANK or lora:RANK:ALPHA: train adapters on every linear layer, and leave the model as it is", NULL,
     0, 0},
    {0, "prompts", TIDE_OPTION_TEXT, GRPO(prompts), "FILE",
     "a JSON object on each line, with a text 'prompt' and fields of your own (without it, sums)", NULL, 0,
     0},
    {0, "reward", TIDE_OPTION_TEXT, GRPO(reward), "COMMAND",
     "a command that is started once, reads a line of JSON for each group and answers with a line of rewards (in Python, tidemark.reward makes one from a function)",
     NULL, 0, 0},
    {0, "reward-timeout", TIDE_OPTION_DURATION, offsetof(struct values, timeout_ns), "TIME",
     "how long the reward command may take to answer (60s)", NULL, TIDE_NS_PER_MS, 0},
    {0, "group", TIDE_OPTION_COUNT, SETTING(group), "N", "completions of each prompt (8)", NULL, 2, 1 << 16},
    {0, "prompts-per-step", TIDE_OPTION_COUNT, SETTING(prompts), "N", "prompts in each step (1; for sums 64)",
     NULL, 1, 1 << 16},
    {0, "new-tokens", TIDE_OPTION_COUNT, SETTING(new_tokens), "N",
     "most tokens of a completion (256, or half of the model's positions; for sums 4)", NULL, 1, 1 << 20},
    {0, "micro-batch", TIDE_OPTION_COUNT, SETTING(micro_batch), "N",
     "sequences that are generated and trained on together (about 1500 tokens, or as many as fit --budget)",
     NULL, 1, 1 << 16},
    {0, "inner-epochs", TIDE_OPTION_COUNT, SETTING(epochs), "N",
     "updates with the completions of each step (1)", NULL, 1, 1 << 16},
    {0, "loss", TIDE_OPTION_CHOICE, SETTING(loss), "NAME",
     "how tokens are weighted (dapo): grpo, each completion the same; bnpo and dapo, each token the same; dr_grpo, by a constant",
     "grpo|bnpo|dr_grpo|dapo", 0, 0},
    {0, "scale-rewards", TIDE_OPTION_CHOICE, SETTING(scale_rewards), "NAME",
     "divide advantages by the standard deviation of rewards in the group (default) or in the batch, or by nothing",
     "group|batch|none", 0, 0},
    {0, "epsilon", TIDE_OPTION_REAL, SETTING(epsilon), "X",
     "clip ratios of probabilities below 1 - X and above 1 + X (0.2)", NULL, 0, 0},
    {0, "epsilon-high", TIDE_OPTION_REAL, SETTING(epsilon_high), "X",
     "clip above 1 + X instead (as --epsilon)", NULL, 0, 0},
    {0, "beta", TIDE_OPTION_REAL, SETTING(beta), "X",
     "weight of the KL divergence from the model that the run began with (0: none)", NULL, 0, 0},
    {0, "kl", TIDE_OPTION_CHOICE, SETTING(kl), "NAME",
     "how the KL divergence is estimated (corrected): the k3 estimate times the ratio of probabilities, which has the divergence's own gradient, or plain",
     "corrected|plain", 0, 0},
    {0, "temperature", TIDE_OPTION_REAL, SETTING(temperature), "X", "sampling temperature, more than 0 (1)",
     NULL, 0, 0},
    {0, "top-k", TIDE_OPTION_COUNT, SETTING(top_k), "N", "choose among the N likeliest tokens (0: all)", NULL,
     0, 1 << 30},
    {0, "top-p", TIDE_OPTION_REAL, SETTING(top_p), "X",
     "choose among the likeliest tokens that together have this probability (1: all)", NULL, 0, 0},
    {0, "stop", TIDE_OPTION_TEXT, GRPO(stop), "TEXT",
     "the token that ends a completion (the tokenizer's end of text or, without one, the end of a line)",
     NULL, 0, 0},
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
