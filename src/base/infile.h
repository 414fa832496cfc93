/*
 * infile.h - files whose names come from a user or another program: read whole, or opened.
 *
 * Nothing waits for ever: a pipe that nobody writes to is refused after a second. A pipe with a writer is
 * read to its end, however long that takes. A device, which may have no end, is refused.
 */
#ifndef TIDE_INFILE_H
#define TIDE_INFILE_H

#include "base/buf.h"
#include "base/err.h"

#include <sys/stat.h>

/* Appends the contents of the file to *text, which must be initialised. *text comes back `failed` if its
 * maximum is too small. path "-" is standard input. -1 with a message that names the file. */
int tide_infile_read(const char *path, struct tide_buf *text, struct tide_err *err);

/* Opens a regular file for reading. Returns a descriptor, or -1 with errno. Anything else fails with ENXIO,
 * because it might block or have no end. */
int tide_infile_open(const char *path, struct stat *ret_about);

#endif
