/*
 * test_record.c - the recording: what any version has written is read back, also while it grows.
 */
#include "record/schema.h"

#include "recorded_rows.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    struct tide_err err = {0};
    assert_int_equal(tide_writer_meta_text(writer, TIDE_META_COMMAND, "python train.py", &err), 0);
    assert_int_equal(tide_writer_meta_integer(writer, TIDE_META_STARTED, 1700000000, &err), 0);
    int64_t process = put_process(writer, "python");
    assert_int_equal(process, 1);
    int64_t tick = put_tick(writer, 250);
    assert_int_equal(tick, 1);
    put_sample(writer, tick, process, 4096);
    struct tide_smaps smaps = {.tick = tick,
                               .process = process,
                               .pss_bytes = 7,
                               .uss_bytes = 6,
                               .cost_ns = 12,
                               .pss_shmem_bytes = 5,
                               .unreserved_bytes = 4};
    assert_int_equal(tide_writer_smaps(writer, &smaps, &err), 0);
    struct tide_mark mark = {300, process, TIDE_MARK_GAUGE, TIDE_SOURCE_PROGRAM, -1, "replay buffer"};
    assert_int_equal(tide_writer_mark(writer, &mark, &err), 0);
    struct tide_gpu_sample gpu = {.tick = tick, .device = 0, .process = TIDE_UNKNOWN, .bytes = 10};
    assert_int_equal(tide_writer_gpu(writer, &gpu, &err), 0);
    gpu.bytes = 5;
    assert_int_equal(tide_writer_gpu(writer, &gpu, &err), 0);
    struct tide_gpu_device device = {0, "H200", "GPU-1", (int64_t)141 << 30};
    assert_int_equal(tide_writer_gpu_device(writer, &device, &err), 0);
    struct tide_limit limit = {0, "--limit", TIDE_UNKNOWN};
    assert_int_equal(tide_writer_limit(writer, &limit, &err), 0);
    struct tide_note note = {400, "412 marks lost", 3};
    assert_int_equal(tide_writer_note(writer, &note, &err), 0);
    assert_int_equal(tide_writer_free(writer, &err), 0);

    struct tide_reader *reader = new_reader();
    memset(&seen, 0, sizeof seen);
    assert_string_equal(tide_reader_meta(reader, TIDE_META_COMMAND).text, "python train.py");
    assert_int_equal(tide_reader_meta(reader, TIDE_META_STARTED).number, 1700000000);
    assert_null(tide_reader_meta(reader, TIDE_META_HOST).text);
    assert_int_equal(tide_reader_meta(reader, TIDE_META_ENDED).number, TIDE_UNKNOWN);
    assert_int_equal(tide_reader_begin(reader, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_process, &seen, &err),
                     0);
    assert_int_equal(seen.process.pid, 77);
    assert_int_equal(seen.process.ended_ns, TIDE_UNKNOWN);
    assert_string_equal(seen.command, "python train.py");
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_tick, &seen, &err), 0);
    assert_int_equal(seen.tick.rss_bytes, 350);
    assert_int_equal(seen.tick.cgroup_bytes, TIDE_UNKNOWN);
    assert_int_equal(seen.tick.available_bytes, 1 << 30);
    assert_int_equal(seen.tick.share_ppm, 250000);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, on_sample, &seen, &err), 0);
    assert_int_equal(seen.sample.anon_bytes, 4096);
    assert_int_equal(seen.sample.asked_bytes, 2 * 4096);
    assert_int_equal(seen.sample.mapped_bytes, 3 * 4096);
    assert_int_equal(seen.sample.threads, 2);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SMAPS, 0, on_smaps, &seen, &err), 0);
    assert_int_equal(seen.smaps.uss_bytes, 6);
    assert_int_equal(seen.smaps.pss_shmem_bytes, 5);
    assert_int_equal(seen.smaps.unreserved_bytes, 4);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_MARK, 0, on_mark, &seen, &err), 0);
    assert_int_equal(tide_reader_last(reader), 1);
    assert_int_equal(seen.mark.kind, TIDE_MARK_GAUGE);
    assert_int_equal(seen.mark.number, -1);
    assert_string_equal(seen.text, "replay buffer");
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_GPU, 0, on_gpu, &seen, &err), 0);
    assert_int_equal(seen.gpus, 1);
    assert_int_equal(seen.gpu.bytes, 15);
    assert_int_equal(seen.gpu.process, TIDE_UNKNOWN);
    assert_int_equal(
        tide_reader_each(reader, TIDE_SCHEMA_GPU_DEVICE, TIDE_READER_ALL, on_device, &seen, &err), 0);
    assert_string_equal(seen.text, "H200 GPU-1");
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_LIMIT, TIDE_READER_ALL, on_limit, &seen, &err), 0);
    assert_int_equal(seen.limit.bytes, TIDE_UNKNOWN);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_NOTE, TIDE_READER_ALL, on_note, &seen, &err), 0);
    assert_string_equal(seen.text, "412 marks lost");
    assert_int_equal(seen.note.kills, 3);
    tide_reader_end(reader);
    assert_int_equal(tide_reader_skipped(reader), 0);
    tide_reader_free(reader);
}

