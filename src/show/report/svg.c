#include "show/report/svg.h"
#include "base/units.h"
#include "show/text/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1000,
    HEIGHT = 240,
    SPARK_WIDTH = 200,
    SPARK_HEIGHT = 40,
    POINTS = 900,
    SPARK_POINTS = 90,
    HUES = 6
};

double tide_report_tick(double bytes)
{
    double unit = 1, tick = 1;
    while (bytes >= 1024 * unit)
        unit *= 1024;
    double least = bytes / unit / 5;
    while (tick < least)
        tick *= 10;
    while (tick / 10 >= least)
        tick /= 10;
    tick = tick / 5 >= least ? tick / 5 : tick / 2 >= least ? tick / 2 : tick;
    return tick * unit;
}

struct scale {
    double last_ns, top;
    int lines; /* lines of the scale above zero */
    int width, height;
};

static double at_x(const struct scale *s, int64_t t_ns)
{
    double x = s->last_ns > 0 ? (double)t_ns / s->last_ns : 0;
    return fmin(fmax(x, 0), 1) * s->width;
}

static double at_y(const struct scale *s, int64_t bytes)
{
    double y = s->top > 0 ? (double)bytes / s->top : 0;
    return (1 - fmin(fmax(y, 0), 1)) * s->height;
}

/* Draws steps: a value holds until the next. closed: down to zero at both ends, for filling. */
static void put_steps(FILE *out, const struct scale *s, const struct tide_report_curve *line, int64_t end_ns,
                      bool closed)
{
    const struct tide_report_point *p = line->points;
    if (closed)
        fprintf(out, "M%.1f,%dV%.1f", at_x(s, p[0].t_ns), s->height, at_y(s, p[0].bytes));
    else
        fprintf(out, "M%.1f,%.1f", at_x(s, p[0].t_ns), at_y(s, p[0].bytes));
    for (size_t i = 1; i < line->count; i++)
        fprintf(out, "H%.1fV%.1f", at_x(s, p[i].t_ns), at_y(s, p[i].bytes));
    fprintf(out, "H%.1f", at_x(s, end_ns > p[line->count - 1].t_ns ? end_ns : p[line->count - 1].t_ns));
    if (closed)
        fprintf(out, "V%dZ", s->height);
}

/* Draws a path of at most `most` points; draws nothing if memory for a shorter copy runs out. */
static void put_path(FILE *out, const char *class, const struct scale *s,
                     const struct tide_report_curve *line, size_t most, int64_t end_ns, bool closed)
{
    struct tide_report_curve shorter = {malloc((line->count + 1) * sizeof *shorter.points), line->count};
    if (shorter.points && line->count) {
        memcpy(shorter.points, line->points, line->count * sizeof *shorter.points);
        tide_report_curve_thin(&shorter, most);
        fprintf(out, "<path class=\"%s\" d=\"", class);
        put_steps(out, s, &shorter, end_ns, closed);
        fputs("\"/>\n", out);
    }
    free(shorter.points);
}

static void put_polyline(FILE *out, const char *class, const struct scale *s,
                         const struct tide_report_curve *line)
{
    if (line->count == 0)
        return;
    fprintf(out, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0; i < line->count; i++)
        fprintf(out, "%c%.1f,%.1f", i ? 'L' : 'M', at_x(s, line->points[i].t_ns),
                at_y(s, line->points[i].bytes));
    fputs("\"/>\n", out);
}

static void put_marks(FILE *out, const struct scale *s, const struct tide_report_marks *marks)
{
    for (size_t i = 0; i < marks->span_count; i++) {
        const struct tide_stretch *p = &marks->spans[i];
        double from = at_x(s, p->from_ns), to = at_x(s, p->to_ns);
        fprintf(out, "<rect class=\"phase hue%d\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>\n",
                p->name % HUES, from, fmax(to - from, 0.5), s->height);
    }
    for (size_t i = 0; i < marks->epoch_count; i++)
        fprintf(out, "<path class=\"epoch\" d=\"M%.1f,0V%d\"/>\n", at_x(s, marks->epochs[i].t_ns), s->height);
}

static void put_drawing(FILE *out, const struct scale *s, const struct tide_report_set *set,
                        const struct tide_report_marks *marks, double limit_bytes)
{
    const struct tide_report_series *tree = &set->series[0], *beside = &set->series[set->beside];
    fprintf(
        out,
        "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Memory of the process "
        "tree over time\">\n",
        s->width, s->height);
    for (int i = 0; i < s->lines; i++)
        fprintf(out, "<path class=\"grid\" d=\"M0,%.1fH%d\"/>\n", (double)i * s->height / s->lines, s->width);
    put_marks(out, s, marks);
    put_path(out, "area", s, &tree->level, POINTS, tree->end_ns, true);
    if (set->beside_level)
        put_path(out, "worst", s, &beside->level, POINTS, beside->end_ns, false);
    if (set->beside)
        put_path(out, "live", s, &beside->live, POINTS, beside->end_ns, false);
    put_polyline(out, "floor", s, &tree->floor);
    for (size_t i = 0; i < tree->spikes.count; i++) {
        const struct tide_report_point *p = &tree->spikes.points[i];
        fprintf(out, "<path class=\"spike\" d=\"M%.1f,%.1fv-8\"/>\n", at_x(s, p->t_ns), at_y(s, p->bytes));
    }
    if (limit_bytes <= s->top)
        fprintf(out, "<path class=\"limit\" d=\"M0,%.1fH%d\"/>\n", at_y(s, (int64_t)limit_bytes), s->width);
    fputs("</svg>\n", out);
}

