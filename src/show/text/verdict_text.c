/*
 * verdict_text.c - an assessment in words: the sentence, the evidence under it, the short line.
 */
#include "show/text/verdict_text.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/units.h"

#include <math.h>
#include <signal.h>
#include <string.h>

enum {
    LINE = 512,
    PLACE_TEXT = 64,
    ARENAS_FROM = 4 /* from this many threads on, mention MALLOC_ARENA_MAX */
};

static const char *per(const struct tide_judged *j)
{
    return j->x_is_steps ? "step" : "second";
}

/* The text is valid until the end of the enclosing block. */
#define PLACE(j, x)        place_text(j, x, (char[PLACE_TEXT]){0})
#define STRETCH(j, length) stretch_text(j, length, (char[PLACE_TEXT]){0})

/* "step 118,400", "9 h 10 m after the start" */
static char *place_text(const struct tide_judged *j, double x, char out[static PLACE_TEXT])
{
    if (j->x_is_steps && x < 100 && x != floor(x))
        snprintf(out, PLACE_TEXT, "step %.1f", x);
    else if (j->x_is_steps)
        snprintf(out, PLACE_TEXT, "step %s", TIDE_COUNT(x));
    else
        snprintf(out, PLACE_TEXT, "%s after the start", TIDE_DURATION(x));
    return out;
}

/* "4,000 steps", "9 h 10 m" */
static char *stretch_text(const struct tide_judged *j, double length, char out[static PLACE_TEXT])
{
    if (j->x_is_steps)
        snprintf(out, PLACE_TEXT, "%s step%s", TIDE_COUNT(length), llround(length) == 1 ? "" : "s");
    else
        tide_duration_text(length, out);
    return out;
}

/* "208 KiB per step (95 % interval 201..214)": all three in one unit, with enough digits to tell the ends
 * apart. */
static void put_rate(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_verdict *v = &j->verdict;
    char text[TIDE_UNITS_TEXT];
    tide_size_text(v->slope, text);
    const char *unit = strchr(text, ' ');
    double scale = tide_size_unit(unit + 1);
    double low = v->slope_low / scale, high = v->slope_high / scale;
    int digits = high - low >= 5 ? 0 : high - low >= 0.5 ? 1 : high - low >= 0.05 ? 2 : 3;
    tide_buf_format(b, "%.*f%s per %s (95 %% interval %.*f..%.*f)", digits, v->slope / scale, unit, per(j),
                    digits, low, digits, high);
}

/* Growth without a jump, which is named separately. */
static double growth_beside_jump(const struct tide_verdict *v)
{
    return v->growth_bytes - (tide_verdict_grows(v) && isfinite(v->jump_x) ? v->jump_bytes : 0);
}

/* True if the growth over its whole stretch does not come to the rate, which is that of its end. */
static bool is_of_another_rate(const struct tide_verdict *v)
{
    const double alike = 0.05;
    double growth = growth_beside_jump(v);
    return fabs(v->slope * (v->x_last - v->start_x) - growth) > alike * growth;
}

/* "+33 MiB over 4,000 steps", or "since step 360". */
static void put_growth(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_verdict *v = &j->verdict;
    tide_buf_format(b, "+%s ", TIDE_SIZE(growth_beside_jump(v)));
    if (v->kind == TIDE_LEAK && isfinite(v->since_x))
        tide_buf_format(b, "since %s", PLACE(j, v->since_x));
    else
        tide_buf_format(b, "over %s", STRETCH(j, v->x_last - v->start_x));
}

/* "+176 MiB at once, at step 60" */
static void put_place_of_jump(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_verdict *v = &j->verdict;
    bool between = v->jump_x - v->jump_after > 1 && !j->jump_mark[0] && j->x_is_steps;
    tide_buf_format(b, "+%s at once, ", TIDE_SIZE(v->jump_bytes));
    if (between)
        tide_buf_format(b, "between %s and %s", PLACE(j, v->jump_after), PLACE(j, v->jump_x));
    else
        tide_buf_format(b, "at %s", PLACE(j, v->jump_x));
    if (j->jump_mark[0])
        tide_buf_format(b, " (%s)", j->jump_mark);
}