static void a_clean_end_leaves_one_file(void **state)
{
    (void)state;
    char name[96];
    make_recording();
    assert_int_equal(access(path, F_OK), 0);
    snprintf(name, sizeof name, "%s-wal", path);
    assert_int_equal(access(name, F_OK), -1);
    snprintf(name, sizeof name, "%s-shm", path);
    assert_int_equal(access(name, F_OK), -1);
    struct tide_err err;
    assert_int_equal(tide_reader_is_recording(path, &err), 1);
}

static void a_recording_is_never_overwritten(void **state)
{
    (void)state;
    struct tide_writer *writer = NULL;
    struct tide_err err;
    make_recording();
    assert_int_equal(tide_writer_new(path, &writer, &err), -1);
    assert_non_null(strstr(err.text, "it exists"));
    assert_non_null(strstr(err.hint, "-o"));
    assert_int_equal(tide_writer_new("/nonexistent/a.tide", &writer, &err), -1);
    assert_non_null(strstr(err.text, "No such file or directory"));
    assert_null(writer);
    tide_reader_free(new_reader());
}

static void a_sample_that_says_nothing_new_is_not_written(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    int64_t one = put_process(writer, "a"), two = put_process(writer, "b");
    for (int i = 0; i < 10; i++) {
        int64_t tick = put_tick(writer, i);
        put_sample(writer, tick, one, 4096);
        put_sample(writer, tick, two, i < 5 ? 1 : 2);
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, on_sample, &seen, NULL), 0);
    assert_int_equal(seen.samples, 3);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 5, on_sample, &seen, NULL), 0);
    assert_int_equal(seen.samples, 4);
    assert_int_equal(seen.sample.tick, 6);
    tide_reader_free(reader);
}

static void names_keep_their_bytes_and_text_stays_utf8(void **state)
{
    (void)state;
    static char longest[100000];
    memset(longest, 'x', sizeof longest - 1);
    memcpy(longest + TIDE_READER_TEXT - 1, "\xc3\xa4", 2); /* the cut would fall into it */
    struct tide_writer *writer = new_writer();
    struct tide_process process = {
        .pid = 1, .name = "\xff\x1b[2J", .command = longest, .role = "caf\xc3\xa9"};
    int64_t id;
    assert_int_equal(tide_writer_process(writer, &process, &id, NULL), 0);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_process, &seen, NULL),
                     0);
    assert_string_equal(seen.name, "\xff\x1b[2J");
    assert_string_equal(seen.role, "caf\xc3\xa9");
    assert_int_equal(strlen(seen.command), TIDE_READER_TEXT - 1);
    assert_int_equal(tide_reader_skipped(reader), 0);
    tide_reader_free(reader);
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT typeof(name), typeof(command), typeof(role) FROM process",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "blob");
    assert_string_equal((const char *)sqlite3_column_text(statement, 1), "text");
    assert_string_equal((const char *)sqlite3_column_text(statement, 2), "text");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void a_reader_sees_a_growing_recording_and_never_blocks_it(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    struct tide_err err = {0};
    put_tick(writer, 1);
    assert_int_equal(tide_writer_commit(writer, &err), 0);
    struct tide_reader *reader = new_reader();
    assert_int_equal(tide_reader_begin(reader, &err), 0);
    for (int i = 2; i <= 2000; i++) { /* long enough for many checkpoints, all while the reader holds on */
        put_sample(writer, put_tick(writer, i), 1, i);
        if (i % 10 == 0)
            assert_int_equal(tide_writer_commit(writer, &err), 0);
    }
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_tick, &seen, &err), 0);
    assert_int_equal(seen.ticks, 1); /* the state it began with */
    tide_reader_end(reader);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 1, on_tick, &seen, &err), 0);
    assert_int_equal(seen.ticks, 2000);
    assert_int_equal(tide_writer_free(writer, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 1999, on_tick, &seen, &err), 0);
    assert_int_equal(seen.ticks, 2001);
    tide_reader_free(reader);
}

