/*
 * game_fixture.h - games, positions by the names of moves, memory with a guard behind it, and evaluators
 * whose answers depend on the position alone.
 */
#ifndef GAME_FIXTURE_H
#define GAME_FIXTURE_H

#include "game/evaluator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static inline struct tide_game game_of(const char *name, int board, bool exact)
{
    struct tide_game game;
    struct tide_err err = {.text = ""};
    if (tide_game_of(name, board, exact, &game, &err))
        fail_msg("%s", err.text);
    return game;
}

/* -1: no move has that name. */
static inline int move_of(const struct tide_game *game, const char *name)
{
    char each[TIDE_MOVE_NAME];
    for (int move = 0; move < game->moves; move++)
        if (!strcmp(tide_move_name(game, move, each), name))
            return move;
    return -1;
}

static inline struct tide_position played(const struct tide_game *game, const char *names)
{
    struct tide_position position;
    tide_position_begin(game, &position);
    char copy[512], *rest = NULL;
    strcpy(copy, names);
    for (char *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        int move = move_of(game, name);
        assert_true(tide_position_may(game, &position, move));
        tide_position_play(game, &position, move);
    }
    return position;
}

/* ---- memory of exactly so many bytes */

enum { GUARD_BYTES = 64 };

struct guarded {
    char *memory;
    size_t bytes;
};

/* Filled with rubbish: nothing may depend on what was there. */
static inline struct guarded guarded_of(size_t bytes)
{
    struct guarded guarded = {aligned_alloc(64, (bytes + GUARD_BYTES + 63) / 64 * 64), bytes};
    assert_non_null(guarded.memory);
    memset(guarded.memory, 0x5b, bytes);
    memset(guarded.memory + bytes, 0xc3, GUARD_BYTES);
    return guarded;
}

static inline void guarded_check(const struct guarded *guarded)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        assert_int_equal((unsigned char)guarded->memory[guarded->bytes + (size_t)i], 0xc3);
}

static inline void guarded_free(struct guarded *guarded)
{
    guarded_check(guarded);
    free(guarded->memory);
}

struct searching {
    struct guarded pool, workspace;
    struct tide_search *search;
};

static inline struct searching searching_of(const struct tide_game *game, const struct tide_search_rule *rule,
                                            int64_t children, int most)
{
    struct searching s = {guarded_of(tide_search_bytes(game, children)),
                          guarded_of(tide_search_workspace_bytes(game, most)), NULL};
    s.search = tide_search_place(game, rule, children, s.pool.memory);
    return s;
}

static inline void searching_free(struct searching *s)
{
    guarded_free(&s->pool);
    guarded_free(&s->workspace);
}

/* ---- evaluators */

struct opinion {
    const struct tide_game *game;
    uint64_t seed;
    float spread;  /* of logits: 0, all moves are alike */
    float certain; /* values are from -this to this */
    int64_t asked;
    int fails_after; /* calls; -1 never */
};

static inline int opinion_evaluate(void *context, const struct tide_position *positions, int count,
                                   float *logits, float *values)
{
    struct opinion *opinion = context;
    if (opinion->fails_after == 0)
        return -1;
    opinion->fails_after -= opinion->fails_after > 0;
    for (int i = 0; i < count; i++) {
        assert_int_equal(positions[i].outcome, TIDE_PLAYING);
        uint64_t key = tide_cache_key(opinion->game, &positions[i]) + opinion->seed;
        for (int move = 0; move < opinion->game->moves; move++)
            *logits++ = opinion->spread * (float)tide_random_unit(key, (uint64_t)move, 1);
        values[i] = opinion->certain * (2 * (float)tide_random_unit(key, 0, 2) - 1);
    }
    opinion->asked += count;
    return 0;
}

static inline struct tide_evaluator opinion_evaluator(struct opinion *opinion, int most)
{
    return (struct tide_evaluator){.most = most, .evaluate = opinion_evaluate, .context = opinion};
}

#endif
