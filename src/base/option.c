#include "base/option.h"
#include "base/text.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

enum { MAX_OPTIONS = 64, SMALL_BYTES = 1000000 };

static const struct tide_option *by_name(const struct tide_option *table, const char *name, size_t len)
{
    for (; table->name; table++)
        if (strlen(table->name) == len && !memcmp(table->name, name, len))
            return table;
    return NULL;
}

static const struct tide_option *by_letter(const struct tide_option *table, char letter)
{
    for (; table->name; table++)
        if (table->letter == letter)
            return table;
    return NULL;
}

static int unknown(const struct tide_option *table, const char *word, size_t len, struct tide_err *err)
{
    char name[64];
    const char *shown = TIDE_ESCAPED(word, len, 96);
    tide_err_set(err, "unknown option '%s'", shown);
    const char *names[MAX_OPTIONS + 1];
    size_t n = 0;
    for (const struct tide_option *o = table; o->name && n < MAX_OPTIONS; o++)
        names[n++] = o->name;
    names[n] = NULL;
    size_t dashes = strspn(word, "-");
    if (dashes == 2 && len - dashes < sizeof name) {
        memcpy(name, word + dashes, len - dashes);
        name[len - dashes] = '\0';
        const char *nearest = tide_text_nearest(name, names);
        if (nearest)
            return tide_err_hint(err, "did you mean '--%s'?", nearest);
    }
    return tide_err_hint(err, "-h lists the options");
}

static bool is_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);
    for (const char *p = choices; *p;) {
        size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, value, len))
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

/* Suggests the choice that was probably meant, else lists all of them. */
static int hint_choice(const char *choices, const char *value, struct tide_err *err)
{
    enum { MOST = 32 };
    char copy[512];
    const char *names[MOST + 1];
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", choices);
    for (char *rest = NULL, *word = strtok_r(copy, "|", &rest); word && count < MOST;
         word = strtok_r(NULL, "|", &rest))
        names[count++] = word;
    names[count] = NULL;
    const char *nearest = strchr(value, '|') ? NULL : tide_text_nearest(value, names);
    return nearest ? tide_err_hint(err, "did you mean '%s'?", nearest)
                   : tide_err_hint(err, "choose one of %s", choices);
}

static int bad_value(const struct tide_option *o, const char *value, struct tide_err *err)
{
    static const char *const wanted[] = {
        [TIDE_OPTION_SIZE] = "a size",          [TIDE_OPTION_BYTES] = "a size",
        [TIDE_OPTION_DURATION] = "a duration",  [TIDE_OPTION_COUNT] = "a whole number of up to 18 digits",
        [TIDE_OPTION_REAL] = "a finite number", [TIDE_OPTION_CHOICE] = "one of its values"};
    tide_err_set(err, "option '--%s': '%s' is not %s", o->name, TIDE_SHOWN(value, 96), wanted[o->kind]);
    switch (o->kind) {
    case TIDE_OPTION_SIZE:
    case TIDE_OPTION_BYTES:
        return tide_err_hint(err, "sizes look like 64K, 512M, 1.5G");
    case TIDE_OPTION_DURATION:
        return tide_err_hint(err, "durations look like 500ms, 5s, 2m");
    case TIDE_OPTION_CHOICE:
        return hint_choice(o->choices, value, err);
    default:
        return -1;
    }
}

/* Nobody means so few bytes of memory. A user who does writes 512B. */
static bool is_bare_and_small(const char *text, int64_t bytes)
{
    return bytes > 0 && bytes < SMALL_BYTES && strspn(text, "0123456789.") == strlen(text);
}

/* Numbers below 512 are probably gigabytes of a machine or a device, larger ones megabytes. */
static int ask_for_unit(const struct tide_option *o, const char *text, struct tide_err *err)
{
    double number = 0;
    tide_real_parse(text, &number);
    tide_err_set(err, "option '--%s': %.32s means %.32s bytes", o->name, text, text);
    return tide_err_hint(err, "did you mean '%.32s%c'?", text, number < 512 ? 'G' : 'M');
}

static int out_of_range(const struct tide_option *o, const char *text, struct tide_err *err)
{
    int64_t least = o->least, most = o->most ? o->most : INT64_MAX;
    char low[TIDE_UNITS_TEXT], high[TIDE_UNITS_TEXT];
    const char *shown = TIDE_SHOWN(text, 96);
    tide_err_set(err, "option '--%s': '%s' is out of range", o->name, shown);
    if (o->kind == TIDE_OPTION_DURATION) {
        tide_duration_text((double)least / 1e9, low);
        tide_duration_text((double)most / 1e9, high);
    } else if (o->kind == TIDE_OPTION_SIZE || o->kind == TIDE_OPTION_BYTES) {
        tide_typed_size_text((double)least, low);
        tide_typed_size_text((double)most, high);
    } else {
        tide_count_text((double)least, low);
        tide_count_text((double)most, high);
    }
    return o->most ? tide_err_hint(err, "from %s to %s", low, high) : tide_err_hint(err, "at least %s", low);
}