/* Closing any descriptor of a file drops the process's own locks on it, as fcntl(2) has it. */
static void reading_a_recording_where_it_is_written_keeps_the_writers_locks(void **state)
{
    (void)state;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct tide_err err = {0};
    struct tide_writer *writer = new_writer();
    char log[96];
    int fd = open(path, O_RDWR | O_CLOEXEC); /* stays open until the end, therefore */
    assert_true(fd >= 0);
    assert_int_equal(tide_writer_commit(writer, &err), 0);
    for (int with_log = 1; with_log >= 0; with_log--) {
        tide_reader_free(new_reader());
        struct flock found = lock;
        assert_int_equal(fcntl(fd, F_OFD_GETLK, &found), 0);
        assert_int_equal(found.l_type, F_RDLCK);
        snprintf(log, sizeof log, "%s-wal", path);
        unlink(log); /* as somebody might who tidies up */
    }
    tide_writer_free(writer, NULL);
    close(fd);
}

static void a_copy_in_another_mode_may_change_under_a_reader(void **state)
{
    (void)state;
    make_recording();
    run_sql("PRAGMA journal_mode = DELETE");
    struct tide_reader *reader = new_reader();
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_tick, &seen, NULL), 0);
    assert_int_equal(seen.ticks, 100);
    run_sql("INSERT INTO tick(id, t_ns) SELECT id + 1000, t_ns FROM tick");
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 100, on_tick, &seen, NULL), 0);
    assert_int_equal(seen.ticks, 200);
    tide_reader_free(reader);
}

static int stop_at_third(void *context, const void *given)
{
    const struct tide_tick *row = given;
    (void)context;
    return row->id == 3 ? 42 : 0;
}

static void a_callback_can_stop_an_iteration(void **state)
{
    (void)state;
    make_recording();
    struct tide_reader *reader = new_reader();
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, stop_at_third, NULL, NULL), 42);
    tide_reader_free(reader);
}

struct heap_seen {
    struct tide_frame frame;
    char function[100], file[100], module[100], state[100];
    struct tide_stack_row stack[8];
    struct tide_site site;
    struct tide_site_sample sample;
    struct tide_heap_status status;
    struct tide_heap_sample heap;
    int frames, stacks, sites, samples, statuses, heaps;
};

static int on_frame(void *context, const void *given)
{
    const struct tide_frame *row = given;
    struct heap_seen *s = context;
    s->frame = *row;
    snprintf(s->function, sizeof s->function, "%s", row->function);
    snprintf(s->file, sizeof s->file, "%s", row->file);
    snprintf(s->module, sizeof s->module, "%s", row->module);
    s->frames++;
    return 0;
}

static int on_stack(void *context, const void *given)
{
    const struct tide_stack_row *row = given;
    struct heap_seen *s = context;
    s->stack[s->stacks++ % 8] = *row;
    return 0;
}

static int on_site(void *context, const void *given)
{
    const struct tide_site *row = given;
    struct heap_seen *s = context;
    s->site = *row;
    s->sites++;
    return 0;
}

