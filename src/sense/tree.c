#include "sense/tree.h"

#include "base/clock.h"
#include "base/grow.h"
#include "sense/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TEXT_BYTES = 32 * 1024,  /* of a status file: enough for two thousand groups */
    MAX_OUTSIDERS = 4 << 20, /* PIDs that Linux can have */
    ENVIRONMENT = 32 * 1024, /* bytes read of it */
    RECHECK_SCANS = 64,      /* scans after which an outsider's start time is checked again */
    SKIPS_MOST = 16,         /* scans in a row without a listing */
    BORN_MEANWHILE = 4096,   /* PIDs that may be given out while /proc is listed */
};

/* A process that starts keeps changing its identity (fork, exec, exec of a wrapper's program, title). */
static const int64_t young_ns = (int64_t)2 * TIDE_NS_PER_S;
static const int64_t args_again_ns = (int64_t)30 * TIDE_NS_PER_S;

struct tide_tree_candidate {
    struct tide_stat stat;
    uint64_t inode;
    bool doubtful; /* its parent was not known at the last scan either */
    bool member;
};

/* Value of an outsider: the low halves of its inode and of the number of the scan that saw it. */
static uint64_t pack(uint64_t inode, uint64_t scan)
{
    return inode << 32 | (scan & UINT32_MAX);
}

