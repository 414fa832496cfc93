#include "base/buf.h"
#include "base/grow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tide_buf_init(struct tide_buf *buf, size_t max_bytes)
{
    *buf = (struct tide_buf){.max_bytes = max_bytes};
}

void tide_buf_release(struct tide_buf *buf)
{
    free(buf->data);
    *buf = (struct tide_buf){.max_bytes = buf->max_bytes};
}

void tide_buf_clear(struct tide_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

static bool reserve(struct tide_buf *buf, size_t more)
{
    buf->failed |= more >= buf->max_bytes || buf->len > buf->max_bytes - more - 1 ||
                   TIDE_GROW(buf->data, buf->capacity, buf->len + more + 1, buf->max_bytes);
    return !buf->failed;
}

void tide_buf_append(struct tide_buf *buf, const void *data, size_t len)
{
    if (!reserve(buf, len))
        return;
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void tide_buf_text(struct tide_buf *buf, const char *text)
{
    tide_buf_append(buf, text, strlen(text));
}

void tide_buf_format(struct tide_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (need < 0 || !reserve(buf, (size_t)need)) {
        buf->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(buf->data + buf->len, (size_t)need + 1, format, args);
    va_end(args);
    buf->len += (size_t)need;
}

const char *tide_buf_view(const struct tide_buf *buf)
{
    return buf->data ? buf->data : "";
}
