/*
 * schema.c - see schema.h: the columns of each table, the tables, the views, the SQL derived from them, and
 * the conversion of rows between the structs of record.h and a statement.
 *
 * Tables of samples are clustered on (tick, ...), so that writing appends at one end and reading a period of
 * time is one scan. Kinds are small integers in the tables, because a long run has a million marks, and words
 * in the views. The views are for people: nothing in Tidemark reads them.
 */
#include "record/schema.h"
#include "base/text.h"
#include "base/units.h"
#include "record/reader.h"

#include <stdio.h>
#include <string.h>

#define NEVER INT64_MIN

/* The range of a numeric type. */
static const struct range {
    int64_t least, most;
    int64_t null; /* the number that NULL means, or NEVER */
} ranges[TIDE_TYPES] = {
    [TIDE_TYPE_ID] = {1, TIDE_LARGEST, NEVER},
    [TIDE_TYPE_COUNT] = {0, TIDE_LARGEST, NEVER},
    [TIDE_TYPE_SIZE] = {0, TIDE_LARGEST, TIDE_UNKNOWN},
    [TIDE_TYPE_LINK] = {0, TIDE_LARGEST, 0},
    [TIDE_TYPE_HOLDER] = {TIDE_UNKNOWN, TIDE_LARGEST, NEVER},
    [TIDE_TYPE_SIGNED] = {-TIDE_LARGEST, TIDE_LARGEST, NEVER},
    [TIDE_TYPE_FLAG] = {0, TIDE_LARGEST, false},
    [TIDE_TYPE_MARK] = {TIDE_MARK_STEP, TIDE_MARK_KINDS - 1, NEVER},
    [TIDE_TYPE_SOURCE] = {TIDE_SOURCE_PROGRAM, TIDE_SOURCE_TRACKER, NEVER},
    [TIDE_TYPE_SITE] = {TIDE_SITE_MALLOC, TIDE_SITE_KINDS - 1, NEVER},
    [TIDE_TYPE_ANYTHING] = {0, TIDE_LARGEST, TIDE_UNKNOWN},
};

/* --- columns ------------------------------------------------------------------------------------------- */

#define COLUMN(row, member, kept_as, version)                                                                \
    {                                                                                                        \
        .name = #member, .type = TIDE_TYPE_##kept_as, .offset = offsetof(struct row, member),                \
        .bytes = sizeof(((struct row *)0)->member), .since = (version)                                       \
    }

static const struct tide_schema_column META[] = {
    COLUMN(tide_meta, key, TEXT, 1),
    COLUMN(tide_meta, value, ANYTHING, 1),
};

static const struct tide_schema_column PROCESS[] = {
    COLUMN(tide_process, id, ID, 1),         COLUMN(tide_process, pid, SIZE, 1),
    COLUMN(tide_process, parent, LINK, 1),   COLUMN(tide_process, start_ticks, SIZE, 1),
    COLUMN(tide_process, name, TEXT, 1),     COLUMN(tide_process, command, TEXT, 1),
    COLUMN(tide_process, role, TEXT, 1),     COLUMN(tide_process, began_ns, SIZE, 1),
    COLUMN(tide_process, ended_ns, SIZE, 1), COLUMN(tide_process, peak_rss_bytes, SIZE, 1),
    COLUMN(tide_process, rank, SIZE, 4),
};

static const struct tide_schema_column TICK[] = {
    COLUMN(tide_tick, id, ID, 1),
    COLUMN(tide_tick, t_ns, COUNT, 1),
    COLUMN(tide_tick, processes, SIZE, 1),
    COLUMN(tide_tick, rss_bytes, SIZE, 1),
    COLUMN(tide_tick, counted_bytes, SIZE, 1),
    COLUMN(tide_tick, pss_known_bytes, SIZE, 1),
    COLUMN(tide_tick, cgroup_bytes, SIZE, 1),
    COLUMN(tide_tick, cgroup_peak_bytes, SIZE, 1),
    COLUMN(tide_tick, pressure_ppm, SIZE, 1),
    COLUMN(tide_tick, available_bytes, SIZE, 1),
    COLUMN(tide_tick, share_ppm, SIZE, 6),
};

