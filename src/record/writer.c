/*
 * writer.c - see writer.h.
 *
 * One connection, prepared statements, one transaction per commit. What a commit has to survive is the death
 * of this process, which needs no fsync at all; a machine that runs out of memory, though, is often ended by
 * its power switch, so synchronous stays NORMAL: the file is synced at checkpoints only, and after a power
 * cut the recording is whole but may lack its last seconds. The log is kept small (WAL_PAGES) so that the
 * recording takes no more room than its rows.
 *
 * After a failure (full disk, I/O error) the connection stays open and `failed` is set. Rows of ticks are
 * dropped from then on; rows that later ones depend on (processes, meta, limits, devices, notes, frames,
 * stacks, sites) wait in
 * `pending` and are written when a commit gets through again. They are put there always, since a rollback
 * takes back what was written before the failure.
 */
#include "record/writer.h"
#include "record/create.h"
#include "record/pending.h"
#include "record/schema.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "record/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    WAL_PAGES = 16,
    BUSY_MS = 250,        /* another program may hold the write lock for a moment; no reader ever does */
    RECENT = 8192,        /* processes whose last row is remembered, a power of two */
    ROOM_BYTES = 1 << 20, /* that must be free before a full disk is tried again */
    STACK_ROWS = 8,       /* of PUT_STACK_ROWS */
    STEPPERS = 64,        /* processes whose last step is remembered, a power of two */
};

static const int64_t RETRY_NS = 10 * (int64_t)TIDE_NS_PER_S;

enum statement {
    BEGIN,
    COMMIT,
    PUT_META,
    PUT_PROCESS,
    PUT_TICK,
    PUT_SAMPLE,
    PUT_SMAPS,
    PUT_MARK,
    PUT_GPU,
    PUT_GPU_DEVICE,
    PUT_LIMIT,
    PUT_NOTE,
    PUT_FRAME,
    PUT_STACK,
    PUT_STACK_ROWS,
    PUT_SITE,
    PUT_SITE_SAMPLE,
    PUT_HEAP_STATE,
    PUT_HEAP_SAMPLE,
    STATEMENTS
};

static const char *const STATEMENT_SQL[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [PUT_META] = "INSERT OR REPLACE INTO meta VALUES (?,?)",
    [PUT_PROCESS] = "INSERT OR REPLACE INTO process VALUES (?,?,?,?,?,?,?,?,?,?,?)",
    [PUT_TICK] = "INSERT INTO tick VALUES (?,?,?,?,?,?,?,?,?,?)",
    [PUT_SAMPLE] = "INSERT OR REPLACE INTO sample VALUES (?,?,?,?,?,?,?,?,?,?)",
    [PUT_SMAPS] = "INSERT OR REPLACE INTO smaps VALUES (?,?,?,?,?,?)",
    [PUT_MARK] = "INSERT INTO mark(t_ns, process, kind, source, number, name) VALUES (?,?,?,?,?,?)",
    /* Several processes that cannot be told apart are one row with their sum. */
    [PUT_GPU] = ("INSERT INTO gpu VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET"
                 " bytes = CASE WHEN process = -1 THEN bytes + excluded.bytes ELSE excluded.bytes END"),
    [PUT_GPU_DEVICE] = "INSERT OR REPLACE INTO gpu_device VALUES (?,?,?,?)",
    [PUT_LIMIT] = "INSERT INTO memory_limit(t_ns, name, bytes) VALUES (?,?,?)",
    [PUT_NOTE] = "INSERT INTO note(t_ns, text) VALUES (?,?)",
    [PUT_FRAME] = "INSERT OR REPLACE INTO frame VALUES (?,?,?,?,?,?,?,?,?)",
    [PUT_STACK] = "INSERT OR REPLACE INTO stack VALUES (?,?,?)",
    [PUT_STACK_ROWS] = ("INSERT OR REPLACE INTO stack VALUES"
                        " (?,?,?),(?,?,?),(?,?,?),(?,?,?),(?,?,?),(?,?,?),(?,?,?),(?,?,?)"),
    [PUT_SITE] = "INSERT OR REPLACE INTO site VALUES (?,?,?,?)",
    [PUT_SITE_SAMPLE] = "INSERT OR REPLACE INTO site_sample VALUES (?,?,?,?,?,?)",
    [PUT_HEAP_STATE] =
        ("INSERT INTO heap_state(process, t_ns, state, interval_bytes, sampled, dropped_sites,"
         " dropped_blocks, truncated_stacks, unwinds, unwind_ns) VALUES (?,?,?,?,?,?,?,?,?,?)"),
    [PUT_HEAP_SAMPLE] = "INSERT OR REPLACE INTO heap_sample VALUES (?,?,?,?,?,?,?,?,?)",
};

