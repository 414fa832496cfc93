#include "base/durable.h"
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

enum { STRETCH = 1 << 18 }; /* checksummed and written while it is in the cache */

uint32_t tide_durable_checksum(uint32_t so_far, const void *bytes, size_t count)
{
    return (uint32_t)crc32_z(so_far, bytes, count);
}

static void take(struct tide_durable *file, const char *bytes, size_t count)
{
    while (count && !file->error) {
        size_t stretch = count < STRETCH ? count : STRETCH;
        file->checksum = tide_durable_checksum(file->checksum, bytes, stretch);
        file->bytes += stretch;
        if (file->fd >= 0 && tide_write_all(file->fd, bytes, stretch) != 0)
            file->error = errno;
        bytes += stretch;
        count -= stretch;
    }
}

static ssize_t take_text(void *cookie, const char *bytes, size_t count)
{
    struct tide_durable *file = cookie;
    take(file, bytes, count);
    return file->error ? 0 : (ssize_t)count;
}

int tide_durable_open(struct tide_durable *file, int folder, const char *name)
{
    file->fd = -1;
    file->error = 0;
    file->bytes = 0;
    file->checksum = 0;
    if (name) {
        file->fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd < 0)
            return -1;
    }
    file->out = fopencookie(file, "w", (cookie_io_functions_t){.write = take_text});
    if (!file->out) {
        if (file->fd >= 0)
            close(file->fd);
        errno = ENOMEM;
        return -1;
    }
    setvbuf(file->out, file->buffer, _IOFBF, sizeof file->buffer);
    return 0;
}

/* Keeps the error of our own write, if there is one: the stream's errno says less. */
static void flushed(struct tide_durable *file, int status)
{
    if (status && !file->error)
        file->error = errno ? errno : EIO;
}

void tide_durable_put(struct tide_durable *file, const void *bytes, size_t count)
{
    flushed(file, fflush(file->out));
    take(file, bytes, count);
}

int tide_durable_close(struct tide_durable *file)
{
    flushed(file, fclose(file->out));
    if (file->fd >= 0) {
        if (!file->error && fsync(file->fd))
            file->error = errno;
        if (close(file->fd) && !file->error)
            file->error = errno;
    }
    errno = file->error;
    return file->error ? -1 : 0;
}
