#include "sense/heap_sites.h"

#include <stdlib.h>
#include <string.h>

enum {
    OWN_MOST = 2000,       /* sites of a process that get a row however small they are */
    OWN_BYTES = 64 * 1024, /* a site that holds this much gets a row in any case */
    SITES_MOST = 1 << 21,  /* rows kept for all tables together */
    ROWS_SPREAD = 64,      /* one look takes at most this part of the rows that may be written, */
    ROWS_LEAST = 64,       /* or this many */
    PATIENCE = 8,          /* looks to wait for the module of an address */
    BACKLOGS_MOST = 4096,  /* sites with a backlog: 5 MiB */
    STACK_ROWS = 512,      /* frames of one stack, inlined ones included; the outermost are cut off */
};

/* --- stacks -------------------------------------------------------------------------------------------- */

static int32_t find_frame(struct tide_heap_look *look, const struct tide_heap_table *table,
                          const struct tide_heap_site *site, uint64_t word, bool patient)
{
    if (word & TIDE_HEAP_PYTHON_BIT) {
        char file[TIDE_HEAP_STRING], name[TIDE_HEAP_STRING];
        uint32_t first_line, line = TIDE_HEAP_LINE_OF(word);
        if (tide_heap_table_code(table, TIDE_HEAP_CODE_OF(word), file, name, &first_line) != 0) {
            if (patient)
                return -2;
            file[0] = '\0', name[0] = '?', name[1] = '\0', line = first_line = 0;
        }
        return tide_heap_frames_python(look, file, name, line ? line : first_line);
    }
    const struct tide_heap_range *range =
        word ? tide_heap_table_module(table, word - 1, site->modules) : NULL;
    if (!range && patient)
        return -2;
    return tide_heap_frames_native(look->heap->frames, table->pid, range, word);
}

/* Returns the number of the frame of a stack word. -1: no room. -2: its module is not known yet. Stacks share
 * most of their frames, so each one is looked up once. */
static int32_t frame_of(struct tide_heap_look *look, const struct tide_heap_table *table,
                        const struct tide_heap_site *site, uint64_t word, bool patient)
{
    struct tide_heap_process *process = table->owner;
    struct {
        uint64_t word, modules;
    } about = {word, word & TIDE_HEAP_PYTHON_BIT ? 0 : site->modules};
    uint64_t key = tide_map_key(TIDE_MAP_SEED, &about, sizeof about), found;

    if (tide_map_get(&process->frames, key, &found))
        return (int32_t)found;
    int32_t number = find_frame(look, table, site, word, patient);
    if (number >= 0 && patient) /* final; if the map is full it is looked up again */
        (void)tide_map_put(&process->frames, key, (uint64_t)number);
    return number;
}

/* Asks for the symbols of a site's frames. False: not now. */
static bool begin_stack(struct tide_heap_look *look, const struct tide_heap_table *table,
                        const struct tide_heap_site *values, struct tide_heap_row *site, bool last)
{
    uint64_t words[TIDE_HEAP_DEPTH];
    int32_t numbers[TIDE_HEAP_DEPTH];
    size_t depth = tide_heap_table_stack(table, values, words);
    bool patient = !last && site->patience < PATIENCE;

    if (depth == 0)
        return false;
    for (size_t i = 0; i < depth; i++) {
        numbers[i] = frame_of(look, table, values, words[i], patient);
        if (numbers[i] == -2)
            site->patience++;
        if (numbers[i] < 0)
            return false;
    }
    site->frames = malloc(depth * sizeof *site->frames);
    if (!site->frames)
        return false;
    memcpy(site->frames, numbers, depth * sizeof *numbers);
    site->depth = (uint16_t)depth;
    site->state = TIDE_HEAP_WAITING;
    return true;
}

/* Collects the rows of the whole stack. 0: some are not there yet. */
static size_t collect_rows(const struct tide_heap_sense *heap, const struct tide_heap_row *site,
                           int64_t rows[STACK_ROWS])
{
    size_t used = 0;

    for (size_t i = 0; i < site->depth; i++) {
        int64_t first;
        size_t count = tide_heap_frames_rows(heap->frames, site->frames[i], &first);
        if (count == 0)
            return 0;
        for (size_t k = 0; k < count && used < STACK_ROWS; k++)
            rows[used++] = first + (int64_t)k;
    }
    return used;
}

/* Returns the id of the stack with these frames, writing the stack if it is new. */
static int64_t stack_of(struct tide_heap_look *look, const int64_t *rows, size_t count)
{
    uint64_t key = tide_map_key(TIDE_MAP_SEED, rows, count * sizeof *rows), found;
    int64_t id;

    if (tide_map_get(&look->heap->stacks, key, &found))
        return (int64_t)found;
    look->failed |= tide_writer_stack(look->writer, rows, count, &id, look->err) != 0;
    tide_map_put(&look->heap->stacks, key, (uint64_t)id); /* if the map is full the stack is written again */
    return id;
}

