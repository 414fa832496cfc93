/*
 * verdict_text.c - how an assessment is said: the sentence, the evidence under it, the short line, the JSON
 * document.
 */
#include "show/text/verdict_text.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { LINE = 512, ARENAS_FROM = 4 /* threads from which on the number of arenas is worth a word */ };

enum tide_kept_where { TIDE_KEPT_UNKNOWN, TIDE_KEPT_AT_THE_END, TIDE_KEPT_IN_PAGES, TIDE_KEPT_IN_HOLES };

static const char *per(const struct tide_judged *j)
{
    return j->x_is_steps ? "step" : "second";
}

/* "step 118,400", "after 9 h 10 m" */
static void put_place(struct tide_buf *b, const struct tide_judged *j, double x)
{
    char text[TIDE_UNITS_TEXT];
    if (j->x_is_steps && x < 100 && x != floor(x))
        tide_buf_format(b, "step %.1f", x);
    else if (j->x_is_steps)
        tide_buf_format(b, "step %s", tide_count_text(x, text));
    else
        tide_buf_format(b, "%s after the start", tide_duration_text(x, text));
}

/* "4,000 steps", "9 h 10 m" */
static void put_stretch(struct tide_buf *b, const struct tide_judged *j, double length)
{
    char text[TIDE_UNITS_TEXT];
    if (j->x_is_steps)
        tide_buf_format(b, "%s step%s", tide_count_text(length, text), llround(length) == 1 ? "" : "s");
    else
        tide_buf_text(b, tide_duration_text(length, text));
}

static void put_size(struct tide_buf *b, double bytes)
{
    char text[TIDE_UNITS_TEXT];
    tide_buf_text(b, tide_size_text(bytes, text));
}

/* "208 KiB per step (95 % interval 201..214)": the three in one unit, with as many digits as tell the ends
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

static void put_leak(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_verdict *v = &j->verdict;
    tide_buf_text(b, "+");
    put_size(b, v->growth_bytes);
    tide_buf_text(b, " over ");
    put_stretch(b, j, v->x_last - v->start_x);
    tide_buf_text(b, ": ");
    put_rate(b, j);
    if (v->shape == TIDE_SHAPE_ACCELERATING)
        tide_buf_text(b, ", and faster all the time: this is the rate of the last third");
    if (v->shape == TIDE_SHAPE_STAIRCASE) {
        tide_buf_format(b, ", in %zu jumps", v->stairs);
        tide_buf_text(b, " about ");
        put_stretch(b, j, v->stair_period);
        tide_buf_text(b, " apart");
        if (v->stairs_at != TIDE_STAIRS_BY_THEMSELVES)
            tide_buf_text(b, v->stairs_at == TIDE_STAIRS_AT_EPOCHS ? ", with the epochs" : ", with a phase");
    }
    if (j->own_pages)
        tide_buf_text(b, " of pages that became its own (copy-on-write)");
}

/* Of a run that has ended nothing more is to come. */
static const char *would(const struct tide_assessment *a, const char *now, const char *then)
{
    return a->has_ended ? then : now;
}

static void put_plateau(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_verdict *v = &j->verdict;
    char text[TIDE_UNITS_TEXT];
    if (j->filling) {
        tide_buf_text(b, "+");
        put_size(b, v->growth_bytes);
        tide_buf_text(
            b, ", all of it pages of memory that the program took before and touches only now: at most ");
        put_size(b, fmax(v->ceiling_bytes - v->floor_last, 0));
        tide_buf_text(b, would(a, " more, then it stops", " more would have followed"));
        tide_buf_text(b, " (a buffer that fills, not a leak)");
        return;
    }
    tide_buf_text(b, "grew until ");
    put_place(b, j, v->knee_x);
    tide_buf_text(b, " and then stopped at ");
    put_size(b, v->ceiling_bytes);
    if (v->one_pass && isfinite(a->items))
        tide_buf_format(b, ": that is one pass over %s items", tide_count_text(a->items, text));
    if (isfinite(v->bytes_per_item) && (v->one_pass || !isfinite(a->items))) {
        tide_buf_text(b, v->one_pass ? ", " : "; ");
        put_size(b, v->bytes_per_item);
        tide_buf_text(b, " per item");
    }
    if (v->one_pass)
        tide_buf_text(b, " (a cache as large as the data, not a leak)");
}

