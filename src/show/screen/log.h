/*
 * log.h - the last lines of what a program printed, made safe to show.
 *
 * Only the last TIDE_LOG_BYTES of a file are read. A carriage return begins its line anew, as on a terminal,
 * so a progress bar is one line; colours and cursor movements are left out; everything else that is not text
 * is escaped.
 */
#ifndef TIDE_LOG_H
#define TIDE_LOG_H

#include "base/buf.h"

#include <stddef.h>

enum { TIDE_LOG_BYTES = 65536, TIDE_LOG_TEXT = TIDE_LOG_BYTES * 8 /* that they become at most */ };

/* Makes *text the lines, each with its newline. path may be NULL, and need not exist: then there are none. */
void tide_log_read(struct tide_buf *text, const char *path);

/* The same from memory. */
void tide_log_take(struct tide_buf *text, const char *bytes, size_t len);

#endif
