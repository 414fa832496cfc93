/*
 * recname.h - the name of a recording when none is given.
 */
#ifndef TIDE_RECNAME_H
#define TIDE_RECNAME_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the word that names a command: "train" for "uv run python train.py --lr 1". It has only letters,
 * digits, dots, dashes and underscores, and always ends with a NUL. */
void tide_recname_word(char *const *argv, char *ret_word, size_t size);

/*
 * Makes a path that does not exist yet: "WORD-YYYYMMDD-HHMMSS.tide" (then "-2", "-3" ...) in the current
 * directory. If that is not writable, the path is in TMPDIR or /tmp and *ret_elsewhere is true. Returns 0, or
 * -1 if no directory is writable.
 */
int tide_recname_path(const char *word, char *ret_path, size_t size, bool *ret_elsewhere);

#endif