static const struct tide_schema_column SAMPLE[] = {
    COLUMN(tide_sample, tick, ID, 1),          COLUMN(tide_sample, process, ID, 1),
    COLUMN(tide_sample, anon_bytes, SIZE, 1),  COLUMN(tide_sample, file_bytes, SIZE, 1),
    COLUMN(tide_sample, shmem_bytes, SIZE, 1), COLUMN(tide_sample, swap_bytes, SIZE, 1),
    COLUMN(tide_sample, huge_bytes, SIZE, 1),  COLUMN(tide_sample, threads, SIZE, 1),
    COLUMN(tide_sample, asked_bytes, SIZE, 5), COLUMN(tide_sample, mapped_bytes, SIZE, 5),
};

static const struct tide_schema_column SMAPS[] = {
    COLUMN(tide_smaps, tick, ID, 1),
    COLUMN(tide_smaps, process, ID, 1),
    COLUMN(tide_smaps, pss_bytes, SIZE, 1),
    COLUMN(tide_smaps, uss_bytes, SIZE, 1),
    COLUMN(tide_smaps, swap_pss_bytes, SIZE, 1),
    COLUMN(tide_smaps, cost_ns, SIZE, 1),
    COLUMN(tide_smaps, pss_shmem_bytes, SIZE, 7),
    COLUMN(tide_smaps, unreserved_bytes, SIZE, 8),
};

static const struct tide_schema_column MARK[] = {
    COLUMN(tide_mark, t_ns, COUNT, 1),    COLUMN(tide_mark, process, LINK, 1),
    COLUMN(tide_mark, kind, MARK, 1),     COLUMN(tide_mark, source, SOURCE, 1),
    COLUMN(tide_mark, number, SIGNED, 1), COLUMN(tide_mark, name, TEXT, 1),
};

static const struct tide_schema_column GPU[] = {
    COLUMN(tide_gpu_sample, tick, ID, 1),
    COLUMN(tide_gpu_sample, device, COUNT, 1),
    COLUMN(tide_gpu_sample, process, HOLDER, 1),
    COLUMN(tide_gpu_sample, bytes, SIZE, 1),
};

static const struct tide_schema_column GPU_DEVICE[] = {
    COLUMN(tide_gpu_device, device, COUNT, 1),
    COLUMN(tide_gpu_device, name, TEXT, 1),
    COLUMN(tide_gpu_device, uuid, TEXT, 1),
    COLUMN(tide_gpu_device, total_bytes, SIZE, 1),
};

static const struct tide_schema_column LIMIT[] = {
    COLUMN(tide_limit, t_ns, COUNT, 1),
    COLUMN(tide_limit, name, TEXT, 1),
    COLUMN(tide_limit, bytes, SIZE, 1),
};

static const struct tide_schema_column NOTE[] = {
    COLUMN(tide_note, t_ns, COUNT, 1),
    COLUMN(tide_note, text, TEXT, 1),
    COLUMN(tide_note, kills, SIZE, 9),
};

static const struct tide_schema_column FRAME[] = {
    COLUMN(tide_frame, id, ID, 2),       COLUMN(tide_frame, function, TEXT, 2),
    COLUMN(tide_frame, file, TEXT, 2),   COLUMN(tide_frame, line, SIZE, 2),
    COLUMN(tide_frame, module, TEXT, 2), COLUMN(tide_frame, offset, SIZE, 2),
    COLUMN(tide_frame, python, FLAG, 2), COLUMN(tide_frame, inlined, FLAG, 2),
    COLUMN(tide_frame, source, TEXT, 4),
};

static const struct tide_schema_column STACK[] = {
    COLUMN(tide_stack_row, id, ID, 2),
    COLUMN(tide_stack_row, depth, COUNT, 2),
    COLUMN(tide_stack_row, frame, ID, 2),
};

