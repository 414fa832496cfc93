/*
 * connect4_solver.c - a column is seven bits from the bottom, of which the seventh stays empty, so that
 * shifts by 1 (up), 7 (right), 6 and 8 (diagonals) never run from one line into another.
 */
#include "connect4_solver.h"

#include <stdlib.h>

enum { COLUMNS = 7, ROWS = 6, HEIGHT = ROWS + 1, CELLS = COLUMNS * ROWS };

#define BOTTOM UINT64_C(0x40810204081) /* the lowest cell of each column */
#define BOARD  (BOTTOM * 0x3f)

struct board {
    uint64_t own, both; /* stones of the side to move, of both */
};

struct connect4_solver {
    uint64_t mask;
    uint64_t positions;
    uint64_t *table; /* the board's 56 bits, and a bound on its score in 8 */
};

struct connect4_solver *connect4_solver_new(int bits)
{
    struct connect4_solver *solver = calloc(1, sizeof *solver);
    if (!solver)
        return NULL;
    solver->mask = (UINT64_C(1) << bits) - 1;
    solver->table = calloc(solver->mask + 1, sizeof *solver->table);
    if (!solver->table) {
        free(solver);
        return NULL;
    }
    return solver;
}

void connect4_solver_free(struct connect4_solver *solver)
{
    if (solver)
        free(solver->table);
    free(solver);
}

uint64_t connect4_solver_positions(const struct connect4_solver *solver)
{
    return solver->positions;
}

static struct board board_of(const struct tide_position *position)
{
    struct board board = {0, 0};
    for (int cell = 0; cell < CELLS; cell++) {
        uint64_t bit = UINT64_C(1) << (cell % COLUMNS * HEIGHT + ROWS - 1 - cell / COLUMNS);
        if (tide_cell_in(position->stones[position->plies & 1], cell))
            board.own |= bit;
        if (tide_cell_in(position->stones[0], cell) || tide_cell_in(position->stones[1], cell))
            board.both |= bit;
    }
    return board;
}

/* Empty cells that would make four of these stones, reachable or not. */
static uint64_t completing(uint64_t stones, uint64_t both)
{
    uint64_t found = stones << 1 & stones << 2 & stones << 3;
    const int shifts[] = {HEIGHT - 1, HEIGHT, HEIGHT + 1};
    for (int i = 0; i < 3; i++) {
        int s = shifts[i];
        uint64_t before = stones << s & stones << 2 * s, after = stones >> s & stones >> 2 * s;
        found |= before & (stones << 3 * s | stones >> s);
        found |= after & (stones >> 3 * s | stones << s);
    }
    return found & BOARD & ~both;
}

/* The lowest empty cell of each column. */
static uint64_t reachable(uint64_t both)
{
    return (both + BOTTOM) & BOARD;
}

/* Moves after which the other side does not win at once; 0 if there is none. The side to move has no such win
 * itself. */
static uint64_t safe_moves(struct board board)
{
    uint64_t moves = reachable(board.both), threats = completing(board.own ^ board.both, board.both);
    uint64_t forced = moves & threats;
    if (forced & (forced - 1))
        return 0;
    if (forced)
        moves = forced;
    return moves & ~(threats >> 1); /* under a threat the other side would come onto it */
}

/* Moves by how many threats they make, from the middle outwards. Returns how many. */
static int in_order(struct board board, uint64_t moves, uint64_t *ret_moves)
{
    static const int columns[COLUMNS] = {3, 2, 4, 1, 5, 0, 6};
    int threats[COLUMNS], count = 0;
    for (int i = 0; i < COLUMNS; i++) {
        uint64_t move = moves & UINT64_C(0x3f) << columns[i] * HEIGHT;
        if (!move)
            continue;
        int made = __builtin_popcountll(completing(board.own | move, board.both | move)), at = count++;
        for (; at > 0 && threats[at - 1] < made; at--) {
            threats[at] = threats[at - 1];
            ret_moves[at] = ret_moves[at - 1];
        }
        threats[at] = made;
        ret_moves[at] = move;
    }
    return count;
}

/* A slot of the table holds the lower bound of a board as 64 + bound, the upper one as 128 + 64 + bound. */
enum { LOWER = 64, UPPER = 192 };

