/*
 * test_record_faults.c - the recording under faults: killed writers, full and read-only disks, damaged files,
 * memory that runs out.
 *
 * The clock is ours (tide_clock_ns is defined here), so that ten seconds pass at will. So is malloc where no
 * sanitizer has it: the Nth allocation can be made to fail, and what is not given back is counted. A
 * sanitizer's build makes SQLite's allocations fail instead, and finds what leaks by itself.
 */
#include "assess/history.h"
#include "base/clock.h"
#include "record/reader.h"
#include "record/schema.h"
#include "record/writer.h"
#include "sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* --- a clock that is set by hand -------------------------------------------------------------------------
 */

static int64_t now_ns = 1000;

int64_t tide_clock_ns(void)
{
    return now_ns;
}

int64_t tide_clock_wall_s(void)
{
    return 1700000000;
}

/* --- memory that runs out --------------------------------------------------------------------------------
 */

static long countdown = -1; /* allocations until one fails; -1: none does */
static bool and_all_after, failed_one;
static long balance; /* allocations that are not given back */
static size_t held_bytes, most_bytes;

static bool must_fail(void)
{
    if (countdown < 0)
        return false;
    if (countdown > 0) {
        countdown--;
        return false;
    }
    failed_one = true;
    if (!and_all_after)
        countdown = -1;
    return true;
}

enum { STRIDE = SANITIZED ? 5 : 1 }; /* slower by as much */

#if !SANITIZED
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

static void *count_in(void *block)
{
    balance += block != NULL;
    held_bytes += block ? malloc_usable_size(block) : 0;
    most_bytes = held_bytes > most_bytes ? held_bytes : most_bytes;
    return block;
}

static void *count_out(void *block)
{
    balance -= block != NULL;
    held_bytes -= block ? malloc_usable_size(block) : 0;
    return block;
}

void *malloc(size_t size)
{
    return must_fail() ? NULL : count_in(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : count_in(__libc_calloc(count, size));
}

void *realloc(void *old, size_t size)
{
    if (must_fail())
        return NULL;
    count_out(old);
    void *block = __libc_realloc(old, size);
    count_in(block ? block : old);
    return block;
}

void free(void *block)
{
    __libc_free(count_out(block));
}
#else
static sqlite3_mem_methods real_memory;

static void *sqlite_malloc(int size)
{
    return must_fail() ? NULL : real_memory.xMalloc(size);
}

static void *sqlite_realloc(void *old, int size)
{
    return must_fail() ? NULL : real_memory.xRealloc(old, size);
}
#endif

/* --- files -----------------------------------------------------------------------------------------------
 */

static char folder[64], path[96];

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char name[128];

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/test_record_faults.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/a.tide", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_files();
    return rmdir(folder);
}

static bool exists(const char *suffix)
{
    char name[128];

    snprintf(name, sizeof name, "%s%s", path, suffix);
    return access(name, F_OK) == 0;
}

/* --- rows ------------------------------------------------------------------------------------------------
 */

static int put_process(struct tide_writer *writer, int64_t pid, int64_t *ret_id, struct tide_err *err)
{
    struct tide_process process = {.pid = pid,
                                   .name = "python",
                                   .command = "python train.py",
                                   .role = "python",
                                   .ended_ns = TIDE_UNKNOWN};

    return tide_writer_process(writer, &process, ret_id, err);
}

/* A look with some samples and a mark, like those a tracker writes. */
static int put_look(struct tide_writer *writer, int64_t t_ns, struct tide_err *err)
{
    struct tide_tick tick = {.t_ns = t_ns, .processes = 4, .rss_bytes = t_ns, .counted_bytes = t_ns};
    struct tide_mark mark = {t_ns, 1, TIDE_MARK_STEP, TIDE_SOURCE_PROGRAM, t_ns, "a name"};
    int64_t id;

    if (tide_writer_tick(writer, &tick, &id, err) != 0)
        return -1;
    for (int i = 0; i < 4; i++) {
        struct tide_sample sample = {.tick = id, .process = 1, .anon_bytes = t_ns * 7 + i};
        sample.process = 1 + i;
        if (tide_writer_sample(writer, &sample, err) != 0)
            return -1;
    }
    return tide_writer_mark(writer, &mark, err);
}

