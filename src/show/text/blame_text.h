/*
 * blame_text.h - culprits as text and as a JSON document.
 */
#ifndef TIDE_BLAME_TEXT_H
#define TIDE_BLAME_TEXT_H

#include "assess/blame.h"
#include "base/buf.h"

#include <stdio.h>

/* The three parts of a culprit's line; each appends escaped text, or nothing. The amount: "203 KiB/step", or
 * the bytes that culprits are ranked by. */
void tide_culprit_put_amount(struct tide_buf *buf, const struct tide_blame *blame,
                             const struct tide_culprit *culprit);
/* Its part of the whole: "97 % of the growth on the GPU", "bounded: rose and stopped". */
void tide_culprit_put_part(struct tide_buf *buf, const struct tide_blame *blame,
                           const struct tide_culprit *culprit);
/* How it allocates: "1 block of 203 KiB per step, never freed". */
void tide_culprit_put_habit(struct tide_buf *buf, const struct tide_blame *blame,
                            const struct tide_culprit *culprit);

/* "validation's +4.1 GiB comes from eval.py:31 evaluate and is freed each time"; escaped. */
void tide_healthy_put(struct tide_buf *buf, const struct tide_history *history,
                      const struct tide_healthy *healthy);

/* Prints lines indented by two: at most `most` culprits with at most `frames` frames each, then the bounded
 * sites and the other healthy ones. */
void tide_blame_print(const struct tide_blame *blame, const struct tide_history *history, size_t most,
                      size_t frames, FILE *out);

/* Prints only the healthy ones of these lines. */
void tide_healthy_print(const struct tide_blame *blame, const struct tide_history *history, FILE *out);

/* Writes the document "tidemark.blame/1". */
void tide_blame_json(const struct tide_blame *blame, const struct tide_history *history, const char *source,
                     FILE *out);

#endif
