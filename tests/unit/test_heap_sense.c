/*
 * test_heap_sense.c - what a table holds gets into the recording: all of it when it is little, the most
 * important of it when it is much, everything when the process has ended.
 */
#include "sense/heap_sense.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "failing_malloc.h"
#include "heap_fixture.h"
#include "recording_fixture.h"
#include "sense/symbol_worker.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

/* The clock is ours, so that ten seconds pass at will. */
static int64_t skipped_ns;

int64_t tide_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * TIDE_NS_PER_S + now.tv_nsec + skipped_ns;
}

int64_t tide_clock_thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * TIDE_NS_PER_S + t.tv_nsec;
}

int64_t tide_clock_wall_s(void)
{
    return 1700000000;
}

static const char *own_program; /* argv[0]: under valgrind, /proc/self/exe is valgrind */
static struct heap_fixture f;
static struct tide_heap_sense *heap;
static struct tide_descriptors descriptors = {.most = 64};
static struct tide_sense *sense;
static struct tide_writer *writer;
static pid_t child;
static int64_t base_ns, now_ns;

/* Waits, and becomes another program on SIGUSR1. */
static void be_child(const sigset_t *wake)
{
    int signal;
    sigwait(wake, &signal);
    execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    _exit(1);
}

/* A process that only waits, its table, and a recording that follows both. */
static int set_up(void **state)
{
    (void)state;
    struct tide_err err = {0};
    uint64_t start = 0;
    f = (struct heap_fixture){.fd = -1};
    name_recording(state);
    assert_int_equal(tide_heap_sense_new(own_program, &heap, &err), 0);
    sigset_t wake, before;
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    sigprocmask(SIG_BLOCK, &wake, &before);
    child = fork();
    if (child == 0)
        be_child(&wake);
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(tide_birth_read(child, &start), 0);
    heap_fixture_directory(&f);
    heap_fixture_table(&f, child, start, 0);
    base_ns = now_ns = tide_clock_ns();
    assert_int_equal(tide_heap_sense_open(heap, f.directory, &descriptors, base_ns, &err), 0);
    struct tide_sense_config config = {.root = child,
                                       .limit_bytes = TIDE_UNKNOWN,
                                       .proc_path = "/proc",
                                       .cgroup_path = "/sys/fs/cgroup",
                                       .base_ns = base_ns};
    assert_int_equal(tide_sense_new(&config, &sense, &err), 0);
    writer = new_writer();
    return 0;
}

static void end_child(void)
{
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    child = 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_writer_free(writer, NULL);
    tide_heap_sense_free(heap);
    tide_sense_free(sense);
    end_child();
    heap_fixture_remove(&f);
    remove_recording();
    return 0;
}

static int64_t look(void)
{
    struct tide_sense_view view;
    struct tide_err err = {0};
    now_ns += 250 * (int64_t)TIDE_NS_PER_MS;
    assert_int_equal(tide_sense_look(sense, writer, now_ns, &view, &err), 0);
    assert_int_equal(tide_heap_sense_look(heap, sense, writer, view.tick.id, now_ns, false, &err), 0);
    assert_int_equal(tide_writer_commit(writer, &err), 0);
    return view.tick.id;
}

static void finish(int64_t tick)
{
    struct tide_err err = {0};
    assert_int_equal(tide_heap_sense_look(heap, sense, writer, tick, now_ns, true, &err), 0);
    assert_int_equal(tide_writer_commit(writer, &err), 0);
}

