/*
 * test_sense_tree.c - who is a member: on a /proc that is not there, where everything can be arranged, and on
 * the real one with children of our own.
 */
#include "sense/proc_parse.h"
#include "sense/smaps.h"
#include "tree_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <cmocka.h>

static void put(int pid, int parent, unsigned long start)
{
    fake_put(&(struct fake_process){.pid = pid, .parent = parent, .start = start, .anon = 1000});
}

static void descendants_are_members_and_outsiders_are_not(void **state)
{
    (void)state;
    put(1, 0, 1);
    put(100, 1, 10);
    put(200, 100, 20);
    put(50, 200, 30); /* a child with a lower PID than its parent */
    put(300, 1, 40);
    begin(false, 100);
    look();
    assert_int_equal(alive(), 3);
    assert_non_null(member(100));
    assert_non_null(member(200));
    assert_non_null(member(50));
    assert_null(member(300));
    assert_true(tide_tree_saw(&tree, 300));
    assert_int_equal(member(50)->now.counters.anon_bytes, 1000 * 1024);
}

static void a_chain_of_children_is_found_whatever_the_order_of_its_pids(void **state)
{
    (void)state;
    put(1000000500, 1, 10);
    for (int i = 1; i < 100; i++)
        put(1000000500 - i, 1000000501 - i, 10); /* all started in the same tick */
    begin(false, 1000000500);
    look();
    assert_int_equal(alive(), 100);
}

static void a_root_that_is_not_there_gets_a_sentence(void **state)
{
    (void)state;
    struct tide_err err;
    begin(false, 0);
    assert_int_equal(tide_tree_add_root(&tree, 4242, now_ns, &err), -1);
    assert_string_equal(err.text, "there is no process 4242");
    assert_int_equal(tide_tree_add_root(&tree, 0, now_ns, &err), -1);
}

static void a_directory_that_is_not_there_gets_a_sentence(void **state)
{
    (void)state;
    struct tide_err err;
    assert_int_equal(tide_tree_init(&tree, "/nowhere", false, &err), -1);
    assert_string_equal(err.text, "cannot read the processes in '/nowhere': No such file or directory");
    memset(&tree, 0, sizeof tree);
}

static void a_member_stays_one_when_its_parent_dies(void **state)
{
    (void)state;
    put(100, 1, 10);
    put(200, 100, 20);
    put(300, 200, 30);
    begin(false, 100);
    look();
    fake_kill(200);
    put(300, 1, 30); /* adopted by init */
    look();
    assert_null(member(200));
    assert_non_null(member(300));
    assert_false(member(300)->ended);
    assert_int_equal(member(300)->parent_pid, 1);
    put(400, 300, 40);
    look();
    assert_non_null(member(400));
}

static void a_daemon_that_this_process_adopts_is_a_member(void **state)
{
    (void)state;
    put(100, 1, 10);
    put(900, getpid(), 50);
    put(getpid(), 1, 5);
    begin(true, 100);
    look();
    assert_non_null(member(900));
    assert_null(member(getpid()));
}

static void without_adoption_children_of_this_process_are_outsiders(void **state)
{
    (void)state;
    put(100, 1, 10);
    put(900, getpid(), 50);
    begin(false, 100);
    look();
    assert_null(member(900));
}

static void this_process_is_never_a_member_even_below_a_root(void **state)
{
    (void)state;
    struct tide_err err;
    put(100, 1, 10);
    put(getpid(), 100, 20);
    begin(false, 100);
    look();
    assert_int_equal(alive(), 1);
    assert_int_equal(tide_tree_add_root(&tree, getpid(), now_ns, &err), -1);
}

static void a_reused_pid_is_another_process(void **state)
{
    (void)state;
    put(100, 1, 10);
    put(200, 100, 20);
    begin(false, 100);
    look();
    struct tide_member *old = member(200);
    fake_kill(200);
    put(200, 100, 99);
    look();
    assert_non_null(member(200));
    assert_ptr_not_equal(member(200), old);
    assert_int_equal(member(200)->start_ticks, 99);
    assert_true(old->ended);
    assert_true(old->gone);
}