struct tally {
    int64_t ticks, samples, last_tick, processes, notes, highest_step;
    char note[200];
};

static int on_tick(void *context, const void *given)
{
    const struct tide_tick *row = given;
    struct tally *tally = context;
    tally->ticks++;
    tally->last_tick = row->id;
    return 0;
}

static int on_sample(void *context, const void *given)
{
    const struct tide_sample *row = given;
    (void)row;
    ((struct tally *)context)->samples++;
    return 0;
}

static int on_process(void *context, const void *given)
{
    const struct tide_process *row = given;
    (void)row;
    ((struct tally *)context)->processes++;
    return 0;
}

static int on_mark(void *context, const void *given)
{
    const struct tide_mark *row = given;
    struct tally *tally = context;
    if (row->kind == TIDE_MARK_STEP && row->number > tally->highest_step)
        tally->highest_step = row->number;
    return 0;
}

static int on_note(void *context, const void *given)
{
    const struct tide_note *row = given;
    struct tally *tally = context;
    tally->notes++;
    snprintf(tally->note, sizeof tally->note, "%s", row->text);
    return 0;
}

static struct tally read_all(void)
{
    struct tide_reader *reader;
    struct tide_err err = {0};
    struct tally tally = {0};

    if (tide_reader_new(path, &reader, &err) != 0 ||
        tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_tick, &tally, &err) != 0 ||
        tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, on_sample, &tally, &err) != 0 ||
        tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_process, &tally, &err) != 0 ||
        tide_reader_each(reader, TIDE_SCHEMA_MARK, 0, on_mark, &tally, &err) != 0 ||
        tide_reader_each(reader, TIDE_SCHEMA_NOTE, TIDE_READER_ALL, on_note, &tally, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(tide_reader_skipped(reader), 0);
    tide_reader_free(reader);
    return tally;
}

