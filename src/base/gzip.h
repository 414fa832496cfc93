/*
 * gzip.h - a stream that is written compressed. The same bytes give the same file: no name and no time are
 * put in.
 *
 * tide_gzip_new -> tide_gzip_write ... -> tide_gzip_finish -> tide_gzip_free.
 */
#ifndef TIDE_GZIP_H
#define TIDE_GZIP_H

#include "base/err.h"

#include <stddef.h>
#include <stdio.h>

struct tide_gzip;

/* Caller frees with tide_gzip_free. Writes to out, which stays the caller's; whether that failed is in its
 * error flag. */
int tide_gzip_new(FILE *out, struct tide_gzip **ret_gzip, struct tide_err *err);
void tide_gzip_write(struct tide_gzip *gzip, const void *data, size_t len);
/* Puts the end; after it nothing more may be written. */
void tide_gzip_finish(struct tide_gzip *gzip);
void tide_gzip_free(struct tide_gzip *gzip);

#endif
