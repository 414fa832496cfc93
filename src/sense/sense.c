/*
 * sense.c - one look: finds the members of the tree, reads their counters and limits, and writes them.
 *
 * Reads all counters before it writes them, so that a look on a slow disk still sees one moment. Limits and
 * notes are written as they are found. After a row that fails the writer drops or keeps the others; the view
 * still has all that was read.
 */
#include "sense/sense.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/text.h"
#include "base/units.h"
#include "sense/cgroup.h"
#include "sense/gpu.h"
#include "sense/proc_read.h"
#include "sense/shared_memory.h"
#include "sense/smaps.h"
#include "sense/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NOTE_TEXT = 256,
    UNREADABLE_NOTES = 20,   /* per recording, because a tree may have thousands of unreadable processes */
    PROCESSES_MAX = 1 << 22, /* of one recording that can be found by PID */
    HOST_STEP = 64 << 20,    /* the host's limit is rounded down to this */
    LIMITS_MAX = 80,
    LIMIT_NAME = 512, /* longer names are cut */
};

static const int64_t rare_ns = (int64_t)5 * TIDE_NS_PER_S;        /* between looks at what seldom changes */
static const int64_t peak_again_ns = (int64_t)10 * TIDE_NS_PER_S; /* between rows that only have a new peak */

/* A limit of the tree or of a part of it, as in the recording. Every look sets those that it finds. A row is
 * written only when one appeared, changed or ended. */
struct limit {
    char name[LIMIT_NAME];
    int64_t bytes; /* TIDE_UNKNOWN: does not apply, or no longer */
};

struct tide_sense {
    int64_t base_ns;
    int64_t root;
    struct tide_tree tree;
    struct tide_smaps_budget smaps;
    struct limit limits[LIMITS_MAX];
    size_t limit_count;
    struct tide_cgroup cgroup;
    struct tide_shared shared;
    int64_t hits_noted;                  /* the count in the last note; TIDE_UNKNOWN: none yet */
    char high_noted[TIDE_CGROUP_NAME];   /* the memory.high in the last note */
    char cgroup_bound[TIDE_CGROUP_NAME]; /* name of the cgroup's limit in `limits` */
    struct tide_gpu *gpu;                /* NULL: not wanted */
    bool devices_written;
    int64_t limit_bytes;
    int meminfo_fd;
    struct tide_proc_meminfo host;
    int64_t rare_ns; /* when that was last read; TIDE_UNKNOWN: never */
    struct tide_map
        ids; /* of a PID, here or in an inner namespace, and a start time -> id in the recording */
    size_t unreadable_notes;
    bool overflow_noted;
};

/* A look in progress. */
struct look {
    struct tide_sense *sense;
    struct tide_writer *writer;
    struct tide_err *err;
    int64_t now_ns; /* when it began */
    struct tide_tick tick;
    bool failed; /* a row could not be written */
};

/* kills: as in struct tide_note. */
__attribute__((format(printf, 3, 4))) static void add_note(struct look *look, int64_t kills,
                                                           const char *format, ...)
{
    char text[NOTE_TEXT];
    struct tide_note note = {.t_ns = look->tick.t_ns, .text = text, .kills = kills};
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    look->failed |= tide_writer_note(look->writer, &note, look->err) != 0;
}

/* --- lifecycle ----------------------------------------------------------------------------------------- */

int tide_sense_new(const struct tide_sense_config *config, struct tide_sense **ret_sense,
                   struct tide_err *err)
{
    struct tide_sense *sense = calloc(1, sizeof *sense);
    if (!sense)
        return tide_err_set(err, "out of memory");
    sense->base_ns = config->base_ns;
    sense->limit_bytes = config->limit_bytes;
    sense->root = config->root;
    sense->host = (struct tide_proc_meminfo){TIDE_UNKNOWN, TIDE_UNKNOWN};
    sense->rare_ns = TIDE_UNKNOWN;
    sense->meminfo_fd = -1;
    tide_map_init(&sense->ids, PROCESSES_MAX);
    tide_smaps_init(&sense->smaps, config->smaps_budget_ppm);
    if (tide_tree_init(&sense->tree, config->proc_path, config->adopt_orphans, err) != 0) {
        free(sense);
        return -1;
    }
    if (config->descriptors)
        sense->tree.descriptors = config->descriptors;
    _Static_assert((int)TIDE_SENSE_HIDDEN == (int)TIDE_TREE_HIDDEN, "as many as the tree can hide");
    memcpy(sense->tree.hidden_pids, config->hidden_pids, sizeof sense->tree.hidden_pids);
    tide_cgroup_init(&sense->cgroup, config->cgroup_path, sense->tree.proc_fd);
    tide_shared_init(&sense->shared, config->shared_path);
    if (tide_tree_add_root(&sense->tree, config->root, tide_clock_ns(), err) != 0) {
        tide_sense_free(sense);
        return -1;
    }
    sense->hits_noted = TIDE_UNKNOWN;
    sense->gpu = config->gpu ? tide_gpu_new() : NULL;
    sense->meminfo_fd = openat(sense->tree.proc_fd, "meminfo", O_RDONLY | O_CLOEXEC);
    *ret_sense = sense;
    return 0;
}

