/* game_forms.c - a position in other forms: the planes that a net sees, and few bytes for replay. */
#include "game/game_private.h"

#include <string.h>

static void mark(const struct tide_game *game, const uint64_t *cells, int symmetry, int plane, float *planes)
{
    for (int word = 0; word * 64 < game->cells; word++)
        for (uint64_t left = cells[word]; left; left &= left - 1) {
            int cell = word * 64 + __builtin_ctzll(left);
            planes[tide_game_symmetric(game, symmetry, cell) * TIDE_PLANES + plane] = 1;
        }
}

void tide_position_planes(const struct tide_game *game, const struct tide_position *position, int symmetry,
                          float *ret_planes)
{
    int side = position->plies & 1;
    memset(ret_planes, 0, (size_t)game->cells * TIDE_PLANES * sizeof *ret_planes);
    mark(game, position->stones[side], symmetry, 0, ret_planes);
    mark(game, position->stones[!side], symmetry, 1, ret_planes);
    if (position->last >= 0)
        ret_planes[tide_game_symmetric(game, symmetry, position->last) * TIDE_PLANES + 2] = 1;
    for (int cell = 0; side == 0 && cell < game->cells; cell++)
        ret_planes[cell * TIDE_PLANES + 3] = 1;
    for (int of = 0; of < 2; of++) {
        uint64_t completing[TIDE_BOARD_WORDS];
        tide_position_completing(game, position, of, completing);
        mark(game, completing, symmetry, 4, ret_planes);
    }
}

size_t tide_position_packed_bytes(const struct tide_game *game)
{
    return 2 + (size_t)(game->cells + 3) / 4;
}

void tide_position_pack(const struct tide_game *game, const struct tide_position *position,
                        uint8_t *ret_bytes)
{
    memset(ret_bytes, 0, tide_position_packed_bytes(game));
    uint16_t last = (uint16_t)position->last;
    ret_bytes[0] = (uint8_t)last;
    ret_bytes[1] = (uint8_t)(last >> 8);
    for (int cell = 0; cell < game->cells; cell++) {
        int code = tide_cell_in(position->stones[0], cell) | tide_cell_in(position->stones[1], cell) << 1;
        ret_bytes[2 + cell / 4] |= (uint8_t)(code << cell % 4 * 2);
    }
}

/* The last stone belongs to the side that moved last, and without it there was no line. */
static int check_last(const struct tide_game *game, const struct tide_position *p, struct tide_err *err)
{
    if (p->plies == 0)
        return p->last == -1 ? 0 : tide_err_set(err, "an empty board cannot have a last stone");
    int mover = (p->plies - 1) & 1;
    if (p->last < 0 || p->last >= game->cells || !tide_cell_in(p->stones[mover], p->last))
        return tide_err_set(err, "cell %d does not hold the last stone of the position", p->last);
    if (game->drops && p->last >= game->columns &&
        (tide_cell_in(p->stones[0], p->last - game->columns) ||
         tide_cell_in(p->stones[1], p->last - game->columns)))
        return tide_err_set(err, "the last stone of the position has a stone on it");
    uint64_t before[TIDE_BOARD_WORDS];
    memcpy(before, p->stones[mover], sizeof before);
    before[p->last >> 6] &= ~(UINT64_C(1) << (p->last & 63));
    if (tide_stones_have_line(game, before) || tide_stones_have_line(game, p->stones[!mover]))
        return tide_err_set(err, "the position goes on after the end of the game");
    return 0;
}

int tide_position_unpack(const struct tide_game *game, const uint8_t *bytes,
                         struct tide_position *ret_position, struct tide_err *err)
{
    struct tide_position p = {.last = (int16_t)(uint16_t)(bytes[0] | bytes[1] << 8)};
    int of[2] = {0, 0};
    for (int cell = 0; cell < (game->cells + 3) / 4 * 4; cell++) {
        int code = bytes[2 + cell / 4] >> cell % 4 * 2 & 3;
        if (code == 0)
            continue;
        if (code == 3 || cell >= game->cells)
            return tide_err_set(err, "cell %d of the position holds no stone of either side", cell);
        tide_cell_add(p.stones[code - 1], cell);
        of[code - 1]++;
    }
    if (of[0] != of[1] && of[0] != of[1] + 1)
        return tide_err_set(err, "%d and %d stones do not come from taking turns", of[0], of[1]);
    for (int cell = 0; game->drops && cell < game->cells - game->columns; cell++)
        for (int side = 0; side < 2; side++)
            if (tide_cell_in(p.stones[side], cell) && !tide_cell_in(p.stones[0], cell + game->columns) &&
                !tide_cell_in(p.stones[1], cell + game->columns))
                return tide_err_set(err, "the stone in cell %d lies on nothing", cell);
    p.plies = (int16_t)(of[0] + of[1]);
    if (check_last(game, &p, err))
        return -1;
    if (p.plies && tide_stones_have_line(game, p.stones[(p.plies - 1) & 1]))
        p.outcome = TIDE_WON;
    else if (p.plies == game->cells)
        p.outcome = TIDE_DRAWN;
    *ret_position = p;
    return 0;
}
