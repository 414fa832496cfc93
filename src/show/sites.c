#include "show/sites.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

struct tide_sites_private {
    struct tide_arena arena; /* strings, frames of stacks */
    size_t max_bytes, used_bytes;
    size_t frame_capacity, site_capacity, state_capacity;
    int64_t *tick_ns; /* by tick id */
    size_t tick_capacity;
    uint32_t *stack_words; /* frames of all stacks, one after the other */
    size_t word_count, word_capacity;
    struct stack_place {
        size_t first, count;
    } * stacks; /* by stack id */
    size_t stack_capacity;
};

static int no_memory(struct tide_err *err)
{
    return tide_err_set(err, "the call stacks of the recording need more memory than they may have");
}

/* Makes room for entry number `index` of an array, within the maximum; what is new is zero. */
static int grow(struct tide_sites *s, void **array, size_t *capacity, size_t index, size_t size)
{
    if (index < *capacity)
        return 0;
    size_t wanted = *capacity ? *capacity : 64, bytes;
    while (wanted <= index)
        if (__builtin_mul_overflow(wanted, 2, &wanted))
            return -1;
    struct tide_sites_private *p = s->private;
    if (__builtin_mul_overflow(wanted, size, &bytes) || bytes > p->max_bytes ||
        p->used_bytes - *capacity * size > p->max_bytes - bytes)
        return -1;
    void *larger = realloc(*array, bytes);
    if (!larger)
        return -1;
    memset((char *)larger + *capacity * size, 0, bytes - *capacity * size);
    p->used_bytes += bytes - *capacity * size;
    *array = larger;
    *capacity = wanted;
    return 0;
}

struct loading {
    struct tide_sites *s;
    struct tide_err *err;
};

enum { IDS_MOST = 1 << 26 }; /* of frames, stacks, sites and ticks: a larger one is damage */

static int on_tick(void *context, const struct tide_tick *row)
{
    struct loading *l = context;
    struct tide_sites_private *p = l->s->private;
    if (row->id <= 0 || row->id >= IDS_MOST)
        return 0;
    void *array = p->tick_ns;
    if (grow(l->s, &array, &p->tick_capacity, (size_t)row->id, sizeof *p->tick_ns))
        return no_memory(l->err);
    p->tick_ns = array;
    p->tick_ns[row->id] = row->t_ns + 1; /* 0: no such tick */
    return 0;
}

static int on_frame(void *context, const struct tide_frame *row)
{
    struct loading *l = context;
    struct tide_sites *s = l->s;
    if (row->id <= 0 || row->id >= IDS_MOST)
        return 0;
    void *array = s->frames;
    if (grow(s, &array, &s->private->frame_capacity, (size_t)row->id - 1, sizeof *s->frames))
        return no_memory(l->err);
    s->frames = array;
    struct tide_frame *frame = &s->frames[row->id - 1];
    *frame = *row;
    struct tide_arena *arena = &s->private->arena;
    frame->function = tide_arena_text(arena, row->function, strlen(row->function));
    frame->file = tide_arena_text(arena, row->file, strlen(row->file));
    frame->module = tide_arena_text(arena, row->module, strlen(row->module));
    if (!frame->function || !frame->file || !frame->module)
        return no_memory(l->err);
    if ((size_t)row->id > s->frame_count)
        s->frame_count = (size_t)row->id;
    return 0;
}

static int on_stack(void *context, const struct tide_stack_row *row)
{
    struct loading *l = context;
    struct tide_sites_private *p = l->s->private;
    if (row->stack <= 0 || row->stack >= IDS_MOST || row->frame <= 0 ||
        (size_t)row->frame > l->s->frame_count)
        return 0;
    void *stacks = p->stacks, *words = p->stack_words;
    if (grow(l->s, &stacks, &p->stack_capacity, (size_t)row->stack, sizeof *p->stacks))
        return no_memory(l->err);
    p->stacks = stacks;
    if (grow(l->s, &words, &p->word_capacity, p->word_count, sizeof *p->stack_words))
        return no_memory(l->err);
    p->stack_words = words;
    struct stack_place *place = &p->stacks[row->stack];
    if (place->count == 0)
        place->first = p->word_count;
    if (place->first + place->count != p->word_count)
        return 0; /* rows of a stack come together; a stray one is damage */
    p->stack_words[p->word_count++] = (uint32_t)(row->frame - 1);
    place->count++;
    return 0;
}

