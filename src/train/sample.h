/*
 * sample.h - text from a model, with a KV cache, so that a token costs one row.
 *
 * The decoder is two programs of the model's graph (tide_gpt_build_decoder), which share memory with those
 * that train. A prompt is read in blocks of rows; then each token is one row.
 *
 * tide_sampler_new -> _start, then _next as often as wanted (or _tokens, _accuracy, which do both) -> _free.
 * After _new nothing is allocated. Another program overwrites the cache: call _start again after it.
 *
 * A model sees `window` tokens at a time: its positions, or as many as it was trained on. When the window is
 * full, the older half is forgotten and the newer half read again, so that generation never ends.
 */
#ifndef TIDE_SAMPLE_H
#define TIDE_SAMPLE_H

#include "rt/cpu/choose.h"
#include "rt/machine.h"
#include "train/gpt.h"
#include "train/data.h"

/* Fills the cache of a slot with the keys and values of tokens at positions 0 to count. */
void tide_decoder_read(const struct tide_gpt_decoder *decoder, struct tide_machine *machine, int slot,
                       const int32_t *tokens, int64_t count);

/* The same for several slots together: collects tokens (`rows` so far) until a block is full, or until
 * _flush. A prompt that would not fit starts a new block, so that it is cut as if it were read alone and gets
 * the same bits. */
void tide_decoder_put(const struct tide_gpt_decoder *decoder, struct tide_machine *machine, int slot,
                      const int32_t *tokens, int64_t count, int64_t *rows);
void tide_decoder_flush(const struct tide_gpt_decoder *decoder, struct tide_machine *machine, int64_t *rows);

/* Copies positions 0 to count from one slot to another. */
void tide_decoder_copy(const struct tide_gpt_decoder *decoder, struct tide_machine *machine, int to, int from,
                       int64_t count);

/* Reads one token in each slot at its position; a token of -1 skips its slot. Returns the logits of the next
 * token in each slot, borrowed until something else runs. */
const float *tide_decoder_next(const struct tide_gpt_decoder *decoder, struct tide_machine *machine,
                               const int32_t *tokens, const int32_t *positions);

struct tide_sampler;

/* decoder: with one slot, in the graph of the machine, which must outlive it. Caller frees. */
int tide_sampler_new(const struct tide_gpt_config *config, const struct tide_gpt_decoder *decoder,
                     struct tide_machine *machine, struct tide_sampler **ret_sampler, struct tide_err *err);
void tide_sampler_free(struct tide_sampler *sampler);

/* Forgets everything and reads a prompt of at least one token; of a longer one than the window, only the
 * end. */
void tide_sampler_start(struct tide_sampler *sampler, const int32_t *prompt, int64_t count);

/* Reads one more token. */
void tide_sampler_append(struct tide_sampler *sampler, int32_t token);

/* Returns the logits of the next token, one per token of the vocabulary. Borrowed until the next call. */
const float *tide_sampler_logits(struct tide_sampler *sampler);

/* Chooses the next token; -1: the logits are not finite. The same for the same seed and number of tokens
 * since _start. */
int32_t tide_sampler_next(struct tide_sampler *sampler, const struct tide_sample_rule *rule);

/* Continues `prompt` by at most `most` tokens, or until the token `stop` (-1: none). Returns how many were
 * written to `out`. */
int64_t tide_sampler_tokens(struct tide_sampler *sampler, const int32_t *prompt, int64_t prompt_count,
                            const struct tide_sample_rule *rule, int32_t stop, int32_t *out, int64_t most);

/* For sums only: the share of `questions` held-out questions that greedy decoding answers exactly. */
double tide_sampler_accuracy(struct tide_sampler *sampler, const struct tide_data *data,
                             const struct tide_vocabulary *vocabulary, int64_t questions);

#endif
