#include "cli/spawn.h"

#include "base/descriptors.h"
#include "base/text.h"
#include "base/title.h"
#include "cli/relay.h"
#include "cli/terminal.h"
#include "record/record.h"
#include "sense/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Polls pid (-1: any child); flags as for wait4(). Returns its PID, 0 (nothing to report) or -1. */
static pid_t wait_for(pid_t pid, int flags, struct tide_spawn_event *ret_event)
{
    siginfo_t info = {0};
    struct rusage usage;
    struct tide_stat stat;
    bool leaf = false;
    if (!waitid(pid < 0 ? P_ALL : P_PID, pid < 0 ? 0 : (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) &&
        info.si_pid) {
        /* ru_maxrss includes children that it waited for: it is its own peak only if there were none. */
        leaf = !tide_proc_read_stat(AT_FDCWD, info.si_pid, &stat) && !stat.has_waited;
        pid = info.si_pid;
    }
    pid_t got = wait4(pid, &ret_event->status, WNOHANG | flags, &usage);
    if (got <= 0)
        return got;
    ret_event->tree_peak_bytes = (int64_t)usage.ru_maxrss * 1024;
    ret_event->peak_rss_bytes = leaf ? ret_event->tree_peak_bytes : TIDE_UNKNOWN;
    return got;
}

pid_t tide_spawn_reap(struct tide_spawn_event *ret_event)
{
    pid_t got = wait_for(-1, 0, ret_event);
    return got > 0 ? got : 0;
}

/* In the child: becomes the command, or reports errno through `failure`. */
static _Noreturn void become(char **argv, char **settings, struct tide_relay *relay,
                             const struct tide_spawn_inheritance *inherited, int failure)
{
    if (!tide_relay_in_child(relay)) {
        sigaction(SIGCHLD, &inherited->on_child, NULL);
        sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
        tide_descriptors_restore(&inherited->files);
        for (; *settings; settings++)
            putenv(*settings);
        execvp(argv[0], argv);
    }
    int why = errno;
    ssize_t ignored = write(failure, &why, sizeof why);
    (void)ignored;
    _exit(127);
}

/* Waits until the command is watched. Exits if it is dismissed instead, or if the other end closes. */
static void wait_until_watched(int hold)
{
    char byte;
    ssize_t got = TEMP_FAILURE_RETRY(read(hold, &byte, 1));
    if (got == 1 && byte == TIDE_SPAWN_WATCHED)
        return;
    if (got != 1)
        tide_terminal_rescue();
    _exit(0);
}

/* The keeper's main loop: reports the command's changes of state until dismissed, or until `hold` closes. */
static _Noreturn void keep(pid_t child, int events, int hold)
{
    tide_title_set("terminal-keeper");         /* not called tidemark: see relay_process.c */
    int kept[] = {events, hold, STDIN_FILENO}; /* the user's terminal */
    tide_close_all_but(0, kept, sizeof kept / sizeof *kept);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    sigset_t child_only;
    sigemptyset(&child_only);
    sigaddset(&child_only, SIGCHLD);
    int ended = signalfd(-1, &child_only, SFD_CLOEXEC | SFD_NONBLOCK);
    wait_until_watched(hold);
    bool alive = true, clean = false;
    struct signalfd_siginfo info;
    struct pollfd fds[] = {{.fd = hold, .events = POLLIN}, {.fd = ended, .events = POLLIN}};
    for (bool first = true;; first = false) {
        struct tide_spawn_event event;
        while (alive && wait_for(child, WUNTRACED | WCONTINUED, &event) == child) {
            if (write(events, &event, sizeof event) != sizeof event)
                break;
            alive = !WIFEXITED(event.status) && !WIFSIGNALED(event.status);
        }
        if (!first && (fds[0].revents & (POLLIN | POLLHUP))) {
            char byte;
            clean = read(hold, &byte, 1) == 1;
            break;
        }
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        while (ended >= 0 && read(ended, &info, sizeof info) > 0)
            ;
    }
    if (!clean)
        tide_terminal_rescue();
    _exit(0);
}

/* Runs as the keeper, between tracker and command: leads the session of the pseudo-terminal. Says first which
 * PID the command has, or -errno. */
static _Noreturn void start_keeper(char **argv, char **settings, struct tide_relay *relay,
                                   const struct tide_spawn_inheritance *inherited, int failure, int events)
{
    setsid();
    int slave = tide_relay_take_terminal(relay);
    pid_t pid = slave < 0 ? -1 : fork();
    pid_t said = pid < 0 ? -errno : pid;
    if (pid == 0) {
        setpgid(0, 0);
        tcsetpgrp(slave, getpid()); /* SIGTTOU is blocked */
        become(argv, settings, relay, inherited, failure);
    }
    if (pid > 0) {
        setpgid(pid, pid);
        tcsetpgrp(slave, pid);
    }
    if (write(events, &said, sizeof said) != sizeof said || pid < 0)
        _exit(1);
    keep(pid, events, tide_relay_info(relay)->hold[0]);
}

bool tide_spawn_find(const char *program, int mode, char ret_path[static PATH_MAX])
{
    const char *path = getenv("PATH");
    if (strchr(program, '/'))
        return snprintf(ret_path, PATH_MAX, "%s", program) < PATH_MAX;
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t len = strcspn(p, ":");
        int used = snprintf(ret_path, PATH_MAX, "%.*s/%s", len ? (int)len : 1, len ? p : ".", program);
        if (used < PATH_MAX && !access(ret_path, mode))
            return true;
        p += len + (p[len] == ':');
    }
    return false;
}

