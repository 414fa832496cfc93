/*
 * err.h - what went wrong, as a sentence for a person.
 *
 * A function that can fail at run time returns 0 or -1 and takes a `struct tide_err *` as its last input. On
 * failure it sets a complete sentence (no trailing full stop, no newline) and, if the user can do something,
 * a hint. Library code never prints: src/cli does, as "tidemark: TEXT" and "hint: HINT".
 *
 * err may be NULL if the caller does not care. Untrusted text (process names, file contents) must be passed
 * through tide_text_escape first.
 */
#ifndef TIDE_ERR_H
#define TIDE_ERR_H

struct tide_err {
    char text[512];
    char hint[256];
};

/* Sets the sentence and clears the hint. Always returns -1, so that `return tide_err_set(...)` reads well. */
int tide_err_set(struct tide_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the hint. Always returns -1. */
int tide_err_hint(struct tide_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "CONTEXT: " in front of the sentence. Always returns -1. */
int tide_err_wrap(struct tide_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
