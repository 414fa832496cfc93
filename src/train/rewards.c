#include "train/rewards.h"

#include <string.h>

/* A wrong answer gets less than half, by its share of right symbols, the end included. So a model that has
 * learned nothing still gets different rewards for different answers. */
static float reward_sum(const struct tide_prompt *prompt, const struct tide_completion_text *completion)
{
    char answer[8] = {0}, right[8] = {0}; /* no right answer is longer */
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
