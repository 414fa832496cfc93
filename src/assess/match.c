#include "assess/match.h"
#include "base/map.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* One recording's groups. */
struct side {
    const struct tide_history *h;
    struct tide_match_group *groups;
    size_t count;
    struct tide_match_group **order; /* groups that are not matched yet, by chain and then by place */
    size_t order_count;
    int round; /* which frames of a stack count */
};

struct matching {
    struct tide_match found;
    struct side sides[2];
};

/* --- what a stack is called ---------------------------------------------------------------------------- */

static uint64_t add_text(uint64_t hash, const char *text)
{
    return tide_map_key(hash, text, strlen(text) + 1);
}

static uint64_t add_frame(uint64_t hash, const struct tide_frame *f)
{
    hash = add_text(hash, f->function);
    return add_text(hash, tide_text_last_part(f->file[0] ? f->file : f->module));
}

/* Returns where in its function a frame is: its line, else its address in the module. */
static int64_t place_of(const struct tide_frame *f)
{
    return f->line > 0 ? f->line : f->offset;
}

/* The frames of a stack that count in a round. */
struct walk {
    const struct tide_history *h;
    const int32_t *frames;
    size_t count, at;
    bool own_only, has_python;
};

static struct walk walk_begin(const struct tide_history *h, int64_t stack, int round)
{
    struct walk w = {.h = h, .own_only = round == 1};
    w.count = tide_history_stack(h, stack, &w.frames);
    for (size_t i = 0; i < w.count && !w.has_python; i++)
        w.has_python = h->frames[w.frames[i]].python;
    return w;
}

/* Returns the next frame, innermost first; NULL at the end. */
static const struct tide_frame *walk_next(struct walk *w)
{
    while (w->at < w->count) {
        const struct tide_frame *f = &w->h->frames[w->frames[w->at++]];
        bool own = w->has_python ? f->python : f->file[0] && f->function[0];
        if (own || !w->own_only)
            return f;
    }
    return NULL;
}

static void name_group(const struct tide_history *h, const struct tide_history_site *site,
                       struct tide_match_group *g)
{
    const struct tide_frame *f;
    int kind = (int)site->kind;
    uint64_t seed = tide_map_key(TIDE_MAP_SEED, &kind, sizeof kind);
    g->stack = site->stack;
    for (int round = 0; round < 2; round++) {
        struct walk w = walk_begin(h, site->stack, round);
        uint64_t chain = seed, exact = seed;
        size_t seen = 0;
        for (; (f = walk_next(&w)); seen++) {
            int64_t place = place_of(f);
            chain = add_frame(chain, f);
            exact = tide_map_key(add_frame(exact, f), &place, sizeof place);
        }
        g->chain[round] = round == 1 && seen == 0 ? 0 : chain;
        if (round == 0)
            g->exact = exact;
    }
}

/* --- groups of one recording --------------------------------------------------------------------------- */

static int compare_exact(const void *a, const void *b)
{
    const struct tide_match_group *left = a, *right = b;
    return (left->exact > right->exact) - (left->exact < right->exact);
}

static int by_exact(const void *a, const void *b)
{
    const struct tide_match_group *left = a, *right = b;
    int order = compare_exact(a, b);
    return order ? order : (left->sites > right->sites) - (left->sites < right->sites);
}

/* Makes every site a group of its own, then joins those with the same hash. */
static int make_groups(struct side *side, struct tide_arena *arena)
{
    const struct tide_history *h = side->h;
    size_t *sites = tide_arena_take(arena, h->site_count + 1, sizeof *sites);
    size_t *together = tide_arena_take(arena, h->site_count + 1, sizeof *together);
    side->groups = tide_arena_take(arena, h->site_count + 1, sizeof *side->groups);
    side->order = tide_arena_take(arena, h->site_count + 1, sizeof *side->order);
    if (!sites || !together || !side->groups || !side->order)
        return -1;
    size_t count = 0;
    for (size_t i = 0; i < h->site_count; i++) {
        if (h->sites[i].id == 0)
            continue;
        sites[count] = i;
        side->groups[count] = (struct tide_match_group){.sites = &sites[count], .count = 1};
        name_group(h, &h->sites[i], &side->groups[count++]);
    }
    qsort(side->groups, count, sizeof *side->groups, by_exact);
    for (size_t i = 0; i < count; i++) {
        struct tide_match_group *last = side->count ? &side->groups[side->count - 1] : NULL;
        together[i] = *side->groups[i].sites;
        if (last && last->exact == side->groups[i].exact) {
            last->count++;
            continue;
        }
        side->groups[side->count] = side->groups[i];
        side->groups[side->count++].sites = &together[i];
    }
    return 0;
}

/* --- the same in both ---------------------------------------------------------------------------------- */

/* Compares stacks by the places of their frames, outermost first. */
static int compare_places(const struct tide_history *h, int round, int64_t left, int64_t right)
{
    struct walk l = walk_begin(h, left, round), r = walk_begin(h, right, round);
    const struct tide_frame *a, *b;
    int order = 0;
    while ((a = walk_next(&l)) && (b = walk_next(&r)))
        if (place_of(a) != place_of(b))
            order = place_of(a) < place_of(b) ? -1 : 1; /* the outermost that differs comes last and wins */
    return order;
}

