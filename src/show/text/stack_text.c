#include "show/text/stack_text.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

enum { TEXT = 512 };

#define INDENT "              "

/* Returns a Python package's file by its path in the package ("torch/nn/functional.py"), others by name. */
static const char *short_path(const char *path)
{
    static const char *const roots[] = {"/site-packages/", "/dist-packages/", NULL};
    for (const char *const *root = roots; *root; root++) {
        const char *found = strstr(path, *root);
        if (found)
            return found + strlen(*root);
    }
    const char *library = strstr(path, "/lib/python3.");
    const char *inside = library ? strchr(library + strlen("/lib/"), '/') : NULL;
    return inside ? inside + 1 : tide_text_last_part(path);
}

/*
 * Shortens a C++ function to its name: without parameters, and without template arguments longer than a word.
 * Operators stay as they are, because their names have brackets of their own.
 */
static void bare_name(const char *function, char *out, size_t size)
{
    enum { ARGUMENTS = 24 };
    static const char nameless[] = "(anonymous namespace)";
    size_t used = 0;
    const char *end = function + strlen(function);
    bool whole = !strchr(function, '(') || strstr(function, "operator");
    for (const char *p = function; p < end && used + 1 < size; p++) {
        if (!whole && !strncmp(p, nameless, sizeof nameless - 1) && used + sizeof nameless < size) {
            memcpy(out + used, nameless, sizeof nameless - 1);
            used += sizeof nameless - 1;
            p += sizeof nameless - 2;
            continue;
        }
        if (!whole && *p == '(' && p > function)
            break;
        const char *close = p;
        int depth = 0;
        do
            depth += (*close == '<') - (*close == '>' && close > function && close[-1] != '-');
        while (*p == '<' && depth > 0 && ++close < end);
        if (!whole && close - p > ARGUMENTS && used + 4 < size) {
            memcpy(out + used, "<..>", 4);
            used += 4;
            p = close;
        } else
            out[used++] = *p;
    }
    out[used] = '\0';
}

void tide_frame_put(struct tide_buf *b, const struct tide_frame *f, bool with_source)
{
    char bare[160];
    bare_name(f->function, bare, sizeof bare);
    const char *function = TIDE_SHOWN(bare, 160), *file = TIDE_SHOWN(short_path(f->file), 160),
               *module = TIDE_SHOWN(tide_text_last_part(f->module), 96);
    if (f->file[0] && f->line > 0)
        tide_buf_format(b, "%s:%lld %s", file, (long long)f->line, function);
    else if (f->function[0])
        tide_buf_format(b, "%s  %s", module[0] ? module : file, function);
    else
        tide_buf_format(b, "%s+0x%llx", module, (unsigned long long)f->offset);
    if (with_source && f->source[0])
        tide_buf_format(b, "%*s%s", b->len < 44 ? (int)(44 - b->len) : 2, "", TIDE_SHOWN(f->source, 160));
}

void tide_stack_print(const struct tide_history *h, const struct tide_history_site *site, size_t most,
                      FILE *out)
{
    const struct tide_frame *shown[TIDE_STACK_SHOWN];
    size_t count = tide_stack_choose(h, site->stack, most, shown);
    char process[TIDE_SITE_PROCESS];
    tide_site_process_name(h, site, process, sizeof process);
    if (count == 0)
        fprintf(out, INDENT "%s in %s\n",
                site->stack ? "code in an unknown file" : "many small sites together", process);
    struct tide_buf line = TIDE_BUF_HERE(4 * TEXT), before = TIDE_BUF_HERE(4 * TEXT);
    for (size_t i = 0; i < count; i++) {
        tide_frame_put(&line, shown[i], true);
        if (strcmp(tide_buf_view(&line), tide_buf_view(&before)) != 0) /* overloads that call each other */
            fprintf(out, INDENT "%s\n", tide_buf_view(&line));
        tide_buf_clear(&before);
        tide_buf_text(&before, tide_buf_view(&line));
        tide_buf_clear(&line);
    }
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

void tide_stack_json(struct tide_json *json, const char *key, const struct tide_history *h, int64_t stack)
{
    const int32_t *frames;
    size_t count = tide_history_stack(h, stack, &frames);
    tide_json_array(json, key);
    for (size_t i = 0; i < count; i++)
        json_frame(json, &h->frames[frames[i]]);
    tide_json_end(json);
}
