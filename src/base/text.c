#include "base/text.h"
#include "base/whole.h"

#include <stdarg.h>
#include <stdio.h>
#include <utf8proc.h>

size_t tide_text_rune(const char *text, size_t len, unsigned *ret_rune)
{
    utf8proc_int32_t rune;
    utf8proc_ssize_t taken = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &rune);
    if (taken > 0 && ret_rune)
        *ret_rune = (unsigned)rune;
    return taken > 0 ? (size_t)taken : 0;
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
        columns += (size_t)utf8proc_charwidth((utf8proc_int32_t)rune);
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
        used += (size_t)utf8proc_charwidth((utf8proc_int32_t)rune);
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
