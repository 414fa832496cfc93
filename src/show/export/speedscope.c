/*
 * speedscope.c - the file format of speedscope (https://www.speedscope.app/file-format-schema.json):
 * one "sampled" profile per owner of memory, whose weights are bytes.
 */
#include "show/export/export.h"
#include "base/json.h"
#include "base/text.h"

/* Frames are shared by all profiles; index 0 stands for sites without a stack. */
static void put_frames(struct tide_json *json, const struct tide_history *h)
{
    char text[TIDE_EXPORT_TEXT];
    tide_json_object(json, "shared");
    tide_json_array(json, "frames");
    tide_json_object(json, NULL);
    tide_json_text(json, "name", TIDE_EXPORT_SMALL);
    tide_json_end(json);
    for (size_t i = 0; i < h->frame_count; i++) {
        const struct tide_frame *f = &h->frames[i];
        const char *file = f->file[0] ? f->file : f->module;
        tide_json_object(json, NULL);
        if (f->function[0])
            tide_text_shown(f->function, text, sizeof text);
        else
            tide_export_frame(f, text, sizeof text);
        tide_json_text(json, "name", text);
        if (file[0])
            tide_json_text(json, "file", tide_text_shown(file, text, sizeof text));
        if (f->line > 0)
            tide_json_integer(json, "line", f->line);
        tide_json_end(json);
    }
    tide_json_end(json);
    tide_json_end(json);
}

static void put_profile(struct tide_json *json, const struct tide_export *e, size_t from, size_t to)
{
    char owner[TIDE_EXPORT_TEXT];
    int64_t sum = 0;
    for (size_t i = from; i < to; i++)
        sum += e->values[i].bytes;
    tide_export_owner(e, e->values[from].site, owner, sizeof owner);
    tide_json_object(json, NULL);
    tide_json_text(json, "type", "sampled");
    tide_json_text(json, "name", owner);
    tide_json_text(json, "unit", "bytes");
    tide_json_integer(json, "startValue", 0);
    tide_json_integer(json, "endValue", sum);
    tide_json_array(json, "samples");
    for (size_t i = from; i < to; i++) {
        const int32_t *frames;
        size_t count = tide_history_stack(e->history, e->values[i].site->stack, &frames);
        tide_json_array(json, NULL);
        if (count == 0)
            tide_json_integer(json, NULL, 0);
        while (count-- > 0)
            tide_json_integer(json, NULL, frames[count] + 1);
        tide_json_end(json);
    }
    tide_json_end(json);
    tide_json_array(json, "weights");
    for (size_t i = from; i < to; i++)
        tide_json_integer(json, NULL, e->values[i].bytes);
    tide_json_end(json);
    tide_json_end(json);
}

int tide_export_speedscope(const struct tide_export *e, FILE *out, struct tide_err *err)
{
    struct tide_json json;
    (void)err;
    tide_json_init(&json, out, true);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    tide_json_text(&json, "exporter", "tidemark");
    tide_json_text(&json, "name", e->history->command);
    tide_json_integer(&json, "activeProfileIndex", 0);
    put_frames(&json, e->history);
    tide_json_array(&json, "profiles");
    for (size_t from = 0, to; from < e->count; from = to) {
        for (to = from + 1; to < e->count && !tide_export_by_owner(e->values[from].site, e->values[to].site);)
            to++;
        put_profile(&json, e, from, to);
    }
    tide_json_end(&json);
    tide_json_end(&json);
    return 0;
}
