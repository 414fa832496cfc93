/*
 * page_tables.c - the parts of a page in which things are looked up: processes, phases, gauges, GPUs, peaks,
 * limits, and what is missing.
 */
#include "assess/plan_compared.h"
#include "assess/process_name.h"
#include "base/clock.h"
#include "base/units.h"
#include "show/report/page.h"
#include "show/report/svg.h"
#include "show/text/html.h"
#include "show/text/recording_tables.h"
#include "show/text/verdict_text.h"

#include <string.h>

enum { PROCESSES_MOST = 120, ROWS_MOST = 48, STATES_MOST = 40, CARDS_MOST = 12, TEXT = 400 };

/* --- processes --------------------------------------------------------------------------------------- */

static void put_bytes(FILE *out, const char *label, int64_t bytes)
{
    fprintf(out, "<td class=\"n\" data-label=\"%s\">%s", label,
            bytes == TIDE_UNKNOWN ? "\u2013" : TIDE_SIZE((double)bytes));
}

/* Returns the verdict on a row: on the process itself, or on its role. */
static const struct tide_judged *judged_of(const struct tide_assessment *a,
                                           const struct tide_summary_row *row)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct tide_judged *j = &a->judged[i];
        if (row->members == 1 && j->subject == TIDE_SUBJECT_PROCESS && j->process == row->id)
            return j;
        if (row->members > 1 && j->subject == TIDE_SUBJECT_ROLE && j->members >= row->members && j->role &&
            !strcmp(j->role, row->name))
            return j;
    }
    return NULL;
}

static void put_word(FILE *out, const struct tide_judged *j)
{
    fputs("<td data-label=\"Verdict\">", out);
    if (!j) {
        fputs("<span class=\"verdict none\">not judged</span>", out);
        return;
    }
    const char *word = tide_judged_word(j);
    fprintf(out, "<span class=\"verdict %s\">%s</span>", word, word);
    if (tide_verdict_grows(&j->verdict))
        fprintf(out, " +%s/%s", TIDE_SIZE(j->verdict.slope), j->x_is_steps ? "step" : "s");
}

static void put_process(struct tide_report_page *page, const struct tide_summary_row *row)
{
    FILE *out = page->out;
    const struct tide_judged *j = judged_of(page->a, row);
    fprintf(out, "<tr><td class=\"name depth%d\" data-label=\"Process\">", row->depth < 6 ? row->depth : 6);
    if (row->members > 1) {
        fprintf(out, "%zu x ", row->members);
        tide_html_text(out, "", row->name, 96, "");
    } else {
        char title[96];
        tide_html_text(out, "", tide_process_title(&page->h->processes[row->id - 1], title, sizeof title), 0,
                       "");
        if (row->pid != TIDE_UNKNOWN)
            fprintf(out, "<span class=\"pid\">[%lld]</span>", (long long)row->pid);
    }
    put_word(out, j);
    fputs("<td class=\"wee\" data-label=\"Private memory\">", out);
    const struct tide_report_series *s =
        row->members == 1 ? tide_report_series_find(&page->set, row->id) : NULL;
    if (s)
        tide_report_svg_spark(out, &s->level, s->end_ns, page->summary.last_ns, tide_judged_word(s->judged));
    fprintf(out, "<td class=\"n\" data-label=\"Lasted\">%s",
            TIDE_DURATION((double)row->lasted_ns / TIDE_NS_PER_S));
    put_bytes(out, "First RSS", row->first_bytes);
    put_bytes(out, "Last RSS", row->last_bytes);
    put_bytes(out, "Peak RSS", row->peak_bytes);
    put_bytes(out, "PSS", row->pss_bytes);
    put_bytes(out, "USS", row->uss_bytes);
    fputs("</tr>\n", out);
}

void tide_report_put_processes(struct tide_report_page *page)
{
    const struct tide_summary *s = &page->summary;
    size_t most = tide_report_rows(page, PROCESSES_MOST);
    static const char *const heads[] = {"Lasted", "First RSS", "Last RSS", "Peak RSS", "PSS", "USS", NULL};
    fputs("<section id=\"processes\">\n<h2>Processes</h2>\n<table><thead><tr><th scope=\"col\">Process<th "
          "scope=\"col\">Verdict<th scope=\"col\">Private memory",
          page->out);
    for (const char *const *head = heads; *head; head++)
        fprintf(page->out, "<th scope=\"col\" class=\"n\">%s", *head);
    fputs("</tr></thead><tbody>\n", page->out);
    for (size_t i = 0; i < s->row_count && i < most; i++)
        put_process(page, &s->rows[i]);
    fputs("</tbody></table>\n", page->out);
    if (s->row_count > most)
        fprintf(page->out, "<p class=\"more\">and %zu more, in 'tidemark show --what processes'</p>\n",
                s->row_count - most);
    fputs("</section>\n", page->out);
}

/* --- the others -------------------------------------------------------------------------------------- */

