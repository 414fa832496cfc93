/* search_saved.c - a search as bytes, and back: what comes from a file is a tree of the game, or is refused.
 */
#include "game/search_private.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

struct saved {
    char is[8];
    int32_t columns, rows, line, flags;
    struct tide_position root;
    uint32_t used, unused;
    uint64_t full;
};

_Static_assert(sizeof(struct saved) == TIDE_SEARCH_SAVED, "no bytes that nobody sets");

static const char is[8] = "tidetree";

static struct saved saved_of(const struct tide_search *search)
{
    struct saved saved = {
        .columns = search->game.columns,
        .rows = search->game.rows,
        .line = search->game.line,
        .flags = search->game.exact | search->game.drops << 1,
        .root = search->root,
        .used = search->used,
        .full = search->full,
    };
    memcpy(saved.is, is, sizeof is);
    return saved;
}

size_t tide_search_saved_bytes(const struct tide_search *search)
{
    return TIDE_SEARCH_SAVED + (size_t)search->used * sizeof(struct tide_child);
}

void tide_search_save(const struct tide_search *search, void *ret_bytes)
{
    TIDE_CHECK(tide_search_tree(search)->out, ==, 0);
    struct saved saved = saved_of(search);
    memcpy(ret_bytes, &saved, sizeof saved);
    memcpy((char *)ret_bytes + sizeof saved, tide_search_tree(search),
           search->used * sizeof(struct tide_child));
}

/* The root's position, whose outcome and bits must be those of its stones. */
static bool is_position(const struct tide_game *game, const struct tide_position *position)
{
    uint8_t packed[2 + TIDE_BOARD_CELLS / 4 + 1];
    struct tide_position again;
    tide_position_pack(game, position, packed);
    return tide_position_unpack(game, packed, &again, NULL) == 0 &&
           memcmp(&again, position, sizeof again) == 0;
}

/* Whether the children of a position are its possible moves, each once, in two parts. */
static bool are_children(const struct tide_game *game, const struct tide_position *position,
                         const struct tide_child *parent, const struct tide_child *children)
{
    uint64_t seen[TIDE_BOARD_WORDS] = {0};
    if (parent->count != tide_position_choices(game, position) || parent->tried > parent->count)
        return false;
    for (int i = 0; i < parent->count; i++) {
        const struct tide_child *child = &children[i], *next = &children[parent->tried];
        if (!tide_position_may(game, position, child->move) || tide_cell_in(seen, child->move))
            return false;
        tide_cell_add(seen, child->move);
        if (child->out || child->unused || !(fabsf(child->sum) <= (float)child->visits))
            return false;
        if (i >= parent->tried &&
            (child->visits || child->count || tide_child_rank(child) > tide_child_rank(next)))
            return false;
    }
    return true;
}

/* A walk over all children. Each has its own after it, so that it ends; as many are met as there are, so that
 * no two share any. */
static int verify(const struct tide_search *search, struct tide_err *err)
{
    struct step {
        uint32_t at, next; /* a child, and which of its own comes next */
        struct tide_position position;
    } path[TIDE_BOARD_CELLS + 1];
    const struct tide_child *tree = tide_search_tree(search);
    uint32_t met = 1;
    int depth = 0;
    path[0] = (struct step){.position = search->root};
    while (depth >= 0) {
        struct step *step = &path[depth];
        const struct tide_child *parent = &tree[step->at];
        if (step->next == 0 && parent->count > 0) {
            met += parent->count;
            if (met > search->used || parent->first <= step->at ||
                parent->first > search->used - parent->count ||
                !are_children(&search->game, &step->position, parent, tree + parent->first))
                return tide_err_set(err, "the tree of the search is damaged at its child %u", step->at);
        }
        if (step->next >= parent->tried || parent->count == 0) {
            depth--;
            continue;
        }
        uint32_t at = parent->first + step->next++;
        path[++depth] = (struct step){.at = at, .position = step->position};
        tide_position_play(&search->game, &path[depth].position, tree[at].move);
    }
    if (met != search->used)
        return tide_err_set(err, "the tree of the search has %u children and says %u", met, search->used);
    return 0;
}

static int load(struct tide_search *search, const void *bytes, size_t count, struct tide_err *err)
{
    struct saved saved, ours = saved_of(search);
    if (count < sizeof saved)
        return tide_err_set(err, "the saved search has %zu bytes and needs %zu", count, sizeof saved);
    memcpy(&saved, bytes, sizeof saved);
    if (memcmp(&saved, &ours, offsetof(struct saved, root)) != 0)
        return tide_err_set(err, "the saved search is not one of %s on a board of %d x %d", search->game.name,
                            search->game.columns, search->game.rows);
    size_t needed = sizeof saved + (size_t)saved.used * sizeof(struct tide_child);
    if (count != needed)
        return tide_err_set(err, "the saved search has %zu bytes and needs %zu", count, needed);
    if (saved.used < 1 || saved.used > search->capacity)
        return tide_err_set(err, "the saved search has %u children, but there is room for only %u",
                            saved.used, search->capacity);
    if (!is_position(&search->game, &saved.root))
        return tide_err_set(err, "no game leads to the position of the saved search");
    tide_search_begin(search, &saved.root);
    struct tide_child *tree = tide_search_tree(search);
    memcpy(tree, (const char *)bytes + sizeof saved, saved.used * sizeof *tree);
    search->used = saved.used;
    search->full = saved.full;
    if (search->most[search->half] < search->used)
        search->most[search->half] = search->used;
    if (tree->out || tree->unused || !(fabsf(tree->sum) <= (float)tree->visits))
        return tide_err_set(err, "the tree of the search is damaged at its root");
    return verify(search, err);
}

int tide_search_load(struct tide_search *search, const void *bytes, size_t count, struct tide_err *err)
{
    if (load(search, bytes, count, err) == 0)
        return 0;
    struct tide_game game = search->game;
    struct tide_search_rule rule = search->rule;
    tide_search_place(&game, &rule, search->capacity, search);
    return -1;
}
