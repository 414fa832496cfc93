#include "cli/track.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "channel/channel.h"
#include "cli/command.h"
#include "cli/recname.h"
#include "cli/relay.h"
#include "cli/spawn.h"
#include "cli/stepwords.h"
#include "cli/terminal.h"
#include "cli/trend.h"
#include "record/record.h"
#include "record/writer.h"
#include "record/reader.h"
#include "sense/sense.h"
#include "show/assess.h"
#include "show/history.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    COST_FACTOR = 50,       /* the time between looks is at least this many times what they cost */
    FIRST_INTERVAL_MS = 10, /* then doubled up to the interval, so that a short program is seen too */
    COMMIT_MS = 1000,
    STATUS_MS = 500,  /* a program that is faster gets no status line */
    LINGER_MS = 1000, /* how long descendants may outlive the command before the user is told */
    COMMAND_TEXT = 16 * 1024,
};

struct tracker {
    const struct tide_track_config *config;
    struct tide_track_outcome *outcome;
    struct tide_relay *relay;     /* NULL for attach */
    struct tide_stepwords *words; /* NULL: no output to look at */
    struct tide_channel *channel; /* NULL: none */
    struct tide_writer *writer;
    struct tide_sense *sense;
    struct tide_trend *trend; /* NULL: no status line */
    struct tide_spawned spawned;
    struct tide_spawn_inheritance inherited;
    int signals; /* signalfd */
    int file_fd; /* attach: the command's standard output, when it is a file; -1 */
    off_t file_at;
    int64_t base_ns, next_ns, step_ns, committed_ns;
    int64_t cost_ns;  /* of a look, smoothed */
    int64_t ended_ns; /* when the command ended; 0: it runs */
    struct tide_channel_counts marks;
    struct tide_sense_view view;
    int empty_looks;              /* in a row that saw nobody alive, since the command ended */
    bool steps_said, epochs_said; /* by the program itself: its output is not asked any more */
    bool stop;                    /* the user has had enough */
    bool told_of_survivors;
};

void tide_track_config_init(struct tide_track_config *config)
{
    *config = (struct tide_track_config){.interval_ns = 250 * (int64_t)TIDE_NS_PER_MS,
                                         .limit_bytes = TIDE_UNKNOWN,
                                         .items = TIDE_UNKNOWN,
                                         .items_per_step = TIDE_UNKNOWN};
}

/* ---- what the user is told while it runs ---- */

static void say(struct tracker *t, const char *text)
{
    if (t->config->silent)
        return;
    if (t->relay && tide_relay_owns_terminal(t->relay) && !tide_relay_is_done(t->relay))
        tide_relay_say(t->relay, text);
    else
        fprintf(stderr, "%s\n", text);
}

/* The first thing that went wrong with the recording is told once; the program goes on. */
static void trouble(struct tracker *t, const struct tide_err *err)
{
    if (t->outcome->trouble.text[0])
        return;
    t->outcome->trouble = *err;
    char text[600];
    snprintf(text, sizeof text, "tidemark: %s; the program goes on", err->text);
    say(t, text);
}

/* ---- signals ---- */

static const int handled[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGWINCH};
static const int terminal_handled[] = {SIGTSTP, SIGCONT};

static void add_if_not_ignored(sigset_t *set, int signal)
{
    struct sigaction now;
    if (!sigaction(signal, NULL, &now) && now.sa_handler != SIG_IGN)
        sigaddset(set, signal);
}

/*
 * A signal that is blocked reaches signalfd even where it was ignored, so that those that we were told to
 * ignore (nohup) are left alone.
 */
static int set_up_signals(struct tracker *t, bool owns_terminal, struct tide_err *err)
{
    sigset_t read, blocked;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &standard, &t->inherited.on_child);
    sigemptyset(&read);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
        add_if_not_ignored(&read, handled[i]);
    for (size_t i = 0; owns_terminal && i < sizeof terminal_handled / sizeof *terminal_handled; i++)
        add_if_not_ignored(&read, terminal_handled[i]);
    blocked = read;
    sigaddset(&blocked, SIGPIPE);
    sigaddset(&blocked, SIGXFSZ); /* a limit on file sizes is a failed write, as a full disk is */
    sigaddset(&blocked, SIGTTIN);
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, &t->inherited.mask);
    t->signals = signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK);
    return t->signals < 0 ? tide_err_set(err, "cannot receive signals: %s", strerror(errno)) : 0;
}

