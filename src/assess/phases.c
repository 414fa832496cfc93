#include "assess/phases.h"
#include "base/map.h"

/* The walk over the marks of a history. */
struct walk {
    const struct tide_history *h;
    struct tide_phases *phases;
    size_t ended;
    struct tide_map open; /* process and name -> index + 1 of the innermost phase that runs; 0: none */
    size_t *outer;        /* per phase: the same for the phase around it */
};

static bool is_phase(const struct tide_history *h, const struct tide_history_mark *m)
{
    return (m->kind == TIDE_MARK_PHASE_BEGIN || m->kind == TIDE_MARK_PHASE_END) && m->name >= 0 &&
           (size_t)m->name < h->name_count;
}

static int begin(struct walk *w, const struct tide_history_mark *m, uint64_t key)
{
    struct tide_phases *p = w->phases;
    uint64_t around = 0;
    bool known = tide_map_get(&w->open, key, &around);
    if (around && p->all[around - 1].to_ns == INT64_MAX)
        p->all[around - 1].to_ns = m->t_ns; /* until its own end mark comes, if any */
    w->outer[p->count] = around;
    p->all[p->count++] = (struct tide_phase){
        .from_ns = m->t_ns, .to_ns = INT64_MAX, .process = m->process, .name = m->name, .first = !known};
    return tide_map_put(&w->open, key, p->count);
}

static int end(struct walk *w, const struct tide_history_mark *m, uint64_t key)
{
    uint64_t innermost = 0;
    if (!tide_map_get(&w->open, key, &innermost) || !innermost)
        return 0;
    struct tide_phase *phase = &w->phases->all[innermost - 1];
    phase->to_ns = m->t_ns;
    phase->ended = true;
    w->phases->by_end[w->ended++] = innermost - 1;
    return tide_map_put(&w->open, key, w->outer[innermost - 1]);
}

/* Ends phases without an end mark, the innermost first. */
static void end_the_rest(struct walk *w)
{
    struct tide_phases *p = w->phases;
    for (size_t i = p->count; i-- > 0;) {
        struct tide_phase *phase = &p->all[i];
        if (phase->ended)
            continue;
        p->by_end[w->ended++] = i;
        const struct tide_history_process *process = tide_history_process(w->h, phase->process);
        int64_t gone_ns = process ? process->row.ended_ns : TIDE_UNKNOWN;
        if (gone_ns != TIDE_UNKNOWN && gone_ns < phase->to_ns)
            phase->to_ns = gone_ns > phase->from_ns ? gone_ns : phase->from_ns;
    }
}

/* Joins phases of one name to stretches. newest: per name, the index + 1 of its last stretch. */
static void join(struct tide_phases *p, size_t *newest)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct tide_phase *phase = &p->all[i];
        struct tide_stretch *last = newest[phase->name] ? &p->stretches[newest[phase->name] - 1] : NULL;
        if (last && phase->from_ns < last->to_ns) {
            last->to_ns = phase->to_ns > last->to_ns ? phase->to_ns : last->to_ns;
            last->ended = last->ended && phase->ended;
            continue;
        }
        p->stretches[p->stretch_count] =
            (struct tide_stretch){phase->from_ns, phase->to_ns, phase->name, phase->ended};
        newest[phase->name] = ++p->stretch_count;
    }
}

int tide_phases_find(const struct tide_history *h, struct tide_arena *arena, struct tide_phases *ret_phases)
{
    size_t begins = 0;
    for (size_t i = 0; i < h->mark_count; i++)
        begins += h->marks[i].kind == TIDE_MARK_PHASE_BEGIN;
    struct tide_phases p = {.all = tide_arena_take(arena, begins + 1, sizeof *p.all),
                            .by_end = tide_arena_take(arena, begins + 1, sizeof *p.by_end),
                            .stretches = tide_arena_take(arena, begins + 1, sizeof *p.stretches)};
    struct walk w = {.h = h, .phases = &p, .outer = tide_arena_take(arena, begins + 1, sizeof *w.outer)};
    size_t *newest = tide_arena_take(arena, h->name_count + 1, sizeof *newest);
    if (!p.all || !p.by_end || !p.stretches || !w.outer || !newest)
        return -1;
    int bad = 0;
    tide_map_init(&w.open, begins + 1);
    for (size_t i = 0; i < h->mark_count && !bad; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        if (!is_phase(h, m))
            continue;
        uint64_t key = (uint64_t)m->process << 20 ^ (uint64_t)m->name;
        bad = m->kind == TIDE_MARK_PHASE_BEGIN ? begin(&w, m, key) : end(&w, m, key);
    }
    tide_map_release(&w.open);
    if (bad)
        return -1;
    end_the_rest(&w);
    join(&p, newest);
    *ret_phases = p;
    return 0;
}

bool tide_phase_runs(const struct tide_phase *phase, int64_t t_ns)
{
    return phase->from_ns <= t_ns && (t_ns < phase->to_ns || (t_ns == phase->to_ns && !phase->ended));
}

const struct tide_phase *tide_phases_at(const struct tide_phases *phases, int64_t process, int64_t t_ns)
{
    for (size_t i = phases->count; i-- > 0;)
        if ((process == 0 || phases->all[i].process == process) && tide_phase_runs(&phases->all[i], t_ns))
            return &phases->all[i];
    return NULL;
}
