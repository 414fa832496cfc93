#include "sense/gpu.h"

#include "base/clock.h"
#include "sense/proc_read.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    COST_PART = 100, /* the driver may take one part in so many of the time */
    MAX_USES = 1024, /* pairs of process and device, in one look */
    MAX_READINGS = 1024,
    MAX_RANKS = 128,
    MAX_OUTSIDERS = 1024,   /* foreign PIDs known to be somebody else's */
    MAX_SCANS = 256,        /* members whose descriptors are read in one look */
    MAX_DESCRIPTORS = 4096, /* of one member */
    LOADER_SECONDS = 10     /* how long tide_gpu_free waits for a driver that is being loaded */
};

static const int64_t least_pause_ns = 250 * TIDE_NS_PER_MS;
static const int64_t repeat_ns = TIDE_NS_PER_S;

/* One process on one device. */
struct use {
    size_t device;
    int64_t pid;   /* NVML's */
    int64_t bytes; /* TIDE_UNKNOWN when the driver does not say */
    struct tide_member *member;
    bool untold; /* may be a member's, but it is not known whose */
};

struct tide_gpu {
    pthread_t thread;         /* loads the library */
    struct tide_nvml *loaded; /* by it; NULL: there is none */
    atomic_bool done;         /* it has ended */
    struct tide_nvml *nvml;   /* the same, once seen; NULL after a failure */
    bool seen;
    struct tide_nvml_device devices[TIDE_NVML_DEVICES];
    size_t device_count;
    int64_t next_ns;
    int64_t used_bytes[TIDE_NVML_DEVICES];
    struct use uses[MAX_USES];
    size_t use_count;
    bool lists; /* the driver has reported a process */
    size_t untold_count;
    int64_t untold_ns;         /* when the number of unidentified PIDs last changed */
    struct tide_map outsiders; /* PIDs */
    struct tide_gpu_reading readings[MAX_READINGS], last[MAX_READINGS];
    size_t reading_count, last_count;
    int64_t full_ns; /* when all readings were last given */
    char note[256];
};

/* --- loading ------------------------------------------------------------------------------------------- */

static void *load(void *argument)
{
    struct tide_gpu *gpu = argument;
    gpu->loaded = tide_nvml_new();
    atomic_store(&gpu->done, true);
    return NULL;
}

struct tide_gpu *tide_gpu_new(void)
{
    struct tide_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return NULL;
    tide_map_init(&gpu->outsiders, MAX_OUTSIDERS);
    /* Signals are for the main thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&gpu->thread, NULL, load, gpu);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        return gpu;
    free(gpu);
    return NULL;
}

void tide_gpu_free(struct tide_gpu *gpu)
{
    if (!gpu)
        return;
    tide_map_release(&gpu->outsiders);
    /* A driver that is still being loaded at exit would use a C library that is shutting down. One that hangs
     * is left behind, and with it what its thread uses. */
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOADER_SECONDS;
    if (pthread_timedjoin_np(gpu->thread, NULL, &until)) {
        pthread_detach(gpu->thread);
        return;
    }
    tide_nvml_free(gpu->loaded);
    free(gpu);
}

void tide_gpu_settle(const struct tide_gpu *gpu)
{
    while (!atomic_load(&gpu->done))
        usleep(1000);
}

static bool is_ready(struct tide_gpu *gpu)
{
    if (!gpu->seen && atomic_load(&gpu->done)) {
        gpu->seen = true;
        gpu->nvml = gpu->loaded;
        gpu->device_count = gpu->nvml ? tide_nvml_count(gpu->nvml) : 0;
        for (size_t i = 0; i < gpu->device_count; i++)
            tide_nvml_describe(gpu->nvml, i, &gpu->devices[i]);
    }
    return gpu->nvml != NULL;
}

/* --- who holds a device -------------------------------------------------------------------------------- */

/* Bit N for a link to /dev/nvidiaN. */
static uint64_t device_bit(const char *target)
{
    static const char start[] = "/dev/nvidia";
    if (strncmp(target, start, sizeof start - 1) != 0)
        return 0;
    const char *number = target + sizeof start - 1;
    char *end;
    if (*number < '0' || *number > '9')
        return 0;
    unsigned long minor = strtoul(number, &end, 10);
    return *end == '\0' && minor < 64 ? (uint64_t)1 << minor : 0;
}

/* The devices that a process has open; all of them if that may not be read. */
static uint64_t devices_of(int proc_fd, int64_t pid)
{
    char target[64];
    DIR *directory = tide_proc_list_pid(proc_fd, pid, "fd");
    if (!directory)
        return errno == EACCES || errno == EPERM ? UINT64_MAX : 0;
    uint64_t devices = 0;
    for (int i = 0; i < MAX_DESCRIPTORS && tide_proc_next_link(directory, target, sizeof target); i++)
        devices |= device_bit(target);
    closedir(directory);
    return devices;
}

