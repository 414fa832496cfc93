#include "train/selfgames.h"
#include "base/units.h"
#include "game/cache.h"
#include "game/opening.h"
#include "rt/cpu/threads.h"
#include "rt/dtype.h"

#include <string.h>

struct slot {
    struct tide_position position;
    int64_t number;               /* of its game, from 0; -1: no game is left */
    struct tide_search *trees[2]; /* in a match, one for each evaluator; else only the first */
    uint8_t *records;             /* of its positions so far; NULL: none are kept */
    int opened;                   /* the first of them to learn from */
    bool asks;                    /* its leaf needs an evaluation */
    bool rests;                   /* it stands after a move and makes no other in this call */
    bool ended;                   /* its game has ended and must be counted */
    bool noisy;                   /* this root has its noise */
    int64_t simulations, moves, asked, found;
    struct tide_leaf leaf;
};

struct tide_selfgames {
    struct tide_game game;
    struct tide_selfgames_rule rule;
    struct tide_cache *cache;
    int64_t next;       /* number of the next game */
    struct slot *slots; /* for self-play: rule.games */
    struct slot *pairs; /* for matches: each with two of the trees */
    /* Of the current batch. */
    int32_t *asking; /* slots */
    struct tide_position *positions;
    float *logits, *values;
    uint16_t *priors;
};

/* What a call plays. */
struct play {
    struct tide_selfgames *g;
    struct slot *slots;
    int64_t count;
    struct tide_cache *cache; /* of the evaluator; NULL in a match */
    uint64_t seed;
    bool is_match, stops; /* stops: each game makes at most one more move */
    int which;            /* in a match: the evaluator of this batch */
    int64_t asking;
    int64_t evaluations;
};

/* ---- memory */

static int64_t trees_of(const struct tide_selfgames_rule *rule)
{
    return rule->games < 2 ? 2 : rule->games;
}

/* Places the struct and its arrays in `memory`; NULL: only returns their size. */
static size_t place(const struct tide_game *game, const struct tide_selfgames_rule *rule, char *memory)
{
    size_t games = (size_t)rule->games, moves = (size_t)game->moves, at = 0;
    struct tide_selfgames none = {.slots = NULL}, *g = tide_part(memory, &at, sizeof none);
    g = g ? g : &none;
    g->slots = tide_part(memory, &at, games * sizeof *g->slots);
    g->pairs = tide_part(memory, &at, (size_t)(trees_of(rule) / 2) * sizeof *g->pairs);
    g->asking = tide_part(memory, &at, games * sizeof *g->asking);
    g->positions = tide_part(memory, &at, games * sizeof *g->positions);
    g->logits = tide_part(memory, &at, games * moves * sizeof *g->logits);
    g->values = tide_part(memory, &at, games * sizeof *g->values);
    g->priors = tide_part(memory, &at, games * moves * sizeof *g->priors);
    return at;
}

struct tide_selfgames_room tide_selfgames_room(const struct tide_game *game,
                                               const struct tide_selfgames_rule *rule)
{
    return (struct tide_selfgames_room){
        .trees = (size_t)trees_of(rule) * tide_aligned(tide_search_bytes(game, rule->children)),
        .records = tide_aligned((size_t)rule->games * (size_t)game->cells * tide_replay_record_bytes(game)),
        .cache = rule->cache_bytes,
        .games = place(game, rule, NULL),
    };
}

/* Draws the opening of a self-play game; 0: it begins with an empty board. */
static int opening_of(const struct tide_selfgames *g, int64_t number, uint16_t ret_moves[TIDE_OPENING_MOVES])
{
    enum { WHETHER = -1, WHICH = -2 }; /* never move numbers */
    struct tide_position position;
    if (tide_random_unit(g->rule.seed, (uint64_t)number, (uint64_t)WHETHER) >= g->rule.openings)
        return 0;
    return tide_opening_draw(&g->game, g->rule.seed, (uint64_t)number, (uint64_t)WHICH, ret_moves, &position);
}

