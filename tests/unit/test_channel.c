/*
 * The writing end of the channel, through the reading end. Run from the top of the tree, where the Python
 * package is.
 */
#include "channel_fixture.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

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
        enum tide_mark_kind kind;
        int64_t number;
        const char *name;
    } expected[] = {
        {TIDE_MARK_STEP, 7, ""},
        {TIDE_MARK_EPOCH, 2, ""},
        {TIDE_MARK_PHASE_BEGIN, 0, "validation"},
        {TIDE_MARK_PHASE_END, 0, "validation"},
        {TIDE_MARK_ITEMS, 640, ""},
        {TIDE_MARK_GAUGE, 1 << 20, "replay buffer"},
        {TIDE_MARK_GAUGE, -5, ""},
    };
    size_t count = sizeof expected / sizeof *expected;
    assert_int_equal(seen->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(seen->at[i].event.kind, expected[i].kind);
        assert_int_equal(seen->at[i].event.number, expected[i].number);
        assert_string_equal(seen->at[i].event.name, expected[i].name);
        assert_int_equal(seen->at[i].pid, pid);
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
    assert_int_equal(strlen(seen->at[0].event.name), TIDE_NAME_MAX);
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
        of_step[seen->at[i].event.number] = seen->at[i].pid;
    assert_int_equal(of_step[1], pid);
    assert_int_equal(of_step[4], pid);
    assert_true(of_step[2] > 0 && of_step[3] > 0);
    assert_true(of_step[2] != pid && of_step[3] != pid && of_step[2] != of_step[3]);
}

static const char *own_program; /* argv[0]: under valgrind, /proc/self/exe is valgrind */

static void say_and_exec(void)
{
    tide_step(1);
    execl(own_program, own_program, "--say", "2", (char *)NULL);
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
    assert_int_equal(seen->at[1].pid, pid);
}

/* With no room for a lane on the file system, writing to a sparse one would be a SIGBUS. */
static void with_file_system_full(void)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", tide_channel_path(channel), "tmpfs", 0, "size=256k"))
        exit(errno == EPERM || errno == EINVAL ? 77 : 1); /* not root, or inside a chroot */
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
    assert_int_equal(seen->at[0].event.kind, TIDE_MARK_STEP);
    assert_int_equal(seen->at[0].event.number, 12);
    assert_int_equal(seen->at[1].event.kind, TIDE_MARK_PHASE_BEGIN);
    assert_int_equal(seen->at[2].event.number, 1 << 30);
    assert_string_equal(seen->at[2].event.name, "loader");
    assert_string_equal(seen->at[3].event.name, "validation");
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
        const char *name = seen->at[i].event.name;
        enum tide_mark_kind kind = seen->at[i].event.kind;
        steps += kind == TIDE_MARK_STEP;
        odd += !strcmp(name, "odd");
        even += !strcmp(name, "even");
        rare += kind == TIDE_MARK_EPOCH || !strcmp(name, "epoch") || !strcmp(name, "started before");
        if (strcmp(name, "forward"))
            continue;
        if (kind == TIDE_MARK_PHASE_BEGIN)
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
    tide_step(1); /* attached: a thread that meets another one attaching may go without */
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
            if (seen->at[i].event.kind == TIDE_MARK_STEP)
                continue;
            int64_t number = seen->at[i].event.number;
            const char *name = seen->at[i].event.name;
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

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--say")) {
        tide_step(atoi(argv[2]));
        return 0;
    }
    own_program = argv[0];
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
