#include "cli/relay_private.h"

#include "base/clock.h"
#include "cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

const struct tide_relay_info *tide_relay_info(const struct tide_relay *relay)
{
    return &relay->info;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Forks a process that runs `live` on the shared memory `both`. Returns its PID, or 0 if fork failed. */
static pid_t start_process(struct tide_relay *both, void (*live)(struct tide_relay *relay))
{
    pid_t pid = fork();
    if (pid == 0)
        live(both);
    return pid > 0 ? pid : 0;
}

int tide_relay_start(struct tide_relay *relay, struct tide_err *err)
{
    relay->done = !relay->stream_count;
    if (relay->done)
        return 0;
    struct tide_relay *both =
        mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED)
        return tide_err_set(err, "not enough memory");
    int watch[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, relay->socket) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, watch)) {
        munmap(both, sizeof *both);
        return tide_err_set(err, "cannot make a socket: %s", strerror(errno));
    }
    memcpy(both, relay, sizeof *both);
    memcpy(both->watch, watch, sizeof watch);
    both->line.context = both;
    relay->info.pid = start_process(both, tide_relay_live);
    relay->info.deputy = relay->info.pid ? start_process(both, tide_relay_stand_by) : 0; /* optional */
    munmap(both, sizeof *both);
    close_end(&watch[0]);
    close_end(&watch[1]);
    if (!relay->info.pid)
        return tide_err_set(err, "cannot start a process: %s", strerror(errno));
    close_end(&relay->socket[1]);
    for (size_t i = 0; i < relay->stream_count; i++) {
        close_end(&relay->streams[i].from);
        close_end(&relay->streams[i].copy[0]);
        close_end(&relay->streams[i].copy[1]);
    }
    return 0;
}

void tide_relay_started(struct tide_relay *relay)
{
    for (size_t i = 0; i < relay->stream_count; i++)
        close_end(&relay->streams[i].child_end);
}

/* ---- what the relay's process says ---- */

static void lose(struct tide_relay *relay)
{
    close_end(&relay->socket[0]);
    if (relay->info.owns_terminal && !relay->finishing)
        tide_terminal_rescue(); /* the relay was killed before it could do so */
    relay->done = true;
}

static void hear(struct tide_relay *relay)
{
    char byte;
    while (relay->socket[0] >= 0) {
        ssize_t got = TEMP_FAILURE_RETRY(recv(relay->socket[0], &byte, 1, MSG_DONTWAIT));
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            lose(relay);
            return;
        }
        relay->is_showing = relay->is_showing && byte != REPLY_SHOWN;
        relay->suspended = byte == REPLY_SUSPENDED || (relay->suspended && byte != REPLY_RESUMED);
        relay->interrupted = relay->interrupted || byte == REPLY_INTERRUPTED;
        relay->done = relay->done || byte == REPLY_DONE;
    }
}

int tide_relay_alert(const struct tide_relay *relay)
{
    return relay->socket[0];
}

bool tide_relay_interrupted(struct tide_relay *relay)
{
    hear(relay);
    bool was = relay->interrupted;
    relay->interrupted = false;
    return was;
}

bool tide_relay_is_done(struct tide_relay *relay)
{
    hear(relay);
    return relay->done;
}

/* ---- what was printed ---- */

void tide_tail_collect(struct tide_tail *tail, tide_relay_on_output *on_output, void *context)
{
    char bytes[PIECE * 4];
    struct stat about;
    if (tail->fd < 0 || fstat(tail->fd, &about))
        return;
    if (about.st_size < tail->at)
        tail->at = 0; /* truncated and written again */
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
    tide_tap_take(relay->tap, on_output, context);
    for (int i = 0; i < 2; i++)
        tide_tail_collect(&relay->tails[i], on_output, context);
}

/* ---- what the relay's process is told ---- */

/* The socket cannot be full: status texts are frequent, but at most one of them is on its way. */
void tide_relay_tell(struct tide_relay *relay, enum tide_relay_word word, const char *text)
{
    struct order order = {.word = word};
    snprintf(order.text, sizeof order.text, "%s", text);
    if (relay->socket[0] >= 0)
        send(relay->socket[0], &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void tide_relay_status(struct tide_relay *relay, const char *text)
{
    hear(relay);
    if (!relay->info.has_status || relay->is_showing || !strncmp(relay->status_text, text, ORDER_TEXT - 1))
        return;
    snprintf(relay->status_text, sizeof relay->status_text, "%s", text);
    relay->is_showing = true;
    tide_relay_tell(relay, TIDE_RELAY_STATUS, text);
}

static void wait_and_hear(struct tide_relay *relay)
{
    struct pollfd fd = {.fd = relay->socket[0], .events = POLLIN};
    poll(&fd, 1, -1);
    hear(relay);
}

void tide_relay_suspend(struct tide_relay *relay, bool suspended)
{
    if (!relay->info.owns_terminal || relay->done)
        return;
    tide_relay_tell(relay, suspended ? TIDE_RELAY_SUSPEND : TIDE_RELAY_RESUME, "");
    hear(relay);
    while (relay->suspended != suspended && relay->socket[0] >= 0)
        wait_and_hear(relay);
}

void tide_relay_finish(struct tide_relay *relay, bool all_ended)
{
    relay->finishing = true;
    tide_relay_tell(relay, all_ended ? TIDE_RELAY_FINISH_ALL : TIDE_RELAY_FINISH, "");
}

void tide_relay_call_off(struct tide_relay *relay)
{
    tide_relay_started(relay);
    tide_relay_finish(relay, true);
    while (relay->socket[0] >= 0)
        wait_and_hear(relay);
}

void tide_relay_free(struct tide_relay *relay)
{
    if (!relay)
        return;
    if (relay->info.pid && relay->info.owns_terminal && !relay->done)
        tide_terminal_rescue(); /* the relay hangs in a write that nobody reads */
    for (int i = 0; i < 2; i++) {
        close_end(&relay->streams[i].from);
        close_end(&relay->streams[i].child_end);
        close_end(&relay->streams[i].copy[0]);
        close_end(&relay->streams[i].copy[1]);
        close_end(&relay->tails[i].fd);
        close_end(&relay->info.hold[i]);
        close_end(&relay->socket[i]);
    }
    close_end(&relay->log_fd);
    tide_tap_free(relay->tap);
    free(relay);
}
