/*
 * test_sense.c - whole looks: what goes into the recording, and what the view says.
 */
#include "sense/sense.h"
#include "base/clock.h"
#include "record/reader.h"
#include "../fake/fake_proc.h"
#include "failing_malloc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <cmocka.h>

enum { MIB = 1024 }; /* in KiB */

static const int64_t second_ns = TIDE_NS_PER_S;
static int64_t now_ns, base_ns;
static char recording[96], cgroup_root[96];
static struct tide_sense *sense;
static struct tide_sense_view view;
static struct tide_writer *writer;
static struct tide_reader *reader;
static struct tide_err err;

static int set_up(void **state)
{
    (void)state;
    fake_begin();
    base_ns = now_ns = 1000 * second_ns;
    snprintf(recording, sizeof recording, "%s/x.tide", fake_root);
    snprintf(cgroup_root, sizeof cgroup_root, "%s/cg", fake_root);
    fake_write("meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"); /* 16 and 8 GiB */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_sense_free(sense);
    sense = NULL;
    tide_reader_free(reader);
    reader = NULL;
    tide_writer_free(writer, NULL);
    writer = NULL;
    fake_end();
    return 0;
}

static struct tide_sense_config config_for(int64_t root)
{
    return (struct tide_sense_config){.root = root,
                                      .smaps_budget_ppm = 10000,
                                      .limit_bytes = TIDE_UNKNOWN,
                                      .proc_path = fake_root,
                                      .cgroup_path = cgroup_root,
                                      .base_ns = base_ns};
}

static void begin_with(int64_t limit_bytes)
{
    struct tide_sense_config config = config_for(100);
    config.limit_bytes = limit_bytes;
    assert_int_equal(tide_writer_new(recording, &writer, &err), 0);
    assert_int_equal(tide_sense_new(&config, &sense, &err), 0);
}

static void begin(void)
{
    begin_with(TIDE_UNKNOWN);
}

static void look(void)
{
    now_ns += second_ns;
    if (tide_sense_look(sense, writer, now_ns, &view, &err) != 0)
        fail_msg("%s", err.text);
}

static void open_reader(void)
{
    assert_int_equal(tide_writer_commit(writer, &err), 0);
    tide_reader_free(reader);
    if (tide_reader_new(recording, &reader, &err) != 0)
        fail_msg("%s", err.text);
}

/* --- reading back -------------------------------------------------------------------------------------- */

struct found {
    struct tide_process row;
    char name[64], command[256], role[64];
    int64_t pid; /* looked for */
    int count;
};

static int on_process(void *context, const void *given)
{
    const struct tide_process *row = given;
    struct found *found = context;
    if (row->pid != found->pid)
        return 0;
    found->row = *row; /* the last with this PID */
    snprintf(found->name, sizeof found->name, "%s", row->name);
    snprintf(found->command, sizeof found->command, "%s", row->command);
    snprintf(found->role, sizeof found->role, "%s", row->role);
    found->count++;
    return 0;
}

static struct found process(int64_t pid)
{
    struct found found = {.pid = pid};
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_process, &found, &err),
                     0);
    return found;
}

static int on_tick(void *context, const void *given)
{
    const struct tide_tick *row = given;
    *(struct tide_tick *)context = *row;
    return 0;
}

static struct tide_tick last_tick(void)
{
    struct tide_tick tick = {.id = 0};
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_TICK, 0, on_tick, &tick, &err), 0);
    return tick;
}

struct text_rows {
    char text[16][512];
    int64_t bytes[16];
    int count;
};

static int on_limit(void *context, const void *given)
{
    const struct tide_limit *row = given;
    struct text_rows *rows = context;
    snprintf(rows->text[rows->count], sizeof rows->text[0], "%s", row->name);
    rows->bytes[rows->count++] = row->bytes;
    return rows->count == 16;
}

static int on_note(void *context, const void *given)
{
    const struct tide_note *row = given;
    struct text_rows *rows = context;
    rows->bytes[rows->count] = row->kills;
    snprintf(rows->text[rows->count++], sizeof rows->text[0], "%s", row->text);
    return rows->count == 16;
}

