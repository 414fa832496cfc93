/*
 * terminal.h - the user's terminal: taking it over, and giving it back on every way out.
 *
 * tide_terminal_open (once) -> tide_terminal_raw() / tide_terminal_yield() as often as needed. From the
 * first _raw on the settings found by _open come back at exit(), at fatal signals (SEGV, BUS, FPE, ILL,
 * ABRT), and, through tide_terminal_rescue(), from another process when this one is killed with SIGKILL.
 * There is one terminal per process, so this is the one place with state of its own outside any struct.
 */
#ifndef TIDE_TERMINAL_H
#define TIDE_TERMINAL_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/ioctl.h>
#include <termios.h>

/* Remembers fd (a terminal; it must stay open) and its settings. */
int tide_terminal_open(int fd, struct tide_err *err);

/* Whether this process's group is in the terminal's foreground. */
bool tide_terminal_is_foreground(void);

/* Every key is a byte; nothing is echoed or translated. */
void tide_terminal_raw(void);

/* Says that `text` must be written before the settings come back, whoever brings them back ("": nothing).
 * Static storage. */
void tide_terminal_set_farewell(const char *text);

/* Back to what _open found, unless somebody has changed the settings since: a shell that has the terminal
 * again. Does nothing when it is not raw. */
void tide_terminal_yield(void);

/* For another process that has inherited fd: brings the terminal back whatever this process believes. */
void tide_terminal_rescue(void);

/* Rows and columns, or 24 by 80 when the terminal does not say. */
struct winsize tide_terminal_size(int fd);

#endif
