#include "sense/nvml.h"

#include "base/units.h"
#include "record/record.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_INSUFFICIENT_SIZE = 7,
    MAX_PROCESSES = 4096, /* on one device */
};

#define NVML_NOT_AVAILABLE (~0ull)

typedef void *nvml_device;

struct nvml_memory {
    unsigned long long total, free, used;
};

/* The start of an entry of a process list. The first layout ends here; the second has instance ids too. */
struct entry {
    unsigned pid;
    unsigned long long used;
};
enum { SECOND_ENTRY = 24, LARGEST_ENTRY = 32 };
_Static_assert(sizeof(struct entry) == 16, "NVML's first layout has 16 bytes");

typedef int process_list(nvml_device device, unsigned *count, void *entries);

struct process_source {
    process_list *list; /* NULL: not in the library */
    size_t entry_bytes;
};

struct tide_nvml {
    void *library;
    int (*shutdown)(void); /* NULL: not in the library, or not initialised yet */
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*name)(nvml_device, char *, unsigned);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*minor)(nvml_device, unsigned *);
    const char *(*explain)(int);
    struct process_source sources[2]; /* of those that compute, and of those that draw */
    nvml_device devices[TIDE_NVML_DEVICES];
    size_t device_count;
    _Alignas(8) char entries[MAX_PROCESSES * LARGEST_ENTRY];
    struct tide_nvml_process processes[2 * MAX_PROCESSES];
    size_t process_count;
};

/* Looks up a function under the first of its names that the library has. ISO C cannot cast an object pointer
 * to a function pointer; POSIX guarantees that they have the same representation. */
static void look_up(void *library, void *ret_function, const char *first, const char *second)
{
    void *symbol = dlsym(library, first);
    if (!symbol && second)
        symbol = dlsym(library, second);
    memcpy(ret_function, &symbol, sizeof symbol);
}

static struct process_source find_source(void *library, const char *name)
{
    static const struct {
        const char *suffix;
        size_t entry_bytes;
    } versions[] = {{"_v2", SECOND_ENTRY}, {"_v3", SECOND_ENTRY}, {"", sizeof(struct entry)}};
    struct process_source source = {NULL, 0};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0] && !source.list; i++) {
        char symbol[96];
        snprintf(symbol, sizeof symbol, "%s%s", name, versions[i].suffix);
        look_up(library, &source.list, symbol, NULL);
        source.entry_bytes = versions[i].entry_bytes;
    }
    return source;
}

