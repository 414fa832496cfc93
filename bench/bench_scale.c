/*
 * bench_scale.c - what a verdict costs when a run is long, when many processes came and went, and when a
 * recording is full of marks: seconds and memory of `tidemark judge` on recordings made for it. What is asked
 * is held against processor time, which other programs hardly change; it has one thread. Of the largest also
 * how long `tidemark watch` takes to leave when `q` is pressed at whatever it is doing.
 *
 *   bench_scale TIDEMARK                              the curve; exits 1 when a line misses what is asked
 *   bench_scale --make FILE HOURS ALIVE SEEN GAUGES LIMITS   one such recording, for a profiler
 *
 * Looks come at 4 Hz. Every process changes at every look, and as many of them are read with smaps_rollup as
 * the tracker's budget allows for small ones, which is the most that a tracker ever writes.
 */
#include "base/clock.h"
#include "record/writer.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HZ = 4, SMAPS_PER_LOOK = 5, STEP_LOOKS = 8, COMMIT_LOOKS = 4096, WATCHED = 100, MIB = 1 << 20 };

struct scale {
    const char *what;
    double hours;
    int alive;               /* processes that live from the beginning to the end */
    int seen;                /* helpers that come and go, one after the other, in two roles */
    int gauges;              /* names, each told 8 times */
    int limits;              /* rows */
    double most_s, most_mib; /* what is asked of `judge`; 0: nothing */
};

static const struct scale curve[] = {
    {"1 h", 1, 1, 0, 0, 0, 0, 0},
    {"4 h", 4, 1, 0, 0, 0, 0, 0},
    {"8 h", 8, 1, 0, 0, 0, 0, 0},
    {"16 h", 16, 1, 0, 0, 0, 0, 0},
    {"24 h", 24, 1, 0, 0, 0, 3, 0},
    {"a week", 168, 1, 0, 0, 0, 20, 0},
    {"24 h, 10 processes", 24, 10, 0, 0, 0, 20, 0},
    {"24 h, 100 processes", 24, 100, 0, 0, 0, 20, 0},
    {"1,000 processes ever seen", 12, 1, 1000, 0, 0, 0, 300},
    {"10,000 processes ever seen", 12, 1, 10000, 0, 0, 0, 300},
    {"100,000 processes ever seen", 12, 1, 100000, 0, 0, 0, 300},
    {"20,000 gauges", 1, 1, 0, 20000, 0, 3, 0},
    {"100,000 limits", 1, 1, 0, 0, 100000, 3, 0},
};

static void or_die(int result, const struct tide_err *err)
{
    if (result == 0)
        return;
    fprintf(stderr, "bench_scale: %s\n", err->text);
    exit(2);
}

/* Pages of a process at a look: a slow wave and noise. The same for the same arguments. */
static int64_t level(int64_t process, int64_t look)
{
    uint64_t noise = (uint64_t)(process * 1000003 + look) * UINT64_C(0x9e3779b97f4a7c15);
    double wave = sin((double)look / 2400 + (double)process);
    return (int64_t)1 << 28 | ((int64_t)(1000 * (wave + 1)) + (int64_t)(noise >> 55)) << 12;
}

static int64_t add_process(struct tide_writer *writer, int64_t pid, const char *role, int64_t began_ns,
                           int64_t ended_ns)
{
    struct tide_process process = {.pid = pid,
                                   .parent = pid > 1000 ? 1 : 0,
                                   .start_ticks = pid,
                                   .name = role,
                                   .command = "python train.py --batch 8",
                                   .role = role,
                                   .began_ns = began_ns,
                                   .ended_ns = ended_ns,
                                   .peak_rss_bytes = (int64_t)1 << 29};
    struct tide_err err;
    int64_t id;
    or_die(tide_writer_process(writer, &process, &id, &err), &err);
    return id;
}

static void add_counters(struct tide_writer *writer, int64_t tick, int64_t process, int64_t look, bool smaps)
{
    struct tide_err err;
    int64_t anon = level(process, look);
    struct tide_sample sample = {
        .tick = tick, .process = process, .anon_bytes = anon, .file_bytes = 20 * MIB, .threads = 4};
    or_die(tide_writer_sample(writer, &sample, &err), &err);
    struct tide_smaps read = {
        .tick = tick, .process = process, .pss_bytes = anon + 5 * MIB, .uss_bytes = anon, .cost_ns = 500000};
    if (smaps)
        or_die(tide_writer_smaps(writer, &read, &err), &err);
}