static int on_site_sample(void *context, const void *given)
{
    const struct tide_site_sample *row = given;
    struct heap_seen *s = context;
    s->sample = *row;
    s->samples++;
    return 0;
}

static int on_heap_status(void *context, const void *given)
{
    const struct tide_heap_status *row = given;
    struct heap_seen *s = context;
    s->status = *row;
    snprintf(s->state, sizeof s->state, "%s", row->state);
    s->statuses++;
    return 0;
}

static int on_heap_sample(void *context, const void *given)
{
    const struct tide_heap_sample *row = given;
    struct heap_seen *s = context;
    s->heap = *row;
    s->heaps++;
    return 0;
}

static void read_heap(struct heap_seen *heap)
{
    struct tide_reader *reader = new_reader();
    struct tide_err err = {0};
    memset(heap, 0, sizeof *heap);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_FRAME, 0, on_frame, heap, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_STACK, 0, on_stack, heap, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SITE, 0, on_site, heap, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SITE_SAMPLE, 0, on_site_sample, heap, &err), 0);
    assert_int_equal(
        tide_reader_each(reader, TIDE_SCHEMA_HEAP_STATE, TIDE_READER_ALL, on_heap_status, heap, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_HEAP_SAMPLE, 0, on_heap_sample, heap, &err), 0);
    tide_reader_free(reader);
}