static int on_site(void *context, const struct tide_site *row)
{
    struct loading *l = context;
    struct tide_sites *s = l->s;
    struct tide_sites_private *p = s->private;
    if (row->id <= 0 || row->id >= IDS_MOST)
        return 0;
    void *array = s->sites;
    if (grow(s, &array, &p->site_capacity, (size_t)row->id - 1, sizeof *s->sites))
        return no_memory(l->err);
    s->sites = array;
    struct tide_site_history *site = &s->sites[row->id - 1];
    site->row = *row;
    if (row->stack > 0 && (size_t)row->stack < p->stack_capacity && p->stacks[row->stack].count) {
        site->frames = p->stack_words + p->stacks[row->stack].first;
        site->frame_count = p->stacks[row->stack].count;
    }
    if ((size_t)row->id > s->site_count)
        s->site_count = (size_t)row->id;
    return 0;
}

static int on_site_sample(void *context, const struct tide_site_sample *row)
{
    struct loading *l = context;
    struct tide_sites *s = l->s;
    struct tide_sites_private *p = s->private;
    if (row->site <= 0 || (size_t)row->site > s->site_count || row->tick <= 0 ||
        (size_t)row->tick >= p->tick_capacity || !p->tick_ns[row->tick])
        return 0;
    struct tide_site_history *site = &s->sites[row->site - 1];
    void *points = site->points;
    if (grow(s, &points, &site->point_capacity, site->point_count, sizeof *site->points)) {
        s->truncated = true;
        return 1; /* enough */
    }
    site->points = points;
    site->points[site->point_count++] = (struct tide_site_point){
        p->tick_ns[row->tick] - 1, row->live_bytes, row->live_blocks, row->total_bytes, row->total_blocks};
    return 0;
}

static int on_state(void *context, const struct tide_heap_status *row)
{
    struct loading *l = context;
    struct tide_sites *s = l->s;
    void *array = s->states;
    if (grow(s, &array, &s->private->state_capacity, s->state_count, sizeof *s->states))
        return no_memory(l->err);
    s->states = array;
    s->states[s->state_count] = *row;
    s->states[s->state_count].state = tide_arena_text(&s->private->arena, row->state, strlen(row->state));
    if (!s->states[s->state_count].state)
        return no_memory(l->err);
    s->state_count++;
    return 0;
}

static int load(struct tide_sites *s, struct tide_reader *reader, struct tide_err *err)
{
    struct loading l = {s, err};
    if (tide_reader_each_frame(reader, 0, on_frame, &l, err) ||
        tide_reader_each_stack(reader, 0, on_stack, &l, err) ||
        tide_reader_each_site(reader, 0, on_site, &l, err) ||
        tide_reader_each_heap_state(reader, on_state, &l, err))
        return -1;
    if (s->site_count == 0)
        return 0;
    if (tide_reader_each_tick(reader, 0, on_tick, &l, err))
        return -1;
    return tide_reader_each_site_sample(reader, 0, on_site_sample, &l, err) < 0 ? -1 : 0;
}

int tide_sites_new(struct tide_reader *reader, size_t max_bytes, struct tide_sites **ret_sites,
                   struct tide_err *err)
{
    struct tide_sites *s = calloc(1, sizeof *s);
    struct tide_sites_private *p = calloc(1, sizeof *p);
    if (!s || !p) {
        free(s);
        free(p);
        return no_memory(err);
    }
    p->max_bytes = max_bytes ? max_bytes : (size_t)1 << 30;
    tide_arena_init(&p->arena, p->max_bytes);
    s->private = p;
    int status = tide_reader_begin(reader, err);
    if (status == 0) {
        status = load(s, reader, err);
        tide_reader_end(reader);
    }
    if (status) {
        tide_sites_free(s);
        return -1;
    }
    *ret_sites = s;
    return 0;
}

void tide_sites_free(struct tide_sites *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->site_count; i++)
        free(s->sites[i].points);
    free(s->frames);
    free(s->sites);
    free(s->states);
    free(s->private->tick_ns);
    free(s->private->stack_words);
    free(s->private->stacks);
    tide_arena_release(&s->private->arena);
    free(s->private);
    free(s);
}

const struct tide_site_point *tide_site_at(const struct tide_site_history *site, int64_t t_ns)
{
    size_t low = 0, high = site->point_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (site->points[middle].t_ns <= t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &site->points[low - 1] : NULL;
}