static void put_leak(struct tide_buf *b, const struct tide_judged *j)
{
    static const char *const with[] = {[TIDE_STAIRS_BY_THEMSELVES] = "",
                                       [TIDE_STAIRS_AT_EPOCHS] = ", with the epochs",
                                       [TIDE_STAIRS_AT_PHASES] = ", with a phase"};
    const struct tide_verdict *v = &j->verdict;
    put_growth(b, j);
    tide_buf_text(b, ": ");
    put_rate(b, j);
    if (v->shape == TIDE_SHAPE_ACCELERATING)
        tide_buf_text(b, ", and accelerating: the rate is that of the last third");
    else if (isnan(v->since_x) && v->slope_x > v->start_x && is_of_another_rate(v))
        tide_buf_format(b, " since %s", PLACE(j, v->slope_x));
    if (v->shape == TIDE_SHAPE_STAIRCASE && !j->inside) { /* stairs inside come from sampling */
        tide_buf_format(b, ", in %zu jumps", v->stairs);
        if (isfinite(v->stair_period))
            tide_buf_format(b, " about %s apart", STRETCH(j, v->stair_period));
        tide_buf_text(b, with[v->stairs_at]);
    }
    if (isfinite(v->jump_x)) {
        tide_buf_text(b, ", beside ");
        put_place_of_jump(b, j);
    }
    if (j->own_pages)
        tide_buf_text(b, " of pages that became its own (copy-on-write)");
    if (j->inside)
        tide_buf_format(b, " of what the program holds, while its memory stays at %s",
                        TIDE_SIZE(v->floor_last));
    if (j->each)
        tide_buf_format(b, ", in each of %zu processes while it lives (the median)", j->each);
}

/* Returns `then` for a run that has ended, otherwise `now`. */
static const char *would(const struct tide_assessment *a, const char *now, const char *then)
{
    return a->has_ended ? then : now;
}

static void put_plateau(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_verdict *v = &j->verdict;
    if (j->filling) {
        tide_buf_format(
            b,
            "+%s, all of it in memory that the program allocated before and touches only now: at most %s%s "
            "(a buffer that fills, not a leak)",
            TIDE_SIZE(v->growth_bytes), TIDE_SIZE(fmax(v->ceiling_bytes - v->floor_last, 0)),
            would(a, " more, then it stops", " more would have followed"));
        return;
    }
    tide_buf_format(b, "grew until %s and then stopped at %s", PLACE(j, v->knee_x),
                    TIDE_SIZE(v->ceiling_bytes));
    if (v->one_pass && isfinite(a->items))
        tide_buf_format(b, ": that is one pass over %s items", TIDE_COUNT(a->items));
    if (isfinite(v->bytes_per_item) && (v->one_pass || !isfinite(a->items)))
        tide_buf_format(b, "%s %s per item", v->one_pass ? "," : ";", TIDE_SIZE(v->bytes_per_item));
    if (v->one_pass)
        tide_buf_text(b, " (a cache as large as the data, not a leak)");
}

