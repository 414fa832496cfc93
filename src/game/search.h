/*
 * search.h - the tree of one game that is searched: PUCT over a pool of fixed bytes.
 *
 *     place -> begin -> { descend -> give } ... -> choose -> advance -> { descend -> give } ... -> ...
 *
 * A descent goes from the root to a position that has not been valued yet, and hands it to the caller. The
 * caller gives back a number for each move and a value. Several positions may be out at once; they count as
 * lost until they are back, so that descents spread. tide_search_run (evaluator.h) does all of this for one
 * game.
 *
 * All memory is the caller's, of the bytes that tide_search_bytes says: a header and two halves. A half is an
 * array of children, TIDE_CHILD_BYTES each; the children of a position lie side by side, and are named by
 * their index. There are no pointers to them. Keeping the subtree of a move copies it to the other half,
 * which cannot fail. A pool without room for the children of one more position stops growing and is searched
 * on: positions in it are valued but get no children, and count their value again each time they are reached.
 * It says how often.
 *
 * Values are of the side to move in the position that they are said of: 1 is won, -1 lost. What a search does
 * is a function of its calls alone: the same calls, the same bits. One thread at a time.
 */
#ifndef TIDE_SEARCH_H
#define TIDE_SEARCH_H

#include "base/random.h"
#include "game/game.h"

enum { TIDE_CHILD_BYTES = 24 };

struct tide_search_rule {
    float exploration; /* how much a prior weighs against values: 1.8 */
    float first_play; /* a move that was not tried yet counts as its position, less this times the root of the
                       * sum of priors that were tried: 0.2 */
    float noise_alpha; /* of the Dirichlet noise on the root's priors: 10 by the number of moves */
    float noise_share; /* its share of them: 0.25 */
    bool forced; /* moves that complete a line at once, or without them those that keep the other side from
                  * it, share the whole prior of a position. Plain MCTS is without it. */
};

struct tide_search;

/* A position that is out to be valued. */
struct tide_leaf {
    struct tide_position position;
    int depth;
    uint32_t path[TIDE_BOARD_CELLS + 1]; /* children from the root, which is first, to the position */
};

/* What the memory of a search with so many children in each half must have, exactly; it must begin at a
 * multiple of 64. children: above game->moves, below 2^32. */
size_t tide_search_bytes(const struct tide_game *game, int64_t children);

/* As many children as so many simulations from a new tree can ever need. */
int64_t tide_search_children(const struct tide_game *game, int64_t simulations);

/* A search in that memory, as if begun with an empty board. Lives there; nothing to free. */
struct tide_search *tide_search_place(const struct tide_game *game, const struct tide_search_rule *rule,
                                      int64_t children, void *memory);

/* A new tree from a position. */
void tide_search_begin(struct tide_search *search, const struct tide_position *root);

enum tide_descent {
    TIDE_NEEDS_EVALUATION, /* the leaf is out, until it is given or dropped */
    TIDE_BACKED_UP,        /* the game had ended there, or the pool is full: counted already */
    TIDE_BUSY,             /* the leaf it came to is out already: nothing changed */
};

enum tide_descent tide_search_descend(struct tide_search *search, struct tide_leaf *ret_leaf);

/* What the leaf's position is worth. logits: one for each move; the search takes those of possible moves
 * through softmax. value: what is not in -1 .. 1 is brought there. */
void tide_search_give(struct tide_search *search, const struct tide_leaf *leaf, const float *logits,
                      float value);

/* The same in two steps, for caches: priors of all moves in 16 bits, 0 for the impossible. */
void tide_search_priors(const struct tide_game *game, const struct tide_position *position,
                        const float *logits, uint16_t *ret_priors);
void tide_search_give_priors(struct tide_search *search, const struct tide_leaf *leaf, const uint16_t *priors,
                             float value);

/* Takes a leaf back without a value, as if it had not been out. */
void tide_search_drop(struct tide_search *search, const struct tide_leaf *leaf);

/* Whether the root has been given, and so has children. */
bool tide_search_is_expanded(const struct tide_search *search);

/* Mixes Dirichlet noise into the priors of the root, which must have children; no leaf is out. Once a root.
 */
void tide_search_noise(struct tide_search *search, struct tide_random *random);

/* Visits of each of the root's moves. */
void tide_search_visits(const struct tide_search *search, uint32_t *ret_visits);

/* The mean value of the root, 0 before the first visit. */
float tide_search_value(const struct tide_search *search);

/* The same of one of its moves, for the side to move at the root: how good the move is. */
float tide_search_move_value(const struct tide_search *search, int move);

/* A move by visits to the power of 1 / temperature; at temperature 0 the most visited, of equals the better,
 * then the lower. Before any visit the one of the highest prior; -1 when the root has no children. */
int tide_search_choose(const struct tide_search *search, float temperature, struct tide_random *random);

/* Plays a possible move at the root, and keeps what is known of what follows it. No leaf is out. */
void tide_search_advance(struct tide_search *search, int move);

/* Borrowed, until the next call that changes the search. */
const struct tide_position *tide_search_root(const struct tide_search *search);
const struct tide_game *tide_search_game(const struct tide_search *search);

struct tide_search_counts {
    uint32_t visits;     /* of the root */
    uint32_t out;        /* leaves that are out */
    uint32_t children;   /* of this tree, with the root */
    uint64_t high_water; /* bytes of the memory that were ever used, header and both halves */
    uint64_t full;       /* times that a position got no children because the pool was full */
};

struct tide_search_counts tide_search_count(const struct tide_search *search);

#endif
