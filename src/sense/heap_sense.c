/*
 * heap_sense.c - see heap_sense.h: chooses the tables to read, and records the state of whole processes.
 * heap_sites.c writes the rows of their sites.
 *
 * Rows of ticks are lost while the writer fails, so everything is written again once it has recovered.
 */
#include "sense/heap_sense.h"

#include "base/clock.h"
#include "base/text.h"
#include "sense/heap_sites.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TIDE_SITE_TENSOR_INTERVALS == (int)TIDE_HEAP_TENSORS,
               "what the hook does is what a recording says");

enum {
    STACKS_MOST = 1 << 20,   /* of the recording */
    ROWS_BURST = 200000,     /* site samples that may be written at first, */
    ROWS_PER_SECOND = 50,    /* and how fast that allowance refills */
    BUDGET_PPM = 10000,      /* CPU time for reading tables, as a share of wall time */
    LOOKUP_MS = 10,          /* that a look waits for missing symbols, */
    LAST_LOOKUP_MS = 20000,  /* and the last one */
    STATE_TEXT = 400,        /* longer than the longest state with all its remarks */
    ADOPTED_MOST = 64,       /* processes that no look saw and that are recorded all the same, */
    ADOPTED_LEAST = 1 << 20, /* if they held this many bytes in the end */
};

static const int64_t STATUS_NS = 30 * (int64_t)TIDE_NS_PER_S; /* between rows that only have new counts */
static const int64_t PURSE_MOST_NS = 200 * (int64_t)TIDE_NS_PER_MS;
static const int64_t UNKNOWN_NS = 5 * (int64_t)TIDE_NS_PER_S; /* how long an ended process may stay unknown */

/* --- lifecycle ----------------------------------------------------------------------------------------- */

int tide_heap_sense_new(const char *program, struct tide_heap_sense **ret_heap, struct tide_err *err)
{
    struct tide_heap_sense *heap = calloc(1, sizeof *heap);

    if (!heap)
        return tide_err_set(err, "not enough memory to follow allocations");
    tide_symbol_server_new(program, &heap->server, err);
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

int tide_heap_sense_open(struct tide_heap_sense *heap, const char *channel_path,
                         struct tide_descriptors *descriptors, int64_t base_ns, struct tide_err *err)
{
    heap->base_ns = heap->last_ns = base_ns;
    return tide_heap_tables_new(channel_path, descriptors, &heap->tables, err);
}

static void free_process(struct tide_heap_sense *heap, struct tide_heap_process *process)
{
    if (!process)
        return;
    tide_heap_sites_release(heap, process);
    free(process);
}

void tide_heap_sense_free(struct tide_heap_sense *heap)
{
    if (!heap)
        return;
    for (size_t i = 0; heap->tables && i < heap->tables->count; i++)
        free_process(heap, heap->tables->tables[i]->owner);
    tide_heap_tables_free(heap->tables);
    tide_heap_frames_free(heap->frames);
    tide_symbol_server_free(heap->server);
    tide_map_release(&heap->stacks);
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

/* --- the heap as a whole ------------------------------------------------------------------------------- */

static int64_t count_of(uint64_t count)
{
    return count <= TIDE_LARGEST ? (int64_t)count : TIDE_UNKNOWN;
}

/* Host memory only: skips device memory. What a pool hands out was already taken off the pool's own site. */
static struct tide_heap_sample heap_of(const struct tide_heap_look *look, const struct tide_heap_table *table,
                                       const struct tide_heap_process *process)
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
        const struct tide_heap_site *values = &table->sites[i];
        if (!values->ready || values->kind == TIDE_SITE_CUDA || values->kind == TIDE_SITE_TENSOR)
            continue;
        heap.live_bytes = tide_bounded_sum(heap.live_bytes, values->live_bytes);
        heap.live_blocks = tide_bounded_sum(heap.live_blocks, values->live_blocks);
    }
    return heap;
}

static void write_heap(struct tide_heap_look *look, const struct tide_heap_table *table,
                       struct tide_heap_process *process)
{
    struct tide_heap_sample now = heap_of(look, table, process), was = process->heap;

    was.tick = now.tick;
    if (process->heap.tick && !look->rewrite && memcmp(&now, &was, sizeof now) == 0)
        return;
    look->failed |= tide_writer_heap_sample(look->writer, &now, look->err) != 0;
    process->heap = now;
}

