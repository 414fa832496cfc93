/*
 * heap_sense.c - see heap_sense.h.
 *
 * The life of a site: NEW (not looked at), SMALL (part of the sum of small ones), WAITING (its frames are
 * being looked up; nothing is written of it yet), OWN (it has a row). A table keeps one `struct site` per
 * entry; what it says itself is read anew each time.
 *
 * After the writer failed, rows of ticks are lost: everything is written again when it has recovered.
 */
#include "sense/heap_sense.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/text.h"
#include "channel/heap_read.h"
#include "sense/heap_frames.h"
#include "sense/symbol_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert((int)TIDE_SITE_TENSOR_INTERVALS == (int)TIDE_HEAP_TENSORS,
               "what the hook does is what a recording says");

enum {
    OWN_MOST = 2000,       /* sites of a process that get a row however small they are */
    OWN_BYTES = 64 * 1024, /* live: gets a row in any case */
    SITES_MOST = 1 << 21,  /* of all tables together */
    STACKS_MOST = 1 << 20, /* of the recording */
    ROWS_BURST = 200000,   /* samples of sites that may be written at first, */
    ROWS_PER_SECOND = 50,  /* and how fast that fills up again */
    ROWS_SPREAD = 64,      /* one look takes at most this part of it, */
    ROWS_LEAST = 64,       /* or this many */
    BUDGET_PPM = 10000,    /* CPU time for reading tables, of wall time */
    PATIENCE = 8,          /* looks at a stack with an address in no known module */
    LOOKUP_MS = 10,        /* that a look waits for symbols, when some are not known */
    BACKLOG = 32,          /* looks at a site that waits for them */
    BACKLOGS_MOST = 4096,  /* sites that may: 5 MiB */
    NOTICES_MOST = 8,
    NOTICE_TEXT = 300,
    KINDS = TIDE_HEAP_TENSOR + 1,
    STACK_ROWS = 512, /* frames of one stack, inlined ones included; the outermost are cut off */
};

static const int64_t STATUS_NS = 30 * (int64_t)TIDE_NS_PER_S; /* between rows that only say new counts */
static const int64_t PURSE_MOST_NS = 200 * (int64_t)TIDE_NS_PER_MS;
static const int64_t UNKNOWN_NS = 5 * (int64_t)TIDE_NS_PER_S; /* how long an ended process may stay unknown */

_Static_assert((int)TIDE_HEAP_MALLOC == (int)TIDE_SITE_MALLOC &&
                   (int)TIDE_HEAP_TENSOR == (int)TIDE_SITE_TENSOR,
               "kinds have the same numbers in the table and in the recording");

enum site_state { NEW, SMALL, WAITING, OWN };

struct numbers {
    int64_t live_bytes, live_blocks, total_bytes, total_blocks;
};

/* What a site held at looks before its stack was known, thinned out when there are many. */
struct backlog {
    size_t count;
    struct {
        int64_t tick;
        struct numbers now;
    } at[BACKLOG];
};

struct site {
    int64_t id;
    struct numbers written;
    int32_t *frames;         /* while WAITING */
    struct backlog *backlog; /* while NEW or WAITING; NULL: nothing was kept */
    uint16_t depth;
    uint8_t state;
    uint8_t patience;
    bool fresh; /* nothing was written of it yet */
};

/* The sum of the small ones of a kind. */
struct rest {
    int64_t id; /* 0: there were none yet */
    struct numbers now, written;
};

struct process {
    int64_t id;
    struct site *sites;
    size_t site_count;
    size_t own_count;
    struct tide_map frames; /* word and known modules -> frame */
    struct rest rest[KINDS];
    struct tide_heap_sample heap; /* as last written; tick 0: never */
    int64_t status_ns;            /* when its status was last written; TIDE_UNKNOWN: never */
    uint32_t state, python, cuda;
    uint64_t sampled;
    int64_t ended_ns; /* when its end was first seen; 0: it runs */
};

