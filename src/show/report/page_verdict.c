/*
 * page_verdict.c - the parts of a page that are read first: the verdict with its evidence, and the culprits.
 */
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "show/report/page.h"
#include "show/report/svg.h"
#include "show/text/blame_text.h"
#include "show/text/html.h"
#include "show/text/stack_text.h"
#include "show/text/verdict_text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { CALLERS_MOST = 8, CULPRITS_MOST = 8, FRAMES_SHOWN = 7, HEALTHY_MOST = 4, TEXT = 512, LONG_TEXT = 240 };

/* --- frames ------------------------------------------------------------------------------------------ */

static void put_frame(FILE *out, const struct tide_frame *f, bool with_source)
{
    struct tide_buf b = TIDE_BUF_HERE(2 * TEXT);
    tide_frame_put(&b, f, false);
    fprintf(out, "<code class=\"where%s\"", f->python ? " py" : "");
    if (f->file[0] || f->module[0])
        tide_html_text(out, " title=\"", f->file[0] ? f->file : f->module, LONG_TEXT, "\"");
    tide_html_text(out, ">", tide_buf_view(&b), 0, "</code>");
    if (with_source && f->source[0])
        tide_html_text(out, " <code class=\"src\">", TIDE_SHOWN(f->source, 160), 0, "</code>");
}

/* Writes where a site allocates, for a line of its own. */
static void put_site(FILE *out, const struct tide_history *h, const struct tide_history_site *site)
{
    const struct tide_frame *f = tide_stack_line(h, site->stack);
    if (f)
        put_frame(out, f, true);
    else
        fputs(site->stack ? "code without a name" : "many small sites together", out);
}

/* --- the verdict ------------------------------------------------------------------------------------- */

static void put_pair(void *out, const char *label, const char *text)
{
    tide_html_text(out, "<div><dt>", label, 0, "</dt><dd>");
    tide_html_text(out, "", text, LONG_TEXT, "</dd></div>\n");
}

/* Writes "LEAK in python[4711]" with its leading capitals emphasised. */
static void put_headline(FILE *out, const char *text)
{
    size_t word = 0;
    while (isupper((unsigned char)text[word + (text[word] == ' ')]))
        word++;
    fprintf(out, "<h1><strong>%.*s</strong>", (int)word, text);
    tide_html_text(out, "", text + word, 0, "</h1>\n");
}

static void put_first_culprit(struct tide_report_page *page)
{
    const struct tide_blame *blame = page->growth;
    if (!blame || blame->count == 0 || !(blame->culprits[0].bytes_per_x > 0))
        return;
    const struct tide_culprit *c = &blame->culprits[0];
    struct tide_buf b = TIDE_BUF_HERE(TEXT);
    tide_culprit_put_amount(&b, blame, c);
    tide_buf_text(&b, ", ");
    tide_culprit_put_part(&b, blame, c);
    tide_html_text(page->out, "<div class=\"first\"><dt>culprit</dt><dd>", tide_buf_view(&b), 0, ": ");
    put_site(page->out, page->h, c->site);
    fputs("</dd></div>\n", page->out);
}

static void put_healthy(struct tide_report_page *page)
{
    const struct tide_blame *blame = page->growth;
    for (size_t i = 0; blame && i < blame->healthy_count && i < tide_report_rows(page, HEALTHY_MOST); i++) {
        struct tide_buf b = TIDE_BUF_HERE(2 * TEXT);
        tide_healthy_put(&b, page->h, &blame->healthy[i]);
        put_pair(page->out, i ? "" : "healthy", tide_buf_view(&b));
    }
}

