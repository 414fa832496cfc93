/*
 * test_train_checkpoint.c - a run on disk: whole or not at all, whatever happens in between.
 *
 * The calls to the system that a save makes go through this file, so that the process can be killed before
 * any of them, or any of them can fail.
 */
#include "checkpoint_fixture.h"
#include "sanitized.h"
#include "train/lm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- calls to the system, counted */

enum fault { NO_FAULT, KILL, FAIL, SHORTEN };

static enum fault fault;
static long calls_left = -1; /* until it happens; below 0: never */
static long calls;
static int fault_error = ENOSPC;

/* Whether this call is the one that fails. */
static bool is_time(void)
{
    calls++;
    if (calls_left < 0 || calls_left-- > 0)
        return false;
    if (fault == KILL)
        kill(getpid(), SIGKILL);
    errno = fault_error;
    return fault == FAIL;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    if (is_time())
        return -1;
    if (fault == SHORTEN && count > 1)
        count = (count + 1) / 2;
    return syscall(SYS_write, fd, bytes, count);
}

int fsync(int fd)
{
    return is_time() ? -1 : (int)syscall(SYS_fsync, fd);
}

int mkdirat(int fd, const char *path, mode_t mode)
{
    return is_time() ? -1 : (int)syscall(SYS_mkdirat, fd, path, mode);
}

int renameat(int from, const char *old, int to, const char *new)
{
    return is_time() ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, 0);
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    return is_time() ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, flags);
}

int unlinkat(int fd, const char *path, int flags)
{
    return is_time() ? -1 : (int)syscall(SYS_unlinkat, fd, path, flags);
}

int openat(int fd, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return is_time() ? -1 : (int)syscall(SYS_openat, fd, path, flags, mode);
}

static void arm(enum fault what, long after)
{
    fault = what;
    calls_left = after;
    calls = 0;
}

static void disarm(void)
{
    calls_left = -1;
    fault = NO_FAULT;
}

/* Numbers of which a text of fewer digits would lose some. */
static struct tide_train_settings how = {.steps = INT64_MAX - 1,
                                         .seed = -4,
                                         .rate = 1.0 / 3,
                                         .weight_decay = 0.1,
                                         .clip = 4.9e-324,
                                         .schedule = "cosine",
                                         .dtype = "bf16",
                                         .stored = "f32",
                                         .optimizer = "adamw"};
static struct tide_lm_settings sizes = {.batch = 2, .sequence = 8, .accumulate = 1};

static int disarm_and_tear_down(void **state)
{
    disarm();
    return tear_down(state);
}

/* What the machine holds, as a step. */
static int save_machine(int64_t step, int keep, struct tide_err *err)
{
    struct tide_checkpoint_state state = {.task = "lm", .step = step, .train = &how, .own = &sizes};
    struct tide_checkpoint_dir dir = {.path = w.dir, .keep = keep, .fd = -1};
    int status =
        tide_checkpoint_save(&dir, w.graph, w.machine, &state, tide_language_write, &w.language, err);
    tide_checkpoint_leave(&dir);
    return status;
}

static int save_keeping(int64_t step, int keep, struct tide_err *err)
{
    fill(w.machine, step);
    return save_machine(step, keep, err);
}

static void save(int64_t step)
{
    struct tide_err err;
    ok(save_keeping(step, 2, &err), &err);
}

/* The step of the newest whole one, which must hold what was saved at that step; -1: there is none. */
static int64_t found_step(void)
{
    char path[PATH_MAX];
    struct tide_err err;
    struct tide_train_settings train = {0};
    struct tide_lm_settings own;
    struct tide_checkpoint_state state = {.task = "lm", .train = &train, .own = &own};
    int status = tide_checkpoint_find(w.dir, path, sizeof path, &err);
    if (status == 1)
        return -1;
    ok(status, &err);
    is_the_model(path);
    ok(tide_checkpoint_read(path, &state, &err), &err);
    assert_true(state.is_of_task);
    const char **words[] = {&train.schedule, &train.dtype, &train.stored, &train.optimizer};
    const char *const expected[] = {how.schedule, how.dtype, how.stored, how.optimizer};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(*words[i], expected[i]);
        *words[i] = expected[i];
    }
    assert_memory_equal(&train, &how, sizeof how);
    assert_memory_equal(&own, &sizes, sizeof sizes);
    fill(w.other, -1);
    ok(tide_checkpoint_load(path, w.graph, w.other, true, &err), &err);
    assert_true(holds(w.other, state.step, 3));
    return state.step;
}

