/*
 * test_record.c - the recording: what is written is read back, and every kind of damage gets a sentence.
 */
#include "record/reader.h"
#include "record/writer.h"
#include "record/schema.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char path[64];

static void remove_files(void)
{
    char name[96];
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/test_record.%d.tide", (int)getpid());
    remove_files();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_files();
    return 0;
}

static struct tide_writer *new_writer(void)
{
    struct tide_writer *writer;
    struct tide_err err = {0};

    if (tide_writer_new(path, &writer, &err) != 0)
        fail_msg("%s", err.text);
    return writer;
}

static struct tide_reader *new_reader(void)
{
    struct tide_reader *reader;
    struct tide_err err = {0};

    if (tide_reader_new(path, &reader, &err) != 0)
        fail_msg("%s", err.text);
    return reader;
}

struct seen {
    struct tide_process process;
    char name[300], command[70000], role[64], text[300];
    struct tide_tick tick;
    struct tide_sample sample;
    struct tide_smaps smaps;
    struct tide_mark mark;
    struct tide_gpu_sample gpu;
    struct tide_gpu_device device;
    struct tide_limit limit;
    struct tide_note note;
    int processes, ticks, samples, smapses, marks, gpus, devices, limits, notes;
};
static struct seen seen;

static int on_process(void *context, const struct tide_process *row)
{
    struct seen *s = context;
    s->process = *row;
    snprintf(s->name, sizeof s->name, "%s", row->name);
    snprintf(s->command, sizeof s->command, "%s", row->command);
    snprintf(s->role, sizeof s->role, "%s", row->role);
    s->processes++;
    return 0;
}

#define ON(kind, field, counter)                                                                             \
    static int on_##kind(void *context, const struct tide_##field *row)                                      \
    {                                                                                                        \
        struct seen *s = context;                                                                            \
        s->kind = *row;                                                                                      \
        s->counter++;                                                                                        \
        return 0;                                                                                            \
    }
ON(tick, tick, ticks)
ON(sample, sample, samples)
ON(smaps, smaps, smapses)
ON(gpu, gpu_sample, gpus)

static int on_mark(void *context, const struct tide_mark *row)
{
    struct seen *s = context;
    s->mark = *row;
    snprintf(s->text, sizeof s->text, "%s", row->name);
    s->marks++;
    return 0;
}

static int on_device(void *context, const struct tide_gpu_device *row)
{
    struct seen *s = context;
    s->device = *row;
    snprintf(s->text, sizeof s->text, "%s %s", row->name, row->uuid);
    s->devices++;
    return 0;
}

static int on_limit(void *context, const struct tide_limit *row)
{
    struct seen *s = context;
    s->limit = *row;
    snprintf(s->text, sizeof s->text, "%s", row->name);
    s->limits++;
    return 0;
}

static int on_note(void *context, const struct tide_note *row)
{
    struct seen *s = context;
    s->note = *row;
    snprintf(s->text, sizeof s->text, "%s", row->text);
    s->notes++;
    return 0;
}

static int64_t put_tick(struct tide_writer *writer, int64_t t_ns)
{
    struct tide_tick tick = {.t_ns = t_ns,
                             .processes = 1,
                             .rss_bytes = 100 + t_ns,
                             .counted_bytes = 90,
                             .pss_known_bytes = 0,
                             .cgroup_bytes = TIDE_UNKNOWN,
                             .cgroup_peak_bytes = TIDE_UNKNOWN,
                             .pressure_ppm = TIDE_UNKNOWN,
                             .available_bytes = 1 << 30};
    int64_t id = 0;

    assert_int_equal(tide_writer_tick(writer, &tick, &id, NULL), 0);
    return id;
}

