#include "cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int terminal = -1;
static struct termios found;
static volatile sig_atomic_t is_raw;
static const char *volatile farewell = "";

static void write_farewell(void)
{
    const char *text = farewell;
    size_t len = strlen(text);
    if (len && write(terminal, text, len) < 0)
        return; /* the terminal is gone */
}

/* Safe in a signal handler. */
static void restore(void)
{
    if (!is_raw)
        return;
    is_raw = 0;
    int kept = errno;
    write_farewell();
    tcsetattr(terminal, TCSADRAIN, &found);
    errno = kept;
}

static void make_raw(struct termios *settings)
{
    *settings = found;
    cfmakeraw(settings);
    settings->c_cc[VMIN] = 1;
    settings->c_cc[VTIME] = 0;
}

void tide_terminal_yield(void)
{
    struct termios raw, now;
    make_raw(&raw);
    bool ours = !tcgetattr(terminal, &now) && now.c_iflag == raw.c_iflag && now.c_oflag == raw.c_oflag &&
                now.c_lflag == raw.c_lflag;
    if (is_raw && !ours) {
        is_raw = 0;
        write_farewell();
    }
    restore();
}

void tide_terminal_rescue(void)
{
    if (terminal < 0)
        return;
    farewell = "\x1b[r\r\n\x1b[J";
    is_raw = 1;
    restore();
}

static void on_fatal(int signal)
{
    restore();
    raise(signal); /* the handler was removed on entry */
}

static void catch_fatal_signals(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        struct sigaction now, then = {.sa_handler = on_fatal, .sa_flags = (int)SA_RESETHAND};
        if (!sigaction(fatal[i], NULL, &now) && now.sa_handler == SIG_DFL)
            sigaction(fatal[i], &then, NULL);
    }
}

int tide_terminal_open(int fd)
{
    if (tcgetattr(fd, &found))
        return -1;
    bool first = terminal < 0;
    terminal = fd;
    if (first) {
        catch_fatal_signals();
        atexit(restore);
    }
    return 0;
}

bool tide_terminal_is_foreground(void)
{
    return tcgetpgrp(terminal) == getpgrp();
}

void tide_terminal_raw(void)
{
    struct termios raw;
    make_raw(&raw);
    is_raw = 1;
    tcsetattr(terminal, TCSADRAIN, &raw);
}

void tide_terminal_set_farewell(const char *text)
{
    farewell = text;
}

struct winsize tide_terminal_size(int fd)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col) {
        size.ws_row = 24;
        size.ws_col = 80;
    }
    return size;
}
