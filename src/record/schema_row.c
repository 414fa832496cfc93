#include "record/schema_row.h"
#include "base/text.h"
#include "record/reader.h"

#include <string.h>

/* --- binding ------------------------------------------------------------------------------------------- */

static void bind_number(sqlite3_stmt *statement, int column, enum tide_schema_type type, int64_t value)
{
    if (value == TIDE_UNKNOWN && tide_schema_ranges[type].null != TIDE_SCHEMA_NEVER)
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

/* A number of 8 bytes, a kind or a flag. */
static int64_t load(const void *value, size_t bytes)
{
    return bytes == sizeof(int64_t) ? *(const int64_t *)value
           : bytes == sizeof(int)   ? *(const int *)value
                                    : *(const bool *)value;
}

void tide_schema_bind(const struct tide_schema_table *table, const void *row, sqlite3_stmt *statement,
                      size_t before)
{
    int parameter = (int)before;

    for (size_t i = 0; i < table->column_count; i++) {
        const struct tide_schema_column *column = &table->columns[i];
        const void *value = (const char *)row + column->offset;
        const struct tide_meta_value *anything = value;
        parameter++;
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

/* found: SQLite's type of the value, which costs as much to ask for as the value. */
static bool read_number(enum tide_schema_type type, size_t bytes, sqlite3_stmt *statement, int column,
                        int found, void *ret_value)
{
    const struct tide_schema_range *range = &tide_schema_ranges[type];
    int64_t number = range->null;

    if (found == SQLITE_INTEGER) {
        number = sqlite3_column_int64(statement, column);
        if (number < range->least || number > range->most)
            return false;
    } else if (found != SQLITE_NULL || number == TIDE_SCHEMA_NEVER) {
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
    /* Asking a blob for text gives its bytes with a NUL behind them. */
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