static void a_member_pid_reused_by_an_outsider_leaves_the_tree(void **state)
{
    (void)state;
    put(1, 0, 1);
    put(100, 1, 10);
    put(200, 100, 20);
    begin(false, 100);
    look();
    fake_kill(200);
    put(200, 1, 99);
    look();
    assert_null(member(200));
    assert_int_equal(alive(), 1);
}

static void an_outsider_pid_reused_by_a_child_joins_the_tree(void **state)
{
    (void)state;
    put(1, 0, 1);
    put(100, 1, 10);
    put(200, 1, 20);
    begin(false, 100);
    look();
    assert_null(member(200));
    fake_kill(200);
    look();
    put(200, 100, 99);
    look();
    assert_non_null(member(200));
}

static void an_outsider_that_hides_behind_its_inode_is_found_out_in_time(void **state)
{
    (void)state;
    put(1, 0, 1);
    put(100, 1, 10);
    put(200, 1, 20);
    begin(false, 100);
    look();
    put(200, 100, 99); /* rewritten in place: the same inode */
    int scans = 0;
    while (!member(200) && scans++ < 64)
        look();
    assert_non_null(member(200));
}

static void a_child_whose_parent_was_not_listed_yet_is_asked_again(void **state)
{
    (void)state;
    put(1, 0, 1);
    put(100, 1, 10);
    put(300, 200, 30); /* 200 is not there when /proc is listed */
    begin(false, 100);
    look();
    assert_null(member(300));
    put(200, 100, 20);
    look();
    assert_non_null(member(300));
}

static void stat_is_not_read_again_for_those_already_seen(void **state)
{
    (void)state;
    put(1, 0, 1);
    put(100, 1, 10);
    put(300, 1, 30);
    begin(false, 100);
    tree.scans = 2; /* away from the scan in which 300 would be looked at again */
    look();
    fake_remove("300/stat");
    fake_remove("100/stat");
    for (int i = 0; i < 3; i++)
        look();
    assert_true(tide_tree_saw(&tree, 300));
    assert_false(member(100)->ended);
}

static void newest(int pid)
{
    fake_write("loadavg", "0.10 0.20 0.30 1/100 %d\n", pid);
}

static void nothing_is_listed_while_no_pid_was_given_out(void **state)
{
    (void)state;
    newest(150);
    put(100, 1, 10);
    put(150, 100, 15);
    begin(false, 100);
    look();
    put(200, 100, 20);
    look();
    assert_null(member(200));
    assert_int_equal(member(150)->now.counters.anon_bytes, 1000 << 10);
    newest(200);
    look();
    assert_non_null(member(200));
    put(201, 100, 21); /* given out behind the kernel's back */
    int looks = 0;
    while (!member(201) && looks++ < 20)
        look();
    assert_int_equal(looks, 17);
}

static void who_vanishes_is_gone_though_nothing_is_listed(void **state)
{
    (void)state;
    newest(200);
    put(100, 1, 10);
    put(200, 100, 20);
    begin(false, 100);
    look();
    fake_remove("200/status");
    close(member(200)->status_fd);
    member(200)->status_fd = -1;
    tide_descriptors_give(tree.descriptors);
    look();
    assert_null(member(200));
    assert_int_equal(tree.scans, 1);
}

static void questions_left_open_are_asked_again_though_no_pid_was_given_out(void **state)
{
    (void)state;
    newest(300);
    put(100, 1, 10);
    put(300, 200, 30); /* 200 was not there when /proc was listed */
    begin(false, 100);
    look();
    put(200, 100, 20);
    look();
    assert_non_null(member(300));
    fake_put(&(struct fake_process){.pid = 300, .parent = 200, .start = 30, .state = 'Z'});
    look();
    assert_true(member(300)->ended);
    fake_kill(300); /* reaped */
    look();
    assert_null(member(300));
}

static void who_is_older_than_the_command_is_not_read(void **state)
{
    (void)state;
    newest(250);
    put(60, getpid(), 1); /* started by who became this process */
    put(20000, getpid(), 2);
    put(200, getpid(), 10);
    put(250, 200, 20);
    put(251, 200, 21); /* born while /proc was listed */
    begin(true, 200);
    look();
    assert_null(member(60));
    assert_true(tide_tree_saw(&tree, 60));
    assert_null(member(20000));
    assert_non_null(member(250));
    assert_non_null(member(251));
}

