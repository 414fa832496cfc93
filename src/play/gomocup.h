/*
 * gomocup.h - the Gomocup protocol: what a tournament manager says, and what a player answers.
 *
 * Pure: bytes in, lines out; no clock, no I/O, no search. tide_gomocup_init -> repeat tide_gomocup_feed(): it
 * takes bytes up to the first line that needs the caller, and says what for. The manager's lines end in CR
 * LF, LF or CR and may have any length: one that is too long is an error and has no other effect.
 *
 * A command that fails is answered with ERROR and a sentence, and changes nothing. An unknown one is answered
 * with UNKNOWN. Coordinates are X,Y from 0, X the column, Y the row, from the top left.
 */
#ifndef TIDE_GOMOCUP_H
#define TIDE_GOMOCUP_H

#include "game/game.h"

enum { TIDE_GOMOCUP_LINE = 1024, TIDE_GOMOCUP_ANSWER = 640 };

enum tide_gomocup_want {
    TIDE_GOMOCUP_MORE,    /* more bytes: all were taken */
    TIDE_GOMOCUP_ANSWERS, /* write `answer` to the manager */
    TIDE_GOMOCUP_THINKS,  /* a move in `position`, within the limits: then call _move() or _fail() */
    TIDE_GOMOCUP_ENDS,
};

/* What INFO said. -1: nothing. */
struct tide_gomocup_limits {
    int64_t turn_ms;      /* per move; 0: as fast as possible */
    int64_t match_ms;     /* per game; 0: no limit */
    int64_t left_ms;      /* for the rest of the game */
    int64_t memory_bytes; /* of the process; 0: no limit */
};

/* In the order of arrival. */
struct tide_gomocup_stones {
    int count;
    struct {
        int16_t cell;
        bool own;
    } at[TIDE_BOARD_CELLS];
};

struct tide_gomocup {
    const char *about; /* the answer to ABOUT; borrowed */
    int only_board;    /* the only board size that can be played; 0: any of the game */
    struct tide_gomocup_limits limits;
    struct tide_game game; /* since the last START; cells 0: there was none */
    struct tide_position position;
    struct tide_gomocup_stones stones;
    struct tide_gomocup_stones kept; /* what a failed command goes back to */
    bool exact;                      /* exactly five win */
    bool reads_board;                /* between BOARD and DONE */
    char board_error[256];           /* the first error in its lines; "": none */
    char line[TIDE_GOMOCUP_LINE];
    size_t line_len;
    bool line_too_long;
    char answer[TIDE_GOMOCUP_ANSWER]; /* a line with its end */
};

void tide_gomocup_init(struct tide_gomocup *gomocup, const char *about, int only_board);

/* Returns how many of the bytes were taken; the rest is for the next call. */
size_t tide_gomocup_feed(struct tide_gomocup *gomocup, const char *bytes, size_t len,
                         enum tide_gomocup_want *ret_want);

/* Plays the chosen move and sets `answer` to it. */
void tide_gomocup_move(struct tide_gomocup *gomocup, int move);

/* Undoes the command that asked for a move, because there is none; `answer` says why. */
void tide_gomocup_fail(struct tide_gomocup *gomocup, const char *why);

/* True if the next complete line of the bytes not taken yet is END. */
bool tide_gomocup_is_ending(const char *bytes, size_t len);

#endif
