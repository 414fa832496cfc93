/*
 * tokenizer_private.h - what reading a tokenizer and running it share.
 */
#ifndef TIDE_TOKENIZER_PRIVATE_H
#define TIDE_TOKENIZER_PRIVATE_H

#include "train/added.h"
#include "train/pairs.h"
#include "train/split.h"
#include "train/tokenizer.h"

struct tide_tokenizer {
    int64_t size;
    const char *source;
    int32_t end;
    bool composes;                   /* NFC, between finding the raw and the composed tokens */
    struct tide_added raw, composed; /* added tokens found before NFC, and after it */
    struct tide_split *splits[TIDE_SPLITS];
    int split_count;
    struct tide_pairs *pairs;
    bool is_dropped; /* what splitting needs was freed */
    struct {
        char *bytes; /* NULL: there is none */
        size_t len;
    } files[TIDE_TOKENIZER_FILES];
};

#endif