/* A write that failed was dealt with there; its signal, still pending, would end us now. */
static void forget_failed_writes(void)
{
    sigset_t writes;
    struct timespec now = {0};
    sigemptyset(&writes);
    sigaddset(&writes, SIGPIPE);
    sigaddset(&writes, SIGXFSZ);
    while (sigtimedwait(&writes, NULL, &now) > 0)
        ;
}

/* Whether a shell is there to continue us after a stop. */
static bool can_be_continued(void)
{
    pid_t parent = getppid();
    return getsid(parent) == getsid(0) && getpgid(parent) != getpgrp();
}

/* The command was stopped on its terminal: we give ours back and stop too, until the shell continues us. */
static void stop_with_command(struct tracker *t, int signal)
{
    struct tide_err err;
    if (!can_be_continued()) {
        if (signal != SIGSTOP)
            kill(-t->spawned.pid, SIGCONT);
        return;
    }
    if (tide_writer_commit(t->writer, &err))
        trouble(t, &err);
    tide_relay_suspend(t->relay);
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    kill(0, SIGTSTP);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    tide_relay_resume(t->relay);
    kill(-t->spawned.pid, SIGCONT);
    t->next_ns = tide_clock_ns();
}

static void command_ended(struct tracker *t, const struct tide_spawn_event *event)
{
    if (t->ended_ns)
        return;
    t->ended_ns = tide_clock_ns();
    t->next_ns = t->ended_ns; /* look now who is left */
    t->empty_looks = 0;
    t->outcome->exit_code =
        WIFSIGNALED(event->status) ? 128 + WTERMSIG(event->status) : WEXITSTATUS(event->status);
    tide_relay_command_ended(t->relay);
}

static void note_peak(struct tracker *t, pid_t pid, const struct tide_spawn_event *event)
{
    if (event->peak_rss_bytes != TIDE_UNKNOWN)
        tide_sense_reaped(t->sense, pid, event->peak_rss_bytes);
    if (event->tree_peak_bytes > t->outcome->kernel_peak_bytes)
        t->outcome->kernel_peak_bytes = event->tree_peak_bytes;
}

static void reap(struct tracker *t)
{
    struct tide_spawn_event event;
    for (pid_t pid; (pid = tide_spawn_reap(&event)) > 0;) {
        if (pid == t->spawned.keeper)
            continue;
        note_peak(t, pid, &event);
        if (pid == t->spawned.pid)
            command_ended(t, &event);
    }
}

/* What the keeper has to say about a command on a pseudo-terminal. */
static void hear_keeper(struct tracker *t)
{
    struct tide_spawn_event event;
    ssize_t got;
    while ((got = read(t->spawned.events, &event, sizeof event)) == sizeof event) {
        if (WIFSTOPPED(event.status)) {
            stop_with_command(t, WSTOPSIG(event.status));
        } else if (!WIFCONTINUED(event.status)) {
            note_peak(t, t->spawned.pid, &event);
            command_ended(t, &event);
        }
    }
    if (got == 0 && !t->ended_ns) { /* somebody killed the keeper: the command is lost to us */
        struct tide_spawn_event lost = {.status = SIGKILL};
        command_ended(t, &lost);
    }
}

static void forward(struct tracker *t, const struct signalfd_siginfo *info)
{
    int signal = (int)info->ssi_signo;
    bool keyboard = signal == SIGINT || signal == SIGQUIT || signal == SIGHUP || signal == SIGTSTP;
    if (tide_relay_owns_terminal(t->relay))
        kill(keyboard ? -t->spawned.pid : t->spawned.pid, signal);
    else if (!keyboard || info->ssi_code != SI_KERNEL) /* else the kernel has told the command too */
        kill(t->spawned.pid, signal);
}

