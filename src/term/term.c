#define NCURSES_WIDECHAR 1

#include "term/term.h"
#include "base/check.h"
#include "base/descriptors.h"
#include "base/title.h"
#include "term/keys.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#undef columns /* <term.h> defines these words as macros */
#undef lines

enum { RESTORE_BYTES = 512, STACK_BYTES = 32768 };

struct tide_term {
    SCREEN *screen;
    struct sigaction old_actions[NSIG];
    sigset_t old_mask, wait_mask;
    int kept_stderr; /* a copy of the real stderr */
    int columns, rows;
    bool colour;
    int click_row, click_column; /* of the last TIDE_TERM_CLICK */
    short pairs[TIDE_STYLES];
};

/* State for signal handlers. Only one terminal is open at a time. */
static struct {
    volatile sig_atomic_t open;
    volatile sig_atomic_t came[NSIG]; /* calm signals that are not handled yet */
    struct termios modes;
    char restore[RESTORE_BYTES]; /* bytes that restore the screen */
    size_t restore_len;
    int messages;    /* memory file in place of stderr; -1: none */
    int real_stderr; /* -1: stderr was not replaced */
    pid_t keeper;    /* the process that restores the terminal when this one is killed; 0: none */
    int hold;        /* our end of its socket */
} guard = {.messages = -1, .real_stderr = -1};

static char fatal_stack[STACK_BYTES];

static const int calm_signals[] = {SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGTSTP, SIGCONT};
static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* How each style looks: its attribute, and its colour if there is colour. */
static const struct look {
    short colour, colour256; /* -1: the terminal's own */
    attr_t attribute;
} looks[TIDE_STYLES] = {
    [TIDE_STYLE_PLAIN] = {-1, -1, A_NORMAL},
    [TIDE_STYLE_STRONG] = {-1, -1, A_BOLD},
    [TIDE_STYLE_DIM] = {-1, 245, A_NORMAL},
    [TIDE_STYLE_GOOD] = {COLOR_GREEN, 71, A_NORMAL},
    [TIDE_STYLE_BAD] = {COLOR_RED, 203, A_BOLD},
    [TIDE_STYLE_DOUBT] = {COLOR_YELLOW, 179, A_NORMAL},
    [TIDE_STYLE_FLOOR] = {COLOR_CYAN, 32, A_NORMAL},
    [TIDE_STYLE_SPIKE] = {COLOR_YELLOW, 179, A_NORMAL},
    [TIDE_STYLE_LIMIT] = {COLOR_RED, 203, A_NORMAL},
    [TIDE_STYLE_PHASE] = {COLOR_MAGENTA, 140, A_NORMAL},
    [TIDE_STYLE_HEADING] = {-1, -1, A_REVERSE},
    [TIDE_STYLE_CHOSEN] = {-1, -1, A_REVERSE | A_BOLD},
    [TIDE_STYLE_KEY] = {-1, -1, A_BOLD | A_UNDERLINE},
};

bool tide_term_unicode(void)
{
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

/* Writes the kept messages to the real stderr. Safe in a signal handler. */
static void flush_messages(void)
{
    char chunk[1024];
    off_t at = 0;
    if (guard.messages < 0 || guard.real_stderr < 0)
        return;
    for (;;) {
        ssize_t n = pread(guard.messages, chunk, sizeof chunk, at);
        if (n <= 0 || write(guard.real_stderr, chunk, (size_t)n) < 0)
            break;
        at += n;
    }
}

/* Restores the terminal. Safe in a signal handler. */
static void rescue(void)
{
    ssize_t ignored = write(STDOUT_FILENO, guard.restore, guard.restore_len);
    (void)ignored;
    tcsetattr(STDIN_FILENO, TCSANOW, &guard.modes);
    flush_messages();
}

/* ---- the keeper: a process that rescues the terminal when this one is killed with SIGKILL */

enum { ARMED = 'a', DISARMED = 'd' };

/* All signals are blocked, including SIGTTOU, so that the keeper may set the modes from the background. It
 * has a group of its own, to survive what kills the view's group, and is not called tidemark. */
static _Noreturn void keep(int end)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    tide_title_set("screen-keeper");
    tide_close_all_but(3, (const int[]){guard.messages, guard.real_stderr, end}, 3);
    char state = DISARMED, word;
    while (TEMP_FAILURE_RETRY(read(end, &word, 1)) == 1)
        state = word;
    if (state == ARMED)
        rescue();
    _exit(0);
}

/* If no process can be started, the view works without a keeper. */
static void start_keeper(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        keep(ends[0]);
    }
    close(ends[0]);
    guard.keeper = pid > 0 ? pid : 0;
    guard.hold = ends[1];
    if (pid < 0)
        close(ends[1]);
}

