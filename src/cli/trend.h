/*
 * trend.h - the text of the status line: step and speed, memory of the tree, trend of its floor, time to the
 * limit.
 *
 * tide_trend_new -> tide_trend_step() for every step, tide_trend_text() every tick -> tide_trend_free(). The
 * verdict so far comes from the growing recording, which is read again only so often that this takes less
 * than half a percent of the time. One thread.
 */
#ifndef TIDE_TREND_H
#define TIDE_TREND_H

#include "sense/sense.h"

#include <stddef.h>
#include <stdint.h>

struct tide_trend;

/* NULL: out of memory. path is borrowed. */
struct tide_trend *tide_trend_new(const char *path);
void tide_trend_free(struct tide_trend *trend);

void tide_trend_step(struct tide_trend *trend, int64_t t_ns, int64_t number);

/* Makes one line, escaped. t_ns: since the recording began. */
void tide_trend_text(struct tide_trend *trend, const struct tide_sense_view *view, int64_t t_ns, char *out,
                     size_t size);

#endif