static void low_pids_are_read_when_the_highest_was_passed(void **state)
{
    (void)state;
    newest(60); /* after the highest PID the lowest free one is next */
    put(32000, getpid(), 10);
    put(32001, 32000, 11);
    put(60, 32000, 20);
    put(20000, getpid(), 1);
    begin(true, 32000);
    look();
    assert_non_null(member(32001));
    assert_non_null(member(60));
    assert_null(member(20000));
}

static void a_zombie_has_ended_but_keeps_its_place_until_it_is_reaped(void **state)
{
    (void)state;
    put(100, 1, 10);
    put(200, 100, 20);
    begin(false, 100);
    look();
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .start = 20, .state = 'Z', .args = ""});
    look();
    assert_true(member(200)->ended);
    assert_false(member(200)->gone);
    assert_int_equal(alive(), 1);
    int64_t ended_ns = member(200)->ended_ns;
    struct tide_member *zombie = member(200);
    fake_kill(200);
    look();
    assert_true(zombie->gone);
    assert_int_equal(zombie->ended_ns, ended_ns);
}

static void a_process_whose_first_thread_ended_is_alive_and_has_memory(void **state)
{
    (void)state;
    put(100, 1, 10);
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 10, .state = 'Z', .threads = 2});
    fake_write("100/task/100/status", "Name:\tx\nState:\tZ\n");
    fake_write("100/task/101/status", "Name:\ty\nState:\tS\nRssAnon:\t77 kB\nRssFile:\t1 kB\nThreads:\t2\n");
    begin(false, 100);
    look();
    assert_false(member(100)->ended);
    assert_int_equal(member(100)->now.counters.anon_bytes, 77 * 1024);
    assert_string_equal(member(100)->now.name, "worker");
}

static void who_is_gone_is_freed_after_its_row_was_written(void **state)
{
    (void)state;
    put(100, 1, 10);
    put(200, 100, 20);
    begin(false, 100);
    look();
    fake_kill(200);
    for (int i = 0; i < 3; i++)
        look();
    assert_int_equal(tree.member_count, 2); /* nobody has written its end yet */
    for (size_t i = 0; i < tree.member_count; i++)
        tree.members[i]->row_stale = false;
    look();
    assert_int_equal(tree.member_count, 1);
}

static void a_process_that_may_not_be_read_stays_with_unknown_bytes(void **state)
{
    (void)state;
    put(100, 1, 10);
    begin(false, 100);
    look();
    fake_write("100/status", "garbage\n");
    look();
    assert_false(member(100)->ended);
    assert_true(member(100)->unreadable);
    assert_int_equal(tide_member_rss(member(100)), TIDE_UNKNOWN);
    put(100, 1, 10);
    look();
    assert_false(member(100)->unreadable);
    assert_int_equal(tide_member_rss(member(100)), 1000 * 1024);
}

static void a_stat_file_that_vanishes_between_listing_and_reading_is_no_trouble(void **state)
{
    (void)state;
    put(100, 1, 10);
    put(200, 100, 20);
    fake_remove("200/stat");
    begin(false, 100);
    look();
    assert_int_equal(alive(), 1);
    put(200, 100, 20);
    look();
    assert_int_equal(alive(), 2);
}

static void exec_and_rename_change_what_a_process_is_called(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 10, .name = "uv", .args = "uv|run|x|"});
    begin(false, 100);
    look();
    assert_string_equal(member(100)->role, "uv");
    for (int i = 0; i < 5; i++)
        look(); /* no longer young */
    member(100)->row_stale = false;
    fake_put(&(struct fake_process){
        .pid = 100, .parent = 1, .start = 10, .name = "python3", .args = "python3|train.py|"});
    look();
    assert_string_equal(member(100)->role, "train.py");
    assert_string_equal(member(100)->now.name, "python3");
    assert_true(member(100)->row_stale);
}

static void arguments_are_read_again_only_now_and_then(void **state)
{
    (void)state;
    struct fake_process process = {.pid = 100, .parent = 1, .start = 10, .args = "a|"};
    fake_put(&process);
    begin(false, 100);
    look();
    process.args = "b|"; /* within the first seconds */
    fake_put(&process);
    look();
    assert_string_equal(member(100)->role, "b");
    look();
    process.args = "c|"; /* later: a process that rewrites its arguments under the same name */
    fake_put(&process);
    look();
    assert_string_equal(member(100)->role, "b");
    now_ns += 40 * second_ns;
    look();
    assert_string_equal(member(100)->role, "c");
}