/* Rejects a loadavg that a container mounts over the kernel's, which is updated every few seconds only. */
static int open_loadavg(int proc_fd)
{
    struct stat proc, file;
    int fd = openat(proc_fd, "loadavg", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(proc_fd, &proc) == 0 && fstat(fd, &file) == 0 && proc.st_dev == file.st_dev)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int tide_tree_init(struct tide_tree *tree, const char *proc_path, bool adopt_orphans, struct tide_err *err)
{
    *tree = (struct tide_tree){.adopt_orphans = adopt_orphans, .self_pid = getpid(), .loadavg_fd = -1};
    tide_map_init(&tree->by_pid, TIDE_TREE_MEMBERS);
    tide_map_init(&tree->outsiders, MAX_OUTSIDERS);
    tree->proc = tide_list_directory(AT_FDCWD, proc_path);
    if (!tree->proc)
        return tide_err_set(err, "cannot read the processes in '%s': %s", proc_path, strerror(errno));
    tree->proc_fd = dirfd(tree->proc);
    tide_descriptors_init(&tree->own_descriptors);
    tree->descriptors = &tree->own_descriptors;
    tree->text = malloc(TEXT_BYTES);
    if (!tree->text) {
        closedir(tree->proc);
        return tide_err_set(err, "out of memory");
    }
    tree->loadavg_fd = open_loadavg(tree->proc_fd);
    return 0;
}

static void close_status(struct tide_tree *tree, struct tide_member *member)
{
    if (member->status_fd < 0)
        return;
    close(member->status_fd);
    member->status_fd = -1;
    tide_descriptors_give(tree->descriptors);
}

static void member_free(struct tide_tree *tree, struct tide_member *member)
{
    close_status(tree, member);
    free(member->args);
    free(member);
}

void tide_tree_release(struct tide_tree *tree)
{
    for (size_t i = 0; i < tree->member_count; i++)
        member_free(tree, tree->members[i]);
    free(tree->members);
    free(tree->candidates);
    free(tree->text);
    tide_map_release(&tree->by_pid);
    tide_map_release(&tree->outsiders);
    if (tree->proc)
        closedir(tree->proc);
    if (tree->loadavg_fd >= 0)
        close(tree->loadavg_fd);
    *tree = (struct tide_tree){.proc = NULL, .loadavg_fd = -1};
}

struct tide_member *tide_tree_find(const struct tide_tree *tree, int64_t pid)
{
    uint64_t value;
    return tide_map_get(&tree->by_pid, (uint64_t)pid, &value) ? (struct tide_member *)(uintptr_t)value : NULL;
}

bool tide_tree_saw(const struct tide_tree *tree, int64_t pid)
{
    return tide_map_get(&tree->by_pid, (uint64_t)pid, NULL) ||
           tide_map_get(&tree->outsiders, (uint64_t)pid, NULL);
}

bool tide_member_is_called(const struct tide_member *member, int64_t pid)
{
    bool is_called = member->pid == pid;
    for (int i = 0; i < member->now.namespace_count; i++)
        is_called |= member->now.namespace_pids[i] == pid;
    return is_called;
}

int64_t tide_member_rss(const struct tide_member *member)
{
    const struct tide_sample *now = &member->now.counters;
    if (now->anon_bytes < 0 && now->file_bytes < 0 && now->shmem_bytes < 0)
        return TIDE_UNKNOWN;
    return tide_clamp_zero(now->anon_bytes) + tide_clamp_zero(now->file_bytes) +
           tide_clamp_zero(now->shmem_bytes);
}

/* The PID that a directory entry is named after, or 0. */
static int64_t pid_of(const char *name)
{
    int64_t pid = 0;
    for (; *name >= '0' && *name <= '9' && pid < INT32_MAX; name++)
        pid = pid * 10 + (*name - '0');
    return *name || pid > INT32_MAX ? 0 : pid;
}

/* --- members ------------------------------------------------------------------------------------------- */

static void forget_counters(struct tide_member *member)
{
    struct tide_sample *now = &member->now.counters;
    now->anon_bytes = now->file_bytes = now->shmem_bytes = now->swap_bytes = now->huge_bytes = TIDE_UNKNOWN;
    now->asked_bytes = now->mapped_bytes = now->threads = TIDE_UNKNOWN;
}

/* -1 if out of memory or over the limit. */
static int add_member(struct tide_tree *tree, const struct tide_stat *stat, uint64_t inode, int64_t now_ns)
{
    if (tree->member_count >= TIDE_TREE_MEMBERS) {
        tree->overflowed = true;
        return -1;
    }
    struct tide_member *member = calloc(1, sizeof *member);
    if (!member ||
        TIDE_GROW(tree->members, tree->member_capacity, tree->member_count + 1, TIDE_TREE_MEMBERS) != 0) {
        free(member);
        return -1;
    }
    *member = (struct tide_member){
        .pid = stat->pid,
        .start_ticks = stat->start_ticks,
        .parent_pid = stat->parent_pid,
        .stack_start = stat->stack_start,
        .began_ns = now_ns,
        .ended_ns = TIDE_UNKNOWN,
        .first_rss_bytes = TIDE_UNKNOWN,
        .peak_bytes = TIDE_UNKNOWN,
        .peak_written_bytes = TIDE_UNKNOWN,
        .args_ns = TIDE_UNKNOWN,
        .rank = TIDE_UNKNOWN,
        .smaps.row = {.pss_bytes = TIDE_UNKNOWN,
                      .pss_shmem_bytes = TIDE_UNKNOWN,
                      .uss_bytes = TIDE_UNKNOWN,
                      .swap_pss_bytes = TIDE_UNKNOWN,
                      .unreserved_bytes = TIDE_UNKNOWN},
        .gpu = {.checked_ns = TIDE_UNKNOWN, .driver_pid = TIDE_UNKNOWN},
        .inode = inode,
        .scan = tree->scans,
        .status_fd = -1,
        .row_stale = true,
    };
    _Static_assert(sizeof member->now.name == sizeof stat->name, "a name fits where a name was");
    memcpy(member->now.name, stat->name, sizeof member->now.name);
    member->now.state = stat->state;
    forget_counters(member);
    if (tide_map_put(&tree->by_pid, (uint64_t)stat->pid, (uint64_t)(uintptr_t)member) != 0) {
        free(member);
        return -1;
    }
    tide_map_remove(&tree->outsiders, (uint64_t)stat->pid);
    tree->members[tree->member_count++] = member;
    return 0;
}

static void end_member(struct tide_tree *tree, struct tide_member *member, int64_t now_ns)
{
    if (member->ended)
        return;
    member->ended = true;
    member->ended_ns = now_ns;
    member->row_stale = true;
    forget_counters(member);
    close_status(tree, member);
}

static void lose_member(struct tide_tree *tree, struct tide_member *member, int64_t now_ns)
{
    end_member(tree, member, now_ns);
    member->gone = true;
    if (tide_tree_find(tree, member->pid) == member)
        tide_map_remove(&tree->by_pid, (uint64_t)member->pid);
}

int tide_tree_add_root(struct tide_tree *tree, int64_t pid, int64_t now_ns, struct tide_err *err)
{
    struct tide_stat stat;
    int status = tide_proc_read_stat(tree->proc_fd, pid, &stat);
    if (status == -ENOENT || status == -ESRCH) {
        tide_err_set(err, "there is no process %" PRId64, pid);
        return tide_err_hint(err,
                             "it may have ended, or belong to another user whose processes you may not see");
    }
    if (status != 0)
        return tide_err_set(err, "cannot read process %" PRId64 ": %s", pid, strerror(-status));
    if (pid == tree->self_pid)
        return tide_err_set(err, "process %" PRId64 " is tidemark itself", pid);
    if (tide_tree_find(tree, pid))
        return 0;
    /* The inode is not known yet. The first scan sees another one and checks the start time. */
    if (add_member(tree, &stat, 0, now_ns) != 0)
        return tide_err_set(err, "out of memory");
    return 0;
}

/* --- scanning ------------------------------------------------------------------------------------------ */

static void note_candidate(struct tide_tree *tree, int64_t pid, uint64_t inode, bool doubtful)
{
    if (TIDE_GROW(tree->candidates, tree->candidate_capacity, tree->candidate_count + 1, MAX_OUTSIDERS) !=
        0) {
        tree->unsettled = true; /* unseen; the next scan finds it again */
        return;
    }
    struct tide_tree_candidate *candidate = &tree->candidates[tree->candidate_count];
    if (tide_proc_read_stat(tree->proc_fd, pid, &candidate->stat) != 0)
        return;
    candidate->inode = inode;
    candidate->doubtful = doubtful;
    candidate->member = false;
    tree->candidate_count++;
}

/* A member's PID is listed: checks that it is still the same process. */
static void see_member(struct tide_tree *tree, struct tide_member *member, uint64_t inode, int64_t now_ns)
{
    struct tide_stat stat;
    if (inode != member->inode) {
        int status = tide_proc_read_stat(tree->proc_fd, member->pid, &stat);
        if (status == 0 && stat.start_ticks != member->start_ticks) {
            int64_t pid = member->pid;
            lose_member(tree, member, now_ns);
            note_candidate(tree, pid, inode, false);
            return;
        }
        if (status == 0)
            member->inode = inode;
    }
    member->scan = tree->scans;
}

/*
 * True if a PID of the first listing is older than the command that was just started. PIDs are given out
 * upwards, and from the lowest again after the highest. Newer ones lie between the command's and the newest
 * PID, plus a few that were given out during the listing.
 */
static bool is_older(const struct tide_tree *tree, int64_t pid)
{
    if (tree->scans != 1 || !tree->adopt_orphans || !tree->member_count || tree->newest_pid <= 0)
        return false;
    int64_t first = tree->members[0]->pid, last = tree->newest_pid + BORN_MEANWHILE;
    return tree->newest_pid >= first ? pid < first || pid > last : pid < first && pid > last;
}

static void see_pid(struct tide_tree *tree, int64_t pid, uint64_t inode, int64_t now_ns)
{
    struct tide_member *member = tide_tree_find(tree, pid);
    if (member) {
        see_member(tree, member, inode, now_ns);
        return;
    }
    uint64_t value;
    if (is_older(tree, pid)) {
        tide_map_put(&tree->outsiders, (uint64_t)pid, pack(inode, tree->scans));
        return;
    }
    bool known = tide_map_get(&tree->outsiders, (uint64_t)pid, &value);
    bool same = known && value >> 32 == (inode & UINT32_MAX);
    bool again = ((uint64_t)pid + tree->scans) % RECHECK_SCANS == 0;
    if (same && !again)
        tide_map_put(&tree->outsiders, (uint64_t)pid, pack(inode, tree->scans));
    else
        note_candidate(tree, pid, inode, known && value >> 32 == 0);
}

/* Parents before children, so that one pass finds nearly all members. */
static int by_start(const void *a, const void *b)
{
    const struct tide_tree_candidate *x = a, *y = b;
    if (x->stat.start_ticks != y->stat.start_ticks)
        return x->stat.start_ticks < y->stat.start_ticks ? -1 : 1;
    return (x->stat.pid > y->stat.pid) - (x->stat.pid < y->stat.pid);
}

static bool belongs(const struct tide_tree *tree, const struct tide_stat *stat)
{
    if (stat->pid == tree->self_pid)
        return false;
    for (size_t i = 0; i < TIDE_TREE_HIDDEN; i++)
        if (stat->pid == tree->hidden_pids[i])
            return false;
    if (tree->adopt_orphans && stat->parent_pid == tree->self_pid)
        return true;
    return tide_tree_find(tree, stat->parent_pid) != NULL;
}

static void admit_candidates(struct tide_tree *tree, int64_t now_ns)
{
    if (!tree->candidate_count)
        return;
    if (tree->candidate_count > 1)
        qsort(tree->candidates, tree->candidate_count, sizeof *tree->candidates, by_start);
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < tree->candidate_count; i++) {
            struct tide_tree_candidate *candidate = &tree->candidates[i];
            if (candidate->member || !belongs(tree, &candidate->stat))
                continue;
            candidate->member = true;
            if (add_member(tree, &candidate->stat, candidate->inode, now_ns) == 0)
                more = true;
        }
    }
    for (size_t i = 0; i < tree->candidate_count; i++)
        if (!tree->candidates[i].member)
            tide_map_put(&tree->outsiders, (uint64_t)tree->candidates[i].stat.pid,
                         pack(tree->candidates[i].inode, tree->scans));
    /* A parent that was not seen was born after the listing had passed its place, or has just died. Its child
     * gets no inode, so that the next scan checks it again, once. */
    for (size_t i = 0; i < tree->candidate_count; i++) {
        const struct tide_tree_candidate *candidate = &tree->candidates[i];
        if (!candidate->member && !candidate->doubtful && candidate->stat.parent_pid > 0 &&
            !tide_tree_saw(tree, candidate->stat.parent_pid)) {
            tide_map_put(&tree->outsiders, (uint64_t)candidate->stat.pid, pack(0, tree->scans));
            tree->unsettled = true;
        }
    }
    tree->candidate_count = 0;
}

