/*
 * test_sense_parse.c - the texts of /proc and cgroups, well-formed and not, and the roles made from them.
 */
#include "channel/birth.h"
#include "sense/proc_parse.h"
#include "sense/role.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* --- stat ---------------------------------------------------------------------------------------------- */

#define STAT_TAIL " 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 98765 1 1\n"

static int parse_stat(const char *text, struct tide_stat *stat)
{
    return tide_stat_parse(text, strlen(text), stat);
}

static void a_name_with_parentheses_and_newlines_does_not_shift_the_fields(void **state)
{
    (void)state;
    struct tide_stat stat;
    assert_int_equal(parse_stat("77 (a) R 1 (b)\n) S 5" STAT_TAIL, &stat), 0);
    assert_int_equal(stat.pid, 77);
    assert_string_equal(stat.name, "a) R 1 (b)\n");
    assert_int_equal(stat.state, 'S');
    assert_int_equal(stat.parent_pid, 5);
    assert_int_equal(stat.start_ticks, 98765);
}

static void a_stat_that_is_cut_short_or_absurd_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "77",
        "77 (x",
        "77 x) S 1",
        "77 )( S 1" STAT_TAIL,
        "77 (x) S 5 1 1",
        "77 (x) S",
        "x (y) S 1" STAT_TAIL,
        "0 (x) S 1" STAT_TAIL,
        "99999999999999999999 (x) S 1" STAT_TAIL,
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tide_stat stat = {.pid = 1234};
        assert_int_equal(parse_stat(bad[i], &stat), -1);
        assert_int_equal(stat.pid, 1234);
    }
}

static void where_the_stack_begins_is_read_if_it_is_there(void **state)
{
    (void)state;
    struct tide_stat stat;
    assert_int_equal(parse_stat("77 (x) S 5" STAT_TAIL, &stat), 0);
    assert_int_equal(stat.stack_start, 0);
    assert_int_equal(parse_stat("77 (x) S 5 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 98765 4096 12 "
                                "18446744073709551615 1 1 140720000000000 0 0",
                                &stat),
                     0);
    assert_int_equal(stat.stack_start, 140720000000000);
}

static void the_stat_of_this_process_agrees_with_what_it_knows_of_itself(void **state)
{
    (void)state;
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    struct tide_stat stat;
    assert_int_equal(tide_stat_parse(text, len, &stat), 0);
    assert_int_equal(stat.pid, getpid());
    assert_int_equal(stat.parent_pid, getppid());
    assert_true(stat.start_ticks > 0);
    assert_true(stat.stack_start > (uintptr_t)text); /* the stack grows down */
}