static int64_t put_process(struct tide_writer *writer, const char *name)
{
    struct tide_process process = {.pid = 77,
                                   .parent = 0,
                                   .start_ticks = 5,
                                   .name = name,
                                   .command = "python train.py",
                                   .role = "python",
                                   .began_ns = 1,
                                   .ended_ns = TIDE_UNKNOWN,
                                   .peak_rss_bytes = 1000};
    int64_t id = 0;

    assert_int_equal(tide_writer_process(writer, &process, &id, NULL), 0);
    return id;
}

static void put_sample(struct tide_writer *writer, int64_t tick, int64_t process, int64_t anon)
{
    struct tide_sample sample = {.tick = tick, .process = process, .anon_bytes = anon, .threads = 2};

    assert_int_equal(tide_writer_sample(writer, &sample, NULL), 0);
}

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
    struct tide_smaps smaps = {
        .tick = tick, .process = process, .pss_bytes = 7, .uss_bytes = 6, .cost_ns = 12};
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
    struct tide_note note = {400, "412 marks lost"};
    assert_int_equal(tide_writer_note(writer, &note, &err), 0);
    assert_int_equal(tide_writer_free(writer, &err), 0);

    struct tide_reader *reader = new_reader();
    memset(&seen, 0, sizeof seen);
    assert_string_equal(tide_reader_meta_text(reader, TIDE_META_COMMAND), "python train.py");
    assert_int_equal(tide_reader_meta_integer(reader, TIDE_META_STARTED), 1700000000);
    assert_null(tide_reader_meta_text(reader, TIDE_META_HOST));
    assert_int_equal(tide_reader_meta_integer(reader, TIDE_META_ENDED), TIDE_UNKNOWN);
    assert_int_equal(tide_reader_begin(reader, &err), 0);
    assert_int_equal(tide_reader_each_process(reader, on_process, &seen, &err), 0);
    assert_int_equal(seen.process.pid, 77);
    assert_int_equal(seen.process.ended_ns, TIDE_UNKNOWN);
    assert_string_equal(seen.command, "python train.py");
    assert_int_equal(tide_reader_each_tick(reader, 0, on_tick, &seen, &err), 0);
    assert_int_equal(seen.tick.rss_bytes, 350);
    assert_int_equal(seen.tick.cgroup_bytes, TIDE_UNKNOWN);
    assert_int_equal(seen.tick.available_bytes, 1 << 30);
    assert_int_equal(tide_reader_each_sample(reader, 0, on_sample, &seen, &err), 0);
    assert_int_equal(seen.sample.anon_bytes, 4096);
    assert_int_equal(seen.sample.threads, 2);
    assert_int_equal(tide_reader_each_smaps(reader, 0, on_smaps, &seen, &err), 0);
    assert_int_equal(seen.smaps.uss_bytes, 6);
    int64_t last = 0;
    assert_int_equal(tide_reader_each_mark(reader, 0, &last, on_mark, &seen, &err), 0);
    assert_int_equal(last, 1);
    assert_int_equal(seen.mark.kind, TIDE_MARK_GAUGE);
    assert_int_equal(seen.mark.number, -1);
    assert_string_equal(seen.text, "replay buffer");
    assert_int_equal(tide_reader_each_gpu(reader, 0, on_gpu, &seen, &err), 0);
    assert_int_equal(seen.gpus, 1);
    assert_int_equal(seen.gpu.bytes, 15);
    assert_int_equal(seen.gpu.process, TIDE_UNKNOWN);
    assert_int_equal(tide_reader_each_gpu_device(reader, on_device, &seen, &err), 0);
    assert_string_equal(seen.text, "H200 GPU-1");
    assert_int_equal(tide_reader_each_limit(reader, on_limit, &seen, &err), 0);
    assert_int_equal(seen.limit.bytes, TIDE_UNKNOWN);
    assert_int_equal(tide_reader_each_note(reader, on_note, &seen, &err), 0);
    assert_string_equal(seen.text, "412 marks lost");
    tide_reader_end(reader);
    assert_int_equal(tide_reader_skipped(reader), 0);
    tide_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