static void put_section(struct tide_report_page *page, const char *id, const char *title,
                        void (*fill)(struct tide_table *, const struct tide_summary *, const char *))
{
    struct tide_table table = {
        .form = TIDE_TABLE_HTML, .out = page->out, .most = tide_report_rows(page, ROWS_MOST)};
    fprintf(page->out, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
    fill(&table, &page->summary, NULL);
    fputs("</section>\n", page->out);
}

/* Draws each judged series of a kind of subject as a small chart. */
static void put_charts(struct tide_report_page *page, enum tide_subject subject)
{
    FILE *out = page->out;
    size_t shown = 0;
    for (size_t i = 0; i < page->set.count && shown < tide_report_rows(page, CARDS_MOST); i++) {
        const struct tide_report_series *s = &page->set.series[i];
        const char *word = tide_judged_word(s->judged);
        if (s->judged->subject != subject)
            continue;
        char sentence[1024];
        tide_judged_sentence(s->judged, page->a, sentence, sizeof sentence);
        fputs(shown++ ? "" : "<ul class=\"cards\">\n", out);
        tide_html_text(out, "<li><h3>", s->judged->name, 0, "</h3>");
        tide_report_svg_spark(out, &s->level, s->end_ns, page->summary.last_ns, word);
        tide_html_text(out, "<p>", sentence, 0, "</p></li>\n");
    }
    if (shown)
        fputs("</ul>\n", out);
}

/* clang-format off */
#define PLANNED_PEAK(COLUMN)                                                                                 \
    COLUMN("name", "PEAK OF", -1, TEXT, row->name)                                                           \
    COLUMN("planned", "PLANNED", 1, BYTES, row->planned)                                                     \
    COLUMN("seen", "SEEN", 1, BYTES, row->seen)                                                              \
    COLUMN("unexplained", "UNEXPLAINED", 1, BYTES, row->seen < 0 ? TIDE_UNKNOWN : row->seen - row->planned)

#define PLANNED_OWNER(COLUMN)                                                                                \
    COLUMN("owner", "PLANNED OWNER AT THE PEAK", -1, TEXT, tide_part_name((enum tide_part)part))             \
    COLUMN("bytes", "BYTES", 1, BYTES, plan->owned[part])
/* clang-format on */

void tide_report_put_plan(struct tide_report_page *page)
{
    const struct tide_forecast *plan = page->report->plan;
    struct tide_table table = {.form = TIDE_TABLE_HTML, .out = page->out};
    struct tide_against seen;
    if (!plan)
        return;
    if (tide_against_compare(page->report->plan_host, plan, page->h, &seen, page->err)) {
        page->torn = true;
        return;
    }
    fprintf(page->out, "<section id=\"plan\">\n<h2>Planned and seen</h2>\n<p>Peaks %s.</p>\n", seen.what);
    tide_table_begin(&table, "peaks", NULL, TIDE_COLUMNS(PLANNED_PEAK));
    for (int i = 0; i < seen.count; i++) {
        const struct tide_against_row *row = &seen.rows[i];
        TIDE_ROW(&table, PLANNED_PEAK);
    }
    tide_table_end(&table);
    tide_table_begin(&table, "owners", NULL, TIDE_COLUMNS(PLANNED_OWNER));
    for (int part = 0; part < TIDE_PARTS; part++)
        if (plan->owned[part])
            TIDE_ROW(&table, PLANNED_OWNER);
    tide_table_end(&table);
    fputs("</section>\n", page->out);
}

void tide_report_put_tables(struct tide_report_page *page)
{
    const struct tide_summary *s = &page->summary;
    if (page->h->gpu_count) {
        put_section(page, "gpus", "GPUs", tide_tables_gpu);
        put_charts(page, TIDE_SUBJECT_GPU);
    }
    if (s->phase_count)
        put_section(page, "phases", "Phases", tide_tables_phases);
    if (s->steps.count + s->epochs.count + s->items.count + s->gauge_count) {
        put_section(page, "marks", "What the program said", tide_tables_marks);
        put_charts(page, TIDE_SUBJECT_GAUGE);
    }
    if (page->h->tick_count)
        put_section(page, "peaks", "Peaks", tide_tables_peaks);
    if (page->h->limit_count)
        put_section(page, "limits", "Limits", tide_tables_limits);
}

/* --- what is missing --------------------------------------------------------------------------------- */

static void put_state(FILE *out, const struct tide_history *h, const struct tide_heap_status *s)
{
    const struct tide_history_process *p = tide_history_process(h, s->process);
    fputs("<li>", out);
    char name[96] = "a process";
    tide_html_text(out, "", p ? tide_process_short(p, name, sizeof name) : name, 0, "");
    tide_html_text(out, ": call sites ", strcmp(s->state, TIDE_HEAP_STATE_ON) ? s->state : "seen", TEXT, "");
    if (s->interval_bytes > 0)
        fprintf(out, "; blocks smaller than about %s are sampled", TIDE_SIZE((double)s->interval_bytes));
    if (s->sampled > 0)
        fprintf(out, "; %s allocations followed", TIDE_COUNT((double)s->sampled));
    if (s->dropped_sites > 0)
        fprintf(out, "; <b>no room for %s stacks</b>", TIDE_COUNT((double)s->dropped_sites));
    if (s->dropped_blocks > 0)
        fprintf(out, "; <b>%s allocations could not be followed to their end</b>",
                TIDE_COUNT((double)s->dropped_blocks));
    if (s->truncated_stacks > 0)
        fprintf(out, "; %s stacks were cut", TIDE_COUNT((double)s->truncated_stacks));
    fputs("</li>\n", out);
}

/* True if there is more to say of a process than that it was watched. */
static bool is_telling(const struct tide_heap_status *s)
{
    return strcmp(s->state, TIDE_HEAP_STATE_ON) != 0 || s->sampled != 0 || s->dropped_sites > 0 ||
           s->dropped_blocks > 0;
}

/* Writes the last state of each process, which includes all earlier counts. */
static void put_states(struct tide_report_page *page)
{
    const struct tide_history *h = page->h;
    size_t shown = 0, more = 0, most = tide_report_rows(page, STATES_MOST);
    for (size_t i = 0; i < h->heap_status_count; i++) {
        const struct tide_heap_status *s = &h->heap_status[i];
        if (s != tide_history_heap_status(h, s->process))
            continue;
        if (shown < most && is_telling(s)) {
            put_state(page->out, h, s);
            shown++;
        } else
            more++;
    }
    if (more)
        fprintf(page->out, "<li>%zu more process%s whose call sites were followed%s.</li>\n", more,
                more == 1 ? "" : "es", shown < most ? " and which allocated almost nothing" : "");
}

static void put_left_out(struct tide_report_page *page)
{
    FILE *out = page->out;
    if (page->h->thinned > 1)
        fprintf(out, "<li>A large recording: only the lowest and highest of each %u looks are used.</li>\n",
                tide_history_cell_ticks(page->h));
    if (page->h->skipped_rows > 0)
        fprintf(out, "<li>%s rows of the recording are invalid and left out.</li>\n",
                TIDE_COUNT((double)page->h->skipped_rows));
    if (page->set.shortened)
        fprintf(
            out,
            "<li>Lines are drawn from fewer points than the recording has: of each stretch the lowest, the highest "
            "and the last.</li>\n");
    if (page->set.left_out)
        fprintf(out,
                "<li>%zu more series were judged and are not in this page: 'tidemark judge --all'.</li>\n",
                page->set.left_out);
    if (page->marks.merged_ns)
        fprintf(out, "<li>Stretches of a phase are drawn as one where less than %s lies between them.</li>\n",
                TIDE_DURATION((double)page->marks.merged_ns / TIDE_NS_PER_S));
    if (page->marks.spans_left_out)
        fprintf(out, "<li>%s stretches of phases beyond the first %zu names are not drawn.</li>\n",
                TIDE_COUNT((double)page->marks.spans_left_out), page->marks.name_count);
    if (page->marks.epochs_left_out)
        fprintf(out, "<li>%s epochs are not drawn.</li>\n", TIDE_COUNT((double)page->marks.epochs_left_out));
    if (page->no_room)
        fputs(
            "<li>The view of live bytes by call stack has no room in this page; 'tidemark blame' has the same "
            "numbers.</li>\n",
            out);
    else if (page->sites.left_out)
        fprintf(
            out,
            "<li>%s call sites have their own place in the view of live bytes; the %s smallest are shown together, "
            "as \"other call sites\" of their process.</li>\n",
            TIDE_COUNT((double)page->sites.site_count), TIDE_COUNT((double)page->sites.left_out));
}

void tide_report_put_losses(struct tide_report_page *page)
{
    fputs("<section id=\"notes\">\n<h2>What is missing, and what to know</h2>\n<ul class=\"notes\">\n",
          page->out);
    if (tide_history_broke_off(page->h))
        fputs("<li>The recording has no clean end, and nobody writes to it any more.</li>\n", page->out);
    else if (page->h->ended_ns == TIDE_UNKNOWN)
        fputs(
            "<li>The recording has no clean end: it was still being written when this page was made, or its writer was "
            "killed.</li>\n",
            page->out);
    put_left_out(page);
    put_states(page);
    fputs(
        "<li>Bytes are powers of 1024. A process is judged by what cannot be reclaimed: anonymous and shared memory and "
        "swap; mapped files are not counted.</li>\n</ul>\n",
        page->out);
    if (page->h->note_count) {
        struct tide_table table = {
            .form = TIDE_TABLE_HTML, .out = page->out, .most = tide_report_rows(page, ROWS_MOST)};
        tide_tables_notes(&table, &page->summary, NULL);
    }
    fputs("</section>\n", page->out);
}
