/*
 * Tests of both ends of the channel. A process attaches once in its life, so every writer here is a child:
 * the parent never leaves a mark. Run from the top of the tree, where the Python package is.
 */
#include "failing_malloc.h"

#include "base/clock.h"
#include "channel/birth.h"
#include "channel/channel.h"
#include "tidemark.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

enum { SEEN_MOST = 1 << 16 };

struct seen {
    size_t count;
    struct {
        struct tide_channel_event event;
        char name[TIDE_LANE_NAME];
    } at[SEEN_MOST];
    struct tide_channel_counts totals;
};

static struct seen *seen;
static struct tide_channel *channel;

static void remember(void *context, const struct tide_channel_event *event)
{
    struct seen *s = context;
    assert_true(s->count < SEEN_MOST);
    s->at[s->count].event = *event;
    assert_true(strlen(event->name) < TIDE_LANE_NAME);
    strcpy(s->at[s->count].name, event->name);
    s->count++;
}

static void drain(void)
{
    struct tide_err err;
    assert_int_equal(tide_channel_drain(channel, remember, seen, &seen->totals, &err), 0);
}

static int set_up(void **state)
{
    (void)state;
    struct tide_err err;
    seen = calloc(1, sizeof *seen);
    return !seen || tide_channel_new(&channel, &err);
}

static int tear_down(void **state)
{
    (void)state;
    tide_channel_free(channel);
    free(seen);
    return 0;
}

static pid_t start(void (*work)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv(TIDE_CHANNEL_ENV, tide_channel_path(channel), 1);
        work();
        exit(0);
    }
    return pid;
}

