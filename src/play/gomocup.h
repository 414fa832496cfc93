/*
 * gomocup.h - the protocol of Gomocup: what a tournament manager says, and what a player answers.
 *
 * Pure: bytes in, lines out; no clock, no I/O, no search. tide_gomocup_init -> repeat tide_gomocup_feed():
 * it takes bytes up to the first line that wants something of the caller, and says what. The manager's lines
 * end in CR LF, LF or CR, and may be of any length: one that is too long is an error and nothing else.
 *
 * A command that fails is answered with ERROR and a sentence, and leaves everything as it was. What is not
 * known is answered with UNKNOWN. Coordinates are X,Y from 0, X the column, Y the row, from the top left.
 */
#ifndef TIDE_GOMOCUP_H
#define TIDE_GOMOCUP_H

#include "game/game.h"

enum { TIDE_GOMOCUP_LINE = 1024, TIDE_GOMOCUP_ANSWER = 640 };

enum tide_gomocup_want {
    TIDE_GOMOCUP_MORE,    /* bytes: all are taken */
    TIDE_GOMOCUP_ANSWERS, /* write `answer` to the manager */
    TIDE_GOMOCUP_THINKS,  /* a move in `position`, within the limits: then _move() or _fail() */
    TIDE_GOMOCUP_ENDS,
};

/* What INFO said. -1: nothing was said. */
struct tide_gomocup_limits {
    int64_t turn_ms;      /* for a move; 0: as fast as possible */
    int64_t match_ms;     /* for a game; 0: no limit */
    int64_t left_ms;      /* of the game */
    int64_t memory_bytes; /* of the process; 0: no limit */
};

/* In the order that they came in. */
struct tide_gomocup_stones {
    int count;
    struct {
        int16_t cell;
        bool own;
    } at[TIDE_BOARD_CELLS];
};

struct tide_gomocup {
    const char *about; /* the answer to ABOUT; borrowed */
    int only_board;    /* that can be played on; 0: any that the game has */
    struct tide_gomocup_limits limits;
    struct tide_game game; /* since the last START; cells 0: there was none */
    struct tide_position position;
    struct tide_gomocup_stones stones;
    struct tide_gomocup_stones kept; /* what a command that fails goes back to */
    bool exact;                      /* exactly five win */
    bool reads_board;                /* between BOARD and DONE */
    char board_error[256];           /* the first one in its lines; "": none */
    char line[TIDE_GOMOCUP_LINE];
    size_t line_len;
    bool line_too_long;
    char answer[TIDE_GOMOCUP_ANSWER]; /* a line with its end */
};

void tide_gomocup_init(struct tide_gomocup *gomocup, const char *about, int only_board);

/* Returns how many of the bytes were taken; the rest is for the next call. */
size_t tide_gomocup_feed(struct tide_gomocup *gomocup, const char *bytes, size_t len,
                         enum tide_gomocup_want *ret_want);

/* Plays the move that was thought of: `answer` is there to be written. */
void tide_gomocup_move(struct tide_gomocup *gomocup, int move);

/* There is none: `answer` says why, and the command that asked for it is as if it had not come. */
void tide_gomocup_fail(struct tide_gomocup *gomocup, const char *why);

/* Whether the next whole line of bytes that were not taken yet is END. */
bool tide_gomocup_is_ending(const char *bytes, size_t len);

#endif
