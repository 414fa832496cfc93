/*
 * writer.c - see writer.h.
 *
 * One connection, prepared statements, one transaction per commit. A commit has to survive the death of this
 * process, which needs no fsync. But a machine that runs out of memory is often switched off, so synchronous
 * stays NORMAL: the file is synced at checkpoints only, and after a power cut the recording is consistent but
 * may lack its last seconds. The log is kept small (WAL_PAGES) so that the recording takes no more room than
 * its rows.
 *
 * After a failure (full disk, I/O error) the connection stays open and `failed` is set. From then on, rows of
 * ticks are dropped. Rows that later ones depend on (tables with `waits` set, schema.h) are kept in `pending`
 * until a commit succeeds again. They are always put there, before a failure too, because the rollback undoes
 * rows that were already written.
 */
#include "record/writer.h"
#include "record/schema.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/map.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    WAL_PAGES = 16,
    BUSY_MS = 250,                 /* another program may briefly hold the write lock; readers never do */
    RECENT = 8192,                 /* processes whose last row is remembered, a power of two */
    ROOM_BYTES = 1 << 20,          /* that must be free before writing to a full disk is tried again */
    STEPPERS = 64,                 /* processes whose last step is remembered, a power of two */
    PENDING_BYTES = 11 << 20,      /* of rows that wait, */
    PENDING_PROCESSES = 64 * 1024, /* of which so many can be found: 16 MiB together */
};

static const int64_t RETRY_NS = 10 * (int64_t)TIDE_NS_PER_S;

/* Each table has one statement that inserts a row. The others: */
enum { BEGIN = TIDE_SCHEMA_TABLES, COMMIT, STATEMENTS };

/* A row that waits. */
struct waiting {
    struct waiting *next;
    int64_t row[]; /* aligned for any of them */
};

/* The rows of each table, in the order in which they first appeared. A process, whose row changes at every
 * tick, has at most one row here, the newest. */
struct pending {
    struct tide_arena arena;
    struct waiting *first[TIDE_SCHEMA_TABLES], *last[TIDE_SCHEMA_TABLES];
    struct tide_map processes; /* id -> its row */
    bool lost;                 /* a row found no room since the last clear */
};

struct tide_writer {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    char *path;
    bool open;   /* a transaction is open */
    bool failed; /* the next try is at retry_ns, by tide_clock_ns() */
    int64_t retry_ns;
    bool was_full;
    struct tide_err why;              /* of the last failure */
    int64_t last[TIDE_SCHEMA_TABLES]; /* last id given out */
    int64_t tick_t_ns;                /* of the newest tick that was put */
    int64_t committed_t_ns;           /* of the newest tick that is committed */
    struct pending pending;
    struct tide_sample recent[RECENT]; /* last row written for process id, at id % RECENT */
    struct tide_mark
        steps[STEPPERS]; /* last step since a commit of process id, at id % STEPPERS; kind 0: none */
};

/* --- failing ------------------------------------------------------------------------------------------- */

/* True if the last failure was for lack of room. For the -shm file SQLite calls it an I/O error. */
static bool is_full(sqlite3 *db)
{
    int code = sqlite3_errcode(db) & 0xff, error = sqlite3_system_errno(db);

    return code == SQLITE_FULL || (code == SQLITE_IOERR && (error == ENOSPC || error == EDQUOT));
}

static int explain(struct tide_err *err, const char *path, sqlite3 *db)
{
    const char *shown = TIDE_SHOWN(path, 200);

    if (is_full(db)) {
        tide_err_set(err, "cannot write to the recording '%s': the disk is full", shown);
        return tide_err_hint(err, "what was recorded is readable; recording resumes when there is space");
    }
    tide_err_set(err, "cannot write to the recording '%s': %s", shown, TIDE_SHOWN(sqlite3_errmsg(db), 200));
    return tide_err_hint(err, "what was recorded is readable; writing is tried again every 10 s");
}

/* Rolls back, remembers the failure, explains it. */
static int fail(struct tide_writer *writer, struct tide_err *err)
{
    writer->was_full = is_full(writer->db);
    explain(&writer->why, writer->path, writer->db);
    if (err)
        *err = writer->why;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_reset(writer->statements[i]);
    if (!sqlite3_get_autocommit(writer->db))
        sqlite3_exec(writer->db, "ROLLBACK", NULL, NULL, NULL);
    writer->open = false;
    writer->failed = true;
    writer->retry_ns = tide_clock_ns() + RETRY_NS;
    memset(writer->recent, 0, sizeof writer->recent);
    return -1;
}

