#include "play/gomocup_serve.h"
#include "base/clock.h"
#include "play/gomocup.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    HELD_BYTES = 65536,   /* of what the manager sent and was not processed yet */
    MOVES_TO_GO = 20,     /* moves that the time of a match must last for */
    LEAST_MARGIN_MS = 10, /* time of a move kept back for sending the answer */
    MOST_MARGIN_MS = 300,
    MOST_MS = 24 * 3600 * 1000,     /* the most for a move, whatever the limits */
    SLICE_NS = 20 * TIDE_NS_PER_MS, /* between two checks of the manager */
};

struct serving {
    const struct tide_gomocup_service *service;
    struct tide_player *player;
    struct tide_gomocup gomocup;
    int64_t memory_bytes; /* limit that the player was sized for; -1: none */
    int64_t heard_ns;     /* when the manager last sent something */
    int64_t answered_ns;  /* when it was last answered */
    int64_t late_ns;      /* how much a slice of thinking overran: the machine is busy */
    bool ended;           /* the manager will send nothing more */
    bool gone;            /* it does not listen any more */
    size_t held_len;
    char held[HELD_BYTES];
};

static void put(struct serving *s, const char *text)
{
    size_t len = strlen(text);
    while (len && !s->gone) {
        ssize_t n = write(s->service->out, text, len);
        if (n < 0 && errno != EINTR)
            s->gone = true;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
}

static int hear(struct serving *s, struct tide_err *err)
{
    if (s->held_len == sizeof s->held)
        return 0;
    ssize_t n = read(s->service->in, s->held + s->held_len, sizeof s->held - s->held_len);
    if (n < 0 && errno == EINTR)
        return 0;
    if (n < 0)
        return tide_err_set(err, "cannot read what the manager writes: %s", strerror(errno));
    s->ended = n == 0;
    s->held_len += (size_t)n;
    s->heard_ns = tide_clock_ns();
    return 0;
}

/* True if there is still a manager to think for. */
static bool is_wanted(struct serving *s)
{
    struct pollfd ends[] = {
        {.fd = s->ended || s->held_len == sizeof s->held ? -1 : s->service->in, .events = POLLIN},
        {.fd = s->service->out}};
    if (poll(ends, 2, 0) > 0) {
        s->gone = ends[1].revents & POLLERR;
        if (ends[0].revents && hear(s, NULL))
            s->ended = true;
    }
    return !s->gone && !tide_gomocup_is_ending(s->held, s->held_len);
}

/* Returns milliseconds for a move; -1: no limit. Uses a share of a match's time, so that some is left
 * later. */
static int64_t time_for_a_move(const struct tide_gomocup_limits *limits)
{
    int64_t ms = limits->turn_ms, left = limits->left_ms >= 0 ? limits->left_ms : limits->match_ms;
    if (limits->match_ms != 0 && left >= 0) {
        int64_t share = left / MOVES_TO_GO;
        ms = ms < 0 || share < ms ? share : ms;
    }
    return ms > MOST_MS ? MOST_MS : ms;
}

static struct tide_turn turn_of(const struct serving *s)
{
    struct tide_turn turn = {.simulations = s->service->simulations};
    int64_t ms = time_for_a_move(&s->gomocup.limits);
    int64_t began_ns = s->heard_ns > s->answered_ns ? s->heard_ns : s->answered_ns;
    if (ms >= 0) {
        int64_t margin = ms / 10;
        margin = margin < LEAST_MARGIN_MS  ? LEAST_MARGIN_MS
                 : margin > MOST_MARGIN_MS ? MOST_MARGIN_MS
                                           : margin;
        turn.deadline_ns = began_ns + (ms - margin) * TIDE_NS_PER_MS - s->player->batch_ns;
    } else if (s->service->time_ns) {
        turn.deadline_ns = began_ns + s->service->time_ns;
    }
    return turn;
}

/* Applies the memory limit of the manager or the caller, and keeps the tree or starts a new one. */
static int prepare(struct serving *s, struct tide_err *err)
{
    struct tide_gomocup *g = &s->gomocup;
    int64_t bytes = g->limits.memory_bytes >= 0 ? g->limits.memory_bytes : s->service->memory_bytes;
    if (bytes != s->memory_bytes) {
        s->memory_bytes = -1;
        if (tide_player_limit(s->player, bytes, err))
            return -1;
        s->memory_bytes = bytes;
    }
    return tide_player_set(s->player, &g->game, &g->position, err);
}

static void think(struct serving *s)
{
    struct tide_err err = {0};
    struct tide_turn turn = turn_of(s);
    int64_t deadline_ns = turn.deadline_ns;
    int status = prepare(s, &err);
    s->late_ns /= 2;
    while (!status) {
        int64_t began_ns = tide_clock_ns();
        if (deadline_ns)
            turn.deadline_ns = deadline_ns - s->late_ns;
        status = tide_player_step(s->player, &turn, SLICE_NS, &err);
        int64_t late_ns = tide_clock_ns() - began_ns - SLICE_NS - s->player->batch_ns;
        s->late_ns = late_ns > s->late_ns ? late_ns : s->late_ns;
        if (!status && !is_wanted(s))
            break;
    }
    if (status < 0)
        tide_gomocup_fail(&s->gomocup, err.text);
    else
        tide_gomocup_move(&s->gomocup, tide_player_best(s->player));
    put(s, s->gomocup.answer);
    s->answered_ns = tide_clock_ns();
}

/* Processes everything held. True if the manager wants more. */
static bool answer_held(struct serving *s)
{
    while (s->held_len && !s->gone) {
        enum tide_gomocup_want want;
        size_t taken = tide_gomocup_feed(&s->gomocup, s->held, s->held_len, &want);
        s->held_len -= taken;
        memmove(s->held, s->held + taken, s->held_len);
        if (want == TIDE_GOMOCUP_ENDS)
            return false;
        if (want == TIDE_GOMOCUP_ANSWERS)
            put(s, s->gomocup.answer);
        if (want == TIDE_GOMOCUP_THINKS)
            think(s);
    }
    return !s->gone;
}

int tide_gomocup_serve(const struct tide_gomocup_service *service, struct tide_player *player,
                       struct tide_err *err)
{
    struct serving s = {.service = service, .player = player, .memory_bytes = -1};
    tide_gomocup_init(&s.gomocup, service->about, service->only_board);
    s.gomocup.exact = service->exact;
    while (!s.ended && !s.gone) {
        if (hear(&s, err))
            return -1;
        if (!answer_held(&s))
            break;
    }
    return 0;
}
