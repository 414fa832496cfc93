#include "cli/relay_private.h"

#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- what the descriptors are ---- */

enum what { ELSEWHERE, FILE_REGULAR, PIPE_OR_SOCKET, TERMINAL };

/* True for /dev/null. What goes there cannot be read back, so it has to be copied on the way. */
static bool is_discarded(const struct stat *about)
{
    return S_ISCHR(about->st_mode) && about->st_rdev == makedev(1, 3);
}

static enum what what_is(int fd, struct stat *ret)
{
    if (fstat(fd, ret))
        return ELSEWHERE;
    if (S_ISREG(ret->st_mode))
        return FILE_REGULAR;
    if (S_ISFIFO(ret->st_mode) || S_ISSOCK(ret->st_mode) || is_discarded(ret))
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
        return; /* writable but not readable: no copy of the output */
    struct stat about;
    off_t at = fcntl(fd, F_GETFL) & O_APPEND ? -1 : lseek(fd, 0, SEEK_CUR);
    if (at < 0)
        at = fstat(own, &about) ? 0 : about.st_size;
    relay->tails[stream] = (struct tide_tail){own, at, stream};
}

/* Makes a pipe for the command to write to. */
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
    if (!is_socket && pipe2(s->copy, O_CLOEXEC | O_NONBLOCK))
        return tide_err_set(err, "cannot make a pipe: %s", strerror(errno));
    return 0;
}

/* Makes a pseudo-terminal like the terminal `to`. It processes output only if the relay owns the terminal,
 * which is then raw; otherwise the terminal itself still does. */
static int add_terminal(struct tide_relay *relay, int to)
{
    struct termios settings;
    struct winsize size = tide_terminal_size(to);
    int master, slave;
    bool known = !tcgetattr(to, &settings);
    if (known && !relay->info.owns_terminal)
        settings.c_oflag &= ~(tcflag_t)OPOST;
    if (relay->info.owns_terminal)
        size.ws_row = (unsigned short)tide_status_line_rows(&relay->line);
    if (openpty(&master, &slave, NULL, known ? &settings : NULL, &size))
        return -1;
    fcntl(master, F_SETFD, FD_CLOEXEC);
    fcntl(slave, F_SETFD, FD_CLOEXEC);
    fcntl(master, F_SETFL, O_NONBLOCK);
    struct stream *s = &relay->streams[relay->stream_count++];
    s->from = master;
    s->child_end = slave;
    s->to = to;
    s->is_pty = true;
    return 0;
}

bool tide_relay_wants_status_line(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* True if the relay can own the terminal: input and output are our controlling terminal and we are in its
 * foreground. */
static bool can_own_terminal(const struct stat *in, const struct stat *out)
{
    return isatty(STDIN_FILENO) && same(in, out) && tcgetpgrp(STDOUT_FILENO) == getpgrp();
}

static void own_terminal(struct tide_relay *relay, bool status_line)
{
    if (tide_terminal_open(STDIN_FILENO))
        return;
    struct winsize size = tide_terminal_size(STDIN_FILENO);
    const char *no_colour = getenv("NO_COLOR");
    relay->info.has_status = status_line && tide_relay_wants_status_line();
    relay->info.owns_terminal = true;
    tide_status_line_init(&relay->line, size.ws_row, size.ws_col, relay->info.has_status,
                          !(no_colour && *no_colour), tide_relay_put_on_terminal, relay);
}

static int set_up_stream(struct tide_relay *relay, int fd, enum what what, const struct stat *about,
                         struct tide_err *err)
{
    if (what == TERMINAL && add_terminal(relay, fd)) {
        relay->info.owns_terminal = relay->info.has_status = false; /* the command gets the terminal itself */
        return 0;
    }
    if (what != TERMINAL && add_pipe(relay, fd, S_ISSOCK(about->st_mode), err))
        return -1;
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
    if (!relay->info.owns_terminal && !relay->read_output)
        return 0;
    if (what_out >= PIPE_OR_SOCKET && set_up_stream(relay, STDOUT_FILENO, what_out, &out, err))
        return -1;
    relay->stdin_on_pty = relay->info.owns_terminal;
    if (joined && relay->stream_count)
        relay->streams[0].err = true;
    else if (relay->read_output && what_err >= PIPE_OR_SOCKET &&
             set_up_stream(relay, STDERR_FILENO, what_err, &errors, err))
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

int tide_relay_new(bool read_output, bool status_line, const char *log_path, struct tide_relay **ret_relay,
                   struct tide_err *err)
{
    struct tide_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return tide_err_set(err, "not enough memory");
    relay->log_fd = -1;
    for (int i = 0; i < 2; i++) {
        relay->streams[i].from = relay->streams[i].child_end = relay->tails[i].fd = -1;
        relay->streams[i].copy[0] = relay->streams[i].copy[1] = -1;
        relay->info.hold[i] = relay->socket[i] = -1;
    }
    relay->read_output = read_output;
    relay->tap = tide_tap_new();
    int bad = relay->tap ? 0 : tide_err_set(err, "cannot watch the program's output: %s", strerror(errno));
    if (!bad)
        bad = log_path ? set_up_log(relay, log_path, err) : set_up(relay, status_line, err);
    if (!bad && relay->info.owns_terminal && pipe2(relay->info.hold, O_CLOEXEC))
        bad = tide_err_set(err, "cannot make a pipe: %s", strerror(errno));
    if (bad) {
        tide_relay_free(relay);
        return -1;
    }
    *ret_relay = relay;
    return 0;
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
