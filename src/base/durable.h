/*
 * durable.h - a file that is on the disk once it is closed, and a checksum of what is in it.
 *
 * tide_durable_open -> text to `out`, and tide_durable_put for what is large -> tide_durable_close. Text goes
 * through a buffer that lies in the struct, large things straight from the caller's memory: what a file takes
 * while it is written does not depend on how long it gets. The first error stays, and _close returns it.
 */
#ifndef TIDE_DURABLE_H
#define TIDE_DURABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tide_durable {
    FILE *out;
    int fd; /* -1: nothing is written, only counted */
    int error;
    uint64_t bytes;
    uint32_t checksum;
    char buffer[4096];
};

/* A new file in a folder that is open; name NULL: only counts. 0, or -1 with errno. */
int tide_durable_open(struct tide_durable *file, int folder, const char *name);

/* CRC-32 as zlib has it, of `count` bytes more; of none it is 0. */
uint32_t tide_durable_checksum(uint32_t so_far, const void *bytes, size_t count);

void tide_durable_put(struct tide_durable *file, const void *bytes, size_t count);

/* Waits until it is on the disk. 0, or -1 with errno as the first error had it; the caller that made the
 * folder removes what is in it. */
int tide_durable_close(struct tide_durable *file);

#endif
