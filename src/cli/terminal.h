/*
 * terminal.h - takes the user's terminal over, and gives it back on every way out.
 *
 * tide_terminal_open (once) -> tide_terminal_raw() / tide_terminal_yield() as often as needed. After the
 * first _raw, the settings found by _open are restored at exit(), at fatal signals (SEGV, BUS, FPE, ILL,
 * ABRT) and, when this process is killed with SIGKILL, by another process with tide_terminal_rescue(). There
 * is one terminal per process, so the state is in static variables.
 */
#ifndef TIDE_TERMINAL_H
#define TIDE_TERMINAL_H

#include <stdbool.h>
#include <sys/ioctl.h>
#include <termios.h>

/* Remembers fd (a terminal; it must stay open) and its settings. -1: they cannot be read. */
int tide_terminal_open(int fd);

/* True if this process's group is in the terminal's foreground. */
bool tide_terminal_is_foreground(void);

/* Raw mode: every key is a byte; nothing is echoed or translated. */
void tide_terminal_raw(void);

/* Sets the text that is written before the settings are restored, whoever restores them ("": nothing). It
 * must have static storage. */
void tide_terminal_set_farewell(const char *text);

/* Restores the settings that _open found, unless somebody (a shell that has the terminal again) has changed
 * them since. Does nothing when the terminal is not raw. */
void tide_terminal_yield(void);

/* For another process that has inherited fd: restores the settings even if it never made the terminal raw. */
void tide_terminal_rescue(void);

/* Rows and columns, or 24 by 80 when the terminal does not say. */
struct winsize tide_terminal_size(int fd);

#endif
