/*
 * lm.h - the task of `tidemark train lm`: a language model learns to predict the next token.
 */
#ifndef TIDE_LM_H
#define TIDE_LM_H

#include "train/data.h"
#include "train/language.h"
#include "train/task.h"

/* Settings that were not given are TIDE_NOT_GIVEN. */
struct tide_lm_settings {
    int64_t batch, sequence, accumulate;
};

extern const struct tide_setting tide_lm_settings[];

struct tide_lm_options {
    struct tide_lm_settings settings;
    struct tide_language_options model;
    const char *data;           /* NULL: sums */
    const char *tokenizer;      /* for models without one: a directory, or a tokenizer.json */
    void (*tell)(double share); /* how much of a text is read; may be NULL */
    bool samples;               /* it will be asked for samples */
};

/* NULL: out of memory. The trainer that gets the task frees it. */
struct tide_task *tide_lm_new(const struct tide_lm_options *options);

#endif
