/*
 * verdict_text.h - an assessment as text and as a JSON document.
 */
#ifndef TIDE_VERDICT_TEXT_H
#define TIDE_VERDICT_TEXT_H

#include "assess/assessment.h"
#include "base/json.h"

#include <stdio.h>

extern const char *const tide_subject_names[]; /* by enum tide_subject */
extern const char *const tide_rlimit_names[];  /* by enum tide_rlimit; NULL for none */

/* The limit that the forecast is about: the process's own, the device's or the tree's. */
double tide_judged_limit(const struct tide_judged *judged, const struct tide_assessment *assessment);

/* One word: the verdict's name, or "peaks" if peaks rise over a floor that does not. */
const char *tide_judged_word(const struct tide_judged *judged);

/* One sentence, without "tidemark:" and without a full stop. Escaped. */
void tide_judged_sentence(const struct tide_judged *judged, const struct tide_assessment *assessment,
                          char *out, size_t size);

/* The same for the whole assessment: who was killed, if anybody was, and the worst verdict. */
void tide_assessment_sentence(const struct tide_assessment *assessment, char *out, size_t size);

/* The answer: who was killed, or else the worst verdict: "LEAK in python[4711]". Escaped. */
void tide_assessment_headline(const struct tide_assessment *assessment, char *out, size_t size);

/* Calls `put` for each line of evidence, with a label of one word: "floor", "limit". Escaped. */
typedef void tide_evidence_put(void *context, const char *label, const char *text);
void tide_assessment_evidence(const struct tide_assessment *assessment, tide_evidence_put *put,
                              void *context);

/* Prints such a line; out is a FILE. */
void tide_evidence_print(void *out, const char *label, const char *text);

/* Prints headline and evidence. */
void tide_assessment_print(const struct tide_assessment *assessment, FILE *out);

/* One short line: "floor +208 KiB/step, limit in 9 h 10 m". For status lines; escaped. */
void tide_assessment_brief(const struct tide_assessment *assessment, char *out, size_t size);

/* Writes the member "death" of a document: null if nobody was killed. */
void tide_death_json(struct tide_json *json, const struct tide_death *death);

/* Writes the document "tidemark.verdict/1". source: the file's name, unescaped. */
void tide_assessment_json(const struct tide_assessment *assessment, const char *source, FILE *out);

#endif
