#include "rt/occupied.h"
#include "base/check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct stretch {
    size_t from, to; /* to: the first byte after it */
};

/* Sorted; no two are adjacent. */
struct set {
    struct stretch *stretches;
    int count, capacity;
};

struct node {
    struct set sometime, always;
};

enum { MOST_ASKED = 128 }; /* two sets a level, on both sides of a lifetime */

struct tide_occupied {
    int instructions;
    struct node *nodes; /* the root is 1, the children of n are 2 n and 2 n + 1 */
    size_t node_count;
    uint64_t looks;
};

struct tide_occupied *tide_occupied_new(int instructions)
{
    struct tide_occupied *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->instructions = instructions > 0 ? instructions : 1;
    o->node_count = 4 * (size_t)o->instructions;
    o->nodes = calloc(o->node_count, sizeof *o->nodes);
    if (o->nodes)
        return o;
    free(o);
    return NULL;
}

void tide_occupied_clear(struct tide_occupied *o)
{
    for (size_t i = 0; i < o->node_count; i++)
        o->nodes[i].sometime.count = o->nodes[i].always.count = 0;
}

void tide_occupied_free(struct tide_occupied *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->node_count; i++) {
        free(o->nodes[i].sometime.stretches);
        free(o->nodes[i].always.stretches);
    }
    free(o->nodes);
    free(o);
}

uint64_t tide_occupied_looks(const struct tide_occupied *o)
{
    return o->looks;
}

/* ---- sets */

/* Returns the index of the first range that ends at `at` or later; count if there is none. */
static int find(const struct set *set, size_t at)
{
    int from = 0, to = set->count;
    while (from < to) {
        int middle = from + (to - from) / 2;
        if (set->stretches[middle].to < at)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Makes room for one more. Most sets stay small, and there are many. */
static int grow(struct set *set)
{
    int more = set->capacity ? 2 * set->capacity : 2;
    if (set->count < set->capacity)
        return 0;
    struct stretch *moved = realloc(set->stretches, (size_t)more * sizeof *moved);
    if (!moved)
        return -1;
    set->stretches = moved;
    set->capacity = more;
    return 0;
}

static int add(struct set *set, struct stretch new)
{
    int first = find(set, new.from), after = first;
    for (; after < set->count && set->stretches[after].from <= new.to; after++) {
        const struct stretch *old = &set->stretches[after];
        new.from = old->from < new.from ? old->from : new.from;
        new.to = old->to > new.to ? old->to : new.to;
    }
    if (grow(set))
        return -1;
    memmove(set->stretches + first + 1, set->stretches + after,
            (size_t)(set->count - after) * sizeof *set->stretches);
    set->count += first + 1 - after;
    set->stretches[first] = new;
    return 0;
}

/* Returns the lowest offset >= at with that many bytes free in this set. */
static size_t lowest_in(struct tide_occupied *o, const struct set *set, size_t at, size_t bytes)
{
    for (int i = find(set, at + 1); i < set->count && set->stretches[i].from < at + bytes; i++) {
        at = set->stretches[i].to;
        o->looks++;
    }
    o->looks++;
    return at;
}

/* ---- the tree */

/* A node with its range of instructions, both ends included. */
struct place {
    size_t node;
    int first, last;
};

static bool is_within(struct place p, int first, int last)
{
    return first <= p.first && p.last <= last;
}

static bool meets(struct place p, int first, int last)
{
    return first <= p.last && p.first <= last;
}

static struct place left_of(struct place p)
{
    return (struct place){2 * p.node, p.first, p.first + (p.last - p.first) / 2};
}

static struct place right_of(struct place p)
{
    return (struct place){2 * p.node + 1, p.first + (p.last - p.first) / 2 + 1, p.last};
}

static struct place root_of(const struct tide_occupied *o)
{
    return (struct place){1, 0, o->instructions - 1};
}

/* Appends to `asked` the sets that together hold all bytes taken at any time of the lifetime. Returns the new
 * count. */
static int gather(const struct tide_occupied *o, struct place p, int first, int last,
                  const struct set *asked[static MOST_ASKED], int count)
{
    const struct node *node = &o->nodes[p.node];
    if (!meets(p, first, last) || !node->sometime.count)
        return count;
    TIDE_CHECK(count, <, MOST_ASKED);
    if (is_within(p, first, last)) {
        asked[count] = &node->sometime;
        return count + 1;
    }
    if (node->always.count)
        asked[count++] = &node->always;
    count = gather(o, left_of(p), first, last, asked, count);
    return gather(o, right_of(p), first, last, asked, count);
}

size_t tide_occupied_lowest(struct tide_occupied *o, int first, int last, size_t bytes)
{
    const struct set *asked[MOST_ASKED];
    int count = gather(o, root_of(o), first, last, asked, 0);
    size_t at = 0;
    for (int i = 0, agreed = 0; agreed < count; i = (i + 1) % count) {
        size_t higher = lowest_in(o, asked[i], at, bytes);
        agreed = higher == at ? agreed + 1 : 1;
        at = higher;
    }
    return at;
}

static int take(struct tide_occupied *o, struct place p, int first, int last, struct stretch taken)
{
    struct node *node = &o->nodes[p.node];
    if (!meets(p, first, last))
        return 0;
    if (add(&node->sometime, taken))
        return -1;
    if (is_within(p, first, last))
        return add(&node->always, taken);
    return take(o, left_of(p), first, last, taken) || take(o, right_of(p), first, last, taken) ? -1 : 0;
}

int tide_occupied_take(struct tide_occupied *o, int first, int last, size_t at, size_t bytes)
{
    TIDE_CHECK(first, >=, 0);
    TIDE_CHECK(last, <, o->instructions);
    return bytes ? take(o, root_of(o), first, last, (struct stretch){at, at + bytes}) : 0;
}
