/*
 * pairs.h - GPT-2's words: bytes joined pair by pair, from vocab.json and merges.txt.
 *
 * A text is cut into pieces (words with the space before them, numbers, other symbols, white space), and in
 * each piece the pair that comes first in merges.txt is joined until none is left. The files write bytes as
 * printable characters; here words are bytes again.
 *
 * Outside of ASCII the C library says what a letter is, which differs from the original for digits of other
 * scripts. A piece longer than 4096 bytes is encoded in parts of that length.
 */
#ifndef TIDE_PAIRS_H
#define TIDE_PAIRS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct tide_pairs;

/* From the contents of the two files, for a model with so many words. Caller frees. */
int tide_pairs_new(const char *vocabulary, size_t vocabulary_len, const char *merges, size_t merges_len,
                   int64_t words, struct tide_pairs **ret_pairs, struct tide_err *err);
void tide_pairs_free(struct tide_pairs *pairs);

/* The bytes of a word, borrowed; NULL: it has none. */
const char *tide_pairs_text(const struct tide_pairs *pairs, int32_t token, size_t *ret_len);

/* The word that is exactly these bytes; -1: none. */
int32_t tide_pairs_word(const struct tide_pairs *pairs, const char *text, size_t len);

/* Returns how many were written to out, which has room for len; -1: a byte is no word. */
int64_t tide_pairs_tokens(const struct tide_pairs *pairs, const char *text, size_t len, int32_t *out,
                          struct tide_err *err);

#endif
