/*
 * relay_private.h - what the two halves of the relay share: relay_setup.c (what the command gets, before and
 * around the fork) and relay.c (the thread that passes bytes on, and everything after the fork).
 */
#ifndef TIDE_RELAY_PRIVATE_H
#define TIDE_RELAY_PRIVATE_H

#include "cli/relay.h"
#include "cli/status_line.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum {
    CHUNK = 64 * 1024,
    PIECE = 4096, /* PIPE_BUF: a pipe that polls as writable takes this much without blocking */
    KEYS = 4096,
    TAP_BYTES = 512 * 1024,
    TAP_PIECES = 2048,
    TAIL_BYTES = 1024 * 1024, /* of a file, at most, per collect */
    STATUS_TEXT = 512,
    SAID_TEXT = 1024,
    BACKGROUND_CHECK_MS = 300,
    PTY_END_MS =
        2000, /* a pseudo-terminal whose users are all gone says so; this is for a kernel that does not */
    QUIET_MS = 50,
};

/* One way from the command to us. */
struct stream {
    int from;      /* our end; -1 when closed */
    int to;        /* where it goes on: descriptor 1 or 2 */
    int child_end; /* -1 after the fork */
    bool out, err; /* which of the command's descriptors it is */
    bool is_pty, is_socket;
    size_t at, len; /* what is left to write */
    char bytes[CHUNK];
};

/* A regular file that the command writes to. */
struct tail {
    int fd; /* -1: none */
    off_t at;
    int stream;
};

/* What was printed, until the other thread takes it. */
struct tap {
    size_t bytes, pieces;
    struct piece {
        int64_t t_ns;
        size_t len; /* 0: a gap */
        int stream;
    } piece[TAP_PIECES];
    char data[TAP_BYTES];
};

struct tide_relay {
    bool read_output, owns_terminal, has_status, stdin_on_pty;
    int log_fd; /* -1: none */
    struct stream streams[2];
    size_t stream_count;
    struct tail tails[2];

    pthread_t thread;
    bool started, joined;
    int wake, alert;
    pthread_mutex_t lock; /* guards the next group */
    pthread_cond_t settled;
    struct tap *tap, *other_tap;
    char status_text[STATUS_TEXT];
    bool status_new;
    char said[SAID_TEXT]; /* "": nothing */
    bool want_suspended, is_suspended, want_resize;
    bool finishing, all_ended;

    atomic_bool done, command_ended, interrupted;

    /* Of the relay's thread alone. */
    struct tide_status_line line;
    bool holds_keyboard;
    char keys[KEYS];
    size_t key_at, key_len;
    char shown_text[STATUS_TEXT];
    bool undrawn;
    bool broken; /* the user's terminal is gone */
};

/* Writes all of it to the user's terminal, waiting as long as that takes. context: the relay. */
tide_status_put tide_relay_put_on_terminal;

#endif