/* --- statements ---------------------------------------------------------------------------------------- */

static int execute(struct tide_writer *writer, int which)
{
    sqlite3_stmt *statement = writer->statements[which];

    sqlite3_step(statement);
    return sqlite3_reset(statement) == SQLITE_OK ? 0 : -1;
}

/* Writes a row within the transaction, beginning one if necessary. */
static int write_row(struct tide_writer *writer, enum tide_schema which, const void *row,
                     struct tide_err *err)
{
    if (!writer->open && execute(writer, BEGIN) != 0)
        return fail(writer, err);
    writer->open = true;
    tide_schema_bind(&tide_schema_tables[which], row, writer->statements[which]);
    return execute(writer, (int)which) == 0 ? 0 : fail(writer, err);
}

/* --- rows that wait ------------------------------------------------------------------------------------ */

static void init_pending(struct pending *pending)
{
    *pending = (struct pending){.lost = false};
    tide_arena_init(&pending->arena, PENDING_BYTES);
    tide_map_init(&pending->processes, PENDING_PROCESSES);
}

static void release_pending(struct pending *pending)
{
    tide_arena_release(&pending->arena);
    tide_map_release(&pending->processes);
}

/* A copy of text in the arena, or `old` if it is the same text. NULL stays NULL. */
static const char *keep(struct pending *pending, const char *old, const char *text)
{
    if (!text || (old && strcmp(old, text) == 0))
        return text ? old : NULL;
    const char *copy = tide_arena_text(&pending->arena, text, strlen(text));
    if (!copy)
        pending->lost = true;
    return copy ? copy : "";
}

/* Makes `copy`, which holds an older row or zeros, a copy of row, with its texts. */
static void copy_row(struct pending *pending, const struct tide_schema_table *table, const char *row,
                     char *copy)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const struct tide_schema_column *column = &table->columns[i];
        const void *from = row + column->offset;
        void *to = copy + column->offset;
        bool text = column->type >= TIDE_TYPE_TEXT; /* or starts with a text pointer */
        const char *old = text ? *(const char **)to : NULL;
        memcpy(to, from, column->bytes);
        if (text)
            *(const char **)to = keep(pending, old, *(const char *const *)from);
    }
}

/* Appends a row of zeros to the list. NULL: out of memory. */
static struct waiting *append(struct pending *pending, enum tide_schema table)
{
    struct waiting *waiting =
        tide_arena_take(&pending->arena, 1, sizeof *waiting + tide_schema_tables[table].row_bytes);

    if (!waiting) {
        pending->lost = true;
        return NULL;
    }
    if (pending->last[table])
        pending->last[table]->next = waiting;
    else
        pending->first[table] = waiting;
    return pending->last[table] = waiting;
}

/* Returns the row of a process, appending one if it has none. NULL: out of memory. */
static struct waiting *find_process(struct pending *pending, int64_t id)
{
    uint64_t found;

    if (tide_map_get(&pending->processes, (uint64_t)id, &found))
        return (struct waiting *)(uintptr_t)found;
    struct waiting *waiting = append(pending, TIDE_SCHEMA_PROCESS);
    /* If the map has no room, the next update appends a second row, which is written after this one. */
    if (waiting)
        (void)tide_map_put(&pending->processes, (uint64_t)id, (uint64_t)(uintptr_t)waiting);
    return waiting;
}

static int put(struct tide_writer *writer, enum tide_schema which, const void *row, struct tide_err *err)
{
    struct pending *pending = &writer->pending;
    const struct tide_schema_table *table = &tide_schema_tables[which];
    struct waiting *waiting = which == TIDE_SCHEMA_PROCESS
                                  ? find_process(pending, ((const struct tide_process *)row)->id)
                              : table->waits ? append(pending, which)
                                             : NULL;

    if (waiting)
        copy_row(pending, table, row, (char *)waiting->row);
    if (which == TIDE_SCHEMA_TICK)
        writer->tick_t_ns = ((const struct tide_tick *)row)->t_ns;
    return writer->failed ? 0 : write_row(writer, which, row, err);
}