static void put_facts(struct tide_report_page *page)
{
    const struct tide_history *h = page->h;
    const struct tide_summary *s = &page->summary;
    char text[TEXT], date[40] = "";
    time_t seconds = (time_t)h->started_wall_s;
    struct tm parts;
    fputs("<dl class=\"facts\">\n", page->out);
    if (h->command[0])
        put_pair(page->out, "command", h->command);
    if (h->started_wall_s != TIDE_UNKNOWN && gmtime_r(&seconds, &parts) &&
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &parts) > 0)
        put_pair(page->out, "started", date);
    put_pair(page->out, "lasted", TIDE_DURATION((double)s->last_ns / TIDE_NS_PER_S));
    tide_summary_ending(h, text, sizeof text);
    put_pair(page->out, "ended", text);
    if (isfinite(page->a->steps))
        put_pair(page->out, "steps", TIDE_COUNT(page->a->steps + 1));
    if (s->counted.bytes != TIDE_UNKNOWN) {
        double when_s = (double)s->counted.t_ns / TIDE_NS_PER_S;
        snprintf(text, sizeof text, "%s %s%s", TIDE_SIZE((double)s->counted.bytes),
                 when_s > 0 ? "after " : "at the start", when_s > 0 ? TIDE_DURATION(when_s) : "");
        put_pair(page->out, "peak", text);
    }
    if (isfinite(page->a->limit_bytes)) {
        snprintf(text, sizeof text, "%s (%s)", TIDE_SIZE(page->a->limit_bytes), page->a->limit_name);
        put_pair(page->out, "limit", text);
    }
    snprintf(text, sizeof text, "%s, of %zu process%s", TIDE_COUNT((double)h->tick_count), h->process_count,
             h->process_count == 1 ? "" : "es");
    put_pair(page->out, "looks", text);
    fputs("</dl>\n", page->out);
}

void tide_report_put_verdict(struct tide_report_page *page)
{
    char headline[TEXT];
    tide_assessment_headline(page->a, headline, sizeof headline);
    fprintf(page->out, "<section class=\"answer %s\">\n", tide_judged_word(&page->a->judged[0]));
    put_headline(page->out, headline);
    fputs("<dl class=\"evidence\">\n", page->out);
    put_first_culprit(page);
    tide_assessment_evidence(page->a, put_pair, page->out);
    put_healthy(page);
    fputs("</dl>\n", page->out);
    put_facts(page);
    fputs("</section>\n", page->out);
}

/* --- culprits ---------------------------------------------------------------------------------------- */

static void put_whole_stack(struct tide_report_page *page, const struct tide_history_site *site)
{
    FILE *out = page->out;
    const struct tide_history *h = page->h;
    const int32_t *frames;
    size_t count = tide_history_stack(h, site->stack, &frames);
    size_t most = tide_report_rows(page, TIDE_STACK_SHOWN), shown = count < most ? count : most;
    fprintf(out, "<details><summary>%s %zu frames, innermost first</summary><ol class=\"whole\">",
            shown < count ? "the innermost" : "all", shown);
    for (size_t i = 0; i < shown; i++) {
        fputs("<li>", out);
        put_frame(out, &h->frames[frames[i]], false);
        fputs("</li>", out);
    }
    fputs("</ol></details>\n", out);
}

static void put_stack(struct tide_report_page *page, const struct tide_history_site *site)
{
    FILE *out = page->out;
    const struct tide_history *h = page->h;
    const struct tide_frame *frames[TIDE_STACK_SHOWN];
    size_t count = tide_stack_choose(h, site->stack, FRAMES_SHOWN, frames);
    const struct tide_frame *own = tide_stack_line(h, site->stack);
    if (count == 0) {
        fputs("<p class=\"stack\">", out);
        put_site(out, h, site);
        fputs("</p>\n", out);
        return;
    }
    fputs("<ul class=\"stack\">\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "<li%s>", frames[i] == own ? " class=\"own\"" : "");
        put_frame(out, frames[i], true);
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
    put_whole_stack(page, site);
}

