/*
 * tokenizer.h - text to tokens with the model's own tokenizer: byte-level BPE of Hugging Face, from
 * tokenizer.json, or from vocab.json and merges.txt.
 *
 * The result equals that of `tokenizers`, token for token, without what is put around a text
 * (add_special_tokens=False): added tokens are found first (added.h), then the text is normalized if the
 * tokenizer says so (NFC), split by patterns (split.h) and joined (pairs.h). Other models, normalizers and
 * pre-tokenizers are refused by name.
 *
 * `tokenizers` does not take bytes that are not UTF-8. Here they end the text before them and become byte
 * tokens: every file can be read, and what is read can be written again.
 *
 * Files are not trusted: lengths and numbers are checked, everything is bounded. A tokenizer does not change
 * after it was read. Not thread-safe, because patterns have their own scratch.
 */
#ifndef TIDE_TOKENIZER_H
#define TIDE_TOKENIZER_H

#include "train/added.h"
#include "train/pairs.h"
#include "train/split.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The files of a tokenizer that a checkpoint contains, in the order in which they are written. */
enum { TIDE_TOKENIZER_FILES = 6 };
extern const char *const tide_tokenizer_names[TIDE_TOKENIZER_FILES];

/* Others read it and change nothing. */
struct tide_tokenizer {
    int64_t size;                    /* one more than the highest number of a token */
    const char *source;              /* the file that has the vocabulary */
    int32_t end;                     /* the token that ends a text; -1: none */
    bool composes;                   /* NFC, between finding the raw and the composed tokens */
    struct tide_added raw, composed; /* added tokens found before NFC, and after it */
    struct tide_split *splits[TIDE_SPLITS];
    int split_count;
    struct tide_pairs *pairs;
    bool is_dropped; /* what splitting needs was freed */
    struct {
        char *bytes; /* NULL: there is none */
        size_t len;
    } files[TIDE_TOKENIZER_FILES];
};

/* Reads a directory, or a tokenizer.json. size: the model's vocabulary, 0: the tokenizer's own; larger
 * numbers are refused. 0: read, caller frees; 1: there is none; -1. */
int tide_tokenizer_new(const char *path, int64_t size, struct tide_tokenizer **ret_tokenizer,
                       struct tide_err *err);
void tide_tokenizer_free(struct tide_tokenizer *tokenizer);

/* Frees what splitting text needs, some ten megabytes for GPT-2's; texts of tokens and files stay. After it
 * no text can be split. */
void tide_tokenizer_drop(struct tide_tokenizer *tokenizer);

/* Returns how many bytes it holds now: files, texts of tokens and, unless dropped, the tables of pairs. */
size_t tide_tokenizer_bytes(const struct tide_tokenizer *tokenizer);

/* The same from the contents of a tokenizer.json or, with merges, of the two files; for tests and fuzzing. */
int tide_tokenizer_parse(const char *text, size_t len, const char *merges, size_t merges_len, int64_t size,
                         struct tide_tokenizer **ret_tokenizer, struct tide_err *err);

/* A checksum of the files that decide what a token means. */
uint32_t tide_tokenizer_checksum(const struct tide_tokenizer *tokenizer);

/* Where a text comes from and where its tokens go. read: at most `room` bytes; 0 at the end; -1 with err.
 * take: 0, or -1 with err. */
struct tide_tokenizing {
    ssize_t (*read)(void *context, char *to, size_t room, struct tide_err *err);
    int (*take)(void *context, const int32_t *tokens, size_t count, struct tide_err *err);
    void *context;
};

/* Tokenizes a whole text in memory that does not grow with it. A piece longer than 256 KiB is cut. */
int tide_tokenizer_run(const struct tide_tokenizer *tokenizer, const struct tide_tokenizing *way,
                       struct tide_err *err);

/* Returns how many were written to out, which has room for tide_tokenizer_most(len): a text has at most one
 * token per byte, or three if it is normalized. */
int64_t tide_tokenizer_tokens(const struct tide_tokenizer *tokenizer, const char *text, size_t len,
                              int32_t *out, struct tide_err *err);

/* Returns the most tokens of a text of that many bytes. */
size_t tide_tokenizer_most(const struct tide_tokenizer *tokenizer, size_t len);

#endif
