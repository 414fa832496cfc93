#include "train/tuning.h"
#include "base/clock.h"

enum { DISTURBED = 2, WAIT_LEAST = 64, WAIT_MOST = 2048 };

static const int64_t long_step_ns = 20 * TIDE_NS_PER_MS;

/* How much faster another number of threads must be. */
static const double worth = 0.97;

void tide_tuning_init(struct tide_tuning *t, int most)
{
    *t = (struct tide_tuning){.most = most, .now = most, .wait = WAIT_LEAST, .left = DISTURBED + 1};
}

/* The median: an interrupted step does not count. */
static int64_t median(const int64_t *of)
{
    for (int i = 0; i < TIDE_TUNING_STEPS; i++) {
        int below = 0, same = 0;
        for (int k = 0; k < TIDE_TUNING_STEPS; k++) {
            below += of[k] < of[i];
            same += of[k] == of[i];
        }
        if (below <= TIDE_TUNING_STEPS / 2 && below + same > TIDE_TUNING_STEPS / 2)
            return of[i];
    }
    return of[0];
}

/* Tries fewer and more in turn, within the limits. */
static void begin_trial(struct tide_tuning *t)
{
    bool more = t->now * 2 <= t->most && (!t->tried_more || t->now == 1);
    t->tried_more = more;
    t->other = more ? t->now * 2 : t->now / 2;
    t->count = -DISTURBED;
}

static void end_trial(struct tide_tuning *t)
{
    bool faster = (double)median(t->ns[1]) < worth * (double)median(t->ns[0]);
    t->wait = faster ? WAIT_LEAST : t->wait * 2 < WAIT_MOST ? t->wait * 2 : WAIT_MOST;
    t->now = faster ? t->other : t->now;
    t->other = 0;
    t->count = -DISTURBED;
    t->left = t->wait;
}

int tide_tuning_step(struct tide_tuning *t, int64_t ns)
{
    if (t->most < 2)
        return t->now;
    if (t->count >= 0 && t->count < TIDE_TUNING_STEPS)
        t->ns[t->other != 0][t->count] = ns;
    t->count += t->count < TIDE_TUNING_STEPS;
    t->left--;
    if (t->count < TIDE_TUNING_STEPS)
        return t->other ? t->other : t->now;
    if (t->other)
        end_trial(t);
    else if (t->left <= 0 && median(t->ns[0]) < long_step_ns)
        begin_trial(t);
    else if (t->left <= TIDE_TUNING_STEPS)
        t->count = 0; /* time them again, just before they are compared */
    return t->other ? t->other : t->now;
}