static void put_undecided(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_verdict *v = &j->verdict;
    if (j->starting) {
        put_growth(b, j);
        tide_buf_format(b, ", as when a program starts or a cache fills; %s more%s %s",
                        STRETCH(j, v->steps_needed), j->x_is_steps ? "" : ", or steps,",
                        would(a, "would settle it", "would have settled it"));
        return;
    }
    if (isfinite(j->room_bytes) || j->unexplained)
        put_growth(b, j);
    if (isfinite(j->room_bytes)) {
        tide_buf_format(
            b,
            " without allocating more: it touched pages that it already had, of which %s %s still "
            "untouched (a buffer that fills, a heap not yet collected, or a leak in one)",
            TIDE_SIZE(j->room_bytes), would(a, "are", "were"));
        if (v->slope > 0)
            tide_buf_format(b, "; at %s per %s they %s %s: what grows after that leaks", TIDE_SIZE(v->slope),
                            per(j), would(a, "last", "would last"), STRETCH(j, v->steps_needed));
        return;
    }
    if (j->unexplained) {
        tide_buf_format(b, " in the sum of %zu processes, none of which clearly grows; %s more %s",
                        j->members, STRETCH(j, v->steps_needed),
                        would(a, "would settle it", "would have settled it"));
        return;
    }
    if (isfinite(v->drop_x))
        tide_buf_format(
            b, "the floor fell by %s at %s, to %s, and is at %s at the end: ", TIDE_SIZE(v->drop_bytes),
            PLACE(j, v->drop_x), TIDE_SIZE(v->floor_first), TIDE_SIZE(v->floor_last));
    if (j->shared && v->growth_bytes > 0) { /* of a process memory is seen, of this only what was read */
        put_growth(b, j);
        tide_buf_text(b, ", but ");
    }
    if (isfinite(v->jump_x))
        put_place_of_jump(b, j);
    tide_buf_format(b, "%snot enough data to tell a leak from noise (%zu sample%s)",
                    isfinite(v->jump_x) ? "; apart from that, " : "", j->count, j->count == 1 ? "" : "s");
    if (!isfinite(v->steps_needed))
        return;
    if (j->x_is_steps)
        tide_buf_format(b, "; about %s more steps", TIDE_COUNT(fmax(ceil(v->steps_needed), 1)));
    else
        tide_buf_format(b, "; about %s more", TIDE_DURATION(v->steps_needed));
    tide_buf_text(b, would(a, " would settle ", " would have settled "));
    if (v->needed_for >= 1)
        tide_buf_format(b, "a leak of %s per %s", TIDE_SIZE(v->needed_for), per(j));
    else
        tide_buf_text(b, "it");
}

static void put_level(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_verdict *v = &j->verdict;
    const double falls = 0.1;  /* of the floor: more is said as a fall */
    const double moves = 0.25; /* of the floor: a range of more is said, because there is no level */
    if (isfinite(v->drop_x))
        tide_buf_format(b, "the floor fell by %s at %s and stays at %s", TIDE_SIZE(v->drop_bytes),
                        PLACE(j, v->drop_x), TIDE_SIZE(v->floor_last));
    else if (v->floor_first - v->floor_last > falls * v->floor_first)
        tide_buf_format(b, "the floor falls, from %s to %s", TIDE_SIZE(v->floor_first),
                        TIDE_SIZE(v->floor_last));
    else if (v->floor_highest - v->floor_lowest > moves * v->floor_last)
        tide_buf_format(b, "the floor moves between %s and %s without a trend", TIDE_SIZE(v->floor_lowest),
                        TIDE_SIZE(v->floor_highest));
    else
        tide_buf_format(b, "the floor stays at %s", TIDE_SIZE(v->floor_last));
    if (isfinite(v->detectable) && v->detectable > 0)
        tide_buf_format(b, "; a leak above %s per %s would have shown", TIDE_SIZE(fmax(v->detectable, 0.1)),
                        per(j)); /* below 0.1 it would say 0.0 B */
}

/* "12 of about +4.1 GiB, all in phase "validation", all back to the floor" */
static void put_spikes(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_spikes *s = &j->verdict.spikes;
    tide_buf_format(b, "%zu of %s+%s", s->count, s->count == 1 ? "" : "about ", TIDE_SIZE(s->typical_bytes));
    if (s->phase >= 0 && j->phase[0]) {
        if (s->in_phase == s->count)
            tide_buf_format(b, ", %sin phase \"%s\"", s->count == 1 ? "" : "all ", j->phase);
        else
            tide_buf_format(b, ", %zu of them in phase \"%s\"", s->in_phase, j->phase);
    }
    if (s->returned == s->count)
        tide_buf_format(b, ", %sback to the floor", s->count == 1 ? "" : "all ");
    else
        tide_buf_format(b, ", %zu back to the floor, the last one %s", s->returned,
                        would(a, "still going on", "going on at the end"));
}

static void put_jump(struct tide_buf *b, const struct tide_judged *j)
{
    put_place_of_jump(b, j);
    if (isfinite(j->verdict.slope_high))
        tide_buf_format(b, "; beside it at most %s more per %s", TIDE_SIZE(j->verdict.slope_high), per(j));
    else
        tide_buf_text(b, ", level before and after");
}

