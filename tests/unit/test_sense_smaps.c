/*
 * test_sense_smaps.c - PSS on a budget: who is read, how often, and what is counted meanwhile.
 */
#include "sense/smaps.h"
#include "base/clock.h"
#include "../fake/fake_proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <cmocka.h>

enum { MIB = 1024 }; /* in KiB */

static const int64_t second_ns = TIDE_NS_PER_S;
static struct tide_tree tree;
static struct tide_smaps_budget budget;
static int64_t now_ns;

static int set_up(void **state)
{
    (void)state;
    fake_begin();
    now_ns = 1000 * second_ns;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_tree_release(&tree);
    tide_smaps_release(&budget);
    fake_end();
    return 0;
}

/* What a look at the fake costs does not depend on how busy the machine is. */
static int64_t time_stands_still(void)
{
    return 0;
}

static void begin(int64_t ppm)
{
    struct tide_err err;
    tide_smaps_init(&budget, ppm);
    budget.clock = time_stands_still;
    assert_int_equal(tide_tree_init(&tree, fake_root, false, &err), 0);
    assert_int_equal(tide_tree_add_root(&tree, 100, now_ns, &err), 0);
}

static void look(void)
{
    assert_int_equal(tide_tree_scan(&tree, now_ns, NULL), 0);
    tide_tree_read(&tree, now_ns);
    tide_smaps_spend(&budget, &tree, now_ns);
    now_ns += second_ns;
}

static size_t fresh(void)
{
    size_t count = 0;
    for (size_t i = 0; i < tree.member_count; i++)
        count += tree.members[i]->smaps.fresh;
    return count;
}

static int64_t counted(int pid)
{
    bool known;
    return tide_smaps_counted(&tree, tide_tree_find(&tree, pid), &known);
}

static void put(int pid, int parent, long anon, long pss)
{
    fake_put(&(struct fake_process){
        .pid = pid, .parent = parent, .start = (unsigned long)pid, .anon = anon, .pss = pss, .uss = pss});
}

static void nothing_is_read_before_time_has_passed(void **state)
{
    (void)state;
    put(100, 1, 10 * MIB, 6 * MIB);
    begin(10000);
    look();
    assert_int_equal(fresh(), 0);
    assert_int_equal(counted(100), 10 * MIB * 1024);
    look();
    assert_int_equal(fresh(), 1);
    assert_int_equal(counted(100), 6 * MIB * 1024);
}

static void what_is_freed_between_a_look_and_its_pss_is_not_missing_afterwards(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){
        .pid = 100, .parent = 1, .start = 100, .anon = 200 * MIB, .pss = 90 * MIB, .anon_read = 90 * MIB});
    begin(10000);
    do
        look();
    while (!fresh());
    assert_int_equal(counted(100), 200 * MIB * 1024);
    put(100, 1, 90 * MIB, 90 * MIB);
    tide_tree_read(&tree, now_ns);
    assert_int_equal(counted(100), 90 * MIB * 1024);
}

static void a_budget_of_nothing_reads_nothing(void **state)
{
    (void)state;
    put(100, 1, 10 * MIB, 6 * MIB);
    begin(0);
    for (int i = 0; i < 5; i++)
        look();
    assert_int_equal(tide_tree_find(&tree, 100)->smaps.row.pss_bytes, TIDE_UNKNOWN);
}

#define ARENA  "7f0000000000-7f0040000000 rw-p 00000000 00:00 0 \n"
#define BUFFER "7f1000000000-7f1040000000 rw-p 00000000 00:00 0 \nRss: 800 kB\nVmFlags: rd wr mr mw me sd \n"

static void put_asking(long anon, long asked, const char *smaps)
{
    fake_put(&(struct fake_process){.pid = 100,
                                    .parent = 1,
                                    .start = 100,
                                    .anon = anon,
                                    .pss = anon,
                                    .uss = anon,
                                    .asked = asked,
                                    .smaps = smaps});
}

static int64_t unreserved(void)
{
    do
        look();
    while (!fresh());
    return tide_tree_find(&tree, 100)->smaps.row.unreserved_bytes;
}

static void what_has_no_reservation_is_read_of_who_has_much_that_is_not_touched(void **state)
{
    (void)state;
    put_asking(10 * MIB, 200 * MIB, ARENA "Rss: 900 kB\nVmFlags: rd wr nr \n");
    begin(10000);
    assert_int_equal(unreserved(), TIDE_UNKNOWN);
    put_asking(10 * MIB, 1100 * MIB, ARENA "Rss: 900 kB\nVmFlags: rd wr nr \n" BUFFER);
    assert_int_equal(unreserved(), 900 * 1024);
    put_asking(11 * MIB, 1100 * MIB, BUFFER ARENA "Rss: 1900 kB\nVmFlags: rd wr nr \n");
    assert_int_equal(unreserved(), 1900 * 1024);
}

