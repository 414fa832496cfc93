/*
 * settings.h - what decides a run besides its weights and data, one table row per setting.
 *
 * There is one table for settings of every run, and one for each task. Three sources meet here: options that
 * were given, state.json of a checkpoint, and defaults. What was not given (TIDE_NOT_GIVEN, NULL) is taken
 * from the resumed run; what that does not have gets a default from the task or the loop.
 */
#ifndef TIDE_SETTINGS_H
#define TIDE_SETTINGS_H

#include "base/err.h"
#include "base/json.h"
#include "rt/dtype.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { TIDE_NOT_GIVEN = -1, TIDE_SETTING_PATH_BYTES = 4096 };

enum tide_setting_kind {
    TIDE_SETTING_COUNT,  /* int64_t, at least 0 */
    TIDE_SETTING_SEED,   /* int64_t */
    TIDE_SETTING_REAL,   /* double, at least 0 */
    TIDE_SETTING_CHOICE, /* const char *, a literal of `choices` */
    TIDE_SETTING_PATH,   /* char[TIDE_SETTING_PATH_BYTES] */
};

struct tide_setting {
    const char *name; /* in state.json; NULL ends a table */
    enum tide_setting_kind kind;
    size_t offset;
    int64_t least, most;        /* for counts; most 0: no upper limit */
    const char *const *choices; /* NULL-terminated */
    bool optional;              /* older runs do not have it */
};

/* Of every run. */
struct tide_train_settings {
    int64_t steps, seed, warmup;
    double rate, weight_decay, clip; /* clip 0: none */
    const char *schedule;            /* "inverse", "constant", "cosine", "linear" */
    const char *dtype, *stored;      /* of computation, and of matrices in memory: "f32", "bf16", "int8" */
    const char *optimizer;           /* by its name in rt/optimizer.h */
};

extern const struct tide_setting tide_train_settings[];

/* Returns the table of a task; NULL: there is no such task. */
const struct tide_setting *tide_task_settings(const char *task);

/* Sets everything to not given. */
void tide_settings_clear(const struct tide_setting *table, void *values);

void tide_settings_write(const struct tide_setting *table, const void *values, struct tide_json *json);

/* Reads from state.json; what an older run does not have is not given. values NULL: only checks. -1 with a
 * sentence. */
int tide_settings_read(const struct tide_setting *table, const json_t *root, void *values,
                       struct tide_err *err);

/* Reads a number of state.json, from `least` to `most`. -1 with a sentence that names the key. */
int tide_setting_count(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret_count,
                       struct tide_err *err);

/* Takes what was not given from another run. */
void tide_settings_take(const struct tide_setting *table, void *values, const void *from);

/* Returns the number type of that name. */
enum tide_dtype tide_setting_dtype(const char *name);

static inline void tide_setting_usual(int64_t *value, int64_t usual)
{
    if (*value == TIDE_NOT_GIVEN)
        *value = usual;
}

static inline void tide_setting_usual_real(double *value, double usual)
{
    if (*value < 0)
        *value = usual;
}

#endif