/* Says what the floor did: the middle of the sentence and the first line of evidence. */
static void put_floor(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    enum tide_verdict_kind kind = j->verdict.kind;
    if (kind == TIDE_RETENTION) /* described by its shape */
        kind = tide_verdict_grows(&j->verdict)             ? TIDE_LEAK
               : j->verdict.shape == TIDE_SHAPE_SATURATING ? TIDE_PLATEAU
                                                           : TIDE_JUMP;
    switch (kind) {
    case TIDE_LEAK:
        put_leak(b, j);
        break;
    case TIDE_PLATEAU:
        put_plateau(b, j, a);
        break;
    case TIDE_JUMP:
        put_jump(b, j);
        break;
    case TIDE_UNDECIDED:
        put_undecided(b, j, a);
        break;
    default:
        put_level(b, j);
    }
}

/* ---- retention */

/* "what the program holds is flat (at most 3 KiB more per step): 12.3 MiB live, 98 MiB not" */
static void put_live(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_retention *r = &j->retention;
    if (r->freed_again) {
        const double most = 0.5; /* share of the steps or of the looks */
        bool often = r->crest_share > most;
        tide_buf_format(b, "what the program holds%s rises %s and is freed again: up to %s",
                        j->subject == TIDE_SUBJECT_GPU ? " on the GPU" : "",
                        often && j->x_is_steps ? "within each step" : "for a while",
                        TIDE_SIZE(r->crest_last));
        if (often)
            tide_buf_text(b, " now");
        else
            tide_buf_format(b, ", last at %s", PLACE(j, r->crest_x));
        tide_buf_format(b, ", %s before", TIDE_SIZE(r->crest_first));
        return;
    }
    if (!r->live_is_flat) {
        const double known = 20; /* percent: a share with a wider interval is printed with it */
        double growth = j->verdict.growth_bytes, length = j->verdict.x_last - j->verdict.start_x;
        double low = fmax(100 * r->live_low * length / growth, 0),
               high = fmin(100 * r->live_high * length / growth, 100);
        tide_buf_format(b, "what the program holds grew by %s, %.0f %% of that", TIDE_SIZE(r->live_growth),
                        100 * r->live_growth / growth);
        if (high - low > known)
            tide_buf_format(b, " (95 %% interval %.0f..%.0f)", low, high);
        if (j->kept.free_bytes > 0)
            tide_buf_format(b, "; malloc keeps %s free beside it", TIDE_SIZE(j->kept.free_bytes));
        return;
    }
    if (r->managed) {
        tide_buf_format(b,
                        "what the program has taken is flat at %s, but most of it is a runtime's own heap, "
                        "and what is live in that is not known",
                        TIDE_SIZE(r->live_bytes));
        return;
    }
    tide_buf_text(b, "what the program holds is flat");
    if (r->live_high > 0)
        tide_buf_format(b, " (at most %s more per %s)", TIDE_SIZE(r->live_high), per(j));
    tide_buf_format(b, ": %s live, ", TIDE_SIZE(r->live_bytes));
    if (r->not_live_bytes <= 0)
        tide_buf_text(b, "more than is resident: pages of old blocks are touched only now");
    else
        tide_buf_format(b, "%s not%s", TIDE_SIZE(r->not_live_bytes),
                        r->fills ? ": pages of old blocks are touched only now" : "");
}

static void put_kept(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_kept *k = &j->kept;
    if (isnan(k->free_bytes)) {
        tide_buf_text(b, "the program uses an allocator other than the C library's: how much that keeps, and "
                         "what it would give back, is not known");
        return;
    }
    tide_buf_format(b, "malloc has %s free in %s piece%s; malloc_trim(0) would give back ",
                    TIDE_SIZE(k->free_bytes), TIDE_COUNT(k->pieces), k->pieces == 1 ? "" : "s");
    if (k->trim_low < 0.9 * k->trim_high)
        tide_buf_format(b, "%s to ", TIDE_SIZE(k->trim_low));
    else
        tide_buf_text(b, "at most ");
    tide_buf_text(b, TIDE_SIZE(k->trim_high));
}

