/*
 * reward_process.c - the process of a reward command, and its three pipes: see rewards.h.
 *
 * Our ends of the pipes never block; one loop serves all three until the question is written and the answer
 * is there. So a command may answer before it has read everything, and may write as much as it likes to
 * standard error. The deadline counts only if neither question nor answer moved: a program that was stopped
 * and continued finds an answer that came meanwhile.
 */
#include "train/rewards.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "train/reward_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* GRACE_MS: time to exit after its input ended. CLOSED_MS: time to exit for a command that closed a pipe.
 * LOOK_MS: how often we check whether it lives if the kernel cannot notify us. */
enum {
    PIECE = 1 << 16,
    LINE = 1024,
    LAST_LINES = 3,
    LAST = 112,
    GRACE_MS = 2000,
    CLOSED_MS = 500,
    LOOK_MS = 200,
    NOT_FOUND = 127
};

struct tide_rewarder {
    int64_t timeout_ns, most;
    void (*say)(void *context, const char *line);
    void *context;
    char shown[128];                /* the command, for messages */
    pid_t pid, guard;               /* 0: not running */
    int pidfd, in, out, err;        /* -1: closed */
    int lifeline;                   /* the guard waits for its end of file */
    size_t piece_at, piece_len;     /* the part of the question not written yet */
    size_t answer_len, answer_room; /* one byte of room is for a NUL */
    char *answer;
    size_t line_len;
    char line[LINE];             /* of its standard error, until it is complete */
    char last[LAST_LINES][LAST]; /* its last lines, safe to show; the newest last, "": none */
    char piece[PIECE];
};

/* The process group of the command that was started last, while it runs; 0: none. */
static volatile sig_atomic_t newest_group;

/* ---- starting */

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Gives the command the signals of a program started by hand: default handlers, except for those that were
 * ignored when we were started. */
static int set_signals(posix_spawnattr_t *how)
{
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    int error = posix_spawnattr_setsigmask(how, &none);
    return error ? error : posix_spawnattr_setsigdefault(how, &standard);
}

static int spawn_with(const char *command, const int ends[static 3], pid_t group,
                      posix_spawn_file_actions_t *files, posix_spawnattr_t *how, pid_t *ret_pid)
{
    char *const arguments[] = {"sh", "-c", (char *)command, NULL};
    int error =
        posix_spawnattr_setflags(how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!error)
        error = posix_spawnattr_setpgroup(how, group);
    if (!error)
        error = set_signals(how);
    for (int i = 0; i < 3 && !error; i++)
        error = posix_spawn_file_actions_adddup2(files, ends[i], i);
    pid_t pid;
    if (!error)
        error = posix_spawn(&pid, "/bin/sh", files, how, arguments, environ);
    if (!error)
        *ret_pid = pid;
    return error;
}

/* group 0: makes a new one. */
static int spawn(const char *command, const int ends[static 3], pid_t group, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int error = posix_spawn_file_actions_init(&files);
    if (error)
        return error;
    if (!(error = posix_spawnattr_init(&how))) {
        error = spawn_with(command, ends, group, &files, &how, ret_pid);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Makes a pipe: our end, which does not block, and the command's. Returns 0 or errno. */
static int make_pipe(bool we_write, int *ret_ours, int *ret_theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return errno;
    *ret_ours = ends[we_write];
    *ret_theirs = ends[!we_write];
    return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) ? errno : 0;
}

/* Starts a shell in the command's group that kills the group when our end of the pipe closes for any
 * reason. */
static int start_guard(struct tide_rewarder *p)
{
    int theirs = -1;
    int error = make_pipe(true, &p->lifeline, &theirs);
    if (!error)
        error = spawn("read -r line; kill -KILL 0", (int[]){theirs, theirs, theirs}, p->pid, &p->guard);
    close_end(&theirs);
    return error;
}

static int start(struct tide_rewarder *p, const char *command)
{
    int theirs[3] = {-1, -1, -1};
    int error = make_pipe(true, &p->in, &theirs[0]);
    if (!error)
        error = make_pipe(false, &p->out, &theirs[1]);
    if (!error)
        error = make_pipe(false, &p->err, &theirs[2]);
    if (!error)
        error = spawn(command, theirs, 0, &p->pid);
    for (int i = 0; i < 3; i++)
        close_end(&theirs[i]);
    if (error)
        return error;
    newest_group = p->pid;
    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0); /* -1: an old kernel; we poll instead */
    return start_guard(p);
}