struct tide_writer {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    char *path;
    bool open;   /* a transaction is */
    bool failed; /* and when it will be tried again, by tide_clock_ns() */
    int64_t retry_ns;
    bool was_full;
    struct tide_err why; /* of the last failure */
    int64_t last_tick, last_process, last_frame, last_stack, last_site;
    int64_t tick_t_ns;      /* of the newest tick that was given to us */
    int64_t committed_t_ns; /* of the newest tick that is in the file */
    struct tide_pending *pending;
    struct tide_sample recent[RECENT]; /* last row written of process id, at id % RECENT */
    struct tide_mark
        steps[STEPPERS]; /* last step of process id, at id % STEPPERS; kind 0: none since a commit */
};

/* --- failing ------------------------------------------------------------------------------------------- */

static int explain(struct tide_err *err, const char *path, int code, const char *message)
{
    char shown[200];

    tide_text_escape(path, strlen(path), shown, sizeof shown);
    if ((code & 0xff) == SQLITE_FULL) {
        tide_err_set(err, "cannot write to the recording '%s': the disk is full", shown);
        return tide_err_hint(err,
                             "what was recorded is readable; recording goes on when there is room again");
    }
    tide_err_set(err, "cannot write to the recording '%s': %s", shown, message);
    return tide_err_hint(err, "what was recorded is readable; writing is tried again every 10 s");
}

/* Undoes the transaction, remembers the failure, says what happened. */
static int fail(struct tide_writer *writer, struct tide_err *err)
{
    int code = sqlite3_extended_errcode(writer->db);

    explain(&writer->why, writer->path, code, sqlite3_errmsg(writer->db));
    if (err)
        *err = writer->why;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_reset(writer->statements[i]);
    if (!sqlite3_get_autocommit(writer->db))
        sqlite3_exec(writer->db, "ROLLBACK", NULL, NULL, NULL);
    writer->open = false;
    writer->failed = true;
    writer->was_full = (code & 0xff) == SQLITE_FULL;
    writer->retry_ns = tide_clock_ns() + RETRY_NS;
    memset(writer->recent, 0, sizeof writer->recent);
    return -1;
}

/* --- statements ---------------------------------------------------------------------------------------- */

static void bind_integer(sqlite3_stmt *statement, int column, int64_t value)
{
    if (value == TIDE_UNKNOWN)
        sqlite3_bind_null(statement, column);
    else
        sqlite3_bind_int64(statement, column, value);
}

/* Valid UTF-8 is stored as text, anything else as a blob: the bytes are kept and no program that reads the
 * database chokes on them. */
static void bind_text(sqlite3_stmt *statement, int column, const char *text)
{
    size_t len = text ? strnlen(text, TIDE_READER_TEXT) : 0, at = 0, step;

    while (at < len && (step = tide_text_rune(text + at, len - at, NULL)) != 0)
        at += step;
    if (at < len && len == TIDE_READER_TEXT && len - at < 4)
        len = at; /* cut within a rune */
    if (at == len)
        sqlite3_bind_text(statement, column, text ? text : "", (int)len, SQLITE_STATIC);
    else
        sqlite3_bind_blob(statement, column, text, (int)len, SQLITE_STATIC);
}

static int execute(struct tide_writer *writer, enum statement which)
{
    sqlite3_stmt *statement = writer->statements[which];

    sqlite3_step(statement);
    return sqlite3_reset(statement) == SQLITE_OK ? 0 : -1;
}

