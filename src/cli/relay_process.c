#include "cli/relay_private.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/title.h"
#include "cli/spawn.h"
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKGROUND_CHECK_MS = 300,
    PTY_END_MS =
        2000, /* a pseudo-terminal reports when all its users are gone; this is for a kernel that does not */
    QUIET_MS = 50,
};

static void reply(struct tide_relay *relay, enum reply what)
{
    char byte = (char)what;
    send(relay->socket[1], &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* no tracker: no reply */
}

static void set_pending(struct stream *s, size_t len)
{
    atomic_store(&s->end, 0);
    atomic_store(&s->at, 0);
    atomic_store(&s->end, (uint32_t)len);
}

static size_t pending(const struct stream *s)
{
    uint32_t at = atomic_load(&s->at), end = atomic_load(&s->end);
    return at < end ? end - at : 0;
}

/* Tells the deputy to close its copy too: the writer must see that there is no reader any more. */
static void close_stream(struct tide_relay *relay, struct stream *s)
{
    if (s->from >= 0)
        close(s->from);
    s->from = -1;
    s->looked = 0;
    set_pending(s, 0);
    send(relay->watch[0], "c", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
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

static bool is_moved(const struct stream *s)
{
    return s->copy[0] >= 0;
}

/* Bytes that wait to be written to `to`. */
static size_t waiting(const struct stream *s)
{
    return is_moved(s) ? s->looked : pending(s);
}

static bool is_over(ssize_t done)
{
    return done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR);
}

/* Copies the contents of a pipe without consuming them. */
static void look_at(struct tide_relay *relay, struct stream *s)
{
    ssize_t there = tee(s->from, s->copy[1], CHUNK, SPLICE_F_NONBLOCK);
    if (is_over(there))
        close_stream(relay, s);
    if (there <= 0)
        return;
    ssize_t got = read(s->copy[0], s->bytes, CHUNK);
    if (relay->read_output && got > 0)
        tide_tap_put(relay->tap, s->out ? 0 : 1, s->bytes, (size_t)got, tide_clock_ns());
    s->looked = (size_t)there;
}

static void move_some(struct tide_relay *relay, struct stream *s)
{
    ssize_t moved = splice(s->from, NULL, s->to, NULL, s->looked, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (is_over(moved))
        close_stream(relay, s);
    else if (moved > 0)
        s->looked -= (size_t)moved;
}

/* Writes what poll says can be written without blocking. */
static void write_some(struct tide_relay *relay, struct stream *s)
{
    const char *bytes = s->bytes + s->at;
    size_t piece = pending(s) < PIECE ? pending(s) : PIECE;
    ssize_t done =
        s->is_socket ? send(s->to, bytes, piece, MSG_DONTWAIT | MSG_NOSIGNAL) : write(s->to, bytes, piece);
    if (done >= 0)
        s->at += (uint32_t)done;
    else if (errno != EAGAIN && errno != EINTR)
        close_stream(relay, s);
}

static bool more_to_read(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, 0) > 0;
}

static void draw_status(struct tide_relay *relay)
{
    if (!relay->info.has_status || !relay->holds_keyboard || relay->broken || !relay->shown_text[0])
        return;
    bool was_shown = relay->line.shown;
    relay->undrawn = !tide_status_line_draw(&relay->line, relay->shown_text);
    if (relay->line.shown != was_shown)
        tide_terminal_set_farewell(relay->line.shown ? "\0337\033[r\033[999;1H\033[2K\0338" : "");
}

static bool is_on_terminal(const struct tide_relay *relay, const struct stream *s)
{
    return s == &relay->streams[0] && relay->info.owns_terminal;
}

/* Writes what was read to the terminal that it shares with the status line. */
static void show_pending(struct tide_relay *relay, struct stream *s)
{
    while (pending(s) && !relay->broken) {
        size_t piece = pending(s) < PIECE ? pending(s) : PIECE;
        tide_status_line_feed(&relay->line, s->bytes + s->at, piece);
        s->at += (uint32_t)piece;
    }
}

static void read_stream(struct tide_relay *relay, struct stream *s)
{
    ssize_t got = read(s->from, s->bytes, CHUNK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) { /* a pseudo-terminal ends with EIO */
        close_stream(relay, s);
        return;
    }
    set_pending(s, (size_t)got);
    if (relay->read_output)
        tide_tap_put(relay->tap, s->out ? 0 : 1, s->bytes, (size_t)got, tide_clock_ns());
    if (!is_on_terminal(relay, s))
        return;
    show_pending(relay, s);
    if (relay->broken)
        close_stream(relay, s);
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
    tide_terminal_yield();
    relay->holds_keyboard = false;
}

/* Reports Ctrl-C (or the key set in its place) once the command itself has ended. */
static void look_for_interrupt(struct tide_relay *relay, const char *keys, size_t len)
{
    struct termios settings;
    if (!relay->command_ended || tcgetattr(relay->streams[0].from, &settings))
        return;
    if (memchr(keys, settings.c_cc[VINTR], len))
        reply(relay, REPLY_INTERRUPTED);
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
        if (i == 0 && relay->info.owns_terminal) {
            tide_status_line_resize(&relay->line, size.ws_row, size.ws_col);
            size.ws_row = (unsigned short)tide_status_line_rows(&relay->line);
            relay->undrawn = true;
        }
        ioctl(s->from, TIOCSWINSZ, &size);
    }
    if (relay->info.owns_terminal)
        draw_status(relay);
}

/* Stops drawing and reading keys: gives the terminal back, and passes output on as it comes. */
static void become_plain(struct tide_relay *relay)
{
    relay->read_output = false;
    if (!relay->info.owns_terminal)
        return;
    tide_status_line_flush(&relay->line);
    give_keyboard(relay);
    relay->info.owns_terminal = relay->info.has_status = false;
    struct termios settings;
    if (relay->streams[0].from >= 0 && !tcgetattr(relay->streams[0].from, &settings)) {
        settings.c_oflag &= ~(tcflag_t)OPOST; /* the terminal itself processes output again */
        tcsetattr(relay->streams[0].from, TCSANOW, &settings);
    }
}

static void do_order(struct tide_relay *relay, const struct order *order)
{
    switch (order->word) {
    case TIDE_RELAY_STATUS:
        memcpy(relay->shown_text, order->text, ORDER_TEXT);
        draw_status(relay);
        reply(relay, REPLY_SHOWN);
        break;
    case TIDE_RELAY_SAY:
        tide_status_line_say(&relay->line, order->text);
        break;
    case TIDE_RELAY_RESIZED:
        resize(relay);
        break;
    case TIDE_RELAY_SUSPEND:
        give_keyboard(relay);
        relay->is_suspended = true;
        reply(relay, REPLY_SUSPENDED);
        break;
    case TIDE_RELAY_RESUME:
        relay->is_suspended = false;
        take_keyboard(relay);
        resize(relay); /* the size may have changed while suspended */
        reply(relay, REPLY_RESUMED);
        break;
    case TIDE_RELAY_ENDED:
        relay->command_ended = true;
        break;
    case TIDE_RELAY_FINISH:
    case TIDE_RELAY_FINISH_ALL:
        relay->all_ended = order->word == TIDE_RELAY_FINISH_ALL;
        relay->stage = FINISHING;
    }
}

/* Does what the tracker has ordered; without a tracker, becomes LEFT_ALONE. An order leaves the socket only
 * when it is done, so the deputy repeats one that was cut off. */
static void obey(struct tide_relay *relay)
{
    struct order order;
    for (;;) {
        ssize_t got =
            TEMP_FAILURE_RETRY(recv(relay->socket[1], &order, sizeof order, MSG_DONTWAIT | MSG_PEEK));
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            become_plain(relay);
            relay->stage = LEFT_ALONE;
            return;
        }
        do_order(relay, &order);
        recv(relay->socket[1], &order, sizeof order, MSG_DONTWAIT);
    }
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
        if (relay->streams[i].from >= 0 && waiting(&relay->streams[i]))
            return true;
    return false;
}

