/*
 * relay_tap.h - what the program printed, on its way from the relay's process to the tracker's.
 *
 * A ring in memory that both share, with one writer (tide_tap_put) and one reader (tide_tap_take), each in a
 * process of its own. There is no lock in it, so that neither waits for the other, whoever is killed and
 * whenever. What finds no room is left out, and the reader is told where: passing output on never waits for
 * somebody who only looks at it.
 */
#ifndef TIDE_RELAY_TAP_H
#define TIDE_RELAY_TAP_H

#include "cli/relay.h"

#include <stddef.h>
#include <stdint.h>

struct tide_tap;

/* NULL without memory. Made before the fork; each process releases it for itself. */
struct tide_tap *tide_tap_new(void);
/* NULL is allowed. */
void tide_tap_free(struct tide_tap *tap);

/* stream: 0 or 1. */
void tide_tap_put(struct tide_tap *tap, int stream, const char *bytes, size_t len, int64_t t_ns);

/* Hands over what was put since the last call; len 0: bytes of that stream are missing here. */
void tide_tap_take(struct tide_tap *tap, tide_relay_on_output *on_output, void *context);

#endif