static void *open_library(void)
{
    const char *chosen = secure_getenv("TIDEMARK_NVML");
    if (chosen && chosen[0])
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? library : dlopen("/usr/lib/wsl/lib/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
}

static void find_devices(struct tide_nvml *nvml)
{
    int (*count_of)(unsigned *), (*handle_of)(unsigned, nvml_device *);
    look_up(nvml->library, &count_of, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount");
    look_up(nvml->library, &handle_of, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex");
    unsigned count = 0;
    if (!count_of || !handle_of || count_of(&count) != NVML_OK)
        return;
    /* A device without a handle (no permission) keeps its index, because users know devices by it. */
    for (unsigned i = 0; i < count && i < TIDE_NVML_DEVICES; i++) {
        if (handle_of(i, &nvml->devices[i]) != NVML_OK)
            nvml->devices[i] = NULL;
        nvml->device_count = i + 1;
    }
}

struct tide_nvml *tide_nvml_new(void)
{
    struct tide_nvml *nvml = calloc(1, sizeof *nvml);
    int (*init)(void);
    if (!nvml || !(nvml->library = open_library()))
        goto free_nvml;
    look_up(nvml->library, &init, "nvmlInit_v2", "nvmlInit");
    look_up(nvml->library, &nvml->memory, "nvmlDeviceGetMemoryInfo", NULL);
    look_up(nvml->library, &nvml->name, "nvmlDeviceGetName", NULL);
    look_up(nvml->library, &nvml->uuid, "nvmlDeviceGetUUID", NULL);
    look_up(nvml->library, &nvml->minor, "nvmlDeviceGetMinorNumber", NULL);
    look_up(nvml->library, &nvml->explain, "nvmlErrorString", NULL);
    nvml->sources[0] = find_source(nvml->library, "nvmlDeviceGetComputeRunningProcesses");
    nvml->sources[1] = find_source(nvml->library, "nvmlDeviceGetGraphicsRunningProcesses");
    if (!init || !nvml->memory || init() != NVML_OK)
        goto free_nvml;
    look_up(nvml->library, &nvml->shutdown, "nvmlShutdown", NULL);
    find_devices(nvml);
    if (nvml->device_count)
        return nvml;
free_nvml:
    tide_nvml_free(nvml);
    return NULL;
}

void tide_nvml_free(struct tide_nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->shutdown)
        nvml->shutdown();
    if (nvml->library)
        dlclose(nvml->library);
    free(nvml);
}

size_t tide_nvml_count(const struct tide_nvml *nvml)
{
    return nvml->device_count;
}

void tide_nvml_describe(struct tide_nvml *nvml, size_t device, struct tide_nvml_device *ret_device)
{
    *ret_device = (struct tide_nvml_device){.minor = (int64_t)device, .total_bytes = TIDE_UNKNOWN};
    nvml_device handle = nvml->devices[device];
    unsigned minor;
    if (!handle)
        return;
    if (!nvml->name || nvml->name(handle, ret_device->name, TIDE_NVML_TEXT) != NVML_OK)
        ret_device->name[0] = '\0';
    if (!nvml->uuid || nvml->uuid(handle, ret_device->uuid, TIDE_NVML_TEXT) != NVML_OK)
        ret_device->uuid[0] = '\0';
    ret_device->name[TIDE_NVML_TEXT - 1] = ret_device->uuid[TIDE_NVML_TEXT - 1] = '\0';
    if (nvml->minor && nvml->minor(handle, &minor) == NVML_OK)
        ret_device->minor = minor;
}

static bool is_unsupported(int code)
{
    return code == NVML_NOT_SUPPORTED || code == NVML_NO_PERMISSION;
}

static int64_t sane(unsigned long long bytes)
{
    return bytes > TIDE_LARGEST ? TIDE_UNKNOWN : (int64_t)bytes;
}

int tide_nvml_memory(struct tide_nvml *nvml, size_t device, int64_t *ret_used_bytes, int64_t *ret_total_bytes)
{
    struct nvml_memory memory = {0, 0, 0};
    int code = nvml->devices[device] ? nvml->memory(nvml->devices[device], &memory) : NVML_NO_PERMISSION;
    if (code != NVML_OK && !is_unsupported(code))
        return code;
    *ret_used_bytes = code == NVML_OK ? sane(memory.used) : TIDE_UNKNOWN;
    *ret_total_bytes = code == NVML_OK ? sane(memory.total) : TIDE_UNKNOWN;
    return 0;
}

static void add_process(struct tide_nvml *nvml, unsigned pid, unsigned long long used)
{
    int64_t bytes = used == NVML_NOT_AVAILABLE ? TIDE_UNKNOWN : sane(used);
    for (size_t i = 0; i < nvml->process_count; i++)
        if (nvml->processes[i].pid == pid) {
            if (bytes > nvml->processes[i].bytes)
                nvml->processes[i].bytes = bytes;
            return;
        }
    if (nvml->process_count < sizeof nvml->processes / sizeof nvml->processes[0])
        nvml->processes[nvml->process_count++] = (struct tide_nvml_process){pid, bytes};
}

static int add_list(struct tide_nvml *nvml, nvml_device device, const struct process_source *source)
{
    unsigned count = MAX_PROCESSES;
    int code = source->list ? source->list(device, &count, nvml->entries) : NVML_NOT_SUPPORTED;
    if (code != NVML_OK)
        return is_unsupported(code) || code == NVML_INSUFFICIENT_SIZE ? 0 : code;
    for (unsigned i = 0; i < count && i < MAX_PROCESSES; i++) {
        struct entry head;
        memcpy(&head, nvml->entries + i * source->entry_bytes, sizeof head);
        add_process(nvml, head.pid, head.used);
    }
    return 0;
}

int tide_nvml_processes(struct tide_nvml *nvml, size_t device, const struct tide_nvml_process **ret_processes,
                        size_t *ret_count)
{
    nvml->process_count = 0;
    for (int i = 0; i < 2 && nvml->devices[device]; i++) {
        int code = add_list(nvml, nvml->devices[device], &nvml->sources[i]);
        if (code != 0)
            return code;
    }
    *ret_processes = nvml->processes;
    *ret_count = nvml->process_count;
    return 0;
}

const char *tide_nvml_error(const struct tide_nvml *nvml, int code)
{
    const char *text = nvml->explain ? nvml->explain(code) : NULL;
    return text ? text : "unknown error";
}
