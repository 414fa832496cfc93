/*
 * gpu.h - GPU memory of the tree's members and of whole devices, through NVML.
 *
 * tide_gpu_new (loads NVML in the background, since waking a driver can take seconds) -> tide_gpu_look()
 * every look -> tide_gpu_free(). Without NVML a look does nothing. A look queries the driver at most four
 * times a second, and less often if the queries would take more than 1 % of the time. When the driver fails,
 * tide_gpu gives one note and stops asking.
 *
 * Identification: NVML reports PIDs of the driver's namespace, which differ from ours in a container. An NVML
 * PID is a member's if the member has that PID, here or in a nested namespace, and holds the device open. If
 * no process that we can see has the PID, it is matched by elimination: if it is the only unidentified PID of
 * its device, and exactly one unidentified member holds the device open, they are the same process. A foreign
 * PID that was there when no member held the device open belongs to somebody else. The rest is recorded as an
 * unknown process.
 */
#ifndef TIDE_GPU_H
#define TIDE_GPU_H

#include "sense/nvml.h"
#include "sense/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_gpu;

struct tide_gpu_reading {
    int64_t device;
    const struct tide_member *member; /* borrowed from the tree; NULL: see `whole` */
    bool whole; /* the whole device; otherwise, without a member: unidentified processes */
    int64_t bytes;
};

/* What a look found; arrays are borrowed until the next look. */
struct tide_gpu_view {
    const struct tide_gpu_reading *readings; /* only those that changed; all of them once a second */
    size_t reading_count;
    const struct tide_nvml_device *devices;
    size_t device_count; /* 0 until NVML is loaded */
    const char *note;    /* for the recording, or NULL */
};

/* NULL: out of memory. Caller frees with tide_gpu_free. */
struct tide_gpu *tide_gpu_new(void);
void tide_gpu_free(struct tide_gpu *gpu);

void tide_gpu_look(struct tide_gpu *gpu, struct tide_tree *tree, int64_t now_ns,
                   struct tide_gpu_view *ret_view);

/* Waits until NVML is loaded or known to be absent. For tests. */
void tide_gpu_settle(const struct tide_gpu *gpu);

#endif