/* Suggests remedies, the cheapest first. */
static void put_remedy(struct tide_buf *b, const struct tide_judged *j)
{
    const char *trim = j->python ? "ctypes.CDLL(None).malloc_trim(0)" : "malloc_trim(0)";
    switch (tide_kept_where(&j->kept)) {
    case TIDE_KEPT_UNKNOWN:
        tide_buf_text(b, "ask that allocator to give pages back (jemalloc: "
                         "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0)");
        return;
    case TIDE_KEPT_AT_THE_END:
        tide_buf_format(
            b,
            "a cache at the end of the heap: %s after each epoch, or MALLOC_TRIM_THRESHOLD_=131072 in "
            "the environment",
            trim);
        break;
    case TIDE_KEPT_IN_PAGES:
        tide_buf_format(
            b,
            "fragmentation, with whole pages free between live blocks: %s after each epoch gives them "
            "back; MALLOC_MMAP_THRESHOLD_=65536 keeps large blocks out of the heap",
            trim);
        break;
    case TIDE_KEPT_IN_HOLES:
        tide_buf_text(
            b, "fragmentation, with holes smaller than a page between live blocks: allocate what lives long "
               "before what lives short, or try LD_PRELOAD=libjemalloc.so.2");
        break;
    }
    if (j->kept.threads >= ARENAS_FROM)
        tide_buf_format(b, "; its %.0f threads have arenas of their own: MALLOC_ARENA_MAX=2",
                        j->kept.threads);
}

/* True if the live bytes are worth a line: they do not explain what memory did. */
static bool is_live_said(const struct tide_judged *j)
{
    const double explains = 0.8;
    bool partly = j->verdict.kind == TIDE_LEAK && j->retention.live_growth > 0 &&
                  j->retention.live_growth < explains * j->verdict.growth_bytes;
    return j->live_known && (j->retention.live_is_flat || j->retention.freed_again || partly);
}

/* "+33.4 MiB per epoch (95 % interval 28.0 MiB..38.8 MiB), from 70 MiB to 370 MiB in 10 epochs" */
static void put_crest(struct tide_buf *b, const struct tide_crest *c)
{
    tide_buf_format(b, "+%s per epoch (95 %% interval %s..%s), from %s to %s in %zu epochs",
                    TIDE_SIZE(c->per_epoch), TIDE_SIZE(c->low), TIDE_SIZE(c->high),
                    TIDE_SIZE(fmax(c->first_bytes, 0)), TIDE_SIZE(c->last_bytes), c->epochs);
    if (c->phase[0])
        tide_buf_format(b, ", in phase \"%s\"", c->phase);
    tide_buf_text(b, "; given back in between");
}

const char *tide_judged_word(const struct tide_judged *j)
{
    return j->crest.epochs ? "peaks" : tide_verdict_name(j->verdict.kind);
}

static void put_headline(struct tide_buf *b, const struct tide_judged *j)
{
    static const char *const words[TIDE_VERDICTS] = {
        [TIDE_FLAT] = "FLAT: no leak in",  [TIDE_SPIKES] = "SPIKES, no leak, in",
        [TIDE_LEAK] = "LEAK in",           [TIDE_PLATEAU] = "PLATEAU, no leak, in",
        [TIDE_JUMP] = "JUMP in",           [TIDE_UNDECIDED] = "UNDECIDED about",
        [TIDE_RETENTION] = "RETENTION in",
    };
    bool bounded = j->verdict.kind == TIDE_RETENTION && !tide_verdict_grows(&j->verdict);
    tide_buf_format(b, "%s %s",
                    j->crest.epochs ? "RISING PEAKS in"
                    : bounded       ? "RETENTION, bounded, in"
                                    : words[j->verdict.kind],
                    j->name);
}

const char *const tide_rlimit_names[] = {
    [TIDE_RLIMIT_AS] = "address space (ulimit -v)", [TIDE_RLIMIT_DATA] = "data (ulimit -d)"};

double tide_judged_limit(const struct tide_judged *j, const struct tide_assessment *a)
{
    return j->rlimit ? j->rlimit_bytes : j->subject == TIDE_SUBJECT_GPU ? j->limit_bytes : a->limit_bytes;
}