/* Runs a bound statement within the transaction, which it begins if need be. */
static int put(struct tide_writer *writer, enum statement which, struct tide_err *err)
{
    if (!writer->open && execute(writer, BEGIN) != 0)
        return fail(writer, err);
    writer->open = true;
    return execute(writer, which) == 0 ? 0 : fail(writer, err);
}

/* --- lifecycle ----------------------------------------------------------------------------------------- */

/* A relative path is made one that SQLite cannot take for a URI or for ":memory:". */
static char *literal_path(const char *path)
{
    char *literal = malloc(strlen(path) + 3);

    if (literal)
        sprintf(literal, "%s%s", path[0] == '/' ? "" : "./", path);
    return literal;
}

static int prepare(struct tide_writer *writer)
{
    char pragmas[192];

    /* The look at meta makes the log there is from now on: its absence tells a reader that nobody writes. */
    snprintf(pragmas, sizeof pragmas,
             "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = %d;"
             "PRAGMA journal_size_limit = %d; SELECT count(*) FROM meta;",
             WAL_PAGES, WAL_PAGES * 4096);
    if (sqlite3_exec(writer->db, pragmas, NULL, NULL, NULL) != SQLITE_OK)
        return -1;
    for (int i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(writer->db, STATEMENT_SQL[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &writer->statements[i], NULL) != SQLITE_OK)
            return -1;
    return 0;
}

static void close_database(struct tide_writer *writer)
{
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(writer->statements[i]);
        writer->statements[i] = NULL;
    }
    sqlite3_close(writer->db);
    writer->db = NULL;
}

static void release(struct tide_writer *writer)
{
    close_database(writer);
    tide_pending_free(writer->pending);
    free(writer->path);
    free(writer);
}

int tide_writer_new(const char *path, struct tide_writer **ret_writer, struct tide_err *err)
{
    struct tide_writer *writer = calloc(1, sizeof *writer);

    if (!writer || !(writer->path = literal_path(path)) || !(writer->pending = tide_pending_new())) {
        tide_err_set(err, "not enough memory to begin a recording");
        goto release_writer;
    }
    if (tide_recording_create(path, err) != 0)
        goto release_writer;
    if (sqlite3_open_v2(writer->path, &writer->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        goto explain_and_remove;
    sqlite3_extended_result_codes(writer->db, 1);
    sqlite3_busy_timeout(writer->db, BUSY_MS);
    if (prepare(writer) != 0)
        goto explain_and_remove;
    *ret_writer = writer;
    return 0;

explain_and_remove:
    explain(err, path, sqlite3_extended_errcode(writer->db), sqlite3_errmsg(writer->db));
    tide_err_hint(err, "choose another place with -o FILE");
    close_database(writer);
    unlink(path);
release_writer:
    if (writer)
        release(writer);
    return -1;
}

bool tide_writer_failed(const struct tide_writer *writer)
{
    return writer->failed;
}

/* --- rows that outlive a failure -------------------------------------------------------------------------
 */

static int put_process(struct tide_writer *writer, const struct tide_process *row, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_PROCESS];

    sqlite3_bind_int64(statement, 1, row->id);
    bind_integer(statement, 2, row->pid);
    bind_integer(statement, 3, row->parent);
    bind_integer(statement, 4, row->start_ticks);
    bind_text(statement, 5, row->name);
    bind_text(statement, 6, row->command);
    bind_text(statement, 7, row->role);
    bind_integer(statement, 8, row->began_ns);
    bind_integer(statement, 9, row->ended_ns);
    bind_integer(statement, 10, row->peak_rss_bytes);
    bind_integer(statement, 11, row->rank);
    return put(writer, PUT_PROCESS, err);
}

static int put_meta(struct tide_writer *writer, const char *key, const char *text, int64_t value,
                    struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_META];

    bind_text(statement, 1, key);
    if (text)
        bind_text(statement, 2, text);
    else
        bind_integer(statement, 2, value);
    return put(writer, PUT_META, err);
}

static int put_gpu_device(struct tide_writer *writer, const struct tide_gpu_device *row, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_GPU_DEVICE];

    sqlite3_bind_int64(statement, 1, row->device);
    bind_text(statement, 2, row->name);
    bind_text(statement, 3, row->uuid);
    bind_integer(statement, 4, row->total_bytes);
    return put(writer, PUT_GPU_DEVICE, err);
}

