#include "base/config_field.h"

int tide_config_number(const json_t *root, const char *key, int64_t *to, struct tide_err *err)
{
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value))
        return tide_err_set(err, "'%s' of the model's configuration is no whole number", key);
    *to = json_integer_value(value);
    return 0;
}

int tide_config_share(const json_t *root, const char *key, double *to, struct tide_err *err)
{
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value))
        return 0;
    double share = json_is_number(value) ? json_number_value(value) : -1;
    if (!(share >= 0 && share < 1))
        return tide_err_set(err, "'%s' of the model's configuration is no number from 0 to below 1", key);
    *to = share;
    return 0;
}

int tide_config_flag(const json_t *root, const char *key, bool *to, struct tide_err *err)
{
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_boolean(value))
        return tide_err_set(err, "'%s' of the model's configuration is neither true nor false", key);
    *to = json_is_true(value);
    return 0;
}