void tide_sense_free(struct tide_sense *sense)
{
    if (!sense)
        return;
    if (sense->meminfo_fd >= 0)
        close(sense->meminfo_fd);
    tide_gpu_free(sense->gpu);
    tide_cgroup_release(&sense->cgroup);
    tide_shared_release(&sense->shared);
    tide_tree_release(&sense->tree);
    tide_smaps_release(&sense->smaps);
    tide_map_release(&sense->ids);
    free(sense);
}

/* --- processes by PID ---------------------------------------------------------------------------------- */

static uint64_t key_of(int64_t pid, uint64_t start_ticks)
{
    uint64_t who[] = {(uint64_t)pid, start_ticks};
    return tide_map_key(TIDE_MAP_SEED, who, sizeof who);
}

static void remember_process(struct tide_sense *sense, const struct tide_member *member)
{
    for (int i = member->now.namespace_count; i-- > 1;)
        tide_map_put(&sense->ids, key_of(member->now.namespace_pids[i], member->start_ticks),
                     (uint64_t)member->id);
    tide_map_put(&sense->ids, key_of(member->pid, member->start_ticks), (uint64_t)member->id);
}

int64_t tide_sense_process_id(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks)
{
    uint64_t id = 0;
    tide_map_get(&sense->ids, key_of(pid, start_ticks), &id);
    return (int64_t)id;
}

int64_t tide_sense_process_at(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks, int64_t t_ns)
{
    const struct tide_member *member = tide_tree_find(&sense->tree, pid);
    if (member && member->start_ticks == start_ticks && member->earlier_id && t_ns < member->began_ns)
        return member->earlier_id;
    return tide_sense_process_id(sense, pid, start_ticks);
}

/* Finds a member by a PID that it may know itself by. NULL: there is none. */
static struct tide_member *find_member(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks)
{
    struct tide_member *member = tide_tree_find(&sense->tree, pid);
    for (size_t i = 0; (!member || member->start_ticks != start_ticks) && i < sense->tree.member_count; i++)
        if (!sense->tree.members[i]->gone && tide_member_is_called(sense->tree.members[i], pid))
            member = sense->tree.members[i];
    return member && member->start_ticks == start_ticks ? member : NULL;
}

const char *tide_sense_name(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks)
{
    const struct tide_member *member = find_member(sense, pid, start_ticks);
    return member ? member->now.name : "";
}

void tide_sense_hook(struct tide_sense *sense, int64_t pid, uint64_t start_ticks, int64_t anon_bytes,
                     int64_t shmem_bytes)
{
    struct tide_member *member = find_member(sense, pid, start_ticks);
    if (!member)
        return;
    member->hook_anon_bytes = anon_bytes;
    member->hook_shmem_bytes = shmem_bytes;
}

void tide_sense_hide(struct tide_sense *sense, enum tide_sense_hidden which, int64_t pid)
{
    sense->tree.hidden_pids[which] = pid;
}

void tide_sense_reaped(struct tide_sense *sense, int64_t pid, int64_t peak_rss_bytes)
{
    struct tide_member *member = tide_tree_find(&sense->tree, pid);
    /* After an exec it is the highest of all programs that the process was, not of its last. */
    if (!member || member->earlier_id || peak_rss_bytes <= member->peak_bytes)
        return;
    member->peak_bytes = peak_rss_bytes;
    member->row_stale = true;
}

/* --- reading ------------------------------------------------------------------------------------------- */

