/*
 * reader_rows.c - what a reader gives: meta values, and the rows of each table, every value checked. Opening
 * is in reader.c.
 */
#include "record/reader_private.h"
#include "record/schema_row.h"

#include <string.h>

/* --- meta ---------------------------------------------------------------------------------------------- */

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

/* Its text, if it has one, lives as long as the reader. */
static struct tide_meta_value find_meta(struct tide_reader *reader, const char *key)
{
    struct tide_meta_value value = {NULL, TIDE_UNKNOWN};
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(reader->db, "SELECT value FROM meta WHERE key = ?1", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW && !tide_schema_read_value(statement, 0, &value))
        value = (struct tide_meta_value){NULL, TIDE_UNKNOWN};
    if (value.text)
        value.text = keep_meta(reader, key, value.text);
    sqlite3_finalize(statement);
    return value;
}

const char *tide_reader_meta_text(struct tide_reader *reader, const char *key)
{
    return find_meta(reader, key).text;
}

int64_t tide_reader_meta_integer(struct tide_reader *reader, const char *key)
{
    return find_meta(reader, key).number;
}

/* --- iterations ---------------------------------------------------------------------------------------- */

struct cursor {
    struct tide_reader *reader;
    enum tide_schema table;
    sqlite3_stmt *statement; /* NULL: there are no rows */
    int code;                /* SQLite's, of the last call */
    int64_t counted;         /* rows up to this key were looked at before, and those left out are counted */
};

static struct cursor begin(struct tide_reader *reader, enum tide_schema table, int64_t after)
{
    struct cursor cursor = {.reader = reader, .table = table, .counted = reader->counted[table]};
    char sql[TIDE_SCHEMA_SQL];

    if (tide_schema_tables[table].columns[0].since > reader->version)
        return cursor;
    tide_schema_select(table, reader->version, sql);
    cursor.code = sqlite3_prepare_v2(reader->db, sql, -1, &cursor.statement, NULL);
    if (cursor.code == SQLITE_OK)
        cursor.code = sqlite3_bind_int64(cursor.statement, 1, after);
    return cursor;
}

static void count_skipped(const struct cursor *cursor)
{
    int64_t *counted = &cursor->reader->counted[cursor->table];
    int64_t key = sqlite3_column_int64(cursor->statement, 0);

    if (key <= cursor->counted)
        return;
    cursor->reader->skipped++;
    if (key > *counted)
        *counted = key;
}

/* The next row whose values can be. */
static bool next(struct cursor *cursor, void *ret_row)
{
    const struct tide_schema_table *table = &tide_schema_tables[cursor->table];

    while (cursor->statement && (cursor->code = sqlite3_step(cursor->statement)) == SQLITE_ROW) {
        if (tide_schema_read(table, cursor->statement, table->keys ? 0 : 1, ret_row))
            return true;
        count_skipped(cursor);
    }
    return false;
}

static int end(struct cursor *cursor, int result, struct tide_err *err)
{
    if (cursor->code != SQLITE_OK && cursor->code != SQLITE_ROW && cursor->code != SQLITE_DONE)
        result = tide_reader_explain(cursor->reader, err);
    sqlite3_finalize(cursor->statement);
    return result;
}

/* The functions of reader.h, each with rows of its own type. */
#define EACH_ROW(table, row_type, first)                                                                     \
    struct cursor cursor = begin(reader, TIDE_SCHEMA_##table, first);                                        \
    struct row_type row;                                                                                     \
    int result = 0;                                                                                          \
    while (result == 0 && next(&cursor, &row))                                                               \
        result = on(context, &row);                                                                          \
    return end(&cursor, result, err);

#define EACH(name, table, row_type)                                                                          \
    int tide_reader_each_##name(struct tide_reader *reader, tide_on_##name *on, void *context,               \
                                struct tide_err *err)                                                        \
    {                                                                                                        \
        EACH_ROW(table, row_type, INT64_MIN)                                                                 \
    }

#define EACH_AFTER(name, table, row_type)                                                                    \
    int tide_reader_each_##name(struct tide_reader *reader, int64_t after, tide_on_##name *on,               \
                                void *context, struct tide_err *err)                                         \
    {                                                                                                        \
        EACH_ROW(table, row_type, after)                                                                     \
    }

EACH(process, PROCESS, tide_process)
EACH_AFTER(tick, TICK, tide_tick)
EACH_AFTER(sample, SAMPLE, tide_sample)
EACH_AFTER(smaps, SMAPS, tide_smaps)
EACH_AFTER(gpu, GPU, tide_gpu_sample)
EACH(gpu_device, GPU_DEVICE, tide_gpu_device)
EACH(limit, LIMIT, tide_limit)
EACH(note, NOTE, tide_note)
EACH_AFTER(frame, FRAME, tide_frame)
EACH_AFTER(stack, STACK, tide_stack_row)
EACH_AFTER(site, SITE, tide_site)
EACH_AFTER(site_sample, SITE_SAMPLE, tide_site_sample)
EACH(heap_state, HEAP_STATE, tide_heap_status)
EACH_AFTER(heap_sample, HEAP_SAMPLE, tide_heap_sample)

int tide_reader_each_mark(struct tide_reader *reader, int64_t after, int64_t *ret_last, tide_on_mark *on,
                          void *context, struct tide_err *err)
{
    struct cursor cursor = begin(reader, TIDE_SCHEMA_MARK, after);
    struct tide_mark row;
    int result = 0;

    while (result == 0 && next(&cursor, &row)) {
        result = on(context, &row);
        if (result >= 0)
            after = sqlite3_column_int64(cursor.statement, 0);
    }
    if (ret_last)
        *ret_last = after;
    return end(&cursor, result, err);
}