static void put_limit(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_verdict *v = &j->verdict;
    double limit = tide_judged_limit(j, a);
    bool of_tree = j->subject != TIDE_SUBJECT_GPU && !j->rlimit;
    bool typed = of_tree && !strcmp(a->limit_name, "--limit");
    char text[TIDE_UNITS_TEXT];
    tide_buf_text(b, typed ? tide_typed_size_text(limit, text) : tide_size_text(limit, text));
    if (j->rlimit)
        tide_buf_format(b, " of %s", tide_rlimit_names[j->rlimit]);
    else if (a->limit_name[0] && of_tree)
        tide_buf_format(b, " (%s)", a->limit_name);
    bool sooner = v->shape == TIDE_SHAPE_ACCELERATING; /* the forecast uses the rate of the last third */
    bool reached = v->limit_x <= v->x_last;
    tide_buf_text(b, reached  ? would(a, " is reached now, ", " was reached at ")
                     : sooner ? would(a, " is reached before ", " would have been reached before ")
                              : would(a, " is reached at ", " would have been reached at "));
    tide_buf_text(b, PLACE(j, v->limit_x));
    if (j->limit_by_all)
        tide_buf_text(b, " by all processes together");
    if (j->limit_by_one)
        tide_buf_text(b, " by one of them");
    if (!isfinite(j->seconds_per_step) || reached)
        return;
    double high_s = (v->limit_x_high - v->x_last) * j->seconds_per_step;
    const char *left = TIDE_DURATION((v->limit_x - v->x_last) * j->seconds_per_step),
               *low = TIDE_DURATION((v->limit_x_low - v->x_last) * j->seconds_per_step),
               *high = TIDE_DURATION(high_s);
    if (a->has_ended)
        tide_buf_format(b, ", %s %s after the end%s", sooner ? "less than" : "about", left,
                        isfinite(a->broke_off) ? " of the recording" : "");
    else
        tide_buf_format(b, ", in %s %s", sooner ? "less than" : "about", left);
    if (!sooner && !isfinite(high_s))
        tide_buf_format(b, " (%s or more)", low);
    else if (!sooner && strcmp(low, high))
        tide_buf_format(b, " (%s..%s)", low, high);
}

void tide_judged_sentence(const struct tide_judged *judged, const struct tide_assessment *assessment,
                          char *out, size_t size)
{
    struct tide_buf b = TIDE_BUF_HERE(4 * LINE);
    put_headline(&b, judged);
    tide_buf_text(&b, ": ");
    if (judged->crest.epochs) {
        put_crest(&b, &judged->crest);
        snprintf(out, size, "%s", tide_buf_view(&b));
        return;
    }
    put_floor(&b, judged, assessment);
    if (judged->verdict.kind == TIDE_RETENTION)
        tide_buf_text(&b, "; the program has freed it, and the allocator keeps it");
    if (judged->verdict.kind == TIDE_RETENTION && isfinite(judged->kept.trim_high) && judged->live_known)
        tide_buf_format(&b, ", malloc_trim would release at most %s", TIDE_SIZE(judged->kept.trim_high));
    if (judged->verdict.kind == TIDE_SPIKES) {
        tide_buf_text(&b, "; spikes: ");
        put_spikes(&b, judged, assessment);
    }
    snprintf(out, size, "%s", tide_buf_view(&b));
}

/* Says why the axis is time, and how to provide steps. */
static void put_steps(struct tide_buf *b, const struct tide_assessment *a)
{
    const struct tide_axis *axis = a->axis;
    if (!axis)
        return;
    if (axis->bursts)
        tide_buf_text(b, "came in bursts, as from buffered output, so the axis is time: flush it "
                         "(PYTHONUNBUFFERED=1)");
    else if (axis->told == 0)
        tide_buf_text(b, "none were found, so the axis is time: print 'step 12', or '12/100 loss 0.3'; or "
                         "tidemark.step(12) in Python, tide_step(12) in C; or --step-regex");
    else if (axis->rest_s > 0)
        tide_buf_format(b, "the last one came %s before the end%s", TIDE_DURATION(axis->rest_s),
                        axis->outgrown ? ", and memory rose after it, so the axis is time"
                                       : "; what followed is not judged, and did not rise");
    else if (isnan(a->steps))
        tide_buf_format(b, "too few were seen (%zu), so the axis is time", axis->told);
}

/* ---- who was killed */

