/*
 * reader_rows.c - what a reader gives: meta values, and the rows of each table, every value checked. Opening
 * is in reader.c.
 */
#include "record/reader_private.h"
#include "record/schema.h"

#include <stdbool.h>
#include <string.h>

static const int64_t LARGEST = (int64_t)1 << 62;

/* --- values of one row --------------------------------------------------------------------------------- */

/* One row being read. Each get_* sets `bad` if the value of that column cannot be. */
struct row {
    sqlite3_stmt *statement;
    bool bad;
};

/* type: of the column, which costs as much to ask for as the value. */
static int64_t get_typed(struct row *row, int column, int type, int64_t least)
{
    int64_t value = type == SQLITE_INTEGER ? sqlite3_column_int64(row->statement, column) : 0;

    if (type != SQLITE_INTEGER || value < least || value > LARGEST)
        row->bad = true;
    return value;
}

static int64_t get_range(struct row *row, int column, int64_t least)
{
    return get_typed(row, column, sqlite3_column_type(row->statement, column), least);
}

/* A size, time or count; NULL is "unknown". */
static int64_t get_size(struct row *row, int column)
{
    int type = sqlite3_column_type(row->statement, column);

    return type == SQLITE_NULL ? TIDE_UNKNOWN : get_typed(row, column, type, 0);
}

/* Text, or the bytes of a text that is no UTF-8; NULL is "". Borrowed until the next step. */
static const char *get_text(struct row *row, int column)
{
    int type = sqlite3_column_type(row->statement, column);
    const char *text;

    if (type == SQLITE_NULL)
        return "";
    if (type != SQLITE_TEXT && type != SQLITE_BLOB) {
        row->bad = true;
        return "";
    }
    /* Asking a blob for text gives its bytes with a NUL behind them. */
    text = (const char *)sqlite3_column_text(row->statement, column);
    if (!text || sqlite3_column_bytes(row->statement, column) > TIDE_READER_TEXT)
        row->bad = true;
    return text ? text : "";
}

/* --- meta ---------------------------------------------------------------------------------------------- */

static sqlite3_stmt *find_meta(struct tide_reader *reader, const char *key)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(reader->db, "SELECT value FROM meta WHERE key = ?1", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        return statement;
    sqlite3_finalize(statement);
    return NULL;
}

/* A copy that lives as long as the reader; one per distinct text. */
static const char *keep_meta(struct tide_reader *reader, const char *key, const char *text)
{
    struct tide_reader_meta *meta;

    for (meta = reader->metas; meta; meta = meta->next)
        if (strcmp(meta->key, key) == 0 && strcmp(meta->text, text) == 0)
            return meta->text;
    meta = tide_arena_take(&reader->arena, 1, sizeof *meta);
    if (!meta || !(meta->key = tide_arena_text(&reader->arena, key, strlen(key))) ||
        !(meta->text = tide_arena_text(&reader->arena, text, strlen(text))))
        return NULL;
    meta->next = reader->metas;
    reader->metas = meta;
    return meta->text;
}

const char *tide_reader_meta_text(struct tide_reader *reader, const char *key)
{
    struct row row = {.statement = find_meta(reader, key)};
    const char *text, *kept = NULL;

    if (!row.statement)
        return NULL;
    text = get_text(&row, 0);
    if (!row.bad)
        kept = keep_meta(reader, key, text);
    sqlite3_finalize(row.statement);
    return kept;
}

int64_t tide_reader_meta_integer(struct tide_reader *reader, const char *key)
{
    struct row row = {.statement = find_meta(reader, key)};
    int64_t value;

    if (!row.statement)
        return TIDE_UNKNOWN;
    value = get_size(&row, 0);
    sqlite3_finalize(row.statement);
    return row.bad ? TIDE_UNKNOWN : value;
}

/* --- iterations ---------------------------------------------------------------------------------------- */

/* Which function is called with each row, and with what. */
struct sink {
    union {
        tide_on_process *process;
        tide_on_tick *tick;
        tide_on_sample *sample;
        tide_on_smaps *smaps;
        tide_on_mark *mark;
        tide_on_gpu *gpu;
        tide_on_gpu_device *gpu_device;
        tide_on_limit *limit;
        tide_on_note *note;
        tide_on_frame *frame;
        tide_on_stack *stack;
        tide_on_site *site;
        tide_on_site_sample *site_sample;
        tide_on_heap_state *heap_state;
        tide_on_heap_sample *heap_sample;
    } on;
    void *context;
    int64_t last; /* marks: row number of the newest row seen */
};

