/*
 * test_heap_read.c - what is in a table is read, what cannot be is left out.
 */
#include "channel/heap_read.h"
#include "base/units.h"
#include "failing_malloc.h"
#include "heap_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <cmocka.h>

static struct heap_fixture f;
static struct tide_heap_tables *tables;
static struct tide_descriptors descriptors;
static uint64_t own_start;

static int set_up(void **state)
{
    (void)state;
    struct tide_err err;
    descriptors = (struct tide_descriptors){.most = 64};
    f = (struct heap_fixture){.fd = -1};
    assert_int_equal(tide_birth_read(0, &own_start), 0);
    heap_fixture_directory(&f);
    heap_fixture_table(&f, getpid(), own_start, 0);
    assert_int_equal(tide_heap_tables_new(f.directory, &descriptors, &tables, &err), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_heap_tables_free(tables);
    heap_fixture_remove(&f);
    return 0;
}

/* The one table, read. */
static struct tide_heap_table *read_table(void)
{
    tide_heap_tables_find(tables);
    assert_int_equal(tables->count, 1);
    struct tide_heap_table *table = tables->tables[0];
    assert_int_equal(tide_heap_table_read(tables, table), 0);
    return table;
}

static void a_table_is_read_as_it_was_written(void **state)
{
    (void)state;
    heap_fixture_module(&f, "/bin/train", 0x400000, 0x401000, 0x409000);
    uint64_t words[] = {0x401234, heap_fixture_code(&f, "train.py", "step", 88), 0x402000};
    heap_fixture_site(&f, TIDE_SITE_MMAP, words, 3, 4096);
    struct tide_heap_table *table = read_table();
    assert_int_equal(table->pid, getpid());
    assert_int_equal(table->start_ticks, own_start);
    assert_false(table->ended);
    assert_int_equal(table->site_count, 1);
    const struct tide_heap_site *site = &table->sites[0];
    assert_true(site->ready);
    assert_int_equal(site->kind, TIDE_SITE_MMAP);
    assert_int_equal(site->live_bytes, 4096);
    uint64_t found[TIDE_HEAP_DEPTH];
    assert_int_equal(tide_heap_table_stack(table, site, found), 3);
    assert_memory_equal(found, words, sizeof words);
    char file[TIDE_HEAP_STRING], name[TIDE_HEAP_STRING];
    uint32_t first;
    assert_int_equal(tide_heap_table_code(table, TIDE_HEAP_CODE_OF(found[1]), file, name, &first), 0);
    assert_string_equal(file, "train.py");
    assert_string_equal(name, "step");
    const struct tide_heap_range *module = tide_heap_table_module(table, found[0] - 1, site->modules);
    assert_non_null(module);
    assert_string_equal(module->path, "/bin/train");
    assert_null(tide_heap_table_module(table, 0x409000, site->modules));
}

static void values_change_and_entries_are_added(void **state)
{
    (void)state;
    uint64_t word = 0x1000;
    struct tide_heap_site *site = heap_fixture_site(&f, TIDE_SITE_MALLOC, &word, 1, 10);
    assert_int_equal(read_table()->sites[0].live_bytes, 10);
    site->live_bytes = -5;
    site->live_blocks = INT64_MAX;
    heap_fixture_site(&f, TIDE_SITE_MALLOC, &word, 1, 7);
    heap_fixture_module(&f, "/lib/late.so", 0, 0x1000, 0x2000);
    struct tide_heap_table *table = read_table();
    assert_int_equal(table->site_count, 2);
    assert_int_equal(table->sites[0].live_bytes, 0);
    assert_int_equal(table->sites[0].live_blocks, TIDE_LARGEST);
    assert_int_equal(table->sites[1].live_bytes, 7);
    assert_string_equal(tide_heap_table_module(table, 0x1001, table->sites[0].modules)->path, "/lib/late.so");
}

static void an_address_belongs_to_the_newest_module_that_was_known(void **state)
{
    (void)state;
    heap_fixture_module(&f, "/lib/first.so", 0, 0x1000, 0x3000);
    heap_fixture_module(&f, "/lib/second.so", 0, 0x2000, 0x3000);
    heap_fixture_module(&f, "/lib/third.so", 0, 0x2000, 0x4000);
    struct tide_heap_table *table = read_table();
    assert_string_equal(tide_heap_table_module(table, 0x2500, 1)->path, "/lib/first.so");
    assert_string_equal(tide_heap_table_module(table, 0x2500, 2)->path, "/lib/second.so");
    assert_string_equal(tide_heap_table_module(table, 0x2500, 3)->path, "/lib/third.so");
    assert_string_equal(tide_heap_table_module(table, 0x3500, 1)->path, "/lib/third.so");
    assert_string_equal(tide_heap_table_module(table, 0x2500, UINT32_MAX)->path, "/lib/third.so");
}

static void what_is_not_ready_is_looked_at_again(void **state)
{
    (void)state;
    uint64_t word = 0x1500;
    struct tide_heap_site *site = heap_fixture_site(&f, TIDE_SITE_MALLOC, &word, 1, 10);
    heap_fixture_module(&f, "/lib/a.so", 0, 0x1000, 0x2000);
    heap_fixture_module(&f, "/lib/b.so", 0, 0x5000, 0x6000);
    site->ready = 0;
    f.modules[0].ready = 0;
    struct tide_heap_table *table = read_table();
    assert_false(table->sites[0].ready);
    assert_null(tide_heap_table_module(table, word, 2));
    assert_non_null(tide_heap_table_module(table, 0x5500, 2));
    site->ready = 1;
    f.modules[0].ready = 1;
    table = read_table();
    assert_true(table->sites[0].ready);
    assert_string_equal(tide_heap_table_module(table, word, 2)->path, "/lib/a.so");
    assert_non_null(tide_heap_table_module(table, 0x5500, 2));
}

static void references_that_lead_outside_are_left_out(void **state)
{
    (void)state;
    uint64_t word = 0x1000;
    for (int i = 0; i < 5; i++)
        heap_fixture_site(&f, TIDE_SITE_MALLOC, &word, 1, 10);
    f.sites[0].kind = 0;
    f.sites[1].kind = TIDE_SITE_TENSOR + 1;
    f.sites[2].depth = TIDE_HEAP_DEPTH + 1;
    f.sites[3].frames_at = UINT32_MAX;
    f.head->site_count = UINT64_MAX;
    f.head->module_count = UINT64_MAX;
    struct tide_heap_table *table = read_table();
    assert_int_equal(table->site_count, TIDE_HEAP_SITES);
    for (int i = 0; i < 4; i++)
        assert_false(table->sites[i].ready);
    assert_true(table->sites[4].ready);
    char file[TIDE_HEAP_STRING], name[TIDE_HEAP_STRING];
    uint32_t first;
    assert_int_equal(tide_heap_table_code(table, 0, file, name, &first), -1);
    assert_int_equal(tide_heap_table_code(table, UINT32_MAX, file, name, &first), -1);
    f.codes[3] = (struct tide_heap_code){.ready = 1, .file = UINT32_MAX, .name = TIDE_HEAP_TEXT - 1};
    f.head->text_count = UINT64_MAX;
    memset(f.text + TIDE_HEAP_TEXT - 600, 'x', 600);
    assert_int_equal(tide_heap_table_code(table, 3, file, name, &first), 0);
    assert_string_equal(file, "");
    assert_string_equal(name, "x");
    f.codes[4] = (struct tide_heap_code){.ready = 1, .file = TIDE_HEAP_TEXT - 600};
    assert_int_equal(tide_heap_table_code(table, 4, file, name, &first), 0);
    assert_int_equal(strlen(file), TIDE_HEAP_STRING - 1);
}

static void what_is_no_table_is_not_followed(void **state)
{
    (void)state;
    uint64_t magic = f.head->magic;
    f.head->magic = 0;
    tide_heap_tables_find(tables);
    assert_int_equal(tables->count, 0);
    f.head->magic = magic;
    f.head->pid++;
    tide_heap_tables_find(tables);
    assert_int_equal(tables->count, 0);
    f.head->pid--;
    f.head->image++;
    tide_heap_tables_find(tables);
    assert_int_equal(tables->count, 0);
    f.head->image--;
    char link[200];
    snprintf(link, sizeof link, "%s/heap-5-5", f.directory);
    assert_int_equal(symlink(f.path, link), 0);
    tide_heap_tables_find(tables);
    assert_int_equal(tables->count, 1);
    unlink(link);
    assert_int_equal(mkfifo(link, 0600), 0);
    tide_heap_tables_find(tables);
    assert_int_equal(tables->count, 1);
    unlink(link);
}

static void a_table_that_is_cut_off_is_given_up(void **state)
{
    (void)state;
    uint64_t word = 1;
    heap_fixture_site(&f, TIDE_SITE_MALLOC, &word, 1, 10);
    struct tide_heap_table *table = read_table();
    assert_int_equal(truncate(f.path, 100), 0);
    assert_int_equal(tide_heap_table_read(tables, table), -1);
    tide_heap_tables_drop(tables, 0);
    assert_int_equal(access(f.path, F_OK), -1);
}

static void an_end_is_seen_and_the_rest_is_read(void **state)
{
    (void)state;
    uint64_t word = 0x1000;
    struct tide_heap_site *site = heap_fixture_site(&f, TIDE_SITE_MALLOC, &word, 1, 10);
    struct tide_heap_table *table = read_table();
    site->live_bytes = 99;
    heap_fixture_end(&f);
    assert_int_equal(tide_heap_table_read(tables, table), 0);
    assert_true(table->ended);
    assert_true(table->replaced); /* the process in its name is this one, and runs */
    assert_int_equal(table->sites[0].live_bytes, 99);
}

static void a_process_that_was_killed_ended_and_did_not_exec(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    uint64_t start = 0;
    assert_int_equal(tide_birth_read(child, &start), 0);
    struct heap_fixture other = {.fd = -1};
    memcpy(other.directory, f.directory, sizeof f.directory);
    heap_fixture_table(&other, child, start, 3);
    heap_fixture_end(&f);
    unlink(f.path);
    kill(child, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT); /* a zombie now */
    heap_fixture_end(&other);
    struct tide_heap_table *table = read_table();
    assert_int_equal(table->image, 3);
    assert_true(table->ended);
    assert_false(table->replaced);
    waitpid(child, NULL, 0);
    tide_heap_tables_drop(tables, 0);
    assert_int_equal(tables->count, 0);
}

static void tables_that_no_descriptor_is_left_for_are_read_all_the_same(void **state)
{
    enum { OTHERS = 5 };
    (void)state;
    uint64_t word = 0x1000;
    struct heap_fixture others[OTHERS];
    descriptors.most = 2;
    heap_fixture_site(&f, TIDE_SITE_MALLOC, &word, 1, 100);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = f;
        heap_fixture_table(&others[i], getpid(), own_start, (uint32_t)i + 1);
        heap_fixture_site(&others[i], TIDE_SITE_MALLOC, &word, 1, 101 + i);
    }
    tide_heap_tables_find(tables);
    assert_int_equal(tables->count, OTHERS + 1);
    assert_int_equal(tables->waiting, 0);
    assert_int_equal(descriptors.kept, 2);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < OTHERS + 1; i++) {
            struct tide_heap_table *table = tables->tables[i];
            uint64_t found[TIDE_HEAP_DEPTH];
            assert_int_equal(tide_heap_table_read(tables, table), 0);
            assert_int_equal(table->sites[0].live_bytes, 100 + table->image);
            assert_int_equal(tide_heap_table_stack(table, &table->sites[0], found), 1);
        }
    }
    while (tables->count > 0)
        tide_heap_tables_drop(tables, 0);
    assert_int_equal(descriptors.kept, 0);
    for (int i = 0; i < OTHERS; i++)
        heap_fixture_end(&others[i]);
}

