/*
 * blame_text.h - culprits in words and as a document.
 */
#ifndef TIDE_BLAME_TEXT_H
#define TIDE_BLAME_TEXT_H

#include "assess/blame.h"
#include "base/buf.h"

#include <stdio.h>

/* The parts of what is said of a culprit, appended to a buffer; escaped. Of some there is nothing to say.
 * "203 KiB/step", or the bytes that it is ordered by; */
void tide_culprit_put_amount(struct tide_buf *buf, const struct tide_blame *blame,
                             const struct tide_culprit *culprit);
/* "97 % of the growth on the GPU", "bounded: rose and stopped"; */
void tide_culprit_put_part(struct tide_buf *buf, const struct tide_blame *blame,
                           const struct tide_culprit *culprit);
/* "1 block of 203 KiB per step, never freed". */
void tide_culprit_put_habit(struct tide_buf *buf, const struct tide_blame *blame,
                            const struct tide_culprit *culprit);

/* "validation's +4.1 GiB comes from eval.py:31 evaluate and is freed each time"; escaped. */
void tide_healthy_put(struct tide_buf *buf, const struct tide_history *history,
                      const struct tide_healthy *healthy);

/* Lines for a person, indented by two, at most `most` culprits with at most `frames` frames each; what is
 * bounded comes after them, with what else is healthy. */
void tide_blame_print(const struct tide_blame *blame, const struct tide_history *history, size_t most,
                      size_t frames, FILE *out);

/* Of these lines the healthy ones alone. */
void tide_healthy_print(const struct tide_blame *blame, const struct tide_history *history, FILE *out);

/* The document "tidemark.blame/1". */
void tide_blame_json(const struct tide_blame *blame, const struct tide_history *history, const char *source,
                     FILE *out);

#endif
