#include "train/settings.h"
#include "train/grpo.h"
#include "train/lm.h"
#include "train/selfplay.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const schedules[] = {"inverse", "constant", "cosine", "linear", NULL};
static const char *const computed[] = {"f32", "bf16", NULL};
static const char *const stored[] = {"f32", "bf16", "int8", NULL};
/* The names in rt/optimizer.c. */
static const char *const optimizers[] = {"adamw", "adamw8", "adafactor", "sgd", NULL};

#define OF(field) offsetof(struct tide_train_settings, field)

const struct tide_setting tide_train_settings[] = {
    {"steps", TIDE_SETTING_COUNT, OF(steps), 0, INT64_MAX - 1, NULL, false},
    {"seed", TIDE_SETTING_SEED, OF(seed), 0, 0, NULL, false},
    {"warmup", TIDE_SETTING_COUNT, OF(warmup), 0, INT64_MAX - 1, NULL, false},
    {"rate", TIDE_SETTING_REAL, OF(rate), 0, 0, NULL, false},
    {"weight_decay", TIDE_SETTING_REAL, OF(weight_decay), 0, 0, NULL, false},
    {"clip", TIDE_SETTING_REAL, OF(clip), 0, 0, NULL, false},
    {"schedule", TIDE_SETTING_CHOICE, OF(schedule), 0, 0, schedules, false},
    {"dtype", TIDE_SETTING_CHOICE, OF(dtype), 0, 0, computed, false},
    /* Older runs lack these: f32, AdamW. */
    {"weights", TIDE_SETTING_CHOICE, OF(stored), 0, 0, stored, true},
    {"optimizer", TIDE_SETTING_CHOICE, OF(optimizer), 0, 0, optimizers, true},
    {0},
};

const struct tide_setting *tide_task_settings(const char *task)
{
    static const struct {
        const char *name;
        const struct tide_setting *table;
    } tasks[] = {
        {"lm", tide_lm_settings}, {"grpo", tide_grpo_settings}, {"selfplay", tide_selfplay_settings}};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (!strcmp(tasks[i].name, task))
            return tasks[i].table;
    return NULL;
}

/* ---- writing */

void tide_settings_write(const struct tide_setting *table, const void *values, struct tide_json *json)
{
    for (const struct tide_setting *s = table; s->name; s++) {
        const void *value = (const char *)values + s->offset;
        char text[32]; /* of what as a JSON number would not come back with every bit */
        switch (s->kind) {
        case TIDE_SETTING_COUNT:
            tide_json_integer(json, s->name, *(const int64_t *)value);
            break;
        case TIDE_SETTING_SEED:
            snprintf(text, sizeof text, "%" PRIu64, *(const uint64_t *)value);
            tide_json_text(json, s->name, text);
            break;
        case TIDE_SETTING_REAL:
            snprintf(text, sizeof text, "%.17g", *(const double *)value);
            tide_json_text(json, s->name, text);
            break;
        case TIDE_SETTING_CHOICE:
            tide_json_text(json, s->name, *(const char *const *)value);
            break;
        case TIDE_SETTING_PATH:
            tide_json_text(json, s->name, value);
            break;
        }
    }
}

/* ---- reading */

int tide_setting_count(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret_count,
                       struct tide_err *err)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < least || number > most)
        return tide_err_set(err, "'%s' in state.json is not a number from %lld to %lld", key,
                            (long long)least, (long long)most);
    *ret_count = number;
    return 0;
}

static int read_seed(const struct tide_setting *s, const json_t *value, int64_t *ret, struct tide_err *err)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    errno = 0;
    unsigned long long seed = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno)
        return tide_err_set(err, "'%s' in state.json is not a number", s->name);
    *ret = (int64_t)seed;
    return 0;
}

static int read_real(const struct tide_setting *s, const json_t *value, double *ret, struct tide_err *err)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    double number = text && *text >= '0' && *text <= '9' ? strtod(text, &end) : -1;
    if (!end || *end || !isfinite(number))
        return tide_err_set(err, "'%s' in state.json is not a number", s->name);
    *ret = number;
    return 0;
}