/* A row that is due. */
struct due {
    int64_t weight;
    uint32_t site;
};

struct tide_heap_sense {
    struct tide_symbol_server *server;
    struct tide_heap_tables *tables;
    struct tide_heap_frames *frames;
    struct tide_map stacks; /* hash of its frames -> id */
    int64_t base_ns, last_ns, purse_ns;
    double rows; /* that may be written */
    size_t turn; /* table that is read next */
    size_t tables_seen, sites_held, backlogs, strangers;
    bool rewrite; /* the writer failed: what it had is not there */
    struct due *due;
    char notices[NOTICES_MOST][NOTICE_TEXT];
    size_t notice_count, notice_said;
};

/* One look in progress. */
struct look {
    struct tide_heap_sense *heap;
    const struct tide_sense *sense;
    struct tide_writer *writer;
    struct tide_err *err;
    int64_t tick, now_ns;
    bool rewrite;
    bool failed; /* a row could not be written */
};

/* --- lifecycle ----------------------------------------------------------------------------------------- */

int tide_heap_sense_new(struct tide_heap_sense **ret_heap, struct tide_err *err)
{
    struct tide_heap_sense *heap = calloc(1, sizeof *heap);

    if (!heap || !(heap->due = malloc(TIDE_HEAP_SITES * sizeof *heap->due))) {
        free(heap);
        return tide_err_set(err, "not enough memory to follow allocations");
    }
    if (tide_symbol_server_new(&heap->server, err) != 0)
        heap->server = NULL;
    tide_map_init(&heap->stacks, STACKS_MOST);
    heap->rows = ROWS_BURST;
    heap->frames = tide_heap_frames_new(heap->server);
    if (!heap->frames) {
        tide_heap_sense_free(heap);
        return tide_err_set(err, "not enough memory to follow allocations");
    }
    *ret_heap = heap;
    return 0;
}

int tide_heap_sense_open(struct tide_heap_sense *heap, const char *channel_path, int64_t base_ns,
                         struct tide_err *err)
{
    heap->base_ns = heap->last_ns = base_ns;
    return tide_heap_tables_new(channel_path, &heap->tables, err);
}

static void drop_backlog(struct tide_heap_sense *heap, struct site *site)
{
    if (site->backlog)
        heap->backlogs--;
    free(site->backlog);
    site->backlog = NULL;
}

static void free_process(struct tide_heap_sense *heap, struct process *process)
{
    if (!process)
        return;
    for (size_t i = 0; i < process->site_count; i++) {
        free(process->sites[i].frames);
        drop_backlog(heap, &process->sites[i]);
    }
    heap->sites_held -= process->site_count;
    tide_map_release(&process->frames);
    free(process->sites);
    free(process);
}

void tide_heap_sense_free(struct tide_heap_sense *heap)
{
    if (!heap)
        return;
    for (size_t i = 0; heap->tables && i < tide_heap_tables_count(heap->tables); i++)
        free_process(heap, tide_heap_tables_at(heap->tables, i)->owner);
    tide_heap_tables_free(heap->tables);
    tide_heap_frames_free(heap->frames);
    tide_symbol_server_free(heap->server);
    tide_map_release(&heap->stacks);
    free(heap->due);
    free(heap);
}

int64_t tide_heap_sense_helper(const struct tide_heap_sense *heap)
{
    return heap->server ? tide_symbol_server_pid(heap->server) : 0;
}

size_t tide_heap_sense_tables(const struct tide_heap_sense *heap)
{
    return heap->tables_seen;
}

const char *tide_heap_sense_notice(struct tide_heap_sense *heap)
{
    return heap->notice_said < heap->notice_count ? heap->notices[heap->notice_said++] : NULL;
}

/* --- stacks -------------------------------------------------------------------------------------------- */