static int64_t ask(const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

/* How often a table is read depends on what that costs here. */
static int64_t looks_until(const char *sql)
{
    int64_t tick = look();
    for (int i = 0; i < 1000 && !ask(sql); i++)
        tick = look();
    return tick;
}

/* A site with a stack of its own, in no module. */
static struct tide_heap_site *plain_site(uint64_t number, int64_t live)
{
    uint64_t words[] = {0x10000 + number * 16,
                        heap_fixture_code(&f, "train.py", "step", (uint32_t)number + 1)};
    heap_fixture_module(&f, "/no/such/program", 0, 0x10000 + number * 16 - 1, 0x10000 + number * 16 + 15);
    return heap_fixture_site(&f, TIDE_SITE_MALLOC, words, 2, live);
}

/* Many sites, cheaply: each a line of one Python function. */
static void python_sites(uint32_t count, int64_t live)
{
    uint64_t code = heap_fixture_code(&f, "busy.py", "busy", 0);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = code | (i + 1);
        heap_fixture_site(&f, TIDE_SITE_MALLOC, &word, 1, live);
    }
}

static void a_site_is_written_when_it_changes(void **state)
{
    (void)state;
    struct tide_heap_site *site = plain_site(1, 5000);
    int64_t tick = looks_until("SELECT count(*) FROM site");
    assert_int_equal(ask("SELECT count(*) FROM site"), 1);
    int64_t rows = ask("SELECT count(*) FROM site_sample");
    assert_int_equal(rows, 1);
    look();
    assert_int_equal(ask("SELECT count(*) FROM site_sample"), 1);
    site->live_bytes = 7000;
    tick = look();
    assert_int_equal(ask("SELECT count(*) FROM site_sample"), 2);
    assert_int_equal(ask("SELECT live_bytes FROM site_sample ORDER BY tick DESC"), 7000);
    assert_int_equal(
        ask("SELECT count(*) FROM frames WHERE function = '/no/such/program+0x1000f' AND depth = 0"), 1);
    assert_int_equal(ask("SELECT line FROM frames WHERE function = 'step' AND python = 1 AND depth = 1"), 2);
    site->live_bytes = 9000;
    finish(tick);
    assert_int_equal(ask("SELECT live_bytes FROM site_sample ORDER BY tick DESC"), 9000);
    assert_int_equal(ask("SELECT count(*) FROM heap_state WHERE state = 'on'"), 1);
}