static void handle_signal(struct tracker *t, const struct signalfd_siginfo *info)
{
    switch (info->ssi_signo) {
    case SIGCHLD:
        reap(t);
        break;
    case SIGWINCH:
        if (t->relay)
            tide_relay_resized(t->relay);
        break;
    case SIGCONT:
        tide_relay_resume(t->relay);
        kill(-t->spawned.pid, SIGCONT);
        break;
    case SIGUSR1:
    case SIGUSR2:
    case SIGTSTP:
        if (t->relay && !t->ended_ns)
            forward(t, info);
        break;
    default: /* INT, QUIT, TERM, HUP */
        if (t->relay && !t->ended_ns)
            forward(t, info);
        else
            t->stop = true;
    }
}

static void handle_signals(struct tracker *t)
{
    struct signalfd_siginfo info;
    while (read(t->signals, &info, sizeof info) == sizeof info)
        handle_signal(t, &info);
}

/* ---- one tick ---- */

static void write_mark(struct tracker *t, const struct tide_mark *mark)
{
    struct tide_err err;
    if (tide_writer_mark(t->writer, mark, &err))
        trouble(t, &err);
    if (t->trend && mark->kind == TIDE_MARK_STEP)
        tide_trend_step(t->trend, mark->t_ns, mark->number);
}

static void on_channel_event(void *context, const struct tide_channel_event *event)
{
    struct tracker *t = context;
    t->steps_said = t->steps_said || event->kind == TIDE_LANE_STEP;
    t->epochs_said = t->epochs_said || event->kind == TIDE_LANE_EPOCH;
    int64_t at = event->t_ns - t->base_ns;
    struct tide_mark mark = {.t_ns = at > 0 ? at : 0,
                             .process = tide_sense_process_id(t->sense, event->pid, event->start_ticks),
                             .kind = (enum tide_mark_kind)event->kind,
                             .source = TIDE_SOURCE_PROGRAM,
                             .number = event->number,
                             .name = event->name};
    write_mark(t, &mark);
}

_Static_assert((int)TIDE_LANE_STEP == (int)TIDE_MARK_STEP && (int)TIDE_LANE_GAUGE == (int)TIDE_MARK_GAUGE,
               "marks have the same numbers on the channel and in the recording");

static void on_output(void *context, int stream, const char *bytes, size_t len, int64_t t_ns)
{
    struct tracker *t = context;
    if (len)
        tide_stepwords_feed(t->words, stream, bytes, len, t_ns);
    else
        tide_stepwords_gap(t->words, stream);
}

/* attach: what the tree's root has added to the file it writes to. */
static void read_file(struct tracker *t)
{
    char bytes[16 * 1024];
    for (int i = 0; i < 64; i++) {
        ssize_t got = pread(t->file_fd, bytes, sizeof bytes, t->file_at);
        if (got <= 0)
            return;
        t->file_at += got;
        tide_stepwords_feed(t->words, 0, bytes, (size_t)got, tide_clock_ns());
    }
}

static void take_marks(struct tracker *t, bool last)
{
    struct tide_err err;
    if (t->channel && tide_channel_drain(t->channel, on_channel_event, t, &t->marks, &err))
        trouble(t, &err);
    if (!t->words)
        return;
    if (t->relay)
        tide_relay_collect(t->relay, on_output, t);
    if (t->file_fd >= 0)
        read_file(t);
    if (last)
        tide_stepwords_end(t->words);
    struct tide_stepwords_found found[2 * TIDE_STEPWORDS_TAKE];
    size_t count = tide_stepwords_take(t->words, found);
    for (size_t i = 0; i < count; i++) {
        if (found[i].kind == TIDE_MARK_STEP ? t->steps_said : t->epochs_said)
            continue;
        int64_t at = found[i].t_ns - t->base_ns;
        struct tide_mark mark = {.t_ns = at > 0 ? at : 0,
                                 .kind = found[i].kind,
                                 .source = TIDE_SOURCE_OUTPUT,
                                 .number = found[i].number,
                                 .name = ""};
        write_mark(t, &mark);
    }
}