static void read_host(struct tide_sense *sense)
{
    char text[4096];
    ssize_t len = sense->meminfo_fd < 0 ? -1 : tide_proc_reread(sense->meminfo_fd, text, sizeof text);
    if (len < 0 || tide_proc_parse_meminfo(text, &sense->host) != 0)
        sense->host = (struct tide_proc_meminfo){TIDE_UNKNOWN, TIDE_UNKNOWN};
}

static void add_up(const struct tide_sense *sense, struct tide_tick *tick)
{
    for (size_t i = 0; i < sense->tree.member_count; i++) {
        const struct tide_member *member = sense->tree.members[i];
        if (member->ended)
            continue;
        bool known;
        int64_t rss = tide_clamp_zero(tide_member_rss(member));
        tick->processes++;
        tick->rss_bytes += rss;
        tick->counted_bytes += tide_clamp_zero(tide_smaps_counted(&sense->tree, member, &known));
        tick->pss_known_bytes += known ? rss : 0;
    }
}

static void note_unreadable(struct look *look)
{
    struct tide_sense *sense = look->sense;
    for (size_t i = 0; i < sense->tree.member_count; i++) {
        struct tide_member *member = sense->tree.members[i];
        if (member->noted || (!member->unreadable && !member->smaps.refused))
            continue;
        member->noted = true;
        if (sense->unreadable_notes++ >= UNREADABLE_NOTES)
            continue;
        const char *name = TIDE_SHOWN(member->now.name, 64);
        int error = member->unreadable;
        if (error == EMFILE || error == ENFILE || error == ENOMEM)
            add_note(look, 0, "the counters of %s[%" PRId64 "] could not be read: %s", name, member->pid,
                     strerror(error));
        else if (error)
            add_note(look, 0, "no permission to read the counters of %s[%" PRId64 "]", name, member->pid);
        else
            add_note(look, 0,
                     "no permission to read the PSS of %s[%" PRId64
                     "], which belongs to another user or has other privileges: "
                     "pages that it shares are counted in full",
                     name, member->pid);
        if (sense->unreadable_notes == UNREADABLE_NOTES)
            add_note(look, 0,
                     "there are more processes that cannot be read; no further notes of this kind follow");
    }
    if (sense->tree.overflowed && !sense->overflow_noted) {
        sense->overflow_noted = true;
        add_note(look, 0, "the tree has more than %d processes: the others are not recorded",
                 (int)TIDE_TREE_MEMBERS);
    }
}

/* Returns the limit of this name, adding it if necessary. NULL: no room. */
static struct limit *find_limit(struct tide_sense *sense, const char *name)
{
    for (size_t i = 0; i < sense->limit_count; i++)
        if (strncmp(sense->limits[i].name, name, LIMIT_NAME - 1) == 0)
            return &sense->limits[i];
    if (sense->limit_count == LIMITS_MAX)
        return NULL;
    struct limit *limit = &sense->limits[sense->limit_count++];
    limit->bytes = TIDE_UNKNOWN;
    snprintf(limit->name, sizeof limit->name, "%s", name);
    return limit;
}

/* bytes: negative if there is no such limit. */
static void set_limit(struct look *look, const char *name, int64_t bytes)
{
    struct limit *limit = find_limit(look->sense, name);
    struct tide_limit row = {.t_ns = look->tick.t_ns, .bytes = bytes < 0 ? TIDE_UNKNOWN : bytes};
    if (!limit || limit->bytes == row.bytes)
        return;
    row.name = limit->name;
    limit->bytes = row.bytes;
    look->failed |= tide_writer_limit(look->writer, &row, look->err) != 0;
}

/* The same for a limit that fluctuates: changed only if it moved by more than a twentieth. */
static void set_wandering_limit(struct look *look, const char *name, int64_t bytes)
{
    const struct limit *limit = find_limit(look->sense, name);
    int64_t old = limit ? limit->bytes : TIDE_UNKNOWN, moved = llabs(bytes - old);
    if (old < 0 || bytes < 0 || moved > old / 20)
        set_limit(look, name, bytes);
}

static void read_rlimits(struct look *look)
{
    char text[4096];
    struct tide_proc_limits limits;
    const struct tide_sense *sense = look->sense;
    ssize_t len = tide_proc_read_pid(sense->tree.proc_fd, sense->root, "limits", text, sizeof text);
    if (len < 0 || tide_proc_parse_limits(text, &limits) != 0)
        return;
    if (limits.address_space_bytes >= 0)
        set_limit(look, "rlimit AS (address space of each process)", limits.address_space_bytes);
    if (limits.data_bytes >= 0)
        set_limit(look, "rlimit DATA (data of each process)", limits.data_bytes);
}

