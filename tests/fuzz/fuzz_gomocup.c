/*
 * fuzz_gomocup.c - any bytes as what a tournament manager says. Every answer is one line of the protocol,
 * every move that is asked for can be played, and bytes that come one by one are answered like those that
 * come at once.
 */
#include "base/buf.h"
#include "base/check.h"
#include "play/gomocup.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(const struct tide_gomocup *g, bool is_move)
{
    size_t len = strlen(g->answer);
    TIDE_CHECK_TRUE(strchr(g->answer, '\n') == g->answer + len - 1);
    bool known = !strcmp(g->answer, "OK\n") || !strcmp(g->answer, "about\n") ||
                 !strncmp(g->answer, "ERROR ", 6) || !strncmp(g->answer, "UNKNOWN ", 8);
    TIDE_CHECK(known, ==, !is_move);
}

/* Every fourth move fails; the others are the first that is possible. */
static void think(struct tide_gomocup *g, int asked)
{
    int count = g->stones.count, move = 0;
    TIDE_CHECK(g->position.outcome, ==, TIDE_PLAYING);
    TIDE_CHECK(g->position.plies, ==, count);
    while (!tide_position_may(&g->game, &g->position, move))
        move++;
    if (asked % 4 == 3) {
        tide_gomocup_fail(g, "no");
        TIDE_CHECK(g->stones.count, <=, TIDE_BOARD_CELLS);
    } else {
        tide_gomocup_move(g, move);
        TIDE_CHECK(g->stones.count, ==, count + 1);
    }
}

static void talk(const char *bytes, size_t len, size_t most, struct tide_buf *said)
{
    struct tide_gomocup g;
    int asked = 0;
    tide_gomocup_init(&g, "about", 0);
    while (len) {
        enum tide_gomocup_want want;
        size_t taken = tide_gomocup_feed(&g, bytes, len < most ? len : most, &want);
        TIDE_CHECK(taken, >, 0);
        bytes += taken;
        len -= taken;
        if (want == TIDE_GOMOCUP_ENDS)
            return;
        if (want == TIDE_GOMOCUP_THINKS)
            think(&g, asked++);
        if (want != TIDE_GOMOCUP_MORE) {
            check_answer(&g, want == TIDE_GOMOCUP_THINKS && asked % 4);
            tide_buf_text(said, g.answer);
        }
        TIDE_CHECK(g.stones.count, <=, g.game.cells);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tide_buf whole, pieces;
    tide_buf_init(&whole, 64 << 20);
    tide_buf_init(&pieces, 64 << 20);
    talk((const char *)data, size, size, &whole);
    talk((const char *)data, size, 1, &pieces);
    TIDE_CHECK_TRUE(!whole.failed);
    TIDE_CHECK(strcmp(tide_buf_view(&whole), tide_buf_view(&pieces)), ==, 0);
    tide_gomocup_is_ending((const char *)data, size);
    tide_buf_release(&whole);
    tide_buf_release(&pieces);
    return 0;
}
