/*
 * made_recording.h - recordings written by a test with a known truth, and what is said about them.
 */
#ifndef MADE_RECORDING_H
#define MADE_RECORDING_H

#include "assess/assessment.h"
#include "record/writer.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
#define GIB ((int64_t)1 << 30)

/* A recording in the making: four looks a second, one step per look unless said otherwise. */
struct made {
    char path[64];
    struct tide_writer *writer;
    int64_t tick;
    int64_t t_ns;
    int64_t share_ppm; /* of a processor; 0: not known */
};

static inline void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

static inline struct made begin(void)
{
    struct made m = {.path = "/tmp/tide-assess-XXXXXX"};
    struct tide_err err;
    int fd = mkstemp(m.path);
    assert_true(fd >= 0);
    close(fd);
    unlink(m.path);
    ok(tide_writer_new(m.path, &m.writer, &err), &err);
    return m;
}

static inline int64_t add_rank(struct made *m, int64_t pid, int64_t parent, const char *name,
                               const char *role, int64_t rank)
{
    struct tide_process p = {.pid = pid,
                             .parent = parent,
                             .start_ticks = 1,
                             .name = name,
                             .command = name,
                             .role = role,
                             .began_ns = m->t_ns,
                             .ended_ns = TIDE_UNKNOWN,
                             .peak_rss_bytes = GIB,
                             .rank = rank};
    struct tide_err err;
    int64_t id;
    ok(tide_writer_process(m->writer, &p, &id, &err), &err);
    return id;
}

static inline int64_t add_process(struct made *m, int64_t pid, int64_t parent, const char *name,
                                  const char *role)
{
    return add_rank(m, pid, parent, name, role, TIDE_UNKNOWN);
}

static inline void look_at_shared(struct made *m, int64_t processes, int64_t counted, int64_t rss,
                                  int64_t known)
{
    struct tide_tick tick = {.t_ns = m->t_ns += 250000000,
                             .processes = processes,
                             .rss_bytes = rss,
                             .counted_bytes = counted,
                             .pss_known_bytes = known,
                             .cgroup_bytes = TIDE_UNKNOWN,
                             .cgroup_peak_bytes = TIDE_UNKNOWN,
                             .pressure_ppm = TIDE_UNKNOWN,
                             .available_bytes = 8 * GIB,
                             .share_ppm = m->share_ppm ? m->share_ppm : TIDE_UNKNOWN};
    struct tide_err err;
    ok(tide_writer_tick(m->writer, &tick, &m->tick, &err), &err);
}

static inline void look(struct made *m, int64_t processes, int64_t counted)
{
    look_at_shared(m, processes, counted, counted, 0);
}

static inline void put_sample(struct made *m, struct tide_sample s)
{
    struct tide_err err;
    s.tick = m->tick;
    s.file_bytes = 4 * MIB;
    s.threads = 1;
    ok(tide_writer_sample(m->writer, &s, &err), &err);
}

static inline void sample(struct made *m, int64_t process, int64_t anon)
{
    put_sample(m, (struct tide_sample){.process = process,
                                       .anon_bytes = anon,
                                       .asked_bytes = TIDE_UNKNOWN,
                                       .mapped_bytes = TIDE_UNKNOWN});
}

static inline void mark(struct made *m, int64_t process, enum tide_mark_kind kind, int64_t number,
                        const char *name)
{
    struct tide_mark row = {.t_ns = m->t_ns + 1000,
                            .process = process,
                            .kind = kind,
                            .source = TIDE_SOURCE_PROGRAM,
                            .number = number,
                            .name = name};
    struct tide_err err;
    ok(tide_writer_mark(m->writer, &row, &err), &err);
}

static inline void limit(struct made *m, const char *name, int64_t bytes)
{
    struct tide_limit row = {.t_ns = m->t_ns, .name = name, .bytes = bytes};
    struct tide_err err;
    ok(tide_writer_limit(m->writer, &row, &err), &err);
}

static inline void read_shared(struct made *m, int64_t process, int64_t pss, int64_t uss)
{
    struct tide_smaps row = {
        .tick = m->tick, .process = process, .pss_bytes = pss, .uss_bytes = uss, .cost_ns = 1000};
    struct tide_err err;
    ok(tide_writer_smaps(m->writer, &row, &err), &err);
}

/* What is there of its large mappings without a reservation. */
static inline void read_unreserved(struct made *m, int64_t process, int64_t bytes)
{
    struct tide_smaps row = {.tick = m->tick,
                             .process = process,
                             .pss_bytes = GIB,
                             .uss_bytes = GIB,
                             .cost_ns = 1000,
                             .unreserved_bytes = bytes};
    struct tide_err err;
    ok(tide_writer_smaps(m->writer, &row, &err), &err);
}

