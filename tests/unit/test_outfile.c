/*
 * test_outfile.c - files that are there whole or not at all.
 */
#include "base/outfile.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_outfile.XXXXXX");
    return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static size_t files_here(void)
{
    size_t count = 0;
    DIR *here = opendir(".");
    for (struct dirent *entry; (entry = readdir(here));)
        count += entry->d_name[0] != '.';
    closedir(here);
    return count;
}

static int tear_down(void **state)
{
    (void)state;
    DIR *here = opendir(".");
    for (struct dirent *entry; (entry = readdir(here));)
        if (entry->d_name[0] != '.')
            unlink(entry->d_name);
    closedir(here);
    return chdir("/") || rmdir(folder);
}

static void put(const char *path, const char *text)
{
    struct tide_outfile file;
    struct tide_err err = {0};
    if (tide_outfile_open(&file, path, &err))
        fail_msg("%s", err.text);
    fputs(text, file.out);
    if (tide_outfile_commit(&file, &err))
        fail_msg("%s", err.text);
}

static void assert_holds(const char *path, const char *text)
{
    char got[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t len = fread(got, 1, sizeof got - 1, file);
    fclose(file);
    got[len] = 0;
    assert_string_equal(got, text);
}

static void a_file_takes_its_name_when_it_is_whole(void **state)
{
    (void)state;
    struct tide_outfile file;
    put("a", "old");
    assert_int_equal(chmod("a", 0640), 0);
    assert_int_equal(tide_outfile_open(&file, "a", NULL), 0);
    fputs("new", file.out);
    fflush(file.out);
    assert_holds("a", "old");
    assert_int_equal(tide_outfile_commit(&file, NULL), 0);
    assert_holds("a", "new");
    struct stat there;
    assert_int_equal(stat("a", &there), 0);
    assert_int_equal(there.st_mode & 07777, 0640);
    assert_int_equal(files_here(), 1);
}

static void what_is_given_up_leaves_nothing(void **state)
{
    (void)state;
    struct tide_outfile file;
    put("a", "old");
    assert_int_equal(tide_outfile_open(&file, "a", NULL), 0);
    fputs("half", file.out);
    tide_outfile_abort(&file);
    assert_holds("a", "old");
    assert_int_equal(tide_outfile_open(&file, "b", NULL), 0);
    tide_outfile_abort(&file);
    assert_int_equal(files_here(), 1);
}

static void the_file_behind_a_link_is_written(void **state)
{
    (void)state;
    put("a", "old");
    assert_int_equal(symlink("a", "link"), 0);
    put("link", "new");
    assert_holds("a", "new");
    struct stat there;
    assert_int_equal(lstat("link", &there), 0);
    assert_true(S_ISLNK(there.st_mode));
}

static void a_device_is_written_to_and_stays_one(void **state)
{
    (void)state;
    struct stat there;
    struct tide_outfile file;
    struct tide_err err = {0};
    put("/dev/null", "nothing");
    assert_int_equal(stat("/dev/null", &there), 0);
    assert_true(S_ISCHR(there.st_mode));
    for (int bytes = 1; bytes < 1000000; bytes *= 999) { /* found out at the end, or on the way */
        assert_int_equal(tide_outfile_open(&file, "/dev/full", NULL), 0);
        for (int i = 0; i < bytes; i++)
            fputc('x', file.out);
        assert_int_equal(tide_outfile_commit(&file, &err), -1);
        assert_string_equal(err.text, "cannot write '/dev/full': No space left on device");
        assert_null(file.out);
    }
}

static void a_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    put("a", "old");
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct tide_outfile file;
    struct tide_err err = {0};
    assert_int_equal(tide_outfile_open(&file, "a", NULL), 0);
    for (int i = 0; i < 10000; i++)
        fputs("too much of it", file.out);
    int committed = tide_outfile_commit(&file, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(committed, -1);
    assert_non_null(strstr(err.text, "cannot write '"));
    assert_holds("a", "old");
    assert_int_equal(files_here(), 1);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct tide_outfile file;
    struct tide_err err = {0};
    assert_int_equal(tide_outfile_open(&file, "none/a", &err), -1);
    assert_string_equal(err.text, "cannot write 'none/a': No such file or directory");
    assert_int_equal(tide_outfile_open(&file, "/tmp", &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_takes_its_name_when_it_is_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_given_up_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_file_behind_a_link_is_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_device_is_written_to_and_stays_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_old_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