static void put_undecided(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_verdict *v = &j->verdict;
    char text[TIDE_UNITS_TEXT];
    if (j->starting) {
        tide_buf_text(b, "+");
        put_size(b, v->growth_bytes);
        tide_buf_format(b, " in %s, in bursts, as programs grow when they start",
                        tide_duration_text(v->x_last - v->start_x, text));
        tide_buf_format(b, "; %s more, or steps, %s", tide_duration_text(v->steps_needed, text),
                        would(a, "would tell", "would have told"));
        return;
    }
    if (isfinite(j->room_bytes)) {
        tide_buf_text(b, "+");
        put_size(b, v->growth_bytes);
        tide_buf_text(b, " over ");
        put_stretch(b, j, v->x_last - v->start_x);
        tide_buf_text(b, " without asking for more: pages are touched that it had, of which ");
        put_size(b, j->room_bytes);
        tide_buf_text(b, would(a, " are left", " were left"));
        tide_buf_text(b, " (a buffer that fills, a heap not yet collected, or a leak in one)");
        return;
    }
    if (j->unexplained) {
        tide_buf_text(b, "+");
        put_size(b, v->growth_bytes);
        tide_buf_text(b, " over ");
        put_stretch(b, j, v->x_last - v->start_x);
        tide_buf_format(b, " in the sum of %zu processes, none of which surely grows; ", j->members);
        put_stretch(b, j, v->steps_needed);
        tide_buf_text(b, " more would tell");
        return;
    }
    tide_buf_format(b, "not enough data to tell a leak from noise (%zu sample%s)", j->count,
                    j->count == 1 ? "" : "s");
    if (isfinite(v->steps_needed)) {
        tide_buf_text(b, "; about ");
        if (j->x_is_steps)
            tide_buf_format(b, "%s more steps", tide_count_text(fmax(ceil(v->steps_needed), 1), text));
        else
            tide_buf_format(b, "%s more", tide_duration_text(v->steps_needed, text));
        tide_buf_text(b, would(a, " would settle ", " would have settled "));
        if (isfinite(v->needed_for)) {
            tide_buf_text(b, "a leak of ");
            put_size(b, v->needed_for);
            tide_buf_format(b, " per %s", per(j));
        } else
            tide_buf_text(b, "it");
    }
}

static void put_level(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_verdict *v = &j->verdict;
    tide_buf_text(b, "the floor stays at ");
    put_size(b, v->floor_last);
    if (isfinite(v->detectable) && v->detectable > 0) {
        tide_buf_text(b, "; a leak above ");
        put_size(b, fmax(v->detectable, 0.1)); /* below that the text would say 0.0 B */
        tide_buf_format(b, " per %s would have shown", per(j));
    }
}

/* "12 of about +4.1 GiB, all in phase "validation", all back to the floor" */
static void put_spikes(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_spikes *s = &j->verdict.spikes;
    tide_buf_format(b, "%zu of %s+", s->count, s->count == 1 ? "" : "about ");
    put_size(b, s->typical_bytes);
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
    const struct tide_verdict *v = &j->verdict;
    tide_buf_text(b, "+");
    put_size(b, v->jump_bytes);
    tide_buf_text(b, " at once, ");
    if (v->jump_x - v->jump_after > 1 && !j->jump_mark[0] && j->x_is_steps) {
        tide_buf_text(b, "between ");
        put_place(b, j, v->jump_after);
        tide_buf_text(b, " and ");
    } else
        tide_buf_text(b, "at ");
    put_place(b, j, v->jump_x);
    if (j->jump_mark[0])
        tide_buf_format(b, " (%s)", j->jump_mark);
    tide_buf_text(b, ", level before and after");
}