/* The helpers that are there at a look: about seen / looks begin at each, and live for 8 looks. */
static void add_helpers(struct tide_writer *writer, const struct scale *s, int64_t tick, int64_t look,
                        int64_t looks)
{
    enum { LIVES = 8 };
    for (int64_t i = s->seen * look / looks; i < s->seen * (look + 1) / looks; i++)
        add_process(writer, 2000 + i, i % 3 ? "helper" : "compiler", look * TIDE_NS_PER_S / HZ,
                    (look + LIVES) * TIDE_NS_PER_S / HZ);
    int64_t first = s->seen * (look > LIVES ? look - LIVES + 1 : 0) / looks;
    for (int64_t i = first; i < s->seen * (look + 1) / looks; i++)
        add_counters(writer, tick, s->alive + 1 + i, look, look % 4 == 0);
}

static void add_look(struct tide_writer *writer, const struct scale *s, int64_t look, int64_t looks)
{
    struct tide_err err;
    int64_t sum = 0, id;
    for (int i = 1; i <= s->alive; i++)
        sum += level(i, look);
    struct tide_tick tick = {.t_ns = (look + 1) * TIDE_NS_PER_S / HZ,
                             .processes = s->alive,
                             .rss_bytes = sum + 20 * (int64_t)MIB * s->alive,
                             .counted_bytes = sum + 5 * (int64_t)MIB * s->alive,
                             .pss_known_bytes = sum,
                             .cgroup_bytes = TIDE_UNKNOWN,
                             .cgroup_peak_bytes = TIDE_UNKNOWN,
                             .pressure_ppm = TIDE_UNKNOWN,
                             .available_bytes = (int64_t)1 << 36};
    or_die(tide_writer_tick(writer, &tick, &id, &err), &err);
    for (int i = 0; i < s->alive; i++) {
        int64_t turn = (look * SMAPS_PER_LOOK) % s->alive;
        add_counters(writer, id, i + 1, look, (i - turn + s->alive) % s->alive < SMAPS_PER_LOOK);
    }
    if (s->seen)
        add_helpers(writer, s, id, look, looks);
    struct tide_mark step = {tick.t_ns, 1, TIDE_MARK_STEP, TIDE_SOURCE_PROGRAM, look / STEP_LOOKS, ""};
    if (look % STEP_LOOKS == 0)
        or_die(tide_writer_mark(writer, &step, &err), &err);
    if (look % COMMIT_LOOKS == 0)
        or_die(tide_writer_commit(writer, &err), &err);
}

static void add_lists(struct tide_writer *writer, const struct scale *s, int64_t end_ns)
{
    struct tide_err err;
    char name[32];
    for (int64_t i = 0; i < 8 * (int64_t)s->gauges; i++) {
        snprintf(name, sizeof name, "gauge %lld", (long long)(i % s->gauges));
        struct tide_mark mark = {end_ns / 8 * (i / s->gauges), 1,        TIDE_MARK_GAUGE,
                                 TIDE_SOURCE_PROGRAM,          i * 4096, name};
        or_die(tide_writer_mark(writer, &mark, &err), &err);
    }
    for (int64_t i = 0; i < s->limits; i++) {
        snprintf(name, sizeof name, "cgroup /job-%lld memory.max", (long long)i);
        struct tide_limit limit = {i, name, ((int64_t)1 << 40) - i};
        or_die(tide_writer_limit(writer, &limit, &err), &err);
    }
}

