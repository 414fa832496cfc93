/*
 * data.h - where batches come from: a text file by characters, a token file of llm.c, or sums made up here.
 *
 * tide_data_open -> tide_data_batch() for any step, in any order: batch number n is a pure function of the
 * seed and n, so that a run that is resumed sees what it would have seen. Files are read row by row, not
 * mapped: one that is cut would kill who reads it. After _open nothing is allocated.
 *
 * The last tenth of a file (and sums whose hash says so) is held out for evaluation.
 */
#ifndef TIDE_DATA_H
#define TIDE_DATA_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tide_data_kind {
    TIDE_DATA_TEXT,   /* bytes of a text file; a word is a byte that occurs in it */
    TIDE_DATA_TOKENS, /* llm.c: 256 int32 of head, then uint16 */
    TIDE_DATA_SUMS,   /* lines like "07+85=092", whose answers can be checked */
};

struct tide_data;

/* path NULL: sums. Caller frees. words: of the model, 0: as many as the data has. A text of one symbol, one
 * shorter than a sequence, tokens beyond `words`, a head that lies are refused. */
int tide_data_open(const char *path, uint64_t seed, int64_t sequence, int64_t words,
                   struct tide_data **ret_data, struct tide_err *err);
void tide_data_free(struct tide_data *data);

enum tide_data_kind tide_data_kind(const struct tide_data *data);
int64_t tide_data_words(const struct tide_data *data);
int64_t tide_data_count(const struct tide_data *data); /* tokens for training */

/* `sequences` rows of `sequence` tokens, and for each the one that follows; -1: not asked for. held_out:
 * from the part that is never trained on. -1: the file was cut since it was opened, or has a token now that
 * is none of the words; sums do not fail. One thread at a time. */
int tide_data_batch(const struct tide_data *data, uint64_t number, bool held_out, int64_t sequences,
                    int32_t *tokens, int32_t *targets, struct tide_err *err);

/* The byte that a token stands for; -1: none, or there is no such token. */
int tide_data_symbol(const struct tide_data *data, int32_t token);

/* A token as text (at most 4 bytes, NUL-terminated), and text as tokens. */
void tide_data_text(const struct tide_data *data, int32_t token, char out[static 8]);
/* Returns how many, at most `most`; -1 when a symbol is not in the vocabulary. */
int64_t tide_data_tokens(const struct tide_data *data, const char *text, int32_t *out, int64_t most,
                         struct tide_err *err);

/* Sums only: prompt number n of the held-out ones ("07+85=") and whether an answer is right. */
void tide_data_question(const struct tide_data *data, uint64_t number, char *prompt, size_t size);
bool tide_data_is_right(const char *prompt, const char *answer);

#endif
