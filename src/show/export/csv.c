/*
 * csv.c - one row per process and look, per change of a call site, or per mark.
 */
#include "show/export/export.h"
#include "assess/stacks.h"
#include "show/text/recording_tables.h"

/* clang-format off */
#define SITE(COLUMN)                                                                                         \
    COLUMN("step", "", 0, COUNT, tide_summary_step(summary, p->t_ns))                                        \
    COLUMN("t_s", "", 0, DURATION, p->t_ns)                                                                  \
    COLUMN("site", "", 0, COUNT, site->id)                                                                   \
    COLUMN("process", "", 0, COUNT, site->process)                                                           \
    COLUMN("pid", "", 0, COUNT, pid_of(h, site->process))                                                    \
    COLUMN("kind", "", 0, TEXT, tide_site_kind_name(site->kind))                                             \
    COLUMN("live_bytes", "", 0, BYTES, p->live_bytes)                                                        \
    COLUMN("live_blocks", "", 0, COUNT, p->live_blocks)                                                      \
    COLUMN("total_bytes", "", 0, BYTES, p->total_bytes)                                                      \
    COLUMN("total_blocks", "", 0, COUNT, p->total_blocks)                                                    \
    COLUMN("function", "", 0, TEXT, frame && frame->function[0] ? frame->function : NULL)                    \
    COLUMN("file", "", 0, TEXT, !frame ? NULL : frame->file[0] ? frame->file : frame->module)                \
    COLUMN("line", "", 0, COUNT, frame ? frame->line : TIDE_UNKNOWN)

#define MARK(COLUMN)                                                                                         \
    COLUMN("t_s", "", 0, DURATION, m->t_ns)                                                                  \
    COLUMN("process", "", 0, COUNT, m->process > 0 ? m->process : TIDE_UNKNOWN)                              \
    COLUMN("pid", "", 0, COUNT, pid_of(h, m->process))                                                       \
    COLUMN("kind", "", 0, TEXT, kinds[m->kind])                                                              \
    COLUMN("source", "", 0, TEXT, sources[m->source])                                                        \
    COLUMN("number", "", 0, COUNT, phase ? TIDE_UNKNOWN : m->number)                                         \
    COLUMN("name", "", 0, TEXT, named ? h->names[m->name] : NULL)
/* clang-format on */

static int64_t pid_of(const struct tide_history *h, int64_t process)
{
    const struct tide_history_process *p = tide_history_process(h, process);
    return p ? p->row.pid : TIDE_UNKNOWN;
}

static void put_sites(struct tide_table *table, const struct tide_summary *summary)
{
    const struct tide_history *h = summary->history;
    tide_table_begin(table, "sites", NULL, TIDE_COLUMNS(SITE));
    for (size_t i = 0; i < h->site_count; i++) {
        const struct tide_history_site *site = &h->sites[i];
        const struct tide_frame *frame = tide_stack_line(h, site->stack);
        for (size_t k = 0; k < site->point_count; k++) {
            const struct tide_history_site_point *p = &site->points[k];
            TIDE_ROW(table, SITE);
        }
    }
    tide_table_end(table);
}

static void put_marks(struct tide_table *table, const struct tide_history *h)
{
    static const char *const kinds[] = {TIDE_MARK_LIST(TIDE_KIND_WORD)};
    static const char *const sources[] = {[TIDE_SOURCE_PROGRAM] = "program",
                                          [TIDE_SOURCE_OUTPUT] = "output",
                                          [TIDE_SOURCE_TRACKER] = "tracker"};
    tide_table_begin(table, "marks", NULL, TIDE_COLUMNS(MARK));
    for (size_t i = 0; i < h->mark_count; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        bool phase = m->kind == TIDE_MARK_PHASE_BEGIN || m->kind == TIDE_MARK_PHASE_END;
        bool named = m->name >= 0 && (size_t)m->name < h->name_count;
        TIDE_ROW(table, MARK);
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