static int store(const struct tide_option *o, const char *value, void *values, struct tide_err *err)
{
    char *field = (char *)values + o->offset;
    int64_t number;
    double real;
    int bad;
    switch (o->kind) {
    case TIDE_OPTION_FLAG:
        *(bool *)(void *)field = true;
        return 0;
    case TIDE_OPTION_TEXT:
        *(const char **)(void *)field = value;
        return 0;
    case TIDE_OPTION_CHOICE:
        if (!is_choice(o->choices, value))
            return bad_value(o, value, err);
        *(const char **)(void *)field = value;
        return 0;
    case TIDE_OPTION_REAL:
        if (tide_real_parse(value, &real))
            return bad_value(o, value, err);
        if (real < (double)o->least || (o->most && real > (double)o->most))
            return out_of_range(o, value, err);
        *(double *)(void *)field = real;
        return 0;
    case TIDE_OPTION_SIZE:
    case TIDE_OPTION_BYTES:
        bad = tide_size_parse(value, &number);
        break;
    case TIDE_OPTION_DURATION:
        bad = tide_duration_parse(value, &number);
        break;
    default:
        bad = tide_count_parse(value, &number);
        break;
    }
    if (bad)
        return bad_value(o, value, err);
    if (o->kind == TIDE_OPTION_SIZE && is_bare_and_small(value, number))
        return ask_for_unit(o, value, err);
    if (number < o->least || (o->most && number > o->most))
        return out_of_range(o, value, err);
    *(int64_t *)(void *)field = number;
    return 0;
}

/* True if the next word can be the value of an option. "--" cannot, because it ends the options: a file of
 * that name is "./--" or "--output=--". */
static bool has_value(int argc, char **argv, int at)
{
    return at + 1 < argc && strcmp(argv[at + 1], "--") != 0;
}

/* Parses a word that starts with "--". */
static int parse_long(const struct tide_option *table, int argc, char **argv, int *at, void *values,
                      struct tide_err *err)
{
    const char *word = argv[*at], *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct tide_option *o = by_name(table, name, len);
    if (!o)
        return unknown(table, word, len + 2, err);
    if (o->kind == TIDE_OPTION_FLAG) {
        if (equals)
            return tide_err_set(err, "option '--%s' takes no value", o->name);
        return store(o, NULL, values, err);
    }
    if (equals)
        return store(o, equals + 1, values, err);
    if (!has_value(argc, argv, *at))
        return tide_err_set(err, "option '--%s' needs a %s", o->name, o->arg);
    return store(o, argv[++*at], values, err);
}

/* Parses a word that starts with a single "-": a bundle of flags, the last of which may take a value. */
static int parse_short(const struct tide_option *table, int argc, char **argv, int *at, void *values,
                       struct tide_err *err)
{
    for (const char *p = argv[*at] + 1; *p; p++) {
        const struct tide_option *o = by_letter(table, *p);
        if (!o)
            return unknown(table, (const char[]){'-', *p, '\0'}, 2, err);
        if (o->kind == TIDE_OPTION_FLAG) {
            store(o, NULL, values, err);
            continue;
        }
        if (p[1])
            return store(o, p + 1, values, err);
        if (!has_value(argc, argv, *at))
            return tide_err_set(err, "option '-%c' needs a %s", o->letter, o->arg);
        return store(o, argv[++*at], values, err);
    }
    return 0;
}

int tide_options_parse(const struct tide_option *table, int flags, int argc, char **argv, void *values,
                       char ***ret_operands, int *ret_count, int *ret_dashes, struct tide_err *err)
{
    int count = 0, dashes = -1, at = 1;
    for (; at < argc; at++) {
        char *word = argv[at];
        if (!strcmp(word, "--")) {
            dashes = count;
            at++;
            break;
        }
        if (word[0] == '-' && word[1]) {
            int bad = word[1] == '-' ? parse_long(table, argc, argv, &at, values, err)
                                     : parse_short(table, argc, argv, &at, values, err);
            if (bad)
                return -1;
            continue;
        }
        if (flags & TIDE_OPTIONS_STOP_AT_OPERAND)
            break;
        argv[1 + count++] = word;
    }
    for (; at < argc; at++)
        argv[1 + count++] = argv[at];
    *ret_operands = argv + 1;
    *ret_count = count;
    if (ret_dashes)
        *ret_dashes = dashes;
    return 0;
}