static int put_limit(struct tide_writer *writer, const struct tide_limit *row, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_LIMIT];

    bind_integer(statement, 1, row->t_ns);
    bind_text(statement, 2, row->name);
    bind_integer(statement, 3, row->bytes);
    return put(writer, PUT_LIMIT, err);
}

static int put_note(struct tide_writer *writer, const struct tide_note *row, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_NOTE];

    bind_integer(statement, 1, row->t_ns);
    bind_text(statement, 2, row->text);
    return put(writer, PUT_NOTE, err);
}

static int put_frame(struct tide_writer *writer, const struct tide_frame *row, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_FRAME];

    sqlite3_bind_int64(statement, 1, row->id);
    bind_text(statement, 2, row->function);
    bind_text(statement, 3, row->file);
    bind_integer(statement, 4, row->line);
    bind_text(statement, 5, row->module);
    bind_integer(statement, 6, row->offset);
    sqlite3_bind_int(statement, 7, row->python);
    sqlite3_bind_int(statement, 8, row->inlined);
    bind_text(statement, 9, row->source);
    return put(writer, PUT_FRAME, err);
}

/* Most rows of a recording of deep stacks are these: several at once take two thirds of the time. */
static int put_stack(struct tide_writer *writer, int64_t id, const int64_t *frames, size_t depth,
                     struct tide_err *err)
{
    for (size_t at = 0, some; at < depth; at += some) {
        some = depth - at >= STACK_ROWS ? STACK_ROWS : 1;
        enum statement which = some == 1 ? PUT_STACK : PUT_STACK_ROWS;
        for (size_t i = 0; i < some; i++) {
            int column = 3 * (int)i;
            sqlite3_bind_int64(writer->statements[which], column + 1, id);
            sqlite3_bind_int64(writer->statements[which], column + 2, (int64_t)(at + i));
            sqlite3_bind_int64(writer->statements[which], column + 3, frames[at + i]);
        }
        if (put(writer, which, err) != 0)
            return -1;
    }
    return 0;
}

static int put_site(struct tide_writer *writer, const struct tide_site *row, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_SITE];

    sqlite3_bind_int64(statement, 1, row->id);
    sqlite3_bind_int64(statement, 2, row->process);
    sqlite3_bind_int(statement, 3, row->kind);
    sqlite3_bind_int64(statement, 4, row->stack);
    return put(writer, PUT_SITE, err);
}

static int put_heap_status(struct tide_writer *writer, const struct tide_heap_status *row,
                           struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_HEAP_STATE];

    sqlite3_bind_int64(statement, 1, row->process);
    bind_integer(statement, 2, row->t_ns);
    bind_text(statement, 3, row->state);
    bind_integer(statement, 4, row->interval_bytes);
    bind_integer(statement, 5, row->sampled);
    bind_integer(statement, 6, row->dropped_sites);
    bind_integer(statement, 7, row->dropped_blocks);
    bind_integer(statement, 8, row->truncated_stacks);
    bind_integer(statement, 9, row->unwinds);
    bind_integer(statement, 10, row->unwind_ns);
    return put(writer, PUT_HEAP_STATE, err);
}

int tide_writer_process(struct tide_writer *writer, const struct tide_process *process, int64_t *ret_id,
                        struct tide_err *err)
{
    struct tide_process row = *process;

    row.id = ++writer->last_process;
    *ret_id = row.id;
    tide_pending_process(writer->pending, &row);
    return writer->failed ? 0 : put_process(writer, &row, err);
}

int tide_writer_process_update(struct tide_writer *writer, const struct tide_process *process,
                               struct tide_err *err)
{
    TIDE_CHECK(process->id, >=, 1);
    TIDE_CHECK(process->id, <=, writer->last_process);
    tide_pending_process(writer->pending, process);
    return writer->failed ? 0 : put_process(writer, process, err);
}

int tide_writer_meta_text(struct tide_writer *writer, const char *key, const char *text, struct tide_err *err)
{
    tide_pending_meta(writer->pending, key, text, 0);
    return writer->failed ? 0 : put_meta(writer, key, text, 0, err);
}