static void forget_outsiders(struct tide_tree *tree)
{
    size_t cursor = 0;
    uint64_t pid, value;
    while (tide_map_next(&tree->outsiders, &cursor, &pid, &value))
        if ((uint32_t)value != (uint32_t)tree->scans)
            tide_map_remove(&tree->outsiders, pid);
}

/* Frees members that were gone before this scan, and finds those that are gone now. */
static void sweep_members(struct tide_tree *tree, int64_t now_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < tree->member_count; i++) {
        struct tide_member *member = tree->members[i];
        if (member->gone && member->scan + 1 < tree->scans && !member->row_stale) {
            member_free(tree, member);
            continue;
        }
        if (!member->gone && member->scan != tree->scans)
            lose_member(tree, member, now_ns);
        tree->members[kept++] = member;
    }
    tree->member_count = kept;
}

/* Reads loadavg: three averages, the number of runnable threads, of how many, and the PID that was given out
 * last, to a process or a thread. Returns that PID; 0: not known. */
static int64_t newest_pid(struct tide_tree *tree)
{
    char text[128];
    long long runnable = 0, newest = 0;
    ssize_t len = tree->loadavg_fd < 0 ? -1 : tide_proc_reread(tree->loadavg_fd, text, sizeof text);
    bool told = len > 0 && sscanf(text, "%*s %*s %*s %lld/%*s %lld", &runnable, &newest) == 2;
    tree->runnable = told && runnable > 0 ? runnable - 1 : TIDE_UNKNOWN;
    return told ? newest : 0;
}

