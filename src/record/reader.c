/*
 * reader.c - see reader.h.
 *
 * The file is opened read-only and without SQLITE_OPEN_CREATE. Before the first query the connection is
 * locked down (lock_down), and every table that is queried must be an ordinary one: no view, no virtual
 * table, no computed column. All that a malicious file can then contain is wrong numbers, which
 * tide_schema_read() checks one by one, and a damaged b-tree, which SQLite reports.
 *
 * A recording that ended cleanly is one file without a log (-wal). It never changes again, so it is opened as
 * immutable: SQLite creates nothing beside it, and its directory need not be writable. If there is a log, its
 * writer is running or was killed. SQLite then needs the -shm file and creates it if it may. Only a killed
 * recording whose -shm was lost is refused on a read-only medium.
 */
#include "record/reader.h"
#include "base/buf.h"
#include "base/infile.h"
#include "base/text.h"
#include "record/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUSY_MS = 2000,      /* another process may be recovering the log */
    ROW_BYTES = 1 << 20, /* a longer row is damage */
};

static const char MAGIC[16] = "SQLite format 3"; /* the NUL included */

struct tide_reader {
    sqlite3 *db;
    char *name;      /* escaped for messages */
    int64_t version; /* of the schema */
    char *meta;      /* text that tide_reader_meta() returned last */
    int64_t skipped;
    /* Largest key of the rows counted in `skipped`, so that a row that is seen again counts once. */
    int64_t counted[TIDE_SCHEMA_TABLES];
    int64_t last; /* row number of the last mark that a callback took */
};

static int suggest_recording(struct tide_err *err)
{
    return tide_err_hint(err, "record one with 'tidemark run -o FILE.tide -- PROG'");
}

/* --- opening ------------------------------------------------------------------------------------------- */

/* Explains the database's last error to the user. */
static int explain(const struct tide_reader *reader, struct tide_err *err)
{
    int code = reader->db ? sqlite3_errcode(reader->db) & 0xff : SQLITE_NOMEM;
    /* may quote names of the file's own schema */
    const char *message = TIDE_SHOWN(reader->db ? sqlite3_errmsg(reader->db) : "", 200);

    switch (code) {
    case SQLITE_NOTADB:
        tide_err_set(err, "'%s' is not a recording", reader->name);
        return suggest_recording(err);
    case SQLITE_CORRUPT:
        tide_err_set(err, "the recording '%s' is damaged: %s", reader->name, message);
        return tide_err_hint(err, "save what is readable: sqlite3 FILE .recover | sqlite3 NEW");
    case SQLITE_TOOBIG:
        return tide_err_set(err, "the recording '%s' is damaged: it has a row of more than %d bytes",
                            reader->name, ROW_BYTES);
    case SQLITE_NOMEM:
        return tide_err_set(err, "cannot read '%s': not enough memory", reader->name);
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
        tide_err_set(err,
                     "cannot read '%s': it ended without a clean close, and its directory cannot be written",
                     reader->name);
        return tide_err_hint(err, "copy it and its -wal file to a writable directory");
    default:
        return tide_err_set(err, "cannot read '%s': %s", reader->name, message);
    }
}

