#include "cli/track_private.h"

#include "base/clock.h"
#include "base/infile.h"
#include "base/text.h"
#include "cli/preloading.h"
#include "cli/recname.h"
#include "cli/terminal.h"
#include "record/record.h"
#include "sense/proc_parse.h"
#include "sense/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    COST_FACTOR = 50,       /* the time between looks is at least this many times their cost */
    FIRST_INTERVAL_MS = 10, /* then doubled up to the interval, so that a short program is seen too */
    COMMIT_MS = 1000,
    STATUS_MS = 500,  /* a program that ends sooner gets no status line */
    LINGER_MS = 1000, /* how long descendants may outlive the command before the user is told */
    COMMAND_TEXT = 16 * 1024,
    STATUS_TEXT = 32 * 1024,
    SETTINGS = 2 + TIDE_PRELOADING_SETTINGS, /* of the environment */
};

/* ---- one tick ---- */

/* mark.t_ns: of the clock, unlike in the recording. */
static void write_mark(struct tide_tracker *t, struct tide_mark mark)
{
    mark.t_ns = mark.t_ns > t->base_ns ? mark.t_ns - t->base_ns : 0;
    tide_tracker_check(t, tide_writer_mark(t->writer, &mark, &t->err));
    if (t->trend && mark.kind == TIDE_MARK_STEP)
        tide_trend_step(t->trend, mark.t_ns, mark.number);
}

static void on_channel_mark(void *context, int64_t pid, uint64_t start_ticks,
                            const struct tide_lane_slot *said)
{
    struct tide_tracker *t = context;
    t->steps_said = t->steps_said || said->kind == TIDE_MARK_STEP;
    t->epochs_said = t->epochs_said || said->kind == TIDE_MARK_EPOCH;
    write_mark(t, (struct tide_mark){.t_ns = said->t_ns,
                                     .process = tide_sense_process_at(t->sense, pid, start_ticks, said->t_ns),
                                     .kind = (enum tide_mark_kind)said->kind,
                                     .source = TIDE_SOURCE_PROGRAM,
                                     .number = said->number,
                                     .name = said->name});
}

static void on_output(void *context, int stream, const char *bytes, size_t len, int64_t t_ns)
{
    struct tide_tracker *t = context;
    if (len)
        tide_stepwords_feed(t->words, stream, bytes, len, t_ns);
    else
        tide_stepwords_gap(t->words, stream);
}

static void collect_output(struct tide_tracker *t)
{
    if (t->words && t->relay)
        tide_relay_collect(t->relay, on_output, t);
    if (t->words)
        tide_tail_collect(&t->file, on_output, t);
}

static void take_marks(struct tide_tracker *t, bool last)
{
    if (t->channel)
        tide_tracker_check(t, tide_channel_drain(t->channel, on_channel_mark, t, &t->marks, &t->err));
    collect_output(t);
    if (!t->words)
        return;
    if (last)
        tide_stepwords_end(t->words);
    struct tide_stepwords_found found[2 * TIDE_STEPWORDS_TAKE];
    size_t count = tide_stepwords_take(t->words, found);
    for (size_t i = 0; i < count; i++) {
        if (found[i].kind == TIDE_MARK_STEP ? t->steps_said : t->epochs_said)
            continue;
        char stage[32] = "";
        if (found[i].stage > 1)
            snprintf(stage, sizeof stage, "stage %d", found[i].stage);
        write_mark(t, (struct tide_mark){.t_ns = found[i].t_ns,
                                         .kind = found[i].kind,
                                         .source = TIDE_SOURCE_OUTPUT,
                                         .number = found[i].number,
                                         .name = stage});
    }
}

/* Copies the hook's tables into the recording, and prints its notices. */
static void take_heap(struct tide_tracker *t, int64_t now, bool last)
{
    if (!t->heap)
        return;
    tide_tracker_check(
        t, tide_heap_sense_look(t->heap, t->sense, t->writer, t->view.tick.id, now, last, &t->err));
    for (const char *notice; (notice = tide_heap_sense_notice(t->heap));)
        tide_tracker_say(t, "%s", notice);
}

/* For attach: draws the status line on stderr, where nobody else writes. */
static void show_own_line(const char *text)
{
    size_t columns = tide_terminal_size(STDERR_FILENO).ws_col;
    fprintf(stderr, "\r\x1b[K%.*s", (int)tide_text_fitting(text, strlen(text), columns - 1), text);
}