/* A zombie stays listed until it is reaped, and reaping it gives out no PID. */
static bool has_zombies(const struct tide_tree *tree)
{
    for (size_t i = 0; i < tree->member_count; i++)
        if (tree->members[i]->ended && !tree->members[i]->gone)
            return true;
    return false;
}

/* True if a listing would show nothing new. */
static bool is_known(struct tide_tree *tree)
{
    int64_t newest = newest_pid(tree);
    if (newest > 0 && newest == tree->newest_pid && !tree->unsettled && tree->skipped < SKIPS_MOST &&
        !has_zombies(tree)) {
        tree->skipped++;
        return true;
    }
    tree->newest_pid = newest;
    tree->skipped = 0;
    tree->unsettled = false;
    return false;
}

int tide_tree_scan(struct tide_tree *tree, int64_t now_ns, struct tide_err *err)
{
    if (is_known(tree))
        return 0;
    tree->scans++;
    tree->candidate_count = 0;
    rewinddir(tree->proc);
    const struct dirent *entry;
    errno = 0;
    while ((entry = readdir(tree->proc))) {
        int64_t pid = pid_of(entry->d_name);
        if (pid > 0)
            see_pid(tree, pid, entry->d_ino, now_ns);
        errno = 0;
    }
    if (errno)
        return tide_err_set(err, "cannot list the processes: %s", strerror(errno));
    sweep_members(tree, now_ns);
    admit_candidates(tree, now_ns);
    forget_outsiders(tree);
    return 0;
}

