#include "base/infile.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { WRITER_MS = 1000 };

static ssize_t read_piece(int fd, struct tide_buf *text)
{
    char piece[65536];
    ssize_t got;

    do
        got = read(fd, piece, sizeof piece);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        tide_buf_append(text, piece, (size_t)got);
    return got;
}

/* Reads the first piece of a pipe that was opened without blocking, and makes later reads block. 0: the pipe
 * is empty and nobody writes to it. */
static ssize_t begin_pipe(int fd, struct tide_buf *text)
{
    struct pollfd pipe = {.fd = fd, .events = POLLIN};

    poll(&pipe, 1, WRITER_MS);
    ssize_t got = read_piece(fd, text);
    if (got < 0 && errno == EAGAIN)
        got = 1; /* there is a writer */
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return got;
}

static int read_all(int fd, bool pipe, const char *shown, struct tide_buf *text, struct tide_err *err)
{
    ssize_t got = pipe ? begin_pipe(fd, text) : 1;

    if (pipe && got == 0) {
        tide_err_set(err, "cannot read '%s': nobody writes to this pipe", shown);
        return tide_err_hint(err, "start the program that fills it first");
    }
    while (got > 0 && !text->failed)
        got = read_piece(fd, text);
    return got < 0 ? tide_err_set(err, "cannot read '%s': %s", shown, strerror(errno)) : 0;
}

int tide_infile_read(const char *path, struct tide_buf *text, struct tide_err *err)
{
    struct stat about;

    const char *shown = TIDE_SHOWN(path, 256);
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, false, shown, text, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return tide_err_set(err, "cannot open '%s': %s", shown, strerror(errno));
    bool known = fstat(fd, &about) == 0;
    int status = known && (S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode))
                     ? tide_err_set(err, "cannot read '%s': it is a device", shown)
                     : read_all(fd, known && S_ISFIFO(about.st_mode), shown, text, err);
    close(fd);
    return status;
}

int tide_infile_open(const char *path, struct stat *ret_about)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, ret_about) == 0 && S_ISREG(ret_about->st_mode))
        return fd;
    close(fd);
    errno = ENXIO;
    return -1;
}