/* Of an answer: its line, the line's end, and a NUL. */
static size_t answer_room(int64_t most)
{
    return tide_reward_answer_most(most) + 2;
}

size_t tide_rewarder_bytes(int64_t most)
{
    return sizeof(struct tide_rewarder) + answer_room(most);
}

int tide_rewarder_command(const struct tide_reward_command *how, struct tide_rewarder **ret_rewarder,
                          struct tide_err *err)
{
    struct tide_rewarder *p = calloc(1, sizeof *p);
    if (!p)
        return tide_err_set(err, "out of memory");
    p->timeout_ns = how->timeout_ms * TIDE_NS_PER_MS;
    p->most = how->most;
    p->say = how->say;
    p->context = how->context;
    p->pidfd = p->in = p->out = p->err = p->lifeline = -1;
    p->answer_room = answer_room(how->most);
    p->answer = malloc(p->answer_room);
    tide_text_shown(how->command, p->shown, sizeof p->shown);
    int error = p->answer ? start(p, how->command) : ENOMEM;
    if (error) {
        tide_err_set(err, "cannot start the reward command '%s': %s", p->shown, strerror(error));
        tide_rewarder_free(p);
        return -1;
    }
    *ret_rewarder = p;
    return 0;
}

/* ---- its end */

/* True if it has ended. It is not reaped yet, so that its group number cannot be reused. */
static bool has_ended(const struct tide_rewarder *p)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == p->pid;
}

static int wait_to_end(pid_t *pid)
{
    int status = 0;
    while (*pid && waitpid(*pid, &status, 0) < 0 && errno == EINTR)
        ;
    *pid = 0;
    return status;
}

/* Kills what is left of the group and reaps it. Returns the status as waitpid does. */
static int put_down(struct tide_rewarder *p)
{
    if (!p->pid)
        return 0;
    kill(-p->pid, SIGKILL);
    if (newest_group == p->pid)
        newest_group = 0; /* from now on its number may be reused */
    wait_to_end(&p->guard);
    int status = wait_to_end(&p->pid);
    close_end(&p->pidfd);
    close_end(&p->lifeline);
    close_end(&p->in);
    close_end(&p->out);
    close_end(&p->err);
    return status;
}

void tide_rewards_abandon(void)
{
    if (newest_group)
        kill(-newest_group, SIGKILL);
}

/* ---- its standard error */

/* Returns how many leading bytes are in `these`. */
static size_t count_of(const char *text, size_t len, const char *these)
{
    size_t count = 0;
    while (count < len && text[count] && strchr(these, text[count]))
        count++;
    return count;
}

static void end_line(struct tide_rewarder *p)
{
    size_t len = p->line_len;
    p->line_len = 0;
    if (!len)
        return;
    size_t indent = count_of(p->line, len, " \t");
    if (count_of(p->line, len, " \t^~") < len) { /* skips a traceback's line of markers */
        memmove(p->last, p->last[1], (LAST_LINES - 1) * sizeof *p->last);
        tide_text_escape(p->line + indent, len - indent, p->last[LAST_LINES - 1], sizeof *p->last);
    }
    if (p->say)
        p->say(p->context, TIDE_ESCAPED(p->line, len, 4 * LINE + 1));
}

static void take_errors(struct tide_rewarder *p, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool ends = bytes[i] == '\n' || bytes[i] == '\r'; /* progress bars use \r */
        if (!ends)
            p->line[p->line_len++] = bytes[i];
        if (ends || p->line_len == LINE)
            end_line(p);
    }
}

/* Reads what is there now, up to a limit. */
static void read_errors(struct tide_rewarder *p)
{
    char bytes[4096];
    for (int i = 0; i < 16 && p->err >= 0; i++) {
        ssize_t got = read(p->err, bytes, sizeof bytes);
        if (got > 0)
            take_errors(p, bytes, (size_t)got);
        else if (got == 0 || (errno != EAGAIN && errno != EINTR))
            close_end(&p->err);
        else if (errno == EAGAIN)
            return;
    }
}