/* --- counters ------------------------------------------------------------------------------------------ */

static ssize_t read_status(struct tide_tree *tree, struct tide_member *member)
{
    if (member->status_fd >= 0)
        return tide_proc_reread(member->status_fd, tree->text, TEXT_BYTES);
    int fd = tide_proc_open_pid(tree->proc_fd, member->pid, "status");
    if (fd < 0)
        return fd;
    ssize_t len = tide_proc_reread(fd, tree->text, TEXT_BYTES);
    if (tide_descriptors_take(tree->descriptors))
        member->status_fd = fd;
    else
        close(fd);
    return len;
}

/* A process whose first thread has ended looks like a zombie without memory while its other threads run.
 * Their status files show its counters. */
static void borrow_counters(struct tide_tree *tree, int64_t pid, struct tide_proc_status *status)
{
    struct tide_proc_status thread;
    DIR *tasks = tide_proc_list_pid(tree->proc_fd, pid, "task");
    const struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
        char leaf[64];
        if (pid_of(entry->d_name) <= 0 || pid_of(entry->d_name) == pid)
            continue;
        snprintf(leaf, sizeof leaf, "task/%.20s/status", entry->d_name);
        ssize_t len = tide_proc_read_pid(tree->proc_fd, pid, leaf, tree->text, TEXT_BYTES);
        if (len < 0 || tide_proc_parse_status(tree->text, &thread) != 0 || thread.counters.anon_bytes < 0)
            continue;
        memcpy(thread.name, status->name, sizeof thread.name);
        thread.parent_pid = status->parent_pid;
        *status = thread;
        break;
    }
    if (tasks)
        closedir(tasks);
}

static bool is_zombie(const struct tide_proc_status *status)
{
    return (status->state == 'Z' || status->state == 'X') && status->counters.threads <= 1;
}

static bool same_args(const struct tide_member *a, const struct tide_member *b)
{
    return a->args_len == b->args_len && a->args_len && memcmp(a->args, b->args, a->args_len) == 0;
}

/* A process keeps its age when it becomes another program, as a member that comes after its children. */
static bool began_before(const struct tide_member *a, const struct tide_member *b)
{
    return a->start_ticks != b->start_ticks ? a->start_ticks < b->start_ticks : a->pid < b->pid;
}

