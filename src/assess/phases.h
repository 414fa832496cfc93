/*
 * phases.h - which phase ran at a time.
 */
#ifndef TIDE_PHASES_H
#define TIDE_PHASES_H

#include "assess/history.h"

/* Name (index into history->names) of the innermost phase that the process was in, of whichever process told
 * phases if this one told none; -1: in none. */
int tide_phase_at(const struct tide_history *history, int64_t process, int64_t t_ns);

#endif
