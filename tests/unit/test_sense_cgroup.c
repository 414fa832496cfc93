/*
 * test_sense_cgroup.c - limits and counters of control groups, in both versions, whole and seen from a
 * container.
 */
#include "sense/cgroup.h"
#include "../fake/fake_proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct tide_cgroup cgroup;
static char root[96];
static int proc_fd;

static int set_up(void **state)
{
    (void)state;
    fake_begin();
    snprintf(root, sizeof root, "%s/cg", fake_root);
    mkdir(root, 0755);
    proc_fd = open(fake_root, O_RDONLY | O_DIRECTORY);
    tide_cgroup_init(&cgroup, root, proc_fd);
    fake_put(&(struct fake_process){.pid = 100});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_cgroup_release(&cgroup);
    close(proc_fd);
    fake_end();
    return 0;
}

static void look(void)
{
    tide_cgroup_follow(&cgroup, 100);
    tide_cgroup_read(&cgroup);
}

/* A group of version 2 with these files. */
static void put_group(const char *path, const char *max, const char *high)
{
    char name[256];
    snprintf(name, sizeof name, "cg%s/cgroup.procs", path);
    fake_write(name, "100\n");
    snprintf(name, sizeof name, "cg%s/memory.max", path);
    fake_write(name, "%s\n", max);
    snprintf(name, sizeof name, "cg%s/memory.high", path);
    fake_write(name, "%s\n", high);
    snprintf(name, sizeof name, "cg%s/memory.current", path);
    fake_write(name, "5000\n");
    snprintf(name, sizeof name, "cg%s/memory.peak", path);
    fake_write(name, "9000\n");
    snprintf(name, sizeof name, "cg%s/memory.events", path);
    fake_write(name, "low 0\nhigh 0\nmax 4\noom 0\noom_kill 1\n");
    snprintf(name, sizeof name, "cg%s/memory.pressure", path);
    fake_write(name, "some avg10=1.50 avg60=0.00 avg300=0.00 total=0\n");
}

static void counters_of_version_2_are_read(void **state)
{
    (void)state;
    fake_write("cg/cgroup.procs", "\n");
    fake_write("100/cgroup", "0::/a/b\n");
    put_group("/a", "max", "max");
    put_group("/a/b", "8000000", "max");
    look();
    assert_int_equal(cgroup.current_bytes, 5000);
    assert_int_equal(cgroup.peak_bytes, 9000);
    assert_int_equal(cgroup.pressure_ppm, 15000);
    assert_int_equal(cgroup.kills, 1);
    assert_int_equal(cgroup.hits, 4);
    assert_int_equal(cgroup.limit_bytes, 8000000);
    assert_string_equal(cgroup.limit_name, "cgroup /a/b memory.max");
    assert_int_equal(cgroup.high_bytes, TIDE_UNKNOWN);
}

static void the_lowest_limit_above_a_group_counts_and_is_named(void **state)
{
    (void)state;
    fake_write("cg/cgroup.procs", "\n");
    fake_write("100/cgroup", "0::/a/b/c\n");
    put_group("/a", "3000", "2500");
    put_group("/a/b", "max", "max");
    put_group("/a/b/c", "7000", "2600");
    look();
    assert_int_equal(cgroup.limit_bytes, 3000);
    assert_string_equal(cgroup.limit_name, "cgroup /a memory.max");
    assert_int_equal(cgroup.high_bytes, 2500);
    assert_string_equal(cgroup.high_name, "cgroup /a memory.high");
}

static void a_limit_that_is_changed_or_lifted_is_noticed(void **state)
{
    (void)state;
    fake_write("cg/cgroup.procs", "\n");
    fake_write("100/cgroup", "0::/a\n");
    put_group("/a", "3000", "max");
    look();
    fake_write("cg/a/memory.max", "4000\n");
    look();
    assert_int_equal(cgroup.limit_bytes, 4000);
    fake_write("cg/a/memory.max", "max\n");
    look();
    assert_int_equal(cgroup.limit_bytes, TIDE_UNKNOWN);
    assert_string_equal(cgroup.limit_name, "");
}

