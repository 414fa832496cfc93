/*
 * tokenizer_stream.c - tokenizes a text in memory that does not grow with it.
 *
 * Two windows slide over the text. The first holds it as it was read. Text up to the next added token goes,
 * normalized, to the second. There, added tokens that are found in normalized text and the patterns split it
 * into pieces. The end of a window is not the end of the text: what more text could turn into another match
 * waits. If more than a window waits, it is split there as if the text ended.
 */
#include "base/check.h"
#include "base/text.h"
#include "train/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    READ_BYTES = 1 << 16,
    MOST_WAITING = 1 << 18, /* bytes of a window that may wait for more */
    HISTORY = 8,            /* bytes kept before the next, to look at the rune before it */
};

struct window {
    char *data;
    size_t room, start, at, len; /* start: of the text that contains `at`; [at, len) is left */
};

struct stream {
    const struct tide_tokenizer *tokenizer;
    const struct tide_tokenizing *way;
    struct tide_pairs_encoder *encoder;
    struct window raw, text;
    size_t valid; /* [raw.at, valid) is UTF-8 */
    bool read_all;
    struct tide_err *err;
};

/* ---- windows */

/* Moves what is left to the front and makes room for more after it. */
static int window_room(struct window *w, size_t more, struct tide_err *err)
{
    size_t gone = w->at > HISTORY ? w->at - HISTORY : 0;
    if (w->len - gone + more > w->room) {
        size_t room = 2 * (w->len - gone + more);
        char *data = realloc(w->data, room);
        if (!data)
            return tide_err_set(err, "out of memory for the text");
        w->data = data;
        w->room = room;
    }
    memmove(w->data, w->data + gone, w->len - gone);
    w->start = w->start > gone ? w->start - gone : 0;
    w->at -= gone;
    w->len -= gone;
    return 0;
}

/* ---- pieces */

static int take(struct stream *s, const int32_t *tokens, size_t count)
{
    return count ? s->way->take(s->way->context, tokens, count, s->err) : 0;
}

static int encode(struct stream *s, const char *piece, size_t len)
{
    const int32_t *tokens;
    int64_t count = tide_pairs_encode(s->encoder, piece, len, &tokens, s->err);
    return count < 0 ? -1 : take(s, tokens, (size_t)count);
}

/* Splits text[0, len) with the patterns from number `stage` on. *ret_used: how much of it became pieces; less
 * than all only if the text does not end here. */
static int cut(struct stream *s, int stage, const char *text, size_t len, bool ends, size_t *ret_used)
{
    size_t at = 0, begin, end, unused;
    int found;
    if (stage == s->tokenizer->split_count) {
        *ret_used = ends ? len : 0;
        return ends ? encode(s, text, len) : 0;
    }
    struct tide_split *split = s->tokenizer->splits[stage];
    bool drops = tide_split_drops(split);
    while (at < len && (found = tide_split_next(split, text, len, at, ends, &begin, &end, s->err))) {
        if (found < 0 || (begin > at && !drops && cut(s, stage + 1, text + at, begin - at, true, &unused)) ||
            cut(s, stage + 1, text + begin, end - begin, true, &unused))
            return -1;
        at = end;
    }
    if (ends && at < len && !drops && cut(s, stage + 1, text + at, len - at, true, &unused))
        return -1;
    *ret_used = ends ? len : at;
    return 0;
}

/* Makes pieces of the second window. ends: the text ends with it. */
static int drain(struct stream *s, bool ends)
{
    struct window *w = &s->text;
    while (w->at < w->len) {
        bool all = ends || w->len - w->at > MOST_WAITING;
        struct tide_added_match match =
            tide_added_find(&s->tokenizer->composed, w->data, w->start, w->at, w->len, all);
        size_t used, len = match.begin - w->at;
        bool closed = all || match.id >= 0;
        if (len && cut(s, 0, w->data + w->at, len, closed, &used))
            return -1;
        w->at += len ? used : 0;
        if (match.id >= 0) {
            if (take(s, &match.id, 1))
                return -1;
            w->at = match.end;
        } else if (!closed) {
            break;
        }
    }
    if (ends)
        w->start = w->at = w->len = 0;
    return 0;
}

/* ---- text */

static int append(struct stream *s, const char *text, size_t len)
{
    utf8proc_uint8_t *composed = NULL;
    if (s->tokenizer->composes) {
        utf8proc_ssize_t made = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &composed,
                                             UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (made < 0)
            return tide_err_set(s->err, "the text cannot be normalized: %s", utf8proc_errmsg(made));
        text = (const char *)composed;
        len = (size_t)made;
    }
    int status = window_room(&s->text, len, s->err);
    if (!status) {
        memcpy(s->text.data + s->text.len, text, len);
        s->text.len += len;
    }
    free(composed);
    return status;
}

