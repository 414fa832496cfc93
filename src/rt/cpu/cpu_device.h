/*
 * cpu_device.h - processors as a device (rt/device.h): host memory, and kernels on the threads of threads.h.
 */
#ifndef TIDE_CPU_DEVICE_H
#define TIDE_CPU_DEVICE_H

#include "rt/device.h"

/* is_reference: products in plain C with sums in f64, a hundred times as slow. Caller frees with
 * tide_device_free. */
int tide_cpu_device_new(bool is_reference, struct tide_device **ret_device, struct tide_err *err);

#endif
