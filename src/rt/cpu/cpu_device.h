/*
 * cpu_device.h - processors as a device (rt/device.h): memory of the host, kernels on the threads of
 * threads.h.
 */
#ifndef TIDE_CPU_DEVICE_H
#define TIDE_CPU_DEVICE_H

#include "rt/device.h"

/* is_reference: products in plain C, sums in f64, which takes a hundred times as long. Caller frees with
 * tide_device_free. */
int tide_cpu_device_new(bool is_reference, struct tide_device **ret_device, struct tide_err *err);

#endif
