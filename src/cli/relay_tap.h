/*
 * relay_tap.h - carries a copy of the program's output from the relay process to the tracker.
 *
 * A ring in memory that both share, with one writer (tide_tap_put) and one reader (tide_tap_take), each in a
 * process of its own. It has no lock, so neither waits for the other, even if one is killed. Output that does
 * not fit is dropped, and the reader is told where: passing output on must never wait for the reader of the
 * copy.
 */
#ifndef TIDE_RELAY_TAP_H
#define TIDE_RELAY_TAP_H

#include "cli/relay.h"

#include <stddef.h>
#include <stdint.h>

struct tide_tap;

/* Must be called before the fork; each process frees it for itself. NULL: out of memory. */
struct tide_tap *tide_tap_new(void);
/* NULL is allowed. */
void tide_tap_free(struct tide_tap *tap);

/* stream: 0 or 1. */
void tide_tap_put(struct tide_tap *tap, int stream, const char *bytes, size_t len, int64_t t_ns);

/* Hands over what was put since the last call; len 0: bytes of that stream were dropped here. */
void tide_tap_take(struct tide_tap *tap, tide_relay_on_output *on_output, void *context);

#endif
