/*
 * gzip.h - writes data compressed, as gzip does. The same bytes give the same file: it has no name and no
 * time in it.
 */
#ifndef TIDE_GZIP_H
#define TIDE_GZIP_H

#include "base/buf.h"
#include "base/err.h"

#include <stdio.h>

/* Writes the parts, each smaller than 4 GiB, one after the other. Check ferror(out) for write errors. */
int tide_gzip_write(FILE *out, const struct tide_buf *const *parts, size_t count, struct tide_err *err);

#endif