/* Reads the columns and, unless one is bad, calls the sink. */
typedef int tide_deliver(struct row *row, struct sink *sink);

static void count_skipped(struct tide_reader *reader, enum tide_reader_table table, int64_t floor,
                          int64_t key)
{
    if (key <= floor)
        return;
    reader->skipped++;
    if (key > reader->counted[table])
        reader->counted[table] = key;
}

/* The first column of sql is the key that the rows are ordered by. */
static int each(struct tide_reader *reader, enum tide_reader_table table, const char *sql, int64_t after,
                tide_deliver *deliver, struct sink *sink, struct tide_err *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL), result = 0;
    int64_t floor = reader->counted[table];

    if (code == SQLITE_OK && sqlite3_bind_parameter_count(statement) > 0)
        code = sqlite3_bind_int64(statement, 1, after);
    while (code == SQLITE_OK && result == 0) {
        if ((code = sqlite3_step(statement)) != SQLITE_ROW)
            break;
        struct row row = {.statement = statement};
        result = deliver(&row, sink);
        if (row.bad)
            count_skipped(reader, table, floor, sqlite3_column_int64(statement, 0));
        code = SQLITE_OK;
    }
    if (code != SQLITE_OK && code != SQLITE_DONE)
        result = tide_reader_explain(reader, err);
    sqlite3_finalize(statement);
    return result;
}

static int deliver_process(struct row *row, struct sink *sink)
{
    struct tide_process process = {
        .id = get_range(row, 0, 1),
        .pid = get_size(row, 1),
        .parent = get_size(row, 2),
        .start_ticks = get_size(row, 3),
        .name = get_text(row, 4),
        .command = get_text(row, 5),
        .role = get_text(row, 6),
        .began_ns = get_size(row, 7),
        .ended_ns = get_size(row, 8),
        .peak_rss_bytes = get_size(row, 9),
        .rank = get_size(row, 10),
    };
    if (process.parent == TIDE_UNKNOWN)
        process.parent = 0;
    return row->bad ? 0 : sink->on.process(sink->context, &process);
}

int tide_reader_each_process(struct tide_reader *reader, tide_on_process *on, void *context,
                             struct tide_err *err)
{
    struct sink sink = {.on.process = on, .context = context};

    return each(reader, TIDE_READER_PROCESS,
                reader->version < 4
                    ? "SELECT id, pid, parent, start_ticks, name, command, role, began_ns, ended_ns,"
                      " peak_rss_bytes, NULL FROM main.process ORDER BY id"
                    : "SELECT id, pid, parent, start_ticks, name, command, role, began_ns, ended_ns,"
                      " peak_rss_bytes, rank FROM main.process ORDER BY id",
                0, deliver_process, &sink, err);
}

static int deliver_tick(struct row *row, struct sink *sink)
{
    struct tide_tick tick = {
        .id = get_range(row, 0, 1),
        .t_ns = get_range(row, 1, 0),
        .processes = get_size(row, 2),
        .rss_bytes = get_size(row, 3),
        .counted_bytes = get_size(row, 4),
        .pss_known_bytes = get_size(row, 5),
        .cgroup_bytes = get_size(row, 6),
        .cgroup_peak_bytes = get_size(row, 7),
        .pressure_ppm = get_size(row, 8),
        .available_bytes = get_size(row, 9),
    };
    return row->bad ? 0 : sink->on.tick(sink->context, &tick);
}

int tide_reader_each_tick(struct tide_reader *reader, int64_t after, tide_on_tick *on, void *context,
                          struct tide_err *err)
{
    struct sink sink = {.on.tick = on, .context = context};

    return each(reader, TIDE_READER_TICK,
                "SELECT id, t_ns, processes, rss_bytes, counted_bytes, pss_known_bytes, cgroup_bytes,"
                " cgroup_peak_bytes, pressure_ppm, available_bytes FROM main.tick WHERE id > ?1 ORDER BY id",
                after, deliver_tick, &sink, err);
}

static int deliver_sample(struct row *row, struct sink *sink)
{
    struct tide_sample sample = {
        .tick = get_range(row, 0, 1),
        .process = get_range(row, 1, 1),
        .anon_bytes = get_size(row, 2),
        .file_bytes = get_size(row, 3),
        .shmem_bytes = get_size(row, 4),
        .swap_bytes = get_size(row, 5),
        .huge_bytes = get_size(row, 6),
        .threads = get_size(row, 7),
        .asked_bytes = get_size(row, 8),
        .mapped_bytes = get_size(row, 9),
    };
    return row->bad ? 0 : sink->on.sample(sink->context, &sample);
}