static void version_1_has_other_names_and_a_huge_number_for_no_limit(void **state)
{
    (void)state;
    fake_write("100/cgroup", "4:memory:/job/x\n3:cpu:/job\n0::/\n");
    fake_write("cg/unified/cgroup.procs", "\n");
    fake_write("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    fake_write("cg/memory/job/memory.limit_in_bytes", "123456\n");
    fake_write("cg/memory/job/memory.failcnt", "17\n");
    fake_write("cg/memory/job/x/memory.limit_in_bytes", "9223372036854771712\n");
    fake_write("cg/memory/job/x/memory.usage_in_bytes", "777\n");
    fake_write("cg/memory/job/x/memory.max_usage_in_bytes", "888\n");
    fake_write("cg/memory/job/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    fake_write("pressure/memory", "some avg10=2.00 avg60=0.00 avg300=0.00 total=0\n");
    look();
    assert_int_equal(cgroup.current_bytes, 777);
    assert_int_equal(cgroup.peak_bytes, 888);
    assert_int_equal(cgroup.kills, 2);
    assert_int_equal(cgroup.hits, 17);
    assert_int_equal(cgroup.limit_bytes, 123456);
    assert_string_equal(cgroup.limit_name, "cgroup /job memory.limit_in_bytes");
    assert_int_equal(cgroup.pressure_ppm, 20000); /* the machine's */
}

static void a_hybrid_with_memory_in_version_2_is_found_under_unified(void **state)
{
    (void)state;
    fake_write("100/cgroup", "3:cpu:/job\n0::/a\n");
    fake_write("cg/unified/cgroup.procs", "\n");
    put_group("/unified/a", "5555", "max");
    look();
    assert_int_equal(cgroup.limit_bytes, 5555);
    assert_string_equal(cgroup.limit_name, "cgroup /a memory.max");
}

static void in_a_container_the_mount_shows_only_a_part_of_the_path(void **state)
{
    (void)state;
    fake_write("100/cgroup", "0::/kubepods/pod1/ctr\n");
    put_group("", "6000", "max"); /* the container's own group is mounted at the root */
    look();
    assert_int_equal(cgroup.limit_bytes, 6000);
    assert_string_equal(cgroup.limit_name, "cgroup / memory.max");
    assert_int_equal(cgroup.current_bytes, 5000);
    fake_write("100/cgroup", "0::/kubepods/pod1/ctr/sub\n");
    put_group("/sub", "4000", "max");
    look();
    assert_string_equal(cgroup.limit_name, "cgroup /sub memory.max");
}

static void a_path_outside_the_namespace_falls_back_to_the_mount_point(void **state)
{
    (void)state;
    fake_write("100/cgroup", "0::/../..\n");
    put_group("", "6000", "max");
    look();
    assert_int_equal(cgroup.limit_bytes, 6000);
    fake_write("100/cgroup", "0::/../../etc/../a\n"); /* a path that climbs is not followed */
    look();
    assert_true(cgroup.limit_bytes == 6000 || cgroup.limit_bytes == TIDE_UNKNOWN);
}

static void a_process_that_moves_is_followed_and_one_that_ended_leaves_its_group(void **state)
{
    (void)state;
    fake_write("cg/cgroup.procs", "\n");
    put_group("/a", "1000", "max");
    put_group("/b", "2000", "max");
    fake_write("100/cgroup", "0::/a\n");
    look();
    assert_int_equal(cgroup.limit_bytes, 1000);
    fake_write("100/cgroup", "0::/b\n");
    look();
    assert_int_equal(cgroup.limit_bytes, 2000);
    fake_kill(100);
    fake_write("cg/b/memory.current", "4321\n");
    look();
    assert_int_equal(cgroup.limit_bytes, 2000);
    assert_int_equal(cgroup.current_bytes, 4321);
}

/* A process of version 1 that ends is in the topmost group before it is gone. */
static void one_that_is_about_to_end_stays_in_its_group(void **state)
{
    (void)state;
    fake_write("cg/memory/memory.usage_in_bytes", "5000\n");
    fake_write("cg/memory/a/memory.usage_in_bytes", "5000\n");
    fake_write("cg/memory/a/memory.limit_in_bytes", "6000\n");
    fake_write("100/cgroup", "4:memory:/a\n0::/\n");
    look();
    assert_int_equal(cgroup.limit_bytes, 6000);
    fake_put(&(struct fake_process){.pid = 100, .exiting = true});
    fake_write("100/cgroup", "4:memory:/\n0::/\n");
    look();
    assert_int_equal(cgroup.limit_bytes, 6000);
    fake_put(&(struct fake_process){.pid = 100});
    look();
    assert_int_equal(cgroup.limit_bytes, TIDE_UNKNOWN);
}

static void without_any_group_everything_is_unknown(void **state)
{
    (void)state;
    look();
    assert_int_equal(cgroup.current_bytes, TIDE_UNKNOWN);
    assert_int_equal(cgroup.limit_bytes, TIDE_UNKNOWN);
    assert_int_equal(cgroup.kills, TIDE_UNKNOWN);
    assert_int_equal(cgroup.pressure_ppm, TIDE_UNKNOWN);
}

static void absurd_contents_are_unknown(void **state)
{
    (void)state;
    fake_write("cg/cgroup.procs", "\n");
    put_group("/a", "-5", "banana");
    fake_write("cg/a/memory.current", "99999999999999999999999999\n");
    fake_write("cg/a/memory.events", "\377\376");
    fake_write("100/cgroup", "0::/a\n");
    look();
    assert_int_equal(cgroup.limit_bytes, TIDE_UNKNOWN);
    assert_int_equal(cgroup.high_bytes, TIDE_UNKNOWN);
    assert_int_equal(cgroup.current_bytes, TIDE_UNKNOWN);
    assert_int_equal(cgroup.kills, TIDE_UNKNOWN);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(counters_of_version_2_are_read),
        TEST(the_lowest_limit_above_a_group_counts_and_is_named),
        TEST(a_limit_that_is_changed_or_lifted_is_noticed),
        TEST(version_1_has_other_names_and_a_huge_number_for_no_limit),
        TEST(a_hybrid_with_memory_in_version_2_is_found_under_unified),
        TEST(in_a_container_the_mount_shows_only_a_part_of_the_path),
        TEST(a_path_outside_the_namespace_falls_back_to_the_mount_point),
        TEST(a_process_that_moves_is_followed_and_one_that_ended_leaves_its_group),
        TEST(one_that_is_about_to_end_stays_in_its_group),
        TEST(without_any_group_everything_is_unknown),
        TEST(absurd_contents_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