/* How long to wait for an event, in ms. FINISHING: all output counts as passed on after that long without
 * one. */
static int patience(const struct tide_relay *relay)
{
    if (relay->stage == RUNNING)
        return relay->info.owns_terminal && !relay->holds_keyboard ? BACKGROUND_CHECK_MS : -1;
    if (relay->stage == LEFT_ALONE || any_pending(relay))
        return -1;
    for (size_t i = 0; i < relay->stream_count; i++)
        if (relay->streams[i].is_pty && relay->streams[i].from >= 0)
            return relay->all_ended ? PTY_END_MS : QUIET_MS;
    return 0;
}

enum { POLL_ORDERS, POLL_KEYS, POLL_STREAMS, POLL_COUNT = POLL_STREAMS + 2 };

static void fill_poll(const struct tide_relay *relay, struct pollfd fds[static POLL_COUNT])
{
    for (int i = 0; i < POLL_COUNT; i++)
        fds[i] = (struct pollfd){.fd = -1};
    if (relay->stage != LEFT_ALONE)
        fds[POLL_ORDERS] = (struct pollfd){.fd = relay->socket[1], .events = POLLIN};
    if (relay->info.owns_terminal && relay->holds_keyboard && !relay->key_len && relay->stage == RUNNING)
        fds[POLL_KEYS] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (size_t i = 0; i < relay->stream_count; i++) {
        const struct stream *s = &relay->streams[i];
        if (s->from >= 0)
            fds[POLL_STREAMS + i] =
                waiting(s)
                    ? (struct pollfd){.fd = s->to, .events = POLLOUT}
                    : (struct pollfd){.fd = s->from,
                                      .events = (short)(POLLIN | (i == 0 && relay->key_len ? POLLOUT : 0))};
    }
}

