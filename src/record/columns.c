#include "record/columns.h"
#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { WORDS = 16, WORD = 32 };

/* "cudaMemory(MB)" -> "cuda" "memory" "mb"; "global_step" -> "global" "step". */
static size_t words_of(const char *name, char words[WORDS][WORD])
{
    size_t count = 0, len = 0;
    for (const char *p = name; *p && count < WORDS; p++) {
        bool letter = isalnum((unsigned char)*p);
        bool unit = *p == 'B' && p > name && (p[-1] == 'i' || len == 1); /* KiB and kB are one word */
        bool hump = p > name && isupper((unsigned char)*p) && islower((unsigned char)p[-1]) && !unit;
        if ((!letter || hump) && len) {
            words[count++][len] = '\0';
            len = 0;
        }
        if (letter && count < WORDS && len + 1 < WORD)
            words[count][len++] = (char)tolower((unsigned char)*p);
    }
    if (len && count < WORDS)
        words[count++][len] = '\0';
    return count;
}

static bool any_of(char words[WORDS][WORD], size_t count, const char *const *list)
{
    for (; *list; list++)
        for (size_t i = 0; i < count; i++)
            if (!strcmp(words[i], *list))
                return true;
    return false;
}

enum tide_column_role tide_column_role(const char *name)
{
    static const char *const memory[] = {"rss",   "mem",   "memory",   "uss",  "pss",       "vms",
                                         "vmrss", "anon",  "heap",     "ram",  "allocated", "reserved",
                                         "swap",  "bytes", "resident", "vram", "footprint", NULL};
    static const char *const steps[] = {"step",       "steps", "iter", "iters",  "iteration",
                                        "iterations", "batch", "it",   "update", NULL};
    static const char *const times[] = {"t",    "time",     "seconds", "sec",   "elapsed", "timestamp", "ts",
                                        "date", "datetime", "wall",    "clock", "minutes", "ms",        NULL};
    static const char *const rates[] = {"per", "rate", "limit", "total", NULL};
    static const char *const pids[] = {"pid", NULL};
    char words[WORDS][WORD];
    size_t count = words_of(name, words);
    if (any_of(words, count, rates))
        return TIDE_COLUMN_OTHER;
    if (any_of(words, count, memory))
        return TIDE_COLUMN_MEMORY;
    if (any_of(words, count, steps))
        return TIDE_COLUMN_STEP;
    if (any_of(words, count, pids))
        return TIDE_COLUMN_PID;
    if (any_of(words, count, times))
        return TIDE_COLUMN_TIME;
    return isnan(tide_column_bytes_scale(name)) ? TIDE_COLUMN_OTHER : TIDE_COLUMN_MEMORY;
}

/* Bytes per unit as logs write it; NAN if text is not a unit. A single letter is a power of 1024, as in top,
 * ps, du and Slurm. */
static double unit_scale(const char *text)
{
    if (!strcasecmp(text, "byte") || !strcasecmp(text, "bytes"))
        return 1;
    if (text[0] && !text[1] && strcasecmp(text, "b") != 0)
        return tide_size_unit((const char[]){text[0], 'i', '\0'});
    return tide_size_unit(text);
}

double tide_column_bytes_scale(const char *name)
{
    char words[WORDS][WORD];
    size_t count = words_of(name, words);
    for (size_t i = count; i-- > 0;) {
        if (strlen(words[i]) < 2 && count > 1 && i + 1 < count)
            continue; /* a single letter is only a unit at the end */
        double scale = unit_scale(words[i]);
        if (!isnan(scale))
            return scale;
    }
    return NAN;
}

double tide_column_seconds_scale(const char *name, double first)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9},   {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},        {"sec", 1},  {"secs", 1},
                 {"seconds", 1}, {"min", 60},  {"mins", 60}, {"minutes", 60}, {"h", 3600}, {"hours", 3600}};
    char words[WORDS][WORD];
    size_t count = words_of(name, words);
    for (size_t i = count; i-- > 0;)
        for (size_t u = 0; u < sizeof units / sizeof *units; u++)
            if (!strcmp(words[i], units[u].name))
                return units[u].seconds;
    return first > 1e17 ? 1e-9 : first > 1e14 ? 1e-6 : first > 1e11 ? 1e-3 : 1;
}

/* "07:12:00", "07:12:00.250", "07:12:00,250", with a zone or without. */
static bool parse_clock(const char *text, double *ret_seconds)
{
    int hour, minute, used = 0;
    double second = 0;
    if (sscanf(text, "%3d:%2d:%n", &hour, &minute, &used) < 2 || !used || hour < 0 || minute < 0)
        return false;
    char digits[16];
    size_t n = strspn(text + used, "0123456789.,");
    if (n == 0 || n >= sizeof digits)
        return false;
    memcpy(digits, text + used, n);
    digits[n] = '\0';
    char *comma = strchr(digits, ',');
    if (comma)
        *comma = '.';
    const char *zone = text + used + n;
    if (tide_real_parse(digits, &second) || (*zone && *zone != 'Z' && *zone != '+' && *zone != '-'))
        return false;
    *ret_seconds = hour * 3600.0 + minute * 60.0 + second;
    return true;
}

/* Ignores the time zone: a log has one, and only differences matter. A time of day starts over at midnight;
 * series.c bridges that like any other clock that jumps. */
static bool parse_time(const char *text, double *ret_seconds)
{
    int year, month, day, used = 0;
    double clock;
    if (sscanf(text, "%4d%*1[-/]%2d%*1[-/]%2d%*1[T ]%n", &year, &month, &day, &used) < 3 || !used)
        return parse_clock(text, ret_seconds);
    if (year < 1970 || year > 9999 || !parse_clock(text + used, &clock))
        return false;
    struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    *ret_seconds = (double)timegm(&tm) + clock;
    return true;
}

/* "512 MiB", "1.5GB". */
static bool parse_size(const char *text, size_t len, double *ret_bytes)
{
    char number[64];
    size_t digits = len;
    while (digits && isalpha((unsigned char)text[digits - 1]))
        digits--;
    double scale = unit_scale(text + digits), value;
    while (digits && text[digits - 1] == ' ')
        digits--;
    if (isnan(scale) || digits >= sizeof number)
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    if (tide_real_parse(number, &value))
        return false;
    *ret_bytes = value * scale;
    return true;
}

enum tide_cell tide_column_cell(const char *text, size_t len, double *ret_value)
{
    char cell[64];
    while (len && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    if (len >= sizeof cell)
        return TIDE_CELL_TEXT;
    memcpy(cell, text, len);
    cell[len] = '\0';
    if (!tide_real_parse(cell, ret_value))
        return TIDE_CELL_NUMBER;
    static const char *const missing[] = {"", "na", "n/a", "nan", "null", "none", "-", NULL};
    for (const char *const *m = missing; *m; m++)
        if (!strcasecmp(cell, *m)) {
            *ret_value = NAN;
            return TIDE_CELL_MISSING;
        }
    if (parse_time(cell, ret_value))
        return TIDE_CELL_TIME;
    return parse_size(cell, len, ret_value) ? TIDE_CELL_SIZE : TIDE_CELL_TEXT;
}
