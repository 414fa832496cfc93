/*
 * split.h - splits text into the pieces that tokens are made of: a tokenizer's published patterns, run by
 * PCRE2.
 *
 * A pattern splits a text into its matches and the text between them; the next pattern splits each of those
 * pieces. Patterns are written for Oniguruma, which `tokenizers` uses. Syntax that both libraries read alike
 * is taken as it is; \s, \S and scripts are rewritten to mean the same. Everything else (anchors, lookbehind,
 * \w, nested sets ...) is refused by name, so that no text is silently split in another way.
 *
 * Patterns are not trusted: they are interpreted, not compiled to machine code, with limits on steps, depth
 * and memory of each match. Text is valid UTF-8. Not thread-safe.
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

/* literal: the pattern is plain text. matches_only: drops text between matches. Caller frees with _free. */
int tide_split_new(const char *pattern, size_t len, bool literal, bool matches_only,
                   struct tide_split **ret_split, struct tide_err *err);
void tide_split_free(struct tide_split *split);

/* True if text between matches is dropped. */
bool tide_split_drops(const struct tide_split *split);

/* Finds the next match in text[at, len). ends: nothing follows the text; if false, a match that more text
 * could change does not count yet. 1: found, with its begin and end; 0: none, or none yet; -1. */
int tide_split_next(struct tide_split *split, const char *text, size_t len, size_t at, bool ends,
                    size_t *ret_begin, size_t *ret_end, struct tide_err *err);

#endif
