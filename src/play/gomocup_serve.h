/*
 * gomocup_serve.h - a player behind the protocol of tournament managers (gomocup.h), over two descriptors.
 *
 * One call until the manager says END, closes its end, or is gone; all of these are a good end. While the
 * player thinks, END stops it. Every answer is written as it is made.
 */
#ifndef TIDE_GOMOCUP_SERVE_H
#define TIDE_GOMOCUP_SERVE_H

#include "play/player.h"

struct tide_gomocup_service {
    int in, out;
    const char *about;
    int only_board;       /* 0: any */
    bool exact;           /* exactly five win, where the manager says nothing of a rule */
    int64_t simulations;  /* for a move, within the manager's time; 0: no limit */
    int64_t time_ns;      /* for a move, where the manager gives none; 0: no limit */
    int64_t memory_bytes; /* of the process, where the manager says nothing of max_memory; 0: no limit */
};

/* SIGPIPE must be ignored or blocked. -1: reading failed. */
int tide_gomocup_serve(const struct tide_gomocup_service *service, struct tide_player *player,
                       struct tide_err *err);

#endif