static void show_status(struct tide_tracker *t, int64_t now)
{
    if (!t->trend || now - t->base_ns < STATUS_MS * (int64_t)TIDE_NS_PER_MS)
        return;
    char text[512];
    tide_trend_text(t->trend, &t->view, now - t->base_ns, text, sizeof text);
    if (t->relay)
        tide_relay_status(t->relay, text);
    else
        show_own_line(text);
}

static void tell_of_survivors(struct tide_tracker *t, int64_t now)
{
    if (!t->ended_ns || t->told_of_survivors || now - t->ended_ns < LINGER_MS * (int64_t)TIDE_NS_PER_MS ||
        !isatty(STDERR_FILENO))
        return;
    t->told_of_survivors = true;
    tide_tracker_say(
        t,
        "the command has ended, %lld of its processes %s; recording goes on until they end or you press Ctrl-C",
        (long long)t->view.tick.processes, t->view.tick.processes == 1 ? "still runs" : "still run");
}

/* Schedules the next look. One expensive look (the first, with cold caches, or one that was preempted) must
 * not blind the tracker for seconds: the smoothed cost rises slowly and falls fast, so that only a tree that
 * is expensive every time stretches the interval. */
static void schedule(struct tide_tracker *t, int64_t now, int64_t cost)
{
    t->cost_ns = cost < t->cost_ns ? (t->cost_ns + cost) / 2 : (9 * t->cost_ns + cost) / 10;
    int64_t least = COST_FACTOR * t->cost_ns;
    int64_t interval = t->config->interval_ns > least ? t->config->interval_ns : least;
    if (t->ended_ns && t->empty_looks) { /* a process born during this look can be seen now: see is_over() */
        t->next_ns = now;
        return;
    }
    t->step_ns = 2 * t->step_ns < interval ? 2 * t->step_ns : interval;
    if (t->step_ns < least)
        t->step_ns = least;
    t->next_ns = t->next_ns + t->step_ns > now ? t->next_ns + t->step_ns : now + t->step_ns;
}

static void tick(struct tide_tracker *t, int64_t now)
{
    int64_t began = tide_clock_thread_ns();
    collect_output(t); /* first, because a process's last output precedes its end */
    int64_t collected_ns = tide_clock_thread_ns() - began;
    if (t->heap)
        tide_heap_sense_hooks(t->heap, t->sense);
    tide_tracker_check(t, tide_sense_look(t->sense, t->writer, tide_clock_ns(), &t->view, &t->err));
    /* Reads of PSS have a budget of their own; time spent waiting for a processor is not cost. */
    int64_t look_ns = tide_clock_thread_ns() - began - collected_ns;
    int64_t saved_ns = look_ns > t->view.cost_ns ? look_ns - t->view.cost_ns : 0;
    t->empty_looks = t->view.tick.processes == 0 ? t->empty_looks + 1 : 0;
    take_marks(t, false);
    int64_t cost_ns = tide_clock_thread_ns() - began - saved_ns; /* the heap has a budget of its own */
    take_heap(t, now, false);
    if (now - t->committed_ns >= COMMIT_MS * (int64_t)TIDE_NS_PER_MS) {
        t->committed_ns = now;
        tide_tracker_check(t, tide_writer_commit(t->writer, &t->err));
    }
    schedule(t, now, cost_ns);
    show_status(t, now);
    tell_of_survivors(t, now);
}

static bool has_no_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD;
}

/*
 * A look misses a process that was born after the look listed all processes and whose parent died before the
 * look read its counters. But every orphan becomes our child. So the tree has ended if we have no children,
 * or if two looks in a row saw no live process.
 */
static bool is_over(const struct tide_tracker *t)
{
    if (t->stop)
        return true;
    if (!t->relay)
        return t->empty_looks > 0;
    return t->ended_ns && t->empty_looks > 0 && (t->empty_looks > 1 || has_no_children());
}