/* Names in the directory, hidden ones or the others. */
static int entries(bool hidden)
{
    int count = 0;
    DIR *there = opendir(w.dir);
    for (struct dirent *entry; (entry = readdir(there));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 (entry->d_name[0] == '.') == hidden;
    closedir(there);
    return count;
}

static bool is_there(const char *name)
{
    return !access(inside(name), F_OK);
}

/* ---- what is saved is there */

static void what_was_saved_is_found_and_loaded(void **state)
{
    (void)state;
    assert_int_equal(found_step(), -1);
    save(0);
    assert_int_equal(found_step(), 0);
    save(100);
    assert_int_equal(found_step(), 100);
    save(123456789012);
    assert_int_equal(found_step(), 123456789012);
    assert_int_equal(entries(true), 0);
    assert_int_equal(entries(false), 2);
}

static void the_last_ones_are_kept(void **state)
{
    (void)state;
    struct tide_err err;
    for (int64_t step = 1; step <= 7; step++)
        ok(save_keeping(step * 10, 3, &err), &err);
    assert_int_equal(entries(false), 3);
    assert_true(is_there("step-00000050") && is_there("step-00000060") && is_there("step-00000070"));
    ok(save_keeping(80, 0, &err), &err); /* at least the one that was just written */
    assert_int_equal(entries(false), 1);
    assert_int_equal(found_step(), 80);
}

static void later_ones_of_another_run_stay(void **state)
{
    (void)state;
    struct tide_err err;
    save(500);
    ok(save_keeping(100, 1, &err), &err);
    ok(save_keeping(200, 1, &err), &err);
    assert_true(is_there("step-00000500") && is_there("step-00000200") && !is_there("step-00000100"));
}

static void a_checkpoint_with_files_of_others_is_not_removed(void **state)
{
    (void)state;
    save(1);
    put("step-00000001/notes.txt", "mine");
    put("README", "mine too");
    save(2);
    save(3);
    save(4);
    assert_true(is_there("step-00000001/notes.txt") && is_there("step-00000001/model.safetensors"));
    assert_true(is_there("README") && !is_there("step-00000002"));
}

static void one_of_the_same_step_is_replaced(void **state)
{
    (void)state;
    struct tide_err err;
    fill(w.machine, 4);
    ok(save_machine(5, 2, &err), &err);
    save(5);
    assert_int_equal(found_step(), 5);
    assert_int_equal(entries(true), 0);
    assert_int_equal(entries(false), 1);
}

static void directories_are_made_and_empty_ones_removed_again(void **state)
{
    (void)state;
    struct tide_err err;
    char deep[128], path[PATH_MAX];
    struct tide_checkpoint_dir dir = {.path = deep, .fd = -1};
    put("mine", "");
    for (int keeps = 0; keeps < 2; keeps++) {
        snprintf(deep, sizeof deep, "%s/a/b//c/", w.dir);
        ok(tide_checkpoint_prepare(&dir, &err), &err);
        assert_int_equal(tide_checkpoint_find(deep, path, sizeof path, &err), 1);
        if (keeps)
            put("a/file", "");
        tide_checkpoint_leave(&dir);
        assert_true(is_there("a") == keeps && !is_there("a/b"));
    }
    ok(tide_checkpoint_prepare(&dir, &err), &err); /* now in a directory that was there before */
    tide_checkpoint_leave(&dir);
    assert_true(is_there("a/file") && !is_there("a/b"));
    snprintf(deep, sizeof deep, "%s/mine", w.dir);
    assert_int_equal(tide_checkpoint_prepare(&dir, &err), -1);
    assert_non_null(strstr(err.text, "Not a directory"));
    assert_int_equal(tide_checkpoint_find(deep, path, sizeof path, &err), -1);
    assert_non_null(strstr(err.text, "Not a directory"));
}

static void two_do_not_hold_a_directory(void **state)
{
    (void)state;
    struct tide_err err;
    struct tide_checkpoint_dir dir = {.path = w.dir, .fd = -1};
    save(1);
    ok(tide_checkpoint_enter(&dir, &err), &err);
    ok(tide_checkpoint_enter(&dir, &err), &err);
    assert_int_equal(save_keeping(2, 2, &err), -1);
    assert_non_null(strstr(err.text, "another process is training into"));
    tide_checkpoint_leave(&dir);
    save(2);
    assert_int_equal(found_step(), 2);
}

static void saving_takes_no_memory(void **state)
{
    (void)state;
    save(1);
    save(2);
    save(3);
    size_t before = mallinfo2().uordblks, arena = mallinfo2().arena;
    for (int64_t step = 4; step < 12; step++)
        save(step);
    assert_int_equal(mallinfo2().uordblks, before);
    assert_int_equal(mallinfo2().arena, arena);
}

/* ---- kills and full disks at every call */

/* A sanitizer looks for other faults, in code that is the same at every call. */
enum { STRIDE = SANITIZED ? 4 : 1 };

static void kill_at_every_call(int64_t first, int64_t step)
{
    for (long after = 0;; after += STRIDE) {
        remove_tree(w.dir);
        save(first - 1);
        save(first);
        pid_t child = fork();
        if (!child) {
            struct tide_err err;
            arm(KILL, after);
            _exit(save_keeping(step, 2, &err) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        int64_t found = found_step();
        assert_true(found == first || found == step);
        if (WIFEXITED(status)) { /* there was no such call any more */
            assert_int_equal(WEXITSTATUS(status), 0);
            assert_int_equal(found, step);
            assert_true(after > 20);
            break;
        }
        assert_int_equal(WTERMSIG(status), SIGKILL);
        save(step + 1);
        assert_int_equal(found_step(), step + 1);
        assert_int_equal(entries(true), 0);
        assert_int_equal(entries(false), 2);
    }
}

static void a_kill_at_any_call_leaves_a_whole_one(void **state)
{
    (void)state;
    kill_at_every_call(100, 200);
    kill_at_every_call(200, 200); /* one that is replaced */
}

static void fail_at_every_call(int error)
{
    fault_error = error;
    for (long after = error == EIO ? STRIDE / 2 : 0;; after += STRIDE) {
        struct tide_err err = {0};
        remove_tree(w.dir);
        save(9);
        save(10);
        arm(FAIL, after);
        int status = save_keeping(20, 2, &err);
        bool happened = calls_left < 0 && calls > after;
        disarm();
        int64_t found = found_step();
        if (status) {
            assert_non_null(strstr(err.text, "cannot save a checkpoint in '"));
            assert_int_equal(entries(true), 0);
            assert_non_null(strstr(err.text, strerror(error)));
        } else
            assert_int_equal(found, 20);
        assert_true(found == 10 || found == 20);
        if (!happened)
            break;
        save(30);
        assert_int_equal(found_step(), 30);
        assert_int_equal(entries(true), 0);
    }
}

static void whatever_fails_what_was_there_stays_and_nothing_else(void **state)
{
    (void)state;
    fail_at_every_call(ENOSPC);
    fail_at_every_call(EIO);
}

static void short_writes_are_continued(void **state)
{
    (void)state;
    arm(SHORTEN, -1);
    save(10);
    disarm();
    assert_int_equal(found_step(), 10);
}

/* ---- damage */

static void damage(const char *name, long at, int change)
{
    int fd = open(inside(name), O_RDWR);
    struct stat info;
    char byte;
    assert_true(fd >= 0 && !fstat(fd, &info));
    at = at < 0 ? info.st_size + at : at;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte = (char)(byte ^ change);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_damaged_one_is_passed_over_and_named(void **state)
{
    (void)state;
    static const char *const names[] = {"config.json", "vocabulary.json", "model.safetensors",
                                        "optimizer.safetensors", "state.json"};
    char path[PATH_MAX];
    struct tide_err err;
    save(1);
    for (int i = 0; i < 5; i++)
        for (int way = 0; way < 3; way++) {
            char name[64];
            snprintf(name, sizeof name, "step-00000002/%s", names[i]);
            save(2);
            if (way == 0)
                damage(name, i == 4 ? 0 : -5, 64);
            else if (way == 1)
                assert_int_equal(truncate(inside(name), 40), 0);
            else
                assert_int_equal(unlink(inside(name)), 0);
            assert_int_equal(found_step(), 1);
            ok(tide_checkpoint_find(w.dir, path, sizeof path, &err), &err);
            assert_non_null(strstr(path, "/step-00000001"));
            assert_non_null(strstr(err.text, "/step-00000002: "));
            assert_non_null(strstr(err.text, names[i]));
        }
    save(2);
    ok(tide_checkpoint_find(w.dir, path, sizeof path, &err), &err);
    assert_string_equal(err.text, "");
}

static void none_whole_is_not_the_same_as_none(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct tide_err err;
    save(1);
    save(2);
    damage("step-00000001/model.safetensors", -1, 1);
    damage("step-00000002/model.safetensors", -1, 1);
    assert_int_equal(tide_checkpoint_find(w.dir, path, sizeof path, &err), -1);
    assert_non_null(strstr(err.text, "no checkpoint is complete: "));
    assert_non_null(strstr(err.text, "step-00000002: model.safetensors is not what was written"));
    assert_int_equal(tide_checkpoint_find(inside("step-00000001"), path, sizeof path, &err), -1);
}

/* Replaces the value of a key of state.json, whose own checksum it takes away. */
static void put_state(const char *key, const char *value)
{
    char text[4096], quoted[64];
    FILE *in = fopen(inside("step-00000001/state.json"), "r");
    assert_non_null(in);
    size_t len = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    text[len] = '\0';
    strcpy(strrchr(text, ','), "\n}\n");
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    char *at = strstr(text, quoted), *rest = at ? strpbrk(at, ",\n") : NULL;
    assert_non_null(rest);
    FILE *out = fopen(inside("step-00000001/state.json"), "w");
    fprintf(out, "%.*s%s%s%s", (int)(at - text), text, quoted, value, rest);
    assert_int_equal(fclose(out), 0);
}

static void an_absurd_state_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
    } absurd[] = {
        {"format", "7"},         {"format", "\"tidemark-checkpoint-99\""},
        {"step", "-1"},          {"step", "1e99"},
        {"step", "\"1\""},       {"step", "9223372036854775807"},
        {"steps", "-2"},         {"seed", "1"},
        {"seed", "\"-1\""},      {"seed", "\"99999999999999999999\""},
        {"seed", "\"\""},        {"seed", "\"1 \""},
        {"batch", "0"},          {"sequence", "9999999999"},
        {"accumulate", "null"},  {"accumulate", "0"},
        {"warmup", "-1"},        {"rate", "\"nan\""},
        {"rate", "\"1e999\""},   {"clip", "\"-1\""},
        {"weight_decay", "0.1"}, {"schedule", "\"none\""},
        {"dtype", "\"f64\""},    {"bytes", "-1"},
        {"crc32", "4294967296"}, {"files", "[], \"more\": {"},
        {"task", "7"},           {"task", "\"tea\""},
    };
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        char path[PATH_MAX];
        struct tide_err err = {0};
        struct tide_checkpoint_state told = {.task = "lm"};
        save(1);
        put_state(absurd[i].key, absurd[i].value);
        assert_int_equal(tide_checkpoint_find(w.dir, path, sizeof path, &err), -1);
        if (!strstr(err.text, strcmp(absurd[i].key, "files") ? absurd[i].key : "config.json"))
            fail_msg("'%s' for %s: %s", err.text, absurd[i].key, absurd[i].value);
        assert_int_equal(tide_checkpoint_read(inside("step-00000001"), &told, &err), -1);
    }
    for (int i = 0; i < 3; i++) {
        char path[PATH_MAX];
        struct tide_err err = {0};
        const char *const texts[] = {"", "[]", "{\"format\": "};
        save(1);
        put("step-00000001/state.json", texts[i]);
        assert_int_equal(tide_checkpoint_find(w.dir, path, sizeof path, &err), -1);
        assert_non_null(strstr(err.text, "state.json"));
    }
}

static void names_that_only_look_alike_are_left_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"step-1",          "step-000000001", "step-",
                                        "step-0000000x",   "step--0000001",  "step-99999999999999999999",
                                        ".step-1.partial", ".step-00000009", "step-00000009.bak"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(mkdir(inside(names[i]), 0777), 0);
    assert_int_equal(found_step(), -1);
    save(1);
    save(2);
    save(3);
    assert_int_equal(found_step(), 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(is_there(names[i]));
    put("step-00000004", "a file"); /* the name is there and is no directory */
    struct tide_err err;
    assert_int_equal(save_keeping(4, 2, &err), -1);
    assert_int_equal(found_step(), 3);
}

static void moments_that_do_not_match_leave_the_weights(void **state)
{
    (void)state;
    struct tide_err err;
    save(1);
    char model[PATH_MAX];
    strcpy(model, inside("step-00000001/model.safetensors"));
    assert_int_equal(unlink(inside("step-00000001/optimizer.safetensors")), 0);
    assert_int_equal(link(model, inside("step-00000001/optimizer.safetensors")), 0);
    fill(w.other, 77);
    assert_int_equal(tide_checkpoint_load(inside("step-00000001"), w.graph, w.other, true, &err), -1);
    assert_non_null(strstr(err.text, "the model has a tensor 'wte.weight.exp_avg' (13, 12)"));
    assert_true(holds(w.other, 77, 3));
}

static void a_text_with_other_symbols_is_refused(void **state)
{
    (void)state;
    struct tide_err err;
    struct tide_data *other;
    save(1);
    ok(tide_language_check(&w.language, inside("step-00000001"), &err), &err);
    put("text",
        "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"
        "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc");
    struct tide_data_source text = {.path = inside("text"), .seed = 7, .sequence = 8, .vocabulary = 13};
    ok(tide_data_open(&text, &other, &err), &err);
    struct tide_language language = {.config = config, .vocabulary = other->vocabulary};
    assert_int_equal(tide_language_check(&language, inside("step-00000001"), &err), -1);
    assert_non_null(strstr(err.text, "other symbols"));
    tide_data_free(other);
}

int main(void)
{
#define ARMED(test) cmocka_unit_test_setup_teardown(test, set_up, disarm_and_tear_down)
    const struct CMUnitTest tests[] = {
        ARMED(what_was_saved_is_found_and_loaded),
        ARMED(the_last_ones_are_kept),
        ARMED(later_ones_of_another_run_stay),
        ARMED(a_checkpoint_with_files_of_others_is_not_removed),
        ARMED(one_of_the_same_step_is_replaced),
        ARMED(directories_are_made_and_empty_ones_removed_again),
        ARMED(two_do_not_hold_a_directory),
        ARMED(saving_takes_no_memory),
        ARMED(a_kill_at_any_call_leaves_a_whole_one),
        ARMED(whatever_fails_what_was_there_stays_and_nothing_else),
        ARMED(short_writes_are_continued),
        ARMED(a_damaged_one_is_passed_over_and_named),
        ARMED(none_whole_is_not_the_same_as_none),
        ARMED(an_absurd_state_is_refused),
        ARMED(names_that_only_look_alike_are_left_alone),
        ARMED(moments_that_do_not_match_leave_the_weights),
        ARMED(a_text_with_other_symbols_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