static const struct tide_schema_column SITE[] = {
    COLUMN(tide_site, id, ID, 2),
    COLUMN(tide_site, process, ID, 2),
    COLUMN(tide_site, kind, SITE, 2),
    COLUMN(tide_site, stack, COUNT, 2),
};

static const struct tide_schema_column SITE_SAMPLE[] = {
    COLUMN(tide_site_sample, tick, ID, 2),          COLUMN(tide_site_sample, site, ID, 2),
    COLUMN(tide_site_sample, live_bytes, COUNT, 2), COLUMN(tide_site_sample, live_blocks, COUNT, 2),
    COLUMN(tide_site_sample, total_bytes, SIZE, 2), COLUMN(tide_site_sample, total_blocks, SIZE, 2),
};

static const struct tide_schema_column HEAP_STATE[] = {
    COLUMN(tide_heap_status, process, COUNT, 2),       COLUMN(tide_heap_status, t_ns, COUNT, 2),
    COLUMN(tide_heap_status, state, TEXT, 2),          COLUMN(tide_heap_status, interval_bytes, SIZE, 2),
    COLUMN(tide_heap_status, sampled, SIZE, 2),        COLUMN(tide_heap_status, dropped_sites, SIZE, 2),
    COLUMN(tide_heap_status, dropped_blocks, SIZE, 2), COLUMN(tide_heap_status, truncated_stacks, SIZE, 2),
    COLUMN(tide_heap_status, unwinds, SIZE, 2),        COLUMN(tide_heap_status, unwind_ns, SIZE, 2),
};

static const struct tide_schema_column HEAP_SAMPLE[] = {
    COLUMN(tide_heap_sample, tick, ID, 3),           COLUMN(tide_heap_sample, process, ID, 3),
    COLUMN(tide_heap_sample, live_bytes, COUNT, 3),  COLUMN(tide_heap_sample, live_blocks, COUNT, 3),
    COLUMN(tide_heap_sample, system_bytes, SIZE, 3), COLUMN(tide_heap_sample, mapped_bytes, SIZE, 3),
    COLUMN(tide_heap_sample, free_bytes, SIZE, 3),   COLUMN(tide_heap_sample, free_blocks, SIZE, 3),
    COLUMN(tide_heap_sample, top_bytes, SIZE, 3),
};

/* --- tables -------------------------------------------------------------------------------------------- */

#define COLUMNS(array, row) (array), sizeof(array) / sizeof *(array), sizeof(struct row)
#define BY_TIME             "t_ns, id"

const struct tide_schema_table tide_schema_tables[TIDE_SCHEMA_TABLES] = {
    [TIDE_SCHEMA_META] = {"meta", COLUMNS(META, tide_meta), 1, .waits = true},
    [TIDE_SCHEMA_PROCESS] = {"process", COLUMNS(PROCESS, tide_process), 1, .waits = true},
    [TIDE_SCHEMA_TICK] = {"tick", COLUMNS(TICK, tide_tick), 1, .waits = false},
    [TIDE_SCHEMA_SAMPLE] = {"sample", COLUMNS(SAMPLE, tide_sample), 2, .waits = false},
    [TIDE_SCHEMA_SMAPS] = {"smaps", COLUMNS(SMAPS, tide_smaps), 2, .waits = false},
    [TIDE_SCHEMA_MARK] = {"mark", COLUMNS(MARK, tide_mark), 0, .waits = false},
    /* Processes that cannot be told apart share one row with their sum. */
    [TIDE_SCHEMA_GPU] = {"gpu", COLUMNS(GPU, tide_gpu_sample), 3,
                         .conflict =
                             " ON CONFLICT DO UPDATE SET bytes ="
                             " CASE WHEN process = -1 THEN bytes + excluded.bytes ELSE excluded.bytes END"},
    [TIDE_SCHEMA_GPU_DEVICE] = {"gpu_device", COLUMNS(GPU_DEVICE, tide_gpu_device), 1, .waits = true},
    [TIDE_SCHEMA_LIMIT] = {"memory_limit", COLUMNS(LIMIT, tide_limit), 0, .waits = true, .order = BY_TIME},
    [TIDE_SCHEMA_NOTE] = {"note", COLUMNS(NOTE, tide_note), 0, .waits = true, .order = BY_TIME},
    [TIDE_SCHEMA_FRAME] = {"frame", COLUMNS(FRAME, tide_frame), 1, .waits = true},
    [TIDE_SCHEMA_STACK] = {"stack", COLUMNS(STACK, tide_stack_row), 2, .waits = true},
    [TIDE_SCHEMA_SITE] = {"site", COLUMNS(SITE, tide_site), 1, .waits = true},
    [TIDE_SCHEMA_SITE_SAMPLE] = {"site_sample", COLUMNS(SITE_SAMPLE, tide_site_sample), 2, .waits = false},
    [TIDE_SCHEMA_HEAP_STATE] = {"heap_state", COLUMNS(HEAP_STATE, tide_heap_status), 0, .waits = true,
                                .order = BY_TIME},
    [TIDE_SCHEMA_HEAP_SAMPLE] = {"heap_sample", COLUMNS(HEAP_SAMPLE, tide_heap_sample), 2, .waits = false},
};