/* ---- faults */

/* Ends the command and sets the error. The command is the subject of the sentence. */
static int __attribute__((format(printf, 4, 5)))
fault(struct tide_rewarder *p, const struct tide_prompt *prompt, struct tide_err *err, const char *format,
      ...)
{
    char what[sizeof err->text], about[40] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (prompt && prompt->line)
        snprintf(about, sizeof about, ", asked about line %lld,", (long long)prompt->line);
    put_down(p);
    return tide_err_set(err, "the reward command '%s'%s %s", p->shown, about, what);
}

static int refuse_dead(struct tide_rewarder *p, const struct tide_prompt *prompt, struct tide_err *err)
{
    char said[LAST_LINES * sizeof *p->last + 16] = "";
    read_errors(p);
    end_line(p);
    for (int i = 0; i < LAST_LINES; i++)
        if (p->last[i][0])
            tide_text_add(said, sizeof said, "%s%s", *said ? " | " : ": ", p->last[i]);
    int status = put_down(p);
    if (WIFSIGNALED(status))
        fault(p, prompt, err, "was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
              said);
    else
        fault(p, prompt, err, "ended with exit status %d%s", WEXITSTATUS(status), said);
    return WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND
               ? tide_err_hint(err, "the shell did not find it: is its name right, and is it in PATH?")
               : tide_err_hint(err, "it must keep running until its standard input ends");
}

static int refuse_late(struct tide_rewarder *p, const struct tide_prompt *prompt, struct tide_err *err)
{
    fault(p, prompt, err, "gave no answer in %g s", (double)p->timeout_ns / TIDE_NS_PER_S);
    return tide_err_hint(
        err, "each answer is one line, which must be flushed; --reward-timeout sets a longer time");
}

static int refuse_closed(struct tide_rewarder *p, const struct tide_prompt *prompt, struct tide_err *err)
{
    fault(p, prompt, err, "closed its standard %s", p->out < 0 ? "output" : "input");
    return tide_err_hint(err, "it must read a line and write a line until its standard input ends");
}

static int refuse_unasked(struct tide_rewarder *p, const struct tide_prompt *prompt, const char *text,
                          size_t len, struct tide_err *err)
{
    len -= len && text[len - 1] == '\n';
    fault(p, prompt, err, "wrote more than the answer that it was asked for: '%s'",
          TIDE_ESCAPED(text, len, 120));
    return tide_err_hint(err, "it must write one line for each line that it reads, and nothing else");
}

static int refuse_long(struct tide_rewarder *p, const struct tide_prompt *prompt, struct tide_err *err)
{
    fault(p, prompt, err, "answered with a line of more than %zu bytes", p->answer_room - 2);
    return tide_err_hint(err, "an answer is a line of numbers, like [1, 0.5]");
}

/* ---- asking */

