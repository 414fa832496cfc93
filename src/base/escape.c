#include "base/escape.h"

#include <string.h>

enum { BEL = 0x07, CAN = 0x18, SUB = 0x1a, ESC = 0x1b };

enum tide_escape tide_escape_next(enum tide_escape state, unsigned char c)
{
    if (c == CAN || c == SUB)
        return TIDE_ESCAPE_NONE;
    if (state == TIDE_ESCAPE_STRING_ENDING)
        return c == '\\' ? TIDE_ESCAPE_NONE : TIDE_ESCAPE_STRING;
    if (c == ESC)
        return state == TIDE_ESCAPE_STRING ? TIDE_ESCAPE_STRING_ENDING : TIDE_ESCAPE_BEGUN;
    switch (state) {
    case TIDE_ESCAPE_BEGUN:
        if (c == '[')
            return TIDE_ESCAPE_CSI;
        if (c && strchr("]P^_X", c))
            return TIDE_ESCAPE_STRING;
        return c >= 0x30 && c <= 0x7e ? TIDE_ESCAPE_NONE : TIDE_ESCAPE_INTERMEDIATE;
    case TIDE_ESCAPE_INTERMEDIATE:
        return c >= 0x30 && c <= 0x7e ? TIDE_ESCAPE_NONE : TIDE_ESCAPE_INTERMEDIATE;
    case TIDE_ESCAPE_CSI:
        return c >= 0x40 && c <= 0x7e ? TIDE_ESCAPE_NONE : TIDE_ESCAPE_CSI;
    case TIDE_ESCAPE_STRING:
        return c == BEL ? TIDE_ESCAPE_NONE : TIDE_ESCAPE_STRING;
    default:
        return TIDE_ESCAPE_NONE;
    }
}