static int32_t find_frame(struct look *look, const struct tide_heap_table *table,
                          const struct tide_heap_values *site, uint64_t word, bool patient)
{
    if (word & TIDE_HEAP_PYTHON_BIT) {
        char file[TIDE_HEAP_STRING], name[TIDE_HEAP_STRING];
        uint32_t first_line, line = TIDE_HEAP_LINE_OF(word);
        if (tide_heap_table_code(table, TIDE_HEAP_CODE_OF(word), file, name, &first_line) != 0)
            return patient ? -2
                           : tide_heap_frames_python(look->heap->frames, "", "?", 0, look->writer, look->err);
        return tide_heap_frames_python(look->heap->frames, file, name, line ? line : first_line, look->writer,
                                       look->err);
    }
    const struct tide_heap_range *range =
        word ? tide_heap_table_module(table, word - 1, site->modules) : NULL;
    if (!range && patient)
        return -2;
    return tide_heap_frames_native(look->heap->frames, table->pid, range, word);
}

/* The number of the frame that a word of a stack is; -1: there is no room; -2: its module is not known yet.
 * Stacks have most of their frames in common: each is found once. */
static int32_t frame_of(struct look *look, const struct tide_heap_table *table,
                        const struct tide_heap_values *site, uint64_t word, bool patient)
{
    struct process *process = table->owner;
    struct {
        uint64_t word, modules;
    } about = {word, word & TIDE_HEAP_PYTHON_BIT ? 0 : site->modules};
    uint64_t key = tide_map_key(TIDE_MAP_SEED, &about, sizeof about), found;

    if (tide_map_get(&process->frames, key, &found))
        return (int32_t)found;
    int32_t number = find_frame(look, table, site, word, patient);
    if (number >= 0 && patient) /* it is certain; without room it is found again */
        (void)tide_map_put(&process->frames, key, (uint64_t)number);
    return number;
}

/* Asks for the frames of a site. False: not now. */
static bool begin_stack(struct look *look, const struct tide_heap_table *table,
                        const struct tide_heap_values *values, struct site *site, bool last)
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
    site->state = WAITING;
    return true;
}

/* Rows of the whole stack; 0: some are not there yet. */
static size_t collect_rows(const struct tide_heap_sense *heap, const struct site *site,
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

/* The id of the stack with these frames, which is written if it is new. */
static int64_t stack_of(struct look *look, const int64_t *rows, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325), found;
    int64_t id;

    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)rows[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    if (tide_map_get(&look->heap->stacks, hash, &found))
        return (int64_t)found;
    if (tide_writer_stack(look->writer, rows, count, &id, look->err) != 0)
        look->failed = true;
    tide_map_put(&look->heap->stacks, hash, (uint64_t)id); /* without room it is written again, no more */
    return id;
}

static int64_t write_site(struct look *look, int64_t process, uint16_t kind, int64_t stack)
{
    struct tide_site row = {.process = process, .kind = (enum tide_site_kind)kind, .stack = stack};
    int64_t id;

    if (tide_writer_site(look->writer, &row, &id, look->err) != 0)
        look->failed = true;
    return id;
}

static bool same_numbers(const struct numbers *a, const struct numbers *b)
{
    return a->live_bytes == b->live_bytes && a->live_blocks == b->live_blocks &&
           a->total_bytes == b->total_bytes && a->total_blocks == b->total_blocks;
}

static void write_sample(struct look *look, int64_t tick, int64_t site, const struct numbers *now)
{
    struct tide_site_sample row = {.tick = tick,
                                   .site = site,
                                   .live_bytes = now->live_bytes,
                                   .live_blocks = now->live_blocks,
                                   .total_bytes = now->total_bytes,
                                   .total_blocks = now->total_blocks};

    if (tide_writer_site_sample(look->writer, &row, look->err) != 0)
        look->failed = true;
    look->heap->rows -= 1;
}

