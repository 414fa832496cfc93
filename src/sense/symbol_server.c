/*
 * symbol_server.c - see symbol_server.h.
 *
 * Two processes: the keeper, which only waits, and its child, the worker, which answers. A packet is a
 * question or an answer; the worker handles one at a time, so when it dies, the keeper answers in its place
 * (the question was taken from the socket, or else nothing was being answered: the worker says which in a
 * page they share) and forks the next one. A worker that has grown too large ends between two questions.
 */
#include "sense/symbol_server.h"

#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ANSWER_SECONDS = 20,
    ANSWER_BYTES = 64 * 1024,
    GROWN = 42, /* exit status of a worker that makes room for a new one */
    GROWN_PAGES = (1 << 30) / 4096,
    KEEPER_SOCKET = 3,
    DEATHS_MOST = 256, /* workers, after which the server gives up */
};

static const rlim_t WORKER_ADDRESS_BYTES = (rlim_t)24 << 30; /* maps of files count too */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMIT_MEMORY = 0 }; /* a sanitizer's shadow is larger than any limit */
#elif defined(__has_feature)
enum { LIMIT_MEMORY = !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)) };
#else
enum { LIMIT_MEMORY = 1 };
#endif

struct question {
    uint64_t tag;
    uint64_t address, start, end;
    int64_t pid;
    uint32_t build_id_bytes;
    uint32_t debug_info;
    uint8_t build_id[TIDE_SYMBOL_BUILD_ID];
    uint32_t path_bytes; /* with its NUL; the path follows */
};

/* Followed by count times { int64_t line; uint8_t inlined; function NUL; file NUL }. */
struct answer {
    uint64_t tag;
    uint32_t crashed;
    uint32_t count;
};

/* What worker and keeper share. */
struct board {
    atomic_bool busy;
    _Atomic uint64_t tag; /* of the question being answered */
};

struct tide_symbol_server {
    int socket;
    pid_t pid; /* of the keeper */
    int pidfd;
    bool gone;
    size_t open;
    char packet[ANSWER_BYTES];
};

/* --- the worker ---------------------------------------------------------------------------------------- */

static size_t write_answer(char *out, uint64_t tag, const struct tide_symbol_frame *frames, size_t count)
{
    struct answer head = {.tag = tag};
    size_t used = sizeof head;

    for (size_t i = 0; i < count; i++) {
        size_t function = strlen(frames[i].function) + 1, file = strlen(frames[i].file) + 1;
        if (used + sizeof frames[i].line + 1 + function + file > ANSWER_BYTES)
            break;
        memcpy(out + used, &frames[i].line, sizeof frames[i].line);
        used += sizeof frames[i].line;
        out[used++] = (char)frames[i].inlined;
        memcpy(out + used, frames[i].function, function);
        used += function;
        memcpy(out + used, frames[i].file, file);
        used += file;
        head.count++;
    }
    memcpy(out, &head, sizeof head);
    return used;
}

static void limit_worker(void)
{
    struct rlimit address = {WORKER_ADDRESS_BYTES, WORKER_ADDRESS_BYTES}, none = {0, 0};

    if (LIMIT_MEMORY)
        setrlimit(RLIMIT_AS, &address);
    setrlimit(RLIMIT_CORE, &none);
    (void)!nice(5); /* where it may not be nicer it works all the same */
}

static bool is_grown(void)
{
    char text[128];
    unsigned long total, resident = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return false;
    text[got] = '\0';
    return sscanf(text, "%lu %lu", &total, &resident) == 2 && resident > GROWN_PAGES;
}

