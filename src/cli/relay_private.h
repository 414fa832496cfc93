/*
 * relay_private.h - what the parts of the relay share: relay_setup.c (what the command gets, before and
 * around the fork), relay_process.c (the process that passes bytes on) and relay.c (how the tracker speaks
 * with it).
 *
 * The tracker sends orders over a socket, one message each, and hears single bytes back. What is printed
 * comes through relay_tap.h. Nothing that either does waits for the other.
 *
 * The relay has a deputy, a second process with the same descriptors that does nothing as long as the first
 * is there. What the relay knows and has not passed on yet lies in memory that both share, so that the deputy
 * goes on where the first was killed: killing any one process of ours ends no program. Nor is any output lost
 * or repeated: from pipe to pipe the kernel moves it in one call, and what is looked at is a copy. From a
 * pseudo-terminal and to a socket it has to be read and written, and what is in such a call at the moment of
 * the kill is lost (at most CHUNK bytes) or repeated (at most PIECE). Only the keeper (spawn.h) has no
 * deputy: a session has one leader, and the kernel hangs up when it dies.
 */
#ifndef TIDE_RELAY_PRIVATE_H
#define TIDE_RELAY_PRIVATE_H

#include "cli/relay.h"
#include "cli/relay_tap.h"
#include "cli/status_line.h"

#include <sys/types.h>

enum {
    CHUNK = 64 * 1024,
    PIECE = 4096, /* PIPE_BUF: a pipe that polls as writable takes this much without blocking */
    KEYS = 4096,
    TAIL_BYTES = 1024 * 1024, /* of a file, at most, per collect */
    ORDER_TEXT = 1024,
};

/* One way from the command to us. */
struct stream {
    int from;      /* our end; -1 when closed */
    int to;        /* where it goes on: descriptor 1 or 2 */
    int child_end; /* -1 after the fork */
    bool out, err; /* which of the command's descriptors it is */
    bool is_pty, is_socket;
    int copy[2]; /* of what goes from pipe to pipe, to look at: a pipe; -1 where bytes are read and written */
    size_t looked;            /* at the beginning of what is in `from` */
    _Atomic uint32_t at, end; /* what is left to write is bytes[at .. end); whoever dies leaves it so */
    char bytes[CHUNK];
};

/* A regular file that the command writes to. */
struct tail {
    int fd; /* -1: none */
    off_t at;
    int stream;
};

/* From the tracker to the relay's process. */
enum order_kind {
    ORDER_STATUS,
    ORDER_SAY,
    ORDER_RESIZE,
    ORDER_SUSPEND,
    ORDER_RESUME,
    ORDER_ENDED,
    ORDER_FINISH
};
struct order {
    enum order_kind kind;
    bool all_ended; /* ORDER_FINISH */
    char text[ORDER_TEXT];
};

/* And back. */
enum reply {
    REPLY_SHOWN = 'l',
    REPLY_SUSPENDED = 's',
    REPLY_RESUMED = 'r',
    REPLY_INTERRUPTED = 'i',
    REPLY_DONE = 'd'
};

/* How far the relay's process has come. */
enum stage { RUNNING, FINISHING, LEFT_ALONE };

struct tide_relay {
    /* Before the fork, and in all afterwards. */
    bool read_output, owns_terminal, has_status, stdin_on_pty;
    int log_fd; /* -1: none */
    struct stream streams[2];
    size_t stream_count;
    struct tail tails[2];
    struct tide_tap *tap;
    int hold[2];   /* see tide_relay_keeper_end */
    int socket[2]; /* the tracker's end, the relay's end; -1 where it is closed */
    int watch[2];  /* the relay's end, its deputy's: hears of streams that end, and of the relay's end */
    struct tide_status_line line;

    /* Of the tracker. */
    pid_t pid, deputy; /* 0: there is no relay process, nor was one needed */
    bool done, suspended, interrupted, finishing;
    bool is_showing; /* a status text is on its way */
    char status_text[ORDER_TEXT];

    /* Of the relay's process and its deputy, in memory that they share. */
    enum stage stage;
    bool all_ended, over;
    bool holds_keyboard, is_suspended, command_ended;
    char keys[KEYS];
    size_t key_at, key_len;
    char shown_text[ORDER_TEXT];
    bool undrawn;
    bool broken; /* the user's terminal is gone */
};

/* Writes all of it to the user's terminal, waiting as long as that takes. context: the relay. */
tide_status_put tide_relay_put_on_terminal;

/* The life of the relay's process, and that of its deputy. */
_Noreturn void tide_relay_live(struct tide_relay *relay);
_Noreturn void tide_relay_stand_by(struct tide_relay *relay);

#endif