/* Notes new kills at every look, counting from when the program was seen in the group. */
static void note_kills(struct look *look)
{
    struct tide_cgroup *cgroup = &look->sense->cgroup;
    int64_t kills = cgroup->kills - cgroup->kills_before;
    if (cgroup->kills >= 0 && cgroup->kills_before >= 0 && kills > 0) {
        const char *path = cgroup->directory + cgroup->mount_len;
        const char *name = TIDE_SHOWN(path, TIDE_CGROUP_NAME);
        add_note(look, kills,
                 "the kernel killed %" PRId64 " process%s of cgroup %s for lack of memory (oom_kill)", kills,
                 kills == 1 ? "" : "es", name[0] ? name : "/");
    }
    cgroup->kills_before = cgroup->kills;
}

/* Limit hits can come by the thousand, so they are noted each time their number has doubled. */
static void note_hits(struct look *look)
{
    struct tide_sense *sense = look->sense;
    int64_t hits = sense->cgroup.hits;
    if (sense->hits_noted < 0 || hits < sense->hits_noted) {
        sense->hits_noted = hits;
    } else if (hits > sense->hits_noted && hits >= 2 * sense->hits_noted) {
        sense->hits_noted = hits;
        add_note(look, 0, "the limit %s was reached (%" PRId64 " times so far)",
                 TIDE_SHOWN(sense->cgroup.limit_name, TIDE_CGROUP_NAME), hits);
    }
}

static void follow_cgroup(struct look *look)
{
    struct tide_sense *sense = look->sense;
    struct tide_cgroup *cgroup = &sense->cgroup;
    const struct tide_member *root = tide_tree_find(&sense->tree, sense->root);
    /* A dead process is in no group. Kills are reported for the group that it was in. */
    if (root && !root->ended) {
        tide_cgroup_read(cgroup);
        note_kills(look);
        tide_cgroup_follow(cgroup, sense->root);
    }
    if (strcmp(sense->cgroup_bound, cgroup->limit_name) != 0) {
        if (sense->cgroup_bound[0])
            set_limit(look, sense->cgroup_bound, TIDE_UNKNOWN);
        memcpy(sense->cgroup_bound, cgroup->limit_name, sizeof sense->cgroup_bound);
    }
    if (sense->cgroup_bound[0])
        set_limit(look, sense->cgroup_bound, cgroup->limit_bytes);
    if (strcmp(sense->high_noted, cgroup->high_name) != 0) {
        memcpy(sense->high_noted, cgroup->high_name, sizeof sense->high_noted);
        if (cgroup->high_bytes >= 0)
            add_note(look, 0, "%s is %s: above it the kernel slows the group down",
                     TIDE_SHOWN(cgroup->high_name, TIDE_CGROUP_NAME), TIDE_SIZE((double)cgroup->high_bytes));
    }
}

static void find_limits(struct look *look)
{
    struct tide_sense *sense = look->sense;
    set_limit(look, "--limit", sense->limit_bytes);
    /* The tree can grow to what it has plus what is available. */
    if (sense->host.available_bytes >= 0)
        set_wandering_limit(look, "host memory",
                            (look->tick.counted_bytes + sense->host.available_bytes) / HOST_STEP * HOST_STEP);
    bool due = sense->rare_ns == TIDE_UNKNOWN || look->now_ns - sense->rare_ns >= rare_ns;
    if (due)
        sense->rare_ns = look->now_ns;
    if (due || look->now_ns - sense->base_ns < rare_ns) { /* programs get limits and groups at their start */
        read_rlimits(look);
        follow_cgroup(look);
    }
}

static void look_at_gpus(struct look *look, struct tide_gpu_view *ret_view)
{
    tide_gpu_look(look->sense->gpu, &look->sense->tree, look->now_ns, ret_view);
    if (ret_view->note)
        add_note(look, 0, "%s", ret_view->note);
    for (size_t i = 0; i < ret_view->device_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "gpu %zu", i);
        set_limit(look, name, ret_view->devices[i].total_bytes);
    }
}

/* --- writing ------------------------------------------------------------------------------------------- */

