/*
 * buf.h - a growing byte buffer with a maximum.
 *
 * Appending past max_bytes, or running out of memory, sets `failed` and leaves the contents as they were;
 * later appends do nothing. Check `failed` once, at the end. After a successful append data is not NULL and
 * is NUL-terminated (len does not count the NUL). tide_buf_view() also works on an empty buffer.
 */
#ifndef TIDE_BUF_H
#define TIDE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct tide_buf {
    char *data;
    size_t len;
    size_t capacity;
    size_t max_bytes;
    bool failed;
};

/* A short one, in memory of the enclosing block. It is not released. */
#define TIDE_BUF_HERE(size)                                                                                  \
    ((struct tide_buf){.data = (char[size]){0}, .capacity = (size), .max_bytes = (size)})

void tide_buf_init(struct tide_buf *buf, size_t max_bytes);
void tide_buf_release(struct tide_buf *buf);

/* Empties it, keeping the memory, and clears `failed`. */
void tide_buf_clear(struct tide_buf *buf);

void tide_buf_append(struct tide_buf *buf, const void *data, size_t len);
void tide_buf_text(struct tide_buf *buf, const char *text);
void tide_buf_format(struct tide_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The contents as a C string, "" when empty. Borrowed: valid until the next change. */
const char *tide_buf_view(const struct tide_buf *buf);

#endif