static const char VIEWS[] =
    "CREATE VIEW samples AS SELECT"
    " t.t_ns / 1e9 AS t_s, s.tick, s.process, p.pid, p.name, p.role,"
    " s.anon_bytes + s.file_bytes + s.shmem_bytes AS rss_bytes,"
    " s.anon_bytes, s.file_bytes, s.shmem_bytes, s.swap_bytes, s.huge_bytes, s.threads, s.asked_bytes, s.mapped_bytes"
    " FROM sample AS s JOIN tick AS t ON t.id = s.tick LEFT JOIN process AS p ON p.id = s.process;"
    "CREATE VIEW marks AS SELECT"
    " m.t_ns / 1e9 AS t_s, m.process, p.pid,"
    " CASE m.kind" TIDE_MARK_LIST(
        TIDE_KIND_SQL) " END AS kind,"
                       " CASE m.source WHEN 1 THEN 'program' WHEN 2 THEN 'output' WHEN 3 THEN 'tracker' END AS source,"
                       " m.number, m.name"
                       " FROM mark AS m LEFT JOIN process AS p ON p.id = m.process;"
                       "CREATE VIEW frames AS SELECT"
                       " s.id AS stack, s.depth, f.id AS frame, CASE WHEN f.function <> '' THEN f.function"
                       " ELSE printf('%s+0x%x', f.module, f.offset) END AS function, f.file, f.line, f.module, f.python, f.inlined"
                       " FROM stack AS s LEFT JOIN frame AS f ON f.id = s.frame;"
                       "CREATE VIEW sites AS SELECT"
                       " t.t_ns / 1e9 AS t_s, h.tick, h.site, s.process, p.pid, p.name,"
                       " CASE s.kind" TIDE_SITE_LIST(
                           TIDE_KIND_SQL) " END AS kind,"
                                          " s.stack, h.live_bytes, h.live_blocks, h.total_bytes, h.total_blocks"
                                          " FROM site_sample AS h JOIN tick AS t ON t.id = h.tick LEFT JOIN site AS s ON s.id = h.site"
                                          " LEFT JOIN process AS p ON p.id = s.process;";

/* --- SQL ----------------------------------------------------------------------------------------------- */

/* The names of the first `count` columns of a table. */
static void append_names(char sql[TIDE_SCHEMA_SQL], const struct tide_schema_table *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tide_text_add(sql, TIDE_SCHEMA_SQL, "%s%s", i ? ", " : "", table->columns[i].name);
}

/* True if the key is SQLite's own row number. */
static bool is_numbered(const struct tide_schema_table *table)
{
    return table->keys == 0 || (table->keys == 1 && table->columns[0].type != TIDE_TYPE_TEXT);
}

