#include "train/rewards.h"
#include "train/reward_process.h"

#include <stdlib.h>
#include <string.h>

struct tide_rewarder {
    struct tide_reward_process *process; /* NULL: sums */
};

static struct tide_rewarder *rewarder_new(struct tide_err *err)
{
    struct tide_rewarder *r = calloc(1, sizeof *r);
    if (!r)
        tide_err_set(err, "out of memory");
    return r;
}

int tide_rewarder_command(const struct tide_reward_command *how, struct tide_rewarder **ret_rewarder,
                          struct tide_err *err)
{
    struct tide_rewarder *r = rewarder_new(err);
    if (!r)
        return -1;
    if (tide_reward_process_start(how, &r->process, err)) {
        free(r);
        return -1;
    }
    *ret_rewarder = r;
    return 0;
}

int tide_rewarder_sums(struct tide_rewarder **ret_rewarder, struct tide_err *err)
{
    struct tide_rewarder *r = rewarder_new(err);
    if (!r)
        return -1;
    *ret_rewarder = r;
    return 0;
}

void tide_rewarder_free(struct tide_rewarder *r)
{
    if (!r)
        return;
    tide_reward_process_free(r->process);
    free(r);
}

size_t tide_rewarder_bytes(const struct tide_rewarder *r)
{
    return sizeof *r + (r->process ? tide_reward_process_bytes(r->process) : 0);
}

int tide_rewarder_check(struct tide_rewarder *r, struct tide_err *err)
{
    return r->process ? tide_reward_process_check(r->process, err) : 0;
}

/* A wrong answer gets less than half, by the share of symbols that are right, its end included: a model that
 * has learned nothing gets different rewards for different answers, too. */
static float reward_sum(const struct tide_prompt *prompt, const struct tide_completion_text *completion)
{
    char answer[8] = {0}, right[8] = {0}; /* no right one is longer than this */
    int same = 0, symbols = tide_data_answer(prompt->text, right, sizeof right) + 1;
    size_t len = completion->len < sizeof answer ? completion->len : sizeof answer - 1;
    memcpy(answer, completion->bytes, len);
    if (tide_data_is_right(prompt->text, answer))
        return 1;
    answer[strcspn(answer, "\n")] = '\0';
    for (int i = 0; i < symbols && (i == 0 || answer[i - 1]); i++)
        same += answer[i] == right[i];
    return 0.5F * (float)same / (float)symbols;
}

int tide_rewarder_ask(struct tide_rewarder *r, const struct tide_prompt *prompt,
                      const struct tide_completion_text *completions, int64_t count, float *ret_rewards,
                      struct tide_err *err)
{
    if (r->process)
        return tide_reward_process_ask(r->process, prompt, completions, count, ret_rewards, err);
    for (int64_t i = 0; i < count; i++)
        ret_rewards[i] = reward_sum(prompt, &completions[i]);
    return 0;
}