static void check_member(struct tide_tree *tree, struct tide_member *member, int64_t now_ns)
{
    member->gpu.devices = devices_of(tree->proc_fd, member->pid);
    member->gpu.checked_ns = now_ns;
}

/* Checks all members not checked since `since_ns`. False if some had to be left for later. */
static bool check_members(struct tide_tree *tree, int64_t since_ns, int64_t now_ns)
{
    int scans = 0;
    for (size_t i = 0; i < tree->member_count; i++) {
        struct tide_member *member = tree->members[i];
        if (member->ended || member->gpu.driver_pid != TIDE_UNKNOWN || member->gpu.checked_ns >= since_ns)
            continue;
        if (scans++ == MAX_SCANS)
            return false;
        check_member(tree, member, now_ns);
    }
    return true;
}

static bool holds(const struct tide_member *member, int64_t minor)
{
    return minor < 64 && (member->gpu.devices >> minor & 1);
}

/* --- who is who ---------------------------------------------------------------------------------------- */

static struct tide_member *holder_with_pid(struct tide_tree *tree, int64_t pid, int64_t minor, int64_t now_ns)
{
    for (size_t i = 0; i < tree->member_count; i++) {
        struct tide_member *member = tree->members[i];
        if (member->ended || !tide_member_is_called(member, pid))
            continue;
        if (!holds(member, minor))
            check_member(tree, member, now_ns);
        if (holds(member, minor))
            return member;
    }
    return NULL;
}

static struct tide_member *already_told(const struct tide_tree *tree, int64_t pid)
{
    for (size_t i = 0; i < tree->member_count; i++)
        if (tree->members[i]->gpu.driver_pid == pid && !tree->members[i]->ended)
            return tree->members[i];
    return NULL;
}

static void add_outsider(struct tide_gpu *gpu, int64_t pid)
{
    if (tide_map_put(&gpu->outsiders, (uint64_t)pid, 1) != 0)
        tide_map_clear(&gpu->outsiders); /* forgetting only costs a second look */
}

/* Identifies the process of a use, if possible. */
static void tell(struct tide_gpu *gpu, struct tide_tree *tree, struct use *use, int64_t now_ns)
{
    int64_t minor = gpu->devices[use->device].minor;
    use->member = already_told(tree, use->pid);
    if (!use->member && (use->member = holder_with_pid(tree, use->pid, minor, now_ns)))
        use->member->gpu.driver_pid = use->pid;
    if (use->member || tide_map_get(&gpu->outsiders, (uint64_t)use->pid, NULL))
        return;
    if (tide_tree_saw(tree, use->pid) && !tide_tree_find(tree, use->pid) &&
        devices_of(tree->proc_fd, use->pid))
        add_outsider(gpu, use->pid);
    else
        use->untold = true;
}

static void settle(struct tide_gpu *gpu, int64_t pid, struct tide_member *member)
{
    member->gpu.driver_pid = pid;
    for (size_t i = 0; i < gpu->use_count; i++)
        if (gpu->uses[i].pid == pid) {
            gpu->uses[i].member = member;
            gpu->uses[i].untold = false;
        }
}

static bool is_candidate(const struct tide_member *member, int64_t minor)
{
    return !member->ended && member->gpu.driver_pid == TIDE_UNKNOWN && holds(member, minor);
}

static size_t count_candidates(const struct tide_tree *tree, int64_t minor, struct tide_member **ret_last)
{
    size_t count = 0;
    for (size_t i = 0; i < tree->member_count; i++)
        if (is_candidate(tree->members[i], minor)) {
            *ret_last = tree->members[i];
            count++;
        }
    return count;
}

static size_t count_untold(const struct tide_gpu *gpu, size_t device, int64_t *ret_last_pid)
{
    size_t count = 0;
    for (size_t i = 0; i < gpu->use_count; i++)
        if (gpu->uses[i].untold && gpu->uses[i].device == device) {
            *ret_last_pid = gpu->uses[i].pid;
            count++;
        }
    return count;
}

/* One unidentified PID and one candidate on a device are the same. That may leave such a pair on another. */
static void eliminate(struct tide_gpu *gpu, struct tide_tree *tree)
{
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < gpu->device_count; i++) {
            int64_t pid;
            struct tide_member *member;
            if (count_untold(gpu, i, &pid) == 1 &&
                count_candidates(tree, gpu->devices[i].minor, &member) == 1) {
                settle(gpu, pid, member);
                more = true;
            }
        }
    }
}