static int64_t write_site(struct tide_heap_look *look, int64_t process, uint16_t kind, int64_t stack)
{
    struct tide_site row = {.process = process, .kind = (enum tide_site_kind)kind, .stack = stack};
    int64_t id;

    look->failed |= tide_writer_site(look->writer, &row, &id, look->err) != 0;
    return id;
}

static bool same_numbers(const struct tide_site_sample *a, const struct tide_site_sample *b)
{
    return a->live_bytes == b->live_bytes && a->live_blocks == b->live_blocks &&
           a->total_bytes == b->total_bytes && a->total_blocks == b->total_blocks;
}

static void write_sample(struct tide_heap_look *look, const struct tide_site_sample *now)
{
    look->failed |= tide_writer_site_sample(look->writer, now, look->err) != 0;
    look->heap->rows -= 1;
}

static void write_own(struct tide_heap_look *look, struct tide_heap_row *site, struct tide_site_sample now)
{
    now.site = site->written.site;
    write_sample(look, &now);
    site->written = now;
}

static void drop_backlog(struct tide_heap_sense *heap, struct tide_heap_row *site)
{
    if (site->backlog)
        heap->backlogs--;
    free(site->backlog);
    site->backlog = NULL;
}

/* Symbols of a large library can take seconds. Keeps what a site holds until its stack is known. */
static void keep_in_backlog(struct tide_heap_look *look, struct tide_heap_row *site,
                            const struct tide_site_sample *now)
{
    struct tide_heap_backlog *kept = site->backlog;

    if (!kept && look->heap->backlogs < BACKLOGS_MOST && (kept = site->backlog = malloc(sizeof *kept))) {
        look->heap->backlogs++;
        kept->count = 0;
    }
    if (!kept || (kept->count > 0 && (kept->at[kept->count - 1].tick == look->tick ||
                                      same_numbers(&kept->at[kept->count - 1], now))))
        return;
    if (kept->count == TIDE_HEAP_BACKLOG) {
        kept->count /= 2;
        for (size_t i = 0; i < kept->count; i++)
            kept->at[i] = kept->at[2 * i + 1];
    }
    kept->at[kept->count++] = *now;
}

static void write_backlog(struct tide_heap_look *look, struct tide_heap_row *site)
{
    for (size_t i = 0; site->backlog && i < site->backlog->count; i++)
        if (site->backlog->at[i].tick < look->tick)
            write_own(look, site, site->backlog->at[i]);
    drop_backlog(look->heap, site);
}

/* Gives a site its row once all of its frames have theirs. */
static void complete_site(struct tide_heap_look *look, struct tide_heap_process *process,
                          const struct tide_heap_site *values, struct tide_heap_row *site)
{
    int64_t rows[STACK_ROWS];
    size_t count = collect_rows(look->heap, site, rows);

    if (count == 0)
        return;
    free(site->frames);
    site->frames = NULL;
    site->written.site = write_site(look, process->id, values->kind, stack_of(look, rows, count));
    site->state = TIDE_HEAP_OWN;
    write_backlog(look, site);
}

/* --- samples of sites ---------------------------------------------------------------------------------- */

/* Without the site's id. */
static struct tide_site_sample sample_of(const struct tide_heap_look *look,
                                         const struct tide_heap_table *table, size_t at)
{
    const struct tide_heap_site *values = &table->sites[at];
    return (struct tide_site_sample){.tick = look->tick,
                                     .live_bytes = table->replaced ? 0 : values->live_bytes,
                                     .live_blocks = table->replaced ? 0 : values->live_blocks,
                                     .total_bytes = values->total_bytes,
                                     .total_blocks = values->total_blocks};
}

static void add_to_rest(struct tide_heap_rest *rest, const struct tide_site_sample *now)
{
    rest->now.live_bytes = tide_bounded_sum(rest->now.live_bytes, now->live_bytes);
    rest->now.live_blocks = tide_bounded_sum(rest->now.live_blocks, now->live_blocks);
    rest->now.total_bytes = tide_bounded_sum(rest->now.total_bytes, now->total_bytes);
    rest->now.total_blocks = tide_bounded_sum(rest->now.total_blocks, now->total_blocks);
}

static int heaviest_first(const void *a, const void *b)
{
    const struct tide_heap_due *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->site > y->site) - (x->site < y->site);
}

static void write_due(struct tide_heap_look *look, const struct tide_heap_table *table,
                      struct tide_heap_process *process, size_t count, bool all)
{
    struct tide_heap_sense *heap = look->heap;
    size_t most = heap->rows > 0 ? (size_t)heap->rows / ROWS_SPREAD : 0;