static void page_faults_of_children_tell_who_has_waited_for_one(void **state)
{
    (void)state;
    static const struct {
        int minor, major;
        bool has_waited;
    } cases[] = {{0, 0, false}, {3, 0, true}, {0, 4, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        struct tide_stat stat;
        int len = snprintf(text, sizeof text, "7 (x) Z 1 7 7 0 -1 4 5 %d 6 %d 1 1 1 1 20 0 1 0 99",
                           cases[i].minor, cases[i].major);
        assert_int_equal(tide_stat_parse(text, (size_t)len, &stat), 0);
        assert_int_equal(stat.has_waited, cases[i].has_waited);
        assert_int_equal(stat.start_ticks, 99);
    }
}

/* --- status -------------------------------------------------------------------------------------------- */

static int parse_status(const char *text, struct tide_proc_status *status)
{
    return tide_proc_parse_status(text, status);
}

static void the_counters_of_a_status_are_bytes(void **state)
{
    (void)state;
    struct tide_proc_status status;
    assert_int_equal(
        parse_status("Name:\tpython3\nState:\tR (running)\nPPid:\t12\nNSpid:\t100\t7\n"
                     "VmHWM:\t    4000 kB\nVmRSS:\t    3000 kB\nRssAnon:\t    2000 kB\n"
                     "RssFile:\t     900 kB\nRssShmem:\t     100 kB\nVmSwap:\t       8 kB\n"
                     "HugetlbPages:\t    2048 kB\nVmSize:\t    9000 kB\nVmData:\t    7000 kB\nThreads:\t9\n",
                     &status),
        0);
    assert_string_equal(status.name, "python3");
    assert_int_equal(status.state, 'R');
    assert_int_equal(status.parent_pid, 12);
    assert_int_equal(status.peak_bytes, 4000 * 1024);
    assert_int_equal(status.counters.anon_bytes, 2000 * 1024);
    assert_int_equal(status.counters.file_bytes, 900 * 1024);
    assert_int_equal(status.counters.shmem_bytes, 100 * 1024);
    assert_int_equal(status.counters.swap_bytes, 8 * 1024);
    assert_int_equal(status.counters.huge_bytes, 2048 * 1024);
    assert_int_equal(status.counters.asked_bytes, 7000 * 1024);
    assert_int_equal(status.counters.mapped_bytes, 9000 * 1024);
    assert_int_equal(status.counters.threads, 9);
    assert_int_equal(status.namespace_count, 2);
    assert_int_equal(status.namespace_pids[1], 7);
}

static void a_zombie_or_kernel_thread_has_unknown_bytes(void **state)
{
    (void)state;
    struct tide_proc_status status;
    assert_int_equal(parse_status("Name:\tkthreadd\nState:\tZ (zombie)\nPPid:\t0\nThreads:\t1\n", &status),
                     0);
    assert_int_equal(status.counters.anon_bytes, TIDE_UNKNOWN);
    assert_int_equal(status.counters.file_bytes, TIDE_UNKNOWN);
    assert_int_equal(status.peak_bytes, TIDE_UNKNOWN);
    assert_int_equal(status.state, 'Z');
}

static void numbers_too_large_to_be_true_are_unknown(void **state)
{
    (void)state;
    struct tide_proc_status status;
    assert_int_equal(parse_status("Name:\tx\nRssAnon:\t99999999999999999999999 kB\n"
                                  "RssFile:\t9223372036854775807 kB\nVmSwap:\t-5 kB\nRssShmem:\t4 kB\n",
                                  &status),
                     0);
    assert_int_equal(status.counters.anon_bytes, TIDE_UNKNOWN);
    assert_int_equal(status.counters.file_bytes, TIDE_UNKNOWN);
    assert_int_equal(status.counters.swap_bytes, TIDE_UNKNOWN);
    assert_int_equal(status.counters.shmem_bytes, 4096);
}

static void the_escapes_of_a_name_are_undone_and_it_cannot_fake_a_line(void **state)
{
    (void)state;
    struct tide_proc_status status;
    assert_int_equal(parse_status("Name:\ta\\nRssAnon:\t9 kB\\\\\nState:\tS\nRssAnon:\t1 kB\n", &status), 0);
    assert_string_equal(status.name, "a\nRssAnon:\t9 kB\\");
    assert_int_equal(status.counters.anon_bytes, 1024);
}

static void an_old_kernel_that_does_not_split_rss_gives_it_as_anonymous(void **state)
{
    (void)state;
    struct tide_proc_status status;
    assert_int_equal(parse_status("Name:\tx\nVmRSS:\t100 kB\n", &status), 0);
    assert_int_equal(status.counters.anon_bytes, 100 * 1024);
    assert_int_equal(status.counters.file_bytes, TIDE_UNKNOWN);
}

static void text_that_is_no_status_is_refused(void **state)
{
    (void)state;
    struct tide_proc_status status;
    assert_int_equal(parse_status("", &status), -1);
    assert_int_equal(parse_status("RssAnon:\t1 kB\n", &status), -1);
}

/* --- the others ---------------------------------------------------------------------------------------- */

static void uss_is_the_sum_of_what_is_private(void **state)
{
    (void)state;
    static const char text[] =
        "1000-2000 ---p 00000000 00:00 0 [rollup]\nRss: 100 kB\nPss: 60 kB\n"
        "Pss_Dirty: 7 kB\nPss_Shmem: 40 kB\nPrivate_Clean: 10 kB\nPrivate_Dirty: 20 kB\n"
        "Private_Hugetlb: 2048 kB\nAnonymous: 50 kB\nSwap: 4 kB\nSwapPss: 3 kB\n";
    struct tide_proc_rollup rollup = {.anon_bytes = 0};
    assert_int_equal(tide_proc_parse_rollup(text, &rollup), 0);
    assert_int_equal(rollup.row.pss_bytes, 60 * 1024);
    assert_int_equal(rollup.row.pss_shmem_bytes, 40 * 1024);
    assert_int_equal(rollup.row.uss_bytes, 2078 * 1024);
    assert_int_equal(rollup.row.swap_pss_bytes, 3 * 1024);
    assert_int_equal(rollup.anon_bytes, 50 * 1024);
    assert_int_equal(tide_proc_parse_rollup("", &rollup), -1);
}

/* The lines of smaps, one after the other. */
static int64_t unreserved_of(const char *text)
{
    struct tide_proc_smaps smaps = {0};
    char *copy = strdup(text), *rest = copy;
    assert_non_null(copy);
    for (const char *line; (line = strsep(&rest, "\n"));)
        tide_proc_parse_smaps_line(&smaps, line);
    free(copy);
    return smaps.unreserved_bytes;
}

static void large_mappings_without_a_reservation_are_counted(void **state)
{
    (void)state;
    /* An allocator's arena of a gigabyte, a buffer as large, and what is small, shared or may not be written.
     */
    assert_int_equal(
        unreserved_of(
            "7f0000000000-7f0040000000 rw-p 00000000 00:00 0 \nSize: 1048576 kB\nRss: 36864 kB\n"
            "Pss: 36864 kB\nVmFlags: rd wr mr mw me nr sd \n"
            "7f1000000000-7f1040000000 rw-p 00000000 00:00 0 \nRss: 500 kB\nVmFlags: rd wr mr mw me sd \n"
            "7f2000000000-7f2002000000 rw-p 00000000 00:00 0 \nRss: 700 kB\nVmFlags: rd wr nr \n"
            "7f3000000000-7f3040000000 rw-s 00000000 00:01 9 /dev/zero\nRss: 900 kB\nVmFlags: rd wr sh nr \n"
            "7f4000000000-7f4040000000 ---p 00000000 00:00 0 \nRss: 1 kB\nVmFlags: mr nr \n"
            "7f5000000000-7f5020000000 rw-p 00000000 00:00 0 [anon: nr]\nRss: 4 kB\nVmFlags: rd wr nr\n"),
        36868 * 1024);
    assert_int_equal(unreserved_of(""), 0);
    assert_int_equal(unreserved_of("VmFlags: rd wr nr\nRss: 4 kB\n7f-\n-7f rw-p\n0-ffffffffffffffff0 rw-p\n"),
                     0);
    assert_int_equal(
        unreserved_of("0-ffffffffffffffff rw-p\nRss: 99999999999999999999 kB\nVmFlags: nr\nVmFlags: nr\n"),
        0);
}

static int parse_cgroup(const char *text, struct tide_proc_cgroup *cgroup)
{
    char copy[4 * TIDE_PROC_CGROUP_PATH];
    snprintf(copy, sizeof copy, "%s", text);
    return tide_proc_parse_cgroup(copy, cgroup);
}

static void both_versions_of_cgroup_lines_are_told_apart(void **state)
{
    (void)state;
    struct tide_proc_cgroup cgroup;
    assert_int_equal(
        parse_cgroup("9:name=memory:/no\n4:hugetlb,memory:/a/b\n3:cpuset:/c\n0::/user.slice/x:y.scope\n",
                     &cgroup),
        0);
    assert_string_equal(cgroup.memory_path, "/a/b");
    assert_string_equal(cgroup.unified_path, "/user.slice/x:y.scope");
    assert_int_equal(parse_cgroup("0::/gone (deleted)\n", &cgroup), 0);
    assert_string_equal(cgroup.memory_path, "");
    assert_string_equal(cgroup.unified_path, "/gone");
    assert_int_equal(parse_cgroup("::\n0:\n", &cgroup), -1);
}

static void a_cgroup_path_that_does_not_fit_is_left_out_whole(void **state)
{
    (void)state;
    char text[2048] = "0::/";
    memset(text + 4, 'a', 1500);
    struct tide_proc_cgroup cgroup;
    parse_cgroup(text, &cgroup);
    assert_string_equal(cgroup.unified_path, "");
}

static void no_limit_is_unknown_in_both_versions(void **state)
{
    (void)state;
    assert_int_equal(tide_proc_parse_bytes("max\n"), TIDE_UNKNOWN);
    assert_int_equal(tide_proc_parse_bytes("9223372036854771712\n"), TIDE_UNKNOWN);
    assert_int_equal(tide_proc_parse_bytes("18446744073709551615\n"), TIDE_UNKNOWN);
    assert_int_equal(tide_proc_parse_bytes("4294967296\n"), 4294967296);
    assert_int_equal(tide_proc_parse_bytes("0\n"), 0);
    assert_int_equal(tide_proc_parse_bytes(""), TIDE_UNKNOWN);
}

static void counters_are_found_by_their_whole_name(void **state)
{
    (void)state;
    static const char text[] = "low 1\nmax 12\noom 2\noom_kill_disable 5\noom_kill 3\n";
    assert_int_equal(tide_proc_parse_counter(text, "oom_kill"), 3);
    assert_int_equal(tide_proc_parse_counter(text, "max"), 12);
    assert_int_equal(tide_proc_parse_counter(text, "oo"), TIDE_UNKNOWN);
}

static void pressure_is_parts_per_million_of_the_some_line(void **state)
{
    (void)state;
    assert_int_equal(
        tide_proc_parse_pressure("some avg10=12.34 avg60=1.00 avg300=0.00 total=5\nfull avg10=99.00\n"),
        123400);
    assert_int_equal(tide_proc_parse_pressure("some avg10=0.05 "), 500);
    assert_int_equal(tide_proc_parse_pressure("some avg10=100.00"), 1000000);
    assert_int_equal(tide_proc_parse_pressure("full avg10=99.00\n"), TIDE_UNKNOWN);
    assert_int_equal(tide_proc_parse_pressure("some avg10=x"), TIDE_UNKNOWN);
    assert_int_equal(tide_proc_parse_pressure("some avg10="), TIDE_UNKNOWN);
}

static void memory_of_the_host_is_read_from_new_and_old_kernels(void **state)
{
    (void)state;
    struct tide_proc_meminfo meminfo;
    static const char modern[] = "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\nCached: 5 kB\n";
    assert_int_equal(tide_proc_parse_meminfo(modern, &meminfo), 0);
    assert_int_equal(meminfo.total_bytes, 1000 * 1024);
    assert_int_equal(meminfo.available_bytes, 600 * 1024);
    static const char old[] = "MemTotal: 1000 kB\nMemFree: 10 kB\nCached: 5 kB\n";
    assert_int_equal(tide_proc_parse_meminfo(old, &meminfo), 0);
    assert_int_equal(meminfo.available_bytes, 15 * 1024);
    assert_int_equal(tide_proc_parse_meminfo("x", &meminfo), -1);
}

static void soft_limits_are_read_and_unlimited_is_unknown(void **state)
{
    (void)state;
    static const char text[] =
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             unlimited            unlimited            bytes     \n"
        "Max address space         2147483648           unlimited            bytes     \n";
    struct tide_proc_limits limits;
    assert_int_equal(tide_proc_parse_limits(text, &limits), 0);
    assert_int_equal(limits.address_space_bytes, 2147483648);
    assert_int_equal(limits.data_bytes, TIDE_UNKNOWN);
}

/* --- roles --------------------------------------------------------------------------------------------- */

/* args with '|' for each NUL */
static const char *role(const char *name, const char *args, const char *parent_base, const char *parent_name,
                        bool same)
{
    static char copy[1024], out[TIDE_ROLE_MAX];
    snprintf(copy, sizeof copy, "%s", args);
    size_t len = strlen(copy);
    for (size_t i = 0; i < len; i++)
        if (copy[i] == '|')
            copy[i] = '\0';
    struct tide_role_input input = {name, copy, len, parent_base, parent_name, same};
    return tide_role_of(&input, out);
}

static void a_program_is_called_by_its_name_without_path_or_arguments(void **state)
{
    (void)state;
    assert_string_equal(role("trainer", "/opt/bin/trainer|--rank|3|", NULL, NULL, false), "trainer");
    assert_string_equal(role("bash", "-bash|", NULL, NULL, false), "bash");
    assert_string_equal(role("uv", "uv|run|python|train.py|", NULL, NULL, false), "uv");
    assert_string_equal(role("train_v2", "./train_v2|", NULL, NULL, false), "train_v2");
}

static void an_interpreter_is_called_by_its_script_or_module(void **state)
{
    (void)state;
    assert_string_equal(role("python3", "python3|-u|/src/train.py|--lr|1|", NULL, NULL, false), "train.py");
    assert_string_equal(role("python3.11", "/usr/bin/python3.11|-X|dev|-W|ignore|a.py|", NULL, NULL, false),
                        "a.py");
    assert_string_equal(role("python", "python|-m|torch.distributed.run|x.py|", NULL, NULL, false),
                        "torch.distributed.run");
    assert_string_equal(role("python", "/v/bin/python|/v/bin/torchrun|--nproc|8|t.py|", NULL, NULL, false),
                        "torchrun");
    assert_string_equal(role("python", "python|-c|print(1)|", NULL, NULL, false), "python -c");
    assert_string_equal(role("sh", "sh|/x/run.sh|a|", NULL, NULL, false), "run.sh");
    assert_string_equal(role("sh", "sh|-c|make all|", NULL, NULL, false), "sh");
    assert_string_equal(role("python", "python|", NULL, NULL, false), "python");
    assert_string_equal(role("python3-config", "python3-config|x.py|", NULL, NULL, false), "python3-config");
}

static void twenty_ranks_have_one_role_and_two_programs_have_two(void **state)
{
    (void)state;
    char first[TIDE_ROLE_MAX], args[64];
    snprintf(first, sizeof first, "%s",
             role("python", "python|train.py|--rank|0|", "torchrun", "python", false));
    for (int i = 1; i < 20; i++) {
        snprintf(args, sizeof args, "python|train.py|--rank|%d|", i);
        assert_string_equal(role("python", args, "torchrun", "python", false), first);
    }
    assert_string_not_equal(role("python", "python|train2.py|", NULL, NULL, false), first);
}

static void a_forked_worker_is_told_apart_from_its_parent(void **state)
{
    (void)state;
    static const char args[] = "python|train.py|";
    assert_string_equal(role("python", args, "train.py", "python", true), "worker of train.py");
    assert_string_equal(role("pt_data_worker", args, "train.py", "python", true), "pt_data_worker");
    assert_string_equal(role("loader-12", args, "train.py", "python", true), "loader-#");
    assert_string_equal(role("python", args, NULL, NULL, false), "train.py");
}

static void the_helpers_of_multiprocessing_are_called_what_they_are(void **state)
{
    (void)state;
    assert_string_equal(
        role("python",
             "python|-c|from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=7, "
             "pipe_handle=9)|--multiprocessing-fork|",
             "train.py", "python", false),
        "spawn worker of train.py");
    assert_string_equal(role("python", "python|-c|from multiprocessing.resource_tracker import main;main(6)|",
                             "train.py", "python", false),
                        "resource_tracker");
    assert_string_equal(role("python", "python|-c|from multiprocessing.forkserver import main; main(3)|",
                             "train.py", "python", false),
                        "forkserver");
}

static void compile_workers_are_told_from_the_pool_that_makes_them(void **state)
{
    (void)state;
    static const char args[] = "python|/v/torch/_inductor/compile_worker/__main__.py|--workers=20|";
    assert_string_equal(role("python", args, "train.py", "python", false), "compile_worker pool");
    assert_string_equal(role("python", args, "compile_worker", "python", true), "compile_worker");
    assert_string_equal(role("compile_worker", "/bin/compile_worker|--n|3|", "train.py", "python", false),
                        "compile_worker");
}

static void a_title_that_a_process_gave_itself_loses_its_numbers(void **state)
{
    (void)state;
    assert_string_equal(role("VLLM", "VLLM::EngineCore_17||||", NULL, NULL, false), "VLLM::EngineCore_#");
    assert_string_equal(role("ray", "ray::train() step 1234|", NULL, NULL, false), "ray::train() step #");
    assert_string_equal(role("nginx", "nginx: worker process|", NULL, NULL, false), "nginx: worker process");
}

static void control_characters_never_get_into_a_role(void **state)
{
    (void)state;
    assert_string_equal(role("x", "\033]0;owned\a\n|", NULL, NULL, false), "?]0;owned?");
    assert_string_equal(role("a\033[2Jb", "", NULL, NULL, false), "a?[#Jb");
    assert_string_equal(role("x", "\302\2335m\377\377ok\303\251|", NULL, NULL, false), "?5m?ok\303\251");
}

static void a_long_role_is_cut_between_letters(void **state)
{
    (void)state;
    char args[256] = "";
    for (int i = 0; i < 50; i++)
        strcat(args, "\303\251");
    strcat(args, "|");
    const char *cut = role("x", args, NULL, NULL, false);
    assert_int_equal(strlen(cut), 62); /* 31 letters of two bytes */
}

static void without_arguments_the_name_is_what_there_is(void **state)
{
    (void)state;
    assert_string_equal(role("kworker/3", "", NULL, NULL, false), "kworker/#");
    assert_string_equal(role("", "", NULL, NULL, false), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_with_parentheses_and_newlines_does_not_shift_the_fields),
        cmocka_unit_test(a_stat_that_is_cut_short_or_absurd_is_refused),
        cmocka_unit_test(where_the_stack_begins_is_read_if_it_is_there),
        cmocka_unit_test(the_stat_of_this_process_agrees_with_what_it_knows_of_itself),
        cmocka_unit_test(page_faults_of_children_tell_who_has_waited_for_one),
        cmocka_unit_test(the_counters_of_a_status_are_bytes),
        cmocka_unit_test(a_zombie_or_kernel_thread_has_unknown_bytes),
        cmocka_unit_test(numbers_too_large_to_be_true_are_unknown),
        cmocka_unit_test(the_escapes_of_a_name_are_undone_and_it_cannot_fake_a_line),
        cmocka_unit_test(an_old_kernel_that_does_not_split_rss_gives_it_as_anonymous),
        cmocka_unit_test(text_that_is_no_status_is_refused),
        cmocka_unit_test(uss_is_the_sum_of_what_is_private),
        cmocka_unit_test(large_mappings_without_a_reservation_are_counted),
        cmocka_unit_test(both_versions_of_cgroup_lines_are_told_apart),
        cmocka_unit_test(a_cgroup_path_that_does_not_fit_is_left_out_whole),
        cmocka_unit_test(no_limit_is_unknown_in_both_versions),
        cmocka_unit_test(counters_are_found_by_their_whole_name),
        cmocka_unit_test(pressure_is_parts_per_million_of_the_some_line),
        cmocka_unit_test(memory_of_the_host_is_read_from_new_and_old_kernels),
        cmocka_unit_test(soft_limits_are_read_and_unlimited_is_unknown),
        cmocka_unit_test(a_program_is_called_by_its_name_without_path_or_arguments),
        cmocka_unit_test(an_interpreter_is_called_by_its_script_or_module),
        cmocka_unit_test(twenty_ranks_have_one_role_and_two_programs_have_two),
        cmocka_unit_test(a_forked_worker_is_told_apart_from_its_parent),
        cmocka_unit_test(the_helpers_of_multiprocessing_are_called_what_they_are),
        cmocka_unit_test(compile_workers_are_told_from_the_pool_that_makes_them),
        cmocka_unit_test(a_title_that_a_process_gave_itself_loses_its_numbers),
        cmocka_unit_test(control_characters_never_get_into_a_role),
        cmocka_unit_test(a_long_role_is_cut_between_letters),
        cmocka_unit_test(without_arguments_the_name_is_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