/* Returns the exit status. */
static int answer_questions(int socket, struct board *board)
{
    static char packet[sizeof(struct question) + TIDE_SYMBOL_TEXT], reply[ANSWER_BYTES];
    struct tide_symbols *symbols = tide_symbols_new();

    limit_worker();
    if (!symbols)
        return 1;
    for (unsigned n = 1;; n++) {
        struct question question;
        ssize_t got = recv(socket, packet, sizeof packet - 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < (ssize_t)sizeof question)
            return 0; /* the tracker is gone */
        memcpy(&question, packet, sizeof question);
        packet[got] = '\0';
        atomic_store(&board->tag, question.tag);
        atomic_store(&board->busy, true);
        alarm(ANSWER_SECONDS);
        struct tide_symbol_module module = {.pid = question.pid,
                                            .start = question.start,
                                            .end = question.end,
                                            .path = packet + sizeof question,
                                            .build_id = question.build_id,
                                            .build_id_bytes = question.build_id_bytes};
        struct tide_symbol_frame frames[TIDE_SYMBOL_FRAMES];
        size_t count = tide_symbols_resolve(symbols, &module, question.address, question.debug_info, frames);
        alarm(0);
        size_t len = write_answer(reply, question.tag, frames, count);
        atomic_store(&board->busy, false);
        if (send(socket, reply, len, MSG_NOSIGNAL) < 0)
            return 0;
        if (n % 64 == 0 && is_grown())
            return GROWN;
    }
}

/* --- the keeper ---------------------------------------------------------------------------------------- */

/* Leaves everything of the tracker behind: its terminal, its files, its signals. */
static void settle(int socket)
{
    sigset_t none;
    int null = open("/dev/null", O_RDWR);

    setsid();
    prctl(PR_SET_NAME, "tidemark-symbol");
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    if (dup2(socket, KEEPER_SOCKET) < 0)
        return;
    tide_close_all_but(KEEPER_SOCKET + 1, NULL, 0);
    for (int signal = 1; signal < NSIG; signal++)
        if (sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL) != 0)
            continue;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static volatile sig_atomic_t worker_pid, told_to_end;

static void end_worker(int signal)
{
    (void)signal;
    told_to_end = 1;
    if (worker_pid > 0)
        kill((pid_t)worker_pid, SIGKILL);
}

static int keep_workers(int socket)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (board == MAP_FAILED)
        return 1;
    sigset_t end, before;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = end_worker}, NULL);
    for (int deaths = 0; deaths < DEATHS_MOST;) {
        int status;
        atomic_store(&board->busy, false);
        sigprocmask(SIG_BLOCK, &end, &before);
        pid_t worker = told_to_end ? -1 : fork();
        if (worker == 0) {
            sigaction(SIGTERM, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
            sigprocmask(SIG_SETMASK, &before, NULL);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _Exit(answer_questions(socket, board));
        }
        worker_pid = worker;
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (worker < 0)
            return 1;
        while (waitpid(worker, &status, 0) < 0)
            if (errno != EINTR)
                return 1;
        worker_pid = 0;
        if (told_to_end)
            return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == GROWN)
            continue;
        deaths++;
        struct answer crashed = {.tag = atomic_load(&board->tag), .crashed = 1};
        if (atomic_load(&board->busy) && send(socket, &crashed, sizeof crashed, MSG_NOSIGNAL) < 0)
            return 0;
    }
    return 1;
}

/* --- the tracker's end --------------------------------------------------------------------------------- */

int tide_symbol_server_new(struct tide_symbol_server **ret_server, struct tide_err *err)
{
    struct tide_symbol_server *server = calloc(1, sizeof *server);
    int ends[2];

    if (!server)
        return tide_err_set(err, "not enough memory to look up symbols");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        tide_err_set(err, "cannot make a socket to look up symbols: %s", strerror(errno));
        free(server);
        return -1;
    }
    pid_t keeper = fork();
    if (keeper == 0) {
        settle(ends[1]);
        _Exit(keep_workers(KEEPER_SOCKET));
    }
    close(ends[1]);
    if (keeper < 0) {
        tide_err_set(err, "cannot start a process to look up symbols: %s", strerror(errno));
        close(ends[0]);
        free(server);
        return -1;
    }
    server->pid = keeper;
    server->pidfd = (int)syscall(SYS_pidfd_open, keeper, 0); /* a function only from glibc 2.36 on */
    server->socket = ends[0];
    *ret_server = server;
    return 0;
}