int tide_reader_each_sample(struct tide_reader *reader, int64_t after, tide_on_sample *on, void *context,
                            struct tide_err *err)
{
    struct sink sink = {.on.sample = on, .context = context};

    return each(
        reader, TIDE_READER_SAMPLE,
        reader->version < 5
            ? "SELECT tick, process, anon_bytes, file_bytes, shmem_bytes, swap_bytes, huge_bytes,"
              " threads, NULL, NULL FROM main.sample WHERE tick > ?1 ORDER BY tick, process"
            : "SELECT tick, process, anon_bytes, file_bytes, shmem_bytes, swap_bytes, huge_bytes,"
              " threads, asked_bytes, mapped_bytes FROM main.sample WHERE tick > ?1 ORDER BY tick, process",
        after, deliver_sample, &sink, err);
}

static int deliver_smaps(struct row *row, struct sink *sink)
{
    struct tide_smaps smaps = {
        .tick = get_range(row, 0, 1),
        .process = get_range(row, 1, 1),
        .pss_bytes = get_size(row, 2),
        .uss_bytes = get_size(row, 3),
        .swap_pss_bytes = get_size(row, 4),
        .cost_ns = get_size(row, 5),
    };
    return row->bad ? 0 : sink->on.smaps(sink->context, &smaps);
}

int tide_reader_each_smaps(struct tide_reader *reader, int64_t after, tide_on_smaps *on, void *context,
                           struct tide_err *err)
{
    struct sink sink = {.on.smaps = on, .context = context};

    return each(reader, TIDE_READER_SMAPS,
                "SELECT tick, process, pss_bytes, uss_bytes, swap_pss_bytes, cost_ns"
                " FROM main.smaps WHERE tick > ?1 ORDER BY tick, process",
                after, deliver_smaps, &sink, err);
}

static int deliver_mark(struct row *row, struct sink *sink)
{
    int64_t id = get_range(row, 0, 1);
    struct tide_mark mark = {.t_ns = get_range(row, 1, 0), .process = get_size(row, 2)};
    int64_t kind = get_range(row, 3, TIDE_MARK_STEP), source = get_range(row, 4, TIDE_SOURCE_PROGRAM);

    mark.number = get_range(row, 5, -LARGEST);
    mark.name = get_text(row, 6);
    if (mark.process == TIDE_UNKNOWN)
        mark.process = 0;
    if (kind >= TIDE_MARK_KINDS || source > TIDE_SOURCE_TRACKER)
        row->bad = true;
    if (row->bad)
        return 0;
    mark.kind = (enum tide_mark_kind)kind;
    mark.source = (enum tide_mark_source)source;
    int result = sink->on.mark(sink->context, &mark);
    if (result >= 0)
        sink->last = id;
    return result;
}

int tide_reader_each_mark(struct tide_reader *reader, int64_t after, int64_t *ret_last, tide_on_mark *on,
                          void *context, struct tide_err *err)
{
    struct sink sink = {.on.mark = on, .context = context, .last = after};
    int result = each(reader, TIDE_READER_MARK,
                      "SELECT id, t_ns, process, kind, source, number, name"
                      " FROM main.mark WHERE id > ?1 ORDER BY id",
                      after, deliver_mark, &sink, err);

    if (ret_last)
        *ret_last = sink.last;
    return result;
}

static int deliver_gpu(struct row *row, struct sink *sink)
{
    struct tide_gpu_sample gpu = {
        .tick = get_range(row, 0, 1),
        .device = get_range(row, 1, 0),
        .process = get_range(row, 2, TIDE_GPU_PROCESS_UNKNOWN),
        .bytes = get_size(row, 3),
    };
    return row->bad ? 0 : sink->on.gpu(sink->context, &gpu);
}

int tide_reader_each_gpu(struct tide_reader *reader, int64_t after, tide_on_gpu *on, void *context,
                         struct tide_err *err)
{
    struct sink sink = {.on.gpu = on, .context = context};

    return each(
        reader, TIDE_READER_GPU,
        "SELECT tick, device, process, bytes FROM main.gpu WHERE tick > ?1 ORDER BY tick, device, process",
        after, deliver_gpu, &sink, err);
}

