#include "show/text/table_writer.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "record/record.h"
#include "show/text/html.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { CELL_TEXT = 4096, PAGE_TEXT = 320 };

/* Formats "4.1 GiB" as "4.1Gi", which options that take a size accept. Returns out. */
static char *size_text(double bytes, char out[static TIDE_UNITS_TEXT])
{
    tide_size_text(bytes, out);
    char *space = strchr(out, ' ');
    memmove(space, space + 1, strlen(space));
    if (space[1])
        space[2] = '\0';
    return out;
}

/* Writes text in |width| columns, cut or padded. The last column of a row is not padded; one of width -1 is
 * not cut. */
static void put_padded(FILE *out, const char *text, int width, int last)
{
    size_t len = strlen(text), want = (size_t)(width < 0 ? -width : width);

    if (width != -1)
        len = tide_text_fitting(text, len, want);
    size_t columns = tide_text_columns(text, len);
    int pad = columns < want ? (int)(want - columns) : 0;
    if (width > 0)
        fprintf(out, "%*s", pad, "");
    fwrite(text, 1, len, out);
    if (width < 0 && !last)
        fprintf(out, "%*s", pad, "");
}

static int is_unknown(enum tide_cell_kind kind, const union tide_cell *cell)
{
    if (kind == TIDE_CELL_TEXT)
        return !cell->text;
    return kind == TIDE_CELL_REAL ? !isfinite(cell->real) : cell->number == TIDE_UNKNOWN;
}

static const char *text_of(enum tide_cell_kind kind, const union tide_cell *cell, char out[static CELL_TEXT])
{
    if (is_unknown(kind, cell))
        return "-";
    switch (kind) {
    case TIDE_CELL_TEXT:
        return tide_text_shown(cell->text, out, CELL_TEXT);
    case TIDE_CELL_COUNT:
        return tide_count_text((double)cell->number, out);
    case TIDE_CELL_BYTES:
        return size_text((double)cell->number, out);
    case TIDE_CELL_DURATION:
        return cell->number == 0 ? "0 s" : tide_duration_text((double)cell->number / TIDE_NS_PER_S, out);
    case TIDE_CELL_REAL:
        if (fabs(cell->real) >= 999.5)
            return tide_count_text(cell->real, out);
        snprintf(out, CELL_TEXT, "%.3g", cell->real);
        return out;
    }
    return "";
}

static void row_text(struct tide_table *table, const union tide_cell *cells)
{
    char text[CELL_TEXT];
    const char *gap = "  ";
    size_t last = 0;

    for (size_t i = 0; i < table->column_count; i++)
        if (table->columns[i].width != 0)
            last = i;
    for (size_t i = 0; i <= last; i++) {
        const struct tide_column *column = &table->columns[i];
        if (column->width == 0)
            continue;
        fputs(gap, table->out);
        put_padded(table->out, cells ? text_of(column->kind, &cells[i], text) : column->label, column->width,
                   i == last);
        gap = " ";
    }
    fputc('\n', table->out);
}

static void put_csv_text(FILE *out, const char *text)
{
    char safe[CELL_TEXT];

    tide_text_shown(text, safe, sizeof safe);
    if (!safe[strcspn(safe, ",\"")]) {
        fputs(safe, out);
        return;
    }
    fputc('"', out);
    for (const char *p = safe; *p; p++) {
        if (*p == '"')
            fputc('"', out);
        fputc(*p, out);
    }
    fputc('"', out);
}

static void row_csv(struct tide_table *table, const union tide_cell *cells)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const struct tide_column *column = &table->columns[i];
        if (i > 0)
            fputc(',', table->out);
        if (!cells)
            fputs(column->key, table->out);
        else if (is_unknown(column->kind, &cells[i]))
            continue;
        else if (column->kind == TIDE_CELL_TEXT)
            put_csv_text(table->out, cells[i].text);
        else if (column->kind == TIDE_CELL_REAL)
            fprintf(table->out, "%.10g", cells[i].real);
        else if (column->kind == TIDE_CELL_DURATION)
            fprintf(table->out, "%.9g", (double)cells[i].number / TIDE_NS_PER_S);
        else
            fprintf(table->out, "%lld", (long long)cells[i].number);
    }
    fputc('\n', table->out);
}

