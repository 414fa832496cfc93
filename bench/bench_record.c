/*
 * bench_record.c - how fast a recording grows: 10 processes at 4 Hz, every counter different at every tick.
 *
 * Prints the size of the file and its log, minute by minute, and KB (1000 bytes) per minute after the first.
 * Exits 1 when the growth is over the budget of 200 KB per minute. Also prints what a tick costs the tracker.
 */
#include "base/clock.h"
#include "record/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROCESSES = 10, HZ = 4, MINUTES = 30, BUDGET = 200 * 1000 };

static void or_die(int result, const struct tide_err *err)
{
    if (result == 0)
        return;
    fprintf(stderr, "bench_record: %s\n", err->text);
    exit(2);
}

static long size_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? (long)status.st_size : 0;
}

/* A few pages up or down, as real processes do. */
static int64_t wander(int64_t *value)
{
    *value += (random() % 200 - 95) * 4096;
    if (*value < 4096)
        *value = 4096;
    return *value;
}

static void write_tick(struct tide_writer *writer, int64_t number, int64_t counters[PROCESSES][5])
{
    struct tide_err err;
    struct tide_tick tick = {.t_ns = number * (TIDE_NS_PER_S / HZ) + random() % 100000,
                             .processes = PROCESSES,
                             .rss_bytes = 9000000000 + number * 4096,
                             .counted_bytes = 8000000000 + number * 4096,
                             .pss_known_bytes = 7000000000,
                             .cgroup_bytes = 9000000000 + random() % 100000 * 4096,
                             .cgroup_peak_bytes = 9900000000,
                             .pressure_ppm = random() % 1000,
                             .available_bytes = 50000000000 + random() % 100000 * 4096};
    int64_t id;

    or_die(tide_writer_tick(writer, &tick, &id, &err), &err);
    for (int i = 0; i < PROCESSES; i++) {
        struct tide_sample sample = {.tick = id,
                                     .process = i + 1,
                                     .anon_bytes = wander(&counters[i][0]),
                                     .file_bytes = wander(&counters[i][1]),
                                     .shmem_bytes = wander(&counters[i][2]),
                                     .swap_bytes = wander(&counters[i][3]),
                                     .huge_bytes = wander(&counters[i][4]),
                                     .threads = 10 + random() % 20};
        or_die(tide_writer_sample(writer, &sample, &err), &err);
    }
    if (number % HZ == 0) {
        struct tide_smaps smaps = {.tick = id,
                                   .process = 1 + number / HZ % PROCESSES,
                                   .pss_bytes = 700000000 + random(),
                                   .uss_bytes = 600000000 + random(),
                                   .swap_pss_bytes = 0,
                                   .cost_ns = 1000000 + random() % 1000000};
        struct tide_mark mark = {tick.t_ns, 1, TIDE_MARK_STEP, TIDE_SOURCE_PROGRAM, number / HZ, ""};
        or_die(tide_writer_smaps(writer, &smaps, &err), &err);
        or_die(tide_writer_mark(writer, &mark, &err), &err);
        or_die(tide_writer_commit(writer, &err), &err);
    }
}

int main(void)
{
    char path[64], log[80];
    struct tide_writer *writer;
    struct tide_err err;
    int64_t counters[PROCESSES][5], first_minute = 0, size = 0, spent_ns = 0;

    snprintf(path, sizeof path, "/tmp/bench_record.%d.tide", (int)getpid());
    snprintf(log, sizeof log, "%s-wal", path);
    or_die(tide_writer_new(path, &writer, &err), &err);
    for (int i = 0; i < PROCESSES; i++) {
        struct tide_process process = {.pid = 100000 + i,
                                       .start_ticks = 123456789,
                                       .name = "python",
                                       .command = "python train.py --batch 8",
                                       .role = "python",
                                       .ended_ns = TIDE_UNKNOWN,
                                       .peak_rss_bytes = 1000000000};
        int64_t id;
        or_die(tide_writer_process(writer, &process, &id, &err), &err);
        for (int k = 0; k < 5; k++)
            counters[i][k] = k == 0 ? 8000000000 : 300000000 + random() % 1000000000;
    }
    for (int64_t number = 1; number <= MINUTES * 60 * HZ; number++) {
        int64_t before = tide_clock_ns();
        write_tick(writer, number, counters);
        spent_ns += tide_clock_ns() - before;
        if (number % (60 * HZ) != 0)
            continue;
        size = size_of(path) + size_of(log);
        if (number == 60 * HZ)
            first_minute = size;
        if (number / 60 / HZ <= 3 || number == MINUTES * 60 * HZ)
            printf("minute %2lld: file %7.1f KB + log %5.1f KB\n", (long long)(number / 60 / HZ),
                   size_of(path) / 1e3, size_of(log) / 1e3);
    }
    or_die(tide_writer_free(writer, &err), &err);
    double per_minute = (double)(size - first_minute) / (MINUTES - 1);
    printf("growth: %.1f KB per minute (budget %d KB), %.0f us per tick, finished file %.1f KB\n",
           per_minute / 1e3, BUDGET / 1000, (double)spent_ns / 1e3 / (MINUTES * 60 * HZ),
           size_of(path) / 1e3);
    unlink(path);
    return per_minute <= BUDGET ? 0 : 1;
}