    most = heap->rows >= 1 && most < ROWS_LEAST ? ROWS_LEAST : most;
    if (count > most && !all) {
        qsort(heap->due, count, sizeof *heap->due, heaviest_first);
        count = most;
    }
    for (size_t i = 0; i < count; i++)
        write_own(look, &process->sites[heap->due[i].site], sample_of(look, table, heap->due[i].site));
    /* The rows of a process that ends do not reduce the share of those that live. */
    heap->rows = heap->rows < 0 ? 0 : heap->rows;
}

static void write_rests(struct tide_heap_look *look, struct tide_heap_process *process)
{
    for (uint16_t kind = TIDE_SITE_MALLOC; kind < TIDE_SITE_KINDS; kind++) {
        struct tide_heap_rest *rest = &process->rest[kind];
        bool first = rest->written.site == 0;
        if (first && rest->now.total_blocks == 0)
            continue;
        rest->now.tick = look->tick;
        rest->now.site = first ? write_site(look, process->id, kind, 0) : rest->written.site;
        if (first || look->rewrite || !same_numbers(&rest->now, &rest->written))
            write_sample(look, &rest->now);
        rest->written = rest->now;
    }
}

static int64_t change_of(const struct tide_heap_row *site, const struct tide_site_sample *now)
{
    return site->written.tick == 0 ? INT64_MAX : llabs(now->live_bytes - site->written.live_bytes);
}

/* Moves a site to its next state. True if it has a row. */
static bool advance(struct tide_heap_look *look, const struct tide_heap_table *table,
                    struct tide_heap_process *process, size_t at)
{
    struct tide_heap_row *site = &process->sites[at];
    const struct tide_heap_site *values = &table->sites[at];

    if (site->state == TIDE_HEAP_OWN)
        return true;
    if (site->state != TIDE_HEAP_WAITING &&
        (process->own_count < OWN_MOST || values->live_bytes >= OWN_BYTES)) {
        if (begin_stack(look, table, values, site, table->ended))
            process->own_count++;
        else if (site->patience == 0 || site->patience >= PATIENCE || table->ended)
            site->state = TIDE_HEAP_SMALL;
    } else if (site->state == TIDE_HEAP_NEW) {
        site->state = TIDE_HEAP_SMALL;
    }
    if (site->state == TIDE_HEAP_WAITING)
        complete_site(look, process, values, site);
    return site->state == TIDE_HEAP_OWN;
}

static int hold_sites(struct tide_heap_sense *heap, struct tide_heap_process *process, size_t count)
{
    if (count <= process->site_count)
        return 0;
    if (heap->sites_held + (count - process->site_count) > SITES_MOST)
        return -1;
    struct tide_heap_row *sites = realloc(process->sites, count * sizeof *sites);
    if (!sites)
        return -1;
    memset(sites + process->site_count, 0, (count - process->site_count) * sizeof *sites);
    heap->sites_held += count - process->site_count;
    process->sites = sites;
    process->site_count = count;
    return 0;
}

bool tide_heap_sites_write(struct tide_heap_look *look, struct tide_heap_table *table,
                           struct tide_heap_process *process, bool all)
{
    size_t due = 0;
    bool complete = true;

    if (hold_sites(look->heap, process, table->site_count) != 0)
        table->site_count = process->site_count;
    for (int kind = 0; kind < TIDE_SITE_KINDS; kind++)
        process->rest[kind].now = (struct tide_site_sample){0};
    for (size_t i = 0; i < table->site_count; i++) {
        const struct tide_heap_site *values = &table->sites[i];
        struct tide_heap_row *site = &process->sites[i];
        if (!values->ready)
            continue;
        struct tide_site_sample now = sample_of(look, table, i);
        if (advance(look, table, process, i)) {
            if (site->written.tick == 0 || look->rewrite || !same_numbers(&site->written, &now))
                look->heap->due[due++] = (struct tide_heap_due){change_of(site, &now), (uint32_t)i};
        } else if (site->state == TIDE_HEAP_SMALL) {
            drop_backlog(look->heap, site);
            add_to_rest(&process->rest[values->kind], &now);
        } else {
            keep_in_backlog(look, site, &now);
            complete = false;
        }
    }
    write_due(look, table, process, due, all || look->rewrite);
    write_rests(look, process);
    return complete;
}

void tide_heap_sites_release(struct tide_heap_sense *heap, struct tide_heap_process *process)
{
    for (size_t i = 0; i < process->site_count; i++) {
        free(process->sites[i].frames);
        drop_backlog(heap, &process->sites[i]);
    }
    heap->sites_held -= process->site_count;
    tide_map_release(&process->frames);
    free(process->sites);
}