static void forked_workers_are_known_from_their_parent_by_their_role(void **state)
{
    (void)state;
    static const char args[] = "python|train.py|";
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 10, .name = "python", .args = args});
    for (int i = 0; i < 20; i++)
        fake_put(&(struct fake_process){
            .pid = 200 + i, .parent = 100, .start = 20, .name = "python", .args = args});
    begin(false, 100);
    look();
    assert_string_equal(member(100)->role, "train.py");
    for (int i = 0; i < 20; i++)
        assert_string_equal(member(200 + i)->role, "worker of train.py");
}

static void a_worker_that_ended_before_it_could_be_read_is_a_worker_all_the_same(void **state)
{
    (void)state;
    static const char args[] = "python|train.py|";
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 10, .name = "python", .args = args});
    begin(false, 100);
    look();
    fake_put(&(struct fake_process){
        .pid = 200, .parent = 100, .start = 20, .name = "python", .args = "", .state = 'Z'});
    fake_put(&(struct fake_process){
        .pid = 300, .parent = 100, .start = 20, .name = "sh", .args = "", .state = 'Z'});
    look();
    assert_string_equal(member(200)->role, "worker of train.py");
    assert_string_equal(member(300)->role, "sh"); /* its name is all that is known of it */
}

static void an_orphan_is_known_by_what_an_older_member_runs(void **state)
{
    (void)state;
    static const char args[] = "./server|--daemon|";
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 10, .name = "server", .args = args});
    fake_put(&(struct fake_process){
        .pid = 200, .parent = getpid(), .start = 20, .name = "detached", .args = args});
    fake_put(
        &(struct fake_process){.pid = 300, .parent = getpid(), .start = 20, .name = "server", .args = args});
    fake_put(&(struct fake_process){
        .pid = 350, .parent = getpid(), .start = 20, .name = "other", .args = "other|"});
    begin(true, 100);
    look();
    assert_string_equal(member(100)->role, "server");
    assert_string_equal(member(200)->role, "detached");
    assert_string_equal(member(300)->role, "worker of server");
    assert_string_equal(member(350)->role, "other");
}

static void more_members_than_descriptors_are_read_all_the_same(void **state)
{
    (void)state;
    begin(false, 0);
    put(100, 1, 10);
    for (int i = 0; i < 50; i++)
        put(200 + i, 100, 20);
    assert_int_equal(tide_tree_add_root(&tree, 100, now_ns, NULL), 0);
    tree.descriptors->most = 8;
    for (int i = 0; i < 2; i++)
        look();
    assert_int_equal(tree.descriptors->kept, 8);
    for (size_t i = 0; i < tree.member_count; i++)
        assert_int_equal(tree.members[i]->now.counters.anon_bytes, 1000 * 1024);
    for (int i = 0; i < 50; i++)
        fake_kill(200 + i);
    look();
    assert_true(tree.descriptors->kept <= 1);
}

/* --- the real /proc ------------------------------------------------------------------------------------ */

/* Children that wait until the pipe is closed. */
struct crowd {
    int fds[2];
    pid_t first;
};

static pid_t spawn(struct crowd *crowd)
{
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(crowd->fds[1]);
        while (read(crowd->fds[0], &byte, 1) > 0)
            ;
        _exit(0);
    }
    return pid;
}