/* Tells the keeper that the terminal is taken (armed) or given back. Safe in a signal handler. */
static void arm_keeper(bool armed)
{
    char word = armed ? ARMED : DISARMED;
    if (!guard.keeper)
        return;
    ssize_t ignored = send(guard.hold, &word, 1, MSG_NOSIGNAL); /* fails if the keeper is gone */
    (void)ignored;
}

static void end_keeper(void)
{
    if (!guard.keeper)
        return;
    arm_keeper(false);
    close(guard.hold);
    TEMP_FAILURE_RETRY(waitpid(guard.keeper, NULL, 0));
    guard.keeper = 0;
}

/* ---- signals */

static void on_fatal(int signal_number)
{
    if (guard.open) {
        guard.open = 0;
        rescue();
        arm_keeper(false);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void on_calm(int signal_number)
{
    guard.came[signal_number] = 1;
}

/* Calm signals are blocked except while waiting, so that none is missed between a check and a wait. */
static void install_handlers(struct tide_term *term)
{
    struct sigaction calm = {.sa_handler = on_calm};
    struct sigaction fatal = {.sa_handler = on_fatal,
                              .sa_flags = SA_ONSTACK | (int)SA_RESETHAND | SA_NODEFER};
    stack_t stack = {.ss_sp = fatal_stack, .ss_size = sizeof fatal_stack};
    sigset_t calm_set;
    sigaltstack(&stack, NULL);
    sigemptyset(&calm_set);
    for (size_t i = 0; i < COUNT(calm_signals); i++) {
        sigaddset(&calm_set, calm_signals[i]);
        sigaction(calm_signals[i], &calm, &term->old_actions[calm_signals[i]]);
    }
    for (size_t i = 0; i < COUNT(fatal_signals); i++)
        sigaction(fatal_signals[i], &fatal, &term->old_actions[fatal_signals[i]]);
    sigprocmask(SIG_BLOCK, &calm_set, &term->old_mask);
    term->wait_mask = term->old_mask;
    for (size_t i = 0; i < COUNT(calm_signals); i++)
        sigdelset(&term->wait_mask, calm_signals[i]);
}

static void remove_handlers(struct tide_term *term)
{
    for (size_t i = 0; i < COUNT(calm_signals); i++)
        sigaction(calm_signals[i], &term->old_actions[calm_signals[i]], NULL);
    for (size_t i = 0; i < COUNT(fatal_signals); i++)
        sigaction(fatal_signals[i], &term->old_actions[fatal_signals[i]], NULL);
    sigprocmask(SIG_SETMASK, &term->old_mask, NULL);
}

static void restore_also(const char *text)
{
    /* Skips paddings such as "$<5>": no terminal needs them any more. */
    for (; *text && guard.restore_len < RESTORE_BYTES; text++) {
        if (text[0] == '$' && text[1] == '<' && strchr(text, '>'))
            text = strchr(text, '>');
        else
            guard.restore[guard.restore_len++] = *text;
    }
}

/* Collects the bytes that a handler writes: attributes off, cursor shown, keypad off, main screen back. */
static void prepare_restore(void)
{
    static char *const names[] = {"sgr0", "cnorm", "rmkx", "rmcup"};
    guard.restore_len = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *text = tigetstr(names[i]);
        if (text && text != (char *)-1)
            restore_also(text);
    }
}

static void keep_stderr(struct tide_term *term)
{
    guard.messages = memfd_create("tidemark-messages", MFD_CLOEXEC);
    guard.real_stderr = -1;
    term->kept_stderr = -1;
    if (guard.messages < 0 || !isatty(STDERR_FILENO))
        return; /* a redirected stderr disturbs nothing */
    term->kept_stderr = dup(STDERR_FILENO);
    if (term->kept_stderr < 0 || dup2(guard.messages, STDERR_FILENO) < 0)
        return;
    guard.real_stderr = term->kept_stderr;
}

static void give_stderr_back(struct tide_term *term)
{
    if (guard.real_stderr >= 0) {
        dup2(term->kept_stderr, STDERR_FILENO);
        flush_messages();
    }
    if (term->kept_stderr >= 0)
        close(term->kept_stderr);
    if (guard.messages >= 0)
        close(guard.messages);
    guard.messages = guard.real_stderr = -1;
}

static void prepare_styles(struct tide_term *term)
{
    const char *no_colour = getenv("NO_COLOR");
    term->colour = has_colors() && !(no_colour && *no_colour) && start_color() == OK;
    if (term->colour)
        use_default_colors();
    for (short s = 0; s < TIDE_STYLES; s++) {
        const struct look *look = &looks[s];
        short colour = COLORS >= 256 ? look->colour256 : look->colour;
        if (term->colour && colour >= 0 && init_pair((short)(s + 1), colour, -1) == OK)
            term->pairs[s] = (short)(s + 1);
    }
}

static void measure(struct tide_term *term)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        term->columns = size.ws_col;
        term->rows = size.ws_row;
    } else {
        term->columns = 80;
        term->rows = 24;
    }
}

