/*
 * symbol_server.c - see symbol_server.h.
 *
 * A question is kept until it is answered. A worker answers one at a time and in order, so the oldest
 * question is the one that killed it. The others are sent to the next worker. So is the oldest, once, if the
 * worker may have been killed from outside, perhaps before it had read the question.
 */
#include "sense/symbol_server.h"

#include "sense/symbol_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEATHS_MOST = 256 }; /* of workers, before no more are started */

struct question {
    struct tide_symbol_question head;
    const char *path;
    bool asked_again;
};

struct tide_symbol_server {
    const char *program;
    int socket, pidfd;
    pid_t pid; /* 0: no worker, and none will be started */
    int deaths;
    struct question open[TIDE_SYMBOL_ASKED]; /* a ring */
    size_t oldest, open_count, sent_count;
    char packet[TIDE_SYMBOL_REPLY_BYTES];
};

/* --- the worker's life --------------------------------------------------------------------------------- */

/* Starts the worker in its own session, safe from the terminal's keys; `socket` is its standard input. */
static int spawn(const char *program, int socket, pid_t *ret_pid)
{
    char *const arguments[] = {(char *)program, TIDE_SYMBOL_WORKER, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int error = posix_spawn_file_actions_init(&files);

    if (error)
        return error;
    if (!(error = posix_spawnattr_init(&how))) {
        if (!(error = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID)) &&
            !(error = posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO)) &&
            !(error = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)) &&
            !(error = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0)))
            error = posix_spawn(ret_pid, program, &files, &how, arguments, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static int start_worker(struct tide_symbol_server *server, struct tide_err *err)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return tide_err_set(err, "cannot make a socket to look up symbols: %s", strerror(errno));
    int error = spawn(server->program, ends[1], &server->pid);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        server->pid = 0;
        return tide_err_set(err, "cannot start '%s' to look up symbols: %s", server->program,
                            strerror(error));
    }
    server->socket = ends[0];
    server->pidfd = (int)syscall(SYS_pidfd_open, server->pid, 0); /* glibc has it since 2.36 */
    server->sent_count = 0;
    return 0;
}

/* True if it may have been killed from outside: by SIGKILL, or it is not known how it ended. */
static bool end_worker(struct tide_symbol_server *server)
{
    siginfo_t about = {0};

    if (!server->pid)
        return false;
    close(server->socket);
    server->socket = -1;
    if (server->pidfd >= 0) {
        /* Code that waits for all children may have reaped it. Its PID may then belong to another process. */
        syscall(SYS_pidfd_send_signal, server->pidfd, SIGKILL, NULL, 0);
        while (waitid(P_PIDFD, (id_t)server->pidfd, &about, WEXITED) != 0 && errno == EINTR)
            ;
        close(server->pidfd);
    }
    server->pid = 0;
    return about.si_code == 0 || (about.si_code == CLD_KILLED && about.si_status == SIGKILL);
}

int tide_symbol_server_new(const char *program, struct tide_symbol_server **ret_server, struct tide_err *err)
{
    struct tide_symbol_server *server = calloc(1, sizeof *server);

    if (!server)
        return tide_err_set(err, "not enough memory to look up symbols");
    server->program = program;
    if (start_worker(server, err) != 0) {
        free(server);
        return -1;
    }
    *ret_server = server;
    return 0;
}

void tide_symbol_server_free(struct tide_symbol_server *server)
{
    if (!server)
        return;
    end_worker(server);
    free(server);
}

int64_t tide_symbol_server_pid(const struct tide_symbol_server *server)
{
    return server->pid;
}

/* --- asking -------------------------------------------------------------------------------------------- */

bool tide_symbol_server_has_room(const struct tide_symbol_server *server)
{
    return server->pid && server->open_count < TIDE_SYMBOL_ASKED;
}

static struct question *open_at(struct tide_symbol_server *server, size_t number)
{
    return &server->open[(server->oldest + number) % TIDE_SYMBOL_ASKED];
}

