/*
 * vocabulary.h - the tokens of a model as text, and text as tokens.
 *
 * There are three kinds. Bytes: each token is one byte that occurs in the training text (vocabulary.json,
 * written with every checkpoint of such a model). Pairs: the model's own tokenizer (tokenizer.h), whose files
 * are next to it. Numbers: the directory has neither, and tokens have no text.
 *
 * Files are not trusted: lengths and numbers are checked, everything is bounded. A vocabulary does not change
 * after it was read.
 */
#ifndef TIDE_VOCABULARY_H
#define TIDE_VOCABULARY_H

#include "base/err.h"
#include "train/tokenizer.h"

#include <stdio.h>

enum tide_vocabulary_kind { TIDE_VOCABULARY_BYTES, TIDE_VOCABULARY_PAIRS, TIDE_VOCABULARY_NUMBERS };

/* Others read it and change nothing. */
struct tide_vocabulary {
    enum tide_vocabulary_kind kind;
    int64_t size;                     /* tokens */
    struct tide_tokenizer *tokenizer; /* of pairs; else NULL */
    int symbol_count;                 /* of bytes; else 0 */
    char symbols[256];                /* the byte of each token */
    int16_t token_of[256];            /* -1: the byte has none */
};

/* Writes vocabulary.json. Bytes: {"kind": "bytes", "symbols": [10, 32, ...]}, the byte of each token; pairs:
 * {"kind": "pairs", "crc32": ...}, of the tokenizer's files; {"kind": "numbers"}. */
void tide_vocabulary_write(const struct tide_vocabulary *vocabulary, FILE *out);

/* For a model with `size` tokens, from the directory that holds its weights. Caller frees. */
int tide_vocabulary_new(const char *dir, int64_t size, struct tide_vocabulary **ret_vocabulary,
                        struct tide_err *err);
/* True if a directory has files to read one from. */
bool tide_vocabulary_is_in(const char *dir);
/* That of a tokenizer, whose ownership it takes, even if it fails; NULL: one of numbers. size 0: that of the
 * tokenizer. */
int tide_vocabulary_with(struct tide_tokenizer *tokenizer, int64_t size,
                         struct tide_vocabulary **ret_vocabulary, struct tide_err *err);
/* Makes one of numbers one of the bytes that occur. */
void tide_vocabulary_know(struct tide_vocabulary *vocabulary, const bool occurs[static 256]);
void tide_vocabulary_free(struct tide_vocabulary *vocabulary);

/* Finds the tokenizer that a run reads text with: the named one (NULL: none was), or that of the model in dir
 * (NULL: no model). If both are there, they must be the same. Caller frees; *ret_tokenizer is NULL if there
 * is none. */
int tide_vocabulary_tokenizer(const char *named, const char *dir, int64_t size,
                              struct tide_tokenizer **ret_tokenizer, struct tide_err *err);

/* Returns the bytes of a token, borrowed; they need not be whole runes. For a token without text: its number
 * and a space, in `room`. */
const char *tide_vocabulary_text(const struct tide_vocabulary *vocabulary, int32_t token,
                                 char room[static 16], size_t *ret_len);

/* Writes the texts of several tokens, as far as they fit, and a NUL. */
void tide_vocabulary_show(const struct tide_vocabulary *vocabulary, const int32_t *tokens, int64_t count,
                          char *out, size_t size);

/* Return the token that ends a text, -1: none; and one to begin with if there is no prompt. */
int32_t tide_vocabulary_end(const struct tide_vocabulary *vocabulary);
int32_t tide_vocabulary_begin(const struct tide_vocabulary *vocabulary);

/* Text to tokens: returns how many were written to `out`, which has room for _most; -1 if the model does not
 * know a symbol or, for numbers ("17 42"), one is not a token. */
size_t tide_vocabulary_most(const struct tide_vocabulary *vocabulary, const char *text);
int64_t tide_vocabulary_tokens(const struct tide_vocabulary *vocabulary, const char *text, int32_t *out,
                               struct tide_err *err);

#endif
