/*
 * csv.c - one row per process and look, per change of a call site, or per mark.
 */
#include "show/export/export.h"
#include "assess/stacks.h"
#include "show/text/recording_tables.h"

static int64_t pid_of(const struct tide_history *h, int64_t process)
{
    const struct tide_history_process *p = tide_history_process(h, process);
    return p ? p->row.pid : TIDE_UNKNOWN;
}

static void put_sites(struct tide_table *table, const struct tide_summary *summary)
{
    static const struct tide_column columns[] = {
        {"step", "", 0, TIDE_CELL_COUNT},        {"t_s", "", 0, TIDE_CELL_DURATION},
        {"site", "", 0, TIDE_CELL_COUNT},        {"process", "", 0, TIDE_CELL_COUNT},
        {"pid", "", 0, TIDE_CELL_COUNT},         {"kind", "", 0, TIDE_CELL_TEXT},
        {"live_bytes", "", 0, TIDE_CELL_BYTES},  {"live_blocks", "", 0, TIDE_CELL_COUNT},
        {"total_bytes", "", 0, TIDE_CELL_BYTES}, {"total_blocks", "", 0, TIDE_CELL_COUNT},
        {"function", "", 0, TIDE_CELL_TEXT},     {"file", "", 0, TIDE_CELL_TEXT},
        {"line", "", 0, TIDE_CELL_COUNT},        {NULL, NULL, 0, TIDE_CELL_TEXT},
    };
    const struct tide_history *h = summary->history;
    tide_table_begin(table, "sites", NULL, columns);
    for (size_t i = 0; i < h->site_count; i++) {
        const struct tide_history_site *site = &h->sites[i];
        const struct tide_frame *frame = tide_stack_line(h, site->stack);
        for (size_t k = 0; k < site->point_count; k++) {
            const struct tide_history_site_point *p = &site->points[k];
            union tide_cell cells[] = {
                {tide_summary_step(summary, p->t_ns)},
                {p->t_ns},
                {site->id},
                {site->process},
                {pid_of(h, site->process)},
                {.text = tide_site_kind_name(site->kind)},
                {p->live_bytes},
                {p->live_blocks},
                {p->total_bytes},
                {p->total_blocks},
                {.text = frame && frame->function[0] ? frame->function : NULL},
                {.text = frame && frame->file[0] ? frame->file
                         : frame                 ? frame->module
                                                 : NULL},
                {frame ? frame->line : TIDE_UNKNOWN},
            };
            tide_table_row(table, cells);
        }
    }
    tide_table_end(table);
}

static void put_marks(struct tide_table *table, const struct tide_history *h)
{
    static const struct tide_column columns[] = {
        {"t_s", "", 0, TIDE_CELL_DURATION}, {"process", "", 0, TIDE_CELL_COUNT},
        {"pid", "", 0, TIDE_CELL_COUNT},    {"kind", "", 0, TIDE_CELL_TEXT},
        {"source", "", 0, TIDE_CELL_TEXT},  {"number", "", 0, TIDE_CELL_COUNT},
        {"name", "", 0, TIDE_CELL_TEXT},    {NULL, NULL, 0, TIDE_CELL_TEXT},
    };
    static const char *const kinds[] = {TIDE_MARK_LIST(TIDE_KIND_WORD)};
    static const char *const sources[] = {[TIDE_SOURCE_PROGRAM] = "program",
                                          [TIDE_SOURCE_OUTPUT] = "output",
                                          [TIDE_SOURCE_TRACKER] = "tracker"};
    tide_table_begin(table, "marks", NULL, columns);
    for (size_t i = 0; i < h->mark_count; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        bool phase = m->kind == TIDE_MARK_PHASE_BEGIN || m->kind == TIDE_MARK_PHASE_END;
        bool named = m->name >= 0 && (size_t)m->name < h->name_count;
        union tide_cell cells[] = {
            {m->t_ns},
            {m->process > 0 ? m->process : TIDE_UNKNOWN},
            {pid_of(h, m->process)},
            {.text = kinds[m->kind]},
            {.text = sources[m->source]},
            {phase ? TIDE_UNKNOWN : m->number},
            {.text = named ? h->names[m->name] : NULL},
        };
        tide_table_row(table, cells);
    }
    tide_table_end(table);
}

int tide_export_csv(const struct tide_export *e, FILE *out, struct tide_err *err)
{
    struct tide_table table = {.form = TIDE_TABLE_CSV, .out = out};
    struct tide_summary summary;
    if (e->options.rows == TIDE_EXPORT_MARKS) {
        put_marks(&table, e->history);
        return 0;
    }
    if (tide_summary_make(e->history, e->arena, &summary, err))
        return -1;
    if (e->options.rows == TIDE_EXPORT_PROCESSES)
        return tide_tables_samples(&table, &summary, e->reader, err);
    put_sites(&table, &summary);
    return 0;
}
