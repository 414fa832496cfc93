#include "show/screen/log.h"
#include "base/escape.h"
#include "base/infile.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

/* Appends what a terminal would show of one line. */
static void take_line(struct tide_buf *text, const char *line, size_t len)
{
    char kept[LINE_BYTES], shown[LINE_BYTES];
    size_t count = 0;
    while (len > 0 && line[len - 1] == '\r')
        len--;
    enum tide_escape escape = TIDE_ESCAPE_NONE;
    for (size_t i = 0; i < len; i++) {
        enum tide_escape before = escape;
        escape = tide_escape_next(before, (unsigned char)line[i]);
        if (before != TIDE_ESCAPE_NONE || escape != TIDE_ESCAPE_NONE)
            continue;
        if (line[i] == '\r')
            count = 0;
        else if (count < sizeof kept)
            kept[count++] = line[i] == '\t' ? ' ' : line[i];
    }
    /* cppcheck-suppress uninitvar ; as many are set as are read */
    tide_buf_text(text, tide_text_escape(kept, count, shown, sizeof shown));
    tide_buf_text(text, "\n");
}

void tide_log_take(struct tide_buf *text, const char *bytes, size_t len)
{
    tide_buf_clear(text);
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t line = end ? (size_t)(end - bytes) : len;
        take_line(text, bytes, line);
        line += end != NULL;
        bytes += line;
        len -= line;
    }
}

void tide_log_read(struct tide_buf *text, const char *path)
{
    tide_buf_clear(text);
    struct stat about;
    int fd = path ? tide_infile_open(path, &about) : -1;
    char *bytes = malloc(TIDE_LOG_BYTES);
    if (fd >= 0 && bytes) {
        off_t from = about.st_size > TIDE_LOG_BYTES ? about.st_size - TIDE_LOG_BYTES : 0;
        ssize_t n = pread(fd, bytes, TIDE_LOG_BYTES, from);
        /* Skips the first line if it was cut. */
        const char *newline = from > 0 && n > 0 ? memchr(bytes, '\n', (size_t)n) : NULL;
        const char *first = newline ? newline + 1 : bytes;
        if (n > 0)
            tide_log_take(text, first, (size_t)(n - (first - bytes)));
    }
    free(bytes);
    if (fd >= 0)
        close(fd);
}