/* Waits until the next look is due or something happens. */
static void wait_for_events(struct tide_tracker *t, int64_t until_ns)
{
    int64_t left = until_ns - tide_clock_ns();
    struct timespec timeout = {0};
    if (left > 0)
        timeout = (struct timespec){left / TIDE_NS_PER_S, left % TIDE_NS_PER_S};
    int keeper = t->ended_ns ? -1 : t->spawned.events; /* after the end the keeper reports nothing more */
    struct pollfd fds[] = {{.fd = t->signals, .events = POLLIN},
                           {.fd = keeper, .events = POLLIN},
                           {.fd = t->relay ? tide_relay_alert(t->relay) : -1, .events = POLLIN}};
    if (ppoll(fds, sizeof fds / sizeof *fds, &timeout, NULL) <= 0)
        return;
    if (fds[0].revents)
        tide_tracker_handle_signals(t);
    if (fds[1].revents && !t->ended_ns)
        tide_tracker_hear_keeper(t);
    if (fds[2].revents && tide_relay_interrupted(t->relay) && t->ended_ns)
        t->stop = true;
}

static void follow_tree(struct tide_tracker *t)
{
    t->step_ns = FIRST_INTERVAL_MS * (int64_t)TIDE_NS_PER_MS;
    t->next_ns = tide_clock_ns();
    while (!is_over(t)) {
        int64_t now = tide_clock_ns();
        if (now >= t->next_ns)
            tick(t, now);
        if (is_over(t))
            break;
        wait_for_events(t, t->next_ns);
    }
}

/* Passes on the last output. Ctrl-C ends the wait if nobody reads that output. */
static void finish_output(struct tide_tracker *t)
{
    if (!t->relay)
        return;
    tide_relay_finish(t->relay, !t->stop);
    t->stop = false;
    t->ended_ns = t->ended_ns ? t->ended_ns : tide_clock_ns();
    while (!tide_relay_is_done(t->relay) && !t->stop) {
        take_marks(t, false);
        wait_for_events(t, tide_clock_ns() + 250 * (int64_t)TIDE_NS_PER_MS);
    }
}

/* ---- beginning and end ---- */

static void join_words(char *const *argv, char *out, size_t size)
{
    out[0] = '\0';
    for (; *argv && strlen(out) + 2 < size; argv++)
        tide_text_add(out, size, "%s%s", *out ? " " : "", *argv);
}

static int write_meta(struct tide_tracker *t, struct tide_err *err)
{
    const struct tide_track_config *c = t->config;
    char command[COMMAND_TEXT], host[256] = "";
    if (c->command)
        join_words(c->command, command, sizeof command);
    else
        snprintf(command, sizeof command, "attach %lld", (long long)c->pid);
    gethostname(host, sizeof host - 1);
    struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {TIDE_META_STARTED, tide_clock_wall_s()},
        {TIDE_META_CLOCK, t->base_ns},
        {TIDE_META_INTERVAL, c->interval_ns},
        {TIDE_META_MEMTOTAL, (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)},
        {TIDE_META_ITEMS, c->items},
        {TIDE_META_PER_STEP, c->items_per_step},
        {TIDE_META_LIMIT, c->limit_bytes},
    };
    if (tide_writer_meta_text(t->writer, TIDE_META_TOOL, "tidemark " TIDE_VERSION, err) ||
        tide_writer_meta_text(t->writer, TIDE_META_COMMAND, command, err) ||
        tide_writer_meta_text(t->writer, TIDE_META_HOST, host, err))
        return -1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value != TIDE_UNKNOWN &&
            tide_writer_meta_integer(t->writer, numbers[i].key, numbers[i].value, err))
            return -1;
    return tide_writer_commit(t->writer, err);
}

int tide_track_path(const struct tide_track_config *config, char ret_path[PATH_MAX], bool *ret_elsewhere,
                    struct tide_err *err)
{
    *ret_elsewhere = false;
    if (config->path) {
        int len = snprintf(ret_path, PATH_MAX, "%s", config->path);
        return len < PATH_MAX ? 0 : tide_err_set(err, "the name of the recording is too long");
    }
    char word[80];
    if (config->command)
        tide_recname_word(config->command, word, sizeof word);
    else
        snprintf(word, sizeof word, "attach-%lld", (long long)config->pid);
    if (!tide_recname_path(word, ret_path, PATH_MAX, ret_elsewhere))
        return 0;
    tide_err_set(err, "there is no directory to write the recording to");
    return tide_err_hint(err, "name a file with -o FILE");
}