int tide_writer_meta_integer(struct tide_writer *writer, const char *key, int64_t value, struct tide_err *err)
{
    tide_pending_meta(writer->pending, key, NULL, value);
    return writer->failed ? 0 : put_meta(writer, key, NULL, value, err);
}

int tide_writer_gpu_device(struct tide_writer *writer, const struct tide_gpu_device *device,
                           struct tide_err *err)
{
    tide_pending_gpu_device(writer->pending, device);
    return writer->failed ? 0 : put_gpu_device(writer, device, err);
}

int tide_writer_limit(struct tide_writer *writer, const struct tide_limit *limit, struct tide_err *err)
{
    tide_pending_limit(writer->pending, limit);
    return writer->failed ? 0 : put_limit(writer, limit, err);
}

int tide_writer_note(struct tide_writer *writer, const struct tide_note *note, struct tide_err *err)
{
    tide_pending_note(writer->pending, note);
    return writer->failed ? 0 : put_note(writer, note, err);
}

int tide_writer_frame(struct tide_writer *writer, const struct tide_frame *frame, int64_t *ret_id,
                      struct tide_err *err)
{
    struct tide_frame row = *frame;

    row.id = *ret_id = ++writer->last_frame;
    tide_pending_frame(writer->pending, &row);
    return writer->failed ? 0 : put_frame(writer, &row, err);
}

int tide_writer_stack(struct tide_writer *writer, const int64_t *frames, size_t depth, int64_t *ret_id,
                      struct tide_err *err)
{
    TIDE_CHECK(depth, >=, 1);
    *ret_id = ++writer->last_stack;
    tide_pending_stack(writer->pending, *ret_id, frames, depth);
    return writer->failed ? 0 : put_stack(writer, *ret_id, frames, depth, err);
}

int tide_writer_site(struct tide_writer *writer, const struct tide_site *site, int64_t *ret_id,
                     struct tide_err *err)
{
    struct tide_site row = *site;

    row.id = *ret_id = ++writer->last_site;
    tide_pending_site(writer->pending, &row);
    return writer->failed ? 0 : put_site(writer, &row, err);
}

int tide_writer_heap_status(struct tide_writer *writer, const struct tide_heap_status *state,
                            struct tide_err *err)
{
    tide_pending_heap_status(writer->pending, state);
    return writer->failed ? 0 : put_heap_status(writer, state, err);
}

/* --- rows of one moment ----------------------------------------------------------------------------------
 */

int tide_writer_tick(struct tide_writer *writer, const struct tide_tick *tick, int64_t *ret_id,
                     struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_TICK];

    *ret_id = ++writer->last_tick;
    writer->tick_t_ns = tick->t_ns;
    if (writer->failed)
        return 0;
    sqlite3_bind_int64(statement, 1, writer->last_tick);
    bind_integer(statement, 2, tick->t_ns);
    bind_integer(statement, 3, tick->processes);
    bind_integer(statement, 4, tick->rss_bytes);
    bind_integer(statement, 5, tick->counted_bytes);
    bind_integer(statement, 6, tick->pss_known_bytes);
    bind_integer(statement, 7, tick->cgroup_bytes);
    bind_integer(statement, 8, tick->cgroup_peak_bytes);
    bind_integer(statement, 9, tick->pressure_ppm);
    bind_integer(statement, 10, tick->available_bytes);
    return put(writer, PUT_TICK, err);
}

static bool same_counters(const struct tide_sample *a, const struct tide_sample *b)
{
    return a->process == b->process && a->anon_bytes == b->anon_bytes && a->file_bytes == b->file_bytes &&
           a->shmem_bytes == b->shmem_bytes && a->swap_bytes == b->swap_bytes &&
           a->huge_bytes == b->huge_bytes && a->threads == b->threads && a->asked_bytes == b->asked_bytes &&
           a->mapped_bytes == b->mapped_bytes;
}

