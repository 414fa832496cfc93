/*
 * gpu.h - GPU memory of the tree's members and of whole devices, through NVML.
 *
 * tide_gpu_new (loads NVML in the background, since waking a driver can take seconds) -> tide_gpu_look()
 * every look -> tide_gpu_free(). Without NVML a look does nothing. A look asks the driver at most four times
 * a second, and less often where its answers would take more than 1 % of the time. When the driver fails, one
 * note is given and it is asked no more.
 *
 * Who is who. NVML calls processes by their PIDs in the driver's namespace, which in a container are not
 * ours. A PID of NVML is a member's when the member has that PID, here or in a namespace nested in ours, and
 * holds the device open. When NVML's PID belongs to no process that we can see, it is matched by elimination:
 * if it is the only one of its device that is not told yet, and one member alone holds the device open and is
 * not told yet, they are the same. A foreign PID that was there when no member held the device open is
 * somebody else's. What remains is recorded as a process that could not be told.
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
    const struct tide_member *member; /* borrowed from the tree; NULL: see whole */
    bool whole; /* the device as a whole; otherwise, without member: processes not told */
    int64_t bytes;
};

/* What a look found; arrays are borrowed until the next look. */
struct tide_gpu_view {
    const struct tide_gpu_reading *readings; /* only those that changed, and all once a second */
    size_t reading_count;
    const struct tide_nvml_device *devices;
    const int64_t *total_bytes; /* of each device; TIDE_UNKNOWN where it does not say */
    size_t device_count;        /* 0 until NVML is loaded */
    const char *note;           /* for the recording, or NULL */
};

/* NULL when there is no memory for it. Caller frees with tide_gpu_free. */
struct tide_gpu *tide_gpu_new(void);
void tide_gpu_free(struct tide_gpu *gpu);

void tide_gpu_look(struct tide_gpu *gpu, struct tide_tree *tree, int64_t now_ns,
                   struct tide_gpu_view *ret_view);

/* Waits until NVML is loaded, or known not to be there. For tests. */
void tide_gpu_settle(const struct tide_gpu *gpu);

#endif