/* --- status -------------------------------------------------------------------------------------------- */

/* The state; why there are no Python frames; why device memory is not seen; lost frees. */
static void describe(const struct tide_heap_head *head, char *out, size_t size)
{
    static const char *const states[] = {
        [TIDE_HEAP_STARTING] = TIDE_HEAP_STATE_STARTING,
        [TIDE_HEAP_ON] = TIDE_HEAP_STATE_ON,
        [TIDE_HEAP_REPLACED] =
            "the program has a malloc of its own: only mappings are seen; build it without that malloc, or with it in a shared library",
        [TIDE_HEAP_SANITIZED] =
            "the program is built with a sanitizer, whose allocator is left alone: nothing is "
            "seen; build it without -fsanitize",
        [TIDE_HEAP_UNKNOWN_LIBC] =
            "a function of the C library was not found: nothing is seen; only glibc is supported",
        [TIDE_HEAP_OWN_NEW] =
            "the library that replaces malloc also serves C++ new: C++ allocations that do not call "
            "malloc are not seen; run it without that library",
    };
    unsigned state = head->state, version = head->python_version;

    snprintf(out, size, "%s", state < sizeof states / sizeof *states ? states[state] : "in an unknown state");
    if (head->python == TIDE_HEAP_PYTHON_VERSION || head->python == TIDE_HEAP_PYTHON_CHECK)
        tide_text_add(out, size, "; no Python frames: Python %u.%u %s", version >> 24, version >> 16 & 0xff,
                      head->python == TIDE_HEAP_PYTHON_VERSION ? "is not supported"
                                                               : "failed the self-check");
    if (head->cuda == TIDE_HEAP_CUDA_INCOMPLETE)
        tide_text_add(out, size, "; no device memory: the CUDA driver lacks functions it should have");
    else if (head->cuda == TIDE_HEAP_CUDA_SECOND)
        tide_text_add(out, size, "; device memory is seen for only one of two CUDA drivers");
    if (head->lost_frees > 0)
        tide_text_add(out, size, "; %" PRIu64 " free%s could not be recorded: live values are too high",
                      head->lost_frees, head->lost_frees == 1 ? "" : "s");
}

/* told: the user is told, too. */
__attribute__((format(printf, 3, 4))) static void put_note(struct tide_heap_look *look, bool told,
                                                           const char *format, ...)
{
    struct tide_heap_sense *heap = look->heap;
    char text[TIDE_HEAP_NOTICE_TEXT];
    struct tide_note note = {.t_ns = look->now_ns - heap->base_ns, .text = text};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    look->failed |= tide_writer_note(look->writer, &note, look->err) != 0;
    if (told && heap->notice_count < TIDE_HEAP_NOTICES)
        memcpy(heap->notices[heap->notice_count++], text, sizeof text);
}

/* Total time of all unwinding, extrapolated from the part that was timed. */
static int64_t unwind_ns(const struct tide_heap_head *head)
{
    if (head->unwinds_timed == 0)
        return TIDE_UNKNOWN;
    double all = (double)head->unwind_ns / (double)head->unwinds_timed * (double)head->unwinds;
    return all < 9e18 ? (int64_t)all : TIDE_UNKNOWN;
}

static void put_status(struct tide_heap_look *look, const struct tide_heap_head *head, int64_t process,
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
    look->failed |= tide_writer_heap_status(look->writer, &row, look->err) != 0;
}

/* After an exec without the hook it is not known what the process holds. If the new program has the hook
 * after all, its own table says so. */
static void write_exec(struct tide_heap_look *look, const struct tide_heap_table *table,
                       const struct tide_heap_process *process)
{
    if (table->replaced && !table->superseded)
        put_status(look, &table->head, process->id, TIDE_HEAP_STATE_GONE);
}

static void write_status(struct tide_heap_look *look, const struct tide_heap_table *table,
                         struct tide_heap_process *process, bool last)
{
    const struct tide_heap_head *head = &table->head;
    bool changed = process->status_ns == TIDE_UNKNOWN || process->state != head->state ||
                   process->python != head->python || process->cuda != head->cuda ||
                   process->lost_frees != (head->lost_frees > 0);
    char state[STATE_TEXT];

