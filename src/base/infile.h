/*
 * infile.h - files that are named by others: read whole, or opened.
 *
 * Nothing here waits for ever: a pipe that nobody writes to is refused after a second. One that has a writer
 * is read to its end, however long that takes. A device, which may have no end, is refused.
 */
#ifndef TIDE_INFILE_H
#define TIDE_INFILE_H

#include "base/buf.h"
#include "base/err.h"

#include <sys/stat.h>

/* Appends what the file holds to *text, which must be initialised and may come back `failed` when its maximum
 * is too small. path "-" is standard input. -1 with a sentence that names the file. */
int tide_infile_read(const char *path, struct tide_buf *text, struct tide_err *err);

/* Opens a regular file for reading: a descriptor, or -1 with errno. Anything else, which might be waited for
 * or have no end, is ENXIO. */
int tide_infile_open(const char *path, struct stat *ret_about);

#endif