/* The parent. For an orphan, whose parent is no longer known, the first older member that runs the same. */
static const struct tide_member *forebear(const struct tide_tree *tree, const struct tide_member *member)
{
    const struct tide_member *parent = tide_tree_find(tree, member->parent_pid);
    if (parent || !member->args_len)
        return parent;
    for (size_t i = 0; i < tree->member_count; i++)
        if (began_before(tree->members[i], member) && same_args(tree->members[i], member))
            return tree->members[i];
    return NULL;
}

/* A process that is exiting has no arguments any more. If it has its parent's name, it was forked and ran the
 * same. */
static void name_role(struct tide_tree *tree, struct tide_member *member)
{
    const struct tide_member *parent = forebear(tree, member), *runs = member;
    char role[TIDE_ROLE_MAX];
    if (!member->args_len && parent && strcmp(parent->now.name, member->now.name) == 0)
        runs = parent;
    struct tide_role_input input = {
        .name = member->now.name,
        .args = runs->args ? runs->args : "",
        .args_len = runs->args_len,
        .parent_base = parent ? parent->base : NULL,
        .parent_name = parent ? parent->now.name : NULL,
        .same_args_as_parent = parent && same_args(parent, runs),
    };
    member->forked = input.same_args_as_parent;
    tide_role_base(input.name, input.args, input.args_len, member->base);
    if (strcmp(tide_role_of(&input, role), member->role) != 0) {
        memcpy(member->role, role, sizeof role);
        member->row_stale = true;
    }
}

/* Called with the arguments, since both change on exec. */
static void read_rank(struct tide_tree *tree, struct tide_member *member)
{
    char text[ENVIRONMENT];
    ssize_t len = tide_proc_read_pid(tree->proc_fd, member->pid, "environ", text, sizeof text);
    member->rank = len < 0 ? TIDE_UNKNOWN : tide_rank_of(text, (size_t)len);
}

static void read_args(struct tide_tree *tree, struct tide_member *member, int64_t now_ns)
{
    ssize_t len = tide_proc_read_pid(tree->proc_fd, member->pid, "cmdline", tree->text, TIDE_TREE_COMMAND);
    member->args_ns = now_ns;
    if (len < 0 || (len == 0 && member->args_len > 0)) /* an exiting process has none any more */
        return;
    if ((size_t)len == member->args_len && len && memcmp(tree->text, member->args, (size_t)len) == 0)
        return;
    char *args = malloc((size_t)len + 1);
    if (!args)
        return;
    memcpy(args, tree->text, (size_t)len + 1);
    free(member->args);
    member->args = args;
    member->args_len = (size_t)len;
    member->row_stale = true;
    read_rank(tree, member);
}

static void refresh_identity(struct tide_tree *tree, struct tide_member *member, bool renamed, int64_t now_ns)
{
    bool first = member->args_ns == TIDE_UNKNOWN;
    bool young = now_ns - member->began_ns < young_ns;
    if (first || renamed || young || now_ns - member->args_ns >= args_again_ns) {
        read_args(tree, member, now_ns);
        name_role(tree, member);
    }
}

/* --- exec ---------------------------------------------------------------------------------------------- */

static bool has_arguments(const struct tide_tree *tree, int64_t pid)
{
    char text[2];
    return tide_proc_read_pid(tree->proc_fd, pid, "cmdline", text, sizeof text) > 0;
}

/* True once after an exec. Programs set their name and arguments themselves, but no stack moves. An exec
 * first frees what was before, which takes long if that is much: until it is done there are no arguments, and
 * the stack is not the last one, but the highest size has fallen. */
static bool has_executed(const struct tide_tree *tree, struct tide_member *member, bool fell,
                         struct tide_stat *ret_stat)
{
    uint64_t before = member->stack_start;
    if (tide_proc_read_stat(tree->proc_fd, member->pid, ret_stat) ||
        ret_stat->start_ticks != member->start_ticks)
        return false;
    if (!has_arguments(tree, member->pid))
        ret_stat->stack_start = 0;
    if (ret_stat->stack_start || fell)
        member->stack_start = ret_stat->stack_start;
    return before && before != member->stack_start;
}