    if (!changed &&
        ((!last && look->now_ns - process->status_ns < STATUS_NS) || process->sampled == head->sampled))
        return;
    describe(head, state, sizeof state);
    put_status(look, head, process->id, state);
    if (changed && strcmp(state, TIDE_HEAP_STATE_ON) != 0 && head->state != TIDE_HEAP_STARTING)
        put_note(look, true, "allocations of process %" PRId64 ": %s", table->pid, state);
    process->status_ns = look->now_ns;
    process->state = head->state;
    process->python = head->python;
    process->cuda = head->cuda;
    process->lost_frees = head->lost_frees > 0;
    process->sampled = head->sampled;
}

void tide_heap_sense_hooks(const struct tide_heap_sense *heap, struct tide_sense *sense)
{
    tide_sense_hide(sense, TIDE_SENSE_SYMBOLS, tide_heap_sense_helper(heap));
    for (size_t i = 0; i < heap->tables->count; i++) {
        const struct tide_heap_table *table = heap->tables->tables[i];
        int64_t own_bytes, table_bytes;
        if (table->superseded || (table->ended && !table->replaced))
            continue;
        if (tide_heap_table_hook(table, &own_bytes, &table_bytes) == 0)
            tide_sense_hook(sense, table->pid, table->start_ticks, own_bytes, table_bytes);
    }
}

/* --- one look ------------------------------------------------------------------------------------------ */

static struct tide_heap_process *process_of(struct tide_heap_look *look, struct tide_heap_table *table)
{
    struct tide_heap_process *process = table->owner;
    bool is_new = !process;

    if (!process) {
        process = table->owner = calloc(1, sizeof *process);
        if (!process)
            return NULL;
        tide_map_init(&process->frames, TIDE_HEAP_FRAMES_MOST);
        process->status_ns = TIDE_UNKNOWN;
        process->unread = true;
        look->heap->tables_seen++;
    }
    /* A look at the tree that was before an exec would give it to the program before. */
    bool may_be_unseen = is_new && table->image > 0 && !look->final;
    if (!process->id && !may_be_unseen)
        process->id = tide_sense_process_id(look->sense, table->pid, table->start_ticks);
    return process;
}

/* Records a process that ended before any look at the tree saw it, if what it left matters. It is called by
 * the name of its program, and a child of the first process. */
static void adopt(struct tide_heap_look *look, const struct tide_heap_table *table,
                  struct tide_heap_process *process)
{
    int64_t now_ns = look->now_ns - look->heap->base_ns;
    double live_bytes = 0; /* the table may hold any numbers */

    for (size_t i = 0; i < table->site_count; i++)
        live_bytes += table->sites[i].ready ? (double)table->sites[i].live_bytes : 0;
    if (live_bytes < ADOPTED_LEAST || look->heap->adopted == ADOPTED_MOST)
        return;
    const char *path = table->module_count && table->modules[0].path ? table->modules[0].path : "",
               *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct tide_process row = {.pid = table->pid,
                               .parent = 1,
                               .start_ticks = (int64_t)table->start_ticks,
                               .name = name,
                               .command = path,
                               .role = name,
                               .began_ns = now_ns,
                               .ended_ns = now_ns,
                               .peak_rss_bytes = TIDE_UNKNOWN,
                               .rank = TIDE_UNKNOWN};
    look->heap->adopted++;
    look->failed |= tide_writer_process(look->writer, &row, &process->id, look->err) != 0;
}

/* Reads one table. True if it is finished. The purse pays only for reading, which is repeated at every look;
 * writing has its own limit. Neither makes the program wait. */