/* The moves of an opening are records too, so that the records of a game are all its moves. */
static void begin_game(struct tide_selfgames *g, struct slot *s)
{
    uint16_t moves[TIDE_OPENING_MOVES];
    s->number = g->next++;
    s->opened = opening_of(g, s->number, moves);
    tide_position_begin(&g->game, &s->position);
    for (int i = 0; i < s->opened; i++) {
        uint32_t visits[TIDE_BOARD_CELLS] = {0};
        visits[moves[i]] = 1;
        tide_replay_pack(&g->game, &s->position, visits,
                         s->records + (size_t)i * tide_replay_record_bytes(&g->game));
        tide_position_play(&g->game, &s->position, moves[i]);
    }
}

struct tide_selfgames *tide_selfgames_place(const struct tide_game *game,
                                            const struct tide_selfgames_rule *rule,
                                            const struct tide_selfgames_room *room, void *trees,
                                            void *records, void *cache, void *games)
{
    size_t tree = tide_aligned(tide_search_bytes(game, rule->children));
    struct tide_selfgames *g = games;
    *g = (struct tide_selfgames){.game = *game, .rule = *rule};
    place(game, rule, games);
    g->cache = room->cache ? tide_cache_place(game, cache, room->cache) : NULL;
    for (int64_t i = 0; i < trees_of(rule); i++) {
        struct tide_search *search =
            tide_search_place(game, &rule->search, rule->children, (char *)trees + (size_t)i * tree);
        g->pairs[i / 2].trees[i % 2] = search;
        if (i < rule->games)
            g->slots[i].trees[0] = search;
    }
    for (int64_t i = 0; i < rule->games; i++) {
        g->slots[i].records =
            (uint8_t *)records + (size_t)i * (size_t)game->cells * tide_replay_record_bytes(game);
        begin_game(g, &g->slots[i]);
    }
    return g;
}

/* ---- a game */

/* In a match, the first evaluator moves first in games of even number. */
static int side_at(const struct play *p, const struct slot *s, int plies)
{
    return p->is_match ? (int)((s->number + plies) & 1) : 0;
}

static int side_of(const struct play *p, const struct slot *s)
{
    return side_at(p, s, s->position.plies);
}

static void make_move(const struct play *p, struct slot *s)
{
    struct tide_selfgames *g = p->g;
    struct tide_search *tree = s->trees[side_of(p, s)];
    uint32_t visits[TIDE_BOARD_CELLS];
    int plies = s->position.plies;
    struct tide_random random = {.seed = tide_random_at(p->seed, (uint64_t)s->number, 2 * (uint64_t)plies)};
    bool drawn = !p->is_match && plies < g->rule.sampled_plies;
    int move = tide_search_choose(tree, drawn ? 1 : 0, &random);
    if (s->records) {
        tide_search_visits(tree, visits);
        tide_replay_pack(&g->game, &s->position, visits,
                         s->records + (size_t)plies * tide_replay_record_bytes(&g->game));
    }
    tide_position_play(&g->game, &s->position, move);
    s->moves++;
    s->noisy = false;
    s->rests = p->stops;
    s->ended = s->position.outcome != TIDE_PLAYING;
    for (int i = 0; !s->ended && i < (p->is_match ? 2 : 1); i++)
        tide_search_advance(s->trees[i], move);
}

/* True if the cache had the leaf's evaluation. */
static bool is_known(const struct play *p, struct slot *s, struct tide_search *tree)
{
    const struct tide_selfgames *g = p->g;
    float value;
    if (!p->cache)
        return false;
    s->asked++;
    const uint16_t *priors = tide_cache_find(p->cache, tide_cache_key(&g->game, &s->leaf.position), &value);
    if (!priors)
        return false;
    s->found++;
    tide_search_give_priors(tree, &s->leaf, priors, value);
    return true;
}