static void put_scale_y(FILE *out, const struct scale *s)
{
    fputs("<div class=\"ys\" aria-hidden=\"true\">", out);
    for (int i = s->lines; i >= 0; i--)
        fprintf(out, "<span>%s</span>", i ? TIDE_SIZE(s->top * i / s->lines) : "0");
    fputs("</div>\n", out);
}

static void put_scale_x(FILE *out, const struct tide_summary *summary)
{
    fputs("<div class=\"xs\" aria-hidden=\"true\">", out);
    for (int i = 0; i <= 4; i++) {
        double t_ns = (double)summary->last_ns * i / 4;
        double step = tide_axis_at(&summary->axis, (int64_t)t_ns);
        fprintf(out, "<div><span>%s</span>", i ? TIDE_DURATION(t_ns / 1e9) : "0 s");
        if (summary->axis.is_steps && isfinite(step))
            fprintf(out, "<span>step %s</span>", TIDE_COUNT(step));
        fputs("</div>", out);
    }
    fputs("</div>\n", out);
}

static void put_key(FILE *out, const char *class, const char *text)
{
    fprintf(out, "<li><i class=\"%s\"></i>", class);
    tide_html_text(out, "", text, 80, "</li>");
}

static void put_legend(FILE *out, const struct tide_report_set *set, const struct tide_report_marks *marks,
                       bool with_limit)
{
    const struct tide_report_series *beside = &set->series[set->beside];
    fputs("<ul class=\"legend\">", out);
    put_key(out, "k-area",
            set->series[0].judged->subject == TIDE_SUBJECT_TREE ? "process tree, shared pages once"
                                                                : set->series[0].judged->name);
    if (set->beside_level)
        put_key(out, "k-worst", beside->judged->name);
    if (set->beside && beside->live.count)
        put_key(out, "k-live", "live: what the program holds");
    put_key(out, "k-floor", "floor: what memory returns to");
    if (set->series[0].spikes.count)
        put_key(out, "k-spike", "spike");
    if (marks->epoch_count)
        put_key(out, "k-epoch", "epoch begins");
    if (with_limit)
        put_key(out, "k-limit", "limit");
    for (size_t i = 0; i < marks->name_count && i < 8; i++) {
        char class[24], text[96];
        snprintf(class, sizeof class, "k-phase hue%zu", i % HUES);
        snprintf(text, sizeof text, "phase %.80s", marks->names[i]);
        put_key(out, class, text);
    }
    fputs("</ul>\n", out);
}

void tide_report_svg_timeline(FILE *out, const struct tide_summary *summary,
                              const struct tide_report_set *set, const struct tide_report_marks *marks,
                              double limit_bytes)
{
    const struct tide_report_series *tree = &set->series[0];
    double most = tide_report_curve_most(&tree->level);
    bool with_limit = limit_bytes <= 1.6 * most;
    if (with_limit)
        most = fmax(most, limit_bytes);
    double tick = tide_report_tick(fmax(most, 1));
    int lines = (int)ceil(fmax(most * 1.03, 1) / tick);
    struct scale s = {(double)summary->last_ns, lines * tick, lines, WIDTH, HEIGHT};
    fputs("<figure class=\"timeline\" id=\"static\">\n", out);
    put_scale_y(out, &s);
    fputs("<div class=\"plot\">", out);
    put_drawing(out, &s, set, marks, limit_bytes);
    fputs("</div>\n", out);
    put_scale_x(out, summary);
    put_legend(out, set, marks, with_limit);
    fputs("</figure>\n", out);
}

void tide_report_svg_spark(FILE *out, const struct tide_report_curve *line, int64_t end_ns, int64_t last_ns,
                           const char *mood)
{
    struct scale s = {(double)last_ns, fmax(tide_report_curve_most(line) * 1.06, 1), 0, SPARK_WIDTH,
                      SPARK_HEIGHT};
    fprintf(
        out,
        "<svg class=\"spark %s\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        mood, SPARK_WIDTH, SPARK_HEIGHT);
    put_path(out, "area", &s, line, SPARK_POINTS, end_ns, true);
    put_path(out, "line", &s, line, SPARK_POINTS, end_ns, false);
    fputs("</svg>", out);
}
