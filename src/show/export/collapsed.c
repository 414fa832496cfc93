/*
 * collapsed.c - one line per stack: "owner;outermost;...;innermost BYTES", as flame graph tools read it.
 *
 * Semicolons separate frames, and the format has no escape for them: one within a name becomes a colon.
 */
#include "show/export/export.h"

static void put_name(FILE *out, const char *name)
{
    for (; *name; name++)
        fputc(*name == ';' ? ':' : *name, out);
}

int tide_export_collapsed(const struct tide_export *e, FILE *out, struct tide_err *err)
{
    (void)err;
    for (size_t i = 0; i < e->count; i++) {
        const struct tide_export_value *v = &e->values[i];
        char name[TIDE_EXPORT_TEXT];
        const int32_t *frames;
        size_t count = tide_history_stack(e->history, v->site->stack, &frames);
        tide_export_owner(e, v->site, name, sizeof name);
        put_name(out, name);
        if (count == 0)
            fputs(";" TIDE_EXPORT_SMALL, out);
        while (count-- > 0) {
            tide_export_frame(&e->history->frames[frames[count]], name, sizeof name);
            fputc(';', out);
            put_name(out, name);
        }
        fprintf(out, " %lld\n", (long long)v->bytes);
    }
    return 0;
}
