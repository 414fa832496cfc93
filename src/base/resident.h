/*
 * resident.h - how much memory this process has now.
 */
#ifndef TIDE_RESIDENT_H
#define TIDE_RESIDENT_H

#include <stdint.h>

struct tide_resident {
    int64_t bytes;
    int64_t anonymous_bytes; /* without pages of files and shared memory */
};

/* Both are -1 if they are not known. Allocates nothing. */
struct tide_resident tide_resident_now(void);

#endif
