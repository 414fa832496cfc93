/*
 * outfile.h - a file that is there whole or not at all.
 *
 * tide_outfile_open -> write to `out` -> tide_outfile_commit, or tide_outfile_abort. What is written goes to
 * a new file in the same directory, which takes the name only once everything is in it: a full disk or a kill
 * leaves the old contents. "-" is standard output; a name that is there and is not a regular file (a pipe, a
 * device) is written to directly.
 */
#ifndef TIDE_OUTFILE_H
#define TIDE_OUTFILE_H

#include "base/err.h"

#include <stdio.h>

struct tide_outfile {
    FILE *out;
    char *path;      /* owned; NULL: standard output */
    char *temporary; /* owned; NULL: written to directly */
};

int tide_outfile_open(struct tide_outfile *file, const char *path, struct tide_err *err);

/* Fails, with the reason, when anything could not be written; then nothing is left of it. Of standard output
 * the program itself finds out, when it ends. */
int tide_outfile_commit(struct tide_outfile *file, struct tide_err *err);

/* Leaves everything as it was, as far as nothing was written to a pipe. */
void tide_outfile_abort(struct tide_outfile *file);

#endif