static void make_heap_recording(void)
{
    struct tide_writer *writer = new_writer();
    struct tide_err err = {0};
    int64_t process = put_process(writer, "python"), tick = put_tick(writer, 250), ids[2], stack, site;
    struct tide_frame frames[] = {{.function = "grow",
                                   .file = "/src/leak.c",
                                   .line = 12,
                                   .module = "/bin/leak",
                                   .offset = 0x1234,
                                   .inlined = true},
                                  {.function = "step",
                                   .file = "train.py",
                                   .line = TIDE_UNKNOWN,
                                   .module = "",
                                   .offset = TIDE_UNKNOWN,
                                   .python = true}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(tide_writer_frame(writer, &frames[i], &ids[i], &err), 0);
    assert_int_equal(tide_writer_stack(writer, ids, 2, &stack, &err), 0);
    struct tide_site row = {.process = process, .kind = TIDE_SITE_MMAP, .stack = stack};
    assert_int_equal(tide_writer_site(writer, &row, &site, &err), 0);
    struct tide_site_sample sample = {tick, site, 4096, 1, 8192, 2};
    assert_int_equal(tide_writer_site_sample(writer, &sample, &err), 0);
    struct tide_heap_status status = {.process = process,
                                      .t_ns = 7,
                                      .state = "on",
                                      .interval_bytes = 524288,
                                      .sampled = 9,
                                      .unwind_ns = TIDE_UNKNOWN};
    assert_int_equal(tide_writer_heap_status(writer, &status, &err), 0);
    struct tide_heap_sample heap = {tick, process, 4096, 1, 1 << 20, 0, 1000, 3, TIDE_UNKNOWN};
    assert_int_equal(tide_writer_heap_sample(writer, &heap, &err), 0);
    assert_int_equal(tide_writer_free(writer, &err), 0);
}

static void what_the_hook_saw_is_read_back(void **state)
{
    (void)state;
    struct heap_seen heap;
    make_heap_recording();
    read_heap(&heap);
    assert_int_equal(heap.frames, 2);
    assert_string_equal(heap.function, "step");
    assert_string_equal(heap.file, "train.py");
    assert_string_equal(heap.module, "");
    assert_int_equal(heap.frame.line, TIDE_UNKNOWN);
    assert_int_equal(heap.frame.offset, TIDE_UNKNOWN);
    assert_true(heap.frame.python && !heap.frame.inlined);
    assert_int_equal(heap.stacks, 2);
    assert_int_equal(heap.stack[0].depth, 0);
    assert_int_equal(heap.stack[0].frame, 1);
    assert_int_equal(heap.stack[1].frame, 2);
    assert_int_equal(heap.sites, 1);
    assert_int_equal(heap.site.kind, TIDE_SITE_MMAP);
    assert_int_equal(heap.site.stack, 1);
    assert_int_equal(heap.samples, 1);
    assert_int_equal(heap.sample.live_bytes, 4096);
    assert_int_equal(heap.sample.total_blocks, 2);
    assert_int_equal(heap.statuses, 1);
    assert_string_equal(heap.state, "on");
    assert_int_equal(heap.status.sampled, 9);
    assert_int_equal(heap.status.unwind_ns, TIDE_UNKNOWN);
    assert_int_equal(heap.heaps, 1);
    assert_int_equal(heap.heap.live_bytes, 4096);
    assert_int_equal(heap.heap.free_blocks, 3);
    assert_int_equal(heap.heap.top_bytes, TIDE_UNKNOWN);
}

static void sites_out_of_range_are_skipped_and_counted(void **state)
{
    (void)state;
    struct heap_seen heap;
    make_heap_recording();
    run_sql("INSERT INTO site VALUES (2, 1, 99, 1), (3, -1, 1, 1), (4, 1, 1, -1), (5, 'x', 1, 1);"
            "INSERT INTO site_sample VALUES (1, 7, -5, 1, 1, 1), (1, 8, NULL, 1, 1, 1), (1, 9, 1, 'x', 1, 1);"
            "INSERT INTO stack VALUES (2, -1, 1), (2, 0, 0), (2, 1, NULL);"
            "INSERT INTO frame VALUES (3, 'f', '', 'x', '', 1, 0, 0, ''), (4, 'f', '', -3, '', 1, 0, 0, '');"
            "INSERT INTO heap_state(process, t_ns, state) VALUES (1, -1, 'on'), (NULL, 1, 'on');"
            "INSERT INTO heap_sample VALUES (1, 0, 1, 1, 1, 1, 1, 1, 1), (1, 9, -1, 1, 1, 1, 1, 1, 1),"
            " (1, 8, 1, 1, 'x', 1, 1, 1, 1);");
    struct tide_reader *reader = new_reader();
    struct tide_err err = {0};
    memset(&heap, 0, sizeof heap);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_FRAME, 0, on_frame, &heap, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_STACK, 0, on_stack, &heap, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SITE, 0, on_site, &heap, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SITE_SAMPLE, 0, on_site_sample, &heap, &err), 0);
    assert_int_equal(
        tide_reader_each(reader, TIDE_SCHEMA_HEAP_STATE, TIDE_READER_ALL, on_heap_status, &heap, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_HEAP_SAMPLE, 0, on_heap_sample, &heap, &err), 0);
    assert_int_equal(heap.frames + heap.stacks + heap.sites + heap.samples + heap.statuses + heap.heaps,
                     2 + 2 + 1 + 1 + 1 + 1);
    assert_int_equal(tide_reader_skipped(reader), 2 + 3 + 4 + 3 + 2 + 3);
    tide_reader_free(reader);
}

static void a_recording_of_version_2_is_read_as_one_without_heap_samples(void **state)
{
    (void)state;
    struct heap_seen heap;
    make_heap_recording();
    run_sql(
        "DROP TABLE heap_sample; DROP VIEW samples; ALTER TABLE sample DROP COLUMN mapped_bytes;"
        "ALTER TABLE sample DROP COLUMN asked_bytes; ALTER TABLE tick DROP COLUMN share_ppm;"
        "ALTER TABLE smaps DROP COLUMN pss_shmem_bytes; ALTER TABLE smaps DROP COLUMN unreserved_bytes; ALTER TABLE note DROP COLUMN kills; PRAGMA user_version = 2");
    read_heap(&heap);
    assert_int_equal(heap.samples, 1);
    assert_int_equal(heap.heaps, 0);
}

