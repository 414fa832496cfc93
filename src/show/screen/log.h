/*
 * log.h - the last lines of what a program printed, made safe to show.
 *
 * tide_log_init -> tide_log_read() before each look -> tide_log_view() -> tide_log_release. Only the last
 * TIDE_LOG_BYTES of the file are read. A carriage return begins its line anew, as on a terminal, so a
 * progress bar is one line; colours and cursor movements are left out; everything else that is not text is
 * escaped.
 */
#ifndef TIDE_LOG_H
#define TIDE_LOG_H

#include "base/buf.h"

#include <stddef.h>

enum { TIDE_LOG_BYTES = 65536 };

struct tide_log {
    struct tide_buf text;
};

void tide_log_init(struct tide_log *log);
void tide_log_release(struct tide_log *log);

/* path may be NULL, and need not exist: then there is no text. */
void tide_log_read(struct tide_log *log, const char *path);

/* The same from memory. */
void tide_log_take(struct tide_log *log, const char *bytes, size_t len);

/* Lines, each with its newline. Borrowed until the next read. */
const char *tide_log_view(const struct tide_log *log);

#endif