/* --- lifecycle ----------------------------------------------------------------------------------------- */

/* Prefixes a relative path so that SQLite cannot take it for a URI or for ":memory:". */
static char *literal_path(const char *path)
{
    char *literal;

    return asprintf(&literal, "%s%s", path[0] == '/' ? "" : "./", path) < 0 ? NULL : literal;
}

static int refuse(const char *path, int error, struct tide_err *err)
{
    const char *shown = TIDE_SHOWN(path, 200);
    if (error == EEXIST) {
        tide_err_set(err, "cannot record to '%s': it exists, and a recording is never overwritten", shown);
        return tide_err_hint(err, "choose another name with -o, or remove it");
    }
    tide_err_set(err, "cannot record to '%s': %s", shown, strerror(error));
    return tide_err_hint(err, "choose another place with -o FILE");
}

/* Returns the bytes of a recording without rows. Caller frees with sqlite3_free. NULL: out of memory. */
static unsigned char *empty_recording(size_t *ret_len)
{
    enum { WRITE_VERSION = 18, READ_VERSION = 19, LOGGED = 2 }; /* of the file's header: WAL mode */
    sqlite3 *db = NULL;
    sqlite3_int64 len = 0;
    unsigned char *bytes = NULL;
    if (sqlite3_open(":memory:", &db) == SQLITE_OK &&
        sqlite3_exec(db, "PRAGMA page_size = 4096;", NULL, NULL, NULL) == SQLITE_OK &&
        tide_schema_create(db) == SQLITE_OK)
        bytes = sqlite3_serialize(db, "main", &len, 0);
    sqlite3_close(db);
    if (bytes)
        bytes[WRITE_VERSION] = bytes[READ_VERSION] = LOGGED;
    *ret_len = (size_t)len;
    return bytes;
}

/* In a world-writable directory only the owner may read a recording, because it contains command lines and
 * source lines. SQLite gives the log the same mode. */
static mode_t mode_in(const char *directory)
{
    struct stat about;
    return stat(directory, &about) == 0 && (about.st_mode & S_IWOTH) ? 0600 : 0666;
}

/*
 * Creates a recording without rows. The complete file appears at once: a tracker that is killed at any moment
 * leaves a recording that opens, or nothing. Two trackers never share one. If the file system has no
 * O_TMPFILE, the file is created under its own name and written with one call.
 */
static int create(const char *path, struct tide_err *err)
{
    char nameless[64];
    size_t len;
    unsigned char *bytes = empty_recording(&len);
    char *copy = strdup(path);
    if (!bytes || !copy) {
        sqlite3_free(bytes);
        free(copy);
        return tide_err_set(err, "out of memory for the recording");
    }
    const char *directory = dirname(copy);
    mode_t mode = mode_in(directory);
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode), error = 0;
    bool named = fd < 0; /* the file system has no O_TMPFILE */
    if ((named && (fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode)) < 0) ||
        tide_write_all(fd, bytes, len) != 0)
        error = errno;
    snprintf(nameless, sizeof nameless, "/proc/self/fd/%d", fd);
    if (!error && !named && linkat(AT_FDCWD, nameless, AT_FDCWD, path, AT_SYMLINK_FOLLOW))
        error = errno;
    if (error && named && fd >= 0)
        unlink(path);
    if (fd >= 0)
        close(fd);
    sqlite3_free(bytes);
    free(copy);
    return error ? refuse(path, error, err) : 0;
}