int tide_writer_sample(struct tide_writer *writer, const struct tide_sample *sample, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_SAMPLE];
    struct tide_sample *last = &writer->recent[(uint64_t)sample->process % RECENT];

    if (writer->failed || same_counters(last, sample))
        return 0;
    sqlite3_bind_int64(statement, 1, sample->tick);
    sqlite3_bind_int64(statement, 2, sample->process);
    bind_integer(statement, 3, sample->anon_bytes);
    bind_integer(statement, 4, sample->file_bytes);
    bind_integer(statement, 5, sample->shmem_bytes);
    bind_integer(statement, 6, sample->swap_bytes);
    bind_integer(statement, 7, sample->huge_bytes);
    bind_integer(statement, 8, sample->threads);
    bind_integer(statement, 9, sample->asked_bytes);
    bind_integer(statement, 10, sample->mapped_bytes);
    if (put(writer, PUT_SAMPLE, err) != 0)
        return -1;
    *last = *sample;
    return 0;
}

int tide_writer_smaps(struct tide_writer *writer, const struct tide_smaps *smaps, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_SMAPS];

    if (writer->failed)
        return 0;
    sqlite3_bind_int64(statement, 1, smaps->tick);
    sqlite3_bind_int64(statement, 2, smaps->process);
    bind_integer(statement, 3, smaps->pss_bytes);
    bind_integer(statement, 4, smaps->uss_bytes);
    bind_integer(statement, 5, smaps->swap_pss_bytes);
    bind_integer(statement, 6, smaps->cost_ns);
    return put(writer, PUT_SMAPS, err);
}

static int put_mark(struct tide_writer *writer, const struct tide_mark *mark, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_MARK];

    bind_integer(statement, 1, mark->t_ns);
    bind_integer(statement, 2, mark->process);
    sqlite3_bind_int(statement, 3, mark->kind);
    sqlite3_bind_int(statement, 4, mark->source);
    sqlite3_bind_int64(statement, 5, mark->number); /* a step may well be -1 */
    bind_text(statement, 6, mark->name);
    return put(writer, PUT_MARK, err);
}

int tide_writer_mark(struct tide_writer *writer, const struct tide_mark *mark, struct tide_err *err)
{
    if (mark->kind == TIDE_MARK_STEP) {
        struct tide_mark *last = &writer->steps[mark->process & (STEPPERS - 1)];
        *last = *mark;
        last->name = "";
    }
    return writer->failed ? 0 : put_mark(writer, mark, err);
}

int tide_writer_gpu(struct tide_writer *writer, const struct tide_gpu_sample *gpu, struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_GPU];

    if (writer->failed)
        return 0;
    sqlite3_bind_int64(statement, 1, gpu->tick);
    sqlite3_bind_int64(statement, 2, gpu->device);
    sqlite3_bind_int64(statement, 3, gpu->process == TIDE_UNKNOWN ? TIDE_GPU_PROCESS_UNKNOWN : gpu->process);
    bind_integer(statement, 4, gpu->bytes);
    return put(writer, PUT_GPU, err);
}

int tide_writer_site_sample(struct tide_writer *writer, const struct tide_site_sample *sample,
                            struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_SITE_SAMPLE];

    if (writer->failed)
        return 0;
    sqlite3_bind_int64(statement, 1, sample->tick);
    sqlite3_bind_int64(statement, 2, sample->site);
    bind_integer(statement, 3, sample->live_bytes);
    bind_integer(statement, 4, sample->live_blocks);
    bind_integer(statement, 5, sample->total_bytes);
    bind_integer(statement, 6, sample->total_blocks);
    return put(writer, PUT_SITE_SAMPLE, err);
}

int tide_writer_heap_sample(struct tide_writer *writer, const struct tide_heap_sample *sample,
                            struct tide_err *err)
{
    sqlite3_stmt *statement = writer->statements[PUT_HEAP_SAMPLE];

    if (writer->failed)
        return 0;
    sqlite3_bind_int64(statement, 1, sample->tick);
    sqlite3_bind_int64(statement, 2, sample->process);
    bind_integer(statement, 3, sample->live_bytes);
    bind_integer(statement, 4, sample->live_blocks);
    bind_integer(statement, 5, sample->system_bytes);
    bind_integer(statement, 6, sample->mapped_bytes);
    bind_integer(statement, 7, sample->free_bytes);
    bind_integer(statement, 8, sample->free_blocks);
    bind_integer(statement, 9, sample->top_bytes);
    return put(writer, PUT_HEAP_SAMPLE, err);
}

