/*
 * selfplay.h - the task of learning a board game by self-play.
 *
 * A step plays until enough new positions are in the replay, then updates the net with batches of it. A step
 * is a function of the seed, the weights, the replay and the current games, all of which a checkpoint has:
 * stopping and resuming changes no bit, with any number of threads.
 */
#ifndef TIDE_SELFPLAY_H
#define TIDE_SELFPLAY_H

#include "game/evaluator.h"
#include "train/boardnet.h"
#include "train/task.h"

struct tide_selfplay_settings {
    const char *game;
    int64_t board, exact; /* columns; 0 or 1: more than five in a row do not win */
    char net[TIDE_SETTING_PATH_BYTES];
    int64_t games, simulations, replay, batch;
    int64_t positions; /* new ones per step */
    double reuse;      /* how often each is trained on, on average */
    int64_t sampled_plies, children, cache_bytes, match_games;
    double exploration, noise_alpha, noise_share, openings, value_weight;
};

extern const struct tide_setting tide_selfplay_settings[];

struct tide_selfplay_options {
    struct tide_selfplay_settings settings;
};

/* NULL: out of memory. */
struct tide_task *tide_selfplay_new(const struct tide_selfplay_options *options);

#endif