static int lock_down(struct tide_reader *reader)
{
    static const struct {
        int option, value;
    } settings[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    };

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (sqlite3_db_config(reader->db, settings[i].option, settings[i].value, NULL) != SQLITE_OK)
            return -1;
    sqlite3_limit(reader->db, SQLITE_LIMIT_LENGTH, ROW_BYTES);
    sqlite3_limit(reader->db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_busy_timeout(reader->db, BUSY_MS);
    return sqlite3_exec(reader->db, "PRAGMA query_only = 1; PRAGMA cell_size_check = 1;", NULL, NULL, NULL) ==
                   SQLITE_OK
               ? 0
               : -1;
}

/* Returns through ret_value the one integer that sql yields. */
static int query_integer(struct tide_reader *reader, const char *sql, int64_t *ret_value,
                         struct tide_err *err)
{
    sqlite3_stmt *statement = NULL;
    int result = -1;

    if (sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        *ret_value = sqlite3_column_int64(statement, 0);
        result = 0;
    } else {
        explain(reader, err);
    }
    sqlite3_finalize(statement);
    return result;
}

/* Checks that every table of the recording's version is an ordinary table with ordinary columns. */
static int check_tables(struct tide_reader *reader, struct tide_err *err)
{
    const struct tide_schema_table *table = tide_schema_tables, *behind = table + TIDE_SCHEMA_TABLES;
    sqlite3_stmt *statement = NULL;
    bool proper = true;
    bool known =
        sqlite3_prepare_v2(
            reader->db,
            "SELECT (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND rootpage > 1) = 1"
            " AND (SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden <> 0) = 0",
            -1, &statement, NULL) == SQLITE_OK;
    for (; known && proper && table < behind; table += proper) {
        if (table->columns[0].since > reader->version)
            continue;
        sqlite3_reset(statement);
        known = sqlite3_bind_text(statement, 1, table->name, -1, SQLITE_STATIC) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;
        proper = known && sqlite3_column_int(statement, 0);
    }
    if (!known)
        explain(reader, err);
    else if (!proper)
        tide_err_set(err, "the recording '%s' is damaged: it has no proper table '%s'", reader->name,
                     table->name);
    sqlite3_finalize(statement);
    return known && proper ? 0 : -1;
}

static int check_identity(struct tide_reader *reader, struct tide_err *err)
{
    int64_t id, version;

    if (query_integer(reader, "PRAGMA application_id", &id, err) != 0 ||
        query_integer(reader, "PRAGMA user_version", &version, err) != 0)
        return -1;
    if (id != TIDE_APPLICATION_ID) {
        tide_err_set(err, "'%s' is a database, but not a recording", reader->name);
        return suggest_recording(err);
    }
    if (version > TIDE_RECORD_VERSION) {
        tide_err_set(err, "'%s' is a recording of version %lld, and this tidemark reads up to version %d",
                     reader->name, (long long)version, TIDE_RECORD_VERSION);
        return tide_err_hint(err, "read it with the tidemark that made it, or a newer one");
    }
    if (version < 1)
        return tide_err_set(err, "the recording '%s' is damaged: it has version %lld", reader->name,
                            (long long)version);
    reader->version = version;
    return check_tables(reader, err);
}

void tide_reader_free(struct tide_reader *reader)
{
    if (!reader)
        return;
    sqlite3_close(reader->db);
    free(reader->meta);
    free(reader->name);
    free(reader);
}

int tide_reader_adopt(sqlite3 *db, const char *name, struct tide_reader **ret_reader, struct tide_err *err)
{
    struct tide_reader *reader = calloc(1, sizeof *reader);

    if (!reader || !(reader->name = strdup(TIDE_SHOWN(name, 256)))) {
        free(reader);
        sqlite3_close(db);
        return tide_err_set(err, "not enough memory to read a recording");
    }
    for (int i = 0; i < TIDE_SCHEMA_TABLES; i++)
        reader->counted[i] = INT64_MIN;
    reader->db = db;
    if (lock_down(reader) != 0)
        explain(reader, err);
    else if (check_identity(reader, err) == 0) {
        *ret_reader = reader;
        return 0;
    }
    tide_reader_free(reader);
    return -1;
}

/* True if there is a log: its writer is running or was killed. */
static bool has_log(const char *path)
{
    char log[PATH_MAX + 8]; /* a longer name is no file's */
    struct stat status;

    snprintf(log, sizeof log, "%s-wal", path);
    return stat(log, &status) == 0 || errno != ENOENT;
}

bool tide_reader_is_written(const char *path)
{
    /* SQLite's locks on the -shm file: eight of transactions, and one that each connection holds all the
     * time (UNIX_SHM_DMS). Locks end with their process. */
    struct flock locks = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 120, .l_len = 9};
    char index[PATH_MAX + 8];
    struct stat about;

    snprintf(index, sizeof index, "%s-shm", path);
    int fd = tide_infile_open(index, &about);
    bool absent = fd < 0 && errno == ENOENT;
    bool unlocked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &locks) == 0 && locks.l_type == F_UNLCK;
    if (fd >= 0)
        close(fd);
    return !absent && !unlocked;
}

/* From the first bytes of a database. */
struct head {
    int64_t page_bytes;
    bool wal; /* in WAL mode, as every recording is once it has its tables */
};

/* True if the file starts like a database. SQLite reads it: this process may be the one that records, and if
 * it closed a descriptor of its own, all its locks on the file would go. */
static bool read_head(sqlite3 *db, struct head *ret_head)
{
    unsigned char head[19];
    sqlite3_file *file = NULL;

    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || !file->pMethods ||
        file->pMethods->xRead(file, head, sizeof head, 0) != SQLITE_OK ||
        memcmp(head, MAGIC, sizeof MAGIC) != 0)
        return false;
    int page = head[16] << 8 | head[17];
    *ret_head = (struct head){.page_bytes = page == 1 ? 65536 : page > 0 ? page : 1, .wal = head[18] == 2};
    return true;
}

static int refuse_to_open(const char *path, int error, struct tide_err *err)
{
    tide_err_set(err, "cannot open '%s': %s", TIDE_SHOWN(path, 256),
                 error == ENOENT ? "no such file" : strerror(error));
    return error == ENOENT ? suggest_recording(err) : -1;
}

/* Refuses files that SQLite would call "unable to open" without a reason, or take for an empty database. */
static int check_file(const char *path, struct stat *ret_about, struct tide_err *err)
{
    const char *shown = TIDE_SHOWN(path, 256);
    if (stat(path, ret_about) != 0)
        return refuse_to_open(path, errno, err);
    if (S_ISDIR(ret_about->st_mode))
        return tide_err_set(err, "cannot open '%s': it is a directory", shown);
    if (!S_ISREG(ret_about->st_mode))
        return tide_err_set(err, "cannot open '%s': it is not a regular file", shown);
    if (ret_about->st_size == 0) {
        tide_err_set(err, "'%s' is empty", shown);
        return suggest_recording(err);
    }
    return access(path, R_OK) != 0 ? refuse_to_open(path, errno, err) : 0;
}