static int start_command(struct tide_tracker *t, struct tide_err *err)
{
    /* TIDEMARK_RECORDING is for a program that judges itself; absolute, because it may change its
     * directory. */
    char channel[PATH_MAX + 32] = TIDE_CHANNEL_ENV "=", recording[PATH_MAX + 32] = "TIDEMARK_RECORDING=";
    char *settings[SETTINGS + 1] = {channel, recording};
    size_t count = 2;
    if (t->channel)
        snprintf(channel, sizeof channel, TIDE_CHANNEL_ENV "=%s", tide_channel_path(t->channel));
    if (!realpath(t->outcome->path, recording + strlen(recording)))
        recording[strcspn(recording, "=") + 1] = '\0';
    for (size_t i = 0; t->heap && i < TIDE_PRELOADING_SETTINGS && t->preload.settings[i]; i++)
        settings[count++] = t->preload.settings[i];
    sigpending(&t->early);
    return tide_spawn(t->config->command, settings, t->relay, t->config->log_path != NULL, &t->inherited,
                      &t->spawned, &t->outcome->exit_code, err);
}

static int start_sense(struct tide_tracker *t, struct tide_err *err)
{
    struct tide_sense_config config = {
        .root = t->config->command ? t->spawned.pid : t->config->pid,
        .adopt_orphans = t->config->command != NULL,
        .hidden_pids = {[TIDE_SENSE_KEEPER] = t->spawned.keeper,
                        [TIDE_SENSE_SYMBOLS] = t->heap ? tide_heap_sense_helper(t->heap) : 0,
                        [TIDE_SENSE_RELAY] = t->relay ? tide_relay_info(t->relay)->pid : 0,
                        [TIDE_SENSE_DEPUTY] = t->relay ? tide_relay_info(t->relay)->deputy : 0,
                        [TIDE_SENSE_SWEEPER] = t->channel ? tide_channel_helper(t->channel) : 0,
                        [TIDE_SENSE_WITNESS] = t->witness.pid},
        .smaps_budget_ppm = 10000,
        .limit_bytes = t->config->limit_bytes,
        .gpu = true,
        .proc_path = "/proc",
        .cgroup_path = "/sys/fs/cgroup",
        .shared_path = "/dev/shm",
        .base_ns = t->base_ns,
        .descriptors = &t->descriptors};
    return tide_sense_new(&config, &t->sense, err);
}

/* For attach: steps can be read if standard output is a regular file. */
static void open_output_of(struct tide_tracker *t)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/1", (long long)t->config->pid);
    struct stat about;
    t->file.fd = tide_infile_open(path, &about);
    t->file.at = t->file.fd < 0 ? 0 : about.st_size;
}

static int prepare_heap(struct tide_tracker *t, struct tide_err *err)
{
    if (!t->config->heap_interval_bytes)
        return 0;
    if (tide_preloading_init(&t->preload, t->config->heap_interval_bytes, t->config->python_objects,
                             t->config->no_census, err))
        return -1;
    return tide_heap_sense_new("/proc/self/exe", &t->heap, err);
}

/* The hook needs the channel; without it, a run without --heap only loses its marks. */
static int open_channel(struct tide_tracker *t, struct tide_err *err)
{
    struct tide_err why;
    if (tide_channel_new(&t->descriptors, &t->channel, &why)) {
        t->channel = NULL;
        return t->heap ? tide_err_set(err, "--heap: %s", why.text) : 0;
    }
    return 0;
}

/* Everything that can fail before the command runs. */
static int prepare(struct tide_tracker *t, struct tide_err *err)
{
    const struct tide_track_config *c = t->config;
    tide_descriptors_raise(&t->inherited.files);
    tide_descriptors_init(&t->descriptors);
    bool elsewhere;
    if (tide_track_path(c, t->outcome->path, &elsewhere, err) || prepare_heap(t, err))
        return -1;
    if (elsewhere)
        tide_tracker_say(t, "cannot write to the current directory; recording to %s", t->outcome->path);
    if (!c->ignore_output && tide_stepwords_new(c->step_regex, &t->words, err))
        return -1;
    if (c->command) {
        if (tide_relay_new(!c->ignore_output, !c->no_status, c->log_path, &t->relay, err))
            return -1;
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (open_channel(t, err))
            return -1;
    } else if (!c->ignore_output) {
        open_output_of(t);
    }
    bool owns_terminal = t->relay && tide_relay_info(t->relay)->owns_terminal;
    if (tide_tracker_set_up_signals(t, owns_terminal, err))
        return -1;
    if (c->command && !owns_terminal)
        tide_witness_init(&t->witness);
    return tide_writer_new(t->outcome->path, &t->writer, err);
}