/* Names can take seconds, of a large library: what a site holds meanwhile is written when it has one. */
static void keep_in_backlog(struct look *look, struct site *site, const struct numbers *now)
{
    struct backlog *kept = site->backlog;

    if (!kept && look->heap->backlogs < BACKLOGS_MOST && (kept = site->backlog = malloc(sizeof *kept))) {
        look->heap->backlogs++;
        kept->count = 0;
    }
    if (!kept || (kept->count > 0 && (kept->at[kept->count - 1].tick == look->tick ||
                                      same_numbers(&kept->at[kept->count - 1].now, now))))
        return;
    if (kept->count == BACKLOG) {
        kept->count /= 2;
        for (size_t i = 0; i < kept->count; i++)
            kept->at[i] = kept->at[2 * i + 1];
    }
    kept->at[kept->count].tick = look->tick;
    kept->at[kept->count++].now = *now;
}

static void write_backlog(struct look *look, struct site *site)
{
    for (size_t i = 0; site->backlog && i < site->backlog->count; i++)
        if (site->backlog->at[i].tick < look->tick) {
            site->written = site->backlog->at[i].now;
            site->fresh = false;
            write_sample(look, site->backlog->at[i].tick, site->id, &site->written);
        }
    drop_backlog(look->heap, site);
}

/* Gives a site its rows when all of its frames have theirs. */
static void complete_site(struct look *look, struct process *process, const struct tide_heap_values *values,
                          struct site *site)
{
    int64_t rows[STACK_ROWS];
    size_t count = collect_rows(look->heap, site, rows);

    if (count == 0)
        return;
    free(site->frames);
    site->frames = NULL;
    site->id = write_site(look, process->id, values->kind, stack_of(look, rows, count));
    site->state = OWN;
    site->fresh = true;
    write_backlog(look, site);
}

/* --- samples of sites ---------------------------------------------------------------------------------- */

static struct numbers numbers_of(const struct tide_heap_values *values, bool over)
{
    return (struct numbers){over ? 0 : values->live_bytes, over ? 0 : values->live_blocks,
                            values->total_bytes, values->total_blocks};
}

static int64_t saturated(int64_t a, int64_t b)
{
    int64_t most = INT64_C(1) << 62;

    return a > most - b ? most : a + b;
}

static void add_to_rest(struct rest *rest, const struct numbers *now)
{
    rest->now.live_bytes = saturated(rest->now.live_bytes, now->live_bytes);
    rest->now.live_blocks = saturated(rest->now.live_blocks, now->live_blocks);
    rest->now.total_bytes = saturated(rest->now.total_bytes, now->total_bytes);
    rest->now.total_blocks = saturated(rest->now.total_blocks, now->total_blocks);
}

static int heaviest_first(const void *a, const void *b)
{
    const struct due *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->site > y->site) - (x->site < y->site);
}

static void write_due(struct look *look, const struct tide_heap_table *table, struct process *process,
                      size_t count, bool all)
{
    struct tide_heap_sense *heap = look->heap;
    size_t most = heap->rows > 0 ? (size_t)heap->rows / ROWS_SPREAD : 0;

    most = heap->rows >= 1 && most < ROWS_LEAST ? ROWS_LEAST : most;
    if (count > most && !all) {
        qsort(heap->due, count, sizeof *heap->due, heaviest_first);
        count = most;
    }
    for (size_t i = 0; i < count; i++) {
        struct site *site = &process->sites[heap->due[i].site];
        struct numbers now = numbers_of(&table->sites[heap->due[i].site], table->replaced);
        write_sample(look, look->tick, site->id, &now);
        site->written = now;
        site->fresh = false;
    }
    /* What the end of a process writes is not taken from those that live. */
    heap->rows = heap->rows < 0 ? 0 : heap->rows;
}