/* Sends as many as the socket has room for. A dead worker is noticed when its answers end. */
static void send_questions(struct tide_symbol_server *server)
{
    while (server->sent_count < server->open_count) {
        struct question *question = open_at(server, server->sent_count);
        struct iovec parts[] = {{&question->head, sizeof question->head},
                                {(char *)question->path, strnlen(question->path, TIDE_SYMBOL_TEXT - 1)}};
        struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};
        if (sendmsg(server->socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;
        server->sent_count++;
    }
}

int tide_symbol_server_ask(struct tide_symbol_server *server, uint64_t tag,
                           const struct tide_symbol_module *module, uint64_t address, bool debug_info)
{
    if (!tide_symbol_server_has_room(server))
        return -1;
    struct question *question = open_at(server, server->open_count++);
    *question = (struct question){
        .head = {.tag = tag, .address = address, .module = *module, .debug_info = debug_info},
        .path = module->path};
    question->head.module.path = NULL;
    send_questions(server);
    return 0;
}

/* --- answers ------------------------------------------------------------------------------------------- */

static void close_oldest(struct tide_symbol_server *server)
{
    server->oldest = (server->oldest + 1) % TIDE_SYMBOL_ASKED;
    server->open_count--;
    server->sent_count--;
}

/* Returns the NUL-terminated string at *at and moves *at past it. NULL: none within the packet. */
static const char *take_text(const char *packet, size_t len, size_t *at)
{
    const char *text = packet + *at;
    const char *end = *at < len ? memchr(text, '\0', len - *at) : NULL;

    if (!end)
        return NULL;
    *at += (size_t)(end - text) + 1;
    return text;
}

static void take_frames(const char *packet, size_t len, uint32_t count, struct tide_symbol_answer *answer)
{
    size_t at = sizeof(struct tide_symbol_reply);

    for (uint32_t i = 0; i < count && i < TIDE_SYMBOL_FRAMES; i++) {
        struct tide_symbol_frame *frame = &answer->frames[i];
        if (len - at < sizeof frame->line + 1)
            return;
        memcpy(&frame->line, packet + at, sizeof frame->line);
        at += sizeof frame->line;
        frame->inlined = packet[at++] != 0;
        frame->function = take_text(packet, len, &at);
        frame->file = frame->function ? take_text(packet, len, &at) : NULL;
        if (!frame->file)
            return;
        answer->count++;
    }
}

/* The worker is dead, or sent an answer to no question. Returns the same as _hear. */
static int mourn(struct tide_symbol_server *server, struct tide_symbol_answer *ret_answer)
{
    struct question *oldest = server->sent_count > 0 ? open_at(server, 0) : NULL;
    bool was_killed = end_worker(server);
    struct tide_err err;
    bool is_lost = oldest && (!was_killed || oldest->asked_again);

    if (is_lost) {
        *ret_answer = (struct tide_symbol_answer){.tag = oldest->head.tag, .crashed = true};
        close_oldest(server);
    } else if (oldest) {
        oldest->asked_again = true;
    }
    if (++server->deaths < DEATHS_MOST && start_worker(server, &err) == 0)
        send_questions(server);
    return is_lost ? 1 : server->pid ? 0 : -1;
}

/* The same as recv(), without ECONNRESET, which a worker that died with unread questions causes once, before
 * its remaining answers. */
static ssize_t receive(struct tide_symbol_server *server)
{
    ssize_t got;

    do
        got = recv(server->socket, server->packet, sizeof server->packet, MSG_DONTWAIT);
    while (got < 0 && (errno == EINTR || errno == ECONNRESET));
    return got;
}

int tide_symbol_server_hear(struct tide_symbol_server *server, int timeout_ms,
                            struct tide_symbol_answer *ret_answer)
{
    struct pollfd readable = {.fd = server->socket, .events = POLLIN};
    struct tide_symbol_reply head = {0};
    struct tide_err err;

    if (!server->pid)
        return -1;
    send_questions(server);
    ssize_t got = receive(server);
    if (got < 0 && errno == EAGAIN && timeout_ms > 0 && poll(&readable, 1, timeout_ms) > 0)
        got = receive(server);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got >= (ssize_t)sizeof head)
        memcpy(&head, server->packet, sizeof head);
    if (got < (ssize_t)sizeof head || server->sent_count == 0 || head.tag != open_at(server, 0)->head.tag)
        return mourn(server, ret_answer);
    *ret_answer = (struct tide_symbol_answer){.tag = head.tag};
    take_frames(server->packet, (size_t)got, head.count, ret_answer);
    close_oldest(server);
    if (head.last) {
        end_worker(server);
        start_worker(server, &err);
    }
    if (server->pid)
        send_questions(server);
    return 1;
}
