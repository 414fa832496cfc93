/*
 * verdict_text.h - an assessment in words and as a document.
 */
#ifndef TIDE_VERDICT_TEXT_H
#define TIDE_VERDICT_TEXT_H

#include "assess/assessment.h"

#include <stdio.h>

extern const char *const tide_subject_names[]; /* by enum tide_subject */

/* One sentence a person understands, without "tidemark:" and without a full stop. Escaped. */
void tide_judged_sentence(const struct tide_judged *judged, const struct tide_assessment *assessment,
                          char *out, size_t size);

/* The same of the whole: who was killed, if anybody was, and the worst. */
void tide_assessment_sentence(const struct tide_assessment *assessment, char *out, size_t size);

/* The answer: who was killed, or the worst; "LEAK in python[4711]". Escaped. */
void tide_assessment_headline(const struct tide_assessment *assessment, char *out, size_t size);

/* The evidence for it, a line at a time, each under a label of one word: "floor", "limit". Escaped. */
typedef void tide_evidence_put(void *context, const char *label, const char *text);
void tide_assessment_evidence(const struct tide_assessment *assessment, tide_evidence_put *put,
                              void *context);

/* Prints such a line on a stream. */
void tide_evidence_print(void *out, const char *label, const char *text);

/* Both, for a person. */
void tide_assessment_print(const struct tide_assessment *assessment, FILE *out);

/* One short line: "floor +208 KiB/step, limit in 9 h 10 m". For status lines; escaped. */
void tide_assessment_brief(const struct tide_assessment *assessment, char *out, size_t size);

/* The document "tidemark.verdict/1". source: the file's name, escaped by the writer. */
void tide_assessment_json(const struct tide_assessment *assessment, const char *source, FILE *out);

#endif