static void write_rests(struct look *look, struct process *process)
{
    for (uint16_t kind = TIDE_HEAP_MALLOC; kind < KINDS; kind++) {
        struct rest *rest = &process->rest[kind];
        bool first = rest->id == 0;
        if (first && rest->now.total_blocks == 0)
            continue;
        if (first)
            rest->id = write_site(look, process->id, kind, 0);
        if (first || look->rewrite || !same_numbers(&rest->now, &rest->written))
            write_sample(look, look->tick, rest->id, &rest->now);
        rest->written = rest->now;
    }
}

static int64_t change_of(const struct site *site, const struct numbers *now)
{
    int64_t change = now->live_bytes - site->written.live_bytes;

    return site->fresh ? INT64_MAX : change < 0 ? -change : change;
}

/* One step in the life of a site. Whether it has a row. */
static bool advance(struct look *look, const struct tide_heap_table *table, struct process *process,
                    size_t at)
{
    struct site *site = &process->sites[at];
    const struct tide_heap_values *values = &table->sites[at];

    if (site->state == OWN)
        return true;
    if (site->state != WAITING && (process->own_count < OWN_MOST || values->live_bytes >= OWN_BYTES)) {
        if (begin_stack(look, table, values, site, table->ended))
            process->own_count++;
        else if (site->patience == 0 || site->patience >= PATIENCE || table->ended)
            site->state = SMALL;
    } else if (site->state == NEW) {
        site->state = SMALL;
    }
    if (site->state == WAITING)
        complete_site(look, process, values, site);
    return site->state == OWN;
}

static int hold_sites(struct tide_heap_sense *heap, struct process *process, size_t count)
{
    if (count <= process->site_count)
        return 0;
    if (heap->sites_held + (count - process->site_count) > SITES_MOST)
        return -1;
    struct site *sites = realloc(process->sites, count * sizeof *sites);
    if (!sites)
        return -1;
    memset(sites + process->site_count, 0, (count - process->site_count) * sizeof *sites);
    heap->sites_held += count - process->site_count;
    process->sites = sites;
    process->site_count = count;
    return 0;
}

/* Begins what is new, so that the server can work on all of it, and writes what changed. Whether nothing
 * waits for symbols any more. */
