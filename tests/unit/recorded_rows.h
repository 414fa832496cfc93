/*
 * recorded_rows.h - rows for a recording, and the last of each table that was read back.
 */
#ifndef RECORDED_ROWS_H
#define RECORDED_ROWS_H

#include "recording_fixture.h"

#include <sqlite3.h>
#include <string.h>

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

static inline int on_process(void *context, const void *given)
{
    const struct tide_process *row = given;
    struct seen *s = context;
    s->process = *row;
    snprintf(s->name, sizeof s->name, "%s", row->name);
    snprintf(s->command, sizeof s->command, "%s", row->command);
    snprintf(s->role, sizeof s->role, "%s", row->role);
    s->processes++;
    return 0;
}

#define ON(kind, field, counter)                                                                             \
    static inline int on_##kind(void *context, const void *row)                                              \
    {                                                                                                        \
        struct seen *s = context;                                                                            \
        s->kind = *(const struct tide_##field *)row;                                                         \
        s->counter++;                                                                                        \
        return 0;                                                                                            \
    }
ON(tick, tick, ticks)
ON(sample, sample, samples)
ON(smaps, smaps, smapses)
ON(gpu, gpu_sample, gpus)

static inline int on_mark(void *context, const void *given)
{
    const struct tide_mark *row = given;
    struct seen *s = context;
    s->mark = *row;
    snprintf(s->text, sizeof s->text, "%s", row->name);
    s->marks++;
    return 0;
}

static inline int on_device(void *context, const void *given)
{
    const struct tide_gpu_device *row = given;
    struct seen *s = context;
    s->device = *row;
    snprintf(s->text, sizeof s->text, "%s %s", row->name, row->uuid);
    s->devices++;
    return 0;
}

static inline int on_limit(void *context, const void *given)
{
    const struct tide_limit *row = given;
    struct seen *s = context;
    s->limit = *row;
    snprintf(s->text, sizeof s->text, "%s", row->name);
    s->limits++;
    return 0;
}

static inline int on_note(void *context, const void *given)
{
    const struct tide_note *row = given;
    struct seen *s = context;
    s->note = *row;
    snprintf(s->text, sizeof s->text, "%s", row->text);
    s->notes++;
    return 0;
}

static inline int64_t put_tick(struct tide_writer *writer, int64_t t_ns)
{
    struct tide_tick tick = {.t_ns = t_ns,
                             .processes = 1,
                             .rss_bytes = 100 + t_ns,
                             .counted_bytes = 90,
                             .pss_known_bytes = 0,
                             .cgroup_bytes = TIDE_UNKNOWN,
                             .cgroup_peak_bytes = TIDE_UNKNOWN,
                             .pressure_ppm = TIDE_UNKNOWN,
                             .available_bytes = 1 << 30,
                             .share_ppm = 250000};
    int64_t id = 0;

    assert_int_equal(tide_writer_tick(writer, &tick, &id, NULL), 0);
    return id;
}

static inline int64_t put_process(struct tide_writer *writer, const char *name)
{
    struct tide_process process = {.pid = 77,
                                   .parent = 0,
                                   .start_ticks = 5,
                                   .name = name,
                                   .command = "python train.py",
                                   .role = "python",
                                   .began_ns = 1,
                                   .ended_ns = TIDE_UNKNOWN,
                                   .peak_rss_bytes = 1000,
                                   .rank = TIDE_UNKNOWN};
    int64_t id = 0;

    assert_int_equal(tide_writer_process(writer, &process, &id, NULL), 0);
    return id;
}

static inline void put_sample(struct tide_writer *writer, int64_t tick, int64_t process, int64_t anon)
{
    struct tide_sample sample = {.tick = tick,
                                 .process = process,
                                 .anon_bytes = anon,
                                 .threads = 2,
                                 .asked_bytes = 2 * anon,
                                 .mapped_bytes = 3 * anon};

    assert_int_equal(tide_writer_sample(writer, &sample, NULL), 0);
}

static inline void run_sql(const char *sql)
{
    sqlite3 *db;
    char *message = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    sqlite3_close(db);
}

/* A small recording, closed. */
static inline void make_recording(void)
{
    struct tide_writer *writer = new_writer();

    int64_t process = put_process(writer, "python");
    for (int i = 1; i <= 100; i++)
        put_sample(writer, put_tick(writer, i * 1000), process, i * 4096);
    assert_int_equal(tide_writer_free(writer, NULL), 0);
}

#endif
