#include "cli/track_private.h"

#include "base/clock.h"
#include "record/record.h"
#include "sense/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- what the user is told while it runs ---- */

void tide_tracker_say(struct tide_tracker *t, const char *format, ...)
{
    char text[PATH_MAX + 128] = "tidemark: ";
    size_t used = strlen(text);
    va_list arguments;
    if (t->config->silent)
        return;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    if (t->relay && tide_relay_info(t->relay)->owns_terminal && !tide_relay_is_done(t->relay))
        tide_relay_tell(t->relay, TIDE_RELAY_SAY, text);
    else
        fprintf(stderr, "%s\n", text);
}

void tide_tracker_check(struct tide_tracker *t, int bad)
{
    if (!bad || t->outcome->trouble.text[0])
        return;
    t->outcome->trouble = t->err;
    tide_tracker_say(t, "%s; the program goes on", t->err.text);
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
 * A blocked signal reaches signalfd even if its disposition is to be ignored. So signals that we were started
 * to ignore (nohup) are left out.
 */
int tide_tracker_set_up_signals(struct tide_tracker *t, bool owns_terminal, struct tide_err *err)
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
    sigaddset(&blocked, SIGXFSZ); /* exceeding a limit on file sizes is a failed write, as on a full disk */
    sigaddset(&blocked, SIGTTIN);
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, &t->inherited.mask);
    t->signals = signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK);
    return t->signals < 0 ? tide_err_set(err, "cannot receive signals: %s", strerror(errno)) : 0;
}

/* Failed writes were handled already. Their signals are still pending and would kill us once unblocked. */
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

void tide_tracker_restore_signals(struct tide_tracker *t)
{
    if (t->signals < 0)
        return;
    close(t->signals);
    forget_failed_writes();
    sigaction(SIGCHLD, &t->inherited.on_child, NULL);
    sigprocmask(SIG_SETMASK, &t->inherited.mask, NULL);
}

/* True if a shell is there to continue us after a stop: an ancestor in our session but in another process
 * group. Scripts and makefiles in between belong to our job and stop with us. */
static bool can_be_continued(void)
{
    struct tide_stat stat;
    pid_t ancestor = getppid();
    for (int depth = 0; depth < 64 && ancestor > 0 && getsid(ancestor) == getsid(0); depth++) {
        if (getpgid(ancestor) != getpgrp())
            return true;
        ancestor = tide_proc_read_stat(AT_FDCWD, ancestor, &stat) ? 0 : (pid_t)stat.parent_pid;
    }
    return false;
}

/* The command was stopped on its terminal: gives ours back and stops too, until the shell continues us. */
static void stop_with_command(struct tide_tracker *t, int signal)
{
    if (!can_be_continued()) {
        if (signal != SIGSTOP)
            kill(-t->spawned.pid, SIGCONT);
        return;
    }
    tide_tracker_check(t, tide_writer_commit(t->writer, &t->err));
    tide_relay_suspend(t->relay, true);
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    kill(0, SIGTSTP);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    tide_relay_suspend(t->relay, false);
    kill(-t->spawned.pid, SIGCONT);
    t->next_ns = tide_clock_ns();
}

static void command_ended(struct tide_tracker *t, const struct tide_spawn_event *event)
{
    if (t->ended_ns)
        return;
    t->ended_ns = tide_clock_ns();
    t->next_ns = t->ended_ns; /* look now for processes that are left */
    t->empty_looks = 0;
    t->exit_signal = WIFSIGNALED(event->status) ? WTERMSIG(event->status) : 0;
    t->outcome->exit_code = t->exit_signal ? 128 + t->exit_signal : WEXITSTATUS(event->status);
    tide_relay_tell(t->relay, TIDE_RELAY_ENDED, "");
}

static void note_peak(struct tide_tracker *t, pid_t pid, const struct tide_spawn_event *event)
{
    if (event->peak_rss_bytes != TIDE_UNKNOWN)
        tide_sense_reaped(t->sense, pid, event->peak_rss_bytes);
    if (event->tree_peak_bytes > t->outcome->kernel_peak_bytes)
        t->outcome->kernel_peak_bytes = event->tree_peak_bytes;
}

static void reap(struct tide_tracker *t)
{
    struct tide_spawn_event event;
    for (pid_t pid; (pid = tide_spawn_reap(&event)) > 0;) {
        if (pid == t->spawned.keeper || pid == t->witness.pid ||
            (t->heap && pid == tide_heap_sense_helper(t->heap)) ||
            (t->relay && (pid == tide_relay_info(t->relay)->pid || pid == tide_relay_info(t->relay)->deputy)))
            continue;
        note_peak(t, pid, &event);
        if (pid == t->spawned.pid)
            command_ended(t, &event);
    }
}

void tide_tracker_hear_keeper(struct tide_tracker *t)
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
    if (got == 0 && !t->ended_ns) { /* somebody killed the keeper: the command's status is lost */
        struct tide_spawn_event lost = {.status = SIGKILL};
        command_ended(t, &lost);
    }
}

static bool is_of_keyboard(int signal)
{
    return signal == SIGINT || signal == SIGQUIT || signal == SIGHUP || signal == SIGTSTP;
}

/* True if the command got the signal too: from the kernel, or from somebody who signals the whole group. One
 * that came before the command was there it did not get. */
static bool has_been_sent(struct tide_tracker *t, const struct signalfd_siginfo *info)
{
    int signal = (int)info->ssi_signo;
    bool early = sigismember(&t->early, signal) == 1;
    sigdelset(&t->early, signal);
    if (early)
        return false;
    if (info->ssi_code == SI_KERNEL)
        return is_of_keyboard(signal);
    return getpgid(t->spawned.pid) == getpgrp() &&
           tide_witness_heard(&t->witness, signal, (pid_t)info->ssi_pid);
}

static void forward(struct tide_tracker *t, const struct signalfd_siginfo *info)
{
    int signal = (int)info->ssi_signo;
    if (tide_relay_info(t->relay)->owns_terminal)
        kill(is_of_keyboard(signal) ? -t->spawned.pid : t->spawned.pid, signal);
    else if (!has_been_sent(t, info))
        kill(t->spawned.pid, signal);
}

static void handle_signal(struct tide_tracker *t, const struct signalfd_siginfo *info)
{
    switch (info->ssi_signo) {
    case SIGCHLD:
        reap(t);
        break;
    case SIGWINCH:
        if (t->relay)
            tide_relay_tell(t->relay, TIDE_RELAY_RESIZED, "");
        break;
    case SIGCONT:
        tide_relay_suspend(t->relay, false);
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

void tide_tracker_handle_signals(struct tide_tracker *t)
{
    struct signalfd_siginfo info;
    while (read(t->signals, &info, sizeof info) == sizeof info)
        handle_signal(t, &info);
}