static void make(const char *path, const struct scale *s)
{
    struct tide_writer *writer;
    struct tide_err err;
    int64_t looks = (int64_t)(s->hours * 3600 * HZ);
    or_die(tide_writer_new(path, &writer, &err), &err);
    for (int i = 0; i < s->alive; i++)
        add_process(writer, i ? 1000 + i : 1000, "python", 0, TIDE_UNKNOWN);
    for (int64_t look = 0; look < looks; look++)
        add_look(writer, s, look, looks);
    add_lists(writer, s, looks * TIDE_NS_PER_S / HZ);
    or_die(tide_writer_meta_integer(writer, TIDE_META_ENDED, looks * TIDE_NS_PER_S / HZ, &err), &err);
    or_die(tide_writer_meta_integer(writer, TIDE_META_EXIT, 0, &err), &err);
    or_die(tide_writer_free(writer, &err), &err);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Runs `tidemark judge FILE` and waits for it. Returns its exit status. */
static int judge(const char *tidemark, const char *path, double *ret_wall_s, double *ret_cpu_s,
                 double *ret_mib)
{
    int64_t began = tide_clock_ns();
    struct rusage usage;
    int status;
    pid_t child = fork();
    if (child == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDOUT_FILENO);
        execl(tidemark, tidemark, "judge", path, (char *)NULL);
        perror(tidemark);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child) {
        perror("bench_scale");
        exit(2);
    }
    *ret_wall_s = (double)(tide_clock_ns() - began) / 1e9;
    *ret_cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    *ret_mib = (double)usage.ru_maxrss / 1024;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Takes what the view draws, for so long or until it has ended. Returns whether it has. */
static bool look_on(int terminal, double seconds)
{
    char drawn[4096];
    int64_t until = tide_clock_ns() + (int64_t)(seconds * 1e9);
    for (int64_t now = tide_clock_ns(); now < until; now = tide_clock_ns()) {
        struct pollfd fd = {.fd = terminal, .events = POLLIN};
        poll(&fd, 1, (int)((until - now) / TIDE_NS_PER_MS) + 1);
        if (fd.revents && read(terminal, drawn, sizeof drawn) <= 0)
            return true;
    }
    return false;
}

/* Seconds from the key `q`, pressed after so many, to the end of `tidemark watch FILE`. */
static double leave(const char *tidemark, const char *path, double after_s)
{
    struct winsize size = {.ws_row = 40, .ws_col = 132};
    int terminal, status;
    pid_t child = forkpty(&terminal, NULL, NULL, &size);
    if (child == 0) {
        setenv("TERM", "xterm", 1);
        execl(tidemark, tidemark, "watch", path, (char *)NULL);
        _exit(127);
    }
    bool ended = child < 0 || look_on(terminal, after_s) || write(terminal, "q", 1) != 1;
    int64_t pressed = tide_clock_ns();
    if (ended || !look_on(terminal, 600) || waitpid(child, &status, 0) != child || status) {
        fprintf(stderr, "bench_scale: '%s watch' failed\n", tidemark);
        exit(2);
    }
    close(terminal);
    return (double)(tide_clock_ns() - pressed) / 1e9;
}

static bool measure_leaving(const char *tidemark, const char *path)
{
    static const double moments[] = {0.1, 1, 3, 5, 8, 12, 16, 20, 25, 30};
    enum { MOMENTS = sizeof moments / sizeof *moments };
    const double asked_s = 1;
    double worst_s = 0;
    for (int i = 0; i < MOMENTS; i++)
        worst_s = fmax(worst_s, leave(tidemark, path, moments[i]));
    bool ok = worst_s < asked_s;
    printf("%-28s watch: q leaves within %.2f s, the worst of %d moments up to 30 s  asked: %.0f s%s\n", "",
           worst_s, MOMENTS, asked_s, ok ? "" : "  MISSED");
    return ok;
}

static bool measure(const char *tidemark, const struct scale *s)
{
    char path[64];
    struct stat about = {0};
    double wall_s, cpu_s, mib;
    snprintf(path, sizeof path, "/tmp/bench_scale.%d.tide", (int)getpid());
    make(path, s);
    stat(path, &about);
    int status = judge(tidemark, path, &wall_s, &cpu_s, &mib);
    bool ok = (status == 0 || status == 3) && /* nothing in them leaks */
              (s->most_s == 0 || cpu_s <= s->most_s) && (s->most_mib == 0 || mib <= s->most_mib);
    char asked[64] = "";
    if (s->most_s > 0)
        snprintf(asked, sizeof asked, "  asked: %.0f s", s->most_s);
    if (s->most_mib > 0)
        snprintf(asked, sizeof asked, "  asked: %.0f MiB", s->most_mib);
    printf("%-28s %8.1f MB   judge %6.2f s of processor time, %6.2f s in all, %5.0f MiB, exit %d%s%s\n",
           s->what, (double)about.st_size / 1e6, cpu_s, wall_s, mib, status, asked, ok ? "" : "  MISSED");
    fflush(stdout);
    ok = (s->alive < WATCHED || measure_leaving(tidemark, path)) && ok;
    unlink(path);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc == 8 && !strcmp(argv[1], "--make")) {
        struct scale s = {.hours = atof(argv[3]),
                          .alive = atoi(argv[4]),
                          .seen = atoi(argv[5]),
                          .gauges = atoi(argv[6]),
                          .limits = atoi(argv[7])};
        make(argv[2], &s);
        return 0;
    }
    if (argc != 2) {
        fprintf(stderr, "usage: bench_scale TIDEMARK\n");
        return 2;
    }
    bool ok = true;
    for (size_t i = 0; i < sizeof curve / sizeof *curve; i++)
        ok = measure(argv[1], &curve[i]) && ok;
    return ok ? 0 : 1;
}
