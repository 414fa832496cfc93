/*
 * search.c - descents, values on their way back, and the tree that is kept.
 *
 * The children of a position are in two parts. Tried ones come first, in the order in which they were tried.
 * Among the untried ones, only the one with the highest prior (of equals, the lowest move) can be chosen
 * next, because they differ in nothing else: it is at their front. So a choice looks at the tried ones and
 * one more, however many moves there are.
 */
#include "game/search_private.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

/* ---- memory */

size_t tide_search_bytes(const struct tide_game *game, int64_t children)
{
    TIDE_CHECK(children, >, game->moves);
    TIDE_CHECK(children, <=, UINT32_MAX);
    return TIDE_SEARCH_HEADER + 2 * (size_t)children * sizeof(struct tide_child);
}

int64_t tide_search_children(const struct tide_game *game, int64_t simulations)
{
    return 1 + simulations * game->moves;
}

static void note_most(struct tide_search *search)
{
    if (search->most[search->half] < search->used)
        search->most[search->half] = search->used;
}

struct tide_search *tide_search_place(const struct tide_game *game, const struct tide_search_rule *rule,
                                      int64_t children, void *memory)
{
    TIDE_CHECK((uintptr_t)memory % 64, ==, 0);
    TIDE_CHECK(tide_search_bytes(game, children), >, 0);
    struct tide_search *search = memory;
    *search = (struct tide_search){.game = *game, .rule = *rule, .capacity = (uint32_t)children};
    struct tide_position root;
    tide_position_begin(game, &root);
    tide_search_begin(search, &root);
    return search;
}

void tide_search_begin(struct tide_search *search, const struct tide_position *root)
{
    search->root = *root;
    search->used = 1;
    *tide_search_tree(search) = (struct tide_child){.visits = 0};
    note_most(search);
}

/* ---- descents */

static void swap(struct tide_child *a, struct tide_child *b)
{
    struct tide_child other = *a;
    *a = *b;
    *b = other;
}

void tide_search_bring_next(const struct tide_child *parent, struct tide_child *children)
{
    int next = parent->tried;
    if (next >= parent->count)
        return;
    uint32_t best = tide_child_rank(&children[next]);
    for (int i = next + 1; i < parent->count; i++) {
        uint32_t rank = tide_child_rank(&children[i]);
        next = rank > best ? i : next;
        best = rank > best ? rank : best;
    }
    if (next != parent->tried)
        swap(&children[next], &children[parent->tried]);
}

/* Selects the child to descend to. */
static uint32_t select_child(const struct tide_search *search, struct tide_child *tree, uint32_t at)
{
    struct tide_child *parent = &tree[at], *children = tree + parent->first;
    float scale = search->rule.exploration * sqrtf((float)(parent->visits + parent->out));
    float own = parent->visits ? -parent->sum / (float)parent->visits : 0;
    float best = -INFINITY, tried = 0;
    int choice = 0;
    for (int i = 0; i < parent->tried; i++) {
        const struct tide_child *child = &children[i];
        float visits = (float)(child->visits + child->out), prior = tide_prior_number(child->prior);
        /* One that was out and was dropped has no visits. */
        float value = visits > 0 ? (child->sum - (float)child->out) / visits : own;
        float score = value + scale * prior / (1 + visits);
        tried += prior;
        if (score > best) {
            best = score;
            choice = i;
        }
    }
    if (parent->tried < parent->count) {
        float score = own - search->rule.first_play * sqrtf(tried) +
                      scale * tide_prior_number(children[parent->tried].prior);
        if (score > best) {
            choice = parent->tried++;
            tide_search_bring_next(parent, children);
        }
    }
    return parent->first + (uint32_t)choice;
}

static void back_up(struct tide_child *tree, const struct tide_leaf *leaf, float value)
{
    for (int i = leaf->depth; i >= 0; i--) {
        value = -value;
        tree[leaf->path[i]].sum += value;
        tree[leaf->path[i]].visits++;
    }
}

enum tide_descent tide_search_descend(struct tide_search *search, struct tide_leaf *ret_leaf)
{
    struct tide_child *tree = tide_search_tree(search);
    uint32_t at = 0;
    ret_leaf->position = search->root;
    ret_leaf->depth = 0;
    ret_leaf->path[0] = 0;
    while (tree[at].count > 0) {
        at = select_child(search, tree, at);
        tide_position_play(&search->game, &ret_leaf->position, tree[at].move);
        ret_leaf->path[++ret_leaf->depth] = at;
    }
    if (ret_leaf->position.outcome != TIDE_PLAYING) {
        back_up(tree, ret_leaf, ret_leaf->position.outcome == TIDE_WON ? -1 : 0);
        return TIDE_BACKED_UP;
    }
    const struct tide_child *found = &tree[at];
    if (found->out > 0)
        return TIDE_BUSY;
    uint32_t room = search->capacity - search->used;
    if (found->visits > 0 && room < (uint32_t)tide_position_choices(&search->game, &ret_leaf->position)) {
        search->full++;
        back_up(tree, ret_leaf, -found->sum / (float)found->visits);
        return TIDE_BACKED_UP;
    }
    TIDE_CHECK(tree->out, <, UINT16_MAX);
    for (int i = 0; i <= ret_leaf->depth; i++)
        tree[ret_leaf->path[i]].out++;
    return TIDE_NEEDS_EVALUATION;
}

