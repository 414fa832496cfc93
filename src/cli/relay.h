/*
 * relay.h - the command's input, output and terminal, passed through unchanged and looked at on the way.
 *
 * tide_relay_new (looks at descriptors 0 to 2 and makes what the command gets in their place) ->
 * tide_relay_start -> fork of the command, tide_relay_in_child() there, tide_relay_started() here ->
 * tide_relay_collect() every tick -> tide_relay_finish(), wait until tide_relay_is_done() ->
 * tide_relay_free().
 *
 * What passes bytes on is a small process of its own (relay_process.c). A slow look at the process tree never
 * holds the program up, and the program outlives its tracker: when this process is killed, the other gives
 * the terminal back and goes on passing output until nobody is left to write any. It does the same for
 * processes that are still there when the tracker has ended. When the relay itself is killed, its deputy goes
 * on in its place (relay_private.h).
 *
 * What a descriptor is decides what the command gets:
 *   devices                       the same descriptor
 *   a regular file                the same descriptor; the relay reads what is added through one of its own
 *   a pipe, a socket, /dev/null   a pipe (one for both, if both were the same)
 *   a terminal                    a pseudo-terminal of the same settings and size
 * When standard input and output are our controlling terminal and we are in its foreground, the relay owns
 * the terminal: it is made raw, the command leads a session on the pseudo-terminal, and a status line may be
 * shown. Otherwise a pseudo-terminal only carries output, and keyboard, signals and job control stay the
 * kernel's.
 *
 * Bytes are passed on unchanged and in order. A reader that goes away is passed on too: the command's next
 * write fails as it would have failed without us.
 */
#ifndef TIDE_RELAY_H
#define TIDE_RELAY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_relay;

struct tide_relay_config {
    bool read_output; /* collect what is printed */
    bool status_line; /* show one, where that is possible */
    const char
        *log_path; /* not NULL: the command reads /dev/null and writes to this file, which is made anew */
};

int tide_relay_new(const struct tide_relay_config *config, struct tide_relay **ret_relay,
                   struct tide_err *err);

/* Gives the terminal back. NULL is allowed. */
void tide_relay_free(struct tide_relay *relay);

bool tide_relay_owns_terminal(const struct tide_relay *relay);
bool tide_relay_has_status_line(const struct tide_relay *relay);
/* Whether stderr is a terminal that can show a status line. */
bool tide_relay_wants_status_line(void);

/* The relay's process and its deputy's, 0 when there is none. */
int64_t tide_relay_pid(const struct tide_relay *relay);
int64_t tide_relay_deputy(const struct tide_relay *relay);

/* The pipe that holds the keeper (spawn.h): the end that it reads, and the end that this process and the
 * relay's both have, so that it closes when both are gone. -1 when the relay does not own the terminal. */
int tide_relay_keeper_end(const struct tide_relay *relay);
int tide_relay_hold_end(const struct tide_relay *relay);

/* In the keeper, which leads a new session: makes the pseudo-terminal its controlling terminal. Returns a
 * descriptor of it, or -1 with errno. */
int tide_relay_take_terminal(struct tide_relay *relay);
/* In the command's process before exec: puts the descriptors in place. 0, or -1 with errno. */
int tide_relay_in_child(struct tide_relay *relay);

/* Starts the relay's process, before this one has threads and before the command is there, which must never
 * be without it. */
int tide_relay_start(struct tide_relay *relay, struct tide_err *err);
/* The command has what is its own: this process lets go of it. */
void tide_relay_started(struct tide_relay *relay);
/* Instead: there is no command. The terminal is as it was on return. */
void tide_relay_call_off(struct tide_relay *relay);

/* Readable when something happened: tide_relay_interrupted() or tide_relay_is_done() may say more. -1 when
 * nothing can happen any more. */
int tide_relay_alert(const struct tide_relay *relay);

typedef void tide_relay_on_output(void *context, int stream, const char *bytes, size_t len, int64_t t_ns);

/* Hands over what was printed since the last call. len 0: bytes of that stream were left out here, there were
 * too many. */
void tide_relay_collect(struct tide_relay *relay, tide_relay_on_output *on_output, void *context);

/* The text of the status line, escaped. */
void tide_relay_status(struct tide_relay *relay, const char *text);

/* A line for the user among the program's output; only when the relay owns the terminal. */
void tide_relay_say(struct tide_relay *relay, const char *text);

void tide_relay_resized(struct tide_relay *relay);

/* Before we stop, and after we go on: gives the terminal back, takes it again (if in the foreground). */
void tide_relay_suspend(struct tide_relay *relay);
void tide_relay_resume(struct tide_relay *relay);

/* The command itself has ended: from now on Ctrl-C is for us (tide_relay_interrupted). */
void tide_relay_command_ended(struct tide_relay *relay);
bool tide_relay_interrupted(struct tide_relay *relay);

/* Passes on what is left. all_ended: no process of the tree can write any more; otherwise the relay's process
 * stays for those that can, and gives back only the terminal. */
void tide_relay_finish(struct tide_relay *relay, bool all_ended);
/* What was printed so far is passed on, or the relay's process is gone. */
bool tide_relay_is_done(struct tide_relay *relay);

#endif
