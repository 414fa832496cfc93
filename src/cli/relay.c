#include "cli/relay.h"

#include "base/clock.h"
#include "cli/status_line.h"
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- what the descriptors are ---- */

enum what { ELSEWHERE, FILE_REGULAR, PIPE_OR_SOCKET, TERMINAL };

static enum what what_is(int fd, struct stat *ret)
{
    if (fstat(fd, ret))
        return ELSEWHERE;
    if (S_ISREG(ret->st_mode))
        return FILE_REGULAR;
    if (S_ISFIFO(ret->st_mode) || S_ISSOCK(ret->st_mode))
        return PIPE_OR_SOCKET;
    return S_ISCHR(ret->st_mode) && isatty(fd) ? TERMINAL : ELSEWHERE;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return S_ISCHR(a->st_mode) ? a->st_rdev == b->st_rdev : a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static void follow_file(struct tide_relay *relay, int fd, int stream)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (own < 0)
        return; /* written by us but not readable: nothing to look at */
    struct stat about;
    off_t at = fcntl(fd, F_GETFL) & O_APPEND ? -1 : lseek(fd, 0, SEEK_CUR);
    if (at < 0)
        at = fstat(own, &about) ? 0 : about.st_size;
    relay->tails[stream] = (struct tail){own, at, stream};
}

