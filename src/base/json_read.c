#include "base/json_read.h"
#include "base/infile.h"
#include "base/text.h"

json_t *tide_json_parse(const char *text, size_t len, const char *what, struct tide_err *err)
{
    json_error_t why;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (root && json_is_object(root))
        return root;
    if (root)
        tide_err_set(err, "%s is not a JSON object", what);
    else if (json_error_code(&why) == json_error_numeric_overflow)
        tide_err_set(err, "a number in %s is too large (line %d)", what, why.line);
    else
        tide_err_set(err, "%s is not valid JSON (line %d)", what, why.line);
    json_decref(root);
    return NULL;
}

json_t *tide_json_read(const char *path, size_t most, const char *what, struct tide_err *err)
{
    json_t *root = NULL;
    struct tide_buf text;
    tide_buf_init(&text, most);
    if (!tide_infile_read(path, &text, err)) {
        if (text.failed)
            tide_err_set(err, "%s is too large", what);
        else
            root = tide_json_parse(tide_buf_view(&text), text.len, what, err);
        if (!root)
            tide_err_wrap(err, "%s", TIDE_SHOWN(path, 256));
    }
    tide_buf_release(&text);
    return root;
}

/* True if the field is there and not null. */
static bool has(const json_t *root, const char *key, const json_t **ret_value)
{
    *ret_value = json_object_get(root, key);
    return *ret_value && !json_is_null(*ret_value);
}

int tide_json_take_number(const json_t *root, const char *key, int64_t *to, struct tide_err *err)
{
    const json_t *value;
    if (!has(root, key, &value))
        return 0;
    if (!json_is_integer(value))
        return tide_err_set(err, "'%s' must be an integer", key);
    *to = json_integer_value(value);
    return 0;
}

int tide_json_take_share(const json_t *root, const char *key, double *to, struct tide_err *err)
{
    const json_t *value;
    if (!has(root, key, &value))
        return 0;
    double share = json_is_number(value) ? json_number_value(value) : -1;
    if (!(share >= 0 && share < 1))
        return tide_err_set(err, "'%s' must be a number from 0 to below 1", key);
    *to = share;
    return 0;
}

int tide_json_take_flag(const json_t *root, const char *key, bool *to, struct tide_err *err)
{
    const json_t *value;
    if (!has(root, key, &value))
        return 0;
    if (!json_is_boolean(value))
        return tide_err_set(err, "'%s' must be true or false", key);
    *to = json_is_true(value);
    return 0;
}
