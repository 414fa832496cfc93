#include "base/units.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct unit {
    const char *name;
    double factor;
};

static const struct unit size_units[] = {
    {"", 1},        {"B", 1},        {"K", 1e3},     {"KB", 1e3},     {"Ki", 0x1p10}, {"KiB", 0x1p10},
    {"M", 1e6},     {"MB", 1e6},     {"Mi", 0x1p20}, {"MiB", 0x1p20}, {"G", 1e9},     {"GB", 1e9},
    {"Gi", 0x1p30}, {"GiB", 0x1p30}, {"T", 1e12},    {"TB", 1e12},    {"Ti", 0x1p40}, {"TiB", 0x1p40},
};

static const struct unit duration_units[] = {
    {"", 1e9},   {"ns", 1},     {"us", 1e3},   {"ms", 1e6},    {"s", 1e9},
    {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9},
};

/* strtod that only accepts '.', no hex, no inf, no nan. */
static int number_prefix(const char *text, double *ret_value, const char **ret_end)
{
    static locale_t c_locale;
    const char *p = text + (*text == '-' || *text == '+');
    char *end;
    if (!(*p >= '0' && *p <= '9') && !(*p == '.' && p[1] >= '0' && p[1] <= '9'))
        return -1;
    if (!c_locale)
        c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(text, &end, c_locale);
    if (!isfinite(value) || (p[0] == '0' && (p[1] | 32) == 'x'))
        return -1;
    *ret_value = value;
    *ret_end = end;
    return 0;
}

static int parse_with(const struct unit *units, size_t count, const char *text, int64_t *ret)
{
    double value;
    const char *end;
    if (text[0] == '-' || number_prefix(text, &value, &end))
        return -1;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(end, units[i].name))
            continue;
        value *= units[i].factor;
        if (value > (double)TIDE_LARGEST)
            return -1;
        *ret = (int64_t)llround(value);
        return 0;
    }
    return -1;
}

int tide_size_parse(const char *text, int64_t *ret_bytes)
{
    return parse_with(size_units, sizeof size_units / sizeof *size_units, text, ret_bytes);
}

double tide_size_unit(const char *name)
{
    for (size_t i = 1; i < sizeof size_units / sizeof *size_units; i++)
        if (!strcasecmp(name, size_units[i].name))
            return size_units[i].factor;
    return NAN;
}

int tide_duration_parse(const char *text, int64_t *ret_ns)
{
    return parse_with(duration_units, sizeof duration_units / sizeof *duration_units, text, ret_ns);
}

int tide_count_parse(const char *text, int64_t *ret_count)
{
    const char *p = text;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    if (!*p || *p == '_')
        return -1;
    int64_t value = 0;
    for (; *p; p++) {
        if (*p == '_')
            continue;
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *p - '0', &value))
            return -1;
    }
    *ret_count = negative ? -value : value;
    return 0;
}

int tide_real_parse(const char *text, double *ret_value)
{
    double value;
    const char *end;
    if (number_prefix(text, &value, &end) || *end)
        return -1;
    *ret_value = value;
    return 0;
}

char *tide_size_text(double bytes, char out[static TIDE_UNITS_TEXT])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    double value = bytes;
    while (fabs(value) >= 1023.5 && unit < 6) {
        value /= 1024;
        unit++;
    }
    bool whole = unit == 0 ? value == floor(value) : fabs(value) >= 99.95;
    snprintf(out, TIDE_UNITS_TEXT, "%.*f %s", whole ? 0 : 1, value, names[unit]);
    return out;
}

char *tide_memory_text(double bytes, char out[static TIDE_UNITS_TEXT])
{
    char count[TIDE_UNITS_TEXT];
    double value = fabs(bytes);
    if (value < 999.5)
        snprintf(out, TIDE_UNITS_TEXT, "%.0f B", bytes);
    else if (value < 999.5e3)
        snprintf(out, TIDE_UNITS_TEXT, value < 99.95e3 ? "%.1f KB" : "%.0f KB", bytes / 1e3);
    else if (value < 99.95e6)
        snprintf(out, TIDE_UNITS_TEXT, "%.1f MB", bytes / 1e6);
    else if (value < 9999.5e6)
        snprintf(out, TIDE_UNITS_TEXT, "%s MB", tide_count_text(bytes / 1e6, count));
    else
        snprintf(out, TIDE_UNITS_TEXT, value < 99.995e9 ? "%.2f GB" : "%.1f GB", bytes / 1e9);
    return out;
}

char *tide_typed_size_text(double bytes, char out[static TIDE_UNITS_TEXT])
{
    static const char *const names[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    if (!(fabs(bytes) < 1e21))
        return tide_size_text(bytes, out);
    int unit = 0;
    double value = bytes;
    while (fabs(value) >= 999.995 && unit < 6) {
        value /= 1000;
        unit++;
    }
    int len = snprintf(out, TIDE_UNITS_TEXT, "%.2f", value);
    while (out[len - 1] == '0')
        len--;
    len -= out[len - 1] == '.';
    char two[TIDE_UNITS_TEXT] = "";
    if (unit)
        tide_size_text(bytes, two);
    snprintf(out + len, TIDE_UNITS_TEXT - (size_t)len, " %s%s%s", names[unit], unit ? " = " : "", two);
    return out;
}

char *tide_duration_text(double seconds, char out[static TIDE_UNITS_TEXT])
{
    if (seconds < 0.9995e-3)
        snprintf(out, TIDE_UNITS_TEXT, "%.0f us", seconds * 1e6);
    else if (seconds < 0.9995)
        snprintf(out, TIDE_UNITS_TEXT, "%.0f ms", seconds * 1e3);
    else if (seconds < 99.5)
        snprintf(out, TIDE_UNITS_TEXT, seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
    else if (seconds < 3600 - 30)
        snprintf(out, TIDE_UNITS_TEXT, "%.0f m", seconds / 60);
    else if (seconds < 48 * 3600.) {
        int minutes = (int)(seconds / 60 + 0.5);
        snprintf(out, TIDE_UNITS_TEXT, "%d h %d m", minutes / 60, minutes % 60);
    } else if (seconds < 1e9)
        snprintf(out, TIDE_UNITS_TEXT, "%.0f days", seconds / 86400);
    else
        snprintf(out, TIDE_UNITS_TEXT, "over 30 years");
    return out;
}

char *tide_count_text(double count, char out[static TIDE_UNITS_TEXT])
{
    if (!(fabs(count) < 1e15)) {
        snprintf(out, TIDE_UNITS_TEXT, "%g", count);
        return out;
    }
    char digits[TIDE_UNITS_TEXT];
    int len = snprintf(digits, sizeof digits, "%" PRId64, (int64_t)llround(fabs(count)));
    char *to = out;
    if (count <= -0.5)
        *to++ = '-';
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}