static void who_has_none_is_not_asked_again_until_he_asks_for_more(void **state)
{
    (void)state;
    put_asking(10 * MIB, 1100 * MIB, BUFFER);
    begin(10000);
    assert_int_equal(unreserved(), 0);
    put_asking(11 * MIB, 1200 * MIB, ARENA "Rss: 900 kB\nVmFlags: rd wr nr \n");
    assert_int_equal(unreserved(), 0);
    put_asking(11 * MIB, 2100 * MIB, ARENA "Rss: 900 kB\nVmFlags: rd wr nr \n");
    assert_int_equal(unreserved(), 900 * 1024);
}

static void what_grew_since_the_last_read_is_counted(void **state)
{
    (void)state;
    put(100, 1, 10 * MIB, 6 * MIB);
    begin(10000);
    look();
    look();
    tide_tree_find(&tree, 100)->smaps.read_ns = now_ns + 60 * second_ns; /* no read for a while */
    put(100, 1, 13 * MIB, 0);
    look();
    assert_int_equal(counted(100), 9 * MIB * 1024);
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 100, .anon = 8 * MIB, .swap = 5 * MIB});
    look();
    assert_int_equal(counted(100), 9 * MIB * 1024); /* swapped out is not gone */
    put(100, 1, 1 * MIB, 0);
    look();
    assert_int_equal(counted(100), 0); /* less than nothing is nothing */
}

static void a_read_that_would_take_too_long_is_never_begun(void **state)
{
    (void)state;
    put(100, 1, 200L * 1024 * MIB, 1 * MIB); /* 200 GiB */
    put(200, 100, 50 * MIB, 20 * MIB);
    begin(10000);
    for (int i = 0; i < 60; i++)
        look();
    assert_true(tide_smaps_predict_ns(tide_tree_find(&tree, 100)) > TIDE_SMAPS_LONGEST_NS);
    assert_int_equal(tide_tree_find(&tree, 100)->smaps.row.pss_bytes, TIDE_UNKNOWN);
    assert_int_equal(tide_tree_find(&tree, 200)->smaps.row.pss_bytes, 20 * MIB * 1024);
}

static void a_dear_read_waits_until_enough_is_saved(void **state)
{
    (void)state;
    put(100, 1, 4L * 1024 * MIB, 1 * MIB); /* 4 GiB: 52 ms, 5.2 s at 1 % */
    begin(10000);
    int seconds = 0;
    do
        look();
    while (!fresh() && seconds++ < 20);
    assert_in_range(seconds, 5, 6);
}

static void those_never_read_come_first_and_big_ones_before_small_ones(void **state)
{
    (void)state;
    put(100, 1, 10 * MIB, 6 * MIB);
    put(200, 100, 300 * MIB, 100 * MIB); /* 3.8 ms */
    put(300, 100, 700 * MIB, 200 * MIB); /* 8.9 ms */
    begin(10000);                        /* 10 ms a second */
    look();
    look();
    assert_true(tide_tree_find(&tree, 300)->smaps.fresh);
    /* What the fake really cost is next to nothing, so the others had their turn too, after it. */
    assert_true(tide_tree_find(&tree, 200)->smaps.fresh);
    assert_true(tide_tree_find(&tree, 100)->smaps.fresh);
}

static void a_quiet_tree_is_read_out_of_a_fifth_of_the_budget(void **state)
{
    (void)state;
    put(100, 1, 10 * MIB, 6 * MIB);
    begin(10000);
    look();
    look();
    struct tide_member *member = tide_tree_find(&tree, 100);
    member->smaps.ns_per_byte = 30e6 / (10.0 * MIB * 1024); /* 30 ms a read: 3 s of all, 15 s of a fifth */
    memset(budget.purse_ns, 0, sizeof budget.purse_ns);
    int seconds = 0;
    do
        look();
    while (!fresh() && seconds++ < 60);
    assert_in_range(seconds, 14, 16);
}

static void a_change_is_followed_up_out_of_a_fifth_of_its_own(void **state)
{
    (void)state;
    put(100, 1, 100 * MIB, 60 * MIB);
    begin(10000);
    look();
    look();
    struct tide_member *member = tide_tree_find(&tree, 100);
    member->smaps.ns_per_byte = 60e6 / (110.0 * MIB * 1024); /* 60 ms: 6 s of all, 30 s of a fifth */
    memset(budget.purse_ns, 0, sizeof budget.purse_ns);
    budget.purse_ns[TIDE_SMAPS_IDLE] = -1000 * second_ns; /* no idle reads */
    put(100, 1, 110 * MIB, 70 * MIB);
    int seconds = 0;
    do
        look();
    while (!fresh() && seconds++ < 60);
    assert_in_range(seconds, 29, 31);
}