static int refuse(const char *who, struct tide_err *err, const char *why)
{
    return tide_err_set(err, "%s needs a terminal, and %s", who, why);
}

int tide_term_check(const char *who, struct tide_err *err)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return refuse(who, err,
                      isatty(STDIN_FILENO) ? "standard output is not one" : "standard input is not one");
    const char *name = getenv("TERM");
    int known = 0;
    if (!name || !*name || setupterm(NULL, STDOUT_FILENO, &known) != OK)
        return refuse(who, err, "TERM does not name a known one");
    const char *place = tigetstr("cup");
    bool can_place = place && place != (char *)-1;
    prepare_restore();
    del_curterm(cur_term);
    if (!can_place)
        return refuse(who, err, "this one (TERM) cannot place a cursor");
    if (tcgetattr(STDIN_FILENO, &guard.modes))
        return refuse(who, err, "its modes cannot be read");
    return 0;
}

/* For terminals that do not switch their arrow keys on request, and those with shifted ones. */
static void know_more_keys(void)
{
    static const struct {
        const char *bytes;
        int key;
    } keys[] = {{"\033[A", KEY_UP},       {"\033[B", KEY_DOWN},      {"\033[C", KEY_RIGHT},
                {"\033[D", KEY_LEFT},     {"\033[H", KEY_HOME},      {"\033[F", KEY_END},
                {"\033[1;2D", KEY_SLEFT}, {"\033[1;2C", KEY_SRIGHT}, {"\033[5~", KEY_PPAGE},
                {"\033[6~", KEY_NPAGE}};
    for (size_t i = 0; i < COUNT(keys); i++)
        if (!key_defined(keys[i].bytes))
            define_key(keys[i].bytes, keys[i].key);
}

int tide_term_open(const char *who, struct tide_term **ret_term, struct tide_err *err)
{
    TIDE_CHECK(guard.open, ==, 0);
    if (tide_term_check(who, err))
        return -1;
    struct tide_term *term = calloc(1, sizeof *term);
    if (!term)
        return tide_err_set(err, "out of memory");
    for (size_t i = 0; i < COUNT(calm_signals); i++)
        guard.came[calm_signals[i]] = 0;
    install_handlers(term);
    keep_stderr(term);
    start_keeper();
    arm_keeper(true);
    guard.open = 1;
    term->screen = newterm(NULL, stdout, stdin);
    if (!term->screen) {
        guard.open = 0;
        end_keeper();
        give_stderr_back(term);
        remove_handlers(term);
        free(term);
        return refuse(who, err, "this one cannot be set up");
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    know_more_keys();
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    prepare_styles(term);
    measure(term);
    resizeterm(term->rows, term->columns);
    *ret_term = term;
    return 0;
}

/* No capability turns a mouse off; terminals with a mouse know these bytes, which curses itself writes. */
void tide_term_mouse(struct tide_term *term)
{
    (void)term;
    mouseinterval(0);
    if (mousemask(BUTTON1_PRESSED, NULL))
        restore_also("\033[?1006l\033[?1000l");
}

void tide_term_clicked(const struct tide_term *term, int *ret_row, int *ret_column)
{
    *ret_row = term->click_row;
    *ret_column = term->click_column;
}

void tide_term_close(struct tide_term *term)
{
    if (!term)
        return;
    endwin();
    guard.open = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &guard.modes);
    end_keeper();
    delscreen(term->screen);
    give_stderr_back(term);
    remove_handlers(term);
    free(term);
}

void tide_term_size(const struct tide_term *term, int *ret_columns, int *ret_rows)
{
    *ret_columns = term->columns;
    *ret_rows = term->rows;
}

/* Replaces a rune whose width the C library sees differently: it would shift the rest of its line. */
static wchar_t agreed(const struct tide_cell *cell)
{
    return wcwidth((wchar_t)cell->rune) == cell->columns ? (wchar_t)cell->rune : L'?';
}

void tide_term_show(struct tide_term *term, const struct tide_cells *cells)
{
    for (int row = 0; row < cells->rows && row < term->rows; row++) {
        for (int column = 0; column < cells->columns && column < term->columns; column++) {
            const struct tide_cell *cell =
                &cells->cells[(size_t)row * (size_t)cells->columns + (size_t)column];
            if (cell->columns == 0)
                continue;
            wchar_t text[2] = {agreed(cell), 0};
            cchar_t glyph;
            setcchar(&glyph, text, looks[cell->style].attribute, term->pairs[cell->style], NULL);
            mvadd_wch(row, column, &glyph);
            if (cell->columns == 2 && text[0] == L'?')
                mvadd_wch(row, column + 1, &glyph);
        }
    }
    refresh();
}

