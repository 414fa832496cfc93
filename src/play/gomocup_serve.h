/*
 * gomocup_serve.h - a player for tournament managers (gomocup.h), over two descriptors.
 *
 * One call until the manager says END, closes its end, or is gone; none of these is an error. END also stops
 * the player while it thinks. Every answer is written at once.
 */
#ifndef TIDE_GOMOCUP_SERVE_H
#define TIDE_GOMOCUP_SERVE_H

#include "play/player.h"

struct tide_gomocup_service {
    int in, out;
    const char *about;
    int only_board;       /* 0: any */
    bool exact;           /* exactly five win, if the manager names no rule */
    int64_t simulations;  /* per move, within the manager's time; 0: no limit */
    int64_t time_ns;      /* per move, if the manager gives none; 0: no limit */
    int64_t memory_bytes; /* of the process, if the manager gives no max_memory; 0: no limit */
};

/* SIGPIPE must be ignored or blocked. -1: reading failed. */
int tide_gomocup_serve(const struct tide_gomocup_service *service, struct tide_player *player,
                       struct tide_err *err);

#endif