static int finish(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void run(void (*work)(void))
{
    assert_int_equal(finish(start(work)), 0);
}

static size_t lane_files(void)
{
    DIR *dir = opendir(tide_channel_path(channel));
    assert_non_null(dir);
    size_t count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* ---- the writing end ---- */

static void say_everything(void)
{
    tide_step(7);
    tide_epoch(2);
    tide_phase_begin("validation");
    tide_phase_end("validation");
    tide_items(640);
    tide_gauge("replay buffer", 1 << 20);
    tide_gauge(NULL, -5);
    if (!tide_tracked())
        exit(1);
}

static void every_kind_of_mark_arrives_in_order(void **state)
{
    (void)state;
    int64_t before = tide_clock_ns();
    pid_t pid = start(say_everything);
    assert_int_equal(finish(pid), 0);
    drain();
    static const struct {
        enum tide_lane_kind kind;
        int64_t number;
        const char *name;
    } expected[] = {
        {TIDE_LANE_STEP, 7, ""},
        {TIDE_LANE_EPOCH, 2, ""},
        {TIDE_LANE_PHASE_BEGIN, 0, "validation"},
        {TIDE_LANE_PHASE_END, 0, "validation"},
        {TIDE_LANE_ITEMS, 640, ""},
        {TIDE_LANE_GAUGE, 1 << 20, "replay buffer"},
        {TIDE_LANE_GAUGE, -5, ""},
    };
    size_t count = sizeof expected / sizeof *expected;
    assert_int_equal(seen->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(seen->at[i].event.kind, expected[i].kind);
        assert_int_equal(seen->at[i].event.number, expected[i].number);
        assert_string_equal(seen->at[i].name, expected[i].name);
        assert_int_equal(seen->at[i].event.pid, pid);
        assert_true(seen->at[i].event.t_ns >= (i ? seen->at[i - 1].event.t_ns : before));
        assert_true(seen->at[i].event.t_ns <= tide_clock_ns());
    }
    assert_int_equal(seen->totals.events, count);
    assert_int_equal(seen->totals.lanes, 1);
    assert_int_equal(seen->totals.lost, 0);
    drain();
    assert_int_equal(seen->count, count);
}

static void a_lane_of_a_process_that_ended_is_removed(void **state)
{
    (void)state;
    run(say_everything);
    assert_int_equal(lane_files(), 1);
    drain();
    assert_int_equal(lane_files(), 0);
}

static void say_long_name(void)
{
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    tide_phase_begin(name);
}

static void a_long_name_is_cut(void **state)
{
    (void)state;
    run(say_long_name);
    drain();
    assert_int_equal(seen->count, 1);
    assert_int_equal(strlen(seen->at[0].name), TIDE_NAME_MAX);
}

static void expect_untracked(void)
{
    errno = 1234;
    tide_step(1);
    tide_phase_begin("x");
    if (tide_tracked() || errno != 1234)
        exit(1);
}

static void without_channel(void)
{
    unsetenv(TIDE_CHANNEL_ENV);
    expect_untracked();
}

static void with_channel_gone(void)
{
    setenv(TIDE_CHANNEL_ENV, "/dev/shm/tidemark-no-such-channel", 1);
    expect_untracked();
}

static void with_relative_channel(void)
{
    if (chdir("/dev/shm"))
        exit(1);
    setenv(TIDE_CHANNEL_ENV, strrchr(tide_channel_path(channel), '/') + 1, 1);
    expect_untracked();
}

static void with_file_size_limit(void)
{
    struct rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    expect_untracked();
}

static void with_no_descriptors_left(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &limit);
    expect_untracked();
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void a_program_that_cannot_attach_runs_untracked(void **state)
{
    (void)state;
    run(without_channel);
    run(with_channel_gone);
    run(with_relative_channel);
    run(with_file_size_limit);
    run(with_no_descriptors_left);
    drain();
    assert_int_equal(seen->count, 0);
    assert_int_equal(lane_files(), 0);
}

static void outlive_channel(void)
{
    tide_step(1);
    char command[400];
    snprintf(command, sizeof command, "rm -r '%s'", tide_channel_path(channel));
    if (system(command))
        exit(1);
    for (int i = 2; i < 3 * TIDE_LANE_SLOTS; i++)
        tide_step(i);
    pid_t pid = fork();
    if (pid == 0) {
        tide_step(1);
        _exit(tide_tracked() ? 1 : 0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status)
        exit(1);
}

static void a_dead_tracker_harms_nobody(void **state)
{
    (void)state;
    run(outlive_channel);
    drain();
    assert_int_equal(seen->count, 0);
}

static void say_and_fork(void)
{
    tide_step(1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        tide_step(2);
        pid_t grandchild = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* no atfork handlers are run */
        if (grandchild == 0) {
            tide_step(3);
            _exit(0);
        }
        int status;
        _exit(waitpid(grandchild, &status, 0) != grandchild || status);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status)
        exit(1);
    tide_step(4);
}

static void a_forked_child_makes_its_own_lane(void **state)
{
    (void)state;
    pid_t pid = start(say_and_fork);
    assert_int_equal(finish(pid), 0);
    assert_int_equal(lane_files(), 3);
    drain();
    assert_int_equal(seen->count, 4);
    assert_int_equal(seen->totals.lanes, 3);
    int64_t of_step[5] = {0};
    for (size_t i = 0; i < 4; i++)
        of_step[seen->at[i].event.number] = seen->at[i].event.pid;
    assert_int_equal(of_step[1], pid);
    assert_int_equal(of_step[4], pid);
    assert_true(of_step[2] > 0 && of_step[3] > 0);
    assert_true(of_step[2] != pid && of_step[3] != pid && of_step[2] != of_step[3]);
}

static void say_and_exec(void)
{
    tide_step(1);
    execl("/proc/self/exe", "test_channel", "--say", "2", (char *)NULL);
    exit(1);
}

static void a_program_that_execs_goes_on_in_its_lane(void **state)
{
    (void)state;
    pid_t pid = start(say_and_exec);
    assert_int_equal(finish(pid), 0);
    assert_int_equal(lane_files(), 1);
    drain();
    assert_int_equal(seen->count, 2);
    assert_int_equal(seen->at[0].event.number, 1);
    assert_int_equal(seen->at[1].event.number, 2);
    assert_int_equal(seen->at[1].event.pid, pid);
}

/* With no room for a lane on the file system, writing to a sparse one would be a SIGBUS. */
static void with_file_system_full(void)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", tide_channel_path(channel), "tmpfs", 0, "size=256k"))
        exit(errno == EPERM ? 77 : 1);
    expect_untracked();
}

static void a_full_file_system_leaves_the_program_untracked(void **state)
{
    (void)state;
    int status = finish(start(with_file_system_full));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
    assert_int_equal(lane_files(), 0);
}

static int speaks[2], listens[2];

/* Says one step each time it is asked, as process 1 of a PID namespace of its own. */
static void speak_from_another_namespace(void)
{
    if (unshare(CLONE_NEWPID))
        _exit(errno == EPERM ? 77 : 1);
    pid_t pid = fork();
    if (pid == 0) {
        char asked;
        close(listens[1]);
        for (int64_t n = 0; read(listens[0], &asked, 1) == 1; n++) {
            tide_step(n);
            if (write(speaks[1], "", 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    close(speaks[1]);
    close(listens[0]);
    close(listens[1]);
    int status;
    _exit(waitpid(pid, &status, 0) != pid || status); /* no leak checker: it cannot fork here any more */
}

static void a_process_of_another_namespace_is_heard_to_its_end(void **state)
{
    (void)state;
    assert_int_equal(pipe(speaks), 0);
    assert_int_equal(pipe(listens), 0);
    pid_t pid = start(speak_from_another_namespace);
    close(speaks[1]);
    close(listens[0]);
    char answer;
    size_t asked = 0;
    for (; asked < 3; asked++) {
        if (write(listens[1], "", 1) != 1 || read(speaks[0], &answer, 1) != 1)
            break;
        drain();
        assert_int_equal(seen->count, asked + 1);
        assert_int_equal(seen->at[asked].event.number, asked);
    }
    close(listens[1]);
    close(speaks[0]);
    int status = finish(pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
    assert_int_equal(asked, 3);
    drain();
}

static void say_and_be_killed(void)
{
    tide_step(41);
    raise(SIGKILL);
}

static void the_last_words_of_a_killed_program_arrive(void **state)
{
    (void)state;
    assert_int_equal(WTERMSIG(finish(start(say_and_be_killed))), SIGKILL);
    drain();
    assert_int_equal(seen->count, 1);
    assert_int_equal(seen->at[0].event.number, 41);
}

static void speak_python(void)
{
    setenv("PYTHONPATH", "python", 1);
    execl("/usr/bin/python3", "python3", "-c",
          "import tidemark\n"
          "tidemark.step(12)\n"
          "with tidemark.phase('validation'): tidemark.gauge('loader', 1 << 30)\n",
          (char *)NULL);
    exit(1);
}

static void what_the_python_package_says_arrives(void **state)
{
    (void)state;
    run(speak_python);
    drain();
    assert_int_equal(seen->count, 4);
    assert_int_equal(seen->at[0].event.kind, TIDE_LANE_STEP);
    assert_int_equal(seen->at[0].event.number, 12);
    assert_int_equal(seen->at[1].event.kind, TIDE_LANE_PHASE_BEGIN);
    assert_int_equal(seen->at[2].event.number, 1 << 30);
    assert_string_equal(seen->at[2].name, "loader");
    assert_string_equal(seen->at[3].name, "validation");
    assert_int_equal(seen->totals.lost, 0);
}

/* Bytes of shared memory that this process has resident. */
static long shared_resident(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kib < 0 && fgets(line, sizeof line, f))
        sscanf(line, "RssShmem: %ld kB", &kib);
    if (!f || kib < 0)
        exit(2);
    fclose(f);
    return kib * 1024;
}

static void mark_a_whole_ring(void)
{
    tide_step(0);
    long before = shared_resident();
    for (int i = 1; i < TIDE_LANE_SLOTS; i++)
        tide_gauge("some name", i);
    if (before < (long)TIDE_LANE_BYTES || shared_resident() != before)
        exit(1);
}

static void marking_does_not_make_the_program_grow(void **state)
{
    (void)state;
    run(mark_a_whole_ring);
}

/* ---- many marks ---- */

static void say_one_ring(void)
{
    for (int i = 0; i < TIDE_LANE_SLOTS; i++)
        tide_step(i);
}

static void a_full_ring_is_thinned_and_nothing_is_lost(void **state)
{
    (void)state;
    run(say_one_ring);
    drain();
    assert_int_equal(seen->count, TIDE_CHANNEL_STEPS);
    assert_int_equal(seen->at[0].event.number, 0);
    assert_int_equal(seen->at[TIDE_CHANNEL_STEPS - 1].event.number, TIDE_LANE_SLOTS - 1);
    for (size_t i = 1; i < seen->count; i++) {
        int64_t gap = seen->at[i].event.number - seen->at[i - 1].event.number;
        assert_in_range(gap, TIDE_LANE_SLOTS / 15 - 1, TIDE_LANE_SLOTS / 15 + 1);
    }
    assert_int_equal(seen->totals.thinned, TIDE_LANE_SLOTS - TIDE_CHANNEL_STEPS);
    assert_int_equal(seen->totals.lost, 0);
}

static void say_three_rings(void)
{
    for (int i = 0; i < 3 * TIDE_LANE_SLOTS; i++)
        tide_step(i);
}

static void what_was_overwritten_is_counted_as_lost(void **state)
{
    (void)state;
    run(say_three_rings);
    drain();
    assert_int_equal(seen->totals.lost, 2 * TIDE_LANE_SLOTS);
    assert_int_equal(seen->totals.events, TIDE_CHANNEL_STEPS);
    assert_int_equal(seen->totals.thinned, TIDE_LANE_SLOTS - TIDE_CHANNEL_STEPS);
    assert_int_equal(seen->at[0].event.number, 2 * TIDE_LANE_SLOTS);
}

static void say_mixture(void)
{
    tide_phase_begin("epoch");
    for (int i = 0; i < 400; i++) {
        tide_step(i);
        tide_phase_begin("forward");
        tide_gauge(i % 2 ? "odd" : "even", i);
        tide_phase_end("forward");
    }
    tide_phase_end("started before");
    tide_epoch(1);
}

static void thinning_keeps_pairs_whole_and_rare_marks_all(void **state)
{
    (void)state;
    run(say_mixture);
    drain();
    int steps = 0, begins = 0, ends = 0, odd = 0, even = 0, rare = 0;
    for (size_t i = 0; i < seen->count; i++) {
        const char *name = seen->at[i].name;
        enum tide_lane_kind kind = seen->at[i].event.kind;
        steps += kind == TIDE_LANE_STEP;
        odd += !strcmp(name, "odd");
        even += !strcmp(name, "even");
        rare += kind == TIDE_LANE_EPOCH || !strcmp(name, "epoch") || !strcmp(name, "started before");
        if (strcmp(name, "forward"))
            continue;
        if (kind == TIDE_LANE_PHASE_BEGIN)
            begins++;
        else
            ends++;
        assert_true(begins == ends || begins == ends + 1);
    }
    assert_int_equal(steps, TIDE_CHANNEL_STEPS);
    assert_int_equal(begins, TIDE_CHANNEL_STEPS);
    assert_int_equal(ends, TIDE_CHANNEL_STEPS);
    assert_int_equal(odd, TIDE_CHANNEL_STEPS);
    assert_int_equal(even, TIDE_CHANNEL_STEPS);
    assert_int_equal(rare, 3);
    assert_int_equal(seen->totals.events + seen->totals.thinned, 400 * 4 + 3);
}

enum { HAMMERS = 4, BLOWS = 50000 };

static void *hammer(void *argument)
{
    int me = (int)(intptr_t)argument;
    char name[TIDE_LANE_NAME];
    memset(name, 'a' + me, sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int64_t i = 0; i < BLOWS; i++)
        tide_gauge(name + i % 90, i * HAMMERS + me);
    return NULL;
}

static void hammer_from_many_threads(void)
{
    pthread_t threads[HAMMERS];
    for (int i = 0; i < HAMMERS; i++)
        if (pthread_create(&threads[i], NULL, hammer, (void *)(intptr_t)i))
            exit(1);
    for (int i = 0; i < HAMMERS; i++)
        pthread_join(threads[i], NULL);
}

static bool has_exited(pid_t pid)
{
    siginfo_t info = {0};
    return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == pid;
}

static void threads_that_hammer_never_leave_a_torn_mark(void **state)
{
    (void)state;
    pid_t pid = start(hammer_from_many_threads);
    uint64_t checked = 0;
    for (bool exited = false; !exited;) {
        exited = has_exited(pid);
        if (exited)
            assert_int_equal(finish(pid), 0);
        seen->count = 0;
        drain();
        for (size_t i = 0; i < seen->count; i++, checked++) {
            int64_t number = seen->at[i].event.number;
            const char *name = seen->at[i].name;
            size_t len = strlen(name);
            assert_int_equal(len, TIDE_NAME_MAX - number / HAMMERS % 90);
            for (size_t k = 0; k < len; k++)
                assert_int_equal(name[k], 'a' + number % HAMMERS);
        }
    }
    assert_true(checked >= TIDE_CHANNEL_STEPS);
    uint64_t told = seen->totals.events + seen->totals.thinned + seen->totals.lost;
    assert_true(told >= (uint64_t)HAMMERS * BLOWS);
}

/* ---- hostile lanes ---- */

struct file {
    struct tide_lane_head head;
    struct tide_lane_slot slots[TIDE_LANE_SLOTS];
};

/* A lane as this process itself would make it, with `taken` complete steps. */
static struct file *good_file(uint64_t taken)
{
    struct file *file = calloc(1, sizeof *file);
    assert_non_null(file);
    assert_int_equal(tide_birth_read(0, &file->head.start_ticks), 0);
    file->head.magic = TIDE_LANE_MAGIC;
    file->head.pid = (uint32_t)getpid();
    file->head.slot_count = TIDE_LANE_SLOTS;
    atomic_store(&file->head.head, taken);
    for (uint64_t n = 0; n < taken; n++) {
        struct tide_lane_slot *slot = &file->slots[n % TIDE_LANE_SLOTS];
        atomic_store(&slot->sequence, n + 1);
        slot->t_ns = tide_clock_ns();
        slot->number = (int64_t)n;
        slot->kind = TIDE_LANE_STEP;
    }
    return file;
}

static void own_path(const char *suffix, char out[static PATH_MAX])
{
    uint64_t ticks;
    assert_int_equal(tide_birth_read(0, &ticks), 0);
    snprintf(out, PATH_MAX, "%s/marks-%d-%" PRIu64 "%s", tide_channel_path(channel), (int)getpid(), ticks,
             suffix);
}

static void write_file(const char *path, const struct file *file, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file, bytes), bytes);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    close(fd);
}

static void write_own(const struct file *file)
{
    char path[PATH_MAX];
    own_path("", path);
    write_file(path, file, sizeof *file);
}

static void wrong_headers_are_ignored(void **state)
{
    (void)state;
    struct file *file = good_file(3);
    file->head.magic ^= 1;
    write_own(file);
    drain();
    file->head.magic ^= 1;
    file->head.slot_count = UINT32_MAX;
    write_own(file);
    drain();
    file->head.slot_count = TIDE_LANE_SLOTS;
    file->head.pid++;
    write_own(file);
    drain();
    file->head.pid--;
    file->head.start_ticks++;
    write_own(file);
    drain();
    file->head.start_ticks--;
    atomic_store(&file->head.head, UINT64_MAX - 1);
    write_own(file);
    drain();
    assert_int_equal(seen->count, 0);
    assert_int_equal(seen->totals.lost, 0);
    atomic_store(&file->head.head, 3);
    write_own(file);
    drain();
    assert_int_equal(seen->count, 3);
    free(file);
}

static void wrong_files_are_ignored(void **state)
{
    (void)state;
    char path[PATH_MAX], target[PATH_MAX];
    struct file *file = good_file(3);
    own_path("-short", path);
    write_file(path, file, sizeof *file - 1);
    own_path("-fifo", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    own_path("-directory", path);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(target, sizeof target, "%s/elsewhere", tide_channel_path(channel));
    write_file(target, file, sizeof *file);
    own_path("-link", path);
    assert_int_equal(symlink(target, path), 0);
    own_path("?bad suffix", path);
    write_file(path, file, sizeof *file);
    drain();
    assert_int_equal(seen->count, 0);
    assert_int_equal(seen->totals.lanes, 0);
    own_path("-directory", path);
    rmdir(path);
    free(file);
}

static void names_that_are_no_lanes_are_ignored(void **state)
{
    (void)state;
    static const char *const names[] = {
        "marks-",        "marks-1",          "marks-1-",  "marks--1-2", "marks-0-5",
        "marks-5-",      "marks-99999999-1", "marks-1x2", "mark-1-2",   "marks-184467440737095516160-1",
        "marks-1-2junk",
    };
    struct file *file = good_file(1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", tide_channel_path(channel), names[i]);
        write_file(path, file, sizeof *file);
    }
    drain();
    assert_int_equal(seen->totals.lanes, 0);
    free(file);
}

static void hostile_slots_are_made_harmless(void **state)
{
    (void)state;
    struct file *file = good_file(8);
    memset(file->slots[0].name, 'n', TIDE_LANE_NAME); /* a step has no name */
    file->slots[1].kind = TIDE_LANE_GAUGE;
    memset(file->slots[1].name, 'g', TIDE_LANE_NAME); /* unterminated */
    file->slots[2].kind = 0;
    file->slots[3].kind = UINT32_MAX;
    file->slots[4].number = INT64_MIN;
    file->slots[5].t_ns = INT64_MAX;
    file->slots[6].t_ns = INT64_MIN;
    file->slots[7].number = INT64_MAX;
    write_own(file);
    int64_t before = seen->count;
    drain();
    assert_int_equal(seen->count - before, 4);
    assert_int_equal(seen->totals.lost, 4);
    assert_string_equal(seen->at[0].name, "");
    assert_int_equal(strlen(seen->at[1].name), TIDE_LANE_NAME - 1);
    int64_t now = tide_clock_ns();
    for (size_t i = 1; i < seen->count; i++) {
        assert_true(seen->at[i].event.t_ns <= now);
        assert_true(seen->at[i].event.t_ns >= seen->at[i - 1].event.t_ns);
    }
    free(file);
}

static void an_unfinished_mark_is_waited_for_once(void **state)
{
    (void)state;
    struct file *file = good_file(5);
    atomic_store(&file->slots[2].sequence, TIDE_LANE_BUSY);
    write_own(file);
    drain();
    assert_int_equal(seen->count, 2);
    assert_int_equal(seen->totals.lost, 0);
    atomic_store(&file->slots[2].sequence, 3);
    write_own(file);
    drain();
    assert_int_equal(seen->count, 5);
    assert_int_equal(seen->at[2].event.number, 2);
    free(file);
}

static void a_mark_that_is_never_finished_blocks_nobody(void **state)
{
    (void)state;
    struct file *file = good_file(5);
    atomic_store(&file->slots[2].sequence, TIDE_LANE_BUSY);
    write_own(file);
    drain();
    drain();
    assert_int_equal(seen->count, 4);
    assert_int_equal(seen->totals.lost, 1);
    assert_int_equal(seen->at[2].event.number, 3);
    free(file);
}

static void a_head_that_goes_backwards_ends_the_lane(void **state)
{
    (void)state;
    struct file *file = good_file(5);
    write_own(file);
    drain();
    atomic_store(&file->head.head, 4);
    write_own(file);
    drain();
    assert_int_equal(seen->count, 5);
    assert_int_equal(lane_files(), 0);
    free(file);
}

static void a_lane_cut_short_later_is_dropped(void **state)
{
    (void)state;
    struct file *file = good_file(5);
    write_own(file);
    drain();
    char path[PATH_MAX];
    own_path("", path);
    assert_int_equal(truncate(path, 100), 0);
    drain();
    assert_int_equal(seen->count, 5);
    assert_int_equal(lane_files(), 0);
    free(file);
}

static void write_sequence(uint64_t n, uint64_t sequence)
{
    char path[PATH_MAX];
    own_path("", path);
    int fd = open(path, O_WRONLY);
    off_t at = (off_t)(sizeof(struct tide_lane_head) + n % TIDE_LANE_SLOTS * sizeof(struct tide_lane_slot));
    if (fd < 0 || pwrite(fd, &sequence, sizeof sequence, at) != sizeof sequence)
        exit(1);
    close(fd);
}

/* As if another thread were stuck in slot 1 and one had passed slot 2 by a whole ring. */
static void meet_others_in_the_ring(void)
{
    tide_step(10);
    write_sequence(1, TIDE_LANE_BUSY);
    write_sequence(2, 2 + TIDE_LANE_SLOTS + 1);
    tide_step(11);
}

static void a_slot_that_is_taken_is_left_alone(void **state)
{
    (void)state;
    run(meet_others_in_the_ring);
    drain();
    assert_int_equal(seen->count, 2);
    assert_int_equal(seen->at[0].event.number, 10);
    assert_int_equal(seen->at[1].event.number, 11);
    assert_int_equal(seen->totals.lost, 2);
}

static void a_lane_whose_pid_was_reused_is_dropped(void **state)
{
    (void)state;
    struct file *file = good_file(2);
    char path[PATH_MAX];
    file->head.start_ticks = 1;
    snprintf(path, sizeof path, "%s/marks-%d-1", tide_channel_path(channel), (int)getpid());
    write_file(path, file, sizeof *file);
    drain();
    assert_int_equal(seen->count, 2);
    for (int i = 0; i < 100; i++)
        drain();
    assert_int_equal(seen->count, 2);
    assert_int_equal(lane_files(), 0);
    free(file);
}

/* ---- many lanes ---- */

static void say_three_steps(void)
{
    for (int i = 0; i < 3; i++)
        tide_step(i);
    _exit(0);
}

static void a_storm_of_short_lives_is_heard_and_leaves_nothing(void **state)
{
    (void)state;
    enum { WAVES = 20, WAVE = 10 };
    for (int wave = 0; wave < WAVES; wave++) {
        pid_t pids[WAVE];
        for (int i = 0; i < WAVE; i++)
            pids[i] = start(say_three_steps);
        drain();
        for (int i = 0; i < WAVE; i++)
            assert_int_equal(finish(pids[i]), 0);
    }
    drain();
    assert_int_equal(seen->totals.lanes, WAVES * WAVE);
    assert_int_equal(seen->count, 3 * WAVES * WAVE);
    assert_int_equal(seen->totals.lost, 0);
    assert_int_equal(lane_files(), 0);
}

static void lanes_beyond_the_kept_descriptors_are_read_too(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    struct rlimit limit, few;
    getrlimit(RLIMIT_NOFILE, &limit);
    few = limit;
    few.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &few);
    tear_down(state);
    assert_int_equal(set_up(state), 0);
    struct file *file = good_file(2);
    for (int i = 0; i < COUNT; i++) {
        char path[PATH_MAX], suffix[16];
        snprintf(suffix, sizeof suffix, "-%d", i);
        own_path(suffix, path);
        write_file(path, file, sizeof *file);
    }
    drain();
    assert_int_equal(seen->totals.lanes, COUNT);
    assert_int_equal(seen->count, 2 * COUNT);
    drain();
    assert_int_equal(seen->count, 2 * COUNT);
    setrlimit(RLIMIT_NOFILE, &limit);
    free(file);
}

#if HAVE_FAILING_MALLOC
static void a_failed_allocation_is_an_error_and_loses_nothing(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    enum { COUNT = 40 };
    struct file *file = good_file(2);
    bool failed = true;
    for (long good = 0; failed; good++) {
        struct tide_err err = {0};
        struct tide_channel *other = NULL;
        failing_arm(good);
        int refused = tide_channel_new(&other, &err);
        failed = failing_disarm();
        assert_int_equal(refused != 0, other == NULL);
        assert_int_equal(refused != 0, err.text[0] != '\0');
        tide_channel_free(other);
    }
    for (int i = 0; i < COUNT; i++) {
        char path[PATH_MAX], suffix[16];
        snprintf(suffix, sizeof suffix, "-%d", i);
        own_path(suffix, path);
        write_file(path, file, sizeof *file);
    }
    failed = true;
    for (long good = 0; failed; good++) {
        struct tide_err err = {0};
        failing_arm(good);
        int refused = tide_channel_drain(channel, remember, seen, &seen->totals, &err);
        failed = failing_disarm();
        assert_int_equal(refused != 0, failed);
        assert_int_equal(refused != 0, err.text[0] != '\0');
    }
    assert_int_equal(seen->totals.lanes, COUNT);
    assert_int_equal(seen->count, 2 * COUNT);
    free(file);
}
#endif

/* ---- the directory ---- */

static void the_directory_is_private_and_goes_with_the_channel(void **state)
{
    (void)state;
    struct tide_channel *other;
    struct tide_err err;
    assert_int_equal(tide_channel_new(&other, &err), 0);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", tide_channel_path(other));
    struct stat is;
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_mode & 07777, 0700);
    assert_string_not_equal(path, tide_channel_path(channel));
    tide_channel_free(other);
    assert_int_equal(stat(path, &is), -1);
    assert_int_equal(stat(tide_channel_path(channel), &is), 0);
}

static void die_with_a_channel(void)
{
    struct tide_channel *mine;
    struct tide_err err;
    if (tide_channel_new(&mine, &err))
        exit(1);
    setenv(TIDE_CHANNEL_ENV, tide_channel_path(mine), 1);
    tide_step(1);
    char note[PATH_MAX];
    snprintf(note, sizeof note, "%s/left-behind", tide_channel_path(channel));
    if (symlink(tide_channel_path(mine), note))
        exit(1);
    raise(SIGKILL);
}

static void directories_of_dead_trackers_are_swept_up(void **state)
{
    (void)state;
    assert_int_equal(WTERMSIG(finish(start(die_with_a_channel))), SIGKILL);
    char note[PATH_MAX], left[PATH_MAX] = "";
    snprintf(note, sizeof note, "%s/left-behind", tide_channel_path(channel));
    assert_true(readlink(note, left, sizeof left - 1) > 0);
    struct stat is;
    assert_int_equal(stat(left, &is), 0);
    struct tide_channel *later;
    struct tide_err err;
    assert_int_equal(tide_channel_new(&later, &err), 0);
    assert_int_equal(stat(left, &is), -1);
    assert_int_equal(stat(tide_channel_path(channel), &is), 0);
    tide_channel_free(later);
}

static void sweeping_follows_no_link_and_takes_nothing_else(void **state)
{
    (void)state;
    char precious[PATH_MAX], inside[PATH_MAX], link_name[] = "/dev/shm/tidemark-4194000-1-linked";
    char other_name[] = "/dev/shm/tidemark-notes";
    snprintf(precious, sizeof precious, "%s/precious", tide_channel_path(channel));
    assert_int_equal(mkdir(precious, 0700), 0);
    snprintf(inside, sizeof inside, "%s/data", precious);
    int fd = open(inside, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    unlink(link_name);
    assert_int_equal(symlink(precious, link_name), 0);
    mkdir(other_name, 0700);
    struct tide_channel *later;
    struct tide_err err;
    assert_int_equal(tide_channel_new(&later, &err), 0);
    tide_channel_free(later);
    struct stat is;
    assert_int_equal(stat(inside, &is), 0);
    assert_int_equal(lstat(link_name, &is), 0);
    assert_int_equal(lstat(other_name, &is), 0);
    unlink(link_name);
    rmdir(other_name);
    unlink(inside);
    rmdir(precious);
}

static void a_directory_that_somebody_holds_is_left_alone(void **state)
{
    (void)state;
    char held[] = "/dev/shm/tidemark-4194001-1-heldon"; /* as a tracker in another PID namespace looks */
    mkdir(held, 0700);
    int fd = open(held, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    struct tide_channel *later;
    struct tide_err err;
    struct stat is;
    assert_int_equal(tide_channel_new(&later, &err), 0);
    tide_channel_free(later);
    assert_int_equal(stat(held, &is), 0);
    close(fd);
    assert_int_equal(tide_channel_new(&later, &err), 0);
    tide_channel_free(later);
    assert_int_equal(stat(held, &is), -1);
}

static void the_start_of_a_process_is_read_behind_any_name(void **state)
{
    (void)state;
    uint64_t ticks;
    assert_int_equal(
        tide_birth_parse("5 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n", &ticks),
        0);
    assert_int_equal(ticks, 4711);
    assert_int_equal(tide_birth_parse("5 (a) S 1 2 3", &ticks), -1);
    assert_int_equal(tide_birth_parse("", &ticks), -1);
    assert_int_equal(tide_birth_parse("5 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x", &ticks), -1);
}

#define SPOKEN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--say")) {
        tide_step(atoi(argv[2]));
        return 0;
    }
    const struct CMUnitTest tests[] = {
        SPOKEN(every_kind_of_mark_arrives_in_order),
        SPOKEN(a_lane_of_a_process_that_ended_is_removed),
        SPOKEN(a_long_name_is_cut),
        SPOKEN(a_program_that_cannot_attach_runs_untracked),
        SPOKEN(a_dead_tracker_harms_nobody),
        SPOKEN(a_forked_child_makes_its_own_lane),
        SPOKEN(a_program_that_execs_goes_on_in_its_lane),
        SPOKEN(a_full_file_system_leaves_the_program_untracked),
        SPOKEN(a_process_of_another_namespace_is_heard_to_its_end),
        SPOKEN(the_last_words_of_a_killed_program_arrive),
        SPOKEN(what_the_python_package_says_arrives),
        SPOKEN(marking_does_not_make_the_program_grow),
        SPOKEN(a_full_ring_is_thinned_and_nothing_is_lost),
        SPOKEN(what_was_overwritten_is_counted_as_lost),
        SPOKEN(thinning_keeps_pairs_whole_and_rare_marks_all),
        SPOKEN(threads_that_hammer_never_leave_a_torn_mark),
        SPOKEN(wrong_headers_are_ignored),
        SPOKEN(wrong_files_are_ignored),
        SPOKEN(names_that_are_no_lanes_are_ignored),
        SPOKEN(hostile_slots_are_made_harmless),
        SPOKEN(an_unfinished_mark_is_waited_for_once),
        SPOKEN(a_mark_that_is_never_finished_blocks_nobody),
        SPOKEN(a_head_that_goes_backwards_ends_the_lane),
        SPOKEN(a_lane_cut_short_later_is_dropped),
        SPOKEN(a_slot_that_is_taken_is_left_alone),
        SPOKEN(a_lane_whose_pid_was_reused_is_dropped),
        SPOKEN(a_storm_of_short_lives_is_heard_and_leaves_nothing),
        SPOKEN(lanes_beyond_the_kept_descriptors_are_read_too),
#if HAVE_FAILING_MALLOC
        SPOKEN(a_failed_allocation_is_an_error_and_loses_nothing),
#endif
        SPOKEN(the_directory_is_private_and_goes_with_the_channel),
        SPOKEN(directories_of_dead_trackers_are_swept_up),
        SPOKEN(sweeping_follows_no_link_and_takes_nothing_else),
        SPOKEN(a_directory_that_somebody_holds_is_left_alone),
        cmocka_unit_test(the_start_of_a_process_is_read_behind_any_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
