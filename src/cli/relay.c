#include "cli/relay_private.h"

#include "base/clock.h"
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

void tide_relay_put_on_terminal(void *context, const char *bytes, size_t len)
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