/* Writes each caller of the line in which a culprit's sites meet, with its share. */
static void put_callers(struct tide_report_page *page, const struct tide_culprit *c)
{
    fputs("<p>called from</p>\n<ul class=\"stack\">\n", page->out);
    for (size_t i = 0; i < c->caller_count && i < tide_report_rows(page, CALLERS_MOST); i++) {
        const struct tide_frame *caller = tide_culprit_caller(page->h, &c->callers[i]);
        fputs("<li>", page->out);
        if (isfinite(c->callers[i].share))
            fprintf(page->out, "%.0f %% ", 100 * c->callers[i].share);
        if (caller)
            put_frame(page->out, caller, true);
        else
            fputs("no other line of the program", page->out);
        fputs("</li>\n", page->out);
    }
    fputs("</ul>\n", page->out);
}

static const char *mood_of(const struct tide_culprit *c)
{
    return c->bytes_per_x > 0 ? "leak" : c->bounded ? "plateau" : "undecided";
}

static void put_culprit(struct tide_report_page *page, const struct tide_culprit *c)
{
    const struct tide_blame *blame = page->growth;
    FILE *out = page->out;
    struct tide_report_curve line = {NULL, 0};
    struct tide_buf b = TIDE_BUF_HERE(TEXT);
    tide_culprit_put_amount(&b, blame, c);
    fprintf(out, "<li class=\"culprit %s\"><div class=\"sum\"><b>%s</b> ", mood_of(c), tide_buf_view(&b));
    tide_buf_clear(&b);
    tide_culprit_put_part(&b, blame, c);
    fprintf(out, "<span class=\"part\">%s</span> ", tide_buf_view(&b));
    tide_buf_clear(&b);
    tide_culprit_put_habit(&b, blame, c);
    if (b.len)
        fprintf(out, "<span class=\"habit\">%s</span> ", tide_buf_view(&b));
    tide_html_text(out, "<span class=\"who\">", c->process_name, 0, "");
    fprintf(out, ", %s, %s live at the end</span>", tide_site_kind_name(c->site->kind),
            TIDE_SIZE(c->live_bytes));
    for (size_t i = 0; i < c->holder_count; i++)
        tide_html_text(out, "<span class=\"holder\">held by ", c->holders[i], 0, "</span>");
    fputs("</div>\n", out);
    if (!tide_report_site_curve(c->site, &page->arena, &line))
        tide_report_svg_spark(out, &line, page->summary.last_ns, page->summary.last_ns, mood_of(c));
    put_stack(page, c->site);
    if (c->caller_count)
        put_callers(page, c);
    fputs("</li>\n", out);
}

static void put_no_sites(struct tide_report_page *page)
{
    const char *why = tide_sites_refusal(page->h);
    fputs("<p>This recording does not say which code holds the bytes", page->out);
    if (why)
        tide_html_text(page->out, ": ", why, LONG_TEXT, "");
    if (tide_sites_were_asked(page->h)) { /* recording with --heap again would not help */
        fputs(".</p>\n", page->out);
        return;
    }
    bool command = page->h->command[0] && strncmp(page->h->command, "attach ", 7) != 0;
    tide_html_text(page->out, ". To find the culprits, record with <code>tidemark run --heap -- ",
                   command ? page->h->command : "PROG", 160, "</code></p>\n");
}

void tide_report_put_culprits(struct tide_report_page *page)
{
    const struct tide_blame *blame = page->growth;
    size_t most = tide_report_rows(page, CULPRITS_MOST);
    fputs("<section id=\"culprits\">\n<h2>Culprits</h2>\n", page->out);
    if (!blame)
        put_no_sites(page);
    else if (blame->count == 0)
        fprintf(page->out, "<p>None: no call site of %zu grows.</p>\n", blame->sites);
    if (blame && blame->count) {
        fputs("<ol class=\"culprits\">\n", page->out);
        for (size_t i = 0; i < blame->count && i < most; i++)
            put_culprit(page, &blame->culprits[i]);
        fputs("</ol>\n", page->out);
    }
    if (blame && blame->count > most)
        fprintf(page->out, "<p class=\"more\">and %zu more, in 'tidemark blame'</p>\n", blame->count - most);
    fputs("</section>\n", page->out);
}