static int begin(struct tide_tracker *t, struct tide_err *err)
{
    if (prepare(t, err))
        return -1;
    t->base_ns = tide_clock_ns();
    t->committed_ns = t->base_ns;
    tide_tracker_check(t, write_meta(t, &t->err));
    if (t->heap &&
        tide_heap_sense_open(t->heap, tide_channel_path(t->channel), &t->descriptors, t->base_ns, err))
        return -1;
    if (t->relay && tide_relay_start(t->relay, err))
        return -1;
    if (t->config->command && start_command(t, err)) {
        tide_relay_call_off(t->relay);
        return -1;
    }
    if (t->relay)
        tide_relay_started(t->relay);
    if (start_sense(t, err)) {
        if (t->config->command)
            kill(t->spawned.pid, SIGKILL);
        return -1;
    }
    if (t->relay)
        tide_spawn_tell(tide_relay_info(t->relay)->hold[1], TIDE_SPAWN_WATCHED);
    if (t->relay ? tide_relay_info(t->relay)->has_status
                 : !t->config->no_status && tide_relay_wants_status_line())
        t->trend = tide_trend_new(t->outcome->path); /* NULL: no status line */
    return 0;
}

static void note(struct tide_tracker *t, const char *text)
{
    struct tide_note row = {.t_ns = tide_clock_ns() - t->base_ns, .text = text};
    tide_tracker_check(t, tide_writer_note(t->writer, &row, &t->err));
}

static void note_lost_marks(struct tide_tracker *t)
{
    char text[96];
    snprintf(text, sizeof text, "%llu marks lost: they came faster than they could be read",
             (unsigned long long)t->marks.lost);
    if (t->marks.lost)
        note(t, text);
}

/* Reports the processes for whose marks or table there was no room, naming the last one. */
static void tell_of_refused(struct tide_tracker *t, const struct tide_channel_refused *refused,
                            const char *what, const char *lost)
{
    char text[400], who[96];
    if (!refused->count)
        return;
    const char *shown = TIDE_SHOWN(tide_sense_name(t->sense, refused->last_pid, refused->last_start), 64);
    snprintf(who, sizeof who, shown[0] ? "%s[%lld]" : "%sprocess %lld", shown, (long long)refused->last_pid);
    snprintf(text, sizeof text, "no room for the %s of %llu process%s, such as %s, in %s or elsewhere: %s",
             what, (unsigned long long)refused->count, refused->count == 1 ? "" : "es", who,
             tide_channel_path(t->channel), lost);
    tide_tracker_say(t, "%s", text);
    note(t, text);
}

/* Reports that no process loaded the hook in spite of --heap. */
static void tell_of_unseen_heap(struct tide_tracker *t)
{
    char text[400];
    if (!t->heap || tide_heap_sense_tables(t->heap) > 0 || t->marks.no_table.count > 0)
        return;
    const char *program = t->config->command[0], *obstacle = tide_preloading_obstacle(program);
    snprintf(text, sizeof text, TIDE_NOTE_UNSEEN "'%s' %s", TIDE_SHOWN(program, 128),
             obstacle ? obstacle : "and what it started did not load the hook, or ended at once");
    tide_tracker_say(t, "%s", text);
    note(t, text);
}

static void finish(struct tide_tracker *t)
{
    struct tide_err *err = &t->err;
    finish_output(t);
    take_marks(t, true);
    take_heap(t, tide_clock_ns(), true);
    tell_of_unseen_heap(t);
    note_lost_marks(t);
    tell_of_refused(t, &t->marks.no_lane, "marks", "they are lost");
    tell_of_refused(t, &t->marks.no_table, "allocations", "they are not recorded");
    if (t->trend && !t->relay)
        fputs("\r\x1b[K", stderr);
    int64_t now = tide_clock_ns() - t->base_ns;
    tide_tracker_check(
        t,
        tide_sense_finish(t->sense, t->writer, now + t->base_ns, err) ||
            tide_writer_meta_integer(t->writer, TIDE_META_ENDED, now, err) ||
            (t->config->command &&
             (tide_writer_meta_integer(t->writer, TIDE_META_EXIT, t->outcome->exit_code, err) ||
              tide_writer_meta_integer(t->writer, TIDE_META_SIGNAL, t->exit_signal, err))) ||
            (t->outcome->kernel_peak_bytes > 0 &&
             tide_writer_meta_integer(t->writer, TIDE_META_KERNEL_PEAK, t->outcome->kernel_peak_bytes, err)));
}