static bool is_called(pid_t pid, const char *name)
{
    char comm[64], text[64] = "";
    snprintf(comm, sizeof comm, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(comm, "r");
    assert_non_null(file);
    bool is = fgets(text, sizeof text, file) && !strncmp(text, name, strlen(name));
    fclose(file);
    return is;
}

/* Also if it is found between the exec and the next look at the tree. */
static void a_table_that_came_with_an_exec_is_of_the_program_after_it(void **state)
{
    (void)state;
    uint64_t start = f.head->start_ticks;
    struct tide_err err = {0};
    int64_t tick = look();
    kill(child, SIGUSR1);
    while (!is_called(child, "sleep"))
        sched_yield();
    heap_fixture_end(&f);
    unlink(f.path);
    heap_fixture_table(&f, child, start, 1);
    plain_site(1, 5000);
    assert_int_equal(tide_heap_sense_look(heap, sense, writer, tick, now_ns, false, &err), 0);
    looks_until("SELECT count(*) FROM site");
    assert_int_equal(ask("SELECT count(*) FROM process WHERE pid = (SELECT pid FROM process)"), 2);
    assert_int_equal(ask("SELECT count(*) FROM site"), 1);
    assert_int_equal(ask("SELECT process FROM site"), 2);
}

/* Its table is there, whatever is in it: here a first module without a name, and numbers that are too large.
 */
static void a_process_that_no_look_saw_is_recorded_if_it_held_much(void **state)
{
    (void)state;
    for (int much = 0; much < 2; much++) {
        uint64_t start = 0;
        heap_fixture_end(&f);
        unlink(f.path);
        pid_t unseen = fork(); /* not below the root of the tree */
        if (unseen == 0)
            for (;;)
                pause();
        assert_int_equal(tide_birth_read(unseen, &start), 0);
        heap_fixture_table(&f, unseen, start, 0);
        heap_fixture_module(&f, "", 0, 16, 16);
        plain_site(1, much ? INT64_C(1) << 62 : 1000);
        plain_site(2, much ? INT64_C(1) << 62 : 1000);
        kill(unseen, SIGKILL);
        waitpid(unseen, NULL, 0);
        heap_fixture_end(&f);
        finish(look());
        assert_int_equal(ask("SELECT count(*) FROM process"), 1 + much);
        assert_int_equal(ask("SELECT count(*) FROM site"), 2 * much);
        assert_int_equal(ask("SELECT count(*) FROM note WHERE text LIKE '1 process ended before%'"), !much);
        if (!much) {
            tear_down(state);
            set_up(state);
        }
    }
}

static void small_sites_beyond_2000_are_one_sum(void **state)
{
    (void)state;
    python_sites(5000, 100);
    int64_t tick = looks_until("SELECT count(*) >= 2000 FROM site");
    assert_int_equal(ask("SELECT count(*) FROM site WHERE stack > 0"), 2000);
    assert_int_equal(
        ask("SELECT live_bytes FROM site_sample JOIN site ON site.id = site WHERE stack = 0 ORDER BY tick DESC"),
        3000 * 100);
    /* One of them grows up. */
    f.sites[4000].live_bytes = f.sites[4000].total_bytes = 100000;
    tick = looks_until("SELECT count(*) > 2000 FROM site WHERE stack > 0");
    assert_int_equal(ask("SELECT count(*) FROM site WHERE stack > 0"), 2001);
    assert_int_equal(
        ask("SELECT live_bytes FROM site_sample JOIN site ON site.id = site WHERE stack = 0 ORDER BY tick DESC"),
        2999 * 100);
    finish(tick);
    assert_int_equal(
        ask("SELECT sum(live_bytes) FROM (SELECT live_bytes, max(tick) FROM site_sample GROUP BY site)"),
        4999 * 100 + 100000);
}

static void a_busy_program_has_a_bounded_recording_and_a_complete_end(void **state)
{
    (void)state;
    int64_t tick = 0;
    python_sites(2000, 100000);
    look();
    for (int round = 1; round <= 400; round++) {
        for (int i = 0; i < 2000; i++)
            f.sites[i].live_bytes += i == 1234 ? 50000 : 1;
        tick = look();
    }
    /* 800,000 changes; the burst is 200,000 rows, and 50 a second come back. */
    int64_t rows = ask("SELECT count(*) FROM site_sample");
    assert_true(rows < 215000);
    /* What changes most is written every time that any is. */
    assert_int_equal(ask("SELECT max(n) FROM (SELECT count(*) AS n FROM site_sample GROUP BY site)"),
                     ask("SELECT count(DISTINCT tick) FROM site_sample"));
    assert_true(ask("SELECT max(n) > 2 * min(n) FROM (SELECT count(*) AS n FROM site_sample GROUP BY site)"));
    end_child();
    heap_fixture_end(&f);
    now_ns += TIDE_NS_PER_S;
    finish(tick);
    assert_int_equal(ask("SELECT count(*) FROM (SELECT live_bytes, max(tick) FROM site_sample GROUP BY site)"
                         " WHERE live_bytes = 100400"),
                     1999);
    assert_int_equal(access(f.path, F_OK), -1);
}

static void what_a_full_disk_swallowed_is_written_again(void **state)
{
    (void)state;
    struct rlimit old, small = {.rlim_cur = 120 * 1024};
    struct tide_sense_view view;
    struct tide_err err = {0};
    signal(SIGXFSZ, SIG_IGN);
    python_sites(300, 100000);
    looks_until("SELECT count(*) >= 300 FROM site");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; !tide_writer_failed(writer) && i < 10000; i++) {
        now_ns += 250 * (int64_t)TIDE_NS_PER_MS;
        for (int k = 0; k < 300; k++)
            f.sites[k].live_bytes++;
        tide_sense_look(sense, writer, now_ns, &view, &err);
        tide_heap_sense_look(heap, sense, writer, view.tick.id, now_ns, false, &err);
        tide_writer_commit(writer, &err);
    }
    assert_true(tide_writer_failed(writer));
    /* One more that is new, and a last change, while nothing can be written. */
    python_sites(1, 777);
    f.sites[7].live_bytes = 5;
    look();
    look();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    skipped_ns += 11 * (int64_t)TIDE_NS_PER_S;
    look(); /* its commit gets through */
    assert_false(tide_writer_failed(writer));
    looks_until("SELECT count(*) FROM site_sample WHERE live_bytes = 777");
    assert_int_equal(
        ask("SELECT live_bytes FROM site_sample WHERE site = (SELECT id FROM site WHERE stack = 8) ORDER BY tick DESC"),
        5);
    assert_int_equal(
        ask("SELECT count(*) FROM (SELECT live_bytes, max(tick) FROM site_sample GROUP BY site)"), 301);
    for (int k = 0; k < 300; k += 50) {
        char sql[200];
        snprintf(sql, sizeof sql,
                 "SELECT live_bytes FROM site_sample JOIN site ON site.id = site JOIN frames USING (stack)"
                 " WHERE line = %d AND file = 'busy.py' ORDER BY tick DESC",
                 k + 1);
        if (k > 0)
            assert_int_equal(ask(sql), f.sites[k].live_bytes);
    }
}

