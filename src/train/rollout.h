/*
 * rollout.h - several completions of each of several prompts, for reinforcement learning.
 *
 * Sequence i is completion i % group of prompt i / group. The slots of a decoder generate side by side, one
 * row per token each; a sequence that has ended leaves its slot to the next. A prompt is read once, together
 * with the other prompts that start then; other slots get a copy of its keys and values.
 *
 * A token depends on seed, step, sequence and position alone, not on slots or threads: the same bits with any
 * number of slots (in bf16 with AMX: any number up to 16, or any from 17 on), and in a resumed run.
 *
 * tide_rollout_new -> _start, then _next until it returns 0 -> _completion of each sequence -> _start ... ->
 * _free. After _new nothing is allocated and no new page is touched. Between _start and the last _next, run
 * no program that uses no state.
 */
#ifndef TIDE_ROLLOUT_H
#define TIDE_ROLLOUT_H

#include "train/sample.h"

struct tide_rollout_prompt {
    const int32_t *tokens; /* at least one */
    int64_t count;
};

struct tide_rollout_request {
    const struct tide_rollout_prompt *prompts; /* they and their tokens must stay until all is done */
    int64_t prompt_count, group;
    int64_t new_tokens; /* at most, per completion; the window must have room for all */
    int32_t end;        /* the token that ends a completion; -1: none */
    struct tide_sample_rule rule;
    uint64_t step;
};

struct tide_completion {
    const int32_t *tokens; /* with the one that ends it, if it came */
    /* Of each token, among all tokens at the rule's temperature (choose.h). They come from the decoder. A
     * training pass rounds differently, so on-policy ratios are set to 1, not computed from the two. */
    const float *log_probabilities;
    int64_t count;
    bool ended; /* by its end token, not by its length */
};

struct tide_rollout;

/* Returns what one takes, besides the machine's memory. */
size_t tide_rollout_bytes(int64_t slots, int64_t sequences, int64_t new_tokens);

/* For at most that many sequences, and new tokens of each. decoder: in the graph of the machine, which must
 * outlive it. Caller frees. */
int tide_rollout_new(const struct tide_gpt_config *config, const struct tide_gpt_decoder *decoder,
                     struct tide_machine *machine, int64_t sequences, int64_t new_tokens,
                     struct tide_rollout **ret_rollout, struct tide_err *err);
void tide_rollout_free(struct tide_rollout *rollout);

/* Returns -1 with a sentence if a prompt is empty, has an invalid token, or leaves too little room in the
 * window for the new tokens, or if the rule is invalid. */
int tide_rollout_start(struct tide_rollout *rollout, const struct tide_rollout_request *request,
                       struct tide_err *err);

/* Makes one more token in every slot. 1: there is more to do; 0: all sequences are complete; -1 with a
 * sentence: the logits are not finite. */
int tide_rollout_next(struct tide_rollout *rollout, struct tide_err *err);

/* Tokens made since _start, in all sequences. */
int64_t tide_rollout_made(const struct tide_rollout *rollout);

/* Borrowed until the next _start. */
struct tide_completion tide_rollout_completion(const struct tide_rollout *rollout, int64_t sequence);

#endif
