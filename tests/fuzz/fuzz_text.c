/*
 * Untrusted text: whatever the bytes, what comes out of tide_text_escape and the JSON writer is UTF-8
 * without a control character, within its bounds, and the parsers of sizes and numbers take or refuse without
 * harm. The first byte chooses the room that the escaped text has.
 */
#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_clean(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        unsigned rune;
        size_t taken = tide_text_rune(text + i, len - i, &rune);
        TIDE_CHECK(taken, >, 0);
        TIDE_CHECK_TRUE(rune == '\n' || !tide_text_is_unsafe(rune));
        i += taken;
    }
}

static void try_json(const char *text)
{
    char *written = NULL;
    size_t len;
    FILE *out = open_memstream(&written, &len);
    if (!out)
        return;
    struct tide_json json;
    tide_json_init(&json, out, true);
    tide_json_object(&json, NULL);
    tide_json_text(&json, text, text);
    tide_json_end(&json);
    fclose(out);
    expect_clean(written);
    json_t *read = json_loadb(written, len, 0, NULL);
    TIDE_CHECK_TRUE(read != NULL);
    json_decref(read);
    free(written);
}

static void try_numbers(const char *text)
{
    int64_t whole;
    double real;
    if (!tide_size_parse(text, &whole))
        TIDE_CHECK(whole, >=, 0);
    if (!tide_duration_parse(text, &whole))
        TIDE_CHECK(whole, >=, 0);
    tide_count_parse(text, &whole);
    if (!tide_real_parse(text, &real)) {
        char out[TIDE_UNITS_TEXT];
        TIDE_CHECK_TRUE(real - real == 0);
        TIDE_CHECK(strlen(tide_size_text(real, out)), <, TIDE_UNITS_TEXT);
        TIDE_CHECK(strlen(tide_typed_size_text(real, out)), <, TIDE_UNITS_TEXT);
        TIDE_CHECK(strlen(tide_duration_text(real, out)), <, TIDE_UNITS_TEXT);
        TIDE_CHECK(strlen(tide_count_text(real, out)), <, TIDE_UNITS_TEXT);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"steps", "interval", "limit", "items", NULL};
    if (size == 0)
        return 0;
    size_t room = data[0];
    char *text = malloc(size), *out = malloc(room ? room : 1);
    if (text && out) {
        memcpy(text, data + 1, size - 1);
        text[size - 1] = '\0';
        tide_text_escape(text, size - 1, out, room);
        if (room) {
            TIDE_CHECK(strlen(out), <, room);
            expect_clean(out);
        }
        TIDE_CHECK(tide_text_columns(text, size - 1), <=, 2 * size);
        tide_text_nearest(text, names);
        try_json(text);
        try_numbers(text);
    }
    free(text);
    free(out);
    return 0;
}
