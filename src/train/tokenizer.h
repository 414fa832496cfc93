/*
 * tokenizer.h - text as the tokens of a model, as the model's own tokenizer has it: byte-level BPE of Hugging
 * Face, from tokenizer.json, or from vocab.json and merges.txt.
 *
 * What a text becomes is what `tokenizers` makes of it, to the token, without what is put around a text
 * (add_special_tokens=False): added tokens are found first (added.h), then the text is normalized where the
 * tokenizer says so (NFC), cut by patterns (split.h) and joined (pairs.h). Other models, normalizers and ways
 * to cut are refused by name.
 *
 * Bytes that are not UTF-8, which `tokenizers` does not take, end the text before them and are tokens of
 * bytes: every file can be read, and what is read can be written again.
 *
 * Files are not trusted: lengths and numbers are checked, everything is bounded. A tokenizer does not
 * change after it was read. One thread at a time, for the patterns have scratch of their own.
 */
#ifndef TIDE_TOKENIZER_H
#define TIDE_TOKENIZER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The files of a tokenizer that a checkpoint carries, in the order in which they are written. */
enum { TIDE_TOKENIZER_FILES = 6 };
extern const char *const tide_tokenizer_names[TIDE_TOKENIZER_FILES];

struct tide_tokenizer;

/* Of a directory, or a tokenizer.json. size: of the model's vocabulary, 0: as it has; numbers beyond are
 * refused. 0: read, caller frees; 1: there is none; -1. */
int tide_tokenizer_new(const char *path, int64_t size, struct tide_tokenizer **ret_tokenizer,
                       struct tide_err *err);
void tide_tokenizer_free(struct tide_tokenizer *tokenizer);

/* Frees what cutting text needs, some ten megabytes for GPT-2's: texts of tokens and files stay. After it no
 * text may be cut. */
void tide_tokenizer_drop(struct tide_tokenizer *tokenizer);

/* The same from the contents of a tokenizer.json or, with merges, of the two files; for tests and fuzzing. */
int tide_tokenizer_parse(const char *text, size_t len, const char *merges, size_t merges_len, int64_t size,
                         struct tide_tokenizer **ret_tokenizer, struct tide_err *err);

int64_t tide_tokenizer_size(const struct tide_tokenizer *tokenizer); /* one more than the highest number */
const char *
tide_tokenizer_source(const struct tide_tokenizer *tokenizer);      /* the file that has the vocabulary */
int32_t tide_tokenizer_end(const struct tide_tokenizer *tokenizer); /* that ends a text; -1: none */

/* What was read, so that it can be written again: borrowed; NULL: there is no such file. And a checksum of
 * those that decide what a token means. */
const char *tide_tokenizer_file(const struct tide_tokenizer *tokenizer, int number, size_t *ret_len);
uint32_t tide_tokenizer_checksum(const struct tide_tokenizer *tokenizer);

/* The bytes of a token, borrowed, which need not be whole runes; NULL: it has none. */
const char *tide_tokenizer_text(const struct tide_tokenizer *tokenizer, int32_t token, size_t *ret_len);

/* Where a text comes from and its tokens go. read: at most `room` bytes; 0 at the end; -1 with err. take: 0,
 * or -1 with err. */
struct tide_tokenizing {
    ssize_t (*read)(void *context, char *to, size_t room, struct tide_err *err);
    int (*take)(void *context, const int32_t *tokens, size_t count, struct tide_err *err);
    void *context;
};

/* A whole text, in a memory that does not grow with it. A piece longer than 256 KiB is cut. */
int tide_tokenizer_run(const struct tide_tokenizer *tokenizer, const struct tide_tokenizing *way,
                       struct tide_err *err);

/* Returns how many were written to out, which has room for len (no text has more tokens than bytes, or than
 * three times as many where it is normalized: see _most). */
int64_t tide_tokenizer_tokens(const struct tide_tokenizer *tokenizer, const char *text, size_t len,
                              int32_t *out, struct tide_err *err);

/* How many tokens a text of so many bytes has at most. */
size_t tide_tokenizer_most(const struct tide_tokenizer *tokenizer, size_t len);

#endif