/* Searches until a position needs an evaluation, or the game rests or ends. */
static void think(const struct play *p, struct slot *s)
{
    while (s->number >= 0 && !s->rests && !s->ended) {
        struct tide_search *tree = s->trees[side_of(p, s)];
        if (!p->is_match && !s->noisy && tide_search_is_expanded(tree)) {
            struct tide_random random = {
                .seed = tide_random_at(p->seed, (uint64_t)s->number, 2 * (uint64_t)s->position.plies + 1)};
            tide_search_noise(tree, &random);
            s->noisy = true;
        }
        if (tide_search_count(tree).visits >= p->g->rule.simulations) {
            make_move(p, s);
            continue;
        }
        s->simulations++;
        if (tide_search_descend(tree, &s->leaf) == TIDE_NEEDS_EVALUATION && !is_known(p, s, tree)) {
            s->asks = true;
            return;
        }
    }
}

static void think_some(void *context, int64_t first, int64_t last)
{
    const struct play *p = context;
    for (int64_t i = first; i < last; i++)
        think(p, &p->slots[i]);
}

/* ---- a batch */

static void gather(struct play *p)
{
    p->asking = 0;
    for (int64_t i = 0; i < p->count; i++) {
        const struct slot *s = &p->slots[i];
        if (!s->asks || side_of(p, s) != p->which)
            continue;
        p->g->asking[p->asking] = (int32_t)i;
        p->g->positions[p->asking++] = s->leaf.position;
    }
}

static void answer_some(void *context, int64_t first, int64_t last)
{
    const struct play *p = context;
    const struct tide_selfgames *g = p->g;
    for (int64_t i = first; i < last; i++) {
        struct slot *s = &p->slots[g->asking[i]];
        uint16_t *priors = g->priors + i * g->game.moves;
        tide_search_priors(&g->game, &s->leaf.position, g->logits + i * g->game.moves, priors);
        tide_search_give_priors(s->trees[p->which], &s->leaf, priors, g->values[i]);
        s->asks = false;
    }
}

/* Evaluates the positions for an evaluator and gives out the results. */
static int answer(struct play *p, const struct tide_evaluator *evaluator)
{
    struct tide_selfgames *g = p->g;
    gather(p);
    if (!p->asking)
        return 0;
    if (evaluator->evaluate(evaluator->context, g->positions, (int)p->asking, g->logits, g->values))
        return -1;
    tide_parallel(p->asking, 4, answer_some, p);
    for (int64_t i = 0; p->cache && i < p->asking; i++)
        tide_cache_put(p->cache, tide_cache_key(&g->game, &g->positions[i]), g->priors + i * g->game.moves,
                       g->values[i]);
    p->evaluations += p->asking;
    return 0;
}

/* Clears what was computed with earlier weights. */
static void forget(const struct play *p)
{
    if (p->cache)
        tide_cache_clear(p->cache);
    for (int64_t i = 0; i < p->count; i++) {
        struct slot *s = &p->slots[i];
        tide_search_begin(s->trees[0], &s->position);
        s->asks = s->rests = s->ended = s->noisy = false;
        s->simulations = s->moves = s->asked = s->found = 0;
    }
}

/* ---- self-play */

static void count_game(const struct tide_position *end, struct tide_selfgames_counts *counts)
{
    counts->games++;
    counts->draws += end->outcome == TIDE_DRAWN;
    counts->first_wins += end->outcome == TIDE_WON && end->plies % 2 == 1;
}

/* Puts the game's positions into the replay, with their results. */
static void keep_game(struct tide_selfgames *g, struct slot *s, struct tide_replay *replay)
{
    const struct tide_position *end = &s->position;
    for (int ply = s->opened; ply < end->plies; ply++) {
        uint8_t *record = s->records + (size_t)ply * replay->record;
        bool won = (end->plies - ply) % 2 == 1; /* whoever moved last has won */
        tide_replay_settle(&g->game, record, end->outcome == TIDE_DRAWN ? 0 : won ? 1 : -1);
        tide_replay_put(replay, record);
    }
}

