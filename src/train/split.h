/*
 * split.h - text cut into the pieces that tokens are made in: a tokenizer's published patterns, run by PCRE2.
 *
 * A pattern cuts a text into what it matches and what lies between the matches, and the next one cuts each of
 * those pieces. Patterns are written for Oniguruma, which `tokenizers` runs them with. What the two libraries
 * read alike is taken as it is; \s, \S and scripts are rewritten so that they mean the same; everything else
 * (anchors, looking behind, \w, sets within sets ...) is refused by name: no text is cut in another way
 * without a word.
 *
 * Patterns are not trusted: they are interpreted, not compiled to machine code, with a limit on steps,
 * depth and memory of each match. Text is valid UTF-8. One thread at a time.
 */
#ifndef TIDE_SPLIT_H
#define TIDE_SPLIT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* GPT-2's own. */
#define TIDE_SPLIT_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { TIDE_SPLITS = 8 };

struct tide_split;

/* literal: the pattern is text to be found. matches_only: what lies between matches is left out. Caller frees
 * with tide_split_free. */
int tide_split_new(const char *pattern, size_t len, bool literal, bool matches_only,
                   struct tide_split **ret_split, struct tide_err *err);
void tide_split_free(struct tide_split *split);

/* Whether text between matches is left out. */
bool tide_split_drops(const struct tide_split *split);

/* The next match in text[at, len). ends: nothing follows the text; else what could be another match with more
 * text is none yet. 1: found, with its begin and end; 0: there is none, or none yet; -1. */
int tide_split_next(struct tide_split *split, const char *text, size_t len, size_t at, bool ends,
                    size_t *ret_begin, size_t *ret_end, struct tide_err *err);

#endif