static bool look_at(struct tide_heap_look *look, struct tide_heap_table *table, bool last)
{
    int64_t began_ns = tide_clock_thread_ns();
    struct tide_heap_process *process = process_of(look, table);

    if (!process)
        return false;
    int status = tide_heap_table_read(look->heap->tables, table);
    if (status != 0)
        return status < 0;
    process->unread = false;
    look->heap->purse_ns -= tide_clock_thread_ns() - began_ns;
    if (table->ended && !process->ended_ns)
        process->ended_ns = look->now_ns;
    if (!process->id) {
        /* It was too short-lived for any look at the tree, or has no PID in our namespace. */
        bool given_up = look->final || (table->ended && look->now_ns - process->ended_ns > UNKNOWN_NS);
        bool gone = given_up && table->ended && !table->replaced;
        if (gone)
            adopt(look, table, process);
        if (!process->id) {
            look->heap->unseen += gone;
            return given_up;
        }
    }
    write_status(look, table, process, last || table->ended);
    if (!table->replaced && table->head.state == TIDE_HEAP_ON) /* all its allocations are seen */
        write_heap(look, table, process);
    bool complete = tide_heap_sites_write(look, table, process, last || table->ended);
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

static void drop(struct tide_heap_sense *heap, size_t index)
{
    free_process(heap, heap->tables->tables[index]->owner);
    tide_heap_tables_drop(heap->tables, index);
}

/* Reads the tables of processes that are gone. Nothing in them changes any more, and dropping them frees
 * their memory. */
static void look_at_dead(struct tide_heap_look *look)
{
    struct tide_heap_sense *heap = look->heap;

    for (size_t i = heap->tables->count; i-- > 0 && heap->purse_ns >= 0;) {
        struct tide_heap_table *table = heap->tables->tables[i];
        const struct tide_heap_process *known = table->owner;
        if ((known && known->elsewhere) || !tide_heap_table_is_dead(table))
            continue;
        if (look_at(look, table, false))
            drop(heap, i);
        else if (table->owner && !table->ended)
            ((struct tide_heap_process *)table->owner)->elsewhere = true;
    }
}

/* Reads the tables, starting with the one whose turn it is, until the purse is empty. */
static void look_at_tables(struct tide_heap_look *look, bool last)
{
    struct tide_heap_sense *heap = look->heap;
    size_t count = heap->tables->count;

    for (size_t n = 0; n < count && (last || heap->purse_ns >= 0); n++) {
        if (heap->turn >= heap->tables->count)
            heap->turn = 0;
        if (look_at(look, heap->tables->tables[heap->turn], last))
            drop(heap, heap->turn);
        else
            heap->turn++;
    }
}

/* Tells how many tables were never read. */
static void tell_of_unread(struct tide_heap_look *look)
{
    struct tide_heap_tables *tables = look->heap->tables;
    size_t unread = tables->waiting;

    for (size_t i = 0; i < tables->count; i++) {
        const struct tide_heap_process *process = tables->tables[i]->owner;
        unread += !process || process->unread;
    }
    if (unread > 0)
        put_note(look, true, "the allocations of %zu process%s were not read: too many processes at once",
                 unread, unread == 1 ? "" : "es");
}

/* Reads every table to its end, once the symbols that its stacks still need are there or given up. */
static void end_tables(struct tide_heap_look *look)
{
    size_t unseen;

    tide_heap_frames_give_up(look);
    look_at_tables(look, true);
    tide_heap_frames_give_up(look);
    look_at_tables(look, true);
    tell_of_unread(look);
    if ((unseen = look->heap->unseen) > 0)
        put_note(look, false, "%zu process%s ended before %s seen: %s allocations are not recorded", unseen,
                 unseen == 1 ? "" : "es", unseen == 1 ? "it was" : "they were",
                 unseen == 1 ? "its" : "their");
}

int tide_heap_sense_look(struct tide_heap_sense *heap, const struct tide_sense *sense,
                         struct tide_writer *writer, int64_t tick, int64_t now_ns, bool last,
                         struct tide_err *err)
{
    struct tide_heap_look look = {.heap = heap,
                                  .sense = sense,
                                  .writer = writer,
                                  .err = err,
                                  .tick = tick,
                                  .now_ns = now_ns,
                                  .rewrite = heap->rewrite && !tide_writer_failed(writer),
                                  .final = last};

    heap->rewrite = tide_writer_failed(writer);
    fill_purse(heap, now_ns);
    if (last)
        heap->purse_ns = INT64_MAX / 2; /* there is no next look to delay */
    tide_heap_frames_settle(&look, 0);
    tide_heap_tables_find(heap->tables);
    look_at_dead(&look);
    look_at_tables(&look, false); /* asks for new symbols */
    tide_heap_frames_settle(&look, last ? LAST_LOOKUP_MS : LOOKUP_MS);
    if (last)
        end_tables(&look);
    return look.failed ? -1 : 0;
}
