/*
 * data.h - where batches come from: a text file, by its model's tokenizer or by bytes; a token file of llm.c;
 * or sums made up here.
 *
 * tide_data_open -> tide_data_batch() for any step, in any order: batch number n is a pure function of the
 * seed and n, so that a run that is resumed sees what it would have seen. Files are read row by row, not
 * mapped: a mapped file that is truncated kills its reader. After _open nothing is allocated.
 *
 * What a tokenizer makes of a text is written, as the text is read, to a file without a name in TMPDIR (else
 * /var/tmp), two or four bytes for a token: memory does not grow with the text, and batches come from there.
 *
 * The last tenth of a file (and sums whose hash says so) is held out for evaluation.
 */
#ifndef TIDE_DATA_H
#define TIDE_DATA_H

#include "base/err.h"
#include "train/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tide_data_kind {
    TIDE_DATA_TEXT,      /* bytes of a text file; a token is a byte that occurs in it */
    TIDE_DATA_TOKENS,    /* llm.c: 256 int32 of head, then uint16 */
    TIDE_DATA_SUMS,      /* lines like "07+85=092", whose answers can be checked */
    TIDE_DATA_TOKENIZED, /* a text file in the tokens of a tokenizer */
};

struct tide_data_source {
    const char *path; /* NULL: sums */
    uint64_t seed;
    int64_t sequence;
    int64_t vocabulary;               /* of the model; 0: as many as the data, or the tokenizer, has */
    struct tide_tokenizer *tokenizer; /* what tokens mean; NULL: nothing, or a byte of the text each */
    void (*tell)(double share);       /* from time to time, how much of a text is read; may be NULL */
};

struct tide_data;

/* Caller frees. The tokenizer belongs to the data from now on, whether they could be opened or not. A text of
 * one symbol, one shorter than a sequence, tokens beyond `vocabulary`, a head that lies, and sums for a model
 * that has a tokenizer are refused. */
int tide_data_open(const struct tide_data_source *source, struct tide_data **ret_data, struct tide_err *err);
void tide_data_free(struct tide_data *data);

enum tide_data_kind tide_data_kind(const struct tide_data *data);
int64_t tide_data_vocabulary(const struct tide_data *data);
int64_t tide_data_count(const struct tide_data *data); /* tokens for training */
/* For the texts of its tokens and its files; NULL: none. */
const struct tide_tokenizer *tide_data_tokenizer(const struct tide_data *data);

/* `sequences` rows of `sequence` tokens, and for each the one that follows; -1: not asked for. held_out:
 * from the part that is never trained on. -1: the file was cut since it was opened, or has a token now that
 * is none of the tokens; sums do not fail. One thread at a time. */
int tide_data_batch(const struct tide_data *data, uint64_t number, bool held_out, int64_t sequences,
                    int32_t *tokens, int32_t *targets, struct tide_err *err);

/* The byte that a token stands for; -1: none, or there is no such token. */
int tide_data_symbol(const struct tide_data *data, int32_t token);

/* Sums only: prompt number n ("07+85="), of the held-out ones or of the others, and whether an answer is
 * right.
 */
void tide_data_question(const struct tide_data *data, uint64_t number, bool held_out, char *prompt,
                        size_t size);
bool tide_data_is_right(const char *prompt, const char *answer);

/* The right one to a prompt, "092"; returns how long it is. */
int tide_data_answer(const char *prompt, char *answer, size_t size);

#endif