/* --- committing ------------------------------------------------------------------------------------------
 */

static int put_pending(void *context, const struct tide_pending_row *row)
{
    struct tide_writer *writer = context;

    switch (row->kind) {
    case TIDE_PENDING_PROCESS:
        return put_process(writer, &row->process, NULL);
    case TIDE_PENDING_META:
        return put_meta(writer, row->meta.key, row->meta.text, row->meta.value, NULL);
    case TIDE_PENDING_GPU_DEVICE:
        return put_gpu_device(writer, &row->gpu_device, NULL);
    case TIDE_PENDING_LIMIT:
        return put_limit(writer, &row->limit, NULL);
    case TIDE_PENDING_NOTE:
        return put_note(writer, &row->note, NULL);
    case TIDE_PENDING_FRAME:
        return put_frame(writer, &row->frame, NULL);
    case TIDE_PENDING_STACK:
        return put_stack(writer, row->stack.id, row->stack.frames, row->stack.depth, NULL);
    case TIDE_PENDING_SITE:
        return put_site(writer, &row->site, NULL);
    case TIDE_PENDING_HEAP_STATE:
        return put_heap_status(writer, &row->heap_state, NULL);
    }
    return 0;
}

static int put_gap(struct tide_writer *writer)
{
    char text[160];
    struct tide_note note = {.t_ns = writer->tick_t_ns, .text = text};

    snprintf(text, sizeof text, "nothing could be written between %.1f s and %.1f s%s",
             (double)writer->committed_t_ns / TIDE_NS_PER_S, (double)writer->tick_t_ns / TIDE_NS_PER_S,
             tide_pending_lost(writer->pending) ? "; some processes of that time are missing" : "");
    return put_note(writer, &note, NULL);
}

static int commit(struct tide_writer *writer, struct tide_err *err)
{
    if (execute(writer, COMMIT) != 0)
        return fail(writer, err);
    writer->open = false;
    writer->failed = false;
    writer->committed_t_ns = writer->tick_t_ns;
    memset(writer->steps, 0, sizeof writer->steps);
    tide_pending_clear(writer->pending);
    return 0;
}

/* A disk that is full to the last page has room for one small commit now and then; going on for that would
 * mean failing, and saying so, again and again. */
static bool worth_trying(const struct tide_writer *writer)
{
    struct statvfs disk;

    if (tide_clock_ns() < writer->retry_ns)
        return false;
    return !writer->was_full || statvfs(writer->path, &disk) != 0 ||
           disk.f_bavail >= ROOM_BYTES / (disk.f_frsize ? disk.f_frsize : 1);
}

/* Where the program is: what is seen next belongs to that step, not to the last one before the gap. */
static int put_steps(struct tide_writer *writer)
{
    for (size_t i = 0; i < STEPPERS; i++)
        if (writer->steps[i].kind == TIDE_MARK_STEP && put_mark(writer, &writer->steps[i], NULL) != 0)
            return -1;
    return 0;
}

/* Writes what waits, and a note about the gap. */
static void recover(struct tide_writer *writer)
{
    if (tide_pending_each(writer->pending, put_pending, writer) == 0 && put_steps(writer) == 0 &&
        put_gap(writer) == 0)
        commit(writer, NULL);
}

int tide_writer_commit(struct tide_writer *writer, struct tide_err *err)
{
    if (!writer->failed)
        return writer->open ? commit(writer, err) : 0;
    if (worth_trying(writer))
        recover(writer);
    return 0;
}

int tide_writer_free(struct tide_writer *writer, struct tide_err *err)
{
    int result = 0;

    if (!writer)
        return 0;
    if (!writer->failed)
        tide_writer_commit(writer, NULL);
    if (writer->failed)
        recover(writer);
    if (writer->failed) {
        if (err)
            *err = writer->why;
        result = -1;
    }
    /* A reader that looks at this moment keeps the log alive; that is no failure, the next one to close folds
     * it in. */
    sqlite3_wal_checkpoint_v2(writer->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    release(writer);
    return result;
}

void tide_writer_discard(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char name[PATH_MAX + 8];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}
