/*
 * added.h - tokens that are found in a text before it is cut: <|endoftext|> and what else was added to a
 * vocabulary, with the flags that `tokenizers` gives them.
 *
 * The one that begins first is taken, and of several that begin there the longest. One that must be a single
 * word is not found beside a letter, a digit or a mark; one that strips takes the white space before or after
 * it.
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
    struct tide_added_token
        *tokens; /* sorted by their text, so that a longer one comes after its beginning */
    size_t count, longest;
    size_t first[257]; /* those that begin with byte b are [first[b], first[b + 1]) */
    bool strips_left;  /* one of them does */
};

void tide_added_release(struct tide_added *added);

/* Takes a copy of the text. Empty texts are none. 0, or -1: no memory. */
int tide_added_add(struct tide_added *added, const struct tide_added_token *token);

/* 0, or -1 where two have the same text. */
int tide_added_settle(struct tide_added *added, struct tide_err *err);

struct tide_added_match {
    int32_t id;        /* -1: none */
    size_t begin, end; /* of it; where there is none, before `begin` there is none for certain */
};

/* In text[at, len), which is valid UTF-8; text[start, at) is what came before, of which the last rune must be
 * there. ends: nothing follows. */
struct tide_added_match tide_added_find(const struct tide_added *added, const char *text, size_t start,
                                        size_t at, size_t len, bool ends);

#endif