#if HAVE_FAILING_MALLOC
static void without_memory_a_table_is_read_later(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    bool failed = true;
    heap_fixture_module(&f, "/lib/a.so", 0, 0x1000, 0x2000);
    for (long good = 0; failed; good++) {
        struct tide_heap_tables *some = NULL;
        struct tide_err err;
        failing_arm(good);
        int bad = tide_heap_tables_new(f.directory, &descriptors, &some, &err);
        if (!bad) {
            tide_heap_tables_find(some);
            if (some->count == 1)
                tide_heap_table_read(some, some->tables[0]);
        }
        failed = failing_disarm();
        if (!bad)
            tide_heap_tables_free(some);
        assert_true(good < 100);
    }
    assert_non_null(tide_heap_table_module(read_table(), 0x1500, 1));
}
#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_table_is_read_as_it_was_written),
        TEST(values_change_and_entries_are_added),
        TEST(an_address_belongs_to_the_newest_module_that_was_known),
        TEST(what_is_not_ready_is_looked_at_again),
        TEST(references_that_lead_outside_are_left_out),
        TEST(what_is_no_table_is_not_followed),
        TEST(a_table_that_is_cut_off_is_given_up),
        TEST(an_end_is_seen_and_the_rest_is_read),
        TEST(tables_that_no_descriptor_is_left_for_are_read_all_the_same),
#if HAVE_FAILING_MALLOC
        TEST(without_memory_a_table_is_read_later),
#endif
        TEST(a_process_that_was_killed_ended_and_did_not_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