static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * (int64_t)TIDE_NS_PER_S + now.tv_nsec;
}

/* attach: a line of our own on stderr, where nobody else writes. */
static void show_own_line(const char *text)
{
    size_t room = tide_terminal_size(STDERR_FILENO).ws_col, len = 0;
    while (text[len]) {
        size_t rune = tide_text_rune(text + len, strlen(text + len), NULL);
        if (tide_text_columns(text, len + (rune ? rune : 1)) >= room)
            break;
        len += rune ? rune : 1;
    }
    fprintf(stderr, "\r\x1b[K%.*s", (int)len, text);
}

static void show_status(struct tracker *t, int64_t now)
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

static void tell_of_survivors(struct tracker *t, int64_t now)
{
    if (!t->ended_ns || t->told_of_survivors || now - t->ended_ns < LINGER_MS * (int64_t)TIDE_NS_PER_MS ||
        !isatty(STDERR_FILENO))
        return;
    t->told_of_survivors = true;
    char text[160];
    snprintf(text, sizeof text,
             "tidemark: the command has ended, %lld of its processes %s; recording until they end or Ctrl-C",
             (long long)t->view.alive, t->view.alive == 1 ? "still runs" : "still run");
    say(t, text);
}

/* When to look next. One dear look (the first, with cold caches, or one that was preempted) must not blind
 * the tracker for seconds: the smoothed cost rises slowly and falls fast, so that only a tree that is dear
 * every time stretches the interval. */
static void schedule(struct tracker *t, int64_t now, int64_t cost)
{
    t->cost_ns = cost < t->cost_ns ? (t->cost_ns + cost) / 2 : (9 * t->cost_ns + cost) / 10;
    int64_t least = COST_FACTOR * t->cost_ns;
    int64_t interval = t->config->interval_ns > least ? t->config->interval_ns : least;
    t->step_ns = t->ended_ns && t->empty_looks ? FIRST_INTERVAL_MS * (int64_t)TIDE_NS_PER_MS
                 : 2 * t->step_ns < interval   ? 2 * t->step_ns
                                               : interval;
    if (t->step_ns < least)
        t->step_ns = least;
    t->next_ns = t->next_ns + t->step_ns > now ? t->next_ns + t->step_ns : now + t->step_ns;
}

static void tick(struct tracker *t, int64_t now)
{
    struct tide_err err;
    int64_t began = cpu_ns();
    if (tide_sense_look(t->sense, t->writer, now, &t->view, &err))
        trouble(t, &err);
    /* Reads of PSS have a budget of their own; waiting for a busy processor costs nobody anything. */
    int64_t look_ns = cpu_ns() - began;
    int64_t saved_ns = look_ns > t->view.cost_ns ? look_ns - t->view.cost_ns : 0;
    t->empty_looks = t->view.alive == 0 ? t->empty_looks + 1 : 0;
    take_marks(t, false);
    if (now - t->committed_ns >= COMMIT_MS * (int64_t)TIDE_NS_PER_MS) {
        t->committed_ns = now;
        if (tide_writer_commit(t->writer, &err))
            trouble(t, &err);
    }
    schedule(t, now, cpu_ns() - began - saved_ns);
    show_status(t, now);
    tell_of_survivors(t, now);
}

static bool has_no_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD;
}

/*
 * A process that was born after a look had listed them and whose parent died before the look had read its
 * counters is in nobody's list. But every orphan becomes our child: without children, or with two looks that
 * saw nobody, the tree has ended.
 */
static bool is_over(const struct tracker *t)
{
    if (t->stop)
        return true;
    if (!t->relay)
        return t->empty_looks > 0;
    return t->ended_ns && t->empty_looks > 0 && (t->empty_looks > 1 || has_no_children());
}