/* "KILLED by the OOM killer: train.py[4711] with 89 MiB, at step 59 in phase "forward"" */
static void put_death(struct tide_buf *b, const struct tide_death *d)
{
    bool asked = d->signal == SIGINT || d->signal == SIGTERM || d->signal == SIGHUP;
    const char *name = sigabbrev_np(d->signal);
    tide_buf_text(b, asked ? "ENDED by " : "KILLED by ");
    if (d->cause == TIDE_DEATH_OOM)
        tide_buf_text(b, "the OOM killer");
    else if (name)
        tide_buf_format(b, "SIG%s", name);
    else
        tide_buf_format(b, "signal %d", d->signal);
    tide_buf_format(b, ": %s", d->name);
    if (isfinite(d->bytes))
        tide_buf_format(b, d->grew_since ? ", last seen with %s" : " with %s", TIDE_SIZE(d->bytes));
    if (isfinite(d->step))
        tide_buf_format(b, ", at step %s", TIDE_COUNT(d->step));
    else if (d->t_ns >= 0)
        tide_buf_format(b, ", %s after the start", TIDE_DURATION((double)d->t_ns / TIDE_NS_PER_S));
    if (d->phase[0])
        tide_buf_format(b, " in phase \"%s\"", d->phase);
    if (isfinite(d->limit_bytes))
        tide_buf_format(b, ", at the limit of %s (%s)", TIDE_SIZE(d->limit_bytes), d->limit_name);
}

void tide_assessment_sentence(const struct tide_assessment *a, char *out, size_t size)
{
    struct tide_buf b = TIDE_BUF_HERE(LINE);
    if (a->death.cause != TIDE_DEATH_NONE) {
        put_death(&b, &a->death);
        tide_buf_text(&b, "; ");
    }
    size_t used = b.len < size ? b.len : size;
    snprintf(out, size, "%s", tide_buf_view(&b));
    if (used < size)
        tide_judged_sentence(&a->judged[0], a, out + used, size - used);
}

/* ---- the answer with its evidence */

void tide_assessment_headline(const struct tide_assessment *a, char *out, size_t size)
{
    struct tide_buf b = TIDE_BUF_HERE(LINE);
    if (a->death.cause != TIDE_DEATH_NONE)
        put_death(&b, &a->death);
    else
        put_headline(&b, &a->judged[0]);
    snprintf(out, size, "%s", tide_buf_view(&b));
}

/* Passes the text on as a line of evidence, if there is any. */
static void hand_on(struct tide_buf *b, const char *label, tide_evidence_put *put, void *context)
{
    if (b->len)
        put(context, label, tide_buf_view(b));
    tide_buf_clear(b);
}

/* Says what the program holds, what the allocator keeps, and what can be done about it. */
static void tell_live(struct tide_buf *b, const struct tide_judged *j, tide_evidence_put *put, void *context)
{
    const struct tide_retention *r = &j->retention;
    if (j->shared && tide_verdict_grows(&j->verdict))
        put(context, "try",
            "unlink segments (ls /dev/shm) and files in memory (df -t tmpfs), close memfds (ls -l "
            "/proc/PID/fd): unmapping them does not free them");
    if (is_live_said(j)) {
        put_live(b, j);
        bool explained = r->crest_rises || r->managed || r->fills || r->retains;
        if (r->live_is_flat && !explained && r->not_live_bytes > 0)
            tide_buf_text(b, ", and the allocator does not keep it: look for memory mapped past the C "
                             "library, stacks of threads that were never joined, shared memory, a driver, or "
                             "pages of an old block that are touched only now");
        hand_on(b, "live", put, context);
    }
    if (!j->live_known || j->verdict.kind != TIDE_RETENTION)
        return;
    put_kept(b, j);
    hand_on(b, "kept", put, context);
    put_remedy(b, j);
    hand_on(b, "try", put, context);
}

