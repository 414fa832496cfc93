/*
 * bench_sense.c - what looking costs: CPU time of the looker, recording included.
 *
 *     bench_sense [seconds]      default 30; twice that at 1 Hz
 *
 * Makes 64 processes of 40 MiB each, touched, of which every eighth grows and shrinks, and one parent whose
 * pages they share in part, and looks at them at 1 Hz and at 10 Hz with PSS on its budget of 1 %; then at a
 * tree of 5,000 small processes. CPU time is this thread's (CLOCK_THREAD_CPUTIME_ID): reading /proc, smaps
 * and writing the recording with a commit a second, as `tidemark run` does. Exit 1 when a bound is not met.
 */
#include "base/clock.h"
#include "record/reader.h"
#include "sense/sense.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 64, WORKER_MIB = 40, SHARED_MIB = 32, MANY = 5000 };

static int64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * TIDE_NS_PER_S + now.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    struct timespec until = {ns / TIDE_NS_PER_S, ns % TIDE_NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static char *take(size_t mib)
{
    size_t bytes = mib << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(1);
    madvise(memory, bytes, MADV_NOHUGEPAGE); /* small pages: the dear case for smaps */
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = 1;
    return memory;
}

/* One worker. Every eighth moves 8 MiB up and down twice a second. */
static void work(int number)
{
    struct timespec half = {0, 500 * TIDE_NS_PER_MS};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take(WORKER_MIB);
    while (number % 8 == 0) {
        char *extra = take(8);
        nanosleep(&half, NULL);
        munmap(extra, (size_t)8 << 20);
        nanosleep(&half, NULL);
    }
    for (;;)
        pause();
}

/* A parent with count children; says on the pipe when all are made. Does not return. */
static void lead(int count, int ready, bool big)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (big)
        take(SHARED_MIB);
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid < 0)
            _exit(1);
        if (pid == 0) {
            close(ready);
            if (big)
                work(i);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
    }
    if (write(ready, "", 1) != 1)
        _exit(1);
    close(ready);
    for (;;)
        pause();
}

static pid_t start(int count, bool big)
{
    int fds[2];
    char byte;
    if (pipe(fds) != 0)
        exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        lead(count, fds[1], big);
    }
    close(fds[1]);
    if (pid < 0 || read(fds[0], &byte, 1) != 1) {
        fprintf(stderr, "bench_sense: cannot make %d processes\n", count);
        exit(2);
    }
    close(fds[0]);
    return pid;
}

struct result {
    double cpu_share, mean_ms, worst_ms;
    int64_t alive, looks, recording_bytes;
    int64_t reads, reads_ns; /* of smaps_rollup */
};

static int count_read(void *context, const void *given)
{
    const struct tide_smaps *row = given;
    struct result *result = context;
    result->reads++;
    result->reads_ns += row->cost_ns;
    return 0;
}

static void count_reads(const char *path, struct result *result)
{
    struct tide_reader *reader;
    if (tide_reader_new(path, &reader, NULL) != 0)
        return;
    tide_reader_each(reader, TIDE_SCHEMA_SMAPS, 0, count_read, result, NULL);
    tide_reader_free(reader);
}

static struct result measure(pid_t root, int hz, int seconds)
{
    char path[64];
    struct tide_err err = {.text = ""};
    struct tide_sense *sense;
    struct tide_sense_view view = {.cost_ns = 0};
    struct tide_writer *writer;
    int64_t base_ns = tide_clock_ns();
    struct result result = {.looks = (int64_t)hz * seconds};
    struct tide_sense_config config = {
        .root = root,
        .smaps_budget_ppm = 10000,
        .limit_bytes = TIDE_UNKNOWN,
        .proc_path = "/proc",
        .cgroup_path = "/sys/fs/cgroup",
        .base_ns = base_ns,
    };
    snprintf(path, sizeof path, "/tmp/bench_sense.%d.tide", (int)getpid());
    if (tide_writer_new(path, &writer, &err) != 0 || tide_sense_new(&config, &sense, &err) != 0) {
        fprintf(stderr, "bench_sense: %s\n", err.text);
        exit(2);
    }
    int64_t began_ns = tide_clock_ns(), cpu_ns = thread_cpu_ns(), total_ns = 0, worst_ns = 0;
    for (int64_t i = 0; i < result.looks; i++) {
        int64_t look_ns = tide_clock_ns();
        if (tide_sense_look(sense, writer, look_ns, &view, &err) != 0 ||
            ((i + 1) % hz == 0 && tide_writer_commit(writer, &err) != 0)) {
            fprintf(stderr, "bench_sense: %s\n", err.text);
            exit(2);
        }
        look_ns = tide_clock_ns() - look_ns;
        total_ns += look_ns;
        worst_ns = look_ns > worst_ns ? look_ns : worst_ns;
        sleep_until(began_ns + (i + 1) * (TIDE_NS_PER_S / hz));
    }
    cpu_ns = thread_cpu_ns() - cpu_ns;
    result.cpu_share = (double)cpu_ns / (double)(tide_clock_ns() - began_ns);
    result.mean_ms = (double)total_ns / (double)result.looks / 1e6;
    result.worst_ms = (double)worst_ns / 1e6;
    result.alive = view.tick.processes;
    tide_sense_free(sense);
    tide_writer_free(writer, NULL);
    count_reads(path, &result);
    struct stat info;
    result.recording_bytes = stat(path, &info) == 0 ? info.st_size : 0;
    unlink(path);
    return result;
}

/* bound 0: none. */
static int report(const char *what, struct result result, double bound)
{
    bool met = bound == 0 || result.cpu_share < bound;
    printf("%-28s %6.3f %% of one core, %6.2f ms per look (worst %.2f), %" PRId64 " processes, %" PRId64
           " reads of PSS in %.0f ms, %" PRId64 " KiB recorded",
           what, 100 * result.cpu_share, result.mean_ms, result.worst_ms, result.alive, result.reads,
           (double)result.reads_ns / 1e6, result.recording_bytes / 1024);
    if (bound != 0)
        printf("   %s (< %.1f %%)", met ? "met" : "NOT MET", 100 * bound);
    printf("\n");
    fflush(stdout);
    return met ? 0 : 1;
}

static void stop(pid_t root)
{
    kill(root, SIGKILL);
    waitpid(root, NULL, 0);
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 30;
    int failed = 0;
    if (seconds < 1) {
        fprintf(stderr, "usage: bench_sense [seconds]\n");
        return 2;
    }
    pid_t root = start(WORKERS, true);
    failed |= report("64 workers of 40 MiB, 1 Hz", measure(root, 1, 2 * seconds), 0.005);
    failed |= report("64 workers of 40 MiB, 10 Hz", measure(root, 10, seconds), 0.03);
    stop(root);
    root = start(MANY, false);
    report("5,000 processes, 1 Hz", measure(root, 1, seconds < 10 ? seconds : 10), 0);
    stop(root);
    return failed;
}