static void create_table(const struct tide_schema_table *table, char ret_sql[TIDE_SCHEMA_SQL])
{
    sprintf(ret_sql, "CREATE TABLE %s (%s", table->name, table->keys ? "" : "id INTEGER PRIMARY KEY, ");
    for (size_t i = 0; i < table->column_count; i++) {
        enum tide_schema_type type = table->columns[i].type;
        tide_text_add(ret_sql, TIDE_SCHEMA_SQL, "%s%s%s", i ? ", " : "", table->columns[i].name,
                      type == TIDE_TYPE_TEXT       ? " TEXT"
                      : type == TIDE_TYPE_ANYTHING ? ""
                                                   : " INTEGER");
        tide_text_add(ret_sql, TIDE_SCHEMA_SQL, "%s%s",
                      i < table->keys && table->keys == 1 ? " PRIMARY KEY" : "",
                      i < table->keys && !is_numbered(table) ? " NOT NULL" : "");
    }
    if (table->keys > 1) {
        tide_text_add(ret_sql, TIDE_SCHEMA_SQL, ", PRIMARY KEY (");
        append_names(ret_sql, table, table->keys);
        tide_text_add(ret_sql, TIDE_SCHEMA_SQL, ")");
    }
    tide_text_add(ret_sql, TIDE_SCHEMA_SQL, ")%s", is_numbered(table) ? "" : " WITHOUT ROWID");
}

int tide_schema_create(sqlite3 *db)
{
    char sql[TIDE_SCHEMA_SQL];
    int code = SQLITE_OK;

    for (size_t i = 0; i < TIDE_SCHEMA_TABLES && code == SQLITE_OK; i++) {
        create_table(&tide_schema_tables[i], sql);
        code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, VIEWS, NULL, NULL, NULL);
    sprintf(sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", TIDE_APPLICATION_ID,
            TIDE_RECORD_VERSION);
    return code == SQLITE_OK ? sqlite3_exec(db, sql, NULL, NULL, NULL) : code;
}

void tide_schema_insert(enum tide_schema which, char ret_sql[TIDE_SCHEMA_SQL])
{
    const struct tide_schema_table *table = &tide_schema_tables[which];

    sprintf(ret_sql, "INSERT%s INTO %s(", table->conflict ? "" : " OR REPLACE", table->name);
    append_names(ret_sql, table, table->column_count);
    tide_text_add(ret_sql, TIDE_SCHEMA_SQL, ") VALUES (?");
    for (size_t i = 1; i < table->column_count; i++)
        tide_text_add(ret_sql, TIDE_SCHEMA_SQL, ",?");
    tide_text_add(ret_sql, TIDE_SCHEMA_SQL, ")%s", table->conflict ? table->conflict : "");
}

void tide_schema_select(enum tide_schema which, int64_t version, char ret_sql[TIDE_SCHEMA_SQL])
{
    const struct tide_schema_table *table = &tide_schema_tables[which];
    const char *key = table->keys ? table->columns[0].name : "id";

    sprintf(ret_sql, "SELECT %s", table->keys ? "" : "id, ");
    for (size_t i = 0; i < table->column_count; i++)
        tide_text_add(ret_sql, TIDE_SCHEMA_SQL, "%s%s", i ? ", " : "",
                      table->columns[i].since <= version ? table->columns[i].name : "NULL");
    tide_text_add(ret_sql, TIDE_SCHEMA_SQL, " FROM main.%s WHERE %s > ?1 ORDER BY ", table->name, key);
    if (table->order || !table->keys)
        tide_text_add(ret_sql, TIDE_SCHEMA_SQL, "%s", table->order ? table->order : key);
    else
        append_names(ret_sql, table, table->keys);
}

/* --- binding ------------------------------------------------------------------------------------------- */

static void bind_number(sqlite3_stmt *statement, int column, enum tide_schema_type type, int64_t value)
{
    if (value == TIDE_UNKNOWN && ranges[type].null != NEVER)
        sqlite3_bind_null(statement, column);
    else
        sqlite3_bind_int64(statement, column, value);
}

/* Valid UTF-8 is stored as text, anything else as a blob. This keeps the bytes without upsetting other
 * programs that read the database. */
