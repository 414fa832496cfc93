#include "corpus.h"

#include <math.h>

struct dice {
    uint64_t state;
};

static uint64_t roll(struct dice *d) /* splitmix64 */
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(struct dice *d, double low, double high)
{
    return low + (high - low) * (double)(roll(d) >> 11) * 0x1p-53;
}

static double log_uniform(struct dice *d, double low, double high)
{
    return exp(uniform(d, log(low), log(high)));
}

static double normal(struct dice *d)
{
    double u = uniform(d, 1e-300, 1), v = uniform(d, 0, 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static int chance(struct dice *d, double p)
{
    return uniform(d, 0, 1) < p;
}

/* Everything that hides the truth. */
struct disguise {
    double white, wander, wander_memory;  /* sigmas in bytes; memory: samples */
    double tooth, tooth_period;           /* collector: height, samples */
    double spike, spike_every, spike_for; /* validation: height, samples, samples */
    double warmup, warmup_for;            /* bytes below the level at the start, share of the run */
    double walk;                          /* sigma of where a walk at random is at the end of the run */
    double quantum;
    double missing, broken; /* probability of a sample */
};

static struct disguise draw_disguise(struct dice *d, enum tide_corpus_class class, double level,
                                     size_t samples)
{
    struct disguise g = {
        .white = log_uniform(d, 1e-5, 3e-3) * level,
        .wander = chance(d, 0.7) ? log_uniform(d, 1e-5, 6e-3) * level : 0,
        .wander_memory = log_uniform(d, 1, fmax(0.12 * (double)samples, 1.1)),
        .quantum = chance(d, 0.6)   ? 4096
                   : chance(d, 0.5) ? 65536
                                    : 2097152,
        .missing = chance(d, 0.3) ? uniform(d, 0, 0.2) : 0,
        .broken = chance(d, 0.05) ? 1.5 / (double)samples : 0,
    };
    if (class == CORPUS_SAWTOOTH || chance(d, 0.4)) {
        g.tooth = uniform(d, 0.002, class == CORPUS_SAWTOOTH ? 0.3 : 0.05) * level;
        g.tooth_period = fmax(3, log_uniform(d, 3, fmax(3.1, (double)samples / 12)));
    }
    if (class == CORPUS_SPIKES || chance(d, 0.35)) {
        g.spike = uniform(d, 0.12, 1.0) * level;
        g.spike_every = (double)samples / uniform(d, 2.5, 15);
        g.spike_for = fmax(1, g.spike_every * uniform(d, 0.02, 0.25));
    }
    if (class == CORPUS_WALK)
        g.walk = log_uniform(d, 2e-3, 5e-2) * level;
    if (chance(d, 0.6)) {
        g.warmup = uniform(d, 0.05, 0.6) * level;
        g.warmup_for = uniform(d, 0.002, 0.010);
    }
    return g;
}

struct truth {
    enum tide_corpus_class class;
    double rate;   /* bytes per step */
    double from;   /* step at which it begins, jumps or bends */
    double size;   /* bytes of the jump, of the plateau, of one stair */
    double period; /* steps between stairs */
    double steps;  /* in the run */
    double power;  /* accelerating */
};

static double floor_at(const struct truth *t, double step)
{
    switch (t->class) {
    case CORPUS_LINEAR:
        return t->rate * step;
    case CORPUS_LATE:
        return t->rate * fmax(0, step - t->from);
    case CORPUS_STAIRCASE:
        return t->size * floor(step / t->period + t->from);
    case CORPUS_ACCELERATING:
        return t->rate * t->steps / t->power * pow(step / t->steps, t->power);
    case CORPUS_ONE_PASS:
        return t->size * fmin(step / t->from, 1);
    case CORPUS_SATURATING:
        return t->size * (1 - exp(-3 * step / t->from));
    case CORPUS_JUMP:
        return step >= t->from ? t->size : 0;
    default:
        return 0;
    }
}

static struct truth draw_truth(struct dice *d, enum tide_corpus_class class, double level, double steps)
{
    struct truth t = {.class = class,
                      .steps = steps,
                      .rate = log_uniform(d, 1e-5, 1e-3) * level,
                      .power = uniform(d, 1.8, 3.5)};
    if (t.rate * steps > 5 * level)
        t.rate = 5 * level / steps;
    switch (class) {
    case CORPUS_LATE:
        t.from = uniform(d, 0.2, 0.6) * steps;
        break;
    case CORPUS_STAIRCASE: {
        double stairs = floor(uniform(d, 4, 16));
        t.period = steps / (stairs + uniform(d, 0.1, 0.9));
        t.from = uniform(d, 0, 0.9);
        t.size = t.rate * t.period;
        break;
    }
    case CORPUS_ONE_PASS:
        t.from = uniform(d, 0.08, 0.75) * steps;
        t.size = log_uniform(d, 0.05, 3) * level;
        break;
    case CORPUS_SATURATING:
        t.from = uniform(d, 0.15, 0.7) * steps;
        t.size = log_uniform(d, 0.05, 3) * level;
        break;
    case CORPUS_JUMP:
        t.from = uniform(d, 0.15, 0.85) * steps;
        t.size = log_uniform(d, 0.03, 1) * level;
        break;
    default:
        break;
    }
    return t;
}

static enum tide_verdict_kind verdict_of(enum tide_corpus_class class)
{
    static const enum tide_verdict_kind verdicts[CORPUS_CLASSES] = {
        [CORPUS_FLAT] = TIDE_FLAT,        [CORPUS_HELPERS] = TIDE_FLAT,
        [CORPUS_SPIKES] = TIDE_SPIKES,    [CORPUS_SAWTOOTH] = TIDE_FLAT,
        [CORPUS_LINEAR] = TIDE_LEAK,      [CORPUS_LATE] = TIDE_LEAK,
        [CORPUS_STAIRCASE] = TIDE_LEAK,   [CORPUS_ACCELERATING] = TIDE_LEAK,
        [CORPUS_ONE_PASS] = TIDE_PLATEAU, [CORPUS_SATURATING] = TIDE_PLATEAU,
        [CORPUS_JUMP] = TIDE_JUMP,        [CORPUS_WALK] = TIDE_FLAT,
    };
    return verdicts[class];
}

/* Steps and samples of a run: slow steps are looked at many times each, fast ones are passed over by the
 * hundred. */
static void draw_length(struct dice *d, enum tide_corpus_length length, double *ret_steps,
                        size_t *ret_samples)
{
    static const double samples[CORPUS_LENGTHS][2] = {{12, 40}, {120, 400}, {1000, 6000}};
    static const double steps[CORPUS_LENGTHS][2] = {{12, 150}, {300, 3000}, {3000, 50000}};
    *ret_samples = (size_t)log_uniform(d, samples[length][0], samples[length][1]);
    *ret_steps = floor(log_uniform(d, steps[length][0], steps[length][1]));
}

int tide_corpus_make(uint64_t seed, uint64_t n, struct tide_arena *arena, struct tide_corpus_run *ret)
{
    struct dice d = {seed * 0x2545f4914f6cdd1du + n * 0x9e3779b97f4a7c15u};
    roll(&d);
    struct tide_corpus_run run = {.class = (enum tide_corpus_class)(n % CORPUS_CLASSES),
                                  .length = (enum tide_corpus_length)(n / CORPUS_CLASSES % CORPUS_LENGTHS)};
    run.truth = verdict_of(run.class);
    run.level = log_uniform(&d, 100e6, 20e9);
    double steps;
    size_t samples;
    draw_length(&d, run.length, &steps, &samples);
    struct truth t = draw_truth(&d, run.class, run.level, steps);
    struct disguise g = draw_disguise(&d, run.class, run.level, samples);
    if (run.truth == TIDE_FLAT && g.spike > 0)
        run.truth = TIDE_SPIKES;
    run.x = tide_arena_take(arena, samples, sizeof(double));
    run.bytes = tide_arena_take(arena, samples, sizeof(double));
    if (!run.x || !run.bytes)
        return -1;
    double walked = 0, wander = 0, keep = exp(-1 / g.wander_memory), tooth_at = uniform(&d, 0, 1),
           next_tooth = g.tooth_period;
    double spike_phase = uniform(&d, 0.3, 1) * g.spike_every;
    size_t spikes = 0;
    for (size_t i = 0; i < samples; i++) {
        double share = ((double)i + (i ? uniform(&d, -0.3, 0.3) : 0)) / (double)samples,
               step = floor(share * steps);
        wander = keep * wander + sqrt(1 - keep * keep) * g.wander * normal(&d);
        walked += g.walk > 0 ? g.walk / sqrt((double)samples) * normal(&d) : 0;
        double bytes = run.level + walked + floor_at(&t, share * steps) + wander +
                       g.white * fabs(normal(&d)) * 0.6 + g.white * 0.4 * normal(&d);
        if (g.tooth > 0) {
            tooth_at += 1 / next_tooth;
            if (tooth_at >= 1) {
                tooth_at = 0;
                next_tooth = g.tooth_period * uniform(&d, 0.7, 1.3);
            }
            bytes += g.tooth * tooth_at;
        }
        if (g.spike > 0 && fmod((double)i + spike_phase, g.spike_every) < g.spike_for) {
            bytes += g.spike * uniform(&d, 0.8, 1);
            spikes++;
        }
        bytes -= g.warmup * exp(-share / fmax(g.warmup_for, 1e-9));
        bytes = fmax(floor(bytes / g.quantum + 0.5) * g.quantum, 0);
        if (chance(&d, g.broken))
            bytes = 0;
        if (chance(&d, g.missing))
            continue;
        run.x[run.count] = step;
        run.bytes[run.count++] = bytes;
    }
    if (run.truth == TIDE_SPIKES && spikes == 0)
        run.truth = TIDE_FLAT;
    run.also_right = run.class == CORPUS_WALK ? TIDE_UNDECIDED : run.truth;
    bool leak = run.truth == TIDE_LEAK;
    run.bytes_per_step = !leak ? 0 : run.class == CORPUS_STAIRCASE ? t.size / t.period : t.rate;
    if (run.class == CORPUS_ACCELERATING)
        run.bytes_per_step = (floor_at(&t, steps) - floor_at(&t, steps * 2 / 3)) / (steps / 3);
    run.change_x = run.truth == TIDE_PLATEAU || run.truth == TIDE_JUMP ? t.from : NAN;
    *ret = run;
    return 0;
}

const char *tide_corpus_class_name(enum tide_corpus_class class)
{
    static const char *const names[CORPUS_CLASSES] = {"flat",     "helpers",    "spikes",    "sawtooth",
                                                      "linear",   "late",       "staircase", "accelerating",
                                                      "one pass", "saturating", "jump",      "walk"};
    return names[class];
}

const char *tide_corpus_length_name(enum tide_corpus_length length)
{
    static const char *const names[CORPUS_LENGTHS] = {"short", "medium", "long"};
    return names[length];
}