/* What the process has allocated is seen from now on, and was sampled so many times. */
static inline void see_samples(struct made *m, int64_t process, int64_t sampled)
{
    struct tide_heap_status row = {
        .process = process, .t_ns = m->t_ns, .state = "on", .interval_bytes = 512 * 1024, .sampled = sampled};
    struct tide_err err;
    ok(tide_writer_heap_status(m->writer, &row, &err), &err);
}

static inline void see_heap(struct made *m, int64_t process)
{
    see_samples(m, process, 1000);
}

/* A call stack that allocates, its frames innermost first. */
static inline int64_t add_stack(struct made *m, int64_t process, enum tide_site_kind kind,
                                const struct tide_frame *frames, size_t count)
{
    struct tide_site site = {.process = process, .kind = kind};
    struct tide_err err;
    int64_t id, ids[8];
    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++)
        ok(tide_writer_frame(m->writer, &frames[i], &ids[i], &err), &err);
    ok(tide_writer_stack(m->writer, ids, count, &site.stack, &err), &err);
    ok(tide_writer_site(m->writer, &site, &id, &err), &err);
    return id;
}

static inline int64_t add_site(struct made *m, int64_t process, enum tide_site_kind kind,
                               struct tide_frame frame)
{
    return add_stack(m, process, kind, &frame, 1);
}

static inline struct tide_frame line_of(const char *file, int64_t line, const char *function)
{
    return (struct tide_frame){
        .function = function, .file = file, .line = line, .module = "", .offset = line, .python = true};
}

/* A site holds that much, of all that it ever allocated. */
static inline void hold_of(struct made *m, int64_t site, int64_t bytes, int64_t blocks, int64_t total_bytes,
                           int64_t total_blocks)
{
    struct tide_site_sample row = {.tick = m->tick,
                                   .site = site,
                                   .live_bytes = bytes,
                                   .live_blocks = blocks,
                                   .total_bytes = total_bytes,
                                   .total_blocks = total_blocks};
    struct tide_err err;
    ok(tide_writer_site_sample(m->writer, &row, &err), &err);
}

static inline void hold(struct made *m, int64_t site, int64_t bytes, int64_t blocks)
{
    hold_of(m, site, bytes, blocks, bytes, blocks);
}

/* All that the process holds; free_bytes of its allocator, or TIDE_UNKNOWN. */
static inline void hold_in_all(struct made *m, int64_t process, int64_t bytes, int64_t free_bytes)
{
    struct tide_heap_sample row = {.tick = m->tick,
                                   .process = process,
                                   .live_bytes = bytes,
                                   .live_blocks = 100,
                                   .system_bytes = TIDE_UNKNOWN,
                                   .mapped_bytes = TIDE_UNKNOWN,
                                   .free_bytes = free_bytes,
                                   .free_blocks = free_bytes < 0 ? TIDE_UNKNOWN : 1,
                                   .top_bytes = free_bytes < 0 ? TIDE_UNKNOWN : 0};
    struct tide_err err;
    ok(tide_writer_heap_sample(m->writer, &row, &err), &err);
}

/* A process that has begun at began_ns is gone. */
static inline void end_process(struct made *m, int64_t id, int64_t pid, int64_t parent, const char *name,
                               const char *role, int64_t began_ns)
{
    struct tide_process p = {.id = id,
                             .pid = pid,
                             .parent = parent,
                             .name = name,
                             .command = name,
                             .role = role,
                             .began_ns = began_ns,
                             .ended_ns = m->t_ns,
                             .peak_rss_bytes = GIB,
                             .rank = TIDE_UNKNOWN};
    struct tide_err err;
    ok(tide_writer_process_update(m->writer, &p, &err), &err);
}

/* Ends the recording and judges it. */
static inline struct tide_answer finish_answer(struct made *m)
{
    struct tide_err err;
    struct tide_answer answer;
    struct tide_assess_options options = {.items = NAN, .items_per_step = NAN, .limit_bytes = NAN};
    ok(tide_writer_free(m->writer, &err), &err);
    ok(tide_answer_init(&answer, m->path, &options, &err), &err);
    unlink(m->path);
    return answer;
}

/* Ends the recording and judges it; the text that a person would read lands in out. */
static inline struct tide_assessment *finish(struct made *m, char *out, size_t size)
{
    struct tide_answer answer = finish_answer(m);
    struct tide_assessment *a = answer.assessment;
    tide_history_free(answer.history);
    FILE *stream = fmemopen(out, size, "w");
    tide_assessment_print(a, stream);
    fclose(stream);
    return a;
}

#endif
