#include "show/report/page_sites.h"
#include "assess/moment.h"
#include "base/map.h"
#include "base/text.h"
#include "base/units.h"
#include "show/text/stack_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABELS_MOST = 1 << 20, NODES_MOST = 1 << 22, LABEL_TEXT = 512, LABEL_SHOWN = 128 };

struct making {
    const struct tide_history *h;
    struct tide_arena *arena;
    struct tide_report_sites *out;
    struct tide_map label_by_hash; /* hash of the text -> index */
    struct tide_map child;         /* parent and label -> node */
    int32_t *label_by_frame;       /* label of each frame, + 1; 0: not made yet */
    struct tide_err *err;
};

static int no_memory(struct tide_err *err)
{
    return tide_err_set(err, "not enough memory to draw the call sites");
}

/* --- moments ----------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static size_t nearest(const struct tide_report_sites *s, int64_t t_ns)
{
    size_t best = 0;
    for (size_t i = 1; i < s->moment_count; i++)
        if (llabs(s->moments_ns[i] - t_ns) < llabs(s->moments_ns[best] - t_ns))
            best = i;
    return best;
}

static int choose_moments(struct making *m, struct tide_assessment *a, const int64_t *extra_ns,
                          size_t extra_count)
{
    const struct tide_history *h = m->h;
    struct tide_report_sites *s = m->out;
    int64_t from_ns, to_ns, peak_ns;
    tide_moment_training(h, a, &from_ns, &to_ns);
    if (tide_moment_peak(h, false, &peak_ns, m->err))
        return -1;
    s->moments_ns =
        tide_arena_take(m->arena, TIDE_REPORT_MOMENTS + TIDE_REPORT_EXTRA + 3, sizeof *s->moments_ns);
    if (!s->moments_ns)
        return no_memory(m->err);
    size_t n = 0, even = h->tick_count < TIDE_REPORT_MOMENTS ? h->tick_count : TIDE_REPORT_MOMENTS;
    for (size_t i = 0; i < even; i++)
        s->moments_ns[n++] = h->ticks[even > 1 ? i * (h->tick_count - 1) / (even - 1) : 0].t_ns;
    size_t stride = extra_count / TIDE_REPORT_EXTRA + 1;
    for (size_t i = 0; i < extra_count; i += stride)
        s->moments_ns[n++] = extra_ns[i];
    s->moments_ns[n++] = from_ns;
    s->moments_ns[n++] = to_ns;
    s->moments_ns[n++] = peak_ns;
    qsort(s->moments_ns, n, sizeof *s->moments_ns, by_time);
    for (size_t i = 0; i < n; i++)
        if (s->moment_count == 0 || s->moments_ns[i] > s->moments_ns[s->moment_count - 1])
            s->moments_ns[s->moment_count++] = s->moments_ns[i];
    s->first = nearest(s, from_ns);
    s->last = nearest(s, to_ns);
    s->peak = nearest(s, peak_ns);
    return 0;
}

/* --- the tree ---------------------------------------------------------------------------------------- */

/* Returns the index of a label, adding it if it is new; -1: out of memory. */
static int32_t label_of(struct making *m, const char *text, enum tide_report_label_kind kind)
{
    struct tide_report_sites *s = m->out;
    uint64_t key = tide_map_key(TIDE_MAP_SEED ^ (uint64_t)kind, text, strlen(text)), found;
    for (; tide_map_get(&m->label_by_hash, key, &found); key++)
        if (s->labels[found].kind == kind && !strcmp(s->labels[found].text, text))
            return (int32_t)found;
    char *copy = tide_arena_text(m->arena, text, strlen(text));
    if (!copy || tide_map_put(&m->label_by_hash, key, s->label_count))
        return no_memory(m->err);
    s->labels[s->label_count] = (struct tide_report_label){copy, kind};
    return (int32_t)s->label_count++;
}

