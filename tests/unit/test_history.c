/*
 * test_history.c - a recording in memory: complete, incremental, and bounded.
 */
#include "assess/downsample.h"
#include "assess/history.h"
#include "base/units.h"
#include "record/schema.h"

#include "recording_fixture.h"
#include "sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static struct tide_history *new_history(size_t max_bytes)
{
    struct tide_history *history;

    assert_int_equal(tide_history_new(max_bytes, &history, NULL), 0);
    return history;
}

static void load(struct tide_history *history, struct tide_reader *reader)
{
    struct tide_err err = {0};

    if (tide_history_load(history, reader, &err) != 0)
        fail_msg("%s", err.text);
}

static int64_t put_process(struct tide_writer *writer, int64_t pid, int64_t parent)
{
    struct tide_process process = {.pid = pid,
                                   .parent = parent,
                                   .start_ticks = pid,
                                   .name = "worker",
                                   .command = "worker --now",
                                   .role = "worker",
                                   .began_ns = 0,
                                   .ended_ns = TIDE_UNKNOWN,
                                   .peak_rss_bytes = 1,
                                   .rank = TIDE_UNKNOWN};
    int64_t id;

    assert_int_equal(tide_writer_process(writer, &process, &id, NULL), 0);
    return id;
}

static int64_t put_tick(struct tide_writer *writer, int64_t t_ns)
{
    struct tide_tick tick = {.t_ns = t_ns, .processes = 1, .rss_bytes = 5, .counted_bytes = t_ns % 1000};
    int64_t id;

    assert_int_equal(tide_writer_tick(writer, &tick, &id, NULL), 0);
    return id;
}

static void put_sample(struct tide_writer *writer, int64_t tick, int64_t process, int64_t anon)
{
    struct tide_sample sample = {
        .tick = tick, .process = process, .anon_bytes = anon, .file_bytes = 7, .threads = 3};

    assert_int_equal(tide_writer_sample(writer, &sample, NULL), 0);
}

static void put_mark(struct tide_writer *writer, int64_t t_ns, enum tide_mark_kind kind, int64_t number,
                     const char *name)
{
    struct tide_mark mark = {t_ns, 1, kind, TIDE_SOURCE_PROGRAM, number, name};

    assert_int_equal(tide_writer_mark(writer, &mark, NULL), 0);
}

static void points_are_spelled_out(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    tide_writer_meta_text(writer, TIDE_META_COMMAND, "train", NULL);
    tide_writer_meta_integer(writer, TIDE_META_ITEMS, 663, NULL);
    int64_t process = put_process(writer, 10, 0);
    struct tide_sample sample = {.tick = put_tick(writer, 100),
                                 .process = process,
                                 .anon_bytes = 1,
                                 .file_bytes = 20,
                                 .shmem_bytes = 300,
                                 .swap_bytes = 4000,
                                 .huge_bytes = 50000,
                                 .threads = 9};
    assert_int_equal(tide_writer_sample(writer, &sample, NULL), 0);
    sample.tick = put_tick(writer, 200);
    assert_int_equal(tide_writer_sample(writer, &sample, NULL), 0); /* unchanged: no point */
    struct tide_smaps smaps = {
        .tick = sample.tick, .process = process, .pss_bytes = 15, .uss_bytes = 12, .pss_shmem_bytes = 300};
    assert_int_equal(tide_writer_smaps(writer, &smaps, NULL), 0);
    sample.tick = put_tick(writer, 300);
    sample.swap_bytes = TIDE_UNKNOWN;
    assert_int_equal(tide_writer_sample(writer, &sample, NULL), 0);
    assert_int_equal(tide_writer_free(writer, NULL), 0);

    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(0);
    load(history, reader);
    assert_int_equal(history->process_count, 1);
    assert_int_equal(history->tick_count, 3);
    assert_int_equal(history->processes[0].row.pid, 10);
    assert_string_equal(history->processes[0].row.command, "worker --now");
    assert_int_equal(history->processes[0].point_count, 2);
    const struct tide_history_point *point = history->processes[0].points;
    assert_int_equal(point->t_ns, 100);
    assert_int_equal(point->rss_bytes, 321);
    assert_int_equal(point->private_bytes, 54301);
    assert_int_equal(point->swap_bytes, 4000);
    assert_int_equal(point->threads, 9);
    assert_int_equal(point[1].t_ns, 300);
    assert_int_equal(point[1].private_bytes, 50301);
    assert_int_equal(history->processes[0].smaps_count, 1);
    assert_int_equal(history->processes[0].smaps[0].t_ns, 200);
    assert_int_equal(history->processes[0].smaps[0].uss_bytes, 12);
    assert_int_equal(history->processes[0].smaps[0].pss_shmem_bytes, 300);
    assert_string_equal(history->command, "train");
    assert_int_equal(history->items, 663);
    assert_int_equal(history->ended_ns, TIDE_UNKNOWN);
    assert_int_equal(history->thinned, 1);
    assert_int_equal(history->skipped_rows, 0);
    tide_history_free(history);
    tide_reader_free(reader);
}

