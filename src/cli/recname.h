/*
 * recname.h - the name of a recording when none is given.
 */
#ifndef TIDE_RECNAME_H
#define TIDE_RECNAME_H

#include <stdbool.h>
#include <stddef.h>

/* The word that names a command: of "uv run python train.py --lr 1" it is "train". Letters, digits, dots,
 * dashes and underscores only. Always ends with a NUL. */
void tide_recname_word(char *const *argv, char *ret_word, size_t size);

/*
 * A path that does not exist yet: "WORD-YYYYMMDD-HHMMSS.tide" (then "-2", "-3" ...) in the current directory,
 * or in TMPDIR or /tmp when the current one cannot be written. *ret_elsewhere says so. Returns 0, or -1 when
 * there is no such place.
 */
int tide_recname_path(const char *word, char *ret_path, size_t size, bool *ret_elsewhere);

#endif