/* Returns how much of text[0, len) can be normalized without what follows: nothing joins with an ASCII
 * character that comes after it. */
static size_t composable(const char *text, size_t len)
{
    while (len && (uint8_t)text[len - 1] >= 0x80)
        len--;
    return len ? len - 1 : 0;
}

/* Processes the part of the first window that is UTF-8. ends: no UTF-8 follows, or nothing at all. */
static int read_valid(struct stream *s, bool ends)
{
    struct window *w = &s->raw;
    bool stuck = false;
    while (w->at < s->valid && !stuck) {
        bool all = ends || s->valid - w->at > MOST_WAITING;
        struct tide_added_match match =
            tide_added_find(&s->tokenizer->raw, w->data, w->start, w->at, s->valid, all);
        size_t len = match.begin - w->at;
        bool closed = all || match.id >= 0;
        if (s->tokenizer->composes && !closed)
            len = composable(w->data + w->at, len);
        if (len && append(s, w->data + w->at, len))
            return -1;
        if (drain(s, match.id >= 0 || (ends && w->at + len == s->valid)))
            return -1;
        w->at += len;
        stuck = !len;
        if (match.id >= 0) {
            if (take(s, &match.id, 1))
                return -1;
            w->at = match.end;
            stuck = false;
        }
    }
    return 0;
}

/* A byte that is not UTF-8 is a piece of its own. */
static int read_invalid(struct stream *s)
{
    struct window *w = &s->raw;
    if (drain(s, true) || encode(s, w->data + w->at, 1))
        return -1;
    w->start = w->at = ++s->valid;
    return 0;
}

/* Continues from `valid`. True if it stopped at bytes that are not UTF-8 and cannot become it. */
static bool look(struct stream *s)
{
    const struct window *w = &s->raw;
    size_t step;
    while (s->valid < w->len) {
        if ((uint8_t)w->data[s->valid] < 0x80)
            s->valid++;
        else if ((step = tide_text_rune(w->data + s->valid, w->len - s->valid, NULL)))
            s->valid += step;
        else
            return s->read_all || w->len - s->valid >= 4;
    }
    return false;
}

static int read_more(struct stream *s)
{
    size_t before = s->raw.at;
    if (window_room(&s->raw, READ_BYTES, s->err))
        return -1;
    s->valid -= before - s->raw.at;
    ssize_t got = s->way->read(s->way->context, s->raw.data + s->raw.len, READ_BYTES, s->err);
    if (got < 0)
        return -1;
    s->raw.len += (size_t)got;
    s->read_all = !got;
    return 0;
}

static int run(struct stream *s)
{
    while (!s->read_all) {
        if (read_more(s))
            return -1;
        while (look(s))
            if (read_valid(s, true) || read_invalid(s))
                return -1;
        if (read_valid(s, s->read_all))
            return -1;
    }
    return drain(s, true);
}

int tide_tokenizer_run(const struct tide_tokenizer *tokenizer, const struct tide_tokenizing *way,
                       struct tide_err *err)
{
    struct stream s = {.tokenizer = tokenizer, .way = way, .err = err};
    TIDE_CHECK_TRUE(!tokenizer->is_dropped);
    s.encoder = tide_pairs_encoder_new(tokenizer->pairs);
    int status = s.encoder ? run(&s) : tide_err_set(err, "out of memory for the tokenizer");
    tide_pairs_encoder_free(s.encoder);
    free(s.raw.data);
    free(s.text.data);
    return status;
}

/* ---- from memory */

struct memory {
    const char *text;
    size_t len, at;
    int32_t *out;
    size_t count, room;
};

static ssize_t read_memory(void *context, char *to, size_t room, struct tide_err *err)
{
    struct memory *m = context;
    size_t len = m->len - m->at < room ? m->len - m->at : room;
    (void)err;
    memcpy(to, m->text + m->at, len);
    m->at += len;
    return (ssize_t)len;
}

static int take_memory(void *context, const int32_t *tokens, size_t count, struct tide_err *err)
{
    struct memory *m = context;
    if (count > m->room - m->count)
        return tide_err_set(err, "the text has more tokens than it can have");
    memcpy(m->out + m->count, tokens, count * sizeof *tokens);
    m->count += count;
    return 0;
}

size_t tide_tokenizer_most(const struct tide_tokenizer *tokenizer, size_t len)
{
    return tokenizer->composes ? 3 * len : len; /* in NFC no character has more than three times its bytes */
}

int64_t tide_tokenizer_tokens(const struct tide_tokenizer *tokenizer, const char *text, size_t len,
                              int32_t *out, struct tide_err *err)
{
    struct memory m = {.text = text, .len = len, .out = out, .room = tide_tokenizer_most(tokenizer, len)};
    struct tide_tokenizing way = {read_memory, take_memory, &m};
    return tide_tokenizer_run(tokenizer, &way, err) ? -1 : (int64_t)m.count;
}