static void a_recording_of_version_1_is_read_as_one_without_a_heap(void **state)
{
    (void)state;
    static char sql[1 << 17];
    struct heap_seen heap;
    struct tide_err err = {0};
    FILE *in = fopen("tests/fixtures/version-1.sql", "r");
    if (!in)
        skip(); /* not run from the top of the tree */
    sql[fread(sql, 1, sizeof sql - 1, in)] = '\0';
    fclose(in);
    run_sql(sql);
    read_heap(&heap);
    assert_int_equal(heap.frames + heap.stacks + heap.sites + heap.samples + heap.statuses, 0);
    struct tide_reader *reader = new_reader();
    memset(&seen, 0, sizeof seen);
    assert_string_equal(tide_reader_meta(reader, TIDE_META_TOOL).text, "tidemark 0.1.0");
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_process, &seen, &err),
                     0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_tick, &seen, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, on_sample, &seen, &err), 0);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_MARK, 0, on_mark, &seen, &err), 0);
    assert_string_equal(seen.name, "linear");
    assert_int_equal(seen.ticks, 152);
    assert_true(seen.samples > 100);
    assert_int_equal(seen.marks, 400);
    assert_int_equal(tide_reader_skipped(reader), 0);
    tide_reader_free(reader);
}

static void a_recording_of_version_3_has_no_ranks_and_no_lines_of_source(void **state)
{
    (void)state;
    struct heap_seen heap;
    struct tide_err err = {0};
    make_heap_recording();
    run_sql(
        "ALTER TABLE process DROP COLUMN rank; ALTER TABLE frame DROP COLUMN source; DROP VIEW samples;"
        "ALTER TABLE sample DROP COLUMN mapped_bytes; ALTER TABLE sample DROP COLUMN asked_bytes;"
        "ALTER TABLE tick DROP COLUMN share_ppm; ALTER TABLE smaps DROP COLUMN pss_shmem_bytes; ALTER TABLE smaps DROP COLUMN unreserved_bytes; ALTER TABLE note DROP COLUMN kills;"
        "PRAGMA user_version = 3");
    read_heap(&heap);
    assert_int_equal(heap.frames, 2);
    assert_string_equal(heap.function, "step");
    assert_true(heap.frame.python);
    assert_int_equal(heap.heaps, 1);
    struct tide_reader *reader = new_reader();
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_process, &seen, &err),
                     0);
    assert_int_equal(seen.processes, 1);
    assert_int_equal(seen.process.rank, TIDE_UNKNOWN);
    tide_reader_free(reader);
}

static void a_recording_of_version_6_has_no_shares_of_shared_memory(void **state)
{
    (void)state;
    struct tide_err err = {0};
    make_recording();
    run_sql(
        "ALTER TABLE smaps DROP COLUMN pss_shmem_bytes; ALTER TABLE smaps DROP COLUMN unreserved_bytes; ALTER TABLE note DROP COLUMN kills; PRAGMA user_version = 6;"
        "INSERT INTO smaps VALUES(1, 1, 7, 6, 0, 12)");
    struct tide_reader *reader = new_reader();
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SMAPS, 0, on_smaps, &seen, &err), 0);
    assert_int_equal(seen.smapses, 1);
    assert_int_equal(seen.smaps.pss_bytes, 7);
    assert_int_equal(seen.smaps.pss_shmem_bytes, TIDE_UNKNOWN);
    assert_int_equal(seen.smaps.unreserved_bytes, TIDE_UNKNOWN);
    tide_reader_free(reader);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, name_recording, drop_recording)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read_back),
        TEST(a_clean_end_leaves_one_file),
        TEST(a_recording_is_never_overwritten),
        TEST(a_sample_that_says_nothing_new_is_not_written),
        TEST(names_keep_their_bytes_and_text_stays_utf8),
        TEST(a_reader_sees_a_growing_recording_and_never_blocks_it),
        TEST(reading_a_recording_where_it_is_written_keeps_the_writers_locks),
        TEST(a_copy_in_another_mode_may_change_under_a_reader),
        TEST(a_callback_can_stop_an_iteration),
        TEST(what_the_hook_saw_is_read_back),
        TEST(sites_out_of_range_are_skipped_and_counted),
        TEST(a_recording_of_version_2_is_read_as_one_without_heap_samples),
        TEST(a_recording_of_version_1_is_read_as_one_without_a_heap),
        TEST(a_recording_of_version_3_has_no_ranks_and_no_lines_of_source),
        TEST(a_recording_of_version_6_has_no_shares_of_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
