#include "train/rewards.h"

#include <string.h>

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

void tide_rewards_of_sums(const struct tide_prompt *prompt, const struct tide_completion_text *completions,
                          int64_t count, float *ret_rewards)
{
    for (int64_t i = 0; i < count; i++)
        ret_rewards[i] = reward_sum(prompt, &completions[i]);
}