/* What the floor did: the middle of the sentence and the first line of evidence. */
static void put_floor(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    enum tide_verdict_kind kind = j->verdict.kind;
    if (kind == TIDE_RETENTION) /* said as what it looks like from outside */
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

/* ------------------------------------------------------------------------------------------------ retention
 */

/* "what the program holds is flat at 12.3 MiB (at most 3 KiB more per step): 98 of 112 MiB are not live" */
static void put_live(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_retention *r = &j->retention;
    if (!r->live_is_flat) {
        tide_buf_text(b, "what the program holds grew by ");
        put_size(b, r->live_growth);
        tide_buf_format(b, ", %.0f %% of that", 100 * r->live_growth / j->verdict.growth_bytes);
        if (j->kept.free_bytes > 0) {
            tide_buf_text(b, "; malloc keeps ");
            put_size(b, j->kept.free_bytes);
            tide_buf_text(b, " free beside it");
        }
        return;
    }
    if (r->crest_rises) {
        tide_buf_text(
            b, "what the program holds rises with it for a while in each step and is given back: up to ");
        put_size(b, r->crest_last);
        tide_buf_text(b, " at the most, ");
        put_size(b, r->crest_first);
        tide_buf_text(b, " in the beginning");
        return;
    }
    if (r->managed) {
        tide_buf_text(b, "what the program has taken is flat at ");
        put_size(b, r->live_bytes);
        tide_buf_text(b, ", but most of it is a runtime's own heap, and what is live in that is not known");
        return;
    }
    tide_buf_text(b, "what the program holds is flat");
    if (r->live_high > 0) {
        tide_buf_text(b, " (at most ");
        put_size(b, r->live_high);
        tide_buf_format(b, " more per %s)", per(j));
    }
    tide_buf_text(b, ": ");
    put_size(b, r->live_bytes);
    if (r->not_live_bytes <= 0) {
        tide_buf_text(b, " live, more than is resident: pages of old blocks are touched only now");
        return;
    }
    tide_buf_text(b, " live, ");
    put_size(b, r->not_live_bytes);
    tide_buf_text(b, " not");
}

/* Where most of what is free lies decides what can be done about it. */
static enum tide_kept_where kept_where(const struct tide_kept *k)
{
    if (isnan(k->free_bytes))
        return TIDE_KEPT_UNKNOWN;
    if (k->top_bytes >= k->free_bytes / 2)
        return TIDE_KEPT_AT_THE_END;
    return k->trim_low >= k->free_bytes / 2 ? TIDE_KEPT_IN_PAGES : TIDE_KEPT_IN_HOLES;
}

static void put_kept(struct tide_buf *b, const struct tide_judged *j)
{
    const struct tide_kept *k = &j->kept;
    char pieces[TIDE_UNITS_TEXT];
    if (isnan(k->free_bytes)) {
        tide_buf_text(
            b, "another allocator than the C library's serves the program: what it keeps free, and what it "
               "would give back, is not known");
        return;
    }
    tide_buf_text(b, "malloc has ");
    put_size(b, k->free_bytes);
    tide_buf_format(b, " free in %s piece%s; malloc_trim(0) would give back ",
                    tide_count_text(k->pieces, pieces), k->pieces == 1 ? "" : "s");
    if (k->trim_low < 0.9 * k->trim_high) {
        put_size(b, k->trim_low);
        tide_buf_text(b, " to ");
    } else
        tide_buf_text(b, "at most ");
    put_size(b, k->trim_high);
}

/* What to do about it, in the order of what it costs the user. */
static void put_remedy(struct tide_buf *b, const struct tide_judged *j)
{
    const char *trim = j->python ? "ctypes.CDLL(None).malloc_trim(0)" : "malloc_trim(0)";
    switch (kept_where(&j->kept)) {
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

/* What is live is said where it does not explain what memory did. */
static bool is_live_said(const struct tide_judged *j)
{
    const double explains = 0.8;
    bool partly = j->verdict.kind == TIDE_LEAK && j->retention.live_growth > 0 &&
                  j->retention.live_growth < explains * j->verdict.growth_bytes;
    return j->live_known && (j->retention.live_is_flat || partly);
}

/* Under a leak whose bytes nobody holds and the allocator does not keep either. */
static void put_elsewhere(struct tide_buf *b)
{
    tide_buf_text(
        b,
        ", and the allocator does not keep it: look for memory mapped past the C library, stacks of threads "
        "that were never joined, shared memory, a driver, or pages of an old block that are touched only now");
}

/* "+33.4 MiB per epoch (95 % interval 28.0 MiB..38.8 MiB), from 70 MiB to 370 MiB in 10 epochs" */
static void put_crest(struct tide_buf *b, const struct tide_crest *c)
{
    tide_buf_text(b, "+");
    put_size(b, c->per_epoch);
    tide_buf_text(b, " per epoch (95 % interval ");
    put_size(b, c->low);
    tide_buf_text(b, "..");
    put_size(b, c->high);
    tide_buf_text(b, "), from ");
    put_size(b, fmax(c->first_bytes, 0));
    tide_buf_text(b, " to ");
    put_size(b, c->last_bytes);
    tide_buf_format(b, " in %zu epochs", c->epochs);
    if (c->phase[0])
        tide_buf_format(b, ", in phase \"%s\"", c->phase);
    tide_buf_text(b, "; given back in between");
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

static void put_limit(struct tide_buf *b, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_verdict *v = &j->verdict;
    char from[TIDE_UNITS_TEXT], to[TIDE_UNITS_TEXT];
    double limit = j->subject == TIDE_SUBJECT_GPU ? j->limit_bytes : a->limit_bytes;
    bool typed = j->subject != TIDE_SUBJECT_GPU && !strcmp(a->limit_name, "--limit");
    tide_buf_text(b, typed ? tide_typed_size_text(limit, from) : tide_size_text(limit, from));
    if (a->limit_name[0] && j->subject != TIDE_SUBJECT_GPU)
        tide_buf_format(b, " (%s)", a->limit_name);
    bool sooner =
        v->shape == TIDE_SHAPE_ACCELERATING; /* the forecast goes on at the rate of the last third */
    bool reached = v->limit_x <= v->x_last;
    tide_buf_text(b, reached  ? would(a, " is reached now, ", " was reached at ")
                     : sooner ? would(a, " is reached before ", " would have been reached before ")
                              : would(a, " is reached at ", " would have been reached at "));
    put_place(b, j, v->limit_x);
    if (!isfinite(j->seconds_per_step) || reached)
        return;
    double seconds = (v->limit_x - v->x_last) * j->seconds_per_step,
           low = (v->limit_x_low - v->x_last) * j->seconds_per_step;
    double high = (v->limit_x_high - v->x_last) * j->seconds_per_step;
    tide_duration_text(seconds, from);
    if (a->has_ended)
        tide_buf_format(b, ", %s %s after the end", sooner ? "less than" : "about", from);
    else
        tide_buf_format(b, sooner ? ", in less than %s" : ", in about %s", from);
    if (sooner)
        return;
    tide_duration_text(low, from);
    tide_duration_text(high, to);
    if (!isfinite(high))
        tide_buf_format(b, " (%s or more)", from);
    else if (strcmp(from, to))
        tide_buf_format(b, " (%s..%s)", from, to);
}

static void take_text(struct tide_buf *b, char *out, size_t size)
{
    snprintf(out, size, "%s", tide_buf_view(b));
    tide_buf_release(b);
}

void tide_judged_sentence(const struct tide_judged *judged, const struct tide_assessment *assessment,
                          char *out, size_t size)
{
    struct tide_buf b;
    tide_buf_init(&b, 4 * LINE);
    put_headline(&b, judged);
    tide_buf_text(&b, ": ");
    if (judged->crest.epochs) {
        put_crest(&b, &judged->crest);
        take_text(&b, out, size);
        return;
    }
    put_floor(&b, judged, assessment);
    if (judged->verdict.kind == TIDE_RETENTION) {
        tide_buf_text(&b, "; nobody holds it: the allocator keeps what was given back");
        if (isfinite(judged->kept.trim_high) && judged->live_known) {
            tide_buf_text(&b, ", malloc_trim would release at most ");
            put_size(&b, judged->kept.trim_high);
        }
    }
    if (judged->verdict.kind == TIDE_SPIKES) {
        tide_buf_text(&b, "; spikes: ");
        put_spikes(&b, judged, assessment);
    }
    take_text(&b, out, size);
}

/* Why the axis is time, and what would give steps. */
static void put_steps(struct tide_buf *b, const struct tide_assessment *a)
{
    if (a->steps_in_bursts)
        tide_buf_text(b, "came in bursts, as from an output that is buffered, so time is the axis: flush it "
                         "(PYTHONUNBUFFERED=1)");
    else if (a->steps_told == 0)
        tide_buf_text(b, "none were found, so time is the axis: print 'step 12', or '12/100 loss 0.3'; or "
                         "tidemark.step(12) in Python, tide_step(12) in C; or --step-regex");
    else if (a->steps_told > 0 && isnan(a->steps))
        tide_buf_format(b, "too few were told (%lld), so time is the axis", (long long)a->steps_told);
}

void tide_assessment_sentence(const struct tide_assessment *a, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    if (a->death.cause != TIDE_DEATH_NONE) {
        tide_death_sentence(&a->death, out, size);
        used = strlen(out);
        used += (size_t)snprintf(out + used, size - used, "; ");
    }
    if (used < size)
        tide_judged_sentence(&a->judged[0], a, out + used, size - used);
}

static void print_line(FILE *out, const char *label, struct tide_buf *b)
{
    if (b->len)
        fprintf(out, "  %-7s %s\n", label, tide_buf_view(b));
    tide_buf_clear(b);
}

void tide_assessment_print(const struct tide_assessment *a, const char *next, FILE *out)
{
    const struct tide_judged *j = &a->judged[0];
    struct tide_buf b;
    tide_buf_init(&b, 4 * LINE);
    put_headline(&b, j);
    if (a->death.cause != TIDE_DEATH_NONE) {
        char death[LINE];
        fprintf(out, "tidemark: %s\n", tide_death_sentence(&a->death, death, sizeof death));
        print_line(out, "verdict", &b);
    } else
        fprintf(out, "tidemark: %s\n", tide_buf_view(&b));
    tide_buf_clear(&b);
    if (j->crest.epochs)
        put_crest(&b, &j->crest);
    else
        put_floor(&b, j, a);
    print_line(out, j->crest.epochs ? "peaks" : "floor", &b);
    if (j->verdict.spikes.count && !j->crest.epochs) {
        put_spikes(&b, j, a);
        print_line(out, "spikes", &b);
    }
    if (j->shared && tide_verdict_grows(&j->verdict)) {
        tide_buf_text(&b,
                      "unlink segments (ls /dev/shm) and close memfds (ls -l /proc/PID/fd): unmapping them "
                      "does not free them");
        print_line(out, "try", &b);
    }
    if (is_live_said(j)) {
        put_live(&b, j);
        if (j->retention.live_is_flat && !j->retention.crest_rises && !j->retention.managed &&
            j->retention.not_live_bytes > 0 && !j->retention.retains)
            put_elsewhere(&b);
        print_line(out, "live", &b);
    }
    if (j->live_known && j->verdict.kind == TIDE_RETENTION) {
        put_kept(&b, j);
        print_line(out, "kept", &b);
        put_remedy(&b, j);
        print_line(out, "try", &b);
    }
    tide_buf_text(&b, a->others);
    print_line(out, "others", &b);
    if (j->subject == TIDE_SUBJECT_TREE && a->pss_known < 0.995) {
        tide_buf_format(
            &b, "pages once where PSS is known (%.0f %% of the tree), the rest as RSS: an upper bound",
            100 * a->pss_known);
        print_line(out, "counts", &b);
    }
    tide_buf_text(&b, a->evidence);
    print_line(out, "gauge", &b);
    if (isfinite(j->verdict.limit_x) && a->death.cause != TIDE_DEATH_OOM) {
        put_limit(&b, j, a);
        print_line(out, "limit", &b);
    }
    if (a->gap_seconds > 0) {
        char lasted[TIDE_UNITS_TEXT], from[TIDE_UNITS_TEXT];
        tide_buf_format(
            &b, "nothing was recorded for %s, from %s after the start on: the recording could not be written",
            tide_duration_text(a->gap_seconds, lasted), tide_duration_text(a->gap_from, from));
        print_line(out, "gap", &b);
    }
    put_steps(&b, a);
    print_line(out, "steps", &b);
    if (next)
        tide_buf_text(&b, next);
    print_line(out, "next", &b);
    tide_buf_release(&b);
}

void tide_assessment_brief(const struct tide_assessment *a, char *out, size_t size)
{
    const struct tide_judged *j = &a->judged[0];
    const struct tide_verdict *v = &j->verdict;
    char rate[TIDE_UNITS_TEXT], left[TIDE_UNITS_TEXT];
    struct tide_buf b;
    tide_buf_init(&b, LINE);
    if (j->crest.epochs)
        tide_buf_format(&b, "peaks +%s/epoch", tide_size_text(j->crest.per_epoch, rate));
    else if (tide_verdict_grows(v))
        tide_buf_format(&b, "%s: floor +%s/%s", tide_verdict_name(v->kind), tide_size_text(v->slope, rate),
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
        tide_buf_format(&b, ", limit in %s", tide_duration_text(left_s, left));
    take_text(&b, out, size);
}

/* ---------------------------------------------------------------------------------------------------- JSON
 */

static const char *subject_name(enum tide_subject subject)
{
    static const char *const names[] = {"process", "role", "tree", "gpu", "gauge", "column"};
    return names[subject];
}

static void json_crest(struct tide_json *json, const struct tide_crest *c)
{
    if (c->epochs == 0)
        return;
    tide_json_object(json, "rising_peaks");
    tide_json_integer(json, "epochs", (int64_t)c->epochs);
    tide_json_whole(json, "bytes_per_epoch", c->per_epoch);
    tide_json_whole(json, "bytes_per_epoch_low", c->low);
    tide_json_whole(json, "bytes_per_epoch_high", c->high);
    tide_json_whole(json, "first_bytes", fmax(c->first_bytes, 0));
    tide_json_whole(json, "last_bytes", c->last_bytes);
    tide_json_text(json, "phase", c->phase[0] ? c->phase : NULL);
    tide_json_end(json);
}

static void json_judged(struct tide_json *json, const struct tide_judged *j, const struct tide_assessment *a)
{
    const struct tide_verdict *v = &j->verdict;
    char sentence[2 * LINE];
    tide_judged_sentence(j, a, sentence, sizeof sentence);
    bool steps = j->x_is_steps;
    tide_json_text(json, "verdict", tide_verdict_name(v->kind));
    tide_json_text(json, "shape", tide_shape_name(v->shape));
    tide_json_text(json, "subject", j->shared ? "shared memory" : subject_name(j->subject));
    tide_json_text(json, "name", j->name);
    tide_json_whole(json, "pid", j->pid > 0 ? (double)j->pid : NAN);
    tide_json_text(json, "axis", steps ? "step" : "second");
    tide_json_text(json, "sentence", sentence);
    tide_json_real(json, "confidence", v->confidence);
    tide_json_real(json, "bytes_per_step", steps ? v->slope : NAN);
    tide_json_real(json, "bytes_per_step_low", steps ? v->slope_low : NAN);
    tide_json_real(json, "bytes_per_step_high", steps ? v->slope_high : NAN);
    tide_json_real(json, "bytes_per_second", steps ? NAN : v->slope);
    tide_json_real(json, "bytes_per_second_low", steps ? NAN : v->slope_low);
    tide_json_real(json, "bytes_per_second_high", steps ? NAN : v->slope_high);
    tide_json_whole(json, "growth_bytes", v->kind == TIDE_UNDECIDED ? NAN : v->growth_bytes);
    tide_json_whole(json, "floor_first_bytes", v->floor_first);
    tide_json_whole(json, "floor_last_bytes", v->floor_last);
    tide_json_whole(json, "peak_bytes", v->peak);
    tide_json_real(json, "knee_step", steps ? v->knee_x : NAN);
    tide_json_real(json, "knee_second", steps ? NAN : v->knee_x);
    tide_json_whole(json, "ceiling_bytes", v->ceiling_bytes);
    tide_json_whole(json, "bytes_per_item", v->bytes_per_item);
    tide_json_bool(json, "one_pass", v->one_pass);
    tide_json_real(json, "jump_step", steps ? v->jump_x : NAN);
    tide_json_real(json, "jump_second", steps ? NAN : v->jump_x);
    tide_json_real(json, "jump_after_step", steps ? v->jump_after : NAN);
    tide_json_whole(json, "jump_bytes", v->jump_bytes);
    tide_json_text(json, "jump_mark", j->jump_mark[0] ? j->jump_mark : NULL);
    tide_json_real(json, "stair_period", v->stair_period);
    static const char *const stairs_at[] = {NULL, "epoch", "phase"};
    tide_json_text(json, "stairs_at", stairs_at[v->stairs_at]);
    tide_json_whole(json, "limit_bytes", j->subject == TIDE_SUBJECT_GPU ? j->limit_bytes : a->limit_bytes);
    tide_json_whole(json, "limit_step", steps ? v->limit_x : NAN);
    tide_json_whole(json, "limit_second", steps ? NAN : v->limit_x);
    tide_json_whole(json, "seconds_to_limit", (v->limit_x - v->x_last) * j->seconds_per_step);
    tide_json_whole(json, "steps_needed", steps ? v->steps_needed : NAN);
    tide_json_whole(json, "seconds_needed", steps ? NAN : v->steps_needed);
    tide_json_real(json, "needed_for_bytes_per_step", steps ? v->needed_for : NAN);
    tide_json_real(json, "needed_for_bytes_per_second", steps ? NAN : v->needed_for);
    tide_json_real(json, "detectable_bytes_per_step", steps ? v->detectable : NAN);
    tide_json_real(json, "detectable_bytes_per_second", steps ? NAN : v->detectable);
    tide_json_whole(json, "warmup_ends", v->start_x);
    tide_json_integer(json, "samples", (int64_t)j->count);
    static const char *const where[] = {[TIDE_KEPT_UNKNOWN] = NULL,
                                        [TIDE_KEPT_AT_THE_END] = "end of the heap",
                                        [TIDE_KEPT_IN_PAGES] = "whole pages",
                                        [TIDE_KEPT_IN_HOLES] = "holes"};
    const struct tide_retention *r = j->live_known ? &j->retention : NULL;
    const struct tide_kept *k = j->live_known ? &j->kept : NULL;
    tide_json_bool(json, "bounded",
                   v->kind == TIDE_PLATEAU || (v->kind == TIDE_RETENTION && !tide_verdict_grows(v)));
    tide_json_whole(json, "live_bytes", r ? r->live_bytes : NAN);
    tide_json_whole(json, "not_live_bytes", r ? r->not_live_bytes : NAN);
    tide_json_real(json, "live_bytes_per_step", r && steps ? r->live_per_x : NAN);
    tide_json_real(json, "live_bytes_per_step_low", r && steps ? r->live_low : NAN);
    tide_json_real(json, "live_bytes_per_step_high", r && steps ? r->live_high : NAN);
    tide_json_real(json, "live_bytes_per_second", r && !steps ? r->live_per_x : NAN);
    tide_json_whole(json, "allocator_free_bytes", k ? k->free_bytes : NAN);
    tide_json_text(json, "allocator_free_in", k ? where[kept_where(k)] : NULL);
    tide_json_whole(json, "trim_bytes_low", k ? k->trim_low : NAN);
    tide_json_whole(json, "trim_bytes_high", k ? k->trim_high : NAN);
    tide_json_object(json, "spikes");
    tide_json_integer(json, "count", (int64_t)v->spikes.count);
    tide_json_whole(json, "typical_bytes", v->spikes.count ? v->spikes.typical_bytes : NAN);
    tide_json_whole(json, "largest_bytes", v->spikes.count ? v->spikes.largest_bytes : NAN);
    tide_json_integer(json, "returned", (int64_t)v->spikes.returned);
    tide_json_text(json, "phase", j->phase[0] ? j->phase : NULL);
    tide_json_end(json);
    json_crest(json, &j->crest);
}

void tide_assessment_json(const struct tide_assessment *a, const char *source, FILE *out)
{
    struct tide_json json;
    tide_json_init(&json, out, false);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "schema", "tidemark.verdict/1");
    tide_json_text(&json, "source", source);
    tide_death_json(&json, &a->death);
    json_judged(&json, &a->judged[0], a);
    tide_json_real(&json, "pss_known_share", a->pss_known);
    tide_json_text(&json, "limit_name", isfinite(a->limit_bytes) ? a->limit_name : NULL);
    tide_json_text(&json, "others", a->others[0] ? a->others : NULL);
    tide_json_real(&json, "gap_seconds", a->gap_seconds > 0 ? a->gap_seconds : NAN);
    tide_json_text(&json, "evidence", a->evidence[0] ? a->evidence : NULL);
    tide_json_array(&json, "series");
    for (size_t i = 0; i < a->count; i++) {
        tide_json_object(&json, NULL);
        json_judged(&json, &a->judged[i], a);
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_json_end(&json);
}