static void row_json(struct tide_table *table, const union tide_cell *cells)
{
    tide_json_object(table->json, NULL);
    for (size_t i = 0; i < table->column_count; i++) {
        const struct tide_column *column = &table->columns[i];
        if (is_unknown(column->kind, &cells[i]))
            tide_json_null(table->json, column->key);
        else if (column->kind == TIDE_CELL_TEXT)
            tide_json_text(table->json, column->key, cells[i].text);
        else if (column->kind == TIDE_CELL_REAL)
            tide_json_real(table->json, column->key, cells[i].real);
        else if (column->kind == TIDE_CELL_DURATION)
            tide_json_real(table->json, column->key, (double)cells[i].number / TIDE_NS_PER_S);
        else
            tide_json_integer(table->json, column->key, cells[i].number);
    }
    tide_json_end(table->json);
}

/* Writes a heading for a page: "PEAK OF" as "Peak of"; names of counters stay in capitals. */
static void put_label(FILE *out, const char *label)
{
    bool name =
        !strcmp(label, "RSS") || !strcmp(label, "PSS") || !strcmp(label, "USS") || !strcmp(label, "GPU");
    for (size_t i = 0; label[i]; i++)
        fputc(i == 0 || name ? label[i] : tolower((unsigned char)label[i]), out);
}

static const char *page_text_of(enum tide_cell_kind kind, const union tide_cell *cell,
                                char out[static CELL_TEXT])
{
    if (is_unknown(kind, cell))
        return "\u2013";
    if (kind == TIDE_CELL_TEXT)
        return cell->text;
    return kind == TIDE_CELL_BYTES ? tide_size_text((double)cell->number, out) : text_of(kind, cell, out);
}

static void row_html(struct tide_table *table, const union tide_cell *cells)
{
    char text[CELL_TEXT];
    if (cells && table->most && table->rows > table->most)
        return;
    fputs("<tr>", table->out);
    for (size_t i = 0; i < table->column_count; i++) {
        const struct tide_column *column = &table->columns[i];
        if (column->width == 0)
            continue;
        const char *side = column->width > 0 ? " class=\"n\"" : "";
        if (!cells) {
            fprintf(table->out, "<th scope=\"col\"%s>", side);
            put_label(table->out, column->label);
            continue;
        }
        fprintf(table->out, "<td%s data-label=\"", side);
        put_label(table->out, column->label);
        tide_html_text(table->out, "\">", page_text_of(column->kind, &cells[i], text), PAGE_TEXT, "");
    }
    fputs("</tr>\n", table->out);
}

void tide_table_begin(struct tide_table *table, const char *key, const char *title,
                      const struct tide_column *columns)
{
    table->columns = columns;
    table->title = title;
    table->rows = 0;
    for (table->column_count = 0; columns[table->column_count].key;)
        table->column_count++;
    if (table->form == TIDE_TABLE_JSON)
        tide_json_array(table->json, key);
    else if (table->form == TIDE_TABLE_CSV)
        row_csv(table, NULL);
    else if (table->form == TIDE_TABLE_HTML) {
        fputs("<table><thead>", table->out);
        row_html(table, NULL);
        fputs("</thead><tbody>\n", table->out);
    } else if (!title)
        row_text(table, NULL);
}

void tide_table_row(struct tide_table *table, const union tide_cell *cells)
{
    table->rows++;
    if (table->form == TIDE_TABLE_JSON)
        row_json(table, cells);
    else if (table->form == TIDE_TABLE_CSV)
        row_csv(table, cells);
    else if (table->form == TIDE_TABLE_HTML)
        row_html(table, cells);
    else {
        if (table->title && table->rows == 1) {
            fprintf(table->out, "\n%s\n", table->title);
            row_text(table, NULL);
        }
        row_text(table, cells);
    }
}

void tide_table_end(struct tide_table *table)
{
    if (table->form == TIDE_TABLE_JSON)
        tide_json_end(table->json);
    if (table->form == TIDE_TABLE_HTML)
        fputs("</tbody></table>\n", table->out);
    if (table->form == TIDE_TABLE_HTML && table->most && table->rows > table->most)
        fprintf(table->out, "<p class=\"more\">and %zu more, in 'tidemark show'</p>\n",
                table->rows - table->most);
}
