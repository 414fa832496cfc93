/*
 * create.h - a new recording, without rows.
 *
 * The file is there whole or not at all: killed at any moment, a tracker leaves a recording that opens, or
 * nothing. In a directory that everybody may write to it is readable for its owner alone. Two trackers never
 * share one, and an old recording is never overwritten. (Where the file system has no files without a name,
 * it is written under its own, by one call.)
 */
#ifndef TIDE_CREATE_H
#define TIDE_CREATE_H

#include "base/err.h"

int tide_recording_create(const char *path, struct tide_err *err);

#endif
