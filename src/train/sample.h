/*
 * sample.h - text from a model: keys and values of what was said are kept, so that a token costs one row.
 *
 * The decoder is a graph of its own, of one sequence and one row, whose parameters are those of a model that
 * is there: a training machine's (then its values lie where the passes of training lie, for the two never run
 * at the same time, and nothing is taken from the system) or one that was made for it.
 *
 * tide_sampler_bytes -> floor of the plan of the training machine -> tide_sampler_new -> _text, _question ...
 * -> _free.
 */
#ifndef TIDE_SAMPLE_H
#define TIDE_SAMPLE_H

#include "rt/machine.h"
#include "train/data.h"
#include "train/gpt.h"

struct tide_sample_rule {
    double temperature; /* 0: the likeliest */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
};

struct tide_sampler;

/* What the decoder of a model takes of the part of the arena that passes share. */
int tide_sampler_bytes(const struct tide_gpt_config *config, struct tide_matmuls *matmuls, size_t *ret_bytes,
                       struct tide_err *err);

/* host: of a graph of the same model, with room for it. Caller frees; host and matmuls must outlive it. */
int tide_sampler_new(const struct tide_gpt_config *config, struct tide_matmuls *matmuls,
                     struct tide_machine *host, struct tide_sampler **ret_sampler, struct tide_err *err);
void tide_sampler_free(struct tide_sampler *sampler);

/* Continues `prompt` by at most `most` tokens, or until `stop` (a token; -1: none) was made. Returns how many
 * were written to `out`; allocates nothing. A prompt longer than the model's positions keeps its end. */
int64_t tide_sampler_tokens(struct tide_sampler *sampler, const int32_t *prompt, int64_t prompt_count,
                            const struct tide_sample_rule *rule, int32_t stop, int32_t *out, int64_t most);

/* Sums only: which share of `questions` held-out ones is answered exactly, greedily. */
double tide_sampler_accuracy(struct tide_sampler *sampler, const struct tide_data *data, int64_t questions);

#endif