/* What a board is known by. Early in the game it is the same turned left for right. */
static uint64_t key_of(struct board board, int plies)
{
    enum { EARLY = 18 };
    uint64_t key = board.own + board.both + BOTTOM, turned = 0;
    for (int column = 0; plies < EARLY && column < COLUMNS; column++)
        turned |= (key >> column * HEIGHT & 0x7f) << (COLUMNS - 1 - column) * HEIGHT;
    return plies < EARLY && turned < key ? turned : key;
}

static uint64_t *slot_of(struct connect4_solver *solver, uint64_t key)
{
    return &solver->table[key * UINT64_C(0x9e3779b97f4a7c15) >> 20 & solver->mask];
}

/* The score where it is between alpha and beta, else a bound on it beyond them. The side to move does not win
 * at once. */
static int solve(struct connect4_solver *solver, struct board board, int alpha, int beta)
{
    int plies = __builtin_popcountll(board.both);
    uint64_t safe = safe_moves(board), moves[COLUMNS];
    solver->positions++;
    if (!safe)
        return -(CELLS - plies) / 2;
    if (plies >= CELLS - 2)
        return 0;
    int least = -(CELLS - 2 - plies) / 2, most = (CELLS - 1 - plies) / 2;
    uint64_t key = key_of(board, plies), *slot = slot_of(solver, key);
    if (*slot >> 8 == key) {
        int bound = (int)(*slot & 0xff);
        if (bound >= 128)
            most = bound - UPPER < most ? bound - UPPER : most;
        else
            least = bound - LOWER > least ? bound - LOWER : least;
    }
    alpha = alpha > least ? alpha : least;
    beta = beta < most ? beta : most;
    if (alpha >= beta)
        return alpha > most ? most : alpha;
    int count = in_order(board, safe, moves);
    for (int i = 0; i < count; i++) {
        struct board next = {board.own ^ board.both, board.both | moves[i]};
        int score = -solve(solver, next, -beta, -alpha);
        if (score >= beta) {
            *slot = key << 8 | (uint64_t)(score + LOWER);
            return score;
        }
        alpha = score > alpha ? score : alpha;
    }
    *slot = key << 8 | (uint64_t)(alpha + UPPER);
    return alpha;
}

/* The score if it lies between, from whether it is above or below what lies in the middle, again and again.
 */
static int narrow(struct connect4_solver *solver, struct board board, int least, int most)
{
    int plies = __builtin_popcountll(board.both);
    if (reachable(board.both) & completing(board.own, board.both)) {
        int score = (CELLS + 1 - plies) / 2;
        return score < most ? score : most;
    }
    if (plies == CELLS)
        return 0;
    while (least < most) {
        int middle = least + (most - least) / 2;
        if (middle <= 0 && least / 2 < middle)
            middle = least / 2;
        else if (middle >= 0 && most / 2 > middle)
            middle = most / 2;
        int score = solve(solver, board, middle, middle + 1);
        if (score <= middle)
            most = score < most ? score : most;
        else
            least = score > least ? score : least;
    }
    return least;
}

int connect4_solver_score(struct connect4_solver *solver, const struct tide_position *position)
{
    int left = CELLS - position->plies;
    return narrow(solver, board_of(position), -left / 2, (left + 1) / 2);
}

int connect4_solver_result(struct connect4_solver *solver, const struct tide_position *position)
{
    int score = narrow(solver, board_of(position), -1, 1);
    return (score > 0) - (score < 0);
}

unsigned connect4_solver_best(struct connect4_solver *solver, const struct tide_position *position)
{
    struct board board = board_of(position);
    unsigned best = 0;
    int most = -2;
    for (int column = 0; column < COLUMNS; column++) {
        uint64_t move = reachable(board.both) & UINT64_C(0x3f) << column * HEIGHT;
        if (!move)
            continue;
        struct board next = {board.own ^ board.both, board.both | move};
        int result = move & completing(board.own, board.both) ? 1 : -narrow(solver, next, -1, 1);
        result = (result > 0) - (result < 0);
        if (result > most)
            best = 0;
        if (result >= most) {
            most = result;
            best |= 1U << column;
        }
    }
    return best;
}