/* execvp also says EACCES if a folder of PATH may not be searched. */
static void describe_failure(const char *program, int why, int *ret_exit, struct tide_err *err)
{
    char path[PATH_MAX];
    if (why == EACCES && !strchr(program, '/') && !tide_spawn_find(program, F_OK, path))
        why = ENOENT;
    const char *shown = TIDE_SHOWN(program, 256);
    *ret_exit = why == ENOENT || why == ENOTDIR ? 127 : why == EAGAIN || why == ENOMEM ? 2 : 126;
    bool unknown = why == ENOENT && !strchr(program, '/');
    tide_err_set(err, "cannot run '%s': %s", shown, unknown ? "command not found" : strerror(why));
    if (unknown)
        tide_err_hint(err, "it is neither a path nor in PATH");
    if (why == EACCES)
        tide_err_hint(err, "make it executable with 'chmod +x', or name its interpreter");
}

/* Makes count pipes, all closed on exec. */
static int make_pipes(int (*pipes)[2], size_t count, struct tide_err *err)
{
    for (size_t i = 0; i < count; i++)
        if (pipe2(pipes[i], O_CLOEXEC)) {
            int why = errno;
            while (i-- > 0) {
                close(pipes[i][0]);
                close(pipes[i][1]);
            }
            return tide_err_set(err, "cannot make a pipe: %s", strerror(why));
        }
    return 0;
}

enum { FAILURE, EVENTS, PIPES };

/* Learns the command's PID from the keeper, which says it first. */
static int hear_of_child(int fd, pid_t keeper, pid_t *ret_pid, struct tide_err *err)
{
    pid_t said = -EIO;
    TEMP_FAILURE_RETRY(read(fd, &said, sizeof said));
    if (said < 0) {
        waitpid(keeper, NULL, 0);
        return tide_err_set(err, "cannot start a process on a pseudo-terminal: %s", strerror(-said));
    }
    *ret_pid = said;
    return 0;
}

int tide_spawn(char **argv, char **settings, struct tide_relay *relay, bool own_session,
               const struct tide_spawn_inheritance *inherited, struct tide_spawned *ret_spawned,
               int *ret_exit, struct tide_err *err)
{
    bool keeper = tide_relay_info(relay)->owns_terminal;
    int pipes[PIPES][2], result = -1, why = 0;
    struct tide_spawned spawned = {.events = -1};
    *ret_exit = 2;
    if (make_pipes(pipes, PIPES, err))
        return -1;
    pid_t pid = fork();
    if (pid < 0) {
        tide_err_set(err, "cannot start a process: %s", strerror(errno));
        goto close_pipes;
    }
    if (pid == 0) {
        if (keeper)
            start_keeper(argv, settings, relay, inherited, pipes[FAILURE][1], pipes[EVENTS][1]);
        if (own_session)
            setsid();
        become(argv, settings, relay, inherited, pipes[FAILURE][1]);
    }
    close(pipes[EVENTS][1]);
    pipes[EVENTS][1] = -1;
    spawned.pid = pid;
    if (keeper) {
        spawned.keeper = pid;
        if (hear_of_child(pipes[EVENTS][0], pid, &spawned.pid, err))
            goto close_pipes;
    }
    close(pipes[FAILURE][1]);
    pipes[FAILURE][1] = -1;
    ssize_t got = TEMP_FAILURE_RETRY(read(pipes[FAILURE][0], &why, sizeof why));
    if (keeper) {
        spawned.events = pipes[EVENTS][0];
        pipes[EVENTS][0] = -1;
        fcntl(spawned.events, F_SETFL, O_NONBLOCK);
    }
    if (got == sizeof why) {
        if (keeper)
            tide_spawn_tell(tide_relay_info(relay)->hold[1], TIDE_SPAWN_DISMISSED);
        tide_spawn_release(&spawned);
        waitpid(pid, NULL, 0);
        describe_failure(argv[0], why, ret_exit, err);
        goto close_pipes;
    }
    *ret_spawned = spawned;
    result = 0;
close_pipes:
    for (int i = 0; i < PIPES; i++)
        for (int end = 0; end < 2; end++)
            if (pipes[i][end] >= 0)
                close(pipes[i][end]);
    return result;
}

void tide_spawn_tell(int hold, enum tide_spawn_word word)
{
    char byte = (char)word;
    ssize_t ignored = write(hold, &byte, 1); /* if the keeper is gone, nobody needs it */
    (void)ignored;
}

void tide_spawn_release(struct tide_spawned *spawned)
{
    if (spawned->events >= 0)
        close(spawned->events);
    spawned->events = -1;
}