static void bind_text(sqlite3_stmt *statement, int column, const char *text)
{
    size_t len = text ? strnlen(text, TIDE_READER_TEXT) : 0, at = 0, step;

    while (at < len && (step = tide_text_rune(text + at, len - at, NULL)) != 0)
        at += step;
    if (at < len && len == TIDE_READER_TEXT && len - at < 4)
        len = at; /* the cut at TIDE_READER_TEXT is within a rune */
    if (at == len)
        sqlite3_bind_text(statement, column, text ? text : "", (int)len, SQLITE_STATIC);
    else
        sqlite3_bind_blob(statement, column, text, (int)len, SQLITE_STATIC);
}

/* Loads an int64_t, an enum or a bool. */
static int64_t load(const void *value, size_t bytes)
{
    return bytes == sizeof(int64_t) ? *(const int64_t *)value
           : bytes == sizeof(int)   ? *(const int *)value
                                    : *(const bool *)value;
}

void tide_schema_bind(const struct tide_schema_table *table, const void *row, sqlite3_stmt *statement)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const struct tide_schema_column *column = &table->columns[i];
        const void *value = (const char *)row + column->offset;
        const struct tide_meta_value *anything = value;
        int parameter = (int)i + 1;
        if (column->type < TIDE_TYPE_TEXT)
            bind_number(statement, parameter, column->type, load(value, column->bytes));
        else if (column->type == TIDE_TYPE_TEXT || anything->text)
            bind_text(statement, parameter, *(const char *const *)value);
        else
            bind_number(statement, parameter, column->type, anything->number);
    }
}

/* --- reading ------------------------------------------------------------------------------------------- */

static void store(void *ret_value, size_t bytes, int64_t number)
{
    if (bytes == sizeof(int64_t))
        *(int64_t *)ret_value = number;
    else if (bytes == sizeof(int))
        *(int *)ret_value = (int)number;
    else
        *(bool *)ret_value = number > 0;
}

/* found: SQLite's type of the value, which costs as much to get as the value: the caller gets it once. */
static bool read_number(enum tide_schema_type type, size_t bytes, sqlite3_stmt *statement, int column,
                        int found, void *ret_value)
{
    const struct range *range = &ranges[type];
    int64_t number = range->null;

    if (found == SQLITE_INTEGER) {
        number = sqlite3_column_int64(statement, column);
        if (number < range->least || number > range->most)
            return false;
    } else if (found != SQLITE_NULL || number == NEVER) {
        return false;
    }
    store(ret_value, bytes, number);
    return true;
}

static bool read_text(sqlite3_stmt *statement, int column, int found, const char **ret_text)
{
    *ret_text = "";
    if (found == SQLITE_NULL)
        return true;
    if (found != SQLITE_TEXT && found != SQLITE_BLOB)
        return false;
    /* sqlite3_column_text() on a blob returns its bytes with a NUL appended. */
    *ret_text = (const char *)sqlite3_column_text(statement, column);
    return *ret_text && sqlite3_column_bytes(statement, column) <= TIDE_READER_TEXT;
}

bool tide_schema_read_value(sqlite3_stmt *statement, int column, struct tide_meta_value *ret_value)
{
    int found = sqlite3_column_type(statement, column);

    *ret_value = (struct tide_meta_value){NULL, TIDE_UNKNOWN};
    return found == SQLITE_TEXT || found == SQLITE_BLOB
               ? read_text(statement, column, found, &ret_value->text)
               : read_number(TIDE_TYPE_ANYTHING, sizeof ret_value->number, statement, column, found,
                             &ret_value->number);
}

bool tide_schema_read(const struct tide_schema_table *table, sqlite3_stmt *statement, size_t before,
                      void *ret_row)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const struct tide_schema_column *column = &table->columns[i];
        void *value = (char *)ret_row + column->offset;
        int at = (int)(before + i), found = sqlite3_column_type(statement, at);
        if (column->type == TIDE_TYPE_TEXT
                ? !read_text(statement, at, found, value)
                : !read_number(column->type, column->bytes, statement, at, found, value))
            return false;
    }
    return true;
}