static struct text_rows limits(void)
{
    struct text_rows rows = {.count = 0};
    tide_reader_each(reader, TIDE_SCHEMA_LIMIT, TIDE_READER_ALL, on_limit, &rows, &err);
    return rows;
}

static struct text_rows notes(void)
{
    struct text_rows rows = {.count = 0};
    tide_reader_each(reader, TIDE_SCHEMA_NOTE, TIDE_READER_ALL, on_note, &rows, &err);
    return rows;
}

static int count_samples(void *context, const void *given)
{
    const struct tide_sample *row = given;
    (void)row;
    ++*(int *)context;
    return 0;
}

enum { MOST_NOTED = 8 };

/* The last of each process. */
static int note_smaps(void *context, const void *given)
{
    const struct tide_smaps *row = given;
    struct tide_smaps *last = context;
    assert_in_range(row->process, 0, MOST_NOTED - 1);
    last[row->process] = *row;
    return 0;
}

/* --- tests --------------------------------------------------------------------------------------------- */

static void a_tree_is_recorded_with_its_processes_and_sums(void **state)
{
    (void)state;
    int samples = 0;
    struct tide_smaps smaps[MOST_NOTED] = {0};
    fake_put(&(struct fake_process){.pid = 100,
                                    .parent = 1,
                                    .start = 7,
                                    .name = "uv",
                                    .args = "uv|run|t.py|",
                                    .anon = 10 * MIB,
                                    .file = 2 * MIB,
                                    .pss = 11 * MIB,
                                    .uss = 10 * MIB});
    fake_put(&(struct fake_process){.pid = 200,
                                    .parent = 100,
                                    .start = 9,
                                    .name = "python",
                                    .args = "python|t.py|",
                                    .anon = 50 * MIB,
                                    .shmem = 1 * MIB,
                                    .threads = 4,
                                    .pss = 40 * MIB,
                                    .pss_shmem = MIB / 2,
                                    .uss = 30 * MIB});
    begin();
    look();
    assert_int_equal(view.tick.processes, 2);
    assert_int_equal(view.tick.rss_bytes, 63 * MIB * 1024);
    assert_int_equal(view.tick.counted_bytes, 63 * MIB * 1024);
    int64_t looks = 1, took_ns;
    do { /* what a read takes is measured: after one that was interrupted for long the other waits */
        took_ns = -tide_clock_ns();
        look();
        took_ns += tide_clock_ns();
        looks++;
    } while (view.tick.counted_bytes != 51 * MIB * 1024 && looks < 100);
    assert_int_equal(view.tick.counted_bytes, 51 * MIB * 1024);
    assert_true(view.cost_ns > 0);
    open_reader();
    struct tide_tick tick = last_tick();
    assert_int_equal(tick.id, view.tick.id);
    /* the moment of reading, which is later than that of beginning to look */
    assert_true(tick.t_ns > looks * second_ns && tick.t_ns < looks * second_ns + took_ns);
    assert_int_equal(tick.processes, 2);
    assert_int_equal(tick.pss_known_bytes, 63 * MIB * 1024);
    assert_int_equal(tick.available_bytes, 8388608L * 1024);
    struct found child = process(200);
    assert_string_equal(child.name, "python");
    assert_string_equal(child.command, "python t.py");
    assert_string_equal(child.role, "t.py");
    assert_int_equal(child.row.parent, process(100).row.id);
    assert_int_equal(child.row.start_ticks, 9);
    assert_int_equal(child.row.ended_ns, TIDE_UNKNOWN);
    assert_int_equal(child.row.peak_rss_bytes, 51 * MIB * 1024);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, count_samples, &samples, &err), 0);
    assert_int_equal(samples, 2); /* nothing changed after the first look */
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SMAPS, 0, note_smaps, smaps, &err), 0);
    assert_int_equal(smaps[process(100).row.id].pss_bytes, 11 * MIB * 1024);
    assert_int_equal(smaps[child.row.id].pss_bytes, 40 * MIB * 1024);
    assert_int_equal(smaps[child.row.id].pss_shmem_bytes, MIB / 2 * 1024);
}

