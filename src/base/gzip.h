/*
 * gzip.h - writes a gzip-compressed stream. The same bytes give the same file: it has no name and no time in
 * it.
 *
 * tide_gzip_new -> tide_gzip_write ... -> tide_gzip_finish -> tide_gzip_free.
 */
#ifndef TIDE_GZIP_H
#define TIDE_GZIP_H

#include "base/err.h"

#include <stddef.h>
#include <stdio.h>

struct tide_gzip;

/* Caller frees with tide_gzip_free. Writes to out, which stays the caller's. Check ferror(out) for write
 * errors. */
int tide_gzip_new(FILE *out, struct tide_gzip **ret_gzip, struct tide_err *err);
void tide_gzip_write(struct tide_gzip *gzip, const void *data, size_t len);
/* Writes the end of the stream. Nothing may be written after it. */
void tide_gzip_finish(struct tide_gzip *gzip);
void tide_gzip_free(struct tide_gzip *gzip);

#endif
