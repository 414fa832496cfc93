/*
 * relay.h - passes the command's input, output and terminal through unchanged, and copies its output.
 *
 * tide_relay_new (inspects descriptors 0 to 2 and makes the command's replacements for them) ->
 * tide_relay_start -> fork of the command, tide_relay_in_child() there, tide_relay_started() here ->
 * tide_relay_collect() every tick -> tide_relay_finish(), wait until tide_relay_is_done() ->
 * tide_relay_free().
 *
 * A small process of its own passes the bytes on (relay_process.c). So a slow look at the process tree never
 * holds the program up, and the program outlives its tracker: when the tracker is killed, the relay process
 * gives the terminal back and passes output on until no writer is left. It does the same for processes that
 * are still there when the tracker has ended. When the relay process itself is killed, its deputy takes over
 * (relay_private.h).
 *
 * The kind of a descriptor decides what the command gets:
 *   devices                       the same descriptor
 *   a regular file                the same descriptor; the relay reads what is added through one of its own
 *   a pipe, a socket, /dev/null   a pipe (one for both, if both were the same)
 *   a terminal                    a pseudo-terminal of the same settings and size
 * When standard input and output are our controlling terminal and we are in its foreground, the relay owns
 * the terminal: it makes the terminal raw, the command gets a session on the pseudo-terminal, and a status
 * line may be shown. Otherwise a pseudo-terminal only carries output, and the kernel handles keyboard,
 * signals and job control as usual.
 *
 * Bytes are passed on unchanged and in order. When the reader goes away, the command's next write fails as it
 * would have failed without us.
 */
#ifndef TIDE_RELAY_H
#define TIDE_RELAY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tide_relay;

/* read_output: keeps a copy of the output for tide_relay_collect(). status_line: shows one, where that is
 * possible. log_path not NULL: the command reads /dev/null and writes to this file, truncated. */
int tide_relay_new(bool read_output, bool status_line, const char *log_path, struct tide_relay **ret_relay,
                   struct tide_err *err);

/* Gives the terminal back. NULL is allowed. */
void tide_relay_free(struct tide_relay *relay);

/* What others may know of a relay. */
struct tide_relay_info {
    bool owns_terminal, has_status; /* has_status: it shows a status line */
    pid_t pid, deputy;              /* the relay process and its deputy; 0: there is none */
    /* A pipe. The keeper (spawn.h) reads its first end; this process and the relay process both have the
     * other, so the keeper sees it close when both are gone. -1 when the relay does not own the terminal. */
    int hold[2];
};

const struct tide_relay_info *tide_relay_info(const struct tide_relay *relay);

/* True if stderr is a terminal that can show a status line. */
bool tide_relay_wants_status_line(void);

/* Called in the keeper, which leads a new session: makes the pseudo-terminal its controlling terminal.
 * Returns a descriptor of it, or -1 with errno. */
int tide_relay_take_terminal(struct tide_relay *relay);
/* Called in the command's process before exec: puts the descriptors in place. 0, or -1 with errno. */
int tide_relay_in_child(struct tide_relay *relay);

/* Starts the relay process. Must be called before this process has threads, and before the command starts,
 * because the command must never run without it. */
int tide_relay_start(struct tide_relay *relay, struct tide_err *err);
/* After the command has started: closes this process's copies of the command's descriptors. */
void tide_relay_started(struct tide_relay *relay);
/* Instead of tide_relay_started(), when the command did not start. On return the terminal is as it was. */
void tide_relay_call_off(struct tide_relay *relay);

/* Returns a descriptor that becomes readable when the answer of tide_relay_interrupted() or
 * tide_relay_is_done() may have changed; -1 when nothing can happen any more. */
int tide_relay_alert(const struct tide_relay *relay);

typedef void tide_relay_on_output(void *context, int stream, const char *bytes, size_t len, int64_t t_ns);

/* Hands over what was printed since the last call. len 0: bytes of that stream were dropped here, because
 * there were too many. */
void tide_relay_collect(struct tide_relay *relay, tide_relay_on_output *on_output, void *context);

/* A regular file that a program writes to. */
struct tide_tail {
    int fd;   /* -1: none */
    off_t at; /* what is before it was read */
    int stream;
};

/* Hands on what was added to the file, from its beginning if it was truncated. Of too much, only the end. */
void tide_tail_collect(struct tide_tail *tail, tide_relay_on_output *on_output, void *context);

/* Sets the text of the status line, which must be escaped. */
void tide_relay_status(struct tide_relay *relay, const char *text);

enum tide_relay_word {
    TIDE_RELAY_SAY,     /* print the text among the program's output; only when the relay owns the terminal */
    TIDE_RELAY_RESIZED, /* the terminal has another size */
    TIDE_RELAY_ENDED,   /* the command itself has ended: Ctrl-C is for the tracker (tide_relay_interrupted) */
    /* What the other functions tell. */
    TIDE_RELAY_STATUS,
    TIDE_RELAY_SUSPEND,
    TIDE_RELAY_RESUME,
    TIDE_RELAY_FINISH,
    TIDE_RELAY_FINISH_ALL,
};
/* Tells the relay process something; text: "" where none is needed. */
void tide_relay_tell(struct tide_relay *relay, enum tide_relay_word word, const char *text);

/* Before this process stops (suspended) gives the terminal back; after it continues, takes it again. */
void tide_relay_suspend(struct tide_relay *relay, bool suspended);

/* True if the user pressed Ctrl-C after the command's end. */
bool tide_relay_interrupted(struct tide_relay *relay);

/* Passes on the remaining output. all_ended: no process of the tree can write any more. Otherwise the relay
 * process stays for those that can, and gives only the terminal back. */
void tide_relay_finish(struct tide_relay *relay, bool all_ended);
/* True if all output so far was passed on, or if the relay process is gone. */
bool tide_relay_is_done(struct tide_relay *relay);

#endif