/* Opens the database and prepares it. */
static int prepare(struct tide_writer *writer)
{
    char pragmas[192];

    if (sqlite3_open_v2(writer->path, &writer->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return -1;
    sqlite3_extended_result_codes(writer->db, 1);
    sqlite3_busy_timeout(writer->db, BUSY_MS);
    /* Reading meta creates the log. A reader takes the absence of the log to mean that nobody writes. */
    snprintf(pragmas, sizeof pragmas,
             "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = %d;"
             "PRAGMA journal_size_limit = %d; SELECT count(*) FROM meta;",
             WAL_PAGES, WAL_PAGES * 4096);
    if (sqlite3_exec(writer->db, pragmas, NULL, NULL, NULL) != SQLITE_OK)
        return -1;
    for (int i = 0; i < STATEMENTS; i++) {
        char sql[TIDE_SCHEMA_SQL];
        if (i == BEGIN || i == COMMIT)
            strcpy(sql, i == BEGIN ? "BEGIN IMMEDIATE" : "COMMIT");
        else
            tide_schema_insert((enum tide_schema)i, sql);
        if (sqlite3_prepare_v3(writer->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &writer->statements[i],
                               NULL) != SQLITE_OK)
            return -1;
    }
    return 0;
}

static void release(struct tide_writer *writer)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(writer->statements[i]);
    sqlite3_close(writer->db);
    release_pending(&writer->pending);
    free(writer->path);
    free(writer);
}

int tide_writer_new(const char *path, struct tide_writer **ret_writer, struct tide_err *err)
{
    struct tide_writer *writer = calloc(1, sizeof *writer);

    if (!writer)
        return tide_err_set(err, "out of memory for the recording");
    init_pending(&writer->pending);
    writer->path = literal_path(path);
    if (!writer->path || create(path, err) != 0) {
        if (!writer->path)
            tide_err_set(err, "out of memory for the recording");
        release(writer);
        return -1;
    }
    if (prepare(writer) == 0) {
        *ret_writer = writer;
        return 0;
    }
    explain(err, path, writer->db);
    tide_err_hint(err, "choose another place with -o FILE");
    release(writer);
    tide_writer_discard(path); /* SQLite leaves its log behind if it cannot create the index */
    return -1;
}

bool tide_writer_failed(const struct tide_writer *writer)
{
    return writer->failed;
}

/* --- rows ---------------------------------------------------------------------------------------------- */

/* The functions of writer.h that put a row as it is (PUT), and those that give it an id first (PUT_NEW). */
#define PUT(name, table, row_type)                                                                           \
    int tide_writer_##name(struct tide_writer *writer, const struct row_type *row, struct tide_err *err)     \
    {                                                                                                        \
        return put(writer, TIDE_SCHEMA_##table, row, err);                                                   \
    }

#define PUT_NEW(name, table)                                                                                 \
    int tide_writer_##name(struct tide_writer *writer, const struct tide_##name *given, int64_t *ret_id,     \
                           struct tide_err *err)                                                             \
    {                                                                                                        \
        struct tide_##name row = *given;                                                                     \
        row.id = *ret_id = ++writer->last[TIDE_SCHEMA_##table];                                              \
        return put(writer, TIDE_SCHEMA_##table, &row, err);                                                  \
    }

PUT(smaps, SMAPS, tide_smaps)
PUT(gpu, GPU, tide_gpu_sample)
PUT(gpu_device, GPU_DEVICE, tide_gpu_device)
PUT(limit, LIMIT, tide_limit)
PUT(note, NOTE, tide_note)
PUT(site_sample, SITE_SAMPLE, tide_site_sample)
PUT(heap_status, HEAP_STATE, tide_heap_status)
PUT(heap_sample, HEAP_SAMPLE, tide_heap_sample)
PUT_NEW(process, PROCESS)
PUT_NEW(tick, TICK)
PUT_NEW(frame, FRAME)
PUT_NEW(site, SITE)

int tide_writer_meta_text(struct tide_writer *writer, const char *key, const char *text, struct tide_err *err)
{
    struct tide_meta meta = {key, {.text = text}};

    return put(writer, TIDE_SCHEMA_META, &meta, err);
}

int tide_writer_meta_integer(struct tide_writer *writer, const char *key, int64_t value, struct tide_err *err)
{
    struct tide_meta meta = {key, {.number = value}};

    return put(writer, TIDE_SCHEMA_META, &meta, err);
}

int tide_writer_process_update(struct tide_writer *writer, const struct tide_process *process,
                               struct tide_err *err)
{
    TIDE_CHECK(process->id, >=, 1);
    TIDE_CHECK(process->id, <=, writer->last[TIDE_SCHEMA_PROCESS]);
    return put(writer, TIDE_SCHEMA_PROCESS, process, err);
}

static bool same_counters(const struct tide_sample *a, const struct tide_sample *b)
{
    const size_t tick = offsetof(struct tide_sample, process); /* the first member compared */

    return memcmp(&a->process, &b->process, sizeof *a - tick) == 0;
}

int tide_writer_sample(struct tide_writer *writer, const struct tide_sample *sample, struct tide_err *err)
{
    struct tide_sample *last = &writer->recent[(uint64_t)sample->process % RECENT];

    if (writer->failed || same_counters(last, sample))
        return 0;
    if (put(writer, TIDE_SCHEMA_SAMPLE, sample, err) != 0)
        return -1;
    *last = *sample;
    return 0;
}

int tide_writer_mark(struct tide_writer *writer, const struct tide_mark *mark, struct tide_err *err)
{
    if (mark->kind == TIDE_MARK_STEP) {
        struct tide_mark *last = &writer->steps[mark->process & (STEPPERS - 1)];
        *last = *mark;
        last->name = "";
    }
    return put(writer, TIDE_SCHEMA_MARK, mark, err);
}

/* Continues after a failure, so that the remaining rows join those that wait. */
int tide_writer_stack(struct tide_writer *writer, const int64_t *frames, size_t depth, int64_t *ret_id,
                      struct tide_err *err)
{
    int result = 0;

    TIDE_CHECK(depth, >=, 1);
    *ret_id = ++writer->last[TIDE_SCHEMA_STACK];
    for (size_t i = 0; i < depth; i++) {
        struct tide_stack_row row = {*ret_id, (int64_t)i, frames[i]};
        result |= put(writer, TIDE_SCHEMA_STACK, &row, err);
    }
    return result;
}

/* --- committing ---------------------------------------------------------------------------------------- */

static int put_pending(struct tide_writer *writer)
{
    for (int i = 0; i < TIDE_SCHEMA_TABLES; i++)
        for (const struct waiting *waiting = writer->pending.first[i]; waiting; waiting = waiting->next)
            if (write_row(writer, (enum tide_schema)i, waiting->row, NULL) != 0)
                return -1;
    return 0;
}

static int put_gap(struct tide_writer *writer)
{
    char text[160];
    struct tide_note note = {.t_ns = writer->tick_t_ns, .text = text};

    snprintf(text, sizeof text, "nothing could be written between %.1f s and %.1f s%s",
             (double)writer->committed_t_ns / TIDE_NS_PER_S, (double)writer->tick_t_ns / TIDE_NS_PER_S,
             writer->pending.lost ? "; some processes of that time are missing" : "");
    return write_row(writer, TIDE_SCHEMA_NOTE, &note, NULL);
}

static int commit(struct tide_writer *writer, struct tide_err *err)
{
    if (execute(writer, COMMIT) != 0)
        return fail(writer, err);
    writer->open = false;
    writer->failed = false;
    writer->committed_t_ns = writer->tick_t_ns;
    memset(writer->steps, 0, sizeof writer->steps);
    if (writer->pending.arena.held_bytes || writer->pending.lost) {
        release_pending(&writer->pending);
        init_pending(&writer->pending);
    }
    return 0;
}

/* A full disk has room for a small commit now and then. Resuming for that would fail, and report it, again
 * and again. */
static bool worth_trying(const struct tide_writer *writer)
{
    struct statvfs disk;

    if (tide_clock_ns() < writer->retry_ns)
        return false;
    return !writer->was_full || statvfs(writer->path, &disk) != 0 ||
           disk.f_bavail >= ROOM_BYTES / (disk.f_frsize ? disk.f_frsize : 1);
}

/* Writes each process's last step, so that later samples do not count as part of the step before the gap. */
static int put_steps(struct tide_writer *writer)
{
    for (size_t i = 0; i < STEPPERS; i++)
        if (writer->steps[i].kind == TIDE_MARK_STEP &&
            write_row(writer, TIDE_SCHEMA_MARK, &writer->steps[i], NULL) != 0)
            return -1;
    return 0;
}

/* Writes the rows that wait, and a note about the gap. */
static void recover(struct tide_writer *writer)
{
    if (put_pending(writer) == 0 && put_steps(writer) == 0 && put_gap(writer) == 0)
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
    /* A reader that has the file open keeps the log alive. That is no failure; see tide_writer_fold(). */
    sqlite3_wal_checkpoint_v2(writer->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    release(writer);
    return result;
}

void tide_writer_fold(const char *path)
{
    char *literal = literal_path(path);
    sqlite3 *db = NULL;

    /* The last connection to close, if it may write, removes the log. */
    if (literal &&
        sqlite3_open_v2(literal, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK)
        sqlite3_exec(db, "SELECT 1 FROM sqlite_master", NULL, NULL, NULL);
    sqlite3_close(db);
    free(literal);
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
