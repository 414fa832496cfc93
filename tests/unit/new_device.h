/*
 * new_device.h - processors as a device, for tests.
 */
#ifndef TIDE_TEST_NEW_DEVICE_H
#define TIDE_TEST_NEW_DEVICE_H

#include "rt/cpu/cpu_device.h"

#include <stdlib.h>

/* Caller frees. */
static inline struct tide_device *new_device(bool is_reference)
{
    struct tide_device *made;
    if (tide_cpu_device_new(is_reference, &made, NULL))
        abort();
    return made;
}

#endif
