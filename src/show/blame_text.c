/*
 * blame_text.c - how culprits are said: lines for a person, and the document "tidemark.blame/1".
 *
 * A stack has dozens of frames, of which a reader wants few: the code of the program (its Python lines, or
 * the functions that have a source line), outermost first, then what it called into. Frames of start-up, of
 * the import machinery and without a name are left out; the document has them all.
 */
#include "show/blame.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

enum { TEXT = 512, SOURCE_LINE = 160 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_machinery(const struct tide_frame *f)
{
    static const char *const names[] = {"_start",
                                        "__libc_start_main_impl",
                                        "__libc_start_call_main",
                                        "__libc_start_main",
                                        "start_thread",
                                        "clone3",
                                        "clone",
                                        "__clone3",
                                        NULL};
    for (const char *const *n = names; *n; n++)
        if (!strcmp(f->function, *n))
            return true;
    return !strncmp(f->file, "<frozen ", 8) || (!f->function[0] && !f->file[0]);
}

/* Which frames to show, outermost first: the last `most` that are not machinery, the program's own before
 * those of libraries. */
static size_t choose_frames(const struct tide_history *h, const struct tide_history_site *site, size_t most,
                            const struct tide_frame **out)
{
    size_t count = 0, natives = 0;
    const int32_t *frames;
    size_t frame_count = tide_history_stack(h, site->stack, &frames);
    const struct tide_frame *inner[64] = {NULL};
    size_t native_most = most > 3 ? most / 3 : 1;
    bool has_source = false;
    for (size_t i = 0; i < frame_count && !has_source; i++) {
        const struct tide_frame *f = &h->frames[frames[i]];
        has_source = f->python && !is_machinery(f);
    }
    for (size_t i = 0; i < frame_count && count < most && count < 64; i++) {
        const struct tide_frame *f = &h->frames[frames[i]];
        if (is_machinery(f) || (has_source && !f->python && natives >= native_most))
            continue;
        natives += !f->python;
        inner[count++] = f;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = inner[count - 1 - i];
    return count;
}

/* The text of a source line, if the file is here and has it; false otherwise. */
static bool source_line(const char *path, int64_t line, char *out, size_t size)
{
    if (path[0] != '/' || line <= 0)
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char text[TEXT];
    bool found = false;
    for (int64_t at = 1; fgets(text, sizeof text, file);) {

        size_t len = strcspn(text, "\n");
        bool whole = text[len] == '\n';
        if (at == line) {
            size_t from = strspn(text, " \t");
            tide_text_escape(text + from, len > from ? len - from : 0, out, size);
            found = len > from;
            break;
        }
        at += whole;
    }
    fclose(file);
    return found;
}

static void put_frame(struct tide_buf *b, const struct tide_frame *f, bool with_source)
{
    char function[160], file[160], module[96], line[SOURCE_LINE];
    tide_text_escape(f->function, strlen(f->function), function, sizeof function);
    const char *short_file = base_name(f->file);
    tide_text_escape(short_file, strlen(short_file), file, sizeof file);
    const char *short_module = base_name(f->module);
    tide_text_escape(short_module, strlen(short_module), module, sizeof module);
    if (f->file[0] && f->line > 0)
        tide_buf_format(b, "%s:%lld %s", file, (long long)f->line, function);
    else if (f->function[0])
        tide_buf_format(b, "%s  %s", module[0] ? module : file, function);
    else
        tide_buf_format(b, "%s+0x%llx", module, (unsigned long long)f->offset);
    if (with_source && source_line(f->file, f->line, line, sizeof line))
        tide_buf_format(b, "%*s%s", b->len < 44 ? (int)(44 - b->len) : 2, "", line);
}

static const char *kind_name(enum tide_site_kind kind)
{
    static const char *const names[TIDE_SITE_KINDS] = {[TIDE_SITE_MALLOC] = "malloc",
                                                       [TIDE_SITE_MMAP] = "mmap",
                                                       [TIDE_SITE_CUDA] = "cuda",
                                                       [TIDE_SITE_POOL] = "pool"};
    return kind > 0 && kind < TIDE_SITE_KINDS ? names[kind] : "unknown";
}

/* "1 block of 203 KiB per step, never freed" */
static void put_habit(struct tide_buf *b, const struct tide_culprit *c, bool x_is_steps)
{
    char size[TIDE_UNITS_TEXT];
    if (c->blocks_per_x > 0 && c->bytes_per_x > 0)
        tide_buf_format(b, "%.3g block%s of %s per %s", c->blocks_per_x,
                        c->blocks_per_x > 0.95 && c->blocks_per_x < 1.05 ? "" : "s",
                        tide_size_text(c->bytes_per_x / c->blocks_per_x, size),
                        x_is_steps ? "step" : "second");
    if (!isfinite(c->freed_share))
        return;
    if (c->freed_share < 0.02)
        tide_buf_format(b, "%snever freed", b->len ? ", " : "");
    else
        tide_buf_format(b, "%s%.0f %% of what it allocates is freed", b->len ? ", " : "",
                        100 * c->freed_share);
}

static void put_measure(struct tide_buf *b, const struct tide_blame *blame, const struct tide_culprit *c)
{
    char size[TIDE_UNITS_TEXT];
    if (blame->by == TIDE_BLAME_GROWTH && c->bytes_per_x > 0)
        tide_buf_format(b, "%s/%s", tide_size_text(c->bytes_per_x, size), blame->x_is_steps ? "step" : "s");
    else
        tide_buf_format(b, "%s%s",
                        blame->by == TIDE_BLAME_BETWEEN || blame->by == TIDE_BLAME_GROWTH ? "+" : "",
                        tide_size_text(c->bytes, size));
    while (b->len < 14)
        tide_buf_text(b, " ");
    if (isfinite(c->share))
        tide_buf_format(b, "%3.0f %% of %s", 100 * c->share,
                        blame->by == TIDE_BLAME_GROWTH || blame->by == TIDE_BLAME_BETWEEN ? "the growth"
                                                                                          : "live bytes");
    else if (c->bounded)
        tide_buf_text(b, "bounded: rose and stopped");
    else
        tide_buf_text(b, c->on.verdict.kind == TIDE_JUMP ? "at once" : "too early to tell");
}

void tide_blame_print(const struct tide_blame *blame, const struct tide_history *history, size_t most,
                      size_t frames, FILE *out)
{
    struct tide_buf b;
    tide_buf_init(&b, 16 * TEXT);
    if (blame->count == 0)
        fprintf(out, "  culprit none: no call site %s\n",
                blame->by == TIDE_BLAME_GROWTH ? "grows" : "holds anything");
    for (size_t i = 0; i < blame->count && i < most; i++) {
        const struct tide_culprit *c = &blame->culprits[i];
        put_measure(&b, blame, c);
        struct tide_buf habit;
        tide_buf_init(&habit, TEXT);
        put_habit(&habit, c, blame->x_is_steps);
        fprintf(out, "  culprit %-3zu %-38s %s\n", i + 1, tide_buf_view(&b), tide_buf_view(&habit));
        tide_buf_release(&habit);
        tide_buf_clear(&b);
        const struct tide_frame *shown[64];
        size_t n = choose_frames(history, c->site, frames, shown);
        if (n == 0)
            fprintf(out, "              %s in %s\n",
                    c->site->stack ? "code without a name" : "many small sites together", c->process_name);
        for (size_t k = 0; k < n; k++) {
            put_frame(&b, shown[k], true);
            fprintf(out, "              %s\n", tide_buf_view(&b));
            tide_buf_clear(&b);
        }
    }
    tide_buf_release(&b);
}

static void json_frame(struct tide_json *json, const struct tide_frame *f)
{
    tide_json_object(json, NULL);
    tide_json_text(json, "function", f->function[0] ? f->function : NULL);
    tide_json_text(json, "file", f->file[0] ? f->file : NULL);
    tide_json_whole(json, "line", f->line > 0 ? (double)f->line : NAN);
    tide_json_text(json, "module", f->module[0] ? f->module : NULL);
    tide_json_whole(json, "offset", f->offset >= 0 && !f->python ? (double)f->offset : NAN);
    tide_json_bool(json, "python", f->python);
    tide_json_bool(json, "inlined", f->inlined);
    tide_json_end(json);
}

void tide_blame_json(const struct tide_blame *blame, const struct tide_history *history, const char *source,
                     FILE *out)
{
    static const char *const orders[] = {"growth", "peak", "end", "phase", "between"};
    struct tide_json json;
    tide_json_init(&json, out, false);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "schema", "tidemark.blame/1");
    tide_json_text(&json, "source", source);
    tide_json_text(&json, "by", orders[blame->by]);
    tide_json_text(&json, "axis", blame->x_is_steps ? "step" : "second");
    tide_json_integer(&json, "sites", (int64_t)blame->sites);
    tide_json_whole(&json, "all_bytes", blame->all_bytes);
    tide_json_array(&json, "culprits");
    for (size_t i = 0; i < blame->count; i++) {
        const struct tide_culprit *c = &blame->culprits[i];
        bool steps = blame->x_is_steps;
        tide_json_object(&json, NULL);
        tide_json_text(&json, "process", c->process_name);
        tide_json_text(&json, "kind", kind_name(c->site->kind));
        tide_json_real(&json, "bytes_per_step", steps ? c->bytes_per_x : NAN);
        tide_json_real(&json, "bytes_per_step_low",
                       steps && c->bytes_per_x > 0 ? c->on.verdict.slope_low : NAN);
        tide_json_real(&json, "bytes_per_step_high",
                       steps && c->bytes_per_x > 0 ? c->on.verdict.slope_high : NAN);
        tide_json_real(&json, "bytes_per_second", steps ? NAN : c->bytes_per_x);
        tide_json_real(&json, "share", c->share);
        tide_json_whole(&json, "bytes", c->bytes);
        tide_json_whole(&json, "live_bytes", c->live_bytes);
        tide_json_whole(&json, "blocks", c->blocks);
        tide_json_real(&json, "blocks_per_step", steps ? c->blocks_per_x : NAN);
        tide_json_real(&json, "freed_share", c->freed_share);
        tide_json_bool(&json, "bounded", c->bounded);
        tide_json_text(&json, "verdict", c->judged ? tide_verdict_name(c->on.verdict.kind) : NULL);
        tide_json_array(&json, "frames");
        const int32_t *frames;
        size_t frame_count = tide_history_stack(history, c->site->stack, &frames);
        for (size_t k = 0; k < frame_count; k++)
            json_frame(&json, &history->frames[frames[k]]);
        tide_json_end(&json);
        tide_json_end(&json);
    }
    tide_json_end(&json);
    tide_json_end(&json);
}
