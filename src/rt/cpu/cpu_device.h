/*
 * cpu_device.h - processors as a device (rt/device.h): host memory, and kernels on the threads of threads.h.
 */
#ifndef TIDE_CPU_DEVICE_H
#define TIDE_CPU_DEVICE_H

#include "rt/device.h"

extern const struct tide_device tide_cpu_device;

#endif
