/*
 * rollout.h - several completions of each of several prompts, as reinforcement learning wants them.
 *
 * Sequence i is completion i % group of prompt i / group. The slots of a decoder generate side by side, a row
 * each per token; a sequence that has ended leaves its slot to the next. A prompt is read once, together with
 * others that are read then: other slots get a copy of its keys and values.
 *
 * What a token is depends on seed, step, sequence and position alone, not on slots or threads: the same bits
 * with any number of slots (of bf16 with AMX: up to 16, or from 17 on), and in a run that is resumed.
 *
 * tide_rollout_new -> _start, then _next until it returns 0 -> _completion of each sequence -> _start ... ->
 * _free. After _new nothing is allocated and every page is there. Between _start and the last _next no
 * program may run that uses no state.
 */
#ifndef TIDE_ROLLOUT_H
#define TIDE_ROLLOUT_H

#include "train/sample.h"

struct tide_rollout_prompt {
    const int32_t *tokens; /* at least one */
    int64_t count;
};

struct tide_rollout_request {
    const struct tide_rollout_prompt *prompts; /* they and their tokens stay until all is done */
    int64_t prompt_count, group;
    int64_t new_tokens; /* of a completion, at the most; all the window must have room for */
    int32_t end;        /* a token after which a completion is whole; -1: none */
    struct tide_sample_rule rule;
    uint64_t step;
};

struct tide_completion {
    const int32_t *tokens; /* with the one that ends it, if it came */
    /* Of each, of all tokens at the rule's temperature (choose.h). They are the decoder's: a training pass
     * rounds elsewhere, so that on-policy ratios are 1 by definition, not by dividing the two. */
    const float *log_probabilities;
    int64_t count;
    bool ended; /* by its end, not by its length */
};

struct tide_rollout;

/* What _new takes, all of it at once. */
size_t tide_rollout_bytes(const struct tide_gpt_decoder *decoder, int64_t sequences, int64_t new_tokens);

/* For at most so many sequences and new tokens of each. decoder: in the graph of the machine, which must
 * outlive it. Caller frees. */
int tide_rollout_new(const struct tide_gpt_config *config, const struct tide_gpt_decoder *decoder,
                     struct tide_machine *machine, int64_t sequences, int64_t new_tokens,
                     struct tide_rollout **ret_rollout, struct tide_err *err);
void tide_rollout_free(struct tide_rollout *rollout);

/* -1 with a sentence: a prompt that is empty, has a token that is none, or leaves less room in the window
 * than new tokens may take; a rule that makes no sense. */
int tide_rollout_start(struct tide_rollout *rollout, const struct tide_rollout_request *request,
                       struct tide_err *err);

/* One more token in every slot. 1: there is more to do; 0: all sequences are whole; -1 with a sentence: the
 * logits are no numbers. */
int tide_rollout_next(struct tide_rollout *rollout, struct tide_err *err);

/* Tokens made since _start, in all sequences. */
int64_t tide_rollout_made(const struct tide_rollout *rollout);

/* Borrowed until the next _start. */
struct tide_completion tide_rollout_completion(const struct tide_rollout *rollout, int64_t sequence);

#endif