/* A pipe for the command to write to. */
static int add_pipe(struct tide_relay *relay, int to, bool is_socket, struct tide_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return tide_err_set(err, "cannot make a pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct stream *s = &relay->streams[relay->stream_count++];
    s->from = ends[0];
    s->child_end = ends[1];
    s->to = to;
    s->is_socket = is_socket;
    return 0;
}

/* A pseudo-terminal like the terminal `to`. With cooked output only if the relay owns the terminal, which is
 * then raw; otherwise that terminal goes on cooking. */
static int add_terminal(struct tide_relay *relay, int to)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
    char name[128];
    if (master < 0)
        return -1;
    if (grantpt(master) || unlockpt(master) || ptsname_r(master, name, sizeof name) ||
        (slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        close(master);
        return -1;
    }
    struct termios settings;
    if (!tcgetattr(to, &settings)) {
        if (!relay->owns_terminal)
            settings.c_oflag &= ~(tcflag_t)OPOST;
        tcsetattr(slave, TCSANOW, &settings);
    }
    struct winsize size = tide_terminal_size(to);
    if (relay->owns_terminal)
        size.ws_row = (unsigned short)tide_status_line_rows(&relay->line);
    ioctl(master, TIOCSWINSZ, &size);
    fcntl(master, F_SETFL, O_NONBLOCK);
    struct stream *s = &relay->streams[relay->stream_count++];
    s->from = master;
    s->child_end = slave;
    s->to = to;
    s->is_pty = true;
    return 0;
}

static void put_on_terminal(void *context, const char *bytes, size_t len);

bool tide_relay_wants_status_line(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* Whether the terminal can be ours: input and output are our controlling terminal and we are in its
 * foreground. */
static bool can_own_terminal(const struct stat *in, const struct stat *out)
{
    return isatty(STDIN_FILENO) && same(in, out) && tcgetpgrp(STDOUT_FILENO) == getpgrp();
}

static void own_terminal(struct tide_relay *relay, bool status_line)
{
    if (tide_terminal_open(STDIN_FILENO, NULL))
        return;
    struct winsize size = tide_terminal_size(STDIN_FILENO);
    const char *no_colour = getenv("NO_COLOR");
    relay->has_status = status_line && tide_relay_wants_status_line();
    relay->owns_terminal = true;
    tide_status_line_init(&relay->line, size.ws_row, size.ws_col, relay->has_status,
                          !(no_colour && *no_colour), put_on_terminal, relay);
}

static int set_up_stream(struct tide_relay *relay, int fd, enum what what, struct tide_err *err)
{
    if (what == TERMINAL) {
        if (add_terminal(relay, fd)) {
            relay->owns_terminal = relay->has_status = false; /* no pseudo-terminal to be had: untouched */
            return 0;
        }
    } else {
        struct stat about;
        if (add_pipe(relay, fd, !fstat(fd, &about) && S_ISSOCK(about.st_mode), err))
            return -1;
    }
    struct stream *s = &relay->streams[relay->stream_count - 1];
    s->out = fd == STDOUT_FILENO;
    s->err = fd == STDERR_FILENO;
    return 0;
}

static int set_up(struct tide_relay *relay, bool status_line, struct tide_err *err)
{
    struct stat in = {0}, out = {0}, errors = {0};
    what_is(STDIN_FILENO, &in);
    enum what what_out = what_is(STDOUT_FILENO, &out), what_err = what_is(STDERR_FILENO, &errors);
    bool joined = what_out == what_err && same(&out, &errors);
    if (what_out == TERMINAL && (relay->read_output || (status_line && tide_relay_wants_status_line())) &&
        can_own_terminal(&in, &out))
        own_terminal(relay, status_line);
    relay->stdin_on_pty = relay->owns_terminal;
    if (!relay->owns_terminal && !relay->read_output)
        return 0;
    if (what_out >= PIPE_OR_SOCKET && set_up_stream(relay, STDOUT_FILENO, what_out, err))
        return -1;
    relay->stdin_on_pty = relay->owns_terminal;
    if (joined && relay->stream_count)
        relay->streams[0].err = true;
    else if (relay->read_output && what_err >= PIPE_OR_SOCKET &&
             set_up_stream(relay, STDERR_FILENO, what_err, err))
        return -1;
    if (relay->read_output && what_out == FILE_REGULAR)
        follow_file(relay, STDOUT_FILENO, 0);
    if (relay->read_output && what_err == FILE_REGULAR && !joined)
        follow_file(relay, STDERR_FILENO, 1);
    return 0;
}

static int set_up_log(struct tide_relay *relay, const char *path, struct tide_err *err)
{
    relay->log_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (relay->log_fd < 0)
        return tide_err_set(err, "cannot write '%s': %s", path, strerror(errno));
    follow_file(relay, relay->log_fd, 0);
    return 0;
}

int tide_relay_new(const struct tide_relay_config *config, struct tide_relay **ret_relay,
                   struct tide_err *err)
{
    struct tide_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return tide_err_set(err, "not enough memory");
    relay->log_fd = relay->tails[0].fd = relay->tails[1].fd = -1;
    for (int i = 0; i < 2; i++)
        relay->streams[i].from = relay->streams[i].child_end = -1;
    pthread_mutex_init(&relay->lock, NULL);
    pthread_cond_init(&relay->settled, NULL);
    relay->read_output = config->read_output;
    relay->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    relay->alert = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    relay->tap = calloc(1, sizeof *relay->tap);
    relay->other_tap = calloc(1, sizeof *relay->other_tap);
    int bad = !relay->tap || !relay->other_tap || relay->wake < 0 || relay->alert < 0
                  ? tide_err_set(err, "cannot watch the program's output: %s", strerror(errno))
                  : 0;
    if (!bad)
        bad = config->log_path ? set_up_log(relay, config->log_path, err)
                               : set_up(relay, config->status_line, err);
    if (bad) {
        tide_relay_free(relay);
        return -1;
    }
    *ret_relay = relay;
    return 0;
}

bool tide_relay_owns_terminal(const struct tide_relay *relay)
{
    return relay->owns_terminal;
}

bool tide_relay_has_status_line(const struct tide_relay *relay)
{
    return relay->has_status;
}

int tide_relay_terminal(const struct tide_relay *relay)
{
    return relay->owns_terminal ? STDIN_FILENO : -1;
}

/* ---- around the fork ---- */

int tide_relay_take_terminal(struct tide_relay *relay)
{
    int slave = relay->streams[0].child_end;
    return ioctl(slave, TIOCSCTTY, 0) ? -1 : slave;
}

int tide_relay_in_child(struct tide_relay *relay)
{
    if (relay->log_fd >= 0) {
        int null = open("/dev/null", O_RDONLY);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(relay->log_fd, STDOUT_FILENO) < 0 ||
            dup2(relay->log_fd, STDERR_FILENO) < 0)
            return -1;
        if (null > STDERR_FILENO)
            close(null);
    }
    for (size_t i = 0; i < relay->stream_count; i++) {
        struct stream *s = &relay->streams[i];
        if ((s->out && dup2(s->child_end, STDOUT_FILENO) < 0) ||
            (s->err && dup2(s->child_end, STDERR_FILENO) < 0))
            return -1;
    }
    if (relay->stdin_on_pty && dup2(relay->streams[0].child_end, STDIN_FILENO) < 0)
        return -1;
    return 0;
}

static void wake(struct tide_relay *relay)
{
    uint64_t one = 1;
    ssize_t ignored = write(relay->wake, &one, sizeof one); /* fails only when a wake-up is due anyway */
    (void)ignored;
}

static void alert(struct tide_relay *relay)
{
    uint64_t one = 1;
    ssize_t ignored = write(relay->alert, &one, sizeof one);
    (void)ignored;
}

/* ---- the relay's thread ---- */

static void tap(struct tide_relay *relay, const struct stream *s, const char *bytes, size_t len)
{
    if (!relay->read_output)
        return;
    int64_t now = tide_clock_ns();
    int stream = s->out ? 0 : 1;
    pthread_mutex_lock(&relay->lock);
    struct tap *t = relay->tap;
    struct piece *last = t->pieces ? &t->piece[t->pieces - 1] : NULL;
    bool room = t->bytes + len <= TAP_BYTES && t->pieces + 1 < TAP_PIECES;
    if (room && last && last->len && last->stream == stream && now - last->t_ns < TIDE_NS_PER_MS) {
        last->len += len;
    } else if (room) {
        t->piece[t->pieces++] = (struct piece){now, len, stream};
    } else if (t->pieces < TAP_PIECES && !(last && !last->len && last->stream == stream)) {
        t->piece[t->pieces++] = (struct piece){now, 0, stream};
    }
    if (room) {
        memcpy(t->data + t->bytes, bytes, len);
        t->bytes += len;
    }
    pthread_mutex_unlock(&relay->lock);
}

static void close_stream(struct stream *s)
{
    if (s->from >= 0)
        close(s->from);
    s->from = -1;
    s->len = 0;
}

/* Writes all of it to the user's terminal, waiting as long as that takes. */
static void put_on_terminal(void *context, const char *bytes, size_t len)
{
    struct tide_relay *relay = context;
    while (len && !relay->broken) {
        ssize_t done = write(relay->streams[0].to, bytes, len);
        if (done >= 0) {
            bytes += done;
            len -= (size_t)done;
        } else if (errno == EAGAIN) {
            struct pollfd fd = {.fd = relay->streams[0].to, .events = POLLOUT};
            poll(&fd, 1, -1);
        } else if (errno != EINTR) {
            relay->broken = true;
        }
    }
}

/* Writes what poll says can be written without blocking. */
static void write_some(struct stream *s)
{
    size_t piece = s->len < PIECE ? s->len : PIECE;
    ssize_t done = s->is_socket ? send(s->to, s->bytes + s->at, piece, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : write(s->to, s->bytes + s->at, piece);
    if (done >= 0) {
        s->at += (size_t)done;
        s->len -= (size_t)done;
    } else if (errno != EAGAIN && errno != EINTR) {
        close_stream(s);
    }
}

static bool more_to_read(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, 0) > 0;
}

static void draw_status(struct tide_relay *relay)
{
    if (!relay->has_status || !relay->holds_keyboard || relay->broken || !relay->shown_text[0])
        return;
    bool was_shown = relay->line.shown;
    relay->undrawn = !tide_status_line_draw(&relay->line, relay->shown_text);
    if (relay->line.shown != was_shown)
        tide_terminal_set_farewell(relay->line.shown ? "\x1b"
                                                       "7\x1b[r\x1b[999;1H\x1b[2K\x1b"
                                                       "8"
                                                     : "");
}

static void read_stream(struct tide_relay *relay, struct stream *s)
{
    ssize_t got = read(s->from, s->bytes, CHUNK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) { /* a pseudo-terminal ends with EIO */
        close_stream(s);
        return;
    }
    tap(relay, s, s->bytes, (size_t)got);
    if (s != &relay->streams[0] || !relay->owns_terminal) {
        s->at = 0;
        s->len = (size_t)got;
        return;
    }
    tide_status_line_feed(&relay->line, s->bytes, (size_t)got);
    if (relay->broken)
        close_stream(s);
    else if ((relay->undrawn || relay->line.stale || !relay->line.shown) && !more_to_read(s->from))
        draw_status(relay);
}

static void take_keyboard(struct tide_relay *relay)
{
    if (!tide_terminal_is_foreground())
        return;
    tide_terminal_raw();
    relay->holds_keyboard = true;
    relay->undrawn = true;
}

static void give_keyboard(struct tide_relay *relay)
{
    if (!relay->holds_keyboard)
        return;
    tide_status_line_end(&relay->line);
    tide_terminal_set_farewell("");
    tide_terminal_restore();
    relay->holds_keyboard = false;
}

/* Ctrl-C, whatever the key is, when the command itself is gone. */
static void look_for_interrupt(struct tide_relay *relay, const char *keys, size_t len)
{
    struct termios settings;
    if (!atomic_load(&relay->command_ended) || tcgetattr(relay->streams[0].from, &settings))
        return;
    if (memchr(keys, settings.c_cc[VINTR], len)) {
        atomic_store(&relay->interrupted, true);
        alert(relay);
    }
}

static void read_keyboard(struct tide_relay *relay)
{
    ssize_t got = read(STDIN_FILENO, relay->keys, KEYS);
    if (got > 0) {
        relay->key_at = 0;
        relay->key_len = (size_t)got;
        look_for_interrupt(relay, relay->keys, (size_t)got);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        relay->holds_keyboard = false; /* hung up, or no longer in the foreground */
    }
}

static void write_keyboard(struct tide_relay *relay)
{
    ssize_t done = write(relay->streams[0].from, relay->keys + relay->key_at, relay->key_len);
    if (done > 0) {
        relay->key_at += (size_t)done;
        relay->key_len -= (size_t)done;
    } else if (done < 0 && errno != EAGAIN && errno != EINTR) {
        relay->key_len = 0;
    }
}

static void resize(struct tide_relay *relay)
{
    for (size_t i = 0; i < relay->stream_count; i++) {
        struct stream *s = &relay->streams[i];
        if (!s->is_pty || s->from < 0)
            continue;
        struct winsize size = tide_terminal_size(s->to);
        if (i == 0 && relay->owns_terminal) {
            tide_status_line_resize(&relay->line, size.ws_row, size.ws_col);
            size.ws_row = (unsigned short)tide_status_line_rows(&relay->line);
            relay->undrawn = true;
        }
        ioctl(s->from, TIOCSWINSZ, &size);
    }
    if (relay->owns_terminal)
        draw_status(relay);
}

/* What the other thread asked for. */
static void obey(struct tide_relay *relay)
{
    uint64_t count;
    ssize_t ignored = read(relay->wake, &count, sizeof count);
    (void)ignored;
    pthread_mutex_lock(&relay->lock);
    bool status_new = relay->status_new, want_resize = relay->want_resize;
    bool want_suspended = relay->want_suspended, is_suspended = relay->is_suspended;
    relay->status_new = relay->want_resize = false;
    if (status_new)
        memcpy(relay->shown_text, relay->status_text, STATUS_TEXT);
    char said[SAID_TEXT];
    memcpy(said, relay->said, SAID_TEXT);
    relay->said[0] = '\0';
    pthread_mutex_unlock(&relay->lock);
    if (said[0])
        tide_status_line_say(&relay->line, said);

    if (relay->owns_terminal && want_suspended != is_suspended) {
        if (want_suspended) {
            give_keyboard(relay);
        } else {
            take_keyboard(relay);
            want_resize = true; /* it may have changed meanwhile */
        }
        pthread_mutex_lock(&relay->lock);
        relay->is_suspended = want_suspended;
        pthread_cond_broadcast(&relay->settled);
        pthread_mutex_unlock(&relay->lock);
    }
    if (want_resize)
        resize(relay);
    if (status_new)
        draw_status(relay);
}

static bool all_closed(const struct tide_relay *relay)
{
    for (size_t i = 0; i < relay->stream_count; i++)
        if (relay->streams[i].from >= 0)
            return false;
    return true;
}

static bool any_pending(const struct tide_relay *relay)
{
    for (size_t i = 0; i < relay->stream_count; i++)
        if (relay->streams[i].from >= 0 && relay->streams[i].len)
            return true;
    return false;
}

/* How long to wait for something to happen, in ms; finishing: how long nothing must happen until all is
 * passed on. */
static int patience(struct tide_relay *relay, bool finishing, bool all_ended)
{
    if (!finishing)
        return relay->owns_terminal && !relay->holds_keyboard ? BACKGROUND_CHECK_MS : -1;
    if (any_pending(relay))
        return -1;
    for (size_t i = 0; i < relay->stream_count; i++)
        if (relay->streams[i].is_pty && relay->streams[i].from >= 0)
            return all_ended ? PTY_END_MS : QUIET_MS;
    return 0;
}

enum { POLL_WAKE, POLL_KEYS, POLL_STREAMS, POLL_COUNT = POLL_STREAMS + 2 };

static void fill_poll(const struct tide_relay *relay, bool finishing, struct pollfd fds[static POLL_COUNT])
{
    for (int i = 0; i < POLL_COUNT; i++)
        fds[i] = (struct pollfd){.fd = -1};
    fds[POLL_WAKE] = (struct pollfd){.fd = relay->wake, .events = POLLIN};
    if (relay->owns_terminal && relay->holds_keyboard && !relay->key_len && !finishing)
        fds[POLL_KEYS] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (size_t i = 0; i < relay->stream_count; i++) {
        const struct stream *s = &relay->streams[i];
        if (s->from >= 0)
            fds[POLL_STREAMS + i] =
                s->len
                    ? (struct pollfd){.fd = s->to, .events = POLLOUT}
                    : (struct pollfd){.fd = s->from,
                                      .events = (short)(POLLIN | (i == 0 && relay->key_len ? POLLOUT : 0))};
    }
}

static void serve(struct tide_relay *relay, const struct pollfd fds[static POLL_COUNT])
{
    if (fds[POLL_WAKE].revents)
        obey(relay);
    if (fds[POLL_KEYS].revents)
        read_keyboard(relay);
    for (size_t i = 0; i < relay->stream_count; i++) {
        struct stream *s = &relay->streams[i];
        short events = fds[POLL_STREAMS + i].revents;
        if (s->from < 0 || !events)
            continue;
        if (s->len)
            write_some(s);
        else if (events & (POLLIN | POLLHUP | POLLERR))
            read_stream(relay, s);
    }
    if (relay->key_len && relay->owns_terminal && relay->streams[0].from >= 0)
        write_keyboard(relay);
}

static void *relay_main(void *context)
{
    struct tide_relay *relay = context;
    if (relay->owns_terminal)
        take_keyboard(relay);
    for (;;) {
        pthread_mutex_lock(&relay->lock);
        bool finishing = relay->finishing, all_ended = relay->all_ended;
        bool suspended = relay->is_suspended;
        pthread_mutex_unlock(&relay->lock);
        if (finishing && all_closed(relay))
            break;
        if (relay->owns_terminal && !relay->holds_keyboard && !suspended && !finishing && !relay->broken)
            take_keyboard(relay);
        struct pollfd fds[POLL_COUNT];
        fill_poll(relay, finishing, fds);
        int ready = poll(fds, POLL_COUNT, patience(relay, finishing, all_ended));
        if (ready > 0)
            serve(relay, fds);
        else if (ready == 0 && finishing)
            break;
    }
    if (relay->owns_terminal) {
        tide_status_line_flush(&relay->line);
        give_keyboard(relay);
    }
    for (size_t i = 0; i < relay->stream_count; i++)
        close_stream(&relay->streams[i]);
    atomic_store(&relay->done, true);
    alert(relay);
    return NULL;
}

/* ---- the other side ---- */

int tide_relay_start(struct tide_relay *relay, struct tide_err *err)
{
    for (size_t i = 0; i < relay->stream_count; i++) {
        close(relay->streams[i].child_end);
        relay->streams[i].child_end = -1;
    }
    if (!relay->stream_count) {
        atomic_store(&relay->done, true);
        return 0;
    }
    sigset_t all, before;
    sigfillset(&all);
    static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++)
        sigdelset(&all, own_faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int bad = pthread_create(&relay->thread, NULL, relay_main, relay);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (bad)
        return tide_err_set(err, "cannot start a thread: %s", strerror(bad));
    relay->started = true;
    return 0;
}

int tide_relay_alert(const struct tide_relay *relay)
{
    return relay->alert;
}

static void collect_file(struct tail *tail, tide_relay_on_output *on_output, void *context)
{
    char bytes[PIECE * 4];
    struct stat about;
    if (tail->fd < 0 || fstat(tail->fd, &about))
        return;
    if (about.st_size < tail->at)
        tail->at = 0; /* cut short and begun anew */
    int64_t now = tide_clock_ns();
    if (about.st_size - tail->at > TAIL_BYTES) {
        on_output(context, tail->stream, NULL, 0, now);
        tail->at = about.st_size - TAIL_BYTES;
    }
    for (;;) {
        ssize_t got = pread(tail->fd, bytes, sizeof bytes, tail->at);
        if (got <= 0 || tail->at >= about.st_size)
            return;
        tail->at += got;
        on_output(context, tail->stream, bytes, (size_t)got, now);
    }
}

void tide_relay_collect(struct tide_relay *relay, tide_relay_on_output *on_output, void *context)
{
    if (!relay->read_output)
        return;
    pthread_mutex_lock(&relay->lock);
    struct tap *t = relay->tap;
    relay->tap = relay->other_tap;
    relay->other_tap = t;
    pthread_mutex_unlock(&relay->lock);
    size_t at = 0;
    for (size_t i = 0; i < t->pieces; i++) {
        on_output(context, t->piece[i].stream, t->data + at, t->piece[i].len, t->piece[i].t_ns);
        at += t->piece[i].len;
    }
    t->bytes = t->pieces = 0;
    for (int i = 0; i < 2; i++)
        collect_file(&relay->tails[i], on_output, context);
}

void tide_relay_status(struct tide_relay *relay, const char *text)
{
    if (!relay->has_status)
        return;
    pthread_mutex_lock(&relay->lock);
    if (strncmp(relay->status_text, text, STATUS_TEXT - 1)) {
        snprintf(relay->status_text, STATUS_TEXT, "%s", text);
        relay->status_new = true;
    }
    bool is_new = relay->status_new;
    pthread_mutex_unlock(&relay->lock);
    if (is_new)
        wake(relay);
}

void tide_relay_say(struct tide_relay *relay, const char *text)
{
    pthread_mutex_lock(&relay->lock);
    snprintf(relay->said, SAID_TEXT, "%s", text);
    pthread_mutex_unlock(&relay->lock);
    wake(relay);
}

void tide_relay_resized(struct tide_relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    relay->want_resize = true;
    pthread_mutex_unlock(&relay->lock);
    wake(relay);
}

static void ask_suspended(struct tide_relay *relay, bool want)
{
    if (!relay->owns_terminal || !relay->started || atomic_load(&relay->done))
        return;
    pthread_mutex_lock(&relay->lock);
    relay->want_suspended = want;
    wake(relay);
    while (relay->is_suspended != want && !atomic_load(&relay->done))
        pthread_cond_wait(&relay->settled, &relay->lock);
    pthread_mutex_unlock(&relay->lock);
}

void tide_relay_suspend(struct tide_relay *relay)
{
    ask_suspended(relay, true);
}

void tide_relay_resume(struct tide_relay *relay)
{
    ask_suspended(relay, false);
}

void tide_relay_command_ended(struct tide_relay *relay)
{
    atomic_store(&relay->command_ended, true);
}

bool tide_relay_interrupted(struct tide_relay *relay)
{
    uint64_t count;
    ssize_t ignored = read(relay->alert, &count, sizeof count);
    (void)ignored;
    return atomic_exchange(&relay->interrupted, false);
}

void tide_relay_finish(struct tide_relay *relay, bool all_ended)
{
    pthread_mutex_lock(&relay->lock);
    relay->finishing = true;
    relay->all_ended = all_ended;
    pthread_mutex_unlock(&relay->lock);
    wake(relay);
}

bool tide_relay_is_done(struct tide_relay *relay)
{
    return atomic_load(&relay->done);
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void tide_relay_free(struct tide_relay *relay)
{
    if (!relay)
        return;
    if (relay->started && !atomic_load(&relay->done)) {
        /* Its thread waits in a write that nobody reads: the storage stays with it until the process ends. */
        tide_terminal_restore();
        return;
    }
    if (relay->started)
        pthread_join(relay->thread, NULL);
    for (int i = 0; i < 2; i++) {
        close_if_open(relay->streams[i].from);
        close_if_open(relay->streams[i].child_end);
        close_if_open(relay->tails[i].fd);
    }
    close_if_open(relay->log_fd);
    close_if_open(relay->wake);
    close_if_open(relay->alert);
    pthread_mutex_destroy(&relay->lock);
    pthread_cond_destroy(&relay->settled);
    free(relay->tap);
    free(relay->other_tap);
    free(relay);
}