static void ends_are_recorded_and_the_tree_can_be_seen_to_have_ended(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .start = 9});
    begin();
    look();
    fake_kill(200);
    look();
    assert_int_equal(view.tick.processes, 1);
    fake_kill(100);
    look();
    assert_int_equal(view.tick.processes, 0);
    look();
    open_reader();
    assert_int_equal(process(200).row.ended_ns, 2 * second_ns);
    assert_int_equal(process(100).row.ended_ns, 3 * second_ns);
}

static void a_child_keeps_its_place_when_its_parent_ends(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .start = 9});
    fake_put(&(struct fake_process){.pid = 300, .parent = 200, .start = 11});
    begin();
    look();
    fake_kill(200);
    fake_put(&(struct fake_process){.pid = 300, .parent = 1, .start = 11});
    look();
    open_reader();
    assert_int_equal(process(300).row.parent, process(200).row.id);
    fake_put(&(struct fake_process){.pid = 300, .parent = 100, .start = 11}); /* a member adopts it */
    look();
    open_reader();
    assert_int_equal(process(300).row.parent, process(100).row.id);
}

/* A child of the program before an exec stays that one's; children of the next are its own. Of those that are
 * first seen with the exec, one that still has the stack of the program before was forked by it. */
static void children_keep_their_place_when_their_parent_becomes_another_program(void **state)
{
    (void)state;
    struct fake_process parent = {.pid = 100, .parent = 1, .start = 7, .stack = 100, .name = "sh", .anon = 9};
    fake_put(&parent);
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .start = 9});
    begin();
    look();
    parent.stack = 200;
    parent.name = "python3";
    fake_put(&parent);
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .start = 9, .name = "renamed"});
    struct fake_process by_sh = {.pid = 300, .parent = 100, .start = 11, .stack = 100};
    fake_put(&by_sh);
    fake_put(&(struct fake_process){.pid = 310, .parent = 100, .start = 11, .stack = 200});
    fake_put(&(struct fake_process){.pid = 320, .parent = 100, .start = 11, .stack = 320});
    look();
    by_sh.stack = 330;
    by_sh.name = "sleep";
    fake_put(&by_sh);
    fake_put(&(struct fake_process){.pid = 400, .parent = 100, .start = 13});
    look();
    parent.stack = 300;
    parent.name = "java";
    fake_put(&parent);
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .start = 9, .name = "again"});
    by_sh.name = "awake";
    fake_put(&by_sh);
    look();
    open_reader();
    struct found last = process(100);
    assert_int_equal(last.count, 3);
    assert_string_equal(last.name, "java");
    assert_int_equal(last.row.parent, 0);
    assert_int_equal(tide_sense_process_id(sense, 100, 7), last.row.id);
    assert_int_equal(tide_sense_process_at(sense, 100, 7, now_ns), last.row.id);
    assert_int_equal(tide_sense_process_at(sense, 100, 7, now_ns - 1), process(400).row.parent);
    assert_int_equal(process(200).row.parent, 1);
    assert_string_equal(process(200).name, "again");
    assert_int_equal(process(300).row.parent, 1);
    assert_string_equal(process(300).name, "awake");
    assert_true(process(400).row.parent > 1 && process(400).row.parent < last.row.id);
    assert_int_equal(process(310).row.parent, process(400).row.parent);
    assert_int_equal(process(320).row.parent, process(400).row.parent); /* that of the process as it is */
    assert_int_equal(view.tick.processes, 6);
}

static void a_process_in_a_namespace_of_its_own_is_found_by_the_pid_it_knows(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .inner = 1, .start = 9});
    fake_put(&(struct fake_process){.pid = 300, .parent = 200, .inner = 100, .start = 11});
    begin();
    look();
    assert_true(tide_sense_process_id(sense, 200, 9) > 0);
    assert_int_equal(tide_sense_process_id(sense, 1, 9), tide_sense_process_id(sense, 200, 9));
    assert_int_equal(tide_sense_process_id(sense, 100, 11), tide_sense_process_id(sense, 300, 11));
    assert_int_equal(tide_sense_process_id(sense, 1, 11), 0);
}