/* write() without SIGPIPE. */
static ssize_t write_quietly(int fd, const char *bytes, size_t count)
{
    sigset_t broken, pending, before;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    ssize_t put = write(fd, bytes, count);
    int error = errno;
    if (put < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&broken, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return put;
}

static bool has_piece(struct tide_rewarder *p, struct tide_reward_question *question)
{
    if (p->piece_at == p->piece_len) {
        p->piece_at = 0;
        p->piece_len = tide_reward_question_next(question, p->piece, sizeof p->piece);
    }
    return p->piece_at < p->piece_len;
}

/* Writes as much of the question as possible now. True if anything was written. */
static bool write_question(struct tide_rewarder *p, struct tide_reward_question *question)
{
    bool moved = false;
    while (p->in >= 0 && has_piece(p, question)) {
        ssize_t put = write_quietly(p->in, p->piece + p->piece_at, p->piece_len - p->piece_at);
        if (put < 0 && errno == EAGAIN)
            break;
        if (put < 0 && errno != EINTR)
            close_end(&p->in);
        moved |= put > 0;
        p->piece_at += put > 0 ? (size_t)put : 0;
    }
    return moved;
}

/* Reads as much of the answer as there is now. True if anything was read. */
static bool read_answer(struct tide_rewarder *p)
{
    bool moved = false;
    while (p->out >= 0 && p->answer_len < p->answer_room - 1) {
        ssize_t got = read(p->out, p->answer + p->answer_len, p->answer_room - 1 - p->answer_len);
        if (got < 0 && errno == EAGAIN)
            break;
        if (got == 0 || (got < 0 && errno != EINTR))
            close_end(&p->out);
        moved |= got > 0;
        p->answer_len += got > 0 ? (size_t)got : 0;
    }
    return moved;
}

/* Waits until a pipe is ready, at most that long. */
static void wait_for(struct tide_rewarder *p, bool writing, int64_t ns)
{
    struct pollfd fds[] = {{.fd = p->out, .events = POLLIN},
                           {.fd = p->err, .events = POLLIN},
                           {.fd = writing ? p->in : -1, .events = POLLOUT},
                           {.fd = p->pidfd, .events = POLLIN}};
    int64_t ms = ns <= 0 ? 0 : ns / TIDE_NS_PER_MS + 1;
    if ((p->pidfd < 0 || p->out < 0 || p->in < 0) && ms > LOOK_MS)
        ms = LOOK_MS;
    poll(fds, sizeof fds / sizeof *fds, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* Runs until the question is written and an answer line is there. */
static int exchange(struct tide_rewarder *p, struct tide_reward_question *question, struct tide_err *err)
{
    const struct tide_prompt *prompt = question->prompt;
    int64_t deadline = tide_clock_ns() + p->timeout_ns, closed_at = 0;
    for (;;) {
        bool moved = write_question(p, question), writing = p->piece_at < p->piece_len;
        moved |= read_answer(p);
        read_errors(p);
        if (!writing && memchr(p->answer, '\n', p->answer_len))
            return 0;
        if (p->answer_len == p->answer_room - 1)
            return refuse_long(p, prompt, err);
        int64_t now = tide_clock_ns();
        if (has_ended(p) && !read_answer(p))
            return refuse_dead(p, prompt, err);
        if (!moved && now >= deadline)
            return refuse_late(p, prompt, err);
        if (p->out < 0 || p->in < 0) { /* it may be about to exit, and its status says more */
            closed_at = closed_at ? closed_at : now;
            if (now - closed_at >= (int64_t)CLOSED_MS * TIDE_NS_PER_MS)
                return refuse_closed(p, prompt, err);
        }
        wait_for(p, writing, deadline - now);
    }
}

int tide_rewarder_check(struct tide_rewarder *p, struct tide_err *err)
{
    if (!p->pid)
        return tide_err_set(err, "the reward command '%s' has ended", p->shown);
    p->answer_len = 0;
    read_errors(p);
    if (read_answer(p))
        return refuse_unasked(p, NULL, p->answer, p->answer_len, err);
    return has_ended(p) ? refuse_dead(p, NULL, err) : 0;
}

int tide_rewarder_ask(struct tide_rewarder *p, const struct tide_prompt *prompt,
                      const struct tide_completion_text *completions, int64_t count, float *ret_rewards,
                      struct tide_err *err)
{
    struct tide_reward_question question = {prompt, completions, count, 0, 0, 0};
    struct tide_err why;
    TIDE_CHECK(count, <=, p->most);
    if (tide_rewarder_check(p, err) || exchange(p, &question, err))
        return -1;
    char *end = memchr(p->answer, '\n', p->answer_len);
    size_t len = (size_t)(end - p->answer), more = p->answer_len - len - 1;
    *end = '\0';
    if (tide_reward_answer(p->answer, len, count, ret_rewards, &why)) {
        fault(p, prompt, err, "%s", why.text);
        return tide_err_hint(err, "%s", why.hint);
    }
    return more ? refuse_unasked(p, prompt, end + 1, more, err) : 0;
}

/* ---- the end */

void tide_rewarder_free(struct tide_rewarder *p)
{
    if (!p)
        return;
    int64_t deadline = tide_clock_ns() + (int64_t)GRACE_MS * TIDE_NS_PER_MS, now;
    close_end(&p->in);
    while (p->pid && !has_ended(p) && (now = tide_clock_ns()) < deadline) {
        p->answer_len = 0; /* no longer wanted */
        read_answer(p);
        read_errors(p);
        wait_for(p, false, deadline - now);
    }
    if (p->pid)
        read_errors(p);
    end_line(p);
    put_down(p);
    free(p->answer);
    free(p);
}
