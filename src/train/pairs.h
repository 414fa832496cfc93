/*
 * pairs.h - tokens of bytes: a vocabulary, and the pairs that are joined into its tokens, as GPT-2 has them.
 *
 * In a piece of text the pair that comes first among the merges is joined, the leftmost of equal ones, until
 * none is left. Files write bytes as printable characters; here tokens are bytes again.
 *
 * tide_pairs_new -> _add_token for each, then _add_merge for each in their order -> any number of encoders.
 */
#ifndef TIDE_PAIRS_H
#define TIDE_PAIRS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_pairs;

/* For tokens numbered below `size`, whose texts have at most `bytes` together. whole_first: a piece that is a
 * token is that token, however its pairs would join. Caller frees. */
int tide_pairs_new(int64_t size, size_t bytes, bool whole_first, struct tide_pairs **ret_pairs,
                   struct tide_err *err);
void tide_pairs_free(struct tide_pairs *pairs);

/* A token as files write it. A number that is beyond, or another's, is refused. added: pairs do not join into
 * it, it has a text alone. */
int tide_pairs_add_token(struct tide_pairs *pairs, const char *text, size_t len, int64_t id, bool added,
                         struct tide_err *err);

/* The next pair to be joined. */
int tide_pairs_add_merge(struct tide_pairs *pairs, const char *left, size_t left_len, const char *right,
                         size_t right_len, struct tide_err *err);

/* Frees what joining needs. Tokens keep their texts; no encoder is made any more. */
void tide_pairs_drop(struct tide_pairs *pairs);

/* The bytes of a token, borrowed; NULL: it has none. */
const char *tide_pairs_text(const struct tide_pairs *pairs, int32_t token, size_t *ret_len);

/* The token that is exactly these bytes of text; -1: none. */
int32_t tide_pairs_token(const struct tide_pairs *pairs, const char *text, size_t len);

/* Joins pieces, and remembers what came of those that it met lately. One thread at a time; the pairs must
 * outlive it. */
struct tide_pairs_encoder;
struct tide_pairs_encoder *tide_pairs_encoder_new(const struct tide_pairs *pairs); /* NULL: no memory */
void tide_pairs_encoder_free(struct tide_pairs_encoder *encoder);

/* How many tokens a piece is, at *ret_tokens, borrowed until the next call; -1: a byte is not a token. */
int64_t tide_pairs_encode(struct tide_pairs_encoder *encoder, const char *piece, size_t len,
                          const int32_t **ret_tokens, struct tide_err *err);

#endif
