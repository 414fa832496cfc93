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
    bool composes;                   /* NFC, after the raw tokens were found and before the others are */
    struct tide_added raw, composed; /* tokens that are found before it, and after it */
    struct tide_split *splits[TIDE_SPLITS];
    int split_count;
    struct tide_pairs *pairs;
    bool is_dropped; /* what cutting needs is gone */
    struct {
        char *bytes; /* NULL: there is none */
        size_t len;
    } files[TIDE_TOKENIZER_FILES];
};

#endif
