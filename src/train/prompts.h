/*
 * prompts.h - the prompts for a model: lines of JSON in a file, or sums.
 *
 * Each line is an object with a string `prompt` and any other fields, which are passed on to the reward
 * command. Empty lines are skipped. Every line is checked when the file is opened; an error names its line.
 *
 * Memory: 24 bytes per line and room for the longest one. A line is read on demand and its checksum compared:
 * a file that was truncated or changed is an error, never another question. After _open nothing is allocated.
 *
 * The order is a function of the seed: every prompt once per epoch, in a new order each time, so that a
 * resumed run sees what it would have seen.
 *
 * tide_prompts_open or _sums -> _read of any number, in any order -> _free. Not thread-safe.
 */
#ifndef TIDE_PROMPTS_H
#define TIDE_PROMPTS_H

#include "base/err.h"
#include "train/data.h"

#include <stddef.h>
#include <stdint.h>

enum { TIDE_PROMPTS_LINE_MOST = 1 << 20, TIDE_PROMPTS_MOST = 1 << 24 };

struct tide_prompts;

/* Borrowed from the prompts until the next one is read. */
struct tide_prompt {
    const char *text; /* what the model reads: UTF-8, at least one byte, NUL-terminated */
    size_t len;
    const char *fields; /* the inside of the line's object, verbatim: "prompt":"07+85=","n":2 */
    size_t fields_len;
    int64_t line; /* in the file, from 1; 0: none */
};

/* Caller frees. */
int tide_prompts_open(const char *path, uint64_t seed, struct tide_prompts **ret_prompts,
                      struct tide_err *err);

/* The sums of `sums` that are not held out. The data must outlive them. */
int tide_prompts_sums(const struct tide_data *sums, struct tide_prompts **ret_prompts, struct tide_err *err);

void tide_prompts_free(struct tide_prompts *prompts);

/* Per epoch. */
size_t tide_prompts_bytes(const struct tide_prompts *prompts); /* that they hold */
int64_t tide_prompts_count(const struct tide_prompts *prompts);

/* Reads prompt number n of the run, from 0: with k prompts per step, step s has those from s * k on. */
int tide_prompts_read(struct tide_prompts *prompts, uint64_t number, struct tide_prompt *ret_prompt,
                      struct tide_err *err);

/* Reads prompt n in the order of the file: each once, for callers that look at all of them. */
int tide_prompts_read_in_order(struct tide_prompts *prompts, int64_t n, struct tide_prompt *ret_prompt,
                               struct tide_err *err);

/* Puts "FILE: line N: " before the sentence. Always returns -1. */
int tide_prompts_wrap(const struct tide_prompts *prompts, int64_t line, struct tide_err *err);

#endif