static int read_path(const struct tide_setting *s, const char *text, char *ret, struct tide_err *err)
{
    if (!text || strlen(text) >= TIDE_SETTING_PATH_BYTES)
        return tide_err_set(err, "'%s' in state.json is not a path", s->name);
    strcpy(ret, text);
    return 0;
}

static int read_choice(const struct tide_setting *s, const char *text, const char **ret, struct tide_err *err)
{
    for (int i = 0; text && s->choices[i]; i++)
        if (!strcmp(text, s->choices[i])) {
            *ret = s->choices[i];
            return 0;
        }
    return tide_err_set(err, "'%s' in state.json is missing or unknown", s->name);
}

static int read_setting(const struct tide_setting *s, const json_t *root, void *ret, struct tide_err *err)
{
    const json_t *json = json_object_get(root, s->name);
    switch (s->kind) {
    case TIDE_SETTING_COUNT:
        return tide_setting_count(root, s->name, s->least, s->most ? s->most : INT64_MAX, ret, err);
    case TIDE_SETTING_SEED:
        return read_seed(s, json, ret, err);
    case TIDE_SETTING_REAL:
        return read_real(s, json, ret, err);
    case TIDE_SETTING_PATH:
        return read_path(s, json_string_value(json), ret, err);
    default:
        return read_choice(s, json_string_value(json), ret, err);
    }
}

union value {
    int64_t count;
    double real;
    const void *pointer;
    char text;
};

/* For each kind: its bytes, and how many of the first mark it as not given. */
static const struct {
    size_t bytes, telling;
    union value not_given;
} kinds[] = {
    [TIDE_SETTING_COUNT] = {sizeof(int64_t), sizeof(int64_t), {.count = TIDE_NOT_GIVEN}},
    [TIDE_SETTING_SEED] = {sizeof(int64_t), sizeof(int64_t), {.count = TIDE_NOT_GIVEN}},
    [TIDE_SETTING_REAL] = {sizeof(double), sizeof(double), {.real = TIDE_NOT_GIVEN}},
    [TIDE_SETTING_CHOICE] = {sizeof(char *), sizeof(char *), {.pointer = NULL}},
    [TIDE_SETTING_PATH] = {TIDE_SETTING_PATH_BYTES, 1, {.text = '\0'}},
};

static void clear(const struct tide_setting *s, void *value)
{
    memcpy(value, &kinds[s->kind].not_given, kinds[s->kind].telling);
}

int tide_settings_read(const struct tide_setting *table, const json_t *root, void *values,
                       struct tide_err *err)
{
    for (const struct tide_setting *s = table; s->name; s++) {
        union {
            union value one;
            char path[TIDE_SETTING_PATH_BYTES];
        } value;
        if (s->optional && !json_object_get(root, s->name))
            clear(s, &value);
        else if (read_setting(s, root, &value, err))
            return -1;
        if (values)
            memcpy((char *)values + s->offset, &value, kinds[s->kind].bytes);
    }
    return 0;
}

/* ---- settling */

enum tide_dtype tide_setting_dtype(const char *name)
{
    return !strcmp(name, "int8") ? TIDE_I8 : !strcmp(name, "bf16") ? TIDE_BF16 : TIDE_F32;
}

void tide_settings_clear(const struct tide_setting *table, void *values)
{
    for (const struct tide_setting *s = table; s->name; s++)
        clear(s, (char *)values + s->offset);
}

static bool is_given(const struct tide_setting *s, const void *value)
{
    return memcmp(value, &kinds[s->kind].not_given, kinds[s->kind].telling) != 0;
}

void tide_settings_take(const struct tide_setting *table, void *values, const void *from)
{
    for (const struct tide_setting *s = table; s->name; s++)
        if (!is_given(s, (char *)values + s->offset))
            memcpy((char *)values + s->offset, (const char *)from + s->offset, kinds[s->kind].bytes);
}
