/*
 * room.h - how much memory a process can take before the system ends it.
 */
#ifndef TIDE_ROOM_H
#define TIDE_ROOM_H

#include <stdint.h>

/* Returns the host's available memory or the lowest limit of this process's control group, whichever is less;
 * TIDE_UNKNOWN when neither is known. Swap does not count. */
int64_t tide_room_bytes(void);

#endif
