#include "play/player.h"
#include "base/clock.h"
#include "base/resident.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    RESERVE_BYTES = 2 << 20, /* for what else a process touches: stacks, code, buffers */
    CACHE_SHARE = 8,         /* the cache gets one part in this many */
    LEAST_A_LOOK = 16,       /* simulations between two looks at the clock */
    WARM_UPS = 3,            /* batches; the first also pays for lazy initialisation */
    LEAST_POSITIONS = 64,    /* positions whose children must fit into a tree */
};

static const struct tide_search_rule rule = {.exploration = 1.8f, .first_play = 0.2f, .forced = true};

/* ---- memory */

void tide_player_release(struct tide_player *p)
{
    if (p->memory)
        munmap(p->memory, (size_t)p->bytes);
    p->memory = p->workspace = NULL;
    p->search = NULL;
    p->cache = NULL;
    p->bytes = 0;
}

/* Without /proc, returns the peak RSS. */
static int64_t resident_bytes(void)
{
    struct rusage usage = {0};
    int64_t bytes = tide_resident_now().bytes;
    if (bytes >= 0)
        return bytes;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * INT64_C(1024);
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Returns the most children whose tree takes at most that many bytes. */
static int64_t children_in(const struct tide_game *game, size_t bytes)
{
    int64_t least = game->moves + 1, most = UINT32_MAX - 1;
    while (least < most) {
        int64_t middle = least + (most - least + 1) / 2;
        if (tide_search_bytes(game, middle) <= bytes)
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

static int lay_out(struct tide_player *p, struct tide_err *err)
{
    int64_t bytes = p->allowed;
    size_t workspace = round_up(tide_search_workspace_bytes(&p->game, p->evaluator.most));
    size_t needed = workspace + tide_search_bytes(&p->game, (int64_t)LEAST_POSITIONS * p->game.moves);
    if (bytes < (int64_t)needed)
        return tide_err_set(err, "%" PRId64 " more bytes are needed for the search", (int64_t)needed - bytes);
    p->memory =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p->memory == MAP_FAILED) {
        p->memory = NULL;
        return tide_err_set(err, "out of memory: the search cannot have %" PRId64 " bytes", bytes);
    }
    p->bytes = bytes;
    p->workspace = p->memory;
    size_t left = (size_t)bytes - workspace;
    size_t cache = p->caches && left / CACHE_SHARE + needed <= left ? round_up(left / CACHE_SHARE) : 0;
    int64_t children = children_in(&p->game, left - cache);
    char *tree = (char *)p->memory + workspace;
    p->search = tide_search_place(&p->game, &rule, children, tree);
    char *behind = tree + round_up(tide_search_bytes(&p->game, children));
    if (cache)
        p->cache = tide_cache_place(&p->game, behind, (size_t)((char *)p->memory + bytes - behind));
    return 0;
}

int tide_player_limit(struct tide_player *player, int64_t process_bytes, struct tide_err *err)
{
    tide_player_release(player);
    int64_t taken = resident_bytes() + RESERVE_BYTES;
    int64_t page = sysconf(_SC_PAGESIZE), there = sysconf(_SC_PHYS_PAGES) * page;
    if (process_bytes > there)
        process_bytes = there; /* a limit above the machine's memory could not be mapped */
    int64_t left = process_bytes > taken ? process_bytes - taken : 0;
    player->allowed = process_bytes > 0 ? left / page * page : TIDE_PLAYER_BYTES;
    if (!lay_out(player, err))
        return 0;
    if (process_bytes <= 0)
        return -1;
    char text[sizeof err->text];
    snprintf(text, sizeof text, "%s", err->text);
    return tide_err_set(err, "%" PRId64 " bytes of memory are too few: %" PRId64 " are in use, and %s",
                        process_bytes, taken, text);
}

/* ---- without a net */

/* Logits for what random games alone take long to see. */
static const float completes = 6, stops = 5, is_far = -6;

/* Finds cells at most two from a stone; on an empty board, the middle one. */
static void find_near(const struct tide_game *game, const struct tide_position *position, bool *ret_near)
{
    enum { REACH = 2 };
    memset(ret_near, 0, (size_t)game->cells * sizeof *ret_near);
    if (!position->plies)
        ret_near[game->rows / 2 * game->columns + game->columns / 2] = true;
    for (int cell = 0; cell < game->cells; cell++) {
        if (!tide_cell_in(position->stones[0], cell) && !tide_cell_in(position->stones[1], cell))
            continue;
        int x = cell % game->columns, y = cell / game->columns;
        for (int row = y < REACH ? 0 : y - REACH; row <= y + REACH && row < game->rows; row++)
            for (int column = x < REACH ? 0 : x - REACH; column <= x + REACH && column < game->columns;
                 column++)
                ret_near[row * game->columns + column] = true;
    }
}

/* Moves that complete a line or stop one come first; then, if stones do not fall, those near others. */
static void guess(const struct tide_game *game, const struct tide_position *position, float *ret_logits)
{
    uint64_t own[TIDE_BOARD_WORDS], other[TIDE_BOARD_WORDS];
    bool near[TIDE_BOARD_CELLS];
    int side = position->plies & 1;
    tide_position_completing(game, position, side, own);
    tide_position_completing(game, position, !side, other);
    find_near(game, position, near);
    for (int move = 0; move < game->moves; move++) {
        ret_logits[move] = 0;
        if (!tide_position_may(game, position, move))
            continue;
        int cell = tide_position_cell(game, position, move);
        ret_logits[move] = tide_cell_in(own, cell)       ? completes
                           : tide_cell_in(other, cell)   ? stops
                           : !game->drops && !near[cell] ? is_far
                                                         : 0;
    }
}

static int value_by_rollouts(void *context, const struct tide_position *positions, int count, float *logits,
                             float *values)
{
    struct tide_rollouts *rollouts = context;
    for (int i = 0; i < count; i++) {
        guess(rollouts->game, &positions[i], logits + (size_t)i * (size_t)rollouts->game->moves);
        values[i] = (float)tide_rollout(rollouts->game, &positions[i], &rollouts->random);
    }
    return 0;
}

/* ---- life */

/* Evaluates full batches and keeps the shortest time of one. */
static int warm_up(struct tide_player *p, struct tide_err *err)
{
    size_t most = (size_t)p->evaluator.most;
    struct tide_position *positions = calloc(most, sizeof *positions);
    float *logits = calloc(most * (size_t)p->game.moves + most, sizeof *logits);
    int bad = !positions || !logits ? tide_err_set(err, "out of memory") : 0;
    for (size_t i = 0; i < most && !bad; i++)
        tide_position_begin(&p->game, &positions[i]);
    for (int i = 0; i < WARM_UPS && !bad; i++) {
        int64_t began_ns = tide_clock_ns();
        if (p->evaluator.evaluate(p->evaluator.context, positions, (int)most, logits,
                                  logits + most * (size_t)p->game.moves))
            bad = tide_err_set(err, "the net's values are not numbers");
        int64_t took_ns = tide_clock_ns() - began_ns;
        p->batch_ns = i < 2 || took_ns < p->batch_ns ? took_ns : p->batch_ns;
    }
    free(positions);
    free(logits);
    return bad;
}

int tide_player_init(struct tide_player *player, const struct tide_game *game,
                     const struct tide_evaluator *evaluator, struct tide_err *err)
{
    *player = (struct tide_player){
        .game = *game, .evaluator = *evaluator, .caches = true, .allowed = TIDE_PLAYER_BYTES};
    return warm_up(player, err);
}

int tide_player_init_rollouts(struct tide_player *player, const struct tide_game *game, uint64_t seed,
                              struct tide_err *err)
{
    *player = (struct tide_player){.game = *game, .allowed = TIDE_PLAYER_BYTES};
    player->rollouts = (struct tide_rollouts){.game = &player->game, .random.seed = seed};
    player->evaluator =
        (struct tide_evaluator){.most = 1, .evaluate = value_by_rollouts, .context = &player->rollouts};
    return warm_up(player, err);
}

/* ---- positions */

/* Finds the moves between two positions: `after` must have the stones of `before` and up to two more. Returns
 * how many, in the order in which they were played; -1: not so. */
static int moves_between(const struct tide_game *game, const struct tide_position *before,
                         const struct tide_position *after, int ret_moves[2])
{
    int count = after->plies - before->plies;
    if (count < 0 || count > 2)
        return -1;
    for (int i = 0; i < 2; i++) {
        int side = (before->plies + i) & 1, found = 0;
        for (int cell = 0; cell < game->cells; cell++) {
            bool was = tide_cell_in(before->stones[side], cell), is = tide_cell_in(after->stones[side], cell);
            if (was && !is)
                return -1;
            if (is && !was) {
                ret_moves[i] = game->drops ? cell % game->columns : cell;
                found++;
            }
        }
        if (found != (i < count))
            return -1;
    }
    return count;
}

static bool follow(struct tide_player *p, const struct tide_position *position)
{
    int moves[2];
    int count = moves_between(&p->game, tide_search_root(p->search), position, moves);
    for (int i = 0; i < count; i++) {
        if (!tide_position_may(&p->game, tide_search_root(p->search), moves[i]))
            return false;
        tide_search_advance(p->search, moves[i]);
    }
    return count >= 0 && tide_search_root(p->search)->last == position->last;
}

int tide_player_set(struct tide_player *player, const struct tide_game *game,
                    const struct tide_position *position, struct tide_err *err)
{
    bool same = player->game.cells == game->cells && player->game.exact == game->exact &&
                player->game.columns == game->columns && player->game.line == game->line;
    if (!same || !player->memory) {
        tide_player_release(player);
        player->game = *game;
        if (lay_out(player, err))
            return -1;
    }
    if (!follow(player, position))
        tide_search_begin(player->search, position);
    return 0;
}

/* ---- thinking */

static bool is_enough(const struct tide_player *p, const struct tide_turn *turn, int64_t now_ns)
{
    return (turn->simulations && turn->done >= turn->simulations) ||
           (turn->deadline_ns && now_ns >= turn->deadline_ns) ||
           tide_position_choices(&p->game, tide_search_root(p->search)) == 1;
}

int tide_player_step(struct tide_player *player, struct tide_turn *turn, int64_t slice_ns,
                     struct tide_err *err)
{
    int64_t until_ns = tide_clock_ns() + slice_ns, now_ns;
    do {
        int64_t count = player->evaluator.most > LEAST_A_LOOK ? player->evaluator.most : LEAST_A_LOOK;
        if (turn->simulations && turn->simulations - turn->done < count)
            count = turn->simulations - turn->done > 0 ? turn->simulations - turn->done : 1;
        if (tide_search_run(player->search, &player->evaluator, player->cache, count, turn->deadline_ns,
                            player->workspace))
            return tide_err_set(err, "the net's values are not numbers");
        turn->done += count;
        now_ns = tide_clock_ns();
        if (is_enough(player, turn, now_ns))
            return 1;
    } while (now_ns < until_ns);
    return 0;
}

int tide_player_best(const struct tide_player *player)
{
    struct tide_random none = {0};
    return tide_search_choose(player->search, 0, &none);
}

int tide_player_mind(const struct tide_player *player, struct tide_thought *ret_thoughts, int most)
{
    uint32_t visits[TIDE_BOARD_CELLS] = {0};
    int count = 0;
    tide_search_visits(player->search, visits);
    for (; count < most; count++) {
        int best = count ? -1 : tide_player_best(player); /* also among equal visits */
        for (int move = 0; move < player->game.moves; move++)
            if (visits[move] && (best < 0 || visits[move] > visits[best]))
                best = move;
        if (best < 0 || !visits[best])
            break;
        float value = tide_search_move_value(player->search, best);
        ret_thoughts[count] =
            (struct tide_thought){.move = best, .visits = visits[best], .win = (value + 1) / 2};
        visits[best] = 0;
    }
    return count;
}