/* Opens path as a URI, in which every byte may be written as its number. Returns NULL if memory runs out. */
static sqlite3 *open_database(const char *path, const char *query)
{
    struct tide_buf uri;
    sqlite3 *db = NULL;

    tide_buf_init(&uri, 1 << 17);
    tide_buf_text(&uri, path[0] == '/' ? "file:" : "file:./");
    for (const char *p = path; *p; p++)
        tide_buf_format(&uri, "%%%02x", (unsigned char)*p);
    tide_buf_text(&uri, query);
    if (!uri.failed)
        sqlite3_open_v2(tide_buf_view(&uri), &db,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    tide_buf_release(&uri);
    return db;
}

int tide_reader_new(const char *path, struct tide_reader **ret_reader, struct tide_err *err)
{
    struct stat about;
    struct head head;

    if (check_file(path, &about, err) != 0)
        return -1;
    sqlite3 *db = open_database(path, "?mode=ro");
    if (db && !has_log(path) && read_head(db, &head)) {
        /* The file ends in the middle of a page and no log has the rest. SQLite would read zeros there. */
        bool cut = about.st_size % head.page_bytes != 0;
        if (cut || head.wal)
            sqlite3_close(db);
        if (cut)
            return tide_err_set(err, "the recording '%s' is damaged: it is cut off after %lld bytes",
                                TIDE_SHOWN(path, 256), (long long)about.st_size);
        /* Nobody writes to it any more. A file that is not in WAL mode is being created right now, or was
         * copied by other means; it needs no special care. */
        if (head.wal)
            db = open_database(path, "?mode=ro&immutable=1");
    }
    if (!db)
        return tide_err_set(err, "not enough memory to read a recording");
    return tide_reader_adopt(db, path, ret_reader, err);
}

int tide_reader_is_recording(const char *path, struct tide_err *err)
{
    char head[sizeof MAGIC];
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    /* Reading a pipe would consume what the next reader needs. */
    bool pipe = fd >= 0 && fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
    ssize_t got = pipe ? 0 : fd < 0 ? -1 : read(fd, head, sizeof head); /* at once, if it is a recording */
    int error = errno;

    if (fd >= 0)
        close(fd);
    return got < 0 ? refuse_to_open(path, error, err)
                   : got == (ssize_t)sizeof head && memcmp(head, MAGIC, sizeof MAGIC) == 0;
}

int tide_reader_begin(struct tide_reader *reader, struct tide_err *err)
{
    /* BEGIN alone takes no snapshot; the first read does. */
    if (sqlite3_exec(reader->db, "BEGIN; SELECT 1 FROM meta LIMIT 1", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    explain(reader, err);
    tide_reader_end(reader);
    return -1;
}

void tide_reader_end(struct tide_reader *reader)
{
    if (!sqlite3_get_autocommit(reader->db))
        sqlite3_exec(reader->db, "ROLLBACK", NULL, NULL, NULL);
}

int64_t tide_reader_skipped(const struct tide_reader *reader)
{
    return reader->skipped;
}

/* --- meta ---------------------------------------------------------------------------------------------- */

struct tide_meta_value tide_reader_meta(struct tide_reader *reader, const char *key)
{
    struct tide_meta_value value = {NULL, TIDE_UNKNOWN};
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(reader->db, "SELECT value FROM meta WHERE key = ?1", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW && !tide_schema_read_value(statement, 0, &value))
        value = (struct tide_meta_value){NULL, TIDE_UNKNOWN};
    if (value.text) {
        free(reader->meta);
        value.text = reader->meta = strdup(value.text);
    }
    sqlite3_finalize(statement);
    return value;
}

/* --- iterations ---------------------------------------------------------------------------------------- */

int tide_reader_each(struct tide_reader *reader, enum tide_schema which, int64_t after, tide_on_row *on,
                     void *context, struct tide_err *err)
{
    const struct tide_schema_table *table = &tide_schema_tables[which];
    /* Rows up to this key were read before, and the skipped ones among them are counted already. */
    const int64_t counted = reader->counted[which];
    sqlite3_stmt *statement = NULL;
    char sql[TIDE_SCHEMA_SQL];
    int result = 0;

    reader->last = after;
    if (table->columns[0].since > reader->version)
        return 0;
    void *row = malloc(table->row_bytes);
    if (!row)
        return tide_err_set(err, "cannot read '%s': not enough memory", reader->name);
    tide_schema_select(which, reader->version, sql);
    int code = sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 1, after);
    while (statement && result == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t key;
        if (tide_schema_read(table, statement, table->keys ? 0 : 1, row)) {
            result = on(context, row);
            if (!table->keys && result >= 0)
                reader->last = sqlite3_column_int64(statement, 0);
        } else if ((key = sqlite3_column_int64(statement, 0)) > counted) {
            reader->skipped++;
            if (key > reader->counted[which])
                reader->counted[which] = key;
        }
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        result = explain(reader, err);
    sqlite3_finalize(statement);
    free(row);
    return result;
}

int64_t tide_reader_last(const struct tide_reader *reader)
{
    return reader->last;
}