/* Waits until the next look is due or something happens. */
static void wait_for_events(struct tracker *t, int64_t until_ns)
{
    int64_t left = until_ns - tide_clock_ns();
    struct timespec timeout = {0};
    if (left > 0)
        timeout = (struct timespec){left / TIDE_NS_PER_S, left % TIDE_NS_PER_S};
    struct pollfd fds[] = {{.fd = t->signals, .events = POLLIN},
                           {.fd = t->spawned.events, .events = POLLIN},
                           {.fd = t->relay ? tide_relay_alert(t->relay) : -1, .events = POLLIN}};
    if (ppoll(fds, sizeof fds / sizeof *fds, &timeout, NULL) <= 0)
        return;
    if (fds[0].revents)
        handle_signals(t);
    if (fds[1].revents && !t->ended_ns)
        hear_keeper(t);
    if (fds[2].revents && tide_relay_interrupted(t->relay) && t->ended_ns)
        t->stop = true;
}

static void follow_tree(struct tracker *t)
{
    t->step_ns = FIRST_INTERVAL_MS * (int64_t)TIDE_NS_PER_MS;
    t->next_ns = tide_clock_ns();
    while (!is_over(t)) {
        int64_t now = tide_clock_ns();
        if (now >= t->next_ns)
            tick(t, now);
        if (is_over(t))
            break;
        /* A keeper that has reported the end has nothing more to say. */
        int events = t->spawned.events;
        if (t->ended_ns)
            t->spawned.events = -1;
        wait_for_events(t, t->next_ns);
        t->spawned.events = events;
    }
}

/* Passes on what the program printed last. Ctrl-C while nobody reads it ends the wait. */
static void finish_output(struct tracker *t)
{
    if (!t->relay)
        return;
    tide_relay_finish(t->relay, !t->stop);
    t->stop = false;
    int events = t->spawned.events;
    t->spawned.events = -1;
    t->ended_ns = t->ended_ns ? t->ended_ns : tide_clock_ns();
    while (!tide_relay_is_done(t->relay) && !t->stop) {
        take_marks(t, false);
        wait_for_events(t, tide_clock_ns() + 250 * (int64_t)TIDE_NS_PER_MS);
    }
    t->spawned.events = events;
}

/* ---- beginning and end ---- */

static void join_words(char *const *argv, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (; *argv && used + 2 < size; argv++) {
        int len = snprintf(out + used, size - used, "%s%s", used ? " " : "", *argv);
        used = len < 0 || used + (size_t)len >= size ? size - 1 : used + (size_t)len;
    }
}

static int write_meta(struct tracker *t, struct tide_err *err)
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

static int choose_path(struct tracker *t, struct tide_err *err)
{
    char *path = t->outcome->path;
    size_t size = sizeof t->outcome->path;
    if (t->config->path) {
        int len = snprintf(path, size, "%s", t->config->path);
        return (size_t)len < size ? 0 : tide_err_set(err, "the name of the recording is too long");
    }
    char word[80], text[PATH_MAX + 128];
    int elsewhere;
    if (t->config->command)
        tide_recname_word(t->config->command, word, sizeof word);
    else
        snprintf(word, sizeof word, "attach-%lld", (long long)t->config->pid);
    if (tide_recname_path(word, path, size, &elsewhere))
        return tide_err_set(err, "there is no directory to write the recording to");
    if (elsewhere) {
        snprintf(text, sizeof text, "tidemark: the current directory cannot be written, recording to %s",
                 path);
        say(t, text);
    }
    return 0;
}

/* The environment with the channel in it. Caller frees; the strings are borrowed but for the first, which is
 * ret_setting. NULL without memory. */
static char **environment_with(const char *setting)
{
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **copy = calloc(count + 2, sizeof *copy);
    if (!copy)
        return NULL;
    size_t name = strcspn(setting, "=") + 1;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], setting, name))
            copy[used++] = environ[i];
    copy[used] = (char *)setting;
    return copy;
}

static int start_command(struct tracker *t, struct tide_err *err)
{
    char setting[PATH_MAX + 32] = TIDE_CHANNEL_ENV "=";
    if (t->channel)
        snprintf(setting, sizeof setting, TIDE_CHANNEL_ENV "=%s", tide_channel_path(t->channel));
    char **environment = environment_with(setting);
    if (!environment)
        return tide_err_set(err, "not enough memory");
    int bad = tide_spawn(t->config->command, environment, t->relay, t->config->log_path != NULL,
                         &t->inherited, &t->spawned, &t->outcome->exit_code, err);
    free(environment);
    return bad;
}

