/*
 * fake_nvml.c - a management library for GPUs that are not there. Tests build it as a shared object, load it
 * through TIDEMARK_NVML, and script it with a text file named by FAKE_NVML, read anew at each call:
 *
 *     device MINOR USED TOTAL        a device; what follows is on it
 *     compute PID BYTES              a process; BYTES -1: not available
 *     graphics PID BYTES
 *     fail CODE                      this device's memory call gives CODE
 *
 * With FAKE_NVML_INIT_MS it takes that long to begin.
 *
 * Built with -DONLY_V1 it has the first generation of functions alone, with -DONLY_V3 the third of the
 * process lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEVICES = 8, MAX_ENTRIES = 512, INSUFFICIENT_SIZE = 7 };

struct entry {
    unsigned pid;
    long long bytes;
};

struct device {
    unsigned minor;
    unsigned long long used, total;
    int fail;
    struct entry list[2][MAX_ENTRIES];
    unsigned count[2];
};

static struct device devices[MAX_DEVICES];
static unsigned device_count;

static void load(void)
{
    char line[256];
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    memset(devices, 0, sizeof devices);
    device_count = 0;
    while (file && fgets(line, sizeof line, file)) {
        struct device *device = device_count ? &devices[device_count - 1] : NULL;
        unsigned number;
        unsigned long long used, total;
        long long bytes;
        if (sscanf(line, "device %u %llu %llu", &number, &used, &total) == 3 && device_count < MAX_DEVICES) {
            device = &devices[device_count++];
            device->minor = number;
            device->used = used;
            device->total = total;
        } else if (device && sscanf(line, "compute %u %lld", &number, &bytes) == 2) {
            device->list[0][device->count[0]++] = (struct entry){number, bytes};
        } else if (device && sscanf(line, "graphics %u %lld", &number, &bytes) == 2) {
            device->list[1][device->count[1]++] = (struct entry){number, bytes};
        } else if (device) {
            sscanf(line, "fail %d", &device->fail);
        }
    }
    if (file)
        fclose(file);
}

struct layout_1 {
    unsigned pid;
    unsigned long long used;
};
struct layout_2 {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

int nvmlShutdown(void);
int nvmlDeviceGetName(void *device, char *name, unsigned len);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned len);
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]);
const char *nvmlErrorString(int code);

#ifdef ONLY_V1
#define INIT   nvmlInit
#define COUNT  nvmlDeviceGetCount
#define HANDLE nvmlDeviceGetHandleByIndex
#else
#define INIT   nvmlInit_v2
#define COUNT  nvmlDeviceGetCount_v2
#define HANDLE nvmlDeviceGetHandleByIndex_v2
#endif
int INIT(void);
int COUNT(unsigned *count);
int HANDLE(unsigned index, void **device);

int INIT(void)
{
    const char *slow = getenv("FAKE_NVML_INIT_MS");
    if (slow)
        usleep((unsigned)atoi(slow) * 1000);
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int COUNT(unsigned *count)
{
    load();
    *count = device_count;
    return 0;
}

int HANDLE(unsigned index, void **device)
{
    *device = &devices[index];
    return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned len)
{
    snprintf(name, len, "Fake %u", ((struct device *)device)->minor);
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned len)
{
    snprintf(uuid, len, "GPU-%u", ((struct device *)device)->minor);
    return 0;
}

int nvmlDeviceGetMinorNumber(void *device, unsigned *minor)
{
    *minor = ((struct device *)device)->minor;
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3])
{
    const struct device *from = device;
    load();
    memory[0] = from->total;
    memory[1] = from->total - from->used;
    memory[2] = from->used;
    return from->fail;
}

const char *nvmlErrorString(int code)
{
    return code == 15 ? "GPU is lost" : "some error";
}

/* Writes exactly the entries it has, in exactly their layout, as the real one does. */
#define LIST(name, which, layout)                                                                            \
    int name(void *device, unsigned *count, struct layout *entries);                                         \
    int name(void *device, unsigned *count, struct layout *entries)                                          \
    {                                                                                                        \
        const struct device *from = device;                                                                  \
        load();                                                                                              \
        unsigned room = *count;                                                                              \
        *count = from->count[which];                                                                         \
        if (room < *count)                                                                                   \
            return INSUFFICIENT_SIZE;                                                                        \
        for (unsigned i = 0; i < *count; i++) {                                                              \
            memset(&entries[i], 0xff, sizeof entries[i]);                                                    \
            entries[i].pid = from->list[which][i].pid;                                                       \
            entries[i].used = (unsigned long long)from->list[which][i].bytes;                                \
        }                                                                                                    \
        return 0;                                                                                            \
    }

#if defined ONLY_V1
LIST(nvmlDeviceGetComputeRunningProcesses, 0, layout_1)
LIST(nvmlDeviceGetGraphicsRunningProcesses, 1, layout_1)
#elif defined ONLY_V3
LIST(nvmlDeviceGetComputeRunningProcesses_v3, 0, layout_2)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, 1, layout_2)
#else
LIST(nvmlDeviceGetComputeRunningProcesses, 0, layout_1)
LIST(nvmlDeviceGetGraphicsRunningProcesses, 1, layout_1)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, 0, layout_2)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, 1, layout_2)
#endif