static void a_stack_waits_for_its_module_but_not_for_ever(void **state)
{
    (void)state;
    uint64_t late = 0x5000, never = 0x9000;
    heap_fixture_site(&f, TIDE_SITE_MALLOC, &late, 1, 100000);
    heap_fixture_site(&f, TIDE_SITE_MALLOC, &never, 1, 100000);
    look();
    look();
    assert_int_equal(ask("SELECT count(*) FROM site"), 0);
    heap_fixture_module(&f, "/lib/late.so", 0x4000, 0x4000, 0x6000);
    for (int i = 0; i < 20; i++)
        look();
    assert_int_equal(ask("SELECT count(*) FROM frames WHERE function = '/lib/late.so+0xfff'"), 1);
    assert_int_equal(ask("SELECT count(*) FROM frame WHERE module = '' AND offset = 36863"), 1);
    assert_int_equal(ask("SELECT count(*) FROM site WHERE stack > 0"), 2);
}

static void what_a_site_held_while_its_stack_was_unknown_is_written(void **state)
{
    (void)state;
    uint64_t late = 0x5000;
    struct tide_heap_site *site = heap_fixture_site(&f, TIDE_SITE_MALLOC, &late, 1, 100000);
    int64_t first = look();
    for (int i = 1; i < 5; i++) {
        site->live_bytes += 1000;
        look();
    }
    assert_int_equal(ask("SELECT count(*) FROM site_sample"), 0);
    heap_fixture_module(&f, "/lib/late.so", 0x4000, 0x4000, 0x6000);
    looks_until("SELECT count(*) FROM site WHERE stack > 0");
    assert_int_equal(ask("SELECT min(tick) FROM site_sample"), first);
    assert_int_equal(ask("SELECT count(*) FROM site_sample"), 5);
    assert_int_equal(ask("SELECT live_bytes FROM site_sample ORDER BY tick"), 100000);
    assert_int_equal(ask("SELECT live_bytes FROM site_sample ORDER BY tick DESC"), 104000);
}

static void why_nothing_is_seen_is_told_once(void **state)
{
    (void)state;
    f.head->state = TIDE_HEAP_SANITIZED;
    look();
    const char *notice = tide_heap_sense_notice(heap);
    assert_non_null(notice);
    assert_non_null(strstr(notice, "sanitizer"));
    look();
    assert_null(tide_heap_sense_notice(heap));
    assert_int_equal(ask("SELECT count(*) FROM note WHERE text LIKE '%sanitizer%'"), 1);
    assert_int_equal(tide_heap_sense_tables(heap), 1);
}