static void sum_up(const struct play *p, struct tide_selfgames_counts *counts)
{
    counts->evaluations = p->evaluations;
    for (int64_t i = 0; i < p->count; i++) {
        const struct slot *s = &p->slots[i];
        struct tide_search_counts tree = tide_search_count(s->trees[0]);
        counts->moves += s->moves;
        counts->simulations += s->simulations;
        counts->asked += s->asked;
        counts->found += s->found;
        counts->full += (int64_t)tree.full;
        counts->trees_high_water += tree.high_water;
    }
}

/* True if any game has yet to make its last move. */
static bool goes_on(const struct play *p)
{
    for (int64_t i = 0; i < p->count; i++)
        if (p->slots[i].number >= 0 && !p->slots[i].rests)
            return true;
    return false;
}

int tide_selfgames_play(struct tide_selfgames *g, const struct tide_evaluator *evaluator,
                        struct tide_replay *replay, int64_t until, bool (*hurries)(void),
                        struct tide_selfgames_counts *ret_counts)
{
    struct play p = {
        .g = g, .slots = g->slots, .count = g->rule.games, .cache = g->cache, .seed = g->rule.seed};
    *ret_counts = (struct tide_selfgames_counts){0};
    forget(&p);
    do {
        tide_parallel(p.count, 1, think_some, &p);
        for (int64_t i = 0; i < p.count; i++) {
            struct slot *s = &p.slots[i];
            if (!s->ended)
                continue;
            count_game(&s->position, ret_counts);
            keep_game(g, s, replay);
            begin_game(g, s);
            tide_search_begin(s->trees[0], &s->position);
            s->ended = false;
        }
        p.stops |= replay->put >= until || (hurries && hurries());
        for (int64_t i = 0; p.stops && i < p.count; i++)
            p.slots[i].rests |= p.slots[i].position.plies == p.slots[i].opened;
        if (answer(&p, evaluator))
            return -1;
    } while (goes_on(&p));
    sum_up(&p, ret_counts);
    return 0;
}

/* ---- matches */

/* Both games of a pair get the same opening, whenever they begin. */
static int open_game(const struct play *p, const struct tide_evaluator *const evaluators[2], struct slot *s,
                     int64_t number)
{
    const struct tide_selfgames *g = p->g;
    struct tide_opening_room room = {
        .positions = g->positions, .logits = g->logits, .values = g->values, .most = g->rule.games};
    if (tide_opening_choose(&g->game, evaluators, p->seed, (uint64_t)number / 2, &room, &s->position))
        return -1;
    s->number = number;
    for (int i = 0; i < 2; i++)
        tide_search_begin(s->trees[i], &s->position);
    return 0;
}

/* Whoever moved last has won, unless it is a draw. */
static void count_match(const struct play *p, const struct slot *s, struct tide_selfgames_score *score)
{
    if (s->position.outcome == TIDE_DRAWN)
        score->draws++;
    else if (side_at(p, s, s->position.plies - 1) == 0)
        score->wins++;
    else
        score->losses++;
}

int tide_selfgames_match(struct tide_selfgames *g, const struct tide_evaluator *const evaluators[2],
                         int64_t pairs, uint64_t seed, bool (*hurries)(void),
                         struct tide_selfgames_score *ret_score)
{
    struct play p = {
        .g = g, .slots = g->pairs, .count = trees_of(&g->rule) / 2, .seed = seed, .is_match = true};
    int64_t next = 0, total = 2 * pairs;
    *ret_score = (struct tide_selfgames_score){0};
    for (int64_t i = 0; i < p.count; i++) {
        tide_position_begin(&g->game, &p.slots[i].position);
        p.slots[i].number = -1;
    }
    forget(&p);
    do {
        for (int64_t i = 0; i < p.count; i++) {
            if (hurries && hurries())
                return 1;
            if (p.slots[i].number < 0 && next < total && open_game(&p, evaluators, &p.slots[i], next++))
                return -1;
        }
        tide_parallel(p.count, 1, think_some, &p);
        for (int64_t i = 0; i < p.count; i++) {
            struct slot *s = &p.slots[i];
            if (!s->ended)
                continue;
            count_match(&p, s, ret_score);
            s->ended = false;
            s->number = -1;
        }
        for (p.which = 0; p.which < 2; p.which++)
            if (answer(&p, evaluators[p.which]))
                return -1;
    } while (next < total || goes_on(&p));
    return 0;
}

