/*
 * escape.h - which bytes of a program's output belong to escape sequences (ECMA-48).
 */
#ifndef TIDE_ESCAPE_H
#define TIDE_ESCAPE_H

enum tide_escape {
    TIDE_ESCAPE_NONE,
    TIDE_ESCAPE_BEGUN, /* after ESC */
    TIDE_ESCAPE_INTERMEDIATE,
    TIDE_ESCAPE_CSI,    /* after ESC [ */
    TIDE_ESCAPE_STRING, /* OSC and the like, which BEL or ESC \ ends */
    TIDE_ESCAPE_STRING_ENDING,
    TIDE_ESCAPE_STATES
};

/* Returns the state after byte c. A byte is plain if the state is NONE before and after it. */
enum tide_escape tide_escape_next(enum tide_escape state, unsigned char c);

#endif
