/*
 * fuzz_stepwords.c - any output of a program, cut anywhere: steps and epochs that are found only rise, never
 * more than a tick may hold. And the same bytes through the status line: what reaches the terminal is what
 * was printed.
 */
#include "base/check.h"
#include "cli/status_line.h"
#include "cli/stepwords.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    int64_t step, epoch;
};

static void take(struct tide_stepwords *words, struct seen *seen)
{
    struct tide_stepwords_found found[2 * TIDE_STEPWORDS_TAKE];
    size_t count = tide_stepwords_take(words, found);
    TIDE_CHECK(count, <=, 2 * TIDE_STEPWORDS_TAKE);
    for (size_t i = 0; i < count; i++) {
        int64_t *last = found[i].kind == TIDE_MARK_STEP ? &seen->step : &seen->epoch;
        TIDE_CHECK(found[i].number, >, *last);
        TIDE_CHECK(found[i].number, <=, INT64_C(1) << 55);
        *last = found[i].number;
    }
}

static void find_steps(const char *text, size_t size, const char *regex)
{
    struct tide_stepwords *words;
    if (tide_stepwords_new(regex, &words, NULL))
        return;
    struct seen seen = {-1, -1};
    int64_t now = 0;
    for (size_t at = 0; at < size;) {
        size_t piece = 1 + (unsigned char)text[at] % 61;
        piece = piece < size - at ? piece : size - at;
        tide_stepwords_feed(words, (int)(piece & 1), text + at, piece, ++now);
        if (piece % 7 == 0)
            tide_stepwords_gap(words, (int)(piece & 1));
        if (piece % 3 == 0)
            take(words, &seen);
        at += piece;
    }
    tide_stepwords_end(words);
    take(words, &seen);
    tide_stepwords_free(words);
}

/* What is fed and what comes out are compared as one text; a piece that is neither of the text nor held back
 * from it was added by the status line. */
struct out {
    const char *text, *end, *expected;
    struct tide_status_line line;
};

static void put(void *context, const char *bytes, size_t len)
{
    struct out *out = context;
    bool fed = bytes >= out->text && bytes < out->end;
    bool held = bytes >= out->line.held && bytes < out->line.held + TIDE_STATUS_SEQUENCE;
    if (!fed && !held)
        return;
    TIDE_CHECK(len, <=, out->end - out->expected);
    TIDE_CHECK_TRUE(!memcmp(out->expected, bytes, len));
    out->expected += len;
}

/* However the output is cut and wherever the line is drawn, all of the output passes, in order. */
static void pass_through(const char *text, size_t size)
{
    struct out out = {.text = text, .end = text + size, .expected = text};
    struct tide_status_line *line = &out.line;
    tide_status_line_init(line, 24, 80, true, true, put, &out);
    for (size_t at = 0; at < size;) {
        size_t piece = 1 + (unsigned char)text[at] % 13;
        piece = piece < size - at ? piece : size - at;
        tide_status_line_feed(line, text + at, piece);
        at += piece;
        if (tide_status_line_draw(line, "memory"))
            TIDE_CHECK(line->held_len, ==, 0);
        if (piece == 13)
            tide_status_line_resize(line, 10 + (int)(at % 20), 30 + (int)(at % 60));
        TIDE_CHECK(line->cells, <=, line->columns);
    }
    tide_status_line_flush(line);
    tide_status_line_end(line);
    TIDE_CHECK(out.end - out.expected, ==, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    find_steps(text, size, NULL);
    find_steps(text, size, "([0-9]+)");
    pass_through(text, size);
    free(text);
    return 0;
}
