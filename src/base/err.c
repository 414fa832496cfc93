#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int tide_err_set(struct tide_err *err, const char *format, ...)
{
    if (!err)
        return -1;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    err->hint[0] = '\0';
    return -1;
}

int tide_err_hint(struct tide_err *err, const char *format, ...)
{
    if (!err)
        return -1;
    va_list args;
    va_start(args, format);
    vsnprintf(err->hint, sizeof err->hint, format, args);
    va_end(args);
    return -1;
}

int tide_err_wrap(struct tide_err *err, const char *format, ...)
{
    if (!err)
        return -1;
    char context[256];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    int written = snprintf(err->text, sizeof err->text, "%s: ", context);
    size_t used = written < (int)sizeof err->text ? (size_t)written : sizeof err->text - 1;
    snprintf(err->text + used, sizeof err->text - used, "%.*s", (int)(sizeof old - 1), old);
    return -1;
}
