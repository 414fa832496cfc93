/*
 * search.h - searches the tree of one game: PUCT in fixed memory.
 *
 *     place -> begin -> { descend -> give } ... -> choose -> advance -> { descend -> give } ... -> ...
 *
 * A descent goes from the root to a position that has not been evaluated yet and hands it to the caller. The
 * caller gives back a number for each move and a value. Several positions may be out at once; they count as
 * lost until they are back, so that descents spread. tide_search_run (evaluator.h) does all of this for one
 * game.
 *
 * The caller owns all memory, tide_search_bytes() in size: a header and two halves. A half is an array of
 * children, TIDE_CHILD_BYTES each; the children of a position are adjacent and are referred to by index,
 * never by pointer. Keeping the subtree of a move copies it to the other half, which cannot fail. If there is
 * no room for the children of one more position, the tree stops growing but the search goes on: such
 * positions are evaluated but get no children, and their value is counted again each time they are reached. A
 * counter says how often.
 *
 * Values are for the side to move in the position concerned: 1 is won, -1 lost. A search is a function of its
 * calls alone: the same calls give the same bits. Not thread-safe.
 */
#ifndef TIDE_SEARCH_H
#define TIDE_SEARCH_H

#include "base/random.h"
#include "game/game.h"

enum { TIDE_CHILD_BYTES = 24 };

struct tide_search_rule {
    float exploration; /* weight of priors against values: 1.8 */
    float first_play;  /* an untried move counts as its position's value, less this times the root of the sum
                          of tried priors: 0.2 */
    float noise_alpha; /* of the Dirichlet noise on the root's priors: 10 / number of moves */
    float noise_share; /* share of the noise: 0.25 */
    bool forced; /* moves that complete a line at once or, without them, those that stop the other side's line
                    share the whole prior of a position. Plain MCTS does without it. */
};

struct tide_search;

/* A position that is out for evaluation. */
struct tide_leaf {
    struct tide_position position;
    int depth;
    uint32_t path[TIDE_BOARD_CELLS + 1]; /* indexes from the root, which is first, to the position */
};

/* Returns the exact size of the memory of a search with that many children in each half; it must be aligned
 * to 64. children: above game->moves, below 2^32. */
size_t tide_search_bytes(const struct tide_game *game, int64_t children);

/* Returns the most children that `simulations` simulations from a new tree can need. */
int64_t tide_search_children(const struct tide_game *game, int64_t simulations);

/* Makes a search in that memory, with an empty board. It lives there; there is nothing to free. */
struct tide_search *tide_search_place(const struct tide_game *game, const struct tide_search_rule *rule,
                                      int64_t children, void *memory);

/* Starts a new tree from a position. */
void tide_search_begin(struct tide_search *search, const struct tide_position *root);

enum tide_descent {
    TIDE_NEEDS_EVALUATION, /* the leaf is out, until it is given or dropped */
    TIDE_BACKED_UP,        /* the game ended there, or the tree is full: already counted */
    TIDE_BUSY,             /* it reached a leaf that is out already: nothing changed */
};

enum tide_descent tide_search_descend(struct tide_search *search, struct tide_leaf *ret_leaf);

/* Computes the priors of all moves in 16 bits, 0 for impossible ones. logits: one for each move; softmax is
 * applied to those of possible moves. */
void tide_search_priors(const struct tide_game *game, const struct tide_position *position,
                        const float *logits, uint16_t *ret_priors);

/* Gives the evaluation of a leaf. value: clamped to -1 .. 1. */
void tide_search_give_priors(struct tide_search *search, const struct tide_leaf *leaf, const uint16_t *priors,
                             float value);

/* Takes a leaf back without a value, as if it had never been out. */
void tide_search_drop(struct tide_search *search, const struct tide_leaf *leaf);

/* True if the root was evaluated and so has children. */
bool tide_search_is_expanded(const struct tide_search *search);

/* Mixes Dirichlet noise into the priors of the root, which must have children; no leaf is out. Once per
 * root. */
void tide_search_noise(struct tide_search *search, struct tide_random *random);

/* Writes the visits of each of the root's moves. */
void tide_search_visits(const struct tide_search *search, uint32_t *ret_visits);

/* Returns the mean value of one of its moves for the side to move at the root: how good the move is. */
float tide_search_move_value(const struct tide_search *search, int move);

/* Chooses a move by visits to the power of 1 / temperature; at temperature 0 the most visited, of equals the
 * better, then the lower. Before any visit, the one with the highest prior; -1: the root has no children. */
int tide_search_choose(const struct tide_search *search, float temperature, struct tide_random *random);

/* Plays a possible move at the root and keeps the subtree below it. No leaf may be out. */
void tide_search_advance(struct tide_search *search, int move);

/* Borrowed until the next call that changes the search. */
const struct tide_position *tide_search_root(const struct tide_search *search);
const struct tide_game *tide_search_game(const struct tide_search *search);

struct tide_search_counts {
    uint32_t visits;     /* of the root */
    uint32_t out;        /* leaves out for evaluation */
    uint32_t children;   /* of this tree, with the root */
    uint64_t high_water; /* bytes of the memory ever used: header and both halves */
    uint64_t full;       /* times that a position got no children because the tree was full */
};

struct tide_search_counts tide_search_count(const struct tide_search *search);

#endif
