/*
 * peak.h - the best speed of matrix products here: the ceiling that a run is compared with.
 */
#ifndef TIDE_PEAK_H
#define TIDE_PEAK_H

#include "rt/cpu/matmul.h"

/* Floating-point operations per second of one large product with these threads: the best of a few tries,
 * which together take tens of milliseconds and 10 MiB (a smaller product if it is slow). NAN if unknown. Not
 * for reference products: they are no ceiling. */
double tide_peak(const struct tide_matmuls *matmuls, enum tide_dtype dtype);

#endif
