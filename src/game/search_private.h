/* search_private.h - the memory of a search. */
#ifndef TIDE_SEARCH_PRIVATE_H
#define TIDE_SEARCH_PRIVATE_H

#include "game/search.h"

/* A move and the position after it. Sums are of values for the side that made the move, so that a parent can
 * compare its children directly. */
struct tide_child {
    uint32_t visits;
    float sum;
    uint32_t first;  /* of its own children, which are adjacent */
    uint16_t count;  /* of its own children; 0 until it is evaluated */
    uint16_t tried;  /* how many of them, from the first, were visited or are out */
    uint16_t move;   /* unused in the root */
    uint16_t prior;  /* see tide_prior_number */
    uint16_t out;    /* leaves at or below it that are out */
    uint16_t unused; /* 0 */
};

_Static_assert(sizeof(struct tide_child) == TIDE_CHILD_BYTES, "the size that the header says");

struct tide_search {
    struct tide_game game;
    struct tide_search_rule rule;
    struct tide_position root;
    uint32_t capacity; /* children in each half */
    uint32_t half;     /* the one in use: 0 or 1 */
    uint32_t used;     /* children in it */
    uint32_t most[2];  /* the most ever used in each */
    uint64_t full;
};

enum { TIDE_SEARCH_HEADER = (sizeof(struct tide_search) + 63) / 64 * 64 };

static inline struct tide_child *tide_search_half(const struct tide_search *search, uint32_t half)
{
    char *memory = (char *)search + TIDE_SEARCH_HEADER;
    return (struct tide_child *)(memory + (size_t)half * search->capacity * sizeof(struct tide_child));
}

/* The children in use; the first is the root. */
static inline struct tide_child *tide_search_tree(const struct tide_search *search)
{
    return tide_search_half(search, search->half);
}

/* A prior has 16 bits: 5 of exponent and 11 of fraction, from 2^-31 to 1; 0 for less. */
static inline float tide_prior_number(uint16_t code)
{
    union {
        uint32_t bits;
        float number;
    } as = {.bits = ((uint32_t)code << 12) + ((127 - 31) << 23)};
    return code ? as.number : 0;
}

/* Returns the code nearest to a number from 0 to 1. */
static inline uint16_t tide_prior_code(float number)
{
    union {
        float number;
        uint32_t bits;
    } as = {.number = number};
    int32_t code = ((int32_t)as.bits - ((127 - 31) << 23) + (1 << 11)) >> 12;
    return (uint16_t)(code > 0 ? code : 0);
}

/* If some moves of a position are forced, clears the priors of the others (tide_search_rule.forced). */
void tide_priors_force(const struct tide_game *game, const struct tide_position *position, uint16_t *priors);

/* Of two untried children, the higher rank comes first: the likelier, of equals the lower move. */
static inline uint32_t tide_child_rank(const struct tide_child *child)
{
    return (uint32_t)child->prior << 16 | (uint16_t)~child->move;
}

/* Moves the untried child that is to be tried next to the front of the untried ones. */
void tide_search_bring_next(const struct tide_child *parent, struct tide_child *children);

#endif
