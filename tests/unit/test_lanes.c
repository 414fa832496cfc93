/* The reading end of the channel: lanes that lie, lanes without number, and the directory they are in. */
#include "failing_malloc.h"

#include "channel_fixture.h"

#include "base/clock.h"
#include "channel/birth.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

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
        slot->kind = TIDE_MARK_STEP;
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
    file->slots[1].kind = TIDE_MARK_GAUGE;
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
    assert_string_equal(seen->at[0].event.name, "");
    assert_int_equal(strlen(seen->at[1].event.name), TIDE_LANE_NAME - 1);
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
        int refused = tide_channel_new(&descriptors, &other, &err);
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
    assert_int_equal(tide_channel_new(&descriptors, &other, &err), 0);
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

static bool kills_sweeper;

static void die_with_a_channel(void)
{
    struct tide_channel *mine;
    struct tide_err err;
    if (tide_channel_new(&descriptors, &mine, &err))
        exit(1);
    setenv(TIDE_CHANNEL_ENV, tide_channel_path(mine), 1);
    tide_step(1);
    char note[PATH_MAX];
    snprintf(note, sizeof note, "%s/left-behind", tide_channel_path(channel));
    if (symlink(tide_channel_path(mine), note))
        exit(1);
    pid_t sweeper = (pid_t)tide_channel_helper(mine);
    if (kills_sweeper && (kill(sweeper, SIGKILL) || waitpid(sweeper, NULL, 0) != sweeper))
        exit(1);
    raise(SIGKILL);
}

/* By the process that waits for that. */
static void the_directory_of_a_killed_tracker_goes_with_it(void **state)
{
    (void)state;
    kills_sweeper = false;
    assert_int_equal(WTERMSIG(finish(start(die_with_a_channel))), SIGKILL);
    char note[PATH_MAX], left[PATH_MAX] = "";
    snprintf(note, sizeof note, "%s/left-behind", tide_channel_path(channel));
    assert_true(readlink(note, left, sizeof left - 1) > 0);
    struct stat is;
    while (!stat(left, &is)) /* the test's time limit ends it */
        sched_yield();
}

static void directories_of_dead_trackers_are_swept_up(void **state)
{
    (void)state;
    kills_sweeper = true;
    assert_int_equal(WTERMSIG(finish(start(die_with_a_channel))), SIGKILL);
    char note[PATH_MAX], left[PATH_MAX] = "";
    snprintf(note, sizeof note, "%s/left-behind", tide_channel_path(channel));
    assert_true(readlink(note, left, sizeof left - 1) > 0);
    struct stat is;
    assert_int_equal(stat(left, &is), 0);
    struct tide_channel *later;
    struct tide_err err;
    assert_int_equal(tide_channel_new(&descriptors, &later, &err), 0);
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
    assert_int_equal(tide_channel_new(&descriptors, &later, &err), 0);
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
    assert_int_equal(tide_channel_new(&descriptors, &later, &err), 0);
    tide_channel_free(later);
    assert_int_equal(stat(held, &is), 0);
    close(fd);
    assert_int_equal(tide_channel_new(&descriptors, &later, &err), 0);
    tide_channel_free(later);
    assert_int_equal(stat(held, &is), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        SPOKEN(the_directory_of_a_killed_tracker_goes_with_it),
        SPOKEN(directories_of_dead_trackers_are_swept_up),
        SPOKEN(sweeping_follows_no_link_and_takes_nothing_else),
        SPOKEN(a_directory_that_somebody_holds_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
