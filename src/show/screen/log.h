/*
 * log.h - the last lines of a program's output, made safe to show.
 *
 * Only the last TIDE_LOG_BYTES of a file are read. A carriage return restarts its line, as on a terminal, so
 * that a progress bar is one line. Colours and cursor movements are dropped; everything else that is not text
 * is escaped.
 */
#ifndef TIDE_LOG_H
#define TIDE_LOG_H

#include "base/buf.h"

#include <stddef.h>

enum { TIDE_LOG_BYTES = 65536, TIDE_LOG_TEXT = TIDE_LOG_BYTES * 8 /* most bytes of escaped text */ };

/* Sets *text to the lines, each with its newline. Without a path or a file there are none. */
void tide_log_read(struct tide_buf *text, const char *path);

/* The same from memory. */
void tide_log_take(struct tide_buf *text, const char *bytes, size_t len);

#endif