/* Joins the arguments with spaces. */
static void join_args(const struct tide_member *member, char out[static TIDE_TREE_COMMAND])
{
    size_t len = member->args_len < TIDE_TREE_COMMAND - 1 ? member->args_len : TIDE_TREE_COMMAND - 1;
    while (len && member->args[len - 1] == '\0')
        len--;
    for (size_t i = 0; i < len; i++)
        out[i] = member->args[i] ? member->args[i] : ' ';
    out[len] = '\0';
}

static int64_t since_base(const struct tide_sense *sense, int64_t ns)
{
    return ns > sense->base_ns ? ns - sense->base_ns : 0;
}

/* A child whose parent ended, or became another program, keeps its place in the tree, unless another member
 * adopted it. Of one that is first seen with its parent's exec the parent is the new program, except if it
 * was forked by the one before. Parents come before their children. */
static void find_parent(const struct tide_sense *sense, struct tide_member *member)
{
    const struct tide_member *parent = tide_tree_find(&sense->tree, member->parent_pid);
    if (!parent || (member->parent_id && member->parent_id_of == member->parent_pid))
        return;
    int64_t id = parent->id, before = member->id ? member->id : INT64_MAX;
    if (id > before || (parent->earlier_stack_start && parent->earlier_stack_start == member->stack_start))
        id = parent->earlier_id;
    if (id && id < before) {
        member->parent_id = id;
        member->parent_id_of = member->parent_pid;
    }
}

static void write_process(struct look *look, struct tide_member *member)
{
    struct tide_sense *sense = look->sense;
    char command[TIDE_TREE_COMMAND];
    join_args(member, command);
    find_parent(sense, member);
    struct tide_process row = {
        .id = member->id,
        .pid = member->pid,
        .parent = member->parent_id,
        .start_ticks = (int64_t)member->start_ticks,
        .name = member->now.name,
        .command = command,
        .role = member->role[0] ? member->role : member->now.name,
        .began_ns = since_base(sense, member->began_ns),
        .ended_ns = member->ended ? since_base(sense, member->ended_ns) : TIDE_UNKNOWN,
        .peak_rss_bytes = member->peak_bytes,
        .rank = member->rank,
    };
    bool known = member->id > 0;
    look->failed |= (known ? tide_writer_process_update(look->writer, &row, look->err)
                           : tide_writer_process(look->writer, &row, &member->id, look->err)) != 0;
    if (!known)
        remember_process(sense, member);
    member->row_stale = false;
    member->row_ns = look->now_ns;
    member->peak_written_bytes = member->peak_bytes;
}

/* What a process became by exec comes before the children that it may have had since. */
static void write_processes(struct look *look)
{
    const struct tide_tree *tree = &look->sense->tree;
    for (size_t i = 0; i < tree->member_count; i++)
        if (tree->members[i]->earlier_id && !tree->members[i]->id)
            write_process(look, tree->members[i]);
    for (size_t i = 0; i < tree->member_count; i++) {
        struct tide_member *member = tree->members[i];
        bool higher =
            member->peak_bytes > member->peak_written_bytes && look->now_ns - member->row_ns >= peak_again_ns;
        if (member->row_stale || higher)
            write_process(look, member);
    }
}

static void write_counters(struct look *look)
{
    for (size_t i = 0; i < look->sense->tree.member_count; i++) {
        const struct tide_member *member = look->sense->tree.members[i];
        if (member->ended || !member->id)
            continue;
        struct tide_sample sample = member->now.counters;
        sample.tick = look->tick.id;
        sample.process = member->id;
        look->failed |= tide_writer_sample(look->writer, &sample, look->err) != 0;
        if (!member->smaps.fresh)
            continue;
        struct tide_smaps smaps = member->smaps.row;
        smaps.tick = look->tick.id;
        smaps.process = member->id;
        look->failed |= tide_writer_smaps(look->writer, &smaps, look->err) != 0;
    }
}

static void write_devices(struct look *look, const struct tide_gpu_view *gpu)
{
    for (size_t i = 0; i < gpu->device_count; i++) {
        struct tide_gpu_device row = {
            .device = (int64_t)i,
            .name = gpu->devices[i].name,
            .uuid = gpu->devices[i].uuid,
            .total_bytes = gpu->devices[i].total_bytes,
        };
        look->failed |= tide_writer_gpu_device(look->writer, &row, look->err) != 0;
    }
    look->sense->devices_written = true;
}