static int deliver_gpu_device(struct row *row, struct sink *sink)
{
    struct tide_gpu_device device = {
        .device = get_range(row, 0, 0),
        .name = get_text(row, 1),
        .uuid = get_text(row, 2),
        .total_bytes = get_size(row, 3),
    };
    return row->bad ? 0 : sink->on.gpu_device(sink->context, &device);
}

int tide_reader_each_gpu_device(struct tide_reader *reader, tide_on_gpu_device *on, void *context,
                                struct tide_err *err)
{
    struct sink sink = {.on.gpu_device = on, .context = context};

    return each(reader, TIDE_READER_GPU_DEVICE,
                "SELECT device, name, uuid, total_bytes FROM main.gpu_device ORDER BY device", 0,
                deliver_gpu_device, &sink, err);
}

static int deliver_limit(struct row *row, struct sink *sink)
{
    struct tide_limit limit = {
        .t_ns = get_range(row, 0, 0), .name = get_text(row, 1), .bytes = get_size(row, 2)};

    return row->bad ? 0 : sink->on.limit(sink->context, &limit);
}

int tide_reader_each_limit(struct tide_reader *reader, tide_on_limit *on, void *context, struct tide_err *err)
{
    struct sink sink = {.on.limit = on, .context = context};

    return each(reader, TIDE_READER_LIMIT,
                "SELECT t_ns, name, bytes FROM main.memory_limit ORDER BY t_ns, id", 0, deliver_limit, &sink,
                err);
}

static int deliver_note(struct row *row, struct sink *sink)
{
    struct tide_note note = {.t_ns = get_range(row, 0, 0), .text = get_text(row, 1)};

    return row->bad ? 0 : sink->on.note(sink->context, &note);
}

int tide_reader_each_note(struct tide_reader *reader, tide_on_note *on, void *context, struct tide_err *err)
{
    struct sink sink = {.on.note = on, .context = context};

    return each(reader, TIDE_READER_NOTE, "SELECT t_ns, text FROM main.note ORDER BY t_ns, id", 0,
                deliver_note, &sink, err);
}

/* --- the heap ------------------------------------------------------------------------------------------ */

static int each_heap(struct tide_reader *reader, enum tide_reader_table table, const char *sql, int64_t after,
                     tide_deliver *deliver, struct sink *sink, struct tide_err *err)
{
    return reader->version < 2 ? 0 : each(reader, table, sql, after, deliver, sink, err);
}

static int deliver_frame(struct row *row, struct sink *sink)
{
    struct tide_frame frame = {
        .id = get_range(row, 0, 1),
        .function = get_text(row, 1),
        .file = get_text(row, 2),
        .line = get_size(row, 3),
        .module = get_text(row, 4),
        .offset = get_size(row, 5),
        .python = get_size(row, 6) > 0,
        .inlined = get_size(row, 7) > 0,
        .source = get_text(row, 8),
    };
    return row->bad ? 0 : sink->on.frame(sink->context, &frame);
}

int tide_reader_each_frame(struct tide_reader *reader, int64_t after, tide_on_frame *on, void *context,
                           struct tide_err *err)
{
    struct sink sink = {.on.frame = on, .context = context};

    return each_heap(reader, TIDE_READER_FRAME,
                     reader->version < 4
                         ? "SELECT id, function, file, line, module, offset, python, inlined, ''"
                           " FROM main.frame WHERE id > ?1 ORDER BY id"
                         : "SELECT id, function, file, line, module, offset, python, inlined, source"
                           " FROM main.frame WHERE id > ?1 ORDER BY id",
                     after, deliver_frame, &sink, err);
}

static int deliver_stack(struct row *row, struct sink *sink)
{
    struct tide_stack_row stack = {
        .stack = get_range(row, 0, 1), .depth = get_range(row, 1, 0), .frame = get_range(row, 2, 1)};

    return row->bad ? 0 : sink->on.stack(sink->context, &stack);
}

int tide_reader_each_stack(struct tide_reader *reader, int64_t after, tide_on_stack *on, void *context,
                           struct tide_err *err)
{
    struct sink sink = {.on.stack = on, .context = context};

    return each_heap(reader, TIDE_READER_STACK,
                     "SELECT id, depth, frame FROM main.stack WHERE id > ?1 ORDER BY id, depth", after,
                     deliver_stack, &sink, err);
}