static bool write_sites(struct look *look, struct tide_heap_table *table, struct process *process, bool all)
{
    size_t due = 0;
    bool complete = true;

    if (hold_sites(look->heap, process, table->site_count) != 0)
        table->site_count = process->site_count;
    for (int kind = 0; kind < KINDS; kind++)
        process->rest[kind].now = (struct numbers){0};
    for (size_t i = 0; i < table->site_count; i++) {
        const struct tide_heap_values *values = &table->sites[i];
        struct site *site = &process->sites[i];
        if (!values->ready)
            continue;
        struct numbers now = numbers_of(values, table->replaced);
        if (advance(look, table, process, i)) {
            if (site->fresh || look->rewrite || !same_numbers(&site->written, &now))
                look->heap->due[due++] = (struct due){change_of(site, &now), (uint32_t)i};
        } else if (site->state == SMALL) {
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

/* --- the heap as a whole ---------------------------------------------------------------------------------
 */

static int64_t count_of(uint64_t count)
{
    return count < UINT64_C(1) << 62 ? (int64_t)count : TIDE_UNKNOWN;
}

/* Host memory: what lies on a device is elsewhere, what lies in a pool was taken off what the pool has. */
static struct tide_heap_sample heap_of(const struct look *look, const struct tide_heap_table *table,
                                       const struct process *process)
{
    const struct tide_heap_head *head = &table->head;
    bool asked = head->allocator_readings > 0;
    struct tide_heap_sample heap = {
        .tick = look->tick,
        .process = process->id,
        .system_bytes = asked ? count_of(head->allocator_system) : TIDE_UNKNOWN,
        .mapped_bytes = asked ? count_of(head->allocator_mapped) : TIDE_UNKNOWN,
        .free_bytes = asked ? count_of(head->allocator_free) : TIDE_UNKNOWN,
        .free_blocks = asked ? count_of(head->allocator_pieces) : TIDE_UNKNOWN,
        .top_bytes = asked ? count_of(head->allocator_top) : TIDE_UNKNOWN,
    };

    for (size_t i = 0; i < table->site_count; i++) {
        const struct tide_heap_values *values = &table->sites[i];
        if (!values->ready || values->kind == TIDE_HEAP_CUDA || values->kind == TIDE_HEAP_TENSOR)
            continue;
        heap.live_bytes = saturated(heap.live_bytes, values->live_bytes);
        heap.live_blocks = saturated(heap.live_blocks, values->live_blocks);
    }
    return heap;
}

static void write_heap(struct look *look, const struct tide_heap_table *table, struct process *process)
{
    struct tide_heap_sample now = heap_of(look, table, process), was = process->heap;

    was.tick = now.tick;
    if (process->heap.tick && !look->rewrite && memcmp(&now, &was, sizeof now) == 0)
        return;
    if (tide_writer_heap_sample(look->writer, &now, look->err) != 0)
        look->failed = true;
    process->heap = now;
}

/* --- status -------------------------------------------------------------------------------------------- */

static void describe(const struct tide_heap_head *head, char *out, size_t size)
{
    static const char *const states[] = {
        [TIDE_HEAP_STARTING] = "starting",
        [TIDE_HEAP_ON] = "on",
        [TIDE_HEAP_REPLACED] =
            "the program brings its own malloc: only mappings are seen; build it without, or with "
            "that malloc in a shared library",
        [TIDE_HEAP_SANITIZED] =
            "the program is built with a sanitizer, whose allocator is left alone: nothing is "
            "seen; build it without -fsanitize",
        [TIDE_HEAP_UNKNOWN_LIBC] =
            "a function of the C library was not found: nothing is seen; only glibc is known",
        [TIDE_HEAP_OWN_NEW] =
            "the library that replaces malloc serves C++ new itself: of C++ only what calls malloc is "
            "seen; run it without that library",
    };
    unsigned state = head->state, version = head->python_version;

    snprintf(out, size, "%s",
             state < sizeof states / sizeof *states ? states[state] : "in a state that is not known");
    if (head->python == TIDE_HEAP_PYTHON_VERSION || head->python == TIDE_HEAP_PYTHON_CHECK) {
        size_t len = strlen(out);
        snprintf(out + len, size - len, "; no Python frames: %s of Python %u.%u",
                 head->python == TIDE_HEAP_PYTHON_VERSION ? "nothing is known" : "the self-check failed",
                 version >> 24, version >> 16 & 0xff);
    }
}

/* Appends why the memory of devices is not seen, if there is a reason. */
static void describe_cuda(const struct tide_heap_head *head, char *out, size_t size)
{
    size_t len = strlen(out);

    if (head->cuda == TIDE_HEAP_CUDA_STRANGE)
        snprintf(out + len, size - len, "; no device memory: the CUDA driver lacks functions it should have");
    else if (head->cuda == TIDE_HEAP_CUDA_SECOND)
        snprintf(out + len, size - len, "; device memory of one of two CUDA drivers alone");
}

static void add_notice(struct look *look, const struct tide_heap_table *table, const char *state)
{
    struct tide_heap_sense *heap = look->heap;
    char text[NOTICE_TEXT];

    snprintf(text, sizeof text, "allocations of process %" PRId64 ": %s", table->pid, state);
    struct tide_note note = {.t_ns = look->now_ns - heap->base_ns, .text = text};
    if (tide_writer_note(look->writer, &note, look->err) != 0)
        look->failed = true;
    if (heap->notice_count < NOTICES_MOST)
        memcpy(heap->notices[heap->notice_count++], text, sizeof text);
}

/* Total time of all unwinding, as far as the part that was timed tells. */
static int64_t unwind_ns(const struct tide_heap_head *head)
{
    if (head->unwinds_timed == 0)
        return TIDE_UNKNOWN;
    double all = (double)head->unwind_ns / (double)head->unwinds_timed * (double)head->unwinds;
    return all < 9e18 ? (int64_t)all : TIDE_UNKNOWN;
}

static void put_status(struct look *look, const struct tide_heap_head *head, int64_t process,
                       const char *state)
{
    struct tide_heap_status row = {.process = process,
                                   .t_ns = look->now_ns - look->heap->base_ns,
                                   .state = state,
                                   .interval_bytes = count_of(head->interval_bytes),
                                   .sampled = count_of(head->sampled),
                                   .dropped_sites = count_of(head->dropped_sites),
                                   .dropped_blocks = count_of(head->dropped_pointers),
                                   .truncated_stacks = count_of(head->truncated),
                                   .unwinds = count_of(head->unwinds),
                                   .unwind_ns = unwind_ns(head)};
    if (tide_writer_heap_status(look->writer, &row, look->err) != 0)
        look->failed = true;
}

/* An exec without the hook: what the process holds from here on is not known. If the new program has it after
 * all, its own table says so. */
static void write_exec(struct look *look, const struct tide_heap_table *table, const struct process *process)
{
    if (table->replaced && !table->superseded)
        put_status(look, &table->head, process->id, "the process has become another program");
}

static void write_status(struct look *look, const struct tide_heap_table *table, struct process *process,
                         bool last)
{
    const struct tide_heap_head *head = &table->head;
    bool changed = process->status_ns == TIDE_UNKNOWN || process->state != head->state ||
                   process->python != head->python || process->cuda != head->cuda;
    char state[200];

    if (!changed &&
        ((!last && look->now_ns - process->status_ns < STATUS_NS) || process->sampled == head->sampled))
        return;
    describe(head, state, sizeof state);
    describe_cuda(head, state, sizeof state);
    put_status(look, head, process->id, state);
    if (changed && strcmp(state, "on") != 0 && head->state != TIDE_HEAP_STARTING)
        add_notice(look, table, state);
    process->status_ns = look->now_ns;
    process->state = head->state;
    process->python = head->python;
    process->cuda = head->cuda;
    process->sampled = head->sampled;
}

/* --- one look ------------------------------------------------------------------------------------------ */

static struct process *process_of(struct look *look, struct tide_heap_table *table)
{
    struct process *process = table->owner;

    if (!process) {
        process = table->owner = calloc(1, sizeof *process);
        if (!process)
            return NULL;
        tide_map_init(&process->frames, TIDE_HEAP_FRAMES_MOST);
        process->status_ns = TIDE_UNKNOWN;
        look->heap->tables_seen++;
    }
    if (!process->id)
        process->id = tide_sense_process_id(look->sense, table->pid, table->start_ticks);
    return process;
}

static int64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * TIDE_NS_PER_S + now.tv_nsec;
}

/* Reads one table. Whether it is done with. The purse pays for what is read again and again; what is written
 * has a bound of its own, and nobody but us waits for either. */
static bool look_at(struct look *look, struct tide_heap_table *table, bool last)
{
    int64_t began_ns = cpu_ns();
    struct process *process = process_of(look, table);

    if (!process)
        return false;
    if (tide_heap_table_read(look->heap->tables, table) != 0)
        return true;
    look->heap->purse_ns -= cpu_ns() - began_ns;
    if (table->ended && !process->ended_ns)
        process->ended_ns = look->now_ns;
    if (!process->id) {
        /* It was too short for any look at the tree, or is not of our PIDs. */
        bool given_up = last || (table->ended && look->now_ns - process->ended_ns > UNKNOWN_NS);
        look->heap->strangers += given_up && table->ended;
        return given_up;
    }
    write_status(look, table, process, last || table->ended);
    if (!table->replaced && table->head.state == TIDE_HEAP_ON) /* all of it is known */
        write_heap(look, table, process);
    bool complete = write_sites(look, table, process, last || table->ended);
    if (table->ended && complete)
        write_exec(look, table, process);
    return table->ended && complete;
}

static void fill_purse(struct tide_heap_sense *heap, int64_t now_ns)
{
    int64_t passed_ns = now_ns > heap->last_ns ? now_ns - heap->last_ns : 0;
    double purse = (double)heap->purse_ns + (double)passed_ns * BUDGET_PPM / 1e6;
    double rows = heap->rows + (double)passed_ns / TIDE_NS_PER_S * ROWS_PER_SECOND;

    heap->last_ns = now_ns;
    heap->purse_ns = purse < (double)PURSE_MOST_NS ? (int64_t)purse : PURSE_MOST_NS;
    heap->rows = rows < ROWS_BURST ? rows : ROWS_BURST;
}

/* Reads the tables, those whose turn it is first, until the time for it is spent. */
static void look_at_tables(struct look *look, bool last)
{
    struct tide_heap_sense *heap = look->heap;
    size_t count = tide_heap_tables_count(heap->tables);

    for (size_t n = 0; n < count && (last || heap->purse_ns >= 0); n++) {
        if (heap->turn >= tide_heap_tables_count(heap->tables))
            heap->turn = 0;
        struct tide_heap_table *table = tide_heap_tables_at(heap->tables, heap->turn);
        if (look_at(look, table, last)) {
            free_process(heap, table->owner);
            tide_heap_tables_drop(heap->tables, heap->turn);
        } else {
            heap->turn++;
        }
    }
}

static struct look begin_look(struct tide_heap_sense *heap, const struct tide_sense *sense,
                              struct tide_writer *writer, int64_t tick, int64_t now_ns, struct tide_err *err)
{
    struct look look = {
        .heap = heap, .sense = sense, .writer = writer, .err = err, .tick = tick, .now_ns = now_ns};

    look.rewrite = heap->rewrite && !tide_writer_failed(writer);
    heap->rewrite = tide_writer_failed(writer);
    return look;
}

int tide_heap_sense_look(struct tide_heap_sense *heap, const struct tide_sense *sense,
                         struct tide_writer *writer, int64_t tick, int64_t now_ns, struct tide_err *err)
{
    struct look look = begin_look(heap, sense, writer, tick, now_ns, err);

    fill_purse(heap, now_ns);
    if (tide_heap_frames_settle(heap->frames, 0, writer, err) != 0)
        look.failed = true;
    tide_heap_tables_find(heap->tables);
    look_at_tables(&look, false);
    if (tide_heap_frames_settle(heap->frames, LOOKUP_MS, writer, err) != 0)
        look.failed = true;
    return look.failed ? -1 : 0;
}

int tide_heap_sense_finish(struct tide_heap_sense *heap, const struct tide_sense *sense,
                           struct tide_writer *writer, int64_t tick, int64_t now_ns, int wait_ms,
                           struct tide_err *err)
{
    struct look look = begin_look(heap, sense, writer, tick, now_ns, err);

    heap->purse_ns = INT64_MAX / 2; /* nobody is kept waiting any more */
    tide_heap_tables_find(heap->tables);
    look_at_tables(&look, false); /* asks for what is new */
    if (tide_heap_frames_settle(heap->frames, wait_ms, writer, err) != 0 ||
        tide_heap_frames_give_up(heap->frames, writer, err) != 0)
        look.failed = true;
    look_at_tables(&look, true);
    if (tide_heap_frames_give_up(heap->frames, writer, err) != 0)
        look.failed = true;
    look_at_tables(&look, true);
    if (heap->strangers > 0) {
        char text[160];
        snprintf(text, sizeof text,
                 "%zu processes ended before they were seen: what they allocated is not recorded",
                 heap->strangers);
        struct tide_note note = {.t_ns = now_ns - heap->base_ns, .text = text};
        if (tide_writer_note(writer, &note, err) != 0)
            look.failed = true;
    }
    return look.failed ? -1 : 0;
}
