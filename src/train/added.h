/*
 * added.h - tokens that are found in a text before it is split: <|endoftext|> and others added to a
 * vocabulary, with the flags that `tokenizers` gives them.
 *
 * The token that begins first wins; of several that begin there, the longest. A single-word token is not
 * found next to a letter, a digit or a mark; one that strips takes the white space before or after it.
 *
 * Zeros -> tide_added_add for each, then _settle -> _find -> _release. It does not change after _settle.
 */
#ifndef TIDE_ADDED_H
#define TIDE_ADDED_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_added_token {
    char *text;
    size_t len;
    int32_t id;
    bool single_word, strips_left, strips_right;
};

struct tide_added {
    struct tide_added_token *tokens; /* sorted by text, so that a token comes after its own prefixes */
    size_t count, longest;
    size_t first[257]; /* those that begin with byte b: [first[b], first[b + 1]) */
    bool strips_left;  /* one of them does */
};

void tide_added_release(struct tide_added *added);

/* Copies the text and ignores an empty one. Returns 0, or -1: out of memory. */
int tide_added_add(struct tide_added *added, const struct tide_added_token *token);

/* Returns 0, or -1 if two have the same text. */
int tide_added_settle(struct tide_added *added, struct tide_err *err);

struct tide_added_match {
    int32_t id;        /* -1: none */
    size_t begin, end; /* of the match; if there is none: none begins before `begin` */
};

/* Searches text[at, len), which is valid UTF-8. text[start, at) came before; at least its last rune must be
 * there. ends: nothing follows. */
struct tide_added_match tide_added_find(const struct tide_added *added, const char *text, size_t start,
                                        size_t at, size_t len, bool ends);

#endif