void tide_term_redraw(struct tide_term *term)
{
    (void)term;
    clearok(stdscr, TRUE);
}

/* Ctrl-Z: gives the terminal back, stops, and takes it again on `fg`. */
static void stop_here(struct tide_term *term)
{
    struct sigaction calm = {.sa_handler = on_calm}, plain = {.sa_handler = SIG_DFL};
    sigset_t stop;
    endwin();
    tcsetattr(STDIN_FILENO, TCSADRAIN, &guard.modes);
    arm_keeper(false);
    sigaction(SIGTSTP, &plain, NULL);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    sigaction(SIGTSTP, &calm, NULL);
    arm_keeper(true);
    measure(term);
    resizeterm(term->rows, term->columns);
    clearok(stdscr, TRUE);
}

/* Turns a flag set by a handler into an event. */
static bool take_signal(struct tide_term *term, enum tide_term_event *ret_event, int *ret_key)
{
    if (guard.came[SIGTERM] || guard.came[SIGHUP]) {
        *ret_event = TIDE_TERM_LEAVE;
        return true;
    }
    if (guard.came[SIGINT]) {
        guard.came[SIGINT] = 0;
        *ret_key = TIDE_KEY_INTERRUPT;
        *ret_event = TIDE_TERM_KEY;
        return true;
    }
    if (guard.came[SIGTSTP]) {
        guard.came[SIGTSTP] = 0;
        stop_here(term);
        guard.came[SIGCONT] = 1;
    }
    if (!guard.came[SIGWINCH] && !guard.came[SIGCONT])
        return false;
    if (guard.came[SIGCONT]) {
        reset_prog_mode();
        clearok(stdscr, TRUE);
    }
    guard.came[SIGWINCH] = guard.came[SIGCONT] = 0;
    measure(term);
    resizeterm(term->rows, term->columns);
    *ret_event = TIDE_TERM_RESIZED;
    return true;
}

static int translate(int key)
{
    static const struct {
        int curses, ours;
    } keys[] = {
        {KEY_UP, TIDE_KEY_UP},         {KEY_DOWN, TIDE_KEY_DOWN},       {KEY_LEFT, TIDE_KEY_LEFT},
        {KEY_RIGHT, TIDE_KEY_RIGHT},   {KEY_SLEFT, TIDE_KEY_FAR_LEFT},  {KEY_SRIGHT, TIDE_KEY_FAR_RIGHT},
        {KEY_PPAGE, TIDE_KEY_PAGE_UP}, {KEY_NPAGE, TIDE_KEY_PAGE_DOWN}, {KEY_HOME, TIDE_KEY_HOME},
        {KEY_END, TIDE_KEY_END},       {KEY_ENTER, TIDE_KEY_ENTER},     {'\n', TIDE_KEY_ENTER},
        {'\r', TIDE_KEY_ENTER},        {27, TIDE_KEY_ESCAPE},
    };
    for (size_t i = 0; i < COUNT(keys); i++)
        if (keys[i].curses == key)
            return keys[i].ours;
    return key < 0x80 ? key : 0;
}

static enum tide_term_event take_click(struct tide_term *term)
{
    MEVENT event;
    if (getmouse(&event) != OK || !(event.bstate & BUTTON1_PRESSED))
        return TIDE_TERM_NOTHING;
    term->click_row = event.y;
    term->click_column = event.x;
    return TIDE_TERM_CLICK;
}

enum tide_term_event tide_term_wait(struct tide_term *term, int64_t timeout_ns, int wake, int *ret_key)
{
    enum tide_term_event event = TIDE_TERM_NOTHING;
    if (take_signal(term, &event, ret_key))
        return event;
    int key = getch();
    if (key == ERR) {
        struct pollfd inputs[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
        if (timeout_ns < 0)
            timeout_ns = 0;
        struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
        int ready = ppoll(inputs, 2, &timeout, &term->wait_mask);
        if (take_signal(term, &event, ret_key))
            return event;
        if (ready <= 0 || !inputs[0].revents)
            return TIDE_TERM_NOTHING;
        if (inputs[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            return TIDE_TERM_LEAVE;
        key = getch();
    }
    if (key == ERR || key == KEY_RESIZE)
        return TIDE_TERM_NOTHING;
    if (key == KEY_MOUSE)
        return take_click(term);
    *ret_key = translate(key);
    return TIDE_TERM_KEY;
}