/* Also where it knows itself by another PID; and no more than there is. */
static void what_the_hook_has_in_a_process_is_taken_off(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7, .anon = 5000, .shmem = 300});
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .inner = 1, .start = 9, .anon = 4000});
    begin();
    look();
    int64_t before = view.tick.rss_bytes;
    tide_sense_hook(sense, 100, 7, 1000 * 1024, 200 * 1024);
    tide_sense_hook(sense, 1, 9, 500 * 1024, 100 * 1024);
    tide_sense_hook(sense, 100, 8, 3000 * 1024, 0); /* there is none with this start */
    look();
    assert_int_equal(before - view.tick.rss_bytes, 1700 * 1024);
    tide_sense_hook(sense, 100, 7, 0, 0);
    look();
    assert_int_equal(before - view.tick.rss_bytes, 500 * 1024);
}

static void a_reused_pid_is_two_processes_and_marks_find_the_right_one(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .start = 9});
    begin();
    look();
    int64_t first = tide_sense_process_id(sense, 200, 9);
    fake_kill(200);
    fake_put(&(struct fake_process){.pid = 200, .parent = 100, .start = 50});
    look();
    int64_t second = tide_sense_process_id(sense, 200, 50);
    assert_true(first > 0 && second > 0 && first != second);
    assert_int_equal(tide_sense_process_id(sense, 200, 9), first);
    assert_int_equal(tide_sense_process_id(sense, 200, 51), 0);
    fake_kill(200);
    for (int i = 0; i < 4; i++)
        look();
    assert_int_equal(tide_sense_process_id(sense, 200, 50), second);
    open_reader();
    assert_int_equal(process(200).count, 2);
}

static void the_peak_that_the_kernel_tells_at_the_end_is_recorded(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7, .anon = 10 * MIB});
    begin();
    look();
    tide_sense_reaped(sense, 100, 77 * MIB * 1024L);
    tide_sense_reaped(sense, 100, 5);
    tide_sense_reaped(sense, 4242, 5); /* nobody */
    fake_kill(100);
    look();
    open_reader();
    assert_int_equal(process(100).row.peak_rss_bytes, 77 * MIB * 1024L);
}

/* What wait4() tells is the highest of all programs that the process was. */
static void a_peak_that_is_known_at_the_end_is_not_that_of_a_program_after_an_exec(void **state)
{
    (void)state;
    struct fake_process p = {.pid = 100, .parent = 1, .start = 7, .stack = 100, .anon = 10 * MIB};
    fake_put(&p);
    begin();
    look();
    p.stack = 200;
    p.anon = MIB;
    fake_put(&p);
    look();
    tide_sense_reaped(sense, 100, 77 * MIB * 1024L);
    open_reader();
    assert_int_equal(process(100).count, 2);
    assert_int_equal(process(100).row.peak_rss_bytes, MIB * 1024L);
}

static void a_peak_that_rises_is_written_now_and_then(void **state)
{
    (void)state;
    struct fake_process grower = {.pid = 100, .parent = 1, .start = 7, .anon = 10 * MIB};
    fake_put(&grower);
    begin();
    look();
    grower.anon = 20 * MIB;
    fake_put(&grower);
    for (int i = 0; i < 11; i++)
        look();
    open_reader();
    assert_int_equal(process(100).row.peak_rss_bytes, 20 * MIB * 1024L);
}

static void finishing_closes_what_still_runs(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    begin();
    look();
    assert_int_equal(tide_sense_finish(sense, writer, now_ns + second_ns, &err), 0);
    open_reader();
    assert_int_equal(process(100).row.ended_ns, 2 * second_ns);
}