static void lost_frees_are_told_once_and_counted(void **state)
{
    (void)state;
    look();
    assert_null(tide_heap_sense_notice(heap));
    f.head->lost_frees = 1;
    int64_t tick = looks_until("SELECT count(*) FROM heap_state WHERE state LIKE 'on; 1 free could not%'");
    const char *notice = tide_heap_sense_notice(heap);
    assert_non_null(notice);
    assert_non_null(strstr(notice, ": on; 1 free could not be recorded: live values are too high"));
    f.head->lost_frees = 20;
    f.head->sampled++;
    end_child();
    heap_fixture_end(&f);
    finish(tick);
    assert_null(tide_heap_sense_notice(heap));
    assert_int_equal(ask("SELECT count(*) FROM heap_state WHERE state LIKE 'on; 20 frees could not%'"), 1);
}

static void everything_that_is_not_seen_is_told_to_the_end(void **state)
{
    (void)state;
    static const char last[] = "the CUDA driver lacks functions it should have";
    f.head->state = TIDE_HEAP_REPLACED;
    f.head->python = TIDE_HEAP_PYTHON_CHECK;
    f.head->python_version = 0x030e01f0;
    f.head->cuda = TIDE_HEAP_CUDA_INCOMPLETE;
    look();
    const char *notice = tide_heap_sense_notice(heap);
    assert_non_null(notice);
    assert_string_equal(notice + strlen(notice) - strlen(last), last);
    assert_int_equal(ask("SELECT count(*) FROM heap_state WHERE state LIKE '%functions it should have'"), 1);
}

#if HAVE_FAILING_MALLOC
static void without_memory_less_is_written_and_nothing_breaks(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    struct tide_sense_view view;
    struct tide_err err = {0};
    look();
    for (long good = 0; good < 200; good++) {
        plain_site((uint64_t)good + 1, 100000);
        now_ns += 250 * (int64_t)TIDE_NS_PER_MS;
        assert_int_equal(tide_sense_look(sense, writer, now_ns, &view, &err), 0);
        failing_arm(good);
        tide_heap_sense_look(heap, sense, writer, view.tick.id, now_ns, false, &err);
        failing_disarm();
        tide_writer_commit(writer, &err);
        skipped_ns += 11 * (int64_t)TIDE_NS_PER_S; /* a writer that failed goes on */
    }
    finish(look());
    assert_int_equal(ask("SELECT count(*) FROM site WHERE stack > 0"), 200);
    assert_int_equal(ask("SELECT count(*) FROM (SELECT max(tick), live_bytes FROM site_sample GROUP BY site)"
                         " WHERE live_bytes = 100000"),
                     200);
}
#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], TIDE_SYMBOL_WORKER) == 0)
        return tide_symbol_worker_run();
    own_program = argv[0];
    const struct CMUnitTest tests[] = {
        TEST(a_site_is_written_when_it_changes),
        TEST(a_table_that_came_with_an_exec_is_of_the_program_after_it),
        TEST(a_process_that_no_look_saw_is_recorded_if_it_held_much),
        TEST(small_sites_beyond_2000_are_one_sum),
        TEST(a_busy_program_has_a_bounded_recording_and_a_complete_end),
        TEST(what_a_full_disk_swallowed_is_written_again),
#if HAVE_FAILING_MALLOC
        TEST(without_memory_less_is_written_and_nothing_breaks),
#endif
        TEST(a_stack_waits_for_its_module_but_not_for_ever),
        TEST(what_a_site_held_while_its_stack_was_unknown_is_written),
        TEST(why_nothing_is_seen_is_told_once),
        TEST(lost_frees_are_told_once_and_counted),
        TEST(everything_that_is_not_seen_is_told_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
