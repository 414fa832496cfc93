#include "base/text.h"
#include "base/whole.h"

#include <stdarg.h>
#include <stdio.h>

size_t tide_text_rune(const char *text, size_t len, unsigned *ret_rune)
{
    const unsigned char *p = (const unsigned char *)text;
    if (len == 0)
        return 0;
    unsigned rune = p[0];
    size_t need = rune < 0x80                    ? 1
                  : rune >= 0xc2 && rune <= 0xdf ? 2
                  : (rune & 0xf0) == 0xe0        ? 3
                  : rune >= 0xf0 && rune <= 0xf4 ? 4
                                                 : 0;
    if (need == 0 || need > len)
        return 0;
    static const unsigned char lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    rune &= lead_mask[need];
    for (size_t i = 1; i < need; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        rune = rune << 6 | (p[i] & 0x3f);
    }
    if (rune < smallest[need] || rune > 0x10ffff || (rune >= 0xd800 && rune <= 0xdfff))
        return 0;
    if (ret_rune)
        *ret_rune = rune;
    return need;
}

bool tide_text_is_unsafe(unsigned rune)
{
    return rune < 0x20 || (rune >= 0x7f && rune < 0xa0) || rune == 0x61c || rune == 0x2028 ||
           rune == 0x2029 || rune == 0x200e || rune == 0x200f || (rune >= 0x202a && rune <= 0x202e) ||
           (rune >= 0x2066 && rune <= 0x2069) || rune == 0xfeff;
}

char *tide_text_escape(const char *text, size_t len, char *out, size_t size)
{
    if (size == 0)
        return out;
    size_t used = 0, fits = 0; /* fits: last position where ".." still fits */
    for (size_t i = 0; i < len;) {
        char piece[16];
        unsigned rune;
        size_t taken = tide_text_rune(text + i, len - i, &rune);
        int need;
        if (taken == 0 || (taken == 1 && tide_text_is_unsafe(rune)))
            need = snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)text[i]);
        else if (tide_text_is_unsafe(rune))
            need = snprintf(piece, sizeof piece, "\\u{%x}", rune);
        else {
            memcpy(piece, text + i, taken);
            need = (int)taken;
        }
        if (used + (size_t)need >= size) {
            snprintf(out + fits, size - fits, "..");
            return out;
        }
        memcpy(out + used, piece, (size_t)need);
        used += (size_t)need;
        if (used + 3 <= size)
            fits = used;
        i += taken ? taken : 1;
    }
    out[used] = '\0';
    return out;
}

static size_t rune_columns(unsigned rune)
{
    if ((rune >= 0x300 && rune <= 0x36f) || (rune >= 0x200b && rune <= 0x200d) ||
        (rune >= 0xfe00 && rune <= 0xfe0f) || (rune >= 0x20d0 && rune <= 0x20ff))
        return 0;
    bool wide = (rune >= 0x1100 && rune <= 0x115f) || (rune >= 0x2e80 && rune <= 0xa4cf) ||
                (rune >= 0xac00 && rune <= 0xd7a3) || (rune >= 0xf900 && rune <= 0xfaff) ||
                (rune >= 0xfe30 && rune <= 0xfe6f) || (rune >= 0xff00 && rune <= 0xff60) ||
                (rune >= 0xffe0 && rune <= 0xffe6) || (rune >= 0x1f300 && rune <= 0x1faff) ||
                (rune >= 0x20000 && rune <= 0x3fffd);
    return wide ? 2 : 1;
}

void tide_text_add(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

const char *tide_text_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

size_t tide_text_columns(const char *text, size_t len)
{
    size_t columns = 0;
    for (size_t i = 0; i < len;) {
        unsigned rune = '?';
        size_t taken = tide_text_rune(text + i, len - i, &rune);
        columns += rune_columns(rune);
        i += taken ? taken : 1;
    }
    return columns;
}

size_t tide_text_fitting(const char *text, size_t len, size_t columns)
{
    size_t at = 0;
    for (size_t used = 0; at < len;) {
        unsigned rune = '?';
        size_t taken = tide_text_rune(text + at, len - at, &rune);
        used += rune_columns(rune);
        if (used > columns)
            break;
        at += taken ? taken : 1;
    }
    return at;
}

/* Letters to insert, delete, replace or swap with their neighbour. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 32 };
    size_t na = strlen(a), nb = strlen(b), d[LONGEST + 1][LONGEST + 1];
    if (na > LONGEST || nb > LONGEST)
        return LONGEST;
    for (size_t i = 0; i <= na; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= nb; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= na; i++)
        for (size_t j = 1; j <= nb; j++) {
            d[i][j] = tide_smaller_size(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                                        tide_smaller_size(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = tide_smaller_size(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[na][nb];
}

const char *tide_text_nearest(const char *word, const char *const *names)
{
    const char *nearest = NULL;
    size_t best = strlen(word) / 3 + 1;
    for (; *names; names++) {
        size_t distance = edit_distance(word, *names);
        if (distance <= best && (!nearest || distance < best)) {
            best = distance;
            nearest = *names;
        }
    }
    return nearest;
}
