/*
 * sample.h - text from a model: keys and values of earlier tokens are kept, so that a token costs one row.
 *
 * The decoder is two programs of the model's graph (tide_gpt_build_decoder), which share memory with those
 * that train. A prompt is read in blocks of rows; then each token is one row.
 *
 * tide_sampler_new -> _start, then _next as often as wanted (or _tokens, _accuracy, which do both) -> _free.
 * After _new nothing is allocated. When another program runs, what was said is forgotten: _start again.
 *
 * A model sees `window` tokens at a time: its positions, or as many as it was trained on. When they are full,
 * the older half is forgotten and the newer half read again, so that there is no end.
 */
#ifndef TIDE_SAMPLE_H
#define TIDE_SAMPLE_H

#include "rt/cpu/choose.h"
#include "rt/machine.h"
#include "train/gpt.h"
#include "train/vocabulary.h"

/* Fills the cache of a slot with the keys and values of tokens at positions 0 to count. */
void tide_decoder_read(const struct tide_gpt_decoder *decoder, struct tide_machine *machine, int slot,
                       const int32_t *tokens, int64_t count);

/* The same, of several slots together: puts tokens among those that are read next, of which there are `rows`,
 * until there are as many as are read at a time, or _flush. A prompt that would not fit begins anew, so that
 * it is cut as when it is read alone, and gets the same bits. */
void tide_decoder_put(const struct tide_gpt_decoder *decoder, struct tide_machine *machine, int slot,
                      const int32_t *tokens, int64_t count, int64_t *rows);
void tide_decoder_flush(const struct tide_gpt_decoder *decoder, struct tide_machine *machine, int64_t *rows);

/* Gives a slot what another has at positions 0 to count. */
void tide_decoder_copy(const struct tide_gpt_decoder *decoder, struct tide_machine *machine, int to, int from,
                       int64_t count);

/* Reads one token in each slot at its position; a token of -1 leaves its slot out. Returns the logits of what
 * follows in each slot, borrowed until something else runs. */
const float *tide_decoder_next(const struct tide_gpt_decoder *decoder, struct tide_machine *machine,
                               const int32_t *tokens, const int32_t *positions);

struct tide_sampler;

/* decoder: of one slot, in the graph of the machine, which must outlive it. Caller frees. */
int tide_sampler_new(const struct tide_gpt_config *config, const struct tide_gpt_decoder *decoder,
                     struct tide_machine *machine, struct tide_sampler **ret_sampler, struct tide_err *err);
void tide_sampler_free(struct tide_sampler *sampler);

/* Forgets everything and reads a prompt of at least one token. Of one longer than the window the end counts.
 */
void tide_sampler_start(struct tide_sampler *sampler, const int32_t *prompt, int64_t count);

/* Reads one more token. */
void tide_sampler_append(struct tide_sampler *sampler, int32_t token);

/* Of the token that follows: as many as the vocabulary has tokens. Borrowed until the next call. */
const float *tide_sampler_logits(struct tide_sampler *sampler);

/* Chooses the token that follows. -1: the logits are no numbers. The same for the same seed and
 * number of tokens since _start. */
int32_t tide_sampler_next(struct tide_sampler *sampler, const struct tide_sample_rule *rule);

/* Continues `prompt` by at most `most` tokens, or until `stop` (a token; -1: none) was made. Returns how many
 * were written to `out`. */
int64_t tide_sampler_tokens(struct tide_sampler *sampler, const int32_t *prompt, int64_t prompt_count,
                            const struct tide_sample_rule *rule, int32_t stop, int32_t *out, int64_t most);

/* Sums only: which share of `questions` held-out ones is answered exactly, greedily. */
double tide_sampler_accuracy(struct tide_sampler *sampler, const struct tide_data *data,
                             const struct tide_vocabulary *vocabulary, int64_t questions);

#endif