void tide_search_drop(struct tide_search *search, const struct tide_leaf *leaf)
{
    struct tide_child *tree = tide_search_tree(search);
    for (int i = 0; i <= leaf->depth; i++) {
        TIDE_CHECK(tree[leaf->path[i]].out, >, 0);
        tree[leaf->path[i]].out--;
    }
}

static void expand(struct tide_search *search, const struct tide_leaf *leaf, const uint16_t *priors)
{
    struct tide_child *tree = tide_search_tree(search), *parent = &tree[leaf->path[leaf->depth]];
    uint32_t room = search->capacity - search->used;
    if (room < (uint32_t)tide_position_choices(&search->game, &leaf->position)) {
        search->full++;
        return;
    }
    uint16_t moves[TIDE_BOARD_CELLS], forced[TIDE_BOARD_CELLS];
    if (search->rule.forced) {
        memcpy(forced, priors, (size_t)search->game.moves * sizeof *forced);
        tide_priors_force(&search->game, &leaf->position, forced);
        priors = forced;
    }
    int count = tide_position_moves(&search->game, &leaf->position, moves);
    struct tide_child *children = tree + search->used;
    for (int i = 0; i < count; i++)
        children[i] = (struct tide_child){.move = moves[i], .prior = priors[moves[i]]};
    parent->first = search->used;
    parent->count = (uint16_t)count;
    search->used += (uint32_t)count;
    tide_search_bring_next(parent, children);
    note_most(search);
}

void tide_search_give_priors(struct tide_search *search, const struct tide_leaf *leaf, const uint16_t *priors,
                             float value)
{
    tide_search_drop(search, leaf);
    TIDE_CHECK(tide_search_tree(search)[leaf->path[leaf->depth]].count, ==, 0);
    expand(search, leaf, priors);
    /* NaN becomes a loss. */
    back_up(tide_search_tree(search), leaf, value > -1 ? value < 1 ? value : 1 : -1);
}

void tide_search_advance(struct tide_search *search, int move)
{
    const struct tide_child *old = tide_search_tree(search);
    TIDE_CHECK(old->out, ==, 0);
    struct tide_child *kept = tide_search_half(search, !search->half);
    *kept = (struct tide_child){.visits = 0};
    for (uint32_t i = old->first; i < old->first + old->count; i++)
        if (old[i].move == move)
            *kept = old[i];
    /* Goes through the copied children in order and appends the children of each. */
    uint32_t used = 1;
    for (uint32_t i = 0; i < used; i++) {
        if (kept[i].count == 0)
            continue;
        memcpy(kept + used, old + kept[i].first, kept[i].count * sizeof *kept);
        kept[i].first = used;
        used += kept[i].count;
    }
    tide_position_play(&search->game, &search->root, move);
    search->half = !search->half;
    search->used = used;
    note_most(search);
}

/* ---- what was found */

bool tide_search_is_expanded(const struct tide_search *search)
{
    return tide_search_tree(search)->count > 0;
}

void tide_search_visits(const struct tide_search *search, uint32_t *ret_visits)
{
    const struct tide_child *root = tide_search_tree(search);
    memset(ret_visits, 0, (size_t)search->game.moves * sizeof *ret_visits);
    for (int i = 0; i < root->count; i++)
        ret_visits[root[root->first + (uint32_t)i].move] = root[root->first + (uint32_t)i].visits;
}

float tide_search_move_value(const struct tide_search *search, int move)
{
    const struct tide_child *root = tide_search_tree(search), *child = root + root->first;
    for (int i = 0; i < root->count; i++)
        if (child[i].move == move)
            return child[i].visits ? child[i].sum / (float)child[i].visits : 0;
    return 0;
}

/* True if a is to be played rather than b. */
static bool is_better(const struct tide_child *a, const struct tide_child *b)
{
    if (a->visits != b->visits)
        return a->visits > b->visits;
    if (a->sum < b->sum || a->sum > b->sum)
        return a->sum > b->sum;
    if (a->visits == 0 && a->prior != b->prior)
        return a->prior > b->prior;
    return a->move < b->move;
}

int tide_search_choose(const struct tide_search *search, float temperature, struct tide_random *random)
{
    const struct tide_child *root = tide_search_tree(search), *child = root + root->first, *best = child;
    if (root->count == 0)
        return -1;
    for (int i = 1; i < root->count; i++)
        if (is_better(&child[i], best))
            best = &child[i];
    if (temperature <= 0 || best->visits == 0)
        return best->move;
    /* In the order of moves, which does not depend on the order in which they were tried. */
    double weights[TIDE_BOARD_CELLS] = {0}, sum = 0;
    for (int i = 0; i < root->count; i++)
        weights[child[i].move] = pow((double)child[i].visits / best->visits, 1 / (double)temperature);
    for (int move = 0; move < search->game.moves; move++)
        sum += weights[move];
    double drawn = tide_random_next_unit(random) * sum;
    for (int move = 0; move < search->game.moves; move++) {
        drawn -= weights[move];
        if (drawn < 0 && weights[move] > 0)
            return move;
    }
    return best->move;
}

const struct tide_position *tide_search_root(const struct tide_search *search)
{
    return &search->root;
}

const struct tide_game *tide_search_game(const struct tide_search *search)
{
    return &search->game;
}

struct tide_search_counts tide_search_count(const struct tide_search *search)
{
    const struct tide_child *root = tide_search_tree(search);
    return (struct tide_search_counts){
        .visits = root->visits,
        .out = root->out,
        .children = search->used,
        .high_water = TIDE_SEARCH_HEADER + ((uint64_t)search->most[0] + search->most[1]) * sizeof *root,
        .full = search->full,
    };
}
