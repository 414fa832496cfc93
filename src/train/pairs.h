/*
 * pairs.h - byte-pair encoding as in GPT-2: a vocabulary, and the pairs that are merged into its tokens.
 *
 * In a piece of text, the pair that comes first among the merges is joined, the leftmost of equal ones, until
 * none is left. Files write bytes as printable characters; here tokens are bytes again.
 *
 * tide_pairs_new -> _add_token for each, then _add_merge for each in order -> any number of encoders.
 */
#ifndef TIDE_PAIRS_H
#define TIDE_PAIRS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_pairs;

/* For tokens numbered below `size`, whose texts have at most `bytes` bytes together. whole_first: a piece
 * that is a token becomes that token, however its pairs would join. Caller frees. */
int tide_pairs_new(int64_t size, size_t bytes, bool whole_first, struct tide_pairs **ret_pairs,
                   struct tide_err *err);
void tide_pairs_free(struct tide_pairs *pairs);

/* Adds a token as files write it. Refuses a number that is too large or taken. added: no pairs join into it;
 * it only has a text. */
int tide_pairs_add_token(struct tide_pairs *pairs, const char *text, size_t len, int64_t id, bool added,
                         struct tide_err *err);

/* Adds the next pair to join. */
int tide_pairs_add_merge(struct tide_pairs *pairs, const char *left, size_t left_len, const char *right,
                         size_t right_len, struct tide_err *err);

/* Frees what joining needs. Tokens keep their texts; no more encoders can be made. */
void tide_pairs_drop(struct tide_pairs *pairs);

/* Returns how many bytes it holds now. */
size_t tide_pairs_bytes(const struct tide_pairs *pairs);

/* Returns the bytes of a token, borrowed; NULL: it has none. */
const char *tide_pairs_text(const struct tide_pairs *pairs, int32_t token, size_t *ret_len);

/* Returns the token that is exactly these bytes; -1: none. */
int32_t tide_pairs_token(const struct tide_pairs *pairs, const char *text, size_t len);

/* Joins pieces and caches the results of recent ones. Not thread-safe; the pairs must outlive it. */
struct tide_pairs_encoder;
struct tide_pairs_encoder *tide_pairs_encoder_new(const struct tide_pairs *pairs); /* NULL: no memory */
void tide_pairs_encoder_free(struct tide_pairs_encoder *encoder);

/* Returns how many tokens a piece has, in *ret_tokens, borrowed until the next call; -1: a byte has no
 * token. */
int64_t tide_pairs_encode(struct tide_pairs_encoder *encoder, const char *piece, size_t len,
                          const int32_t **ret_tokens, struct tide_err *err);

#endif