static void is_whole(void)
{
    sqlite3 *db;
    sqlite3_stmt *statement;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

/* --- kill -9 ---------------------------------------------------------------------------------------------
 */

/* Writes and commits for ever, telling the last tick that is committed. */
static void write_until_killed(volatile int64_t *committed)
{
    struct tide_writer *writer;
    int64_t id;

    if (tide_writer_new(path, &writer, NULL) != 0)
        _exit(1);
    for (int i = 0; i < 4; i++)
        put_process(writer, 100 + i, &id, NULL);
    for (int64_t tick = 1;; tick++) {
        if (put_look(writer, tick, NULL) != 0)
            _exit(2);
        if (tick % 3 == 0) {
            if (tide_writer_commit(writer, NULL) != 0)
                _exit(3);
            *committed = tick;
        }
    }
}

static void a_killed_writer_leaves_everything_up_to_its_last_commit(void **state)
{
    (void)state;
    volatile int64_t *committed =
        mmap(NULL, sizeof *committed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(committed != MAP_FAILED);
    srandom(7);
    for (int round = 0; round < 30; round++) {
        *committed = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_until_killed(committed);
        while (*committed == 0)
            assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
        usleep((useconds_t)(random() % 20000)); /* a random moment, which is what is tested */
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        int64_t promised = *committed;
        struct tally tally = read_all();
        assert_true(tally.last_tick >= promised);
        assert_int_equal(tally.ticks, tally.last_tick);
        assert_int_equal(tally.samples, tally.last_tick * 4);
        assert_int_equal(tally.processes, 4);
        is_whole();
        remove_files();
    }
    munmap((void *)committed, sizeof *committed);
}

/* --- full disk -------------------------------------------------------------------------------------------
 */

/* A file system of our own at `folder`, or the test is skipped: only root can. */
static void mount_small(const char *size)
{
    static bool apart;

    if (!apart && (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) != 0))
        skip();
    apart = true;
    if (mount("tmpfs", folder, "tmpfs", 0, size) != 0)
        skip();
}

static void a_full_disk_is_reported_once_and_recovered_from(void **state)
{
    (void)state;
    char filler[128];
    struct tide_writer *writer;
    struct tide_err err = {0};
    int64_t id, looks = 0;
    mount_small("size=3m");
    snprintf(filler, sizeof filler, "%s/filler", folder);
    FILE *out = fopen(filler, "w");
    for (int i = 0; i < 2600; i++)
        fprintf(out, "%1023d\n", i);
    fclose(out);

    if (tide_writer_new(path, &writer, &err) != 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < 4; i++)
        assert_int_equal(put_process(writer, 100 + i, &id, &err), 0);
    int result = 0;
    while (result == 0 && looks < 100000) {
        result = put_look(writer, ++looks * 1000000, &err);
        if (result == 0)
            result = tide_writer_commit(writer, &err);
    }
    assert_int_equal(result, -1);
    assert_non_null(strstr(err.text, "the disk is full"));
    assert_true(tide_writer_failed(writer));
    struct tally before = read_all();
    assert_true(before.ticks >= looks - 1);

    err.text[0] = '\0';
    for (int i = 0; i < 50; i++) { /* told once, then silent */
        assert_int_equal(put_look(writer, ++looks * 1000000, &err), 0);
        now_ns += TIDE_NS_PER_S;
        assert_int_equal(tide_writer_commit(writer, &err), 0);
    }
    assert_int_equal(put_process(writer, 999, &id, &err), 0);
    assert_int_equal(id, 5);
    assert_true(tide_writer_failed(writer));
    assert_string_equal(err.text, "");
    assert_int_equal(read_all().ticks, before.ticks);

    unlink(filler);
    now_ns += 5 * (int64_t)TIDE_NS_PER_S;
    assert_int_equal(tide_writer_commit(writer, &err), 0);
    now_ns += 11 * (int64_t)TIDE_NS_PER_S;
    assert_int_equal(tide_writer_commit(writer, &err), 0);
    assert_false(tide_writer_failed(writer));
    struct tally after = read_all();
    assert_int_equal(after.processes, 5);
    assert_int_equal(after.notes, 1);
    assert_int_equal(after.highest_step, looks * 1000000); /* where it is: what comes now belongs to that */
    assert_non_null(strstr(after.note, "nothing could be written between"));
    assert_int_equal(put_look(writer, ++looks * 1000000, &err), 0);
    assert_int_equal(tide_writer_free(writer, &err), 0);
    assert_int_equal(read_all().ticks, before.ticks + 1);
    assert_int_equal(read_all().samples,
                     before.samples + 4); /* all anew: what was rolled back is not "unchanged" */
    is_whole();
    umount2(folder, MNT_DETACH);
}

static void a_file_that_may_not_grow_is_like_a_full_disk(void **state)
{
    (void)state;
    struct rlimit old, small = {.rlim_cur = 200 * 1024};
    struct tide_writer *writer;
    struct tide_err err = {0};
    int64_t id, looks = 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(tide_writer_new(path, &writer, &err), 0);
    assert_int_equal(put_process(writer, 1, &id, &err), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int result = 0, failures = 0;
    while (!tide_writer_failed(writer) && looks < 100000) {
        result = put_look(writer, ++looks * 1000000, &err);
        failures += result != 0;
        if (result == 0)
            failures += tide_writer_commit(writer, &err) != 0;
    }
    assert_int_equal(failures, 1);
    assert_non_null(strstr(err.text, "cannot write to the recording"));
    int64_t ticks = read_all().ticks;
    assert_true(ticks > 100);
    /* Still no room at the end: that is said, and what was written stays. */
    small.rlim_cur = 512;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(tide_writer_free(writer, &err), -1);
    assert_non_null(strstr(err.text, "cannot write to the recording"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(read_all().ticks, ticks);
    is_whole();
}

/* More processes and stacks come than have room while nothing can be written. */
static void what_waits_takes_16_mib_at_most(void **state)
{
    (void)state;
    struct rlimit old, small = {.rlim_cur = 512};
    struct tide_writer *writer;
    struct tide_err err = {0};
    int64_t id, frames[100] = {0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(tide_writer_new(path, &writer, &err), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(put_look(writer, 1, &err), 0);
    assert_int_equal(tide_writer_commit(writer, &err), -1);
    size_t before = most_bytes = held_bytes;
    for (int i = 0; i < 200000; i++) {
        assert_int_equal(put_process(writer, i, &id, &err), 0);
        if (i % 100 == 0)
            assert_int_equal(tide_writer_stack(writer, frames, 100, &id, &err), 0);
    }
    if (!SANITIZED && !getenv("TIDEMARK_VALGRIND")) /* which has a malloc of its own */
        assert_in_range(most_bytes - before, 10 << 20, 16 << 20);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(tide_writer_free(writer, &err), 0);
    struct tally tally = read_all();
    assert_in_range(tally.processes, 20000, 199999);
    assert_non_null(strstr(tally.note, "some processes of that time are missing"));
    is_whole();
}

/* --- a directory that cannot be written ------------------------------------------------------------------
 */

static void kill_a_writer_after(int looks)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct tide_writer *writer;
        int64_t id;
        if (tide_writer_new(path, &writer, NULL) != 0)
            _exit(1);
        for (int i = 0; i < 4; i++)
            put_process(writer, i, &id, NULL);
        for (int i = 1; i <= looks; i++)
            put_look(writer, i, NULL);
        tide_writer_commit(writer, NULL);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_recording_opens_where_nothing_can_be_written(void **state)
{
    (void)state;
    char name[128];
    struct tide_writer *writer;
    struct tide_reader *reader;
    struct tide_err err = {0};
    mount_small("size=4m");
    assert_int_equal(tide_writer_new(path, &writer, &err), 0);
    assert_int_equal(put_look(writer, 1, &err), 0);
    assert_int_equal(tide_writer_free(writer, &err), 0);
    assert_int_equal(mount("tmpfs", folder, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(read_all().ticks, 1); /* ended well: no log, opened as it is */

    assert_int_equal(mount("tmpfs", folder, "tmpfs", MS_REMOUNT, NULL), 0);
    remove_files();
    kill_a_writer_after(10);
    assert_true(exists("-wal") && exists("-shm"));
    assert_int_equal(mount("tmpfs", folder, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(read_all().ticks, 10); /* killed, with both files beside it */

    assert_int_equal(mount("tmpfs", folder, "tmpfs", MS_REMOUNT, NULL), 0);
    snprintf(name, sizeof name, "%s-shm", path);
    unlink(name);
    assert_int_equal(mount("tmpfs", folder, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
    if (tide_reader_new(path, &reader, &err) == 0) {
        /* Never the state without the log: that would be an old one. */
        struct tally tally = {0};
        assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_tick, &tally, &err), 0);
        assert_int_equal(tally.ticks, 10);
        tide_reader_free(reader);
    } else {
        assert_non_null(strstr(err.text, "its directory cannot be written"));
        assert_non_null(strstr(err.hint, "-wal"));
    }
    umount2(folder, MNT_DETACH);
}

static void a_reader_at_the_end_costs_no_second_file(void **state)
{
    (void)state;
    struct tide_writer *writer;
    struct tide_reader *reader;
    struct tide_err err = {0};
    remove_files();
    assert_int_equal(tide_writer_new(path, &writer, &err), 0);
    assert_int_equal(put_look(writer, 1, &err), 0);
    assert_int_equal(tide_writer_commit(writer, &err), 0);
    assert_int_equal(tide_reader_new(path, &reader, &err), 0);
    struct tally tally = {0};
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_tick, &tally, &err), 0);
    assert_int_equal(tide_writer_free(writer, &err), 0);
    tide_reader_free(reader);
    assert_true(exists("-wal"));
    tide_writer_fold(path);
    assert_false(exists("-wal") || exists("-shm"));
    assert_int_equal(read_all().ticks, 1);
    tide_writer_fold(path); /* of one that ended well */
    assert_int_equal(read_all().ticks, 1);
    remove_files();
    tide_writer_fold(path); /* of none, of which it makes none */
    assert_false(exists(""));
}

/* --- damaged files ---------------------------------------------------------------------------------------
 */

static unsigned char *original;
static size_t original_size;

static void make_original(void)
{
    struct tide_writer *writer;
    int64_t id;

    assert_int_equal(tide_writer_new(path, &writer, NULL), 0);
    tide_writer_meta_text(writer, TIDE_META_COMMAND, "python train.py", NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(put_process(writer, i, &id, NULL), 0);
    for (int i = 1; i <= 300; i++)
        assert_int_equal(put_look(writer, i * 1000, NULL), 0);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    FILE *in = fopen(path, "rb");
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    original_size = (size_t)ftell(in);
    rewind(in);
    original = test_malloc(original_size);
    assert_int_equal(fread(original, 1, original_size, in), original_size);
    fclose(in);
}

static void put_file(const unsigned char *bytes, size_t size)
{
    remove_files();
    FILE *out = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
}

/* Reads everything there is: it succeeds, or says why not. */
static bool reads_or_explains(void)
{
    struct tide_reader *reader = NULL;
    struct tide_history *history = NULL;
    struct tide_err err = {0};
    int result = tide_reader_new(path, &reader, &err);

    if (result == 0)
        result = tide_history_new(64 << 20, &history, &err);
    if (result == 0)
        result = tide_history_load(history, reader, &err);
    if (result != 0)
        assert_true(strlen(err.text) > 20);
    tide_history_free(history);
    tide_reader_free(reader);
    return result == 0;
}

static void a_truncated_file_gets_a_sentence(void **state)
{
    (void)state;
    int whole = 0;
    make_original();
    for (size_t size = 0; size < original_size; size += size < 600 ? 7 : 509) {
        put_file(original, size);
        whole += reads_or_explains();
    }
    assert_int_equal(whole, 0);
    put_file(original, original_size);
    assert_true(reads_or_explains());
    test_free(original);
}

static void flipped_bytes_never_crash_the_reader(void **state)
{
    (void)state;
    make_original();
    unsigned char *copy = test_malloc(original_size);
    int whole = 0, rounds = (is_long() ? 1500 : 700) / STRIDE;
    srandom(11);
    for (int round = 0; round < rounds; round++) {
        memcpy(copy, original, original_size);
        for (int flips = 1 + (int)(random() % 8); flips > 0; flips--) {
            /* half of them where the structure is: page headers */
            size_t at = (size_t)random() % original_size;
            if (random() % 2)
                at = at / 4096 * 4096 + (size_t)random() % 120;
            if (at < original_size)
                copy[at] = (unsigned char)random();
        }
        put_file(copy, original_size);
        whole += reads_or_explains();
    }
    assert_true(whole > 0 && whole < rounds);
    test_free(copy);
    test_free(original);
}

static void a_damaged_log_costs_what_is_in_it_and_no_more(void **state)
{
    (void)state;
    char name[128];
    srandom(13);
    for (int round = 0; round < 50 / STRIDE; round++) {
        kill_a_writer_after(50);
        snprintf(name, sizeof name, "%s-wal", path);
        struct stat status;
        assert_int_equal(stat(name, &status), 0);
        int fd = open(name, O_RDWR);
        unsigned char noise = (unsigned char)random();
        if (round % 2)
            assert_int_equal(ftruncate(fd, random() % (status.st_size + 1)), 0);
        else
            assert_int_equal(pwrite(fd, &noise, 1, random() % status.st_size), 1);
        close(fd);
        snprintf(name, sizeof name, "%s-shm", path);
        unlink(name);
        assert_true(reads_or_explains());
        remove_files();
    }
}

/* --- memory that runs out --------------------------------------------------------------------------------
 */

/* Writes a little and reads it. Returns how many of the calls failed; each that did said why. */
static int write_and_read(void)
{
    struct tide_writer *writer = NULL;
    struct tide_reader *reader = NULL;
    struct tide_history *history = NULL;
    struct tide_err err = {0};
    int64_t id;
    int failures = 0;

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        err.text[0] = '\0';                                                                                  \
        if ((call) != 0) {                                                                                   \
            failures++;                                                                                      \
            if (!err.text[0])                                                                                \
                failures += 1000;                                                                            \
        }                                                                                                    \
    } while (0)

    TRY(tide_writer_new(path, &writer, &err));
    if (writer) {
        TRY(tide_writer_meta_text(writer, TIDE_META_COMMAND, "train", &err));
        for (int i = 0; i < 4; i++)
            TRY(put_process(writer, i, &id, &err));
        for (int i = 1; i <= 20; i++)
            TRY(put_look(writer, i, &err));
        TRY(tide_writer_commit(writer, &err));
        TRY(put_look(writer, 21, &err));
        TRY(tide_writer_free(writer, &err));
    }
    if (exists("")) {
        TRY(tide_reader_new(path, &reader, &err));
        TRY(tide_history_new(0, &history, &err));
        if (reader && history)
            TRY(tide_history_load(history, reader, &err));
        tide_history_free(history);
        tide_reader_free(reader);
    }
    return failures;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    if (getenv("TIDEMARK_VALGRIND")) /* which has a malloc of its own, that does not fail */
        skip();
    /* Each of the first, and one in twenty-three of the others; in a long run each. */
    bool every = is_long();
    assert_int_equal(write_and_read(), 0); /* what SQLite keeps for ever, it has now */
    for (int mode = 0; mode < 2; mode++) {
        long n = 0, tried = 0;
        for (bool reached = true; reached;
             n += n < 200 || (every && mode == 0) ? STRIDE : STRIDE * 23, tried++) {
            remove_files();
            long before = balance;
            and_all_after = mode == 1;
            failed_one = false;
            countdown = n;
            int failures = write_and_read();
            countdown = -1;
            reached = failed_one;
            if (failures >= 1000)
                fail_msg("allocation %ld failed and a call did not say so", n);
            if (!reached)
                assert_int_equal(failures, 0);
            if (mode == 1 && reached && n < 10)
                assert_true(failures > 0);
            if (balance != before)
                fail_msg("after the failure of allocation %ld, %ld blocks are lost", n, balance - before);
        }
        print_message("%ld allocations failed, each in its turn%s\n", tried - 1,
                      mode ? ", with all after it" : "");
        assert_true(tried > 40);
    }
}

static int begin(void **state)
{
    (void)state;
#if SANITIZED
    sqlite3_mem_methods failing;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) != SQLITE_OK)
        return -1;
    failing = real_memory;
    failing.xMalloc = sqlite_malloc;
    failing.xRealloc = sqlite_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) != SQLITE_OK)
        return -1;
#endif
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_killed_writer_leaves_everything_up_to_its_last_commit),
        TEST(a_file_that_may_not_grow_is_like_a_full_disk),
        TEST(what_waits_takes_16_mib_at_most),
        TEST(a_truncated_file_gets_a_sentence),
        TEST(flipped_bytes_never_crash_the_reader),
        TEST(a_damaged_log_costs_what_is_in_it_and_no_more),
        TEST(any_allocation_may_fail),
        TEST(a_full_disk_is_reported_once_and_recovered_from),
        TEST(a_recording_opens_where_nothing_can_be_written),
        TEST(a_reader_at_the_end_costs_no_second_file),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