static void a_growing_recording_is_read_piece_by_piece(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(0);
    load(history, reader);
    assert_int_equal(history->process_count, 0);
    assert_int_equal(history->tick_count, 0);

    for (int round = 1; round <= 50; round++) {
        int64_t process = put_process(writer, round, 0);
        for (int i = 0; i < 3; i++) {
            int64_t t_ns = round * 1000 + i * 100, tick = put_tick(writer, t_ns);
            for (int64_t id = 1; id <= process; id++)
                put_sample(writer, tick, id, t_ns + id);
            put_mark(writer, t_ns, TIDE_MARK_STEP, round * 3 + i, "");
        }
        struct tide_note note = {.t_ns = round, .text = "note"};
        assert_int_equal(tide_writer_note(writer, &note, NULL), 0);
        struct tide_process update = {.id = 1,
                                      .pid = 1,
                                      .name = "renamed",
                                      .command = "",
                                      .role = "",
                                      .ended_ns = round,
                                      .peak_rss_bytes = round,
                                      .rank = TIDE_UNKNOWN};
        assert_int_equal(tide_writer_process_update(writer, &update, NULL), 0);
        assert_int_equal(tide_writer_commit(writer, NULL), 0);

        load(history, reader);
        assert_int_equal(history->process_count, round);
        assert_int_equal(history->tick_count, round * 3);
        assert_int_equal(history->mark_count, round * 3);
        assert_int_equal(history->note_count, round);
        assert_int_equal(history->processes[0].point_count, round * 3);
        assert_int_equal(history->processes[process - 1].point_count, 3);
        assert_string_equal(history->processes[0].row.name, "renamed");
        assert_int_equal(history->processes[0].row.peak_rss_bytes, round);
        load(history, reader); /* nothing new */
        assert_int_equal(history->tick_count, round * 3);
        assert_int_equal(history->mark_count, round * 3);
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    tide_history_free(history);
    tide_reader_free(reader);
}

static void marks_that_interleave_come_in_order_of_time(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    put_process(writer, 1, 0);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 10; i++) /* one process's lane */
            put_mark(writer, round * 1000 + i * 100, TIDE_MARK_STEP, round * 10 + i, "");
        for (int i = 0; i < 10; i++) /* another's, of the same stretch, back to the one before */
            put_mark(writer, round * 1000 + i * 100 - 500 + 500 * (round == 0), TIDE_MARK_GAUGE, i, "buffer");
    }
    put_mark(writer, 5, TIDE_MARK_PHASE_BEGIN, 0, "a");
    put_mark(writer, 5, TIDE_MARK_PHASE_END, 0, "a");
    assert_int_equal(tide_writer_commit(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(0);
    load(history, reader);
    assert_int_equal(history->mark_count, 2002);
    int begin = -1, end = -1;
    for (size_t i = 0; i < history->mark_count; i++) {
        assert_true(i == 0 || history->marks[i - 1].t_ns <= history->marks[i].t_ns);
        if (history->marks[i].kind == TIDE_MARK_PHASE_BEGIN)
            begin = (int)i;
        if (history->marks[i].kind == TIDE_MARK_PHASE_END)
            end = (int)i;
    }
    assert_int_equal(end, begin + 1); /* at the same moment: as written */
    assert_int_equal(history->name_count, 2);
    put_mark(writer, 99000, TIDE_MARK_STEP, -7, "");
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    load(history, reader);
    assert_int_equal(history->mark_count, 2003);
    for (size_t i = 1; i < history->mark_count; i++)
        assert_true(history->marks[i - 1].t_ns <= history->marks[i].t_ns);
    tide_history_free(history);
    tide_reader_free(reader);
}

static void circles_of_parents_are_cut(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    put_process(writer, 1, 3); /* 1 -> 3 -> 2 -> 1 */
    put_process(writer, 2, 1);
    put_process(writer, 3, 2);
    put_process(writer, 4, 4);
    put_process(writer, 5, 99);
    put_process(writer, 6, 3);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(0);
    load(history, reader);
    for (size_t i = 0; i < history->process_count; i++) {
        int64_t at = (int64_t)i + 1;
        int steps = 0;
        for (; at != 0 && steps <= 6; steps++)
            at = history->processes[at - 1].row.parent;
        assert_true(steps <= 6);
    }
    assert_int_equal(history->processes[3].row.parent, 0);
    assert_int_equal(history->processes[4].row.parent, 0);
    assert_int_equal(history->processes[5].row.parent, 3);
    tide_history_free(history);
    tide_reader_free(reader);
}

static void execute(const char *sql)
{
    sqlite3 *db;
    char *message = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    sqlite3_close(db);
}

static void rows_that_refer_to_nothing_are_counted_and_left_out(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    put_process(writer, 1, 0);
    put_sample(writer, put_tick(writer, 100), 1, 10);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    execute(
        "INSERT INTO process(id, pid) VALUES (4000000000000, 1);"
        "INSERT INTO tick(id, t_ns) VALUES (5, 50), (6, 700), (7, 'soon');"
        "INSERT INTO sample(tick, process, anon_bytes) VALUES (1, 9, 1), (5, 1, 1), (6, 1, 4611686018427387904),"
        " (6, 2, -5), (8, 1, 1);"
        "UPDATE sample SET shmem_bytes = 4611686018427387904, swap_bytes = 4611686018427387904 WHERE tick = 6;"
        "INSERT INTO mark(t_ns, process, kind, source, number) VALUES (1, 77, 1, 1, 1), (2, 1, 99, 1, 1);");
    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(0);
    load(history, reader);
    assert_int_equal(history->process_count, 1);
    assert_int_equal(history->tick_count, 2);
    assert_int_equal(history->processes[0].point_count, 2);
    assert_int_equal(history->processes[0].points[1].private_bytes, TIDE_LARGEST);
    assert_int_equal(history->mark_count, 1);
    assert_int_equal(history->marks[0].process, 0);
    /* process far off, tick back in time, tick no number, samples: of process 9, of ticks 5 and 8 and -5,
     * mark of kind 99 */
    assert_int_equal(history->skipped_rows, 7);
    load(history, reader);
    assert_int_equal(history->skipped_rows, 7);
    tide_history_free(history);
    tide_reader_free(reader);
}

static void a_recording_that_is_too_large_is_thinned(void **state)
{
    (void)state;
    enum { TICKS = 40000, PROCESSES = 4, SPIKE = 12345 };
    struct tide_writer *writer = new_writer();
    for (int i = 0; i < PROCESSES; i++)
        put_process(writer, i + 1, 0);
    for (int i = 1; i <= TICKS; i++) {
        int64_t tick = put_tick(writer, i * 1000);
        for (int id = 1; id <= PROCESSES;
             id++) /* a saw of 10 ticks, a spike, then nothing changes any more */
            put_sample(writer, tick, id, i == SPIKE ? 9000000 : i > TICKS / 2 ? 500 + id : 1000 + i % 10);
        put_mark(writer, i * 1000, TIDE_MARK_STEP, i, "");
        put_mark(writer, i * 1000 + 1, TIDE_MARK_GAUGE, i == SPIKE ? 77 : 7, "buffer");
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(2 << 20);
    load(history, reader);
    assert_true(history->thinned >= 2);
    size_t bytes =
        history->tick_count * sizeof *history->ticks + history->mark_count * sizeof *history->marks;
    for (size_t i = 0; i < PROCESSES; i++) {
        const struct tide_history_process *process = &history->processes[i];
        int64_t lowest = INT64_MAX, highest = 0;
        for (size_t k = 0; k < process->point_count; k++) {
            int64_t value = process->points[k].private_bytes;
            lowest = value < lowest ? value : lowest;
            highest = value > highest ? value : highest;
            assert_true(k == 0 || process->points[k - 1].t_ns < process->points[k].t_ns);
            if (value == 9000000) /* the spike is over after one tick, in whatever is left */
                assert_true(process->points[k + 1].t_ns - process->points[k].t_ns <=
                            (int64_t)tide_history_cell_ticks(history) * 1000);
        }
        assert_int_equal(highest, 9000000);
        assert_int_equal(lowest, 501 + (int64_t)i);
        assert_int_equal(process->points[process->point_count - 1].private_bytes, 501 + (int64_t)i);
        assert_true(process->point_count < TICKS / 2);
        assert_true(process->point_count > 100);
        bytes += process->point_count * sizeof *process->points;
    }
    assert_true(bytes <= 2 << 20);
    int64_t first = INT64_MAX, last = 0, gauge = 0;
    for (size_t i = 0; i < history->mark_count; i++) {
        const struct tide_history_mark *mark = &history->marks[i];
        if (mark->kind == TIDE_MARK_STEP && mark->number < first)
            first = mark->number;
        if (mark->kind == TIDE_MARK_STEP && mark->number > last)
            last = mark->number;
        if (mark->kind == TIDE_MARK_GAUGE && mark->number > gauge)
            gauge = mark->number;
    }
    assert_int_equal(first, 1);
    assert_int_equal(last, TICKS);
    assert_int_equal(gauge, 77);
    tide_history_free(history);
    tide_reader_free(reader);
}

static void what_cannot_be_thinned_is_refused_with_a_sentence(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    char command[1000] = {0};
    memset(command, 'x', sizeof command - 1);
    for (int i = 0; i < 3000; i++) {
        struct tide_process process = {.pid = i, .name = "", .command = command, .role = ""};
        int64_t id;
        int digits = snprintf(command, sizeof command, "%d", i); /* equal commands are stored once */
        command[digits] = 'x';
        assert_int_equal(tide_writer_process(writer, &process, &id, NULL), 0);
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(2 << 20);
    struct tide_err err = {0};
    assert_int_equal(tide_history_load(history, reader, &err), -1);
    assert_non_null(strstr(err.text, "does not fit into the 2 MiB"));
    assert_true(history->process_count > 0);
    tide_history_free(history);
    tide_reader_free(reader);
}

static uint64_t small_or_large(const void *element)
{
    const int64_t *pair = element;
    return pair[1] > 100;
}

static int64_t put_frame(struct tide_writer *writer, const char *function, int64_t line)
{
    struct tide_frame frame = {.function = function, .file = "train.c", .line = line, .module = "/bin/train"};
    int64_t id;

    assert_int_equal(tide_writer_frame(writer, &frame, &id, NULL), 0);
    return id;
}

static int64_t put_site(struct tide_writer *writer, int64_t process, const int64_t *frames, size_t depth)
{
    struct tide_site site = {.process = process, .kind = TIDE_SITE_MALLOC};
    int64_t id;

    if (depth > 0)
        assert_int_equal(tide_writer_stack(writer, frames, depth, &site.stack, NULL), 0);
    assert_int_equal(tide_writer_site(writer, &site, &id, NULL), 0);
    return id;
}

static void put_site_sample(struct tide_writer *writer, int64_t tick, int64_t site, int64_t live)
{
    struct tide_site_sample sample = {tick, site, live, 1, 2 * live, 2};

    assert_int_equal(tide_writer_site_sample(writer, &sample, NULL), 0);
}

static void sites_have_their_stacks_and_points(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    int64_t process = put_process(writer, 10, 0);
    int64_t frames[] = {put_frame(writer, "grow", 9), put_frame(writer, "main", 20)};
    int64_t site = put_site(writer, process, frames, 2), rest = put_site(writer, process, NULL, 0);
    for (int64_t i = 1; i <= 10; i++) {
        int64_t tick = put_tick(writer, i * 100);
        put_site_sample(writer, tick, site, i * 1000);
        if (i == 5)
            put_site_sample(writer, tick, rest, 77);
    }
    struct tide_heap_status status = {.process = process, .t_ns = 1, .state = "on", .interval_bytes = 4096};
    assert_int_equal(tide_writer_heap_status(writer, &status, NULL), 0);
    assert_int_equal(tide_writer_commit(writer, NULL), 0);
    struct tide_history *history = new_history(0);
    struct tide_reader *reader = new_reader();
    load(history, reader);
    assert_int_equal(history->site_count, 2);
    assert_int_equal(history->sites[0].process, process);
    assert_int_equal(history->sites[0].point_count, 10);
    assert_int_equal(history->sites[0].points[9].t_ns, 1000);
    assert_int_equal(history->sites[0].points[9].live_bytes, 10000);
    assert_int_equal(history->sites[0].points[9].total_bytes, 20000);
    assert_int_equal(history->sites[1].point_count, 1);
    assert_int_equal(history->sites[1].stack, 0);
    const int32_t *stack;
    assert_int_equal(tide_history_stack(history, history->sites[0].stack, &stack), 2);
    assert_string_equal(history->frames[stack[0]].function, "grow");
    assert_string_equal(history->frames[stack[1]].function, "main");
    assert_int_equal(history->frames[stack[1]].line, 20);
    assert_ptr_equal(history->frames[0].file, history->frames[1].file);
    assert_int_equal(tide_history_stack(history, 0, &stack), 0);
    assert_int_equal(tide_history_stack(history, 99, &stack), 0);
    assert_int_equal(history->heap_status_count, 1);
    assert_string_equal(history->heap_status[0].state, "on");

    /* What is added is read, what was read is not read again. */
    frames[0] = put_frame(writer, "late", 30);
    int64_t late = put_site(writer, process, frames, 2), tick = put_tick(writer, 2000);
    put_site_sample(writer, tick, late, 5);
    put_site_sample(writer, tick, site, 6);
    assert_int_equal(tide_writer_commit(writer, NULL), 0);
    load(history, reader);
    assert_int_equal(history->site_count, 3);
    assert_int_equal(history->frame_count, 3);
    assert_int_equal(history->sites[0].point_count, 11);
    assert_int_equal(history->sites[2].points[0].live_bytes, 5);
    assert_int_equal(tide_history_stack(history, history->sites[2].stack, &stack), 2);
    assert_string_equal(history->frames[stack[0]].function, "late");
    assert_int_equal(tide_history_stack(history, history->sites[0].stack, &stack), 2);
    assert_string_equal(history->frames[stack[0]].function, "grow");
    assert_int_equal(history->heap_status_count, 1);
    assert_int_equal(history->skipped_rows, 0);
    tide_reader_free(reader);
    tide_history_free(history);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
}

static void sites_that_refer_to_nothing_are_counted_and_left_out(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    int64_t process = put_process(writer, 10, 0), frame = put_frame(writer, "grow", 9);
    put_site_sample(writer, put_tick(writer, 100), put_site(writer, process, &frame, 1), 1);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    execute(
        "INSERT INTO site VALUES (2, 99, 1, 1), (1099511627776, 1, 1, 1), (3, 1, 1, 12345);"
        "INSERT INTO stack VALUES (1, 5, 99), (1, 4000000000, 1), (1099511627776, 0, 1);"
        "INSERT INTO site_sample VALUES (1, 2, 1, 1, 1, 1), (1, 9, 1, 1, 1, 1), (44, 1, 1, 1, 1, 1), (1, 3, 8, 1, 1, 1);"
        "INSERT INTO frame(id) VALUES (1099511627776);"
        "INSERT INTO heap_state(process, t_ns, state) VALUES (99, 1, 'on')");
    struct tide_history *history = new_history(0);
    struct tide_reader *reader = new_reader();
    const int32_t *stack;
    load(history, reader);
    assert_int_equal(history->sites[0].point_count, 1);
    assert_int_equal(tide_history_stack(history, 1, &stack), 1);
    assert_int_equal(history->site_count, 3);
    assert_int_equal(history->sites[1].id, 0);
    assert_int_equal(history->sites[2].point_count, 1);
    assert_int_equal(tide_history_stack(history, history->sites[2].stack, &stack), 0);
    assert_int_equal(history->skipped_rows, 2 + 3 + 2 + 1 + 1);
    tide_reader_free(reader);
    tide_history_free(history);
}

static void sites_are_thinned_with_the_rest(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    int64_t process = put_process(writer, 10, 0), frame = put_frame(writer, "grow", 9), sites[20];
    for (int i = 0; i < 20; i++)
        sites[i] = put_site(writer, process, &frame, 1);
    for (int64_t t = 1; t <= 4000; t++) {
        int64_t tick = put_tick(writer, t * 1000);
        for (int i = 0; i < 20; i++)
            put_site_sample(writer, tick, sites[i], t == 777 ? 5000000 : t * 10 + i);
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    struct tide_history *history = new_history(1 << 20);
    struct tide_reader *reader = new_reader();
    load(history, reader);
    assert_true(history->thinned > 1);
    for (int i = 0; i < 20; i++) {
        const struct tide_history_site *site = &history->sites[i];
        int64_t highest = 0;
        for (size_t k = 0; k < site->point_count; k++)
            highest = site->points[k].live_bytes > highest ? site->points[k].live_bytes : highest;
        assert_int_equal(highest, 5000000);
        assert_true(site->point_count < 4000);
        assert_int_equal(site->points[site->point_count - 1].live_bytes, 40000 + i);
    }
    tide_reader_free(reader);
    tide_history_free(history);
}

static void thinning_keeps_lowest_highest_and_last_of_each_series(void **state)
{
    (void)state;
    int64_t pairs[][2] = {{0, 5}, {1, 3}, {2, 200}, {3, 9}, {4, 4}, {5, 6}, {9, 150}, {10, 1}};
    static const int64_t expected[][2] = {{1, 3}, {2, 200}, {3, 9}, {5, 6}, {9, 150}, {10, 1}};
    static const struct tide_layout layout = {
        .size = sizeof pairs[0], .value = sizeof pairs[0][0], .key = small_or_large};
    size_t count = tide_thin(pairs, 8, 10, &layout);
    assert_int_equal(count, 6);
    assert_memory_equal(pairs, expected, sizeof expected);
    assert_int_equal(tide_thin(pairs, count, 10, &layout), 6); /* again: no change */
}

/* The budget is a second; a build with sanitizers is not what it is about, and loads a part. */
enum { TICKS = SANITIZED ? 5000 : 100000 };

static void a_million_samples_load_within_a_second(void **state)
{
    (void)state;
    enum { PROCESSES = 10 };
    struct tide_writer *writer = new_writer();
    for (int i = 0; i < PROCESSES; i++)
        put_process(writer, i + 1, 0);
    for (int i = 1; i <= TICKS; i++) {
        int64_t tick = put_tick(writer, (int64_t)i * 250000000);
        for (int id = 1; id <= PROCESSES; id++)
            put_sample(writer, tick, id, (int64_t)i * 4096 + id);
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(0);
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    load(history, reader);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    assert_int_equal(history->processes[9].point_count, TICKS);
    print_message("%d samples loaded in %.2f s\n", PROCESSES * TICKS, seconds);
    if (PROCESSES * TICKS == 1000000 && !getenv("TIDEMARK_VALGRIND"))
        assert_true(seconds < 1.0);
    tide_history_free(history);
    tide_reader_free(reader);
}

static void a_large_recording_can_be_read_in_parts(void **state)
{
    enum { LOOKS = 10000 };
    (void)state;
    struct tide_writer *writer = new_writer();
    int64_t process = put_process(writer, 10, 0);
    for (int64_t i = 1; i <= LOOKS; i++) {
        put_sample(writer, put_tick(writer, i * 100), process, i);
        put_mark(writer, i * 100, TIDE_MARK_STEP, i, "");
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);

    struct tide_reader *reader = new_reader();
    struct tide_history *history = new_history(0);
    int left, parts = 0;
    while ((left = tide_history_load_part(history, reader, 0, NULL)) == 1)
        parts++;
    assert_int_equal(left, 0);
    assert_true(parts >= 2);
    assert_int_equal(history->tick_count, LOOKS);
    assert_int_equal(history->mark_count, LOOKS);
    assert_int_equal(history->processes[0].point_count, LOOKS);
    for (int64_t i = 0; i < LOOKS; i++)
        assert_int_equal(history->processes[0].points[i].private_bytes, i + 1);
    tide_history_free(history);
    tide_reader_free(reader);
}

/* One that maps a page anew at each look, and whose part is the same 1,000 bytes at each fourth of them. */
static void what_is_mapped_again_is_no_more_however_often_it_is_loaded(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    int64_t process = put_process(writer, 10, 0);
    struct tide_history *history = new_history(0), *at_once = new_history(0);
    struct tide_reader *reader = NULL;
    for (int look = 1; look <= 40; look++) {
        struct tide_sample sample = {.tick = put_tick(writer, look * 100),
                                     .process = process,
                                     .anon_bytes = 50,
                                     .shmem_bytes = 1000 + 100 * look};
        struct tide_smaps smaps = {
            .tick = sample.tick, .process = process, .pss_bytes = 1050, .pss_shmem_bytes = 1000};
        assert_int_equal(tide_writer_sample(writer, &sample, NULL), 0);
        if (look % 4 == 0)
            assert_int_equal(tide_writer_smaps(writer, &smaps, NULL), 0);
        assert_int_equal(tide_writer_commit(writer, NULL), 0);
        reader = reader ? reader : new_reader();
        load(history, reader);
    }
    load(at_once, reader);
    const struct tide_history_process *p = &history->processes[0];
    assert_int_equal(p->point_count, 40);
    for (size_t i = 0; i < p->point_count; i++) {
        assert_int_equal(p->points[i].shmem_bytes, 1100 + 100 * (int64_t)i);
        assert_int_equal(p->points[i].private_bytes, at_once->processes[0].points[i].private_bytes);
        if (i >= 3)
            assert_int_equal(p->points[i].private_bytes, 1050);
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    tide_history_free(history);
    tide_history_free(at_once);
    tide_reader_free(reader);
}

/* Writes what a process maps of shared memory at a look, and at each tenth a reading. */
static void put_mapped(struct tide_writer *writer, int look, int64_t mapped, struct tide_smaps reading)
{
    struct tide_sample sample = {.tick = reading.tick, .process = reading.process, .shmem_bytes = mapped};
    reading.pss_bytes = reading.pss_shmem_bytes;
    assert_int_equal(tide_writer_sample(writer, &sample, NULL), 0);
    if (look % 10 == 0)
        assert_int_equal(tide_writer_smaps(writer, &reading, NULL), 0);
}

/* Two map the same, a page more at each look. One is read once more when the other has given back its own. */
static void what_is_shared_is_no_more_when_the_others_end(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    int64_t processes[2] = {put_process(writer, 10, 0), put_process(writer, 11, 0)};
    struct tide_history *history = new_history(0);
    for (int look = 1; look <= 40; look++) {
        int64_t tick = put_tick(writer, look * 100), mapped = 10000 + 100 * look;
        for (int i = 0; i < 2; i++) {
            int64_t part = look == 40 && i == 0 ? mapped : mapped / 2;
            put_mapped(writer, look, mapped,
                       (struct tide_smaps){.tick = tick, .process = processes[i], .pss_shmem_bytes = part});
        }
    }
    assert_int_equal(tide_writer_commit(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    load(history, reader);
    for (int i = 0; i < 40; i++)
        assert_int_equal(history->processes[0].points[i].private_bytes, (10000 + 100 * (i + 1)) / 2);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    tide_history_free(history);
    tide_reader_free(reader);
}

/* It shares 8,000 bytes with three others and maps a page of its own more at each look. */
static void what_is_mapped_in_addition_may_be_its_own(void **state)
{
    (void)state;
    struct tide_writer *writer = new_writer();
    int64_t processes[2] = {put_process(writer, 10, 0), put_process(writer, 11, 0)};
    struct tide_history *history = new_history(0);
    for (int look = 1; look <= 40; look++) {
        int64_t tick = put_tick(writer, look * 100);
        for (int i = 0; i < 2; i++) {
            int64_t more = i == 0 ? 100 * look : 0;
            put_mapped(writer, look, 8000 + more,
                       (struct tide_smaps){.tick = tick,
                                           .process = processes[i],
                                           .uss_bytes = more,
                                           .pss_shmem_bytes = 2000 + more});
        }
    }
    assert_int_equal(tide_writer_commit(writer, NULL), 0);
    struct tide_reader *reader = new_reader();
    load(history, reader);
    for (int i = 0; i < 40; i++)
        assert_int_equal(history->processes[0].points[i].private_bytes, 2000 + 100 * (i + 1));
    assert_int_equal(history->processes[1].points[0].private_bytes, 2000);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    tide_history_free(history);
    tide_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(points_are_spelled_out, name_recording, drop_recording),
        cmocka_unit_test_setup_teardown(what_is_mapped_again_is_no_more_however_often_it_is_loaded,
                                        name_recording, drop_recording),
        cmocka_unit_test_setup_teardown(what_is_shared_is_no_more_when_the_others_end, name_recording,
                                        drop_recording),
        cmocka_unit_test_setup_teardown(what_is_mapped_in_addition_may_be_its_own, name_recording,
                                        drop_recording),
        cmocka_unit_test_setup_teardown(sites_have_their_stacks_and_points, name_recording, drop_recording),
        cmocka_unit_test_setup_teardown(sites_that_refer_to_nothing_are_counted_and_left_out, name_recording,
                                        drop_recording),
        cmocka_unit_test_setup_teardown(sites_are_thinned_with_the_rest, name_recording, drop_recording),
        cmocka_unit_test_setup_teardown(a_growing_recording_is_read_piece_by_piece, name_recording,
                                        drop_recording),
        cmocka_unit_test_setup_teardown(a_large_recording_can_be_read_in_parts, name_recording,
                                        drop_recording),
        cmocka_unit_test_setup_teardown(marks_that_interleave_come_in_order_of_time, name_recording,
                                        drop_recording),
        cmocka_unit_test_setup_teardown(circles_of_parents_are_cut, name_recording, drop_recording),
        cmocka_unit_test_setup_teardown(rows_that_refer_to_nothing_are_counted_and_left_out, name_recording,
                                        drop_recording),
        cmocka_unit_test_setup_teardown(a_recording_that_is_too_large_is_thinned, name_recording,
                                        drop_recording),
        cmocka_unit_test_setup_teardown(what_cannot_be_thinned_is_refused_with_a_sentence, name_recording,
                                        drop_recording),
        cmocka_unit_test(thinning_keeps_lowest_highest_and_last_of_each_series),
        cmocka_unit_test_setup_teardown(a_million_samples_load_within_a_second, name_recording,
                                        drop_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