/* True if it is worth asking: another program has another name or another size. */
static bool may_have_executed(const struct tide_member *member, const struct tide_proc_status *status)
{
    int64_t before = member->now.counters.anon_bytes, now = status->counters.anon_bytes;
    return strcmp(status->name, member->now.name) != 0 || llabs(now - before) > before / 16;
}

/* Makes another member of a process that became another program, because it has nothing of what the one
 * before it had. But one that was forked and runs its program at once has only now become itself. */
static bool follow_exec(struct tide_tree *tree, struct tide_member *member,
                        const struct tide_proc_status *status, bool fell, int64_t now_ns)
{
    struct tide_stat stat;
    bool first = member->args_ns == TIDE_UNKNOWN, young = now_ns - member->began_ns < young_ns;
    uint64_t stack_start = member->stack_start;
    if (tree->member_count >= TIDE_TREE_MEMBERS ||
        (!first && !young && !fell && !may_have_executed(member, status)) ||
        !has_executed(tree, member, fell, &stat) || first || (young && member->forked))
        return false;
    lose_member(tree, member, now_ns);
    if (add_member(tree, &stat, member->inode, now_ns) == 0) {
        struct tide_member *next = tree->members[tree->member_count - 1];
        next->earlier_id = member->id;
        next->earlier_stack_start = stack_start;
        next->parent_id = member->parent_id;
        next->parent_id_of = member->parent_id_of;
    }
    return true;
}

static void take_off_hook(const struct tide_member *member, struct tide_proc_status *status)
{
    struct tide_sample *now = &status->counters;
    now->anon_bytes = tide_bytes_less(now->anon_bytes, member->hook_anon_bytes);
    now->shmem_bytes = tide_bytes_less(now->shmem_bytes, member->hook_shmem_bytes);
    status->peak_bytes =
        tide_bytes_less(status->peak_bytes, member->hook_anon_bytes + member->hook_shmem_bytes);
}

static void read_member(struct tide_tree *tree, struct tide_member *member, int64_t now_ns)
{
    struct tide_proc_status status;
    ssize_t len = read_status(tree, member);
    if (len == -ENOENT || len == -ESRCH) {
        lose_member(tree, member, now_ns);
        return;
    }
    if (len < 0 || tide_proc_parse_status(tree->text, &status) != 0) {
        member->unreadable = len < 0 ? (int)-len : EINVAL;
        forget_counters(member);
        return;
    }
    member->unreadable = 0;
    if (status.state == 'Z' && status.counters.threads > 1)
        borrow_counters(tree, member->pid, &status);
    bool fell = status.peak_bytes >= 0 && status.peak_bytes < member->high_water;
    member->high_water = status.peak_bytes;
    take_off_hook(member, &status);
    if (follow_exec(tree, member, &status, fell, now_ns))
        return;
    bool renamed = strcmp(status.name, member->now.name) != 0;
    if (renamed || status.parent_pid != member->parent_pid)
        member->row_stale = true;
    if (status.parent_pid >= 0)
        member->parent_pid = status.parent_pid;
    member->now = status;
    if (member->first_rss_bytes < 0)
        member->first_rss_bytes = tide_member_rss(member);
    if (status.peak_bytes > member->peak_bytes)
        member->peak_bytes = status.peak_bytes;
    if (is_zombie(&status))
        end_member(tree, member, now_ns);
    else
        refresh_identity(tree, member, renamed, now_ns);
}

void tide_tree_read(struct tide_tree *tree, int64_t now_ns)
{
    for (size_t i = 0; i < tree->member_count; i++) {
        struct tide_member *member = tree->members[i];
        if (!member->ended)
            read_member(tree, member, now_ns);
        if (member->ended && !member->role[0])
            name_role(tree, member);
    }
}