void tide_assessment_evidence(const struct tide_assessment *a, tide_evidence_put *put, void *context)
{
    const struct tide_judged *j = &a->judged[0];
    struct tide_buf b = TIDE_BUF_HERE(4 * LINE);
    if (a->death.cause != TIDE_DEATH_NONE)
        put_headline(&b, j);
    hand_on(&b, "verdict", put, context);
    if (j->crest.epochs)
        put_crest(&b, &j->crest);
    else
        put_floor(&b, j, a);
    hand_on(&b, j->crest.epochs ? "peaks" : "floor", put, context);
    if (j->verdict.spikes.count && !j->crest.epochs)
        put_spikes(&b, j, a);
    hand_on(&b, "spikes", put, context);
    tell_live(&b, j, put, context);
    tide_buf_text(&b, a->others);
    hand_on(&b, "others", put, context);
    if (j->subject == TIDE_SUBJECT_TREE && a->pss_known < 0.995)
        tide_buf_format(
            &b, "shared pages once where PSS is known (%.0f %% of the tree), the rest as RSS: an upper bound",
            100 * a->pss_known);
    hand_on(&b, "counts", put, context);
    tide_buf_text(&b, a->evidence);
    hand_on(&b, j->verdict.kind == TIDE_LEAK || j->crest.epochs ? "gauge" : "held by", put, context);
    if (isfinite(j->verdict.limit_x) && a->death.cause != TIDE_DEATH_OOM)
        put_limit(&b, j, a);
    hand_on(&b, "limit", put, context);
    if (isfinite(a->broke_off))
        tide_buf_format(
            &b,
            "the recording breaks off %s after the start: tidemark was killed, the machine stopped, it could not "
            "be written any more, or this is a copy from before the end; the program may have gone on",
            TIDE_DURATION(a->broke_off));
    hand_on(&b, "end", put, context);
    if (a->gap_seconds > 0)
        tide_buf_format(
            &b,
            "nothing was recorded for %s, beginning %s after the start: the recording could not be written",
            TIDE_DURATION(a->gap_seconds), TIDE_DURATION(a->gap_from));
    hand_on(&b, "gap", put, context);
    if (a->beyond)
        tide_buf_format(&b, "%zu more series were not judged (the smallest processes and the last gauges)",
                        a->beyond);
    hand_on(&b, "beyond", put, context);
    put_steps(&b, a);
    hand_on(&b, "steps", put, context);
}

void tide_evidence_print(void *out, const char *label, const char *text)
{
    fprintf(out, "  %-7s %s\n", label, text);
}

void tide_assessment_print(const struct tide_assessment *a, FILE *out)
{
    char headline[LINE];
    tide_assessment_headline(a, headline, sizeof headline);
    fprintf(out, "tidemark: %s\n", headline);
    tide_assessment_evidence(a, tide_evidence_print, out);
}

void tide_assessment_brief(const struct tide_assessment *a, char *out, size_t size)
{
    const struct tide_judged *j = &a->judged[0];
    const struct tide_verdict *v = &j->verdict;
    struct tide_buf b = TIDE_BUF_HERE(LINE);
    if (j->crest.epochs)
        tide_buf_format(&b, "peaks +%s/epoch", TIDE_SIZE(j->crest.per_epoch));
    else if (tide_verdict_grows(v))
        tide_buf_format(&b, "%s: floor +%s/%s", tide_verdict_name(v->kind), TIDE_SIZE(v->slope),
                        j->x_is_steps ? "step" : "s");
    else if (v->kind == TIDE_RETENTION)
        tide_buf_text(&b, "floor has levelled off, kept by the allocator");
    else if (v->kind == TIDE_UNDECIDED)
        tide_buf_text(&b, would(a, "floor not judged yet", "floor not judged"));
    else
        tide_buf_format(&b, "floor %s",
                        v->kind == TIDE_PLATEAU ? "has levelled off"
                        : v->kind == TIDE_JUMP  ? "made one jump"
                                                : "flat");
    if (v->kind == TIDE_SPIKES && !j->crest.epochs)
        tide_buf_format(&b, ", %zu spikes", v->spikes.count);
    double left_s = (v->limit_x - v->x_last) * j->seconds_per_step;
    if (isfinite(v->limit_x) && v->limit_x <= v->x_last)
        tide_buf_text(&b, ", limit reached");
    else if (isfinite(left_s) && !a->has_ended)
        tide_buf_format(&b, ", limit in %s", TIDE_DURATION(left_s));
    snprintf(out, size, "%s", tide_buf_view(&b));
}