void tide_symbol_server_free(struct tide_symbol_server *server)
{
    if (!server)
        return;
    close(server->socket);
    if (server->pidfd >= 0) {
        /* Whoever waits for all children may have reaped it: then its PID may be another's by now. */
        syscall(SYS_pidfd_send_signal, server->pidfd, SIGTERM, NULL, 0);
        waitid(P_PIDFD, (id_t)server->pidfd, NULL, WEXITED);
        close(server->pidfd);
    }
    free(server);
}

int64_t tide_symbol_server_pid(const struct tide_symbol_server *server)
{
    return server->pid;
}

bool tide_symbol_server_has_room(const struct tide_symbol_server *server)
{
    return !server->gone && server->open < TIDE_SYMBOL_ASKED;
}

size_t tide_symbol_server_open(const struct tide_symbol_server *server)
{
    return server->open;
}

int tide_symbol_server_ask(struct tide_symbol_server *server, uint64_t tag,
                           const struct tide_symbol_module *module, uint64_t address, bool debug_info)
{
    char packet[sizeof(struct question) + TIDE_SYMBOL_TEXT];
    size_t path = strnlen(module->path, TIDE_SYMBOL_TEXT - 1);
    struct question question = {.tag = tag,
                                .address = address,
                                .start = module->start,
                                .end = module->end,
                                .pid = module->pid,
                                .debug_info = debug_info};

    if (server->gone)
        return -1;
    if (module->build_id_bytes > 0 && module->build_id_bytes <= sizeof question.build_id) {
        question.build_id_bytes = (uint32_t)module->build_id_bytes;
        memcpy(question.build_id, module->build_id, module->build_id_bytes);
    }
    memcpy(packet, &question, sizeof question);
    memcpy(packet + sizeof question, module->path, path);
    if (send(server->socket, packet, sizeof question + path, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
            return 1;
        server->gone = true;
        return -1;
    }
    server->open++;
    return 0;
}

/* The string at *at, ended within the packet; moves *at behind it. NULL: there is none. */
static const char *take_text(const char *packet, size_t len, size_t *at)
{
    const char *text = packet + *at;
    const char *end = *at < len ? memchr(text, '\0', len - *at) : NULL;

    if (!end)
        return NULL;
    *at += (size_t)(end - text) + 1;
    return text;
}

static void take_answer(const char *packet, size_t len, struct tide_symbol_answer *ret_answer)
{
    struct answer head;
    size_t at = sizeof head;

    memcpy(&head, packet, sizeof head);
    *ret_answer = (struct tide_symbol_answer){.tag = head.tag, .crashed = head.crashed != 0};
    for (uint32_t i = 0; i < head.count && i < TIDE_SYMBOL_FRAMES; i++) {
        struct tide_symbol_frame *frame = &ret_answer->frames[i];
        if (len - at < sizeof frame->line + 1)
            return;
        memcpy(&frame->line, packet + at, sizeof frame->line);
        at += sizeof frame->line;
        frame->inlined = packet[at++] != 0;
        frame->function = take_text(packet, len, &at);
        frame->file = frame->function ? take_text(packet, len, &at) : NULL;
        if (!frame->file)
            return;
        ret_answer->count++;
    }
}

int tide_symbol_server_hear(struct tide_symbol_server *server, int timeout_ms,
                            struct tide_symbol_answer *ret_answer)
{
    struct pollfd readable = {.fd = server->socket, .events = POLLIN};

    if (server->gone)
        return -1;
    ssize_t got = recv(server->socket, server->packet, sizeof server->packet, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN && timeout_ms > 0 && poll(&readable, 1, timeout_ms) > 0)
        got = recv(server->socket, server->packet, sizeof server->packet, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got < (ssize_t)sizeof(struct answer)) {
        server->gone = true;
        return -1;
    }
    if (server->open > 0)
        server->open--;
    take_answer(server->packet, (size_t)got, ret_answer);
    return 1;
}
