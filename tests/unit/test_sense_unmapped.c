/*
 * test_sense_unmapped.c - shared memory of a control group that no process maps.
 */
#include "sense/unmapped.h"
#include "base/clock.h"
#include "../fake/fake_proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <cmocka.h>

enum { KIB = 1024, MIB = 1024 * KIB };

static struct tide_tree tree;
static struct tide_cgroup cgroup;
static char cgroup_root[96];
static struct tide_err err;

/* A program with a worker in a group of version 2, started by a tracker that a shell started, both outside of
 * it. They map 1 MiB of its 8 MiB of shared memory each. */
static int set_up(void **state)
{
    (void)state;
    fake_begin();
    snprintf(cgroup_root, sizeof cgroup_root, "%s/cg", fake_root);
    fake_put(&(struct fake_process){.pid = 1, .parent = 0, .start = 1, .anon = 4});
    fake_put(&(struct fake_process){.pid = 90, .parent = 1, .start = 2, .anon = 4});
    fake_put(&(struct fake_process){.pid = getpid(), .parent = 90, .start = 3, .anon = 4});
    fake_put(&(struct fake_process){.pid = 100, .parent = getpid(), .start = 7, .anon = 4, .shmem = KIB});
    fake_put(&(struct fake_process){.pid = 101, .parent = 100, .start = 8, .anon = 4, .shmem = KIB});
    fake_write("100/cgroup", "0::/job\n");
    fake_write("cg/cgroup.procs", "\n");
    fake_write("cg/job/cgroup.procs", "100\n101\n");
    fake_write("cg/job/cgroup.stat", "nr_descendants 0\n");
    fake_write("cg/job/memory.stat", "anon 4096\nshmem_thp 77\nshmem %d\n", 8 * MIB);
    assert_int_equal(tide_tree_init(&tree, fake_root, false, &err), 0);
    assert_int_equal(tide_tree_add_root(&tree, 100, TIDE_NS_PER_S, &err), 0);
    tide_cgroup_init(&cgroup, cgroup_root, tree.proc_fd);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_cgroup_release(&cgroup);
    tide_tree_release(&tree);
    fake_end();
    return 0;
}

static int64_t look(void)
{
    static int64_t now_ns = TIDE_NS_PER_S;
    now_ns += TIDE_NS_PER_S;
    assert_int_equal(tide_tree_scan(&tree, now_ns, &err), 0);
    tide_tree_read(&tree, now_ns);
    tide_cgroup_follow(&cgroup, 100);
    return tide_unmapped_bytes(&cgroup, &tree);
}

static void what_processes_map_is_taken_off(void **state)
{
    (void)state;
    assert_int_equal(look(), 6 * MIB);
    fake_write("cg/job/memory.stat", "shmem %d\n", MIB); /* both map the same pages */
    assert_int_equal(look(), 0);
}

static void version_1_tells_it_too(void **state)
{
    (void)state;
    fake_write("100/cgroup", "4:memory:/job\n0::/\n");
    fake_write("cg/memory/job/memory.usage_in_bytes", "1\n");
    fake_write("cg/memory/job/cgroup.procs", "101\n100\n");
    fake_write("cg/memory/job/memory.stat", "cache 1\nshmem %d\ntotal_shmem 1\n", 5 * MIB);
    assert_int_equal(look(), 3 * MIB);
}

static void the_tracker_and_who_started_it_may_be_in_the_group(void **state)
{
    (void)state;
    fake_write("cg/job/cgroup.procs", "1\n90\n%d\n100\n101\n", getpid());
    assert_int_equal(look(), 6 * MIB);
}

static void nothing_is_said_of_a_group_with_others_in_it(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 300, .parent = 90, .start = 9, .anon = 4}); /* of the same shell */
    fake_write("cg/job/cgroup.procs", "100\n101\n300\n");
    assert_int_equal(look(), TIDE_UNKNOWN);
    fake_kill(300); /* it ended meanwhile */
    assert_int_equal(look(), 6 * MIB);
    fake_write("cg/job/cgroup.procs", "0\n100\n101\n"); /* of another PID namespace */
    assert_int_equal(look(), TIDE_UNKNOWN);
    fake_write("cg/job/cgroup.procs", "100\n101\n");
    fake_write("cg/job/cgroup.stat", "nr_descendants 2\n"); /* whose memory counts too */
    assert_int_equal(look(), TIDE_UNKNOWN);
}

static void a_child_that_no_look_has_seen_is_no_other(void **state)
{
    (void)state;
    assert_int_equal(look(), 6 * MIB);
    fake_put(&(struct fake_process){.pid = 102, .parent = 101, .start = 9, .anon = 4});
    fake_write("cg/job/cgroup.procs", "100\n101\n102\n");
    assert_int_equal(tide_unmapped_bytes(&cgroup, &tree), 6 * MIB);
}

static void where_nothing_tells_nothing_is_known(void **state)
{
    (void)state;
    fake_remove("cg/job/memory.stat");
    assert_int_equal(look(), TIDE_UNKNOWN);
    fake_write("100/cgroup", "0::/\n");
    assert_int_equal(look(), TIDE_UNKNOWN);
}

/* The recording, and the files through which the program tells its marks. */
static void what_the_tracker_has_itself_is_taken_off(void **state)
{
    (void)state;
    static char page[4096];
    char own[64], name[96], link[160], target[96], folder[] = "/dev/shm/test-unmapped-XXXXXX";
    if (!mkdtemp(folder))
        skip();
    snprintf(name, sizeof name, "%s/marks", folder);
    int fd = open(name, O_CREAT | O_WRONLY, 0600), memory = memfd_create("recording", MFD_CLOEXEC);
    assert_int_equal(write(fd, page, sizeof page), sizeof page);
    close(fd);
    assert_int_equal(write(memory, page, sizeof page), sizeof page);
    snprintf(own, sizeof own, "%d/fd/0", getpid());
    fake_write(own, "\n");
    fake_remove(own); /* its directory stays */
    snprintf(link, sizeof link, "%s/%d/fd/3", fake_root, getpid());
    assert_int_equal(symlink(folder, link), 0);
    snprintf(target, sizeof target, "/proc/self/fd/%d", memory);
    for (int i = 4; i < 6; i++) { /* twice the same */
        snprintf(link, sizeof link, "%s/%d/fd/%d", fake_root, getpid(), i);
        assert_int_equal(symlink(target, link), 0);
    }
    assert_int_equal(look(), 6 * MIB - 2 * 4096);
    close(memory);
    unlink(name);
    rmdir(folder);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_processes_map_is_taken_off),
        TEST(version_1_tells_it_too),
        TEST(the_tracker_and_who_started_it_may_be_in_the_group),
        TEST(nothing_is_said_of_a_group_with_others_in_it),
        TEST(a_child_that_no_look_has_seen_is_no_other),
        TEST(where_nothing_tells_nothing_is_known),
        TEST(what_the_tracker_has_itself_is_taken_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
