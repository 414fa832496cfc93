/*
 * outfile.h - a file that appears complete or not at all.
 *
 * tide_outfile_open -> write to `out` -> tide_outfile_commit, or tide_outfile_abort. Writes go to a new file
 * in the same directory, which is renamed once it is complete, so a full disk or a kill leaves the old
 * contents. "-" is standard output. An existing file that is not regular (a pipe, a device) is written to
 * directly.
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

/* Fails, with the reason, if anything could not be written, and then leaves nothing behind. Errors of
 * standard output are not checked here but when the program ends. */
int tide_outfile_commit(struct tide_outfile *file, struct tide_err *err);

/* Leaves everything as it was, except what was already written to a pipe or a device. */
void tide_outfile_abort(struct tide_outfile *file);

#endif