/* Every program is first seen small, and reading a small process costs mostly what any read costs. */
static void what_a_small_process_costs_does_not_make_it_dear_once_it_is_large(void **state)
{
    (void)state;
    put(100, 1, 1 * MIB, 1 * MIB);
    begin(10000);
    look();
    look();
    struct tide_member *member = tide_tree_find(&tree, 100);
    member->smaps.ns_per_byte = 250e3 / (1.0 * MIB * 1024); /* the first read took a quarter of a ms */
    put(100, 1, 1536L * MIB, 1500L * MIB);
    int seconds = 0;
    do
        look();
    while (!fresh() && seconds++ < 60);
    assert_in_range(seconds, 5, 15); /* 20 ms out of a fifth of 1 % */
    assert_int_equal(member->smaps.row.pss_bytes, 1500L * MIB * 1024);
}

/* A child that takes some memory, says so, and waits for its end. */
static pid_t spawn(size_t mib, bool readable)
{
    int fds[2];
    char byte;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_DUMPABLE, readable);
        char *memory = malloc(mib << 20);
        if (memory)
            memset(memory, 1, mib << 20);
        if (write(fds[1], memory ? memory : "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

static void reap(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* As somebody who may not look into pid. Exit status 0 when all is as it should be. */
static int look_as_nobody(pid_t pid)
{
    struct tide_err err;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 2;
    if (tide_tree_init(&tree, "/proc", false, &err) != 0 || tide_tree_add_root(&tree, pid, now_ns, &err) != 0)
        return 3;
    tide_smaps_init(&budget, 10000);
    for (int i = 0; i < 3; i++) {
        if (tide_tree_scan(&tree, now_ns, NULL) != 0)
            return 4;
        tide_tree_read(&tree, now_ns);
        tide_smaps_spend(&budget, &tree, now_ns);
        now_ns += second_ns;
    }
    const struct tide_member *target = tide_tree_find(&tree, pid);
    bool known;
    return target && target->smaps.refused && target->smaps.row.pss_bytes == TIDE_UNKNOWN &&
                   !target->unreadable &&
                   tide_smaps_counted(&tree, target, &known) >= tide_member_rss(target) && !known
               ? 0
               : 5;
}

static void of_a_process_that_may_not_be_read_rss_is_counted(void **state)
{
    (void)state;
    pid_t target = spawn(1, false);
    pid_t looker = fork();
    if (looker == 0)
        _exit(look_as_nobody(target));
    int status;
    assert_int_equal(waitpid(looker, &status, 0), looker);
    reap(target);
    assert_int_equal(status, 0);
}

static void a_forked_child_counts_only_what_it_grew_until_it_is_read(void **state)
{
    (void)state;
    static const char args[] = "python|train.py|";
    struct fake_process parent = {.pid = 100, .parent = 1, .start = 1, .anon = 900 * MIB, .args = args};
    struct fake_process child = {.pid = 200, .parent = 100, .start = 2, .anon = 900 * MIB, .args = args};
    fake_put(&parent);
    fake_put(&child);
    begin(0);
    look();
    assert_int_equal(counted(100), 900L * MIB * 1024);
    assert_int_equal(counted(200), 0);
    child.anon += 50 * MIB;
    fake_put(&child);
    look();
    assert_int_equal(counted(200), 50L * MIB * 1024);
    child.args = "other|"; /* it calls exec: nothing is shared any more */
    child.name = "other";
    child.anon = 30 * MIB;
    fake_put(&child);
    look();
    assert_int_equal(counted(200), 30L * MIB * 1024);
}

static void a_child_that_is_not_read_yet_counts_what_its_parents_pss_leaves_out(void **state)
{
    (void)state;
    static const char args[] = "python|train.py|";
    struct fake_process parent = {.pid = 100, .parent = 1, .start = 1, .anon = 100 * MIB, .args = args};
    struct fake_process child = parent;
    child.pid = 200, child.parent = 100;
    parent.pss = 55 * MIB, parent.uss = 10 * MIB; /* 90 MiB shared by two */
    fake_put(&parent);
    fake_put(&child);
    begin(10000);
    look();
    look(); /* the child's smaps_rollup is not there: it stays unread */
    assert_int_equal(counted(100) + counted(200), 100L * MIB * 1024);
}

static void when_a_sharing_child_ends_its_parent_is_read_again(void **state)
{
    (void)state;
    static const char args[] = "python|train.py|";
    fake_put(&(struct fake_process){.pid = 100,
                                    .parent = 1,
                                    .start = 1,
                                    .anon = 90 * MIB,
                                    .args = args,
                                    .pss = 46 * MIB,
                                    .uss = 2 * MIB});
    fake_put(&(struct fake_process){.pid = 200,
                                    .parent = 100,
                                    .start = 2,
                                    .anon = 90 * MIB,
                                    .args = args,
                                    .pss = 46 * MIB,
                                    .uss = 2 * MIB});
    begin(10000);
    for (int i = 0; i < 4; i++)
        look();
    struct tide_member *parent = tide_tree_find(&tree, 100);
    assert_int_equal(parent->smaps.row.pss_bytes, 46 * MIB * 1024);
    budget.purse_ns[TIDE_SMAPS_IDLE] = -1000 * second_ns; /* no idle reads */
    fake_kill(200);
    fake_put(&(struct fake_process){.pid = 100,
                                    .parent = 1,
                                    .start = 1,
                                    .anon = 90 * MIB,
                                    .args = args,
                                    .pss = 90 * MIB,
                                    .uss = 90 * MIB});
    for (int i = 0; i < 3; i++)
        look();
    assert_int_equal(parent->smaps.row.pss_bytes, 90 * MIB * 1024);
}

static void reads_of_the_real_thing_stay_within_the_budget(void **state)
{
    (void)state;
    enum { CHILDREN = 4 };
    struct tide_err err;
    pid_t pids[CHILDREN];
    for (int i = 0; i < CHILDREN; i++)
        pids[i] = spawn(32, true);
    assert_int_equal(tide_tree_init(&tree, "/proc", true, &err), 0);
    tide_smaps_init(&budget, 10000);
    int64_t spent_ns = 0, longest_ns = 0, began_ns = now_ns;
    for (int i = 0; i < 100; i++) { /* as if it were 10 s */
        look();
        now_ns -= second_ns * 9 / 10;
        for (size_t j = 0; j < tree.member_count; j++)
            if (tree.members[j]->smaps.fresh) {
                int64_t cost_ns = tree.members[j]->smaps.row.cost_ns;
                spent_ns += cost_ns;
                longest_ns = cost_ns > longest_ns ? cost_ns : longest_ns;
            }
    }
    for (int i = 0; i < CHILDREN; i++)
        reap(pids[i]);
    assert_int_equal(tree.member_count, CHILDREN);
    for (size_t i = 0; i < tree.member_count; i++)
        assert_true(tree.members[i]->smaps.row.uss_bytes >= 32 << 20);
    /* On a busy machine a read can take longer than predicted, and that is not all paid back. */
    assert_true(longest_ns > 20 * TIDE_NS_PER_MS || spent_ns <= (now_ns - began_ns) / 100 + longest_ns);
}

static void small_ones_do_not_wait_for_a_dear_one(void **state)
{
    (void)state;
    put(100, 1, 4L * 1024 * MIB, 1 * MIB); /* 4 GiB: 52 ms, 5.2 s of all */
    for (int i = 0; i < 8; i++)
        put(200 + i, 100, 20 * MIB, 5 * MIB);
    begin(10000);
    look();
    look();
    for (int i = 0; i < 8; i++)
        assert_int_equal(tide_tree_find(&tree, 200 + i)->smaps.row.pss_bytes, 5 * MIB * 1024);
    assert_int_equal(tide_tree_find(&tree, 100)->smaps.row.pss_bytes, TIDE_UNKNOWN);
    for (int i = 0; i < 10; i++)
        look();
    assert_int_equal(tide_tree_find(&tree, 100)->smaps.row.pss_bytes, 1 * MIB * 1024);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_read_before_time_has_passed),
        TEST(what_is_freed_between_a_look_and_its_pss_is_not_missing_afterwards),
        TEST(a_budget_of_nothing_reads_nothing),
        TEST(what_has_no_reservation_is_read_of_who_has_much_that_is_not_touched),
        TEST(who_has_none_is_not_asked_again_until_he_asks_for_more),
        TEST(what_grew_since_the_last_read_is_counted),
        TEST(a_read_that_would_take_too_long_is_never_begun),
        TEST(a_dear_read_waits_until_enough_is_saved),
        TEST(small_ones_do_not_wait_for_a_dear_one),
        TEST(those_never_read_come_first_and_big_ones_before_small_ones),
        TEST(a_quiet_tree_is_read_out_of_a_fifth_of_the_budget),
        TEST(a_change_is_followed_up_out_of_a_fifth_of_its_own),
        TEST(what_a_small_process_costs_does_not_make_it_dear_once_it_is_large),
        TEST(of_a_process_that_may_not_be_read_rss_is_counted),
        TEST(a_forked_child_counts_only_what_it_grew_until_it_is_read),
        TEST(a_child_that_is_not_read_yet_counts_what_its_parents_pss_leaves_out),
        TEST(when_a_sharing_child_ends_its_parent_is_read_again),
        TEST(reads_of_the_real_thing_stay_within_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