static void serve(struct tide_relay *relay, const struct pollfd fds[static POLL_COUNT])
{
    if (fds[POLL_KEYS].revents)
        read_keyboard(relay);
    for (size_t i = 0; i < relay->stream_count; i++) {
        struct stream *s = &relay->streams[i];
        short events = fds[POLL_STREAMS + i].revents;
        if (s->from < 0 || !events)
            continue;
        if (waiting(s) && is_moved(s))
            move_some(relay, s);
        else if (waiting(s))
            write_some(relay, s);
        else if (events & (POLLIN | POLLHUP | POLLERR) && is_moved(s))
            look_at(relay, s);
        else if (events & (POLLIN | POLLHUP | POLLERR))
            read_stream(relay, s);
    }
    if (relay->key_len && relay->info.owns_terminal && relay->streams[0].from >= 0)
        write_keyboard(relay);
}

/* Closes all other descriptors: while the relay held them open, nobody would see their end. */
static void keep_own_descriptors(const struct tide_relay *relay, int watch)
{
    int kept[12] = {watch, relay->socket[1], relay->info.hold[1],
                    relay->info.owns_terminal ? STDIN_FILENO : -1};
    size_t count = 4;
    for (size_t i = 0; i < relay->stream_count; i++) {
        const struct stream *s = &relay->streams[i];
        const int own[] = {s->from, s->to, s->copy[0], s->copy[1]};
        for (size_t j = 0; j < sizeof own / sizeof *own; j++)
            kept[count++] = own[j];
    }
    tide_close_all_but(0, kept, count);
}

static void block_signals(void)
{
    static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++)
        sigdelset(&all, own_faults[i]);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

/* Reports that all output so far was passed on. Then goes on passing output as long as any process can write,
 * except through a pseudo-terminal whose users have all ended. */
static void settle(struct tide_relay *relay)
{
    become_plain(relay);
    reply(relay, REPLY_DONE);
    for (size_t i = 0; relay->all_ended && i < relay->stream_count; i++)
        if (relay->streams[i].is_pty)
            close_stream(relay, &relay->streams[i]);
    relay->stage = LEFT_ALONE;
}

static _Noreturn void pass_on(struct tide_relay *relay)
{
    while (relay->stage == RUNNING || !all_closed(relay)) {
        if (relay->info.owns_terminal && !relay->holds_keyboard && !relay->is_suspended &&
            relay->stage == RUNNING && !relay->broken)
            take_keyboard(relay);
        struct pollfd fds[POLL_COUNT];
        fill_poll(relay, fds);
        int ready = poll(fds, POLL_COUNT, patience(relay));
        if (ready > 0 && fds[POLL_ORDERS].revents)
            obey(relay);
        if (ready > 0)
            serve(relay, fds);
        else if (ready == 0 && relay->stage == FINISHING)
            settle(relay);
    }
    become_plain(relay);
    tide_spawn_tell(relay->info.hold[1], TIDE_SPAWN_DISMISSED);
    relay->over = true;
    _exit(0);
}

_Noreturn void tide_relay_live(struct tide_relay *relay)
{
    /* Not named tidemark or after the command: whoever kills by those names means the tracker or the
     * program. */
    tide_title_set("output-relay");
    block_signals();
    keep_own_descriptors(relay, relay->watch[0]);
    if (relay->info.owns_terminal)
        take_keyboard(relay);
    pass_on(relay);
}

/* The relay was killed: the deputy becomes the relay. The terminal may be in any state. */
static _Noreturn void take_over(struct tide_relay *relay)
{
    struct stream *first = &relay->streams[0];
    for (size_t i = 0; i < relay->stream_count; i++) {
        struct stream *s = &relay->streams[i];
        while (is_moved(s) && read(s->copy[0], s->bytes, CHUNK) > 0)
            ; /* drops the stale copy; bytes not moved yet are still in `from` */
        s->looked = 0;
    }
    relay->watch[0] = -1;
    relay->holds_keyboard = relay->line.shown = false;
    if (relay->info.owns_terminal)
        tide_terminal_rescue();
    if (relay->info.owns_terminal && !relay->is_suspended)
        take_keyboard(relay);
    if (is_on_terminal(relay, first))
        show_pending(relay, first);
    pass_on(relay);
}

_Noreturn void tide_relay_stand_by(struct tide_relay *relay)
{
    int from[] = {relay->streams[0].from, relay->streams[1].from};
    char word;
    tide_title_set("relay-deputy");
    block_signals();
    keep_own_descriptors(relay, relay->watch[1]);
    for (;;) {
        ssize_t got = TEMP_FAILURE_RETRY(recv(relay->watch[1], &word, 1, 0));
        for (int i = 0; i < 2; i++)
            if (from[i] >= 0 && relay->streams[i].from < 0) {
                close(from[i]);
                from[i] = -1;
            }
        if (got <= 0 && relay->over)
            _exit(0);
        if (got <= 0)
            take_over(relay);
    }
}
