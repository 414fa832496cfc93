/*
 * What is announced is tried, and what fails its trial, in whatever way, ends nothing.
 */
#include "rt/cpu/processor.h"
#include "rt/cpu/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_right(void)
{
    return true;
}

static bool is_wrong(void)
{
    return false;
}

static bool is_illegal(void)
{
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#else
    raise(SIGILL);
#endif
    return true;
}

/* The sanitizers would end it where it should end itself. */
__attribute__((no_sanitize("address", "undefined"))) static bool reads_nowhere(void)
{
    char *volatile nowhere = NULL;
    return *nowhere;
}

static void a_trial_that_fails_in_any_way_is_no_end(void **state)
{
    struct sigaction before, after;
    (void)state;
    sigaction(SIGILL, NULL, &before);
    for (int i = 0; i < 2; i++) {
        assert_true(tide_processor_try(is_right));
        assert_false(tide_processor_try(is_wrong));
        assert_false(tide_processor_try(is_illegal));
        if (!getenv("TIDEMARK_VALGRIND")) /* which would report it */
            assert_false(tide_processor_try(reads_nowhere));
    }
    sigaction(SIGILL, NULL, &after);
    assert_true(before.sa_handler == after.sa_handler);
}

/* In a process of its own: what is used is found once. */
static int status_with(const char *isa, int (*child)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        setenv("TIDEMARK_ISA", isa, 1);
        _exit(child());
    }
    assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int isa_and_check(void)
{
    struct tide_err err = {0};
    return (tide_processor_check(&err) ? 16 : 0) | (int)tide_isa();
}

static int names_are_refused(void)
{
    struct tide_err err = {0};
    return tide_processor_check(&err) && strstr(err.text, "TIDEMARK_ISA") && strstr(err.hint, "avx2") ? 0 : 1;
}

static void less_can_be_asked_for_and_more_is_refused(void **state)
{
    static const char *const words[] = {"plain", "avx2", "avx512", "amx"};
    (void)state;
    unsetenv("TIDEMARK_ISA");
    int best = status_with("", isa_and_check);
    for (int i = 0; i < (int)TIDE_ISAS; i++)
        assert_int_equal(status_with(words[i], isa_and_check), i <= best ? i : 16 | best);
    assert_int_equal(status_with("sse9", names_are_refused), 0);
}

static int kind_has_its_isa(void)
{
    const struct tide_tile_kind *wide = tide_tile_kind(TIDE_F32), *narrow = tide_tile_kind(TIDE_BF16);
    bool is_vectors = wide->cells == TIDE_F32;
    bool is_tiles = tide_isa() != TIDE_ISA_AMX || !strcmp(narrow->name, "AMX");
    return is_vectors && is_tiles ? 0 : 1;
}

static void products_follow_what_is_used(void **state)
{
    (void)state;
    assert_int_equal(status_with("", kind_has_its_isa), 0);
    assert_int_equal(status_with("plain", kind_has_its_isa), 0);
}

/* Where it is said, it is a rate of this century. */
static void a_ceiling_is_above_what_is_multiplied_one_by_one(void **state)
{
    (void)state;
    for (int isa = TIDE_ISA_PLAIN; isa <= (int)tide_isa(); isa++) {
        double rate = tide_processor_ceiling((enum tide_isa)isa, TIDE_MULTIPLIES_F32);
        assert_true(isa == TIDE_ISA_PLAIN ? rate == 0 : rate > 1e9 || getenv("TIDEMARK_VALGRIND"));
    }
    assert_true(tide_processors() >= 1);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Made up trees: a group without a quota, in one of 2.5 processors, in one of 8; and none at the root. Of
 * version 1, the same with 1.5 processors in 4. */
static void the_lowest_quota_above_a_process_counts(void **state)
{
    static const char *const folders[] = {"a",   "a/b",   "a/b/c",   "other",
                                          "cpu", "cpu/x", "cpu/x/y", "cpu/x/y/z"};
    static const struct {
        const char *name, *text;
    } files[] = {{"a/cpu.max", "800000 100000\n"},         {"a/b/cpu.max", "250000 100000\n"},
                 {"a/b/c/cpu.max", "max 100000\n"},        {"other/cpu.max", "100000 100000\n"},
                 {"cpu/cpu.cfs_quota_us", "-1\n"},         {"cpu/cpu.cfs_period_us", "100000\n"},
                 {"cpu/x/cpu.cfs_quota_us", "200000\n"},   {"cpu/x/cpu.cfs_period_us", "50000\n"},
                 {"cpu/x/y/cpu.cfs_quota_us", "150000\n"}, {"cpu/x/y/cpu.cfs_period_us", "100000\n"},
                 {"cpu/x/y/z/cpu.cfs_quota_us", "-1\n"},   {"cpu/x/y/z/cpu.cfs_period_us", "100000\n"}};
    static const struct {
        const char *line;
        int64_t quota;
    } cases[] = {
        {"0::/a/b/c\n", 3},
        {"9:cpuset:/\n0::/a/b\n", 3},
        {"0::/a\n", 8},
        {"0::/\n", INT64_MAX},
        {"0::/docker/4f2e/a/b\n", 3}, /* groups that are not mounted in a container */
        {"0::/../../a\n", 8},
        {"1:cpu:/a\n", INT64_MAX},
        {"1:cpu:/x/y/z\n0::/\n", 2},
        {"4:cpu,cpuacct:/x\n", 4},
        {"4:cpuacct,cpu:/docker/4f2e/x/y\n3:cpuset:/\n", 2},
        {"4:cpuset,cpuacct:/x\n", INT64_MAX},
        {"1:cpu:/x\n0::/a/b\n", 3},
    };
    char top[] = "/tmp/tidemark-groups.XXXXXX", name[256], self[128];
    (void)state;
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(name, sizeof name, "%s/%s", top, folders[i]);
        assert_int_equal(mkdir(name, 0700), 0);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", top, files[i].name);
        write_file(name, files[i].text);
    }
    snprintf(self, sizeof self, "%s/self", top);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(self, cases[i].line);
        assert_int_equal(tide_processor_quota(self, top), cases[i].quota);
    }
    unlink(self);
    assert_int_equal(tide_processor_quota(self, top), INT64_MAX);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", top, files[i].name);
        unlink(name);
    }
    for (size_t i = sizeof folders / sizeof *folders; i-- > 0;) {
        snprintf(name, sizeof name, "%s/%s", top, folders[i]);
        rmdir(name);
    }
    assert_int_equal(rmdir(top), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_that_fails_in_any_way_is_no_end),
        cmocka_unit_test(less_can_be_asked_for_and_more_is_refused),
        cmocka_unit_test(products_follow_what_is_used),
        cmocka_unit_test(a_ceiling_is_above_what_is_multiplied_one_by_one),
        cmocka_unit_test(the_lowest_quota_above_a_process_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
