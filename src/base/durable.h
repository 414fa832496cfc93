/*
 * durable.h - a file that is on disk once it is closed, with a checksum of its contents.
 *
 * tide_durable_open -> text to `out`, and tide_durable_put for large data -> tide_durable_close. Text goes
 * through a buffer in the struct, large data directly from the caller's memory, so the memory needed does not
 * depend on the size of the file. The first error is kept, and _close returns it.
 */
#ifndef TIDE_DURABLE_H
#define TIDE_DURABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tide_durable {
    FILE *out;
    int fd; /* -1: only count, write nothing */
    int error;
    uint64_t bytes;
    uint32_t checksum;
    char buffer[4096];
};

/* Creates a file in an open directory. name NULL: only counts. 0, or -1 with errno. */
int tide_durable_open(struct tide_durable *file, int folder, const char *name);

/* Adds `count` bytes to a CRC-32, as zlib computes it; starts with 0. */
uint32_t tide_durable_checksum(uint32_t so_far, const void *bytes, size_t count);

void tide_durable_put(struct tide_durable *file, const void *bytes, size_t count);

/* Waits until the file is on disk. 0, or -1 with the errno of the first error; removing what is in the folder
 * is then up to the caller that made it. */
int tide_durable_close(struct tide_durable *file);

#endif