static void limits_are_recorded_by_name_when_they_come_and_go(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7, .anon = 100 * MIB});
    begin();
    look();
    fake_write("100/cgroup", "0::/job\n");
    fake_write("cg/cgroup.procs", "\n");
    fake_write("cg/job/cgroup.procs", "100\n");
    fake_write("cg/job/memory.max", "%ld\n", 4096L * MIB * 1024);
    fake_write("cg/job/memory.current", "12345\n");
    for (int i = 0; i < 6; i++)
        look();
    open_reader();
    assert_int_equal(last_tick().cgroup_bytes, 12345);
    struct text_rows rows = limits();
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.text[0], "host memory");
    assert_int_equal(rows.bytes[0], (8192L + 64) * MIB * 1024); /* 8 GiB and 100 MiB, rounded down */
    assert_string_equal(rows.text[1], "cgroup /job memory.max");
    assert_int_equal(rows.bytes[1], 4096L * MIB * 1024);
    fake_write("cg/job/memory.max", "max\n");
    for (int i = 0; i < 6; i++)
        look();
    open_reader();
    rows = limits();
    assert_int_equal(rows.count, 3);
    assert_string_equal(rows.text[2], "cgroup /job memory.max");
    assert_int_equal(rows.bytes[2], TIDE_UNKNOWN);
}

static void a_limit_that_was_asked_for_is_recorded(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    begin_with(1 << 30);
    look();
    open_reader();
    struct text_rows rows = limits();
    assert_string_equal(rows.text[0], "--limit");
    assert_int_equal(rows.bytes[0], 1 << 30);
}

static void the_limit_of_the_host_is_written_again_only_when_it_moved(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    begin();
    for (int i = 0; i < 10; i++) {
        fake_write("meminfo", "MemTotal: 16777216 kB\nMemAvailable: %d kB\n", 8388608 - i * 30000);
        look();
    }
    open_reader();
    assert_int_equal(limits().count, 1);
    fake_write("meminfo", "MemTotal: 16777216 kB\nMemAvailable: 4194304 kB\n");
    look();
    open_reader();
    struct text_rows rows = limits();
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.bytes[1], 4096L * MIB * 1024);
}

static void limits_of_a_process_are_recorded(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    fake_write("100/limits", "Max data size             unlimited            unlimited            bytes\n"
                             "Max address space         2147483648           unlimited            bytes\n");
    begin();
    look();
    open_reader();
    struct text_rows rows = limits();
    assert_int_equal(rows.count, 2);
    assert_true(strstr(rows.text[0], "rlimit AS") || strstr(rows.text[1], "rlimit AS"));
}

/* A shell sets it and becomes the program, within the first seconds. */
static void a_limit_that_a_process_gets_at_its_start_is_recorded(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    fake_write("100/limits", "Max address space         unlimited            unlimited            bytes\n");
    begin();
    look();
    fake_write("100/limits", "Max address space         2147483648           unlimited            bytes\n");
    look();
    open_reader();
    struct text_rows rows = limits();
    assert_int_equal(rows.count, 2);
    assert_true(strstr(rows.text[0], "rlimit AS") || strstr(rows.text[1], "rlimit AS"));
}

static void kills_and_hits_of_the_limit_become_notes(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    fake_write("100/cgroup", "0::/job\n");
    fake_write("cg/cgroup.procs", "\n");
    fake_write("cg/job/cgroup.procs", "100\n");
    fake_write("cg/job/memory.max", "5000000\n");
    fake_write("cg/job/memory.high", "4194304\n");
    fake_write("cg/job/memory.events", "max 3\noom_kill 5\n");
    begin();
    look();
    look();
    open_reader();
    assert_int_equal(notes().count, 1); /* what was so before is no news */
    assert_string_equal(notes().text[0],
                        "cgroup /job memory.high is 4.0 MiB: above it the kernel slows the group down");
    fake_write("cg/job/memory.events", "max 6\noom_kill 7\n");
    look();
    fake_write("cg/job/memory.events", "max 7\noom_kill 7\n");
    look(); /* one more hit is no news either */
    open_reader();
    struct text_rows rows = notes();
    assert_int_equal(rows.count, 3);
    assert_string_equal(rows.text[1],
                        "the kernel killed 2 processes of cgroup /job for lack of memory (oom_kill)");
    assert_int_equal(rows.bytes[1], 2);
    assert_int_equal(rows.bytes[2], 0);
    assert_string_equal(rows.text[2], "the limit cgroup /job memory.max was reached (6 times so far)");
}

