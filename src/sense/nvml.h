/*
 * nvml.h - NVIDIA's management library, if this machine has one.
 *
 * The library is loaded at run time and its functions are looked up by name, the newer version first;
 * building needs none of its headers. tide_nvml_new returns NULL if there is no library, no driver or no
 * device.
 *
 * Layouts are from NVIDIA's documentation of NVML. The list of processes comes from the second version of the
 * function, whose entries have always been 24 bytes. Entries of the third were 32 bytes in some drivers (530
 * to 535) and 24 in all others, so it is used only if the second is missing, with room for either.
 *
 * TIDEMARK_NVML in the environment names another file to load (used by tests).
 */
#ifndef TIDE_NVML_H
#define TIDE_NVML_H

#include <stddef.h>
#include <stdint.h>

enum { TIDE_NVML_DEVICES = 64, TIDE_NVML_TEXT = 96 };

struct tide_nvml;

struct tide_nvml_device {
    char name[TIDE_NVML_TEXT];
    char uuid[TIDE_NVML_TEXT];
    int64_t minor;       /* of /dev/nvidiaMINOR */
    int64_t total_bytes; /* TIDE_UNKNOWN: not asked yet, or the driver does not say */
};

struct tide_nvml_process {
    int64_t pid;   /* in the driver's PID namespace */
    int64_t bytes; /* TIDE_UNKNOWN if the driver does not say */
};

/* Caller frees with tide_nvml_free. Loading can take seconds if the driver is asleep. */
struct tide_nvml *tide_nvml_new(void);
void tide_nvml_free(struct tide_nvml *nvml);

size_t tide_nvml_count(const struct tide_nvml *nvml);
void tide_nvml_describe(struct tide_nvml *nvml, size_t device, struct tide_nvml_device *ret_device);

/* The following return 0 or NVML's error code. What a device does not support is TIDE_UNKNOWN or an empty
 * list. */
int tide_nvml_memory(struct tide_nvml *nvml, size_t device, int64_t *ret_used_bytes,
                     int64_t *ret_total_bytes);

/* Compute and graphics processes, each PID once. *ret_processes is borrowed until the next call. */
int tide_nvml_processes(struct tide_nvml *nvml, size_t device, const struct tide_nvml_process **ret_processes,
                        size_t *ret_count);

/* Borrowed. */
const char *tide_nvml_error(const struct tide_nvml *nvml, int code);

#endif