static void real_children_come_and_go(void **state)
{
    (void)state;
    enum { CHILDREN = 20 };
    struct crowd crowd;
    struct tide_err err;
    pid_t pids[CHILDREN];
    int64_t start_ns = tide_clock_ns();
    assert_int_equal(pipe(crowd.fds), 0);
    for (int i = 0; i < CHILDREN; i++)
        pids[i] = spawn(&crowd);
    assert_int_equal(tide_tree_init(&tree, "/proc", true, &err), 0);
    assert_int_equal(tide_tree_add_root(&tree, pids[0], start_ns, &err), 0);
    now_ns = start_ns;
    look();
    assert_int_equal(alive(), CHILDREN);
    for (int i = 0; i < CHILDREN; i++)
        assert_true(tide_member_rss(member(pids[i])) > 0);
    close(crowd.fds[0]);
    close(crowd.fds[1]);
    for (int i = 0; i < CHILDREN / 2; i++)
        waitpid(pids[i], NULL, 0);
    siginfo_t info;
    for (int i = CHILDREN / 2; i < CHILDREN; i++) /* ended, but not reaped */
        waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOWAIT);
    look();
    assert_int_equal(alive(), 0);
    assert_null(member(pids[0]));
    assert_non_null(member(pids[CHILDREN - 1]));
    for (int i = CHILDREN / 2; i < CHILDREN; i++)
        waitpid(pids[i], NULL, 0);
    look();
    assert_null(member(pids[CHILDREN - 1]));
}

static void a_fork_storm_is_survived(void **state)
{
    (void)state;
    struct tide_err err;
    int named[2];
    char byte;
    assert_int_equal(pipe(named), 0);
    pid_t storm = fork();
    if (storm == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "a)\n\033[31m(");
        if (write(named[1], "", 1) != 1)
            _exit(1);
        for (;;) {
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            waitpid(child, NULL, 0);
        }
    }
    assert_int_equal(tide_tree_init(&tree, "/proc", false, &err), 0);
    assert_int_equal(read(named[0], &byte, 1), 1);
    assert_int_equal(tide_tree_add_root(&tree, storm, tide_clock_ns(), &err), 0);
    while (tree.scans < 100) {
        now_ns = tide_clock_ns();
        look();
        for (size_t j = 0; j < tree.member_count; j++)
            tree.members[j]->row_stale = false;
    }
    assert_non_null(member(storm));
    assert_string_equal(member(storm)->now.name, "a)\n\033[31m(");
    kill(storm, SIGKILL);
    waitpid(storm, NULL, 0);
    close(named[0]);
    close(named[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(descendants_are_members_and_outsiders_are_not),
        TEST(a_chain_of_children_is_found_whatever_the_order_of_its_pids),
        TEST(a_root_that_is_not_there_gets_a_sentence),
        TEST(a_directory_that_is_not_there_gets_a_sentence),
        TEST(a_member_stays_one_when_its_parent_dies),
        TEST(a_daemon_that_this_process_adopts_is_a_member),
        TEST(without_adoption_children_of_this_process_are_outsiders),
        TEST(this_process_is_never_a_member_even_below_a_root),
        TEST(a_reused_pid_is_another_process),
        TEST(a_member_pid_reused_by_an_outsider_leaves_the_tree),
        TEST(an_outsider_pid_reused_by_a_child_joins_the_tree),
        TEST(an_outsider_that_hides_behind_its_inode_is_found_out_in_time),
        TEST(a_child_whose_parent_was_not_listed_yet_is_asked_again),
        TEST(stat_is_not_read_again_for_those_already_seen),
        TEST(nothing_is_listed_while_no_pid_was_given_out),
        TEST(who_vanishes_is_gone_though_nothing_is_listed),
        TEST(questions_left_open_are_asked_again_though_no_pid_was_given_out),
        TEST(who_is_older_than_the_command_is_not_read),
        TEST(low_pids_are_read_when_the_highest_was_passed),
        TEST(a_zombie_has_ended_but_keeps_its_place_until_it_is_reaped),
        TEST(a_process_whose_first_thread_ended_is_alive_and_has_memory),
        TEST(who_is_gone_is_freed_after_its_row_was_written),
        TEST(a_process_that_may_not_be_read_stays_with_unknown_bytes),
        TEST(a_stat_file_that_vanishes_between_listing_and_reading_is_no_trouble),
        TEST(exec_and_rename_change_what_a_process_is_called),
        TEST(arguments_are_read_again_only_now_and_then),
        TEST(forked_workers_are_known_from_their_parent_by_their_role),
        TEST(a_worker_that_ended_before_it_could_be_read_is_a_worker_all_the_same),
        TEST(an_orphan_is_known_by_what_an_older_member_runs),
        TEST(more_members_than_descriptors_are_read_all_the_same),
        TEST(real_children_come_and_go),
        TEST(a_fork_storm_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
