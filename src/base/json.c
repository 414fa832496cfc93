#include "base/json.h"
#include "base/check.h"
#include "base/text.h"
#include "base/units.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void tide_json_init(struct tide_json *json, FILE *out, bool compact)
{
    *json = (struct tide_json){.out = out, .compact = compact};
}

size_t tide_json_rune(const char *text, size_t len, char out[static TIDE_JSON_RUNE], size_t *ret_len)
{
    unsigned rune;
    size_t taken = tide_text_rune(text, len, &rune);
    int made;
    if (taken == 0)
        made = snprintf(out, TIDE_JSON_RUNE, "\xef\xbf\xbd");
    else if (rune == '"' || rune == '\\')
        made = snprintf(out, TIDE_JSON_RUNE, "\\%c", (char)rune);
    else if (tide_text_is_unsafe(rune))
        made = snprintf(out, TIDE_JSON_RUNE, "\\u%04x", rune);
    else
        made = snprintf(out, TIDE_JSON_RUNE, "%.*s", (int)taken, text);
    *ret_len = (size_t)made;
    return taken ? taken : 1;
}

static void put_string(const struct tide_json *json, const char *text)
{
    size_t len = strlen(text);
    fputc('"', json->out);
    for (size_t i = 0; i < len;) {
        char piece[TIDE_JSON_RUNE];
        size_t made;
        if (json->in_page && strchr("<>&", text[i])) {
            fprintf(json->out, "\\u%04x", (unsigned)text[i++]);
            continue;
        }
        i += tide_json_rune(text + i, len - i, piece, &made);
        fwrite(piece, 1, made, json->out);
    }
    fputc('"', json->out);
}

/* Writes what precedes a value: comma, new line, indentation, key. */
static void lead(struct tide_json *json, const char *key)
{
    if (json->depth > 0) {
        bool *filled = &json->filled[json->depth - 1];
        if (*filled)
            fputc(',', json->out);
        *filled = true;
        if (!json->compact)
            fprintf(json->out, "\n%*s", 2 * json->depth, "");
    }
    if (key) {
        put_string(json, key);
        fputs(json->compact ? ":" : ": ", json->out);
    }
}

static void begin(struct tide_json *json, const char *key, char opener, char closer)
{
    TIDE_CHECK(json->depth, <, TIDE_JSON_DEPTH);
    lead(json, key);
    fputc(opener, json->out);
    json->filled[json->depth] = false;
    json->closer[json->depth] = closer;
    json->depth++;
}

void tide_json_object(struct tide_json *json, const char *key)
{
    begin(json, key, '{', '}');
}

void tide_json_array(struct tide_json *json, const char *key)
{
    begin(json, key, '[', ']');
}

void tide_json_end(struct tide_json *json)
{
    TIDE_CHECK(json->depth, >, 0);
    json->depth--;
    if (json->filled[json->depth] && !json->compact)
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    fputc(json->closer[json->depth], json->out);
    if (json->depth == 0)
        fputc('\n', json->out);
}

void tide_json_text(struct tide_json *json, const char *key, const char *text)
{
    lead(json, key);
    if (text)
        put_string(json, text);
    else
        fputs("null", json->out);
}

void tide_json_integer(struct tide_json *json, const char *key, int64_t value)
{
    lead(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void tide_json_real(struct tide_json *json, const char *key, double value)
{
    if (!isfinite(value)) {
        tide_json_null(json, key);
        return;
    }
    lead(json, key);
    fprintf(json->out, "%.10g", value);
}

void tide_json_bool(struct tide_json *json, const char *key, bool value)
{
    lead(json, key);
    fputs(value ? "true" : "false", json->out);
}

void tide_json_null(struct tide_json *json, const char *key)
{
    lead(json, key);
    fputs("null", json->out);
}

void tide_json_whole(struct tide_json *json, const char *key, double value)
{
    if (!isfinite(value) || fabs(value) > (double)TIDE_LARGEST)
        tide_json_null(json, key);
    else
        tide_json_integer(json, key, llround(value));
}

void tide_json_document(struct tide_json *json, FILE *out, bool compact, const char *schema)
{
    tide_json_init(json, out, compact);
    tide_json_object(json, NULL);
    tide_json_text(json, "schema", schema);
}