static int start_sense(struct tracker *t, struct tide_err *err)
{
    int64_t root = t->config->command ? t->spawned.pid : t->config->pid;
    struct tide_sense_config config = {.roots = &root,
                                       .root_count = 1,
                                       .adopt_orphans = t->config->command != NULL,
                                       .hidden_pid = t->spawned.keeper,
                                       .smaps_budget_ppm = 10000,
                                       .limit_bytes = t->config->limit_bytes,
                                       .gpu = true,
                                       .proc_path = "/proc",
                                       .cgroup_path = "/sys/fs/cgroup",
                                       .base_ns = t->base_ns};
    return tide_sense_new(&config, &t->sense, err);
}

/* attach: steps can be read where standard output is a regular file. */
static void open_output_of(struct tracker *t)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/1", (long long)t->config->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat about;
    if (fd >= 0 && !fstat(fd, &about) && S_ISREG(about.st_mode)) {
        t->file_fd = fd;
        t->file_at = about.st_size;
    } else if (fd >= 0) {
        close(fd);
    }
}

/* Everything that can fail before the command runs. */
static int prepare(struct tracker *t, struct tide_err *err)
{
    const struct tide_track_config *c = t->config;
    struct tide_err ignored;
    if (choose_path(t, err))
        return -1;
    if (!c->ignore_output && tide_stepwords_new(c->step_regex, &t->words, err))
        return -1;
    if (c->command) {
        struct tide_relay_config relay = {
            .read_output = !c->ignore_output, .status_line = c->status_line, .log_path = c->log_path};
        if (tide_relay_new(&relay, &t->relay, err))
            return -1;
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (tide_channel_new(&t->channel, &ignored))
            t->channel = NULL; /* no marks, then */
    } else if (!c->ignore_output) {
        open_output_of(t);
    }
    if (set_up_signals(t, t->relay && tide_relay_owns_terminal(t->relay), err))
        return -1;
    return tide_writer_new(t->outcome->path, &t->writer, err);
}

static int begin(struct tracker *t, struct tide_err *err)
{
    struct tide_err meta_err;
    if (prepare(t, err))
        return -1;
    t->base_ns = tide_clock_ns();
    t->committed_ns = t->base_ns;
    if (write_meta(t, &meta_err))
        trouble(t, &meta_err);
    if (t->config->command && start_command(t, err))
        return -1;
    if (start_sense(t, err) || (t->relay && tide_relay_start(t->relay, err))) {
        if (t->config->command)
            kill(t->spawned.pid, SIGKILL);
        return -1;
    }
    tide_spawn_watched(&t->spawned);
    if (t->relay ? tide_relay_has_status_line(t->relay)
                 : t->config->status_line && tide_relay_wants_status_line())
        t->trend = tide_trend_new(t->outcome->path); /* without memory: no status line */
    return 0;
}

static void note_lost_marks(struct tracker *t)
{
    if (!t->marks.lost)
        return;
    struct tide_err err;
    char text[96];
    snprintf(text, sizeof text, "%llu marks lost: they came faster than they could be read",
             (unsigned long long)t->marks.lost);
    struct tide_note note = {.t_ns = tide_clock_ns() - t->base_ns, .text = text};
    if (tide_writer_note(t->writer, &note, &err))
        trouble(t, &err);
}

static void finish(struct tracker *t)
{
    struct tide_err err;
    finish_output(t);
    take_marks(t, true);
    note_lost_marks(t);
    if (t->trend && !t->relay)
        fputs("\r\x1b[K", stderr);
    int64_t now = tide_clock_ns() - t->base_ns;
    if (tide_sense_finish(t->sense, t->writer, now + t->base_ns, &err) ||
        tide_writer_meta_integer(t->writer, TIDE_META_ENDED, now, &err) ||
        (t->config->command &&
         tide_writer_meta_integer(t->writer, TIDE_META_EXIT, t->outcome->exit_code, &err)) ||
        (t->outcome->kernel_peak_bytes > 0 &&
         tide_writer_meta_integer(t->writer, TIDE_META_KERNEL_PEAK, t->outcome->kernel_peak_bytes, &err)))
        trouble(t, &err);
}

