/*
 * spawn.h - starts the command, and says how it ended.
 *
 * Call tide_spawn() after tide_relay_start() and before any thread exists. The command gets the descriptors
 * that the relay made for it, the signal mask, the dispositions and the environment that this process was
 * started with, and in the environment `settings`: "NAME=VALUE", a NULL at the end.
 *
 * On a pseudo-terminal a small process stands between tracker and command: the keeper. It leads the
 * terminal's session, so that the command's process group is not orphaned and Ctrl-Z stops it as usual. It
 * reports every stop, continuation and end through `events`, and restores the user's terminal if tracker and
 * relay are both killed. It lives until nobody uses the pseudo-terminal any more and the relay dismisses it.
 * Without a pseudo-terminal, the command is a child of this process, which learns of its end from wait4().
 */
#ifndef TIDE_SPAWN_H
#define TIDE_SPAWN_H

#include "base/err.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct tide_relay;

struct tide_spawned {
    pid_t pid;    /* of the command */
    pid_t keeper; /* 0: none */
    int events;   /* -1 without a keeper; else a stream of struct tide_spawn_event */
};

struct tide_spawn_event {
    int status;              /* as from waitpid: stopped, continued, exited, killed */
    int64_t peak_rss_bytes;  /* of the command alone, or TIDE_UNKNOWN */
    int64_t tree_peak_bytes; /* of the command and the children it waited for */
};

/* What this process was started with, for the command to inherit. */
struct tide_spawn_inheritance {
    sigset_t mask;
    struct sigaction on_child;
    struct rlimit files;
};

/*
 * Returns 0, or -1 with an error and the shell's exit code in *ret_exit: 127 not found, 126 not executable, 2
 * anything else. On failure the command has never run.
 */
int tide_spawn(char **argv, char **settings, struct tide_relay *relay, bool own_session,
               const struct tide_spawn_inheritance *inherited, struct tide_spawned *ret_spawned,
               int *ret_exit, struct tide_err *err);

/* Finds the path of a program as execvp does: a name without a slash in PATH, where access(2) must permit it
 * in that mode. False: there is none. */
bool tide_spawn_find(const char *program, int mode, char ret_path[static PATH_MAX]);

enum tide_spawn_word {
    TIDE_SPAWN_WATCHED = 'w', /* the tracker observes the command: only now may the keeper reap it. Until then
                                 a command that has ended keeps its entry in /proc */
    TIDE_SPAWN_DISMISSED = 'd', /* exit */
};
/* Tells the keeper something; hold: see tide_relay_info, -1: there is no keeper. */
void tide_spawn_tell(int hold, enum tide_spawn_word word);

void tide_spawn_release(struct tide_spawned *spawned);

/* Reaps a child that has ended, without blocking. Returns its PID, or 0 when none has ended. */
pid_t tide_spawn_reap(struct tide_spawn_event *ret_event);

#endif
