/*
 * gap.h - times of which a recording knows nothing, because it could not be written.
 */
#ifndef TIDE_GAP_H
#define TIDE_GAP_H

#include "assess/history.h"

/* Seconds without rows, in all, and when the first of them began; 0: there are none. */
double tide_gap_find(const struct tide_history *history, double *ret_from);

#endif