static int by_start(const void *a, const void *b)
{
    const struct tide_member *x = *(struct tide_member *const *)a, *y = *(struct tide_member *const *)b;
    if (x->start_ticks != y->start_ticks)
        return x->start_ticks < y->start_ticks ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* All ranks of one training run hold all devices open. If as many PIDs are unidentified as members hold a
 * device, they are the same processes, and their order of start is the order of their PIDs there. */
static void match_in_order(struct tide_gpu *gpu, struct tide_tree *tree)
{
    int64_t pids[MAX_RANKS];
    struct tide_member *members[MAX_RANKS];
    size_t pid_count = 0, member_count = 0;
    uint64_t minors = 0;
    for (size_t i = 0; i < gpu->use_count; i++) {
        const struct use *use = &gpu->uses[i];
        int64_t minor = gpu->devices[use->device].minor;
        bool seen = !use->untold;
        if (use->untold && minor < 64)
            minors |= (uint64_t)1 << minor;
        for (size_t j = 0; j < pid_count && !seen; j++)
            seen = pids[j] == use->pid;
        if (seen)
            continue;
        if (pid_count == MAX_RANKS)
            return;
        pids[pid_count++] = use->pid;
    }
    for (size_t i = 0; i < tree->member_count; i++) {
        struct tide_member *member = tree->members[i];
        if (member->ended || member->gpu.driver_pid != TIDE_UNKNOWN || !(member->gpu.devices & minors))
            continue;
        if (member_count == MAX_RANKS)
            return;
        members[member_count++] = member;
    }
    if (pid_count != member_count)
        return;
    qsort(pids, pid_count, sizeof pids[0], by_number);
    qsort(members, member_count, sizeof(struct tide_member *), by_start);
    for (size_t i = 0; i < pid_count; i++)
        settle(gpu, pids[i], members[i]);
}

static void add_reading(struct tide_gpu *gpu, size_t device, const struct tide_member *member, bool whole,
                        int64_t bytes)
{
    if (bytes < 0 || gpu->reading_count == MAX_READINGS)
        return;
    gpu->readings[gpu->reading_count++] = (struct tide_gpu_reading){(int64_t)device, member, whole, bytes};
}

/* Turns what is known now into readings. */
static void read_off(struct tide_gpu *gpu, const struct tide_tree *tree, size_t device, bool complete)
{
    int64_t untold_bytes = 0, pid;
    struct tide_member *member;
    size_t count = 0;
    add_reading(gpu, device, NULL, true, gpu->used_bytes[device]);
    for (size_t i = 0; i < gpu->use_count; i++)
        count += gpu->uses[i].device == device;
    bool candidates = count_candidates(tree, gpu->devices[device].minor, &member) > 0,
         unknown = candidates && !gpu->lists; /* how much the members use */
    for (size_t i = 0; i < gpu->use_count; i++) {
        const struct use *use = &gpu->uses[i];
        if (use->device != device)
            continue;
        /* A driver that does not report memory per process still reports it for the whole device. */
        unknown |= use->member && use->bytes < 0 && count > 1;
        if (use->member)
            add_reading(gpu, device, use->member, false,
                        use->bytes < 0 && count == 1 ? gpu->used_bytes[device] : use->bytes);
        else if (use->untold && candidates)
            untold_bytes += tide_clamp_zero(use->bytes);
        else if (use->untold && complete)
            add_outsider(gpu, use->pid);
    }
    if (unknown || (candidates && count_untold(gpu, device, &pid)))
        add_reading(gpu, device, NULL, false, unknown ? gpu->used_bytes[device] : untold_bytes);
}

/* Returns NVML's error code, or 0. */
static int collect_uses(struct tide_gpu *gpu, struct tide_tree *tree, size_t device, int64_t now_ns)
{
    const struct tide_nvml_process *processes;
    size_t count;
    int code =
        tide_nvml_memory(gpu->nvml, device, &gpu->used_bytes[device], &gpu->devices[device].total_bytes);
    if (code == 0)
        code = tide_nvml_processes(gpu->nvml, device, &processes, &count);
    if (code != 0)
        return code;
    for (size_t i = 0; i < count && gpu->use_count < MAX_USES; i++) {
        struct use *use = &gpu->uses[gpu->use_count++];
        *use = (struct use){.device = device, .pid = processes[i].pid, .bytes = processes[i].bytes};
        tell(gpu, tree, use, now_ns);
    }
    return 0;
}

static void sort_out(struct tide_gpu *gpu, struct tide_tree *tree, int64_t now_ns)
{
    size_t untold = 0;
    for (size_t i = 0; i < gpu->use_count; i++)
        untold += gpu->uses[i].untold;
    if (untold != gpu->untold_count)
        gpu->untold_ns = now_ns; /* the newcomer must be among those that hold the device now */
    gpu->untold_count = untold;
    gpu->lists |= gpu->use_count > 0;
    /* In some containers the driver reports no process. Then whoever holds a device may be using it. */
    int64_t since_ns = gpu->lists ? gpu->untold_ns : now_ns - repeat_ns;
    bool complete = (gpu->lists && !untold) || check_members(tree, since_ns, now_ns);
    if (untold && complete) {
        eliminate(gpu, tree);
        match_in_order(gpu, tree);
    }
    for (size_t i = 0; i < gpu->device_count; i++)
        read_off(gpu, tree, i, complete);
}

/* --- looking ------------------------------------------------------------------------------------------- */

static void give_up(struct tide_gpu *gpu, size_t device, int code)
{
    snprintf(gpu->note, sizeof gpu->note,
             "GPU memory is not recorded from here on: device %zu answered \"%.100s\"", device,
             tide_nvml_error(gpu->nvml, code));
    gpu->nvml = NULL;
    gpu->reading_count = 0;
}

/* The reading of the same device and member, or NULL. */
static const struct tide_gpu_reading *find_reading(const struct tide_gpu_reading *readings, size_t count,
                                                   const struct tide_gpu_reading *subject)
{
    for (const struct tide_gpu_reading *r = readings; r < readings + count; r++)
        if (r->device == subject->device && r->member == subject->member && r->whole == subject->whole)
            return r;
    return NULL;
}

/* The member of an old reading may have been freed since. */
static bool is_alive(const struct tide_tree *tree, const struct tide_member *member)
{
    for (size_t i = 0; i < tree->member_count; i++)
        if (tree->members[i] == member)
            return !member->ended;
    return false;
}

static bool still_uses(const struct tide_gpu *gpu, const struct tide_gpu_reading *last)
{
    for (size_t i = 0; i < gpu->use_count; i++)
        if (gpu->uses[i].device == (size_t)last->device && gpu->uses[i].member == last->member)
            return true;
    return false;
}

/* Adds a reading of 0 bytes for a process that released a device but lives on; otherwise its last number
 * would remain. */
static void add_ends(struct tide_gpu *gpu, const struct tide_tree *tree)
{
    size_t total = gpu->reading_count;
    for (size_t i = 0; i < gpu->last_count; i++) {
        const struct tide_gpu_reading *last = &gpu->last[i];
        if (!last->bytes || last->whole || find_reading(gpu->readings, total, last))
            continue;
        if (!last->member || (is_alive(tree, last->member) && !still_uses(gpu, last)))
            add_reading(gpu, (size_t)last->device, last->member, false, 0);
    }
}

/* Keeps what changed since the last look, or everything once a second. */
static void leave_out_unchanged(struct tide_gpu *gpu, int64_t now_ns)
{
    bool all = now_ns - gpu->full_ns >= repeat_ns;
    size_t total = gpu->reading_count, kept = 0;
    struct tide_gpu_reading now[MAX_READINGS];
    memcpy(now, gpu->readings, total * sizeof now[0]);
    for (size_t i = 0; i < total; i++) {
        const struct tide_gpu_reading *last = find_reading(gpu->last, gpu->last_count, &now[i]);
        if (all || !last || last->bytes != now[i].bytes)
            gpu->readings[kept++] = now[i];
    }
    memcpy(gpu->last, now, total * sizeof now[0]);
    gpu->last_count = total;
    gpu->reading_count = kept;
    if (all)
        gpu->full_ns = now_ns;
}

static void ask_driver(struct tide_gpu *gpu, struct tide_tree *tree, int64_t now_ns)
{
    int64_t began_ns = tide_clock_ns();
    gpu->use_count = 0;
    for (size_t i = 0; i < gpu->device_count; i++) {
        int code = collect_uses(gpu, tree, i, now_ns);
        if (code != 0) {
            give_up(gpu, i, code);
            return;
        }
    }
    sort_out(gpu, tree, now_ns);
    add_ends(gpu, tree);
    leave_out_unchanged(gpu, now_ns);
    int64_t pause_ns = (tide_clock_ns() - began_ns) * COST_PART;
    gpu->next_ns = now_ns + (pause_ns > least_pause_ns ? pause_ns : least_pause_ns);
}

void tide_gpu_look(struct tide_gpu *gpu, struct tide_tree *tree, int64_t now_ns,
                   struct tide_gpu_view *ret_view)
{
    gpu->reading_count = 0;
    gpu->note[0] = '\0';
    if (is_ready(gpu) && now_ns >= gpu->next_ns)
        ask_driver(gpu, tree, now_ns);
    *ret_view = (struct tide_gpu_view){
        .readings = gpu->readings,
        .reading_count = gpu->reading_count,
        .devices = gpu->devices,
        .device_count = gpu->device_count,
        .note = gpu->note[0] ? gpu->note : NULL,
    };
}
