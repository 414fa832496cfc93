/*
 * relay_private.h - what the parts of the relay share: relay_setup.c (the command's descriptors, before and
 * around the fork), relay_process.c (the process that passes bytes on) and relay.c (the tracker's side).
 *
 * The tracker sends orders over a socket, one message each, and gets single bytes back. A copy of the output
 * comes through relay_tap.h. Neither side ever waits for the other here.
 *
 * The relay has a deputy, a second process with the same descriptors that does nothing while the relay lives.
 * The relay's state and the bytes that it has not passed on yet are in memory that both share, so the deputy
 * continues where a killed relay stopped. Killing any one of our processes thus ends no program. Nor is
 * output lost or repeated: from pipe to pipe the kernel moves it in one call, and we read a copy. From a
 * pseudo-terminal and to a socket it has to be read and written; a kill during such a call loses at most
 * CHUNK bytes or repeats at most PIECE. Only the keeper (spawn.h) has no deputy: a session has one leader,
 * and the kernel hangs up the terminal when it dies.
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
    TAIL_BYTES = 1024 * 1024, /* most bytes of a file per collect */
    ORDER_TEXT = 1024,
};

/* One stream of output from the command to us. */
struct stream {
    int from;      /* our end for reading; -1 when closed */
    int to;        /* where the bytes go: descriptor 1 or 2 */
    int child_end; /* -1 after the fork */
    bool out, err; /* the command writes its stdout, its stderr or both to it */
    bool is_pty, is_socket;
    int copy[2]; /* a pipe for the copy of bytes that go from pipe to pipe; -1: bytes are read and written */
    size_t looked;            /* bytes at the head of `from` that were copied and are not moved yet */
    _Atomic uint32_t at, end; /* bytes[at .. end) are still to be written; valid even after a kill */
    char bytes[CHUNK];
};

/* From the tracker to the relay process. */
struct order {
    enum tide_relay_word word;
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

/* The state of the relay process. LEFT_ALONE: without a tracker. */
enum stage { RUNNING, FINISHING, LEFT_ALONE };

struct tide_relay {
    /* Set before the fork, and in every process. */
    struct tide_relay_info info; /* of its PIDs, only the tracker has both */
    bool read_output, stdin_on_pty;
    int log_fd; /* -1: none */
    struct stream streams[2];
    size_t stream_count;
    struct tide_tail tails[2];
    struct tide_tap *tap;
    int socket[2]; /* the tracker's end, the relay's end; -1 where it is closed */
    int watch[2];  /* the relay's end, its deputy's end: tells the deputy that a stream or the relay ended */
    struct tide_status_line line;

    /* Used by the tracker only. */
    bool done, suspended, interrupted, finishing;
    bool is_showing; /* a status text is on its way */
    char status_text[ORDER_TEXT];

    /* Used by the relay process and its deputy, in memory that they share. */
    enum stage stage;
    bool all_ended, over;
    bool holds_keyboard, is_suspended, command_ended;
    char keys[KEYS];
    size_t key_at, key_len;
    char shown_text[ORDER_TEXT];
    bool undrawn;
    bool broken; /* the user's terminal is gone */
};

/* Writes all bytes to the user's terminal, waiting as long as that takes. context: the relay. */
tide_status_put tide_relay_put_on_terminal;

/* The main functions of the relay process and of its deputy. */
_Noreturn void tide_relay_live(struct tide_relay *relay);
_Noreturn void tide_relay_stand_by(struct tide_relay *relay);

#endif