static void release(struct tide_tracker *t)
{
    tide_trend_free(t->trend);
    tide_relay_free(t->relay);
    if (t->spawned.pid)
        tide_spawn_release(&t->spawned);
    tide_stepwords_free(t->words);
    tide_heap_sense_free(t->heap);
    tide_preloading_release(&t->preload);
    tide_channel_free(t->channel);
    tide_sense_free(t->sense);
    tide_witness_release(&t->witness);
    if (t->file.fd >= 0)
        close(t->file.fd);
    tide_tracker_restore_signals(t);
    tide_descriptors_restore(&t->inherited.files);
}

int tide_track(const struct tide_track_config *config, struct tide_track_outcome *ret_outcome,
               struct tide_err *err)
{
    *ret_outcome = (struct tide_track_outcome){.exit_code = 2};
    struct tide_tracker t = {
        .config = config, .outcome = ret_outcome, .signals = -1, .file.fd = -1, .spawned.events = -1};
    int bad = begin(&t, err);
    if (!bad) {
        ret_outcome->exit_code = 0;
        follow_tree(&t);
        finish(&t);
    }
    tide_tracker_check(&t, tide_writer_free(t.writer, &t.err));
    if (bad && t.writer)
        tide_writer_discard(ret_outcome->path);
    release(&t);
    return bad;
}

/* ---- a tree that is already running ---- */

/* Checks that the process has memory to record: 0, or -1 with an error. A zombie has given its memory back, a
 * kernel thread never had any. */
static int has_memory(int64_t pid, struct tide_err *err)
{
    char text[STATUS_TEXT];
    struct tide_proc_status status;
    ssize_t len = tide_proc_read_pid(AT_FDCWD, pid, "status", text, sizeof text);
    if (len <= 0 || tide_proc_parse_status(text, &status))
        return tide_err_set(err, "cannot read the memory of process %lld: permission denied", (long long)pid);
    if (status.state == 'Z' || status.state == 'X') {
        tide_err_set(err, "process %lld has ended and is a zombie", (long long)pid);
        return tide_err_hint(err, "its parent, process %lld, has not waited for it yet",
                             (long long)status.parent_pid);
    }
    if (status.counters.mapped_bytes != TIDE_UNKNOWN)
        return 0;
    return tide_err_set(err, "%lld is a kernel thread; it has no memory of its own", (long long)pid);
}

int tide_track_read_pid(const char *text, int64_t *ret_pid, struct tide_err *err)
{
    int64_t pid;
    char path[64];
    if (tide_count_parse(text, &pid) || pid <= 0 || pid > INT_MAX) {
        tide_err_set(err, "'%s' is not a process ID", TIDE_SHOWN(text, 64));
        return tide_err_hint(err, "find one with 'pgrep -f train.py'");
    }
    if (pid == getpid())
        return tide_err_set(err, "%lld is tidemark itself", (long long)pid);
    snprintf(path, sizeof path, "/proc/%lld", (long long)pid);
    if (access(path, F_OK)) {
        tide_err_set(err, "there is no process %lld", (long long)pid);
        return tide_err_hint(err, "find one with 'pgrep -f train.py'");
    }
    if (has_memory(pid, err))
        return -1;
    *ret_pid = pid;
    return 0;
}

void tide_track_say_what_is_missing(const struct tide_track_config *config)
{
    char path[64], text[2];
    long long pid = (long long)config->pid;
    if (tide_proc_read_pid(AT_FDCWD, config->pid, "smaps_rollup", text, sizeof text) <= 0)
        fprintf(stderr,
                "tidemark: cannot read which pages process %lld shares: "
                "no permission, because it belongs to another user or has other privileges\n",
                pid);
    struct stat about;
    snprintf(path, sizeof path, "/proc/%lld/fd/1", pid);
    bool has_file = !stat(path, &about) && S_ISREG(about.st_mode) && !access(path, R_OK);
    if (config->step_regex && !has_file)
        fprintf(stderr, "tidemark: --step-regex has no effect: process %lld does not write to a file\n", pid);
}