static int by_chain(const void *a, const void *b, void *context)
{
    const struct tide_match_group *left = *(struct tide_match_group *const *)a,
                                  *right = *(struct tide_match_group *const *)b;
    const struct side *side = context;
    if (left->chain[side->round] != right->chain[side->round])
        return left->chain[side->round] < right->chain[side->round] ? -1 : 1;
    int order = compare_places(side->h, side->round, left->stack, right->stack);
    return order ? order : by_exact(left, right);
}

static void put_in_order(struct side *side, int round)
{
    side->round = round;
    side->order_count = 0;
    for (size_t i = 0; i < side->count; i++)
        if (!side->groups[i].taken && side->groups[i].chain[round])
            side->order[side->order_count++] = &side->groups[i];
    qsort_r(side->order, side->order_count, sizeof *side->order, by_chain, side);
}

static void take(struct matching *m, struct tide_match_group *a, struct tide_match_group *b)
{
    if (a)
        a->taken = true;
    if (b)
        b->taken = true;
    m->found.pairs[m->found.count++] = (struct tide_match_pair){a, b};
}

/* True if the lines of one pair are shifted by as much as those of the other. */
static bool same_shift(const struct matching *m, struct tide_match_group *const one[2],
                       struct tide_match_group *const other[2])
{
    struct walk w[4];
    for (int i = 0; i < 2; i++) {
        w[i] = walk_begin(m->sides[i].h, one[i]->stack, m->sides[i].round);
        w[2 + i] = walk_begin(m->sides[i].h, other[i]->stack, m->sides[i].round);
    }
    for (;;) {
        const struct tide_frame *f[4];
        for (int i = 0; i < 4; i++)
            f[i] = walk_next(&w[i]);
        if (!f[0] || !f[1] || !f[2] || !f[3])
            return true;
        if (place_of(f[1]) - place_of(f[0]) != place_of(f[3]) - place_of(f[2]))
            return false;
    }
}

/* Matches groups with the same names: a_count of A and b_count of B, each in order of place. */
static void match_alike(struct matching *m, struct tide_match_group **a, size_t a_count,
                        struct tide_match_group **b, size_t b_count)
{
    bool moved_together = a_count == b_count;
    for (size_t i = 1; i < a_count && moved_together; i++)
        moved_together = same_shift(m, (struct tide_match_group *[2]){a[0], b[0]},
                                    (struct tide_match_group *[2]){a[i], b[i]});
    for (size_t i = 0; i < a_count && !moved_together; i++) {
        /* Groups are sorted by `exact`, which is unique. */
        struct tide_match_group *same =
            bsearch(a[i], m->sides[1].groups, m->sides[1].count, sizeof *same, compare_exact);
        if (same && !same->taken)
            take(m, a[i], same);
    }
    for (size_t i = 0, k = 0; i < a_count && k < b_count;) {
        if (a[i]->taken)
            i++;
        else if (b[k]->taken)
            k++;
        else
            take(m, a[i++], b[k++]);
    }
}

static size_t run_length(const struct side *side, size_t from, int round)
{
    size_t to = from;
    while (to < side->order_count && side->order[to]->chain[round] == side->order[from]->chain[round])
        to++;
    return to - from;
}

static void match_round(struct matching *m, int round)
{
    struct side *a = &m->sides[0], *b = &m->sides[1];
    put_in_order(a, round);
    put_in_order(b, round);
    for (size_t i = 0, k = 0; i < a->order_count && k < b->order_count;) {
        uint64_t left = a->order[i]->chain[round], right = b->order[k]->chain[round];
        if (left < right) {
            i++;
            continue;
        }
        if (left > right) {
            k++;
            continue;
        }
        size_t a_run = run_length(a, i, round), b_run = run_length(b, k, round);
        match_alike(m, a->order + i, a_run, b->order + k, b_run);
        i += a_run;
        k += b_run;
    }
}

int tide_match_sites(const struct tide_history *a, const struct tide_history *b, struct tide_arena *arena,
                     struct tide_match *ret_match, struct tide_err *err)
{
    struct matching m = {.sides = {{.h = a}, {.h = b}}};
    size_t sites = a->site_count + b->site_count;
    m.found.pairs = tide_arena_take(arena, sites + 1, sizeof *m.found.pairs);
    if (!m.found.pairs || make_groups(&m.sides[0], arena) || make_groups(&m.sides[1], arena))
        return tide_err_set(err, "not enough memory to compare %zu call sites", sites);
    match_round(&m, 0);
    match_round(&m, 1);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < m.sides[side].count; i++) {
            struct tide_match_group *left = &m.sides[side].groups[i];
            if (!left->taken)
                take(&m, side ? NULL : left, side ? left : NULL);
        }
    *ret_match = m.found;
    return 0;
}