/* Returns the child of a node with that label, adding it if it is new; -1: out of memory. */
static int32_t child_of(struct making *m, int32_t parent, int32_t label)
{
    struct tide_report_sites *s = m->out;
    uint64_t key = (uint64_t)(uint32_t)(parent + 1) << 32 | (uint32_t)label, found;
    if (label < 0)
        return -1;
    if (tide_map_get(&m->child, key, &found))
        return (int32_t)found;
    if (tide_map_put(&m->child, key, s->node_count))
        return no_memory(m->err);
    s->nodes[s->node_count] = (struct tide_report_node){parent, label};
    return (int32_t)s->node_count++;
}

static int32_t process_node(struct making *m, const struct tide_history_site *site)
{
    char name[TIDE_SITE_PROCESS];
    tide_site_process_name(m->h, site, name, sizeof name);
    return child_of(m, -1, label_of(m, name, TIDE_LABEL_PROCESS));
}

static enum tide_report_label_kind kind_of(const struct tide_frame *f)
{
    if (f->python)
        return tide_frame_is_own(f) ? TIDE_LABEL_PYTHON : TIDE_LABEL_PYTHON_LIBRARY;
    return tide_frame_is_own(f) ? TIDE_LABEL_SOURCE : TIDE_LABEL_NATIVE;
}

/* Returns the label of a frame, which is made once. */
static int32_t frame_label(struct making *m, const struct tide_frame *f)
{
    int32_t *known = &m->label_by_frame[f - m->h->frames];
    if (*known)
        return *known - 1;
    struct tide_buf b = TIDE_BUF_HERE(LABEL_TEXT);
    tide_frame_put(&b, f, false);
    char shown[LABEL_SHOWN];
    tide_text_escape(tide_buf_view(&b), b.len, shown, sizeof shown);
    int32_t label = label_of(m, shown, kind_of(f));
    *known = label + 1;
    return label;
}

static int32_t stack_node(struct making *m, const struct tide_history_site *site)
{
    const struct tide_frame *frames[TIDE_STACK_SHOWN];
    size_t count = tide_stack_choose(m->h, site->stack, TIDE_STACK_SHOWN, frames);
    int32_t node = process_node(m, site);
    if (count == 0)
        node = child_of(
            m, node,
            label_of(m, site->stack ? "code without a name" : "many small sites together", TIDE_LABEL_REST));
    for (size_t i = 0; i < count && node >= 0; i++)
        node = child_of(m, node, frame_label(m, frames[i]));
    return node;
}

/* --- which sites ------------------------------------------------------------------------------------- */

struct ranked {
    const struct tide_history_site *site;
    double weight;
    bool culprit;
};

static int heavier_first(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;
    if (left->culprit != right->culprit)
        return left->culprit ? -1 : 1;
    if (left->weight != right->weight)
        return left->weight < right->weight ? 1 : -1;
    return (left->site->id > right->site->id) - (left->site->id < right->site->id);
}

static double most_of(const struct making *m, const struct tide_history_site *site)
{
    double most = 0;
    for (size_t i = 0; i < m->out->moment_count; i++)
        most = fmax(most, tide_moment_live(m->h, site, m->out->moments_ns[i], NULL));
    return most;
}

static bool is_of(const struct tide_culprit *c, const struct tide_history_site *site)
{
    for (size_t i = 0; i < c->caller_count; i++)
        if (c->callers[i].site == site)
            return true;
    return c->site == site;
}

static void mark_culprits(const struct tide_blame *blame, struct ranked *list, size_t count)
{
    for (size_t i = 0; blame && i < blame->count; i++)
        for (size_t k = 0; k < count; k++)
            if (is_of(&blame->culprits[i], list[k].site))
                list[k].culprit = true;
}

static int add_values(struct making *m, const struct tide_history_site *site, struct tide_report_site *to)
{
    const struct tide_report_sites *s = m->out;
    if (!to->values)
        to->values = tide_arena_take(m->arena, s->moment_count, sizeof *to->values);
    if (!to->values)
        return no_memory(m->err);
    for (size_t i = 0; i < s->moment_count; i++)
        to->values[i] =
            (int64_t)fmin((double)to->values[i] + tide_moment_live(m->h, site, s->moments_ns[i], NULL),
                          (double)TIDE_EXACT_MOST);
    to->growth += tide_moment_growth(site, s->moments_ns[s->first], s->moments_ns[s->last]);
    to->merged++;
    return 0;
}