static void kills_before_the_program_came_into_a_group_are_not_its_own(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7});
    fake_write("100/cgroup", "0::/shell\n");
    fake_write("cg/cgroup.procs", "\n");
    fake_write("cg/shell/cgroup.procs", "100\n");
    fake_write("cg/shell/memory.events", "max 0\noom_kill 0\n");
    fake_write("cg/job/cgroup.procs", "\n");
    fake_write("cg/job/memory.events", "max 9\noom_kill 7\n");
    begin();
    look();
    fake_write("cg/shell/memory.events", "max 0\noom_kill 1\n");
    fake_write("100/cgroup", "0::/job\n");
    look();
    open_reader();
    assert_int_equal(notes().count, 1); /* of the group that it was in */
    assert_string_equal(notes().text[0],
                        "the kernel killed 1 process of cgroup /shell for lack of memory (oom_kill)");
    fake_write("cg/job/memory.events", "max 9\noom_kill 8\n");
    look();
    open_reader();
    assert_int_equal(notes().count, 2);
    assert_string_equal(notes().text[1],
                        "the kernel killed 1 process of cgroup /job for lack of memory (oom_kill)");
}

static void a_process_that_may_not_be_read_is_noted_once_and_escaped(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7, .name = "a\033[2Jb"});
    begin();
    fake_write("100/status", "nonsense\n");
    for (int i = 0; i < 3; i++)
        look();
    assert_int_equal(view.tick.processes, 1);
    open_reader();
    struct text_rows rows = notes();
    assert_int_equal(rows.count, 1);
    assert_string_equal(rows.text[0], "no permission to read the counters of a\\x1b[2Jb[100]");
}

static void many_processes_are_recorded(void **state)
{
    (void)state;
    const int processes = is_long() ? 5000 : 1000;
    int samples = 0;
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7, .anon = 4});
    for (int i = 1; i < processes; i++)
        fake_put(&(struct fake_process){.pid = 1000000000 + i, .parent = 100, .start = 9, .anon = 4});
    begin();
    look();
    look();
    assert_int_equal(view.tick.processes, processes);
    assert_int_equal(view.tick.rss_bytes, processes * 4096);
    open_reader();
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, count_samples, &samples, &err), 0);
    assert_int_equal(samples, processes);
}

