/*
 * peak.h - what matrix products reach here at their best: the ceiling against which a run is measured.
 */
#ifndef TIDE_PEAK_H
#define TIDE_PEAK_H

#include "rt/cpu/matmul.h"

/* Floating-point operations per second of one large product with these threads, the best of a few tries that
 * take tens of milliseconds and 10 MiB together (of a smaller one where that takes long); NAN when it cannot
 * be known. Of products that are a reference it is not asked: they are no ceiling. */
double tide_peak(const struct tide_matmuls *matmuls, enum tide_dtype dtype);

#endif