/* Returns the site that stands for the rest of the process's sites; NULL: out of memory. */
static struct tide_report_site *rest_of(struct making *m, const struct tide_history_site *site)
{
    struct tide_report_sites *s = m->out;
    int32_t node = child_of(m, process_node(m, site), label_of(m, "other call sites", TIDE_LABEL_REST));
    if (node < 0)
        return NULL;
    for (size_t i = s->site_count; i-- > 0;)
        if (s->sites[i].node == node && s->sites[i].kind == site->kind)
            return &s->sites[i];
    s->sites[s->site_count] = (struct tide_report_site){.node = node, .kind = site->kind};
    return &s->sites[s->site_count++];
}

static int take_sites(struct making *m, const struct ranked *list, size_t count, size_t most)
{
    struct tide_report_sites *s = m->out;
    /* A label of each frame and process, and the three for what has no frames; a node of each frame that is
     * shown, and of each process its own and those three. */
    size_t processes = m->h->process_count + 1, stacks = count < most ? count : most;
    s->sites = tide_arena_take(m->arena, count + 1, sizeof *s->sites);
    s->labels = tide_arena_take(m->arena, m->h->frame_count + processes + 3, sizeof *s->labels);
    s->nodes = tide_arena_take(m->arena, stacks * TIDE_STACK_SHOWN + 4 * processes, sizeof *s->nodes);
    if (!s->sites || !s->labels || !s->nodes)
        return no_memory(m->err);
    for (size_t i = 0; i < count; i++) {
        struct tide_report_site *to;
        if (i < most) {
            to = &s->sites[s->site_count++];
            *to = (struct tide_report_site){
                .node = stack_node(m, list[i].site), .kind = list[i].site->kind, .culprit = list[i].culprit};
            if (to->node < 0)
                return -1;
        } else {
            to = rest_of(m, list[i].site);
            s->left_out++;
        }
        if (!to || add_values(m, list[i].site, to))
            return -1;
    }
    return 0;
}

static int make(struct making *m, const struct tide_blame *blame, size_t most)
{
    struct ranked *list = tide_arena_take(m->arena, m->h->site_count + 1, sizeof *list);
    m->label_by_frame = tide_arena_take(m->arena, m->h->frame_count + 1, sizeof *m->label_by_frame);
    if (!list || !m->label_by_frame)
        return no_memory(m->err);
    size_t count = 0;
    for (size_t i = 0; i < m->h->site_count; i++)
        if (m->h->sites[i].id != 0 && m->h->sites[i].point_count > 0)
            list[count++] = (struct ranked){&m->h->sites[i], most_of(m, &m->h->sites[i]), false};
    mark_culprits(blame, list, count);
    qsort(list, count, sizeof *list, heavier_first);
    while (count > 0 && list[count - 1].weight <= 0 && !list[count - 1].culprit)
        count--; /* held nothing at any of the moments */
    return take_sites(m, list, count, most);
}

int tide_report_sites_make(const struct tide_history *history, struct tide_assessment *assessment,
                           const struct tide_blame *blame, const int64_t *extra_ns, size_t extra_count,
                           size_t most, struct tide_arena *arena, struct tide_report_sites *ret_sites,
                           struct tide_err *err)
{
    struct tide_report_sites sites = {0};
    struct making m = {.h = history, .arena = arena, .out = &sites, .err = err};
    tide_map_init(&m.label_by_hash, LABELS_MOST);
    tide_map_init(&m.child, NODES_MOST);
    int bad = choose_moments(&m, assessment, extra_ns, extra_count) || make(&m, blame, most);
    tide_map_release(&m.label_by_hash);
    tide_map_release(&m.child);
    if (bad)
        return -1;
    *ret_sites = sites;
    return 0;
}