static void write_gpus(struct look *look, const struct tide_gpu_view *gpu)
{
    if (gpu->reading_count && !look->sense->devices_written)
        write_devices(look, gpu);
    for (size_t i = 0; i < gpu->reading_count; i++) {
        const struct tide_gpu_reading *reading = &gpu->readings[i];
        if (reading->member && !reading->member->id)
            continue; /* not in the recording; id 0 would mean the whole device */
        struct tide_gpu_sample row = {
            .tick = look->tick.id,
            .device = reading->device,
            .process = reading->member  ? reading->member->id
                       : reading->whole ? 0
                                        : TIDE_UNKNOWN,
            .bytes = reading->bytes,
        };
        look->failed |= tide_writer_gpu(look->writer, &row, look->err) != 0;
    }
}

/* Writes the gauge of shared memory, unless there never was any. */
static void write_shared(struct look *look)
{
    struct tide_shared *shared = &look->sense->shared;
    if (!tide_shared_look(shared, &look->sense->cgroup, &look->sense->tree, look->now_ns))
        return;
    struct tide_mark mark = {.t_ns = look->tick.t_ns,
                             .kind = TIDE_MARK_GAUGE,
                             .source = TIDE_SOURCE_TRACKER,
                             .number = shared->bytes,
                             .name = TIDE_GAUGE_SHARED};
    shared->written_bytes = shared->bytes;
    shared->written_ns = look->now_ns;
    look->failed |= tide_writer_mark(look->writer, &mark, look->err) != 0;
}

/* The share of a processor that a computing thread gets now, in parts per million. */
static int64_t share_of_processor(const struct tide_sense *sense)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 1 || sense->tree.runnable == TIDE_UNKNOWN)
        return TIDE_UNKNOWN;
    return sense->tree.runnable <= processors ? 1000000
                                              : 1000000 * (int64_t)processors / sense->tree.runnable;
}

int tide_sense_look(struct tide_sense *sense, struct tide_writer *writer, int64_t now_ns,
                    struct tide_sense_view *ret_view, struct tide_err *err)
{
    struct look look = {.sense = sense, .writer = writer, .err = err, .now_ns = now_ns};
    struct tide_tick *tick = &look.tick;
    int64_t began_ns = tide_clock_ns();
    struct tide_err scan_err;
    int unlisted = tide_tree_scan(&sense->tree, now_ns, &scan_err);
    /* The tick's time is that of the reads: on a busy machine the scan can last many training steps. */
    int64_t found_ns = tide_clock_ns();
    tide_tree_read(&sense->tree, now_ns);
    int64_t read_ns = found_ns + (tide_clock_ns() - found_ns) / 2;
    tick->t_ns = since_base(sense, now_ns + read_ns - began_ns);
    int64_t smaps_ns = tide_smaps_spend(&sense->smaps, &sense->tree, now_ns);
    read_host(sense);
    add_up(sense, tick);
    tick->available_bytes = sense->host.available_bytes;
    tick->share_ppm = share_of_processor(sense);
    if (unlisted)
        add_note(&look, 0, "%s", scan_err.text);
    find_limits(&look);
    tide_cgroup_read(&sense->cgroup);
    tick->cgroup_bytes = sense->cgroup.current_bytes;
    tick->cgroup_peak_bytes = sense->cgroup.peak_bytes;
    tick->pressure_ppm = sense->cgroup.pressure_ppm;
    note_kills(&look);
    note_hits(&look);
    note_unreadable(&look);
    struct tide_gpu_view gpu = {.reading_count = 0};
    if (sense->gpu)
        look_at_gpus(&look, &gpu);

    write_processes(&look);
    look.failed |= tide_writer_tick(writer, tick, &tick->id, err) != 0;
    write_counters(&look);
    write_gpus(&look, &gpu);
    write_shared(&look);
    *ret_view = (struct tide_sense_view){*tick, tide_clock_ns() - began_ns - smaps_ns};
    return look.failed ? -1 : 0;
}

int tide_sense_finish(struct tide_sense *sense, struct tide_writer *writer, int64_t now_ns,
                      struct tide_err *err)
{
    struct look look = {.sense = sense, .writer = writer, .err = err, .now_ns = now_ns};
    for (size_t i = 0; i < sense->tree.member_count; i++) {
        struct tide_member *member = sense->tree.members[i];
        if (!member->ended) {
            member->ended = true;
            member->ended_ns = now_ns;
            member->row_stale = true;
        }
    }
    write_processes(&look);
    return look.failed ? -1 : 0;
}
