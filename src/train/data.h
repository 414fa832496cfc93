/*
 * data.h - where batches come from: a text file, read with the model's tokenizer or as bytes; a token file of
 * llm.c; or generated sums.
 *
 * tide_data_open -> tide_data_batch() for any step, in any order. Batch number n is a pure function of the
 * seed and n, so a resumed run sees what it would have seen. Files are read row by row, not mapped: reading a
 * mapped file that was truncated kills the process. After _open nothing is allocated.
 *
 * A tokenizer's tokens are written to an unnamed file in TMPDIR (else /var/tmp) as the text is read, two or
 * four bytes per token. So memory does not grow with the text, and batches come from that file.
 *
 * The last tenth of a file (and sums selected by a hash) is held out for evaluation.
 */
#ifndef TIDE_DATA_H
#define TIDE_DATA_H

#include "base/err.h"
#include "train/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tide_data_kind {
    TIDE_DATA_TEXT,      /* bytes of a text file; a token is a byte that occurs in it */
    TIDE_DATA_TOKENS,    /* llm.c: a header of 256 int32, then uint16 */
    TIDE_DATA_SUMS,      /* lines like "07+85=092", whose answers can be checked */
    TIDE_DATA_TOKENIZED, /* a text file in the tokens of a tokenizer */
};

struct tide_data_source {
    const char *path; /* NULL: sums */
    uint64_t seed;
    int64_t sequence;
    int64_t vocabulary;               /* of the model; 0: that of the data or the tokenizer */
    struct tide_tokenizer *tokenizer; /* of a text; NULL: tokens are numbers, or single bytes */
    void (*tell)(double share);       /* called now and then with how much of a text is read; may be NULL */
};

/* Others read it and change nothing. */
struct tide_data {
    enum tide_data_kind kind;
    uint64_t seed;
    int64_t sequence;
    struct tide_vocabulary *vocabulary; /* after a text is read, its tokenizer can read no other */
    size_t head, width;                 /* of a file: bytes before the tokens, and per token */
    int64_t count, train_count;         /* all tokens, and those before the held-out part */
    int fd;                             /* -1: no file */
    size_t file_bytes;
    uint8_t *row;    /* of a file: one sequence and the next token, as stored */
    char shown[256]; /* the path, for messages */
};

/* Caller frees. Takes ownership of the tokenizer, even if it fails. Refuses a text of one symbol, a text
 * shorter than a sequence, tokens beyond `vocabulary`, a wrong header, and sums for a model that has a
 * tokenizer. */
int tide_data_open(const struct tide_data_source *source, struct tide_data **ret_data, struct tide_err *err);
void tide_data_free(struct tide_data *data);

/* Fills in `sequences` rows of `sequence` tokens, and for each token the next one as target; -1: no target.
 * held_out: from the part that is never trained on. Returns -1 if the file was truncated since it was opened,
 * or now holds an invalid token; sums do not fail. Not thread-safe. */
int tide_data_batch(const struct tide_data *data, uint64_t number, bool held_out, int64_t sequences,
                    int32_t *tokens, int32_t *targets, struct tide_err *err);

/* For sums only: question number n ("07+85="), held out or not; and true if an answer is right. */
void tide_data_question(const struct tide_data *data, uint64_t number, bool held_out, char *prompt,
                        size_t size);
bool tide_data_is_right(const char *prompt, const char *answer);

/* Writes the right answer to a prompt, "092"; returns its length. */
int tide_data_answer(const char *prompt, char *answer, size_t size);

#endif