/* ---- looking */

/* A record knows the last stone. */
void tide_selfgames_show(const struct tide_selfgames *g, char *out, size_t size)
{
    const struct slot *s = &g->slots[0];
    struct tide_position position;
    size_t used = 0;
    out[0] = '\0';
    for (int ply = 1; ply <= s->position.plies; ply++) {
        char name[TIDE_MOVE_NAME];
        position = s->position;
        if (ply < s->position.plies)
            tide_position_unpack(&g->game, s->records + (size_t)ply * tide_replay_record_bytes(&g->game),
                                 &position, NULL);
        int move = g->game.drops ? position.last % g->game.columns : position.last;
        int len =
            snprintf(out + used, size - used, "%s%s", used ? " " : "", tide_move_name(&g->game, move, name));
        if (len < 0 || (size_t)len >= size - used)
            break;
        used += (size_t)len;
    }
}

/* ---- files */

void tide_selfgames_write(const struct tide_selfgames *g, struct tide_durable *file)
{
    size_t record = tide_replay_record_bytes(&g->game);
    tide_durable_put(file, &g->next, sizeof g->next);
    for (int64_t i = 0; i < g->rule.games; i++) {
        const struct slot *s = &g->slots[i];
        int64_t head[2] = {s->number, s->position.plies};
        uint8_t packed[TIDE_BOARD_CELLS];
        tide_position_pack(&g->game, &s->position, packed);
        tide_durable_put(file, head, sizeof head);
        tide_durable_put(file, packed, tide_position_packed_bytes(&g->game));
        tide_durable_put(file, s->records, (size_t)s->position.plies * record);
    }
}

static int read_game(struct tide_selfgames *g, struct slot *s, FILE *file, struct tide_err *err)
{
    size_t record = tide_replay_record_bytes(&g->game);
    int64_t head[2];
    uint8_t packed[TIDE_BOARD_CELLS];
    uint16_t moves[TIDE_OPENING_MOVES];
    if (fread(head, sizeof head, 1, file) != 1 ||
        fread(packed, tide_position_packed_bytes(&g->game), 1, file) != 1)
        return tide_err_set(err, "the saved games are cut off");
    if (tide_position_unpack(&g->game, packed, &s->position, err))
        return -1;
    if (head[0] < 0 || head[0] >= g->next || head[1] != s->position.plies ||
        s->position.outcome != TIDE_PLAYING)
        return tide_err_set(err, "a saved game is not possible");
    s->number = head[0];
    s->opened = opening_of(g, s->number, moves);
    if (fread(s->records, record, (size_t)head[1], file) != (size_t)head[1])
        return tide_err_set(err, "the saved games are cut off");
    for (int64_t i = 0; i < head[1]; i++)
        if (tide_replay_check(&g->game, s->records + (size_t)i * record, err))
            return -1;
    return 0;
}

int tide_selfgames_read(struct tide_selfgames *g, FILE *file, struct tide_err *err)
{
    if (fread(&g->next, sizeof g->next, 1, file) != 1)
        return tide_err_set(err, "the saved games are cut off");
    if (g->next < 0 || g->next > TIDE_LARGEST)
        return tide_err_set(err, "the saved games have an impossible number");
    for (int64_t i = 0; i < g->rule.games; i++)
        if (read_game(g, &g->slots[i], file, err))
            return -1;
    return 0;
}