static void release(struct tracker *t)
{
    tide_trend_free(t->trend);
    tide_relay_free(t->relay);
    if (t->spawned.pid)
        tide_spawn_release(&t->spawned);
    tide_stepwords_free(t->words);
    tide_channel_free(t->channel);
    tide_sense_free(t->sense);
    if (t->file_fd >= 0)
        close(t->file_fd);
    if (t->signals >= 0) {
        close(t->signals);
        forget_failed_writes();
        sigaction(SIGCHLD, &t->inherited.on_child, NULL);
        sigprocmask(SIG_SETMASK, &t->inherited.mask, NULL);
    }
}

int tide_track(const struct tide_track_config *config, struct tide_track_outcome *ret_outcome,
               struct tide_err *err)
{
    *ret_outcome = (struct tide_track_outcome){.exit_code = 2};
    struct tracker t = {.config = config,
                        .outcome = ret_outcome,
                        .signals = -1,
                        .file_fd = -1,
                        .spawned = {.events = -1, .hold = -1}};
    struct tide_err close_err;
    int bad = begin(&t, err);
    if (!bad) {
        ret_outcome->exit_code = 0;
        follow_tree(&t);
        finish(&t);
    }
    if (tide_writer_free(t.writer, &close_err))
        trouble(&t, &close_err);
    if (bad && t.writer)
        unlink(ret_outcome->path);
    release(&t);
    return bad;
}

/* ---- what run and attach share ---- */

void tide_track_options_init(struct tide_track_options *options)
{
    struct tide_track_config standard;
    tide_track_config_init(&standard);
    *options = (struct tide_track_options){.interval_ns = standard.interval_ns,
                                           .limit_bytes = standard.limit_bytes,
                                           .items = standard.items,
                                           .items_per_step = standard.items_per_step};
}

void tide_track_options_apply(const struct tide_track_options *options, struct tide_track_config *config)
{
    tide_track_config_init(config);
    config->path = options->output;
    config->interval_ns = options->interval_ns;
    config->limit_bytes = options->limit_bytes;
    config->items = options->items;
    config->items_per_step = options->items_per_step;
    config->step_regex = options->step_regex;
    config->ignore_output = options->no_steps;
    config->status_line = !options->no_status;
}

static int assess(const char *path, struct tide_assessment **ret_assessment, struct tide_err *err)
{
    struct tide_reader *reader = NULL;
    struct tide_history *history = NULL;
    struct tide_assess_options options = {.items = NAN, .items_per_step = NAN, .limit_bytes = NAN};
    int bad = tide_reader_new(path, &reader, err) || tide_history_new(0, &history, err) ||
              tide_history_load(history, reader, err) ||
              tide_assess_history(history, &options, ret_assessment, err);
    tide_history_free(history);
    tide_reader_free(reader);
    return bad ? -1 : 0;
}

static void print_verdict(const char *path, const char *shown, bool quiet)
{
    struct tide_assessment *assessment = NULL;
    struct tide_err err = {0};
    if (assess(path, &assessment, &err)) {
        fprintf(stderr, "tidemark: no verdict: %s\n", err.text);
        return;
    }
    char text[PATH_MAX + 64];
    if (quiet) {
        tide_judged_sentence(&assessment->judged[0], assessment, text, sizeof text);
        fprintf(stderr, "tidemark: %s\n", text);
    } else {
        snprintf(text, sizeof text, "tidemark watch %s", shown);
        tide_assessment_print(assessment, text, stderr);
    }
    tide_assessment_free(assessment);
}

void tide_track_report(const struct tide_track_outcome *outcome, bool quiet)
{
    char shown[PATH_MAX];
    tide_text_escape(outcome->path, strlen(outcome->path), shown, sizeof shown);
    print_verdict(outcome->path, shown, quiet);
    fprintf(stderr, "recording: %s\n", shown);
}
