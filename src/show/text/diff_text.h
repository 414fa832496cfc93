/*
 * diff_text.h - a difference between recordings, as text and as a JSON document.
 */
#ifndef TIDE_DIFF_TEXT_H
#define TIDE_DIFF_TEXT_H

#include "assess/diff.h"

#include <stdio.h>

/* Prints the answer, then at most `most` call sites with at most `frames` frames each, and as many roles. */
void tide_diff_print(const struct tide_diff *diff, size_t most, size_t frames, FILE *out);

/* Writes the document "tidemark.diff/1" with at most `most` call sites. */
void tide_diff_json(const struct tide_diff *diff, size_t most, FILE *out);

#endif
