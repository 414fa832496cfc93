/*
 * vocabulary.h - the tokens of a model as text, and text as tokens.
 *
 * Three kinds: bytes, each token one byte that occurs in the training text (vocabulary.json, which is written
 * here with every checkpoint of such a model); byte pairs, the model's own tokenizer (tokenizer.h), whose
 * files lie beside it; numbers, where a directory has neither and a token is all there is.
 *
 * Files are not trusted: lengths and numbers are checked, everything is bounded. A vocabulary does not
 * change after it was read.
 */
#ifndef TIDE_VOCABULARY_H
#define TIDE_VOCABULARY_H

#include "base/err.h"
#include "train/data.h"

#include <stdio.h>

enum tide_vocabulary_kind { TIDE_VOCABULARY_BYTES, TIDE_VOCABULARY_PAIRS, TIDE_VOCABULARY_NUMBERS };

/* vocabulary.json of data of text or sums: {"kind": "bytes", "symbols": [10, 32, ...]}, the byte of each
 * token; with a tokenizer: {"kind": "pairs", "crc32": ...}, of its files; of tokens: {"kind": "numbers"}. */
struct tide_vocabulary;
void tide_vocabulary_write(const struct tide_vocabulary *vocabulary, FILE *out);

/* Of a model with so many tokens, from the directory that holds its weights. Caller frees. */
int tide_vocabulary_new(const char *dir, int64_t size, struct tide_vocabulary **ret_vocabulary,
                        struct tide_err *err);
/* Whether a directory has files that one is read from. */
bool tide_vocabulary_is_in(const char *dir);
/* Of data, which must outlive it. */
int tide_vocabulary_of_data(const struct tide_data *data, struct tide_vocabulary **ret_vocabulary,
                            struct tide_err *err);
void tide_vocabulary_free(struct tide_vocabulary *vocabulary);

/* Of a model with so many tokens (0: as many as the tokenizer has): of the one that was named, which may be a
 * file or a directory, as --tokenizer takes it. */
int tide_vocabulary_named(const char *tokenizer, int64_t size, struct tide_vocabulary **ret_vocabulary,
                          struct tide_err *err);

/* Its tokenizer, borrowed; NULL: there is none. */
const struct tide_tokenizer *tide_vocabulary_pairs(const struct tide_vocabulary *vocabulary);

/* What a run learns text with: the tokenizer that was named (NULL: none was), or that of the model in dir
 * (NULL: there is none). Caller frees; *ret_tokenizer is NULL where there is none. */
int tide_vocabulary_tokenizer(const char *named, const char *dir, int64_t size,
                              struct tide_tokenizer **ret_tokenizer, struct tide_err *err);

enum tide_vocabulary_kind tide_vocabulary_kind(const struct tide_vocabulary *vocabulary);

/* The bytes of a token, borrowed, and how many; they need not be whole runes. A number and a space for what
 * has no text, in `room`. */
const char *tide_vocabulary_text(const struct tide_vocabulary *vocabulary, int32_t token,
                                 char room[static 16], size_t *ret_len);

/* Those of several, one after another, as far as they fit, and a NUL. */
void tide_vocabulary_show(const struct tide_vocabulary *vocabulary, const int32_t *tokens, int64_t count,
                          char *out, size_t size);

/* The token that ends a text, -1: none; and one to begin with where there is no prompt. */
int32_t tide_vocabulary_end(const struct tide_vocabulary *vocabulary);
int32_t tide_vocabulary_begin(const struct tide_vocabulary *vocabulary);

/* Text as tokens: returns how many were written to `out`, which has room for _most; -1 when a symbol is none
 * of the model's or, of numbers ("17 42"), one is not a token. */
size_t tide_vocabulary_most(const struct tide_vocabulary *vocabulary, const char *text);
int64_t tide_vocabulary_tokens(const struct tide_vocabulary *vocabulary, const char *text, int32_t *out,
                               struct tide_err *err);

#endif