static void a_full_disk_is_reported_once_and_looking_goes_on(void **state)
{
    (void)state;
    struct rlimit before, small;
    struct fake_process grower = {.pid = 100, .parent = 1, .start = 7};
    int failures = 0;
    fake_put(&grower);
    begin();
    look();
    assert_int_equal(tide_writer_commit(writer, &err), 0);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 64 * 1024;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    for (int i = 0; i < 2000; i++) {
        grower.anon = 1000 + i;
        fake_status(&grower);
        now_ns += second_ns;
        failures += tide_sense_look(sense, writer, now_ns, &view, &err) != 0;
        failures += tide_writer_commit(writer, &err) != 0;
        assert_int_equal(view.tick.rss_bytes, grower.anon * 1024);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(failures, 1);
}

static int keep_shared(void *context, const void *given)
{
    const struct tide_mark *mark = given;
    if (mark->kind != TIDE_MARK_GAUGE || mark->source != TIDE_SOURCE_TRACKER)
        return 0;
    assert_string_equal(mark->name, TIDE_GAUGE_SHARED);
    int64_t *bytes = context;
    for (; *bytes != -1; bytes++)
        ;
    bytes[0] = mark->number;
    bytes[1] = -1;
    return 0;
}

/* So much later that the segments are read again, whatever that costs: under valgrind it takes long. */
static void look_later(void)
{
    now_ns += 99 * second_ns;
    look();
}

static void shared_memory_is_a_gauge_of_the_trackers(void **state)
{
    (void)state;
    static char page[4096];
    char shm[128], maps[256], path[160];
    struct stat info;
    snprintf(shm, sizeof shm, "%s/shm", fake_root);
    snprintf(path, sizeof path, "%s/mapped", shm);
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7, .anon = 4 * MIB, .shmem = 4096});
    fake_write_bytes("shm/mapped", page, sizeof page);
    assert_int_equal(stat(path, &info), 0);
    snprintf(maps, sizeof maps, "7f00-7f01 rw-s 00000000 00:1a %llu %s\n", (unsigned long long)info.st_ino,
             path);
    struct tide_sense_config config = config_for(100);
    config.shared_path = shm;
    assert_int_equal(tide_writer_new(recording, &writer, &err), 0);
    assert_int_equal(tide_sense_new(&config, &sense, &err), 0);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "shm/batch_100_%d", i); /* the tree's, by its name */
        fake_write_bytes(name, page, sizeof page);
        snprintf(name, sizeof name, "shm/batch_1000_%d", i); /* a neighbour's */
        fake_write_bytes(name, page, sizeof page);
        look_later();
    }
    fake_remove("shm/batch_100_0");
    look_later();
    fake_write_bytes("100/maps", maps, strlen(maps));
    look_later(); /* the tree's, by its use, */
    fake_remove("100/maps");
    look_later(); /* and stays so, said again though nothing is new */
    now_ns -= second_ns - 100 * 1000 * 1000;
    look(); /* but not at once */
    open_reader();
    int64_t bytes[16] = {-1}, one = (int64_t)info.st_blocks * 512;
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_MARK, 0, keep_shared, bytes, &err), 0);
    static const int told[] = {1, 2, 3, 2, 3, 3};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(bytes[i], told[i] * one);
    assert_int_equal(bytes[6], -1);
}

/* Segments that are closed before anybody looks, and whose names tell no PID. */
static void segments_are_the_trees_by_names_that_only_it_uses(void **state)
{
    (void)state;
    static char page[4096];
    char shm[128], ours[192], theirs[192], link[192];
    struct stat info;
    snprintf(shm, sizeof shm, "%s/shm", fake_root);
    snprintf(ours, sizeof ours, "%s/psm_b2", shm);
    snprintf(theirs, sizeof theirs, "%s/psm_x9", shm);
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7, .anon = 4 * MIB});
    fake_put(&(struct fake_process){.pid = 300, .parent = 1, .start = 7, .anon = 4 * MIB});
    fake_write_bytes("100/fd/0", "", 0);
    fake_write_bytes("300/fd/0", "", 0);
    fake_write_bytes("shm/psm_a1", page, sizeof page); /* there before */
    struct tide_sense_config config = config_for(100);
    config.shared_path = shm;
    assert_int_equal(tide_writer_new(recording, &writer, &err), 0);
    assert_int_equal(tide_sense_new(&config, &sense, &err), 0);
    look();
    fake_write_bytes("shm/psm_b2", page, sizeof page);
    fake_write_bytes("shm/psm_c3", page, sizeof page);
    fake_write_bytes("shm/other_c3", page, sizeof page);
    assert_int_equal(stat(ours, &info), 0);
    look(); /* nobody knows whose they are */
    snprintf(link, sizeof link, "%s/100/fd/3", fake_root);
    assert_int_equal(symlink(ours, link), 0);
    look(); /* the tree has one of them open: two are its own */
    assert_int_equal(unlink(link), 0);
    fake_write_bytes("shm/psm_d4", page, sizeof page);
    look();
    fake_write_bytes("shm/psm_x9", page, sizeof page);
    snprintf(link, sizeof link, "%s/300/fd/3", fake_root);
    assert_int_equal(symlink(theirs, link), 0);
    look(); /* others have such names too */
    open_reader();
    int64_t bytes[16] = {-1}, one = (int64_t)info.st_blocks * 512;
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_MARK, 0, keep_shared, bytes, &err), 0);
    static const int told[] = {2, 3, 3};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(bytes[i], told[i] * one);
    assert_int_equal(bytes[3], -1);
}