static int deliver_site(struct row *row, struct sink *sink)
{
    struct tide_site site = {.id = get_range(row, 0, 1), .process = get_range(row, 1, 1)};
    int64_t kind = get_range(row, 2, TIDE_SITE_MALLOC);

    site.stack = get_range(row, 3, 0);
    if (kind >= TIDE_SITE_KINDS)
        row->bad = true;
    if (row->bad)
        return 0;
    site.kind = (enum tide_site_kind)kind;
    return sink->on.site(sink->context, &site);
}

int tide_reader_each_site(struct tide_reader *reader, int64_t after, tide_on_site *on, void *context,
                          struct tide_err *err)
{
    struct sink sink = {.on.site = on, .context = context};

    return each_heap(reader, TIDE_READER_SITE,
                     "SELECT id, process, kind, stack FROM main.site WHERE id > ?1 ORDER BY id", after,
                     deliver_site, &sink, err);
}

static int deliver_site_sample(struct row *row, struct sink *sink)
{
    struct tide_site_sample sample = {
        .tick = get_range(row, 0, 1),
        .site = get_range(row, 1, 1),
        .live_bytes = get_range(row, 2, 0),
        .live_blocks = get_range(row, 3, 0),
        .total_bytes = get_size(row, 4),
        .total_blocks = get_size(row, 5),
    };
    return row->bad ? 0 : sink->on.site_sample(sink->context, &sample);
}

int tide_reader_each_site_sample(struct tide_reader *reader, int64_t after, tide_on_site_sample *on,
                                 void *context, struct tide_err *err)
{
    struct sink sink = {.on.site_sample = on, .context = context};

    return each_heap(reader, TIDE_READER_SITE_SAMPLE,
                     "SELECT tick, site, live_bytes, live_blocks, total_bytes, total_blocks"
                     " FROM main.site_sample WHERE tick > ?1 ORDER BY tick, site",
                     after, deliver_site_sample, &sink, err);
}

static int deliver_heap_state(struct row *row, struct sink *sink)
{
    struct tide_heap_status state = {
        .t_ns = get_range(row, 0, 0),
        .process = get_range(row, 1, 0),
        .state = get_text(row, 2),
        .interval_bytes = get_size(row, 3),
        .sampled = get_size(row, 4),
        .dropped_sites = get_size(row, 5),
        .dropped_blocks = get_size(row, 6),
        .truncated_stacks = get_size(row, 7),
        .unwinds = get_size(row, 8),
        .unwind_ns = get_size(row, 9),
    };
    return row->bad ? 0 : sink->on.heap_state(sink->context, &state);
}

int tide_reader_each_heap_state(struct tide_reader *reader, tide_on_heap_state *on, void *context,
                                struct tide_err *err)
{
    struct sink sink = {.on.heap_state = on, .context = context};

    return each_heap(reader, TIDE_READER_HEAP_STATE,
                     "SELECT t_ns, process, state, interval_bytes, sampled, dropped_sites, dropped_blocks,"
                     " truncated_stacks, unwinds, unwind_ns FROM main.heap_state ORDER BY t_ns, id",
                     0, deliver_heap_state, &sink, err);
}

static int deliver_heap_sample(struct row *row, struct sink *sink)
{
    struct tide_heap_sample sample = {
        .tick = get_range(row, 0, 1),
        .process = get_range(row, 1, 1),
        .live_bytes = get_range(row, 2, 0),
        .live_blocks = get_range(row, 3, 0),
        .system_bytes = get_size(row, 4),
        .mapped_bytes = get_size(row, 5),
        .free_bytes = get_size(row, 6),
        .free_blocks = get_size(row, 7),
        .top_bytes = get_size(row, 8),
    };
    return row->bad ? 0 : sink->on.heap_sample(sink->context, &sample);
}

int tide_reader_each_heap_sample(struct tide_reader *reader, int64_t after, tide_on_heap_sample *on,
                                 void *context, struct tide_err *err)
{
    struct sink sink = {.on.heap_sample = on, .context = context};

    if (reader->version < 3)
        return 0;
    return each(reader, TIDE_READER_HEAP_SAMPLE,
                "SELECT tick, process, live_bytes, live_blocks, system_bytes, mapped_bytes, free_bytes,"
                " free_blocks, top_bytes FROM main.heap_sample WHERE tick > ?1 ORDER BY tick, process",
                after, deliver_heap_sample, &sink, err);
}
