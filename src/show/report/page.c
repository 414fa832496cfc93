/*
 * page.c - a whole page: its head with the policy, its parts in order, the data for the script in the room
 * that is left, and the script itself.
 */
#include "show/report/page.h"
#include "show/report/svg.h"
#include "show/text/html.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <stdlib.h>

enum {
    SITES_MOST = 4096, /* most sites with a stack of their own */
    CULPRITS = 64,
    ROOM_LEAST = 4096,       /* for markup between the pieces, and for remarks on the sites */
    ROOM_FOR_SITES = 200000, /* with less, the other parts are cut instead */
    THRIFT_MOST = 64,
};

/* From assets.S. All end with a NUL that the length does not include. */
extern const char tide_asset_d3[], tide_asset_d3_hash[], tide_asset_d3_licence[], tide_asset_script[],
    tide_asset_script_hash[], tide_asset_style[], tide_asset_style_hash[];
extern const uint64_t tide_asset_d3_len, tide_asset_script_len, tide_asset_style_len;

/* A part of the page, written before its place is known. */
struct piece {
    char *text;
    size_t len;
};

static int no_memory(struct tide_err *err)
{
    return tide_err_set(err, "not enough memory to make the page");
}

/* --- head and end ------------------------------------------------------------------------------------ */

static void put_head(struct tide_report_page *page)
{
    FILE *out = page->out;
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n", out);
    fprintf(out, TIDE_REPORT_GENERATOR " %s\">\n", page->report->version);
    fprintf(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-%s' "
        "'sha256-%s'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'\">\n",
        tide_asset_d3_hash, tide_asset_script_hash, tide_asset_style_hash);
    fputs("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"referrer\" content=\"no-referrer\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          out);
    tide_html_text(out, "", tide_judged_word(&page->a->judged[0]), 0, ": ");
    tide_html_text(out, "", page->report->source, 120, " \u2013 tidemark</title>\n<style>");
    fwrite(tide_asset_style, 1, tide_asset_style_len, out);
    fputs("</style>\n</head>\n<body>\n<header><span class=\"brand\">tidemark</span> <span class=\"file\">",
          out);
    tide_html_text(out, "", page->report->source, 200, "</span></header>\n<main>\n");
}

static void put_timeline(struct tide_report_page *page)
{
    fputs("<section id=\"timeline\">\n<h2>Timeline</h2>\n<div id=\"chart\" hidden></div>\n", page->out);
    tide_report_svg_timeline(page->out, &page->summary, &page->set, &page->marks, page->a->limit_bytes);
    fputs("</section>\n", page->out);
}

static void put_view(struct tide_report_page *page)
{
    if (!page->growth || page->no_room)
        return;
    fputs(
        "<section id=\"sites\">\n<h2>Live bytes by call stack</h2>\n<noscript><p>This view needs JavaScript; the culprits "
        "above and <code>tidemark blame</code> do not.</p></noscript>\n<div id=\"view\" hidden></div>\n</section>\n",
        page->out);
}

static void put_end(struct tide_report_page *page)
{
    FILE *out = page->out;
    fprintf(
        out,
        "</main>\n<footer><p>Made by tidemark %s. The page is complete in itself: it loads nothing and sends "
        "nothing.</p>\n<details><summary>Charts are drawn with d3; its licence</summary><pre>",
        page->report->version);
    tide_html_text(out, "", tide_asset_d3_licence, 0, "</pre></details></footer>\n");
}

static void put_script(FILE *out, const char *script, size_t len)
{
    fputs("<script>", out);
    fwrite(script, 1, len, out);
    fputs("</script>\n", out);
}

static void put_data(FILE *out, const char *id, const struct piece *json)
{
    fprintf(out, "<script type=\"application/json\" id=\"%s\">", id);
    fwrite(json->text, 1, json->len, out);
    fputs("</script>\n", out);
}

/* --- pieces ------------------------------------------------------------------------------------------ */

/* Makes a piece, anew if it was made before, of what `put` writes to page->out. */
static int write_piece(struct tide_report_page *page, struct piece *piece,
                       void (*put)(struct tide_report_page *page))
{
    free(piece->text);
    *piece = (struct piece){NULL, 0};
    page->out = open_memstream(&piece->text, &piece->len);
    if (!page->out)
        return no_memory(page->err);
    put(page);
    return fclose(page->out) || page->torn ? no_memory(page->err) : 0;
}

/* Returns how many sites to try next after `had` sites took `len` bytes instead of `room`. Part of their size
 * does not shrink with their number, so the guess is a little low, and at most three quarters. */
static size_t fewer(size_t had, size_t room, size_t len)
{
    size_t fit = (size_t)((double)had * (double)room / (double)len * 0.98);
    return fit < had * 3 / 4 ? fit : had * 3 / 4;
}

/* Writes as many call sites as fit. */
static int write_sites(struct tide_report_page *page, size_t room, struct piece *ret)
{
    const struct tide_report_curve *spikes = &page->set.series[0].spikes;
    int64_t extra_ns[TIDE_REPORT_EXTRA];
    size_t extra = 0, stride = spikes->count / TIDE_REPORT_EXTRA + 1;
    for (size_t i = 0; i < spikes->count; i += stride)
        extra_ns[extra++] = spikes->points[i].t_ns;
    for (size_t most = SITES_MOST;;) {
        struct tide_arena_mark mark = tide_arena_mark(&page->arena);
        /* cppcheck-suppress uninitvar ; as many are set as are read */
        if (tide_report_sites_make(page->h, page->a, page->growth, extra_ns, extra, most, &page->arena,
                                   &page->sites, page->err) ||
            write_piece(page, ret, tide_report_put_sites_data))
            return -1;
        tide_arena_rewind(&page->arena, mark);
        page->no_room = ret->len > room && most <= 1;
        if (ret->len <= room || page->no_room)
            return 0;
        size_t shown = page->sites.site_count;
        most = fewer(shown < most ? shown : most, room, ret->len);
    }
}

/* Writes head to footer, without the script and its data. */
static void put_static(struct tide_report_page *page)
{
    put_head(page);
    tide_report_put_verdict(page);
    put_timeline(page);
    tide_report_put_culprits(page);
    put_view(page);
    tide_report_put_processes(page);
    tide_report_put_plan(page);
    tide_report_put_tables(page);
    tide_report_put_losses(page);
    put_end(page);
}

/* --- the whole --------------------------------------------------------------------------------------- */

static int find_culprits(struct tide_report_page *page)
{
    struct tide_blame_options growth = {
        .by = TIDE_BLAME_VERDICT, .from_x = NAN, .to_x = NAN, .most = CULPRITS};
    return page->h->site_count ? tide_blame_new(page->h, page->a, &growth, &page->growth, page->err) : 0;
}

/* Writes everything but the sites, as short as necessary. *ret_taken: bytes of the page so far. */
static int write_fixed(struct tide_report_page *page, struct piece *fixed, struct piece *timeline,
                       size_t *ret_taken)
{
    size_t assets = tide_asset_d3_len + tide_asset_script_len;
    for (page->thrift = 1; page->thrift <= THRIFT_MOST; page->thrift *= 2) {
        if (tide_report_series_make(&page->summary, page->a, page->thrift, &page->arena, &page->set,
                                    page->err) ||
            write_piece(page, timeline, tide_report_put_timeline_data) ||
            write_piece(page, fixed, put_static))
            return -1;
        *ret_taken = assets + fixed->len + timeline->len + ROOM_LEAST;
        if (*ret_taken + (page->growth ? ROOM_FOR_SITES : 0) <= TIDE_REPORT_MOST)
            return 0;
    }
    return tide_err_set(page->err, "the recording does not fit into a page of %d bytes", TIDE_REPORT_MOST);
}

static int make_page(struct tide_report_page *page, struct piece pieces[static 3])
{
    struct piece *fixed = &pieces[0], *timeline = &pieces[1], *sites = &pieces[2];
    size_t taken;
    if (tide_summary_make(page->h, &page->arena, &page->summary, page->err) ||
        tide_report_marks_make(&page->summary, &page->arena, &page->marks, page->err) ||
        find_culprits(page) || write_fixed(page, fixed, timeline, &taken))
        return -1;
    if (!page->growth)
        return 0;
    if (write_sites(page, TIDE_REPORT_MOST - taken, sites))
        return -1;
    /* Only now is it known how many sites were left out, which the page says. */
    return write_piece(page, fixed, put_static);
}

int tide_report_write(const struct tide_report *report, FILE *out, struct tide_err *err)
{
    struct tide_report_page page = {
        .report = report, .h = report->history, .a = report->assessment, .err = err};
    struct piece pieces[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    tide_arena_init(&page.arena, (size_t)1 << 30);
    int bad = make_page(&page, pieces);
    if (!bad) {
        fwrite(pieces[0].text, 1, pieces[0].len, out);
        put_data(out, "timeline-data", &pieces[1]);
        if (pieces[2].text && !page.no_room)
            put_data(out, "sites-data", &pieces[2]);
        put_script(out, tide_asset_d3, tide_asset_d3_len);
        put_script(out, tide_asset_script, tide_asset_script_len);
        fputs("</body>\n</html>\n", out);
    }
    for (size_t i = 0; i < 3; i++)
        free(pieces[i].text);
    tide_blame_free(page.growth);
    tide_arena_release(&page.arena);
    return bad;
}