static void what_a_thread_gets_of_a_processor_is_recorded(void **state)
{
    (void)state;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    fake_put(&(struct fake_process){.pid = 100, .parent = 1, .start = 7, .anon = 4});
    fake_write("loadavg", "9.00 9.00 9.00 %ld/900 100\n", 4 * processors + 1); /* and the one who reads it */
    begin();
    look();
    open_reader();
    assert_int_equal(last_tick().share_ppm, 250000);
}

static void a_root_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct tide_sense_config config = config_for(4242);
    assert_int_equal(tide_sense_new(&config, &sense, &err), -1);
    assert_string_equal(err.text, "there is no process 4242");
    sense = NULL;
}

#if HAVE_FAILING_MALLOC
static void whichever_allocation_fails_nothing_breaks(void **state)
{
    (void)state;
    if (getenv("TIDEMARK_VALGRIND")) /* which has a malloc of its own, that does not fail */
        skip();
    struct tide_sense_config config = config_for(100);
    for (int i = 0; i < 40; i++)
        fake_put(&(struct fake_process){.pid = 100 + i,
                                        .parent = i ? 100 : 1,
                                        .start = 7,
                                        .anon = 4 * MIB,
                                        .pss = 2 * MIB,
                                        .uss = 1 * MIB});
    assert_int_equal(tide_writer_new(recording, &writer, &err), 0);
    bool failed = true;
    int rounds = 0;
    for (; failed && rounds < 3000; rounds++) {
        failing_arm(rounds);
        struct tide_sense *fragile = NULL;
        if (tide_sense_new(&config, &fragile, &err) == 0)
            for (int i = 0; i < 2; i++) {
                now_ns += second_ns;
                tide_sense_look(fragile, writer, now_ns, &view, &err);
            }
        failed = failing_disarm();
        tide_sense_free(fragile);
    }
    assert_false(failed); /* the last round had all it asked for */
    assert_true(rounds > 20);
    assert_int_equal(view.tick.processes, 40);
}
#endif

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_tree_is_recorded_with_its_processes_and_sums),
        TEST(ends_are_recorded_and_the_tree_can_be_seen_to_have_ended),
        TEST(a_child_keeps_its_place_when_its_parent_ends),
        TEST(children_keep_their_place_when_their_parent_becomes_another_program),
        TEST(what_the_hook_has_in_a_process_is_taken_off),
        TEST(a_reused_pid_is_two_processes_and_marks_find_the_right_one),
        TEST(a_process_in_a_namespace_of_its_own_is_found_by_the_pid_it_knows),
        TEST(the_peak_that_the_kernel_tells_at_the_end_is_recorded),
        TEST(a_peak_that_is_known_at_the_end_is_not_that_of_a_program_after_an_exec),
        TEST(a_peak_that_rises_is_written_now_and_then),
        TEST(finishing_closes_what_still_runs),
        TEST(limits_are_recorded_by_name_when_they_come_and_go),
        TEST(a_limit_that_was_asked_for_is_recorded),
        TEST(the_limit_of_the_host_is_written_again_only_when_it_moved),
        TEST(limits_of_a_process_are_recorded),
        TEST(a_limit_that_a_process_gets_at_its_start_is_recorded),
        TEST(kills_and_hits_of_the_limit_become_notes),
        TEST(kills_before_the_program_came_into_a_group_are_not_its_own),
        TEST(a_process_that_may_not_be_read_is_noted_once_and_escaped),
        TEST(many_processes_are_recorded),
        TEST(a_full_disk_is_reported_once_and_looking_goes_on),
        TEST(shared_memory_is_a_gauge_of_the_trackers),
        TEST(segments_are_the_trees_by_names_that_only_it_uses),
        TEST(what_a_thread_gets_of_a_processor_is_recorded),
        TEST(a_root_that_is_not_there_is_refused),
#if HAVE_FAILING_MALLOC
        TEST(whichever_allocation_fails_nothing_breaks),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
