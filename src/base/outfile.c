#include "base/outfile.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_write(const char *path, int error, struct tide_err *err)
{
    return tide_err_set(err, "cannot write '%s': %s", TIDE_SHOWN(path, 256), strerror(error));
}

/* Mode of a new file, according to the user's umask. */
static mode_t usual_mode(void)
{
    mode_t mask = umask(022);
    umask(mask);
    return 0666 & ~mask;
}

static int open_temporary(struct tide_outfile *file, mode_t mode, struct tide_err *err)
{
    if (asprintf(&file->temporary, "%s.XXXXXX", file->path) < 0) {
        file->temporary = NULL;
        return cannot_write(file->path, ENOMEM, err);
    }
    int fd = mkostemp(file->temporary, O_CLOEXEC);
    if (fd < 0) {
        cannot_write(file->path, errno, err);
        free(file->temporary);
        file->temporary = NULL;
        return -1;
    }
    file->out = fdopen(fd, "w");
    if (file->out && !fchmod(fd, mode))
        return 0;
    cannot_write(file->path, errno, err);
    if (!file->out)
        close(fd);
    return -1;
}

/* Opens an existing file that is not regular. ENXIO for a pipe that nobody reads, instead of waiting. */
static FILE *open_device(const char *path)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    FILE *out = fdopen(fd, "w");
    if (!out)
        close(fd);
    return out;
}

int tide_outfile_open(struct tide_outfile *file, const char *path, struct tide_err *err)
{
    *file = (struct tide_outfile){0};
    if (!strcmp(path, "-")) {
        file->out = stdout;
        return 0;
    }
    struct stat there;
    bool exists = !stat(path, &there);
    file->path = exists ? realpath(path, NULL) : strdup(path); /* if it is a link, the file behind it */
    if (!file->path)
        return cannot_write(path, errno, err);
    int status = 0;
    if (exists && !S_ISREG(there.st_mode)) {
        file->out = open_device(file->path);
        status = file->out ? 0 : cannot_write(path, errno == ENXIO ? EPIPE : errno, err);
    } else
        status = open_temporary(file, exists ? there.st_mode & 07777 : usual_mode(), err);
    if (status)
        tide_outfile_abort(file);
    return status;
}

/* Finds out why a stream failed some time ago, by writing one more byte. */
static int reason(FILE *out)
{
    return write(fileno(out), "\n", 1) < 0 ? errno : EIO;
}

int tide_outfile_commit(struct tide_outfile *file, struct tide_err *err)
{
    if (!file->path)
        return 0;
    bool bad = ferror(file->out) || fflush(file->out);
    int error = bad ? reason(file->out) : 0;
    if (!bad) {
        bad = fclose(file->out) != 0;
        error = errno;
        file->out = NULL;
    }
    if (!bad && file->temporary) {
        bad = rename(file->temporary, file->path) != 0;
        error = errno;
    }
    if (bad) {
        cannot_write(file->path, error, err);
    } else { /* it has its final name */
        free(file->temporary);
        file->temporary = NULL;
    }
    tide_outfile_abort(file);
    return bad ? -1 : 0;
}

void tide_outfile_abort(struct tide_outfile *file)
{
    if (file->out && file->out != stdout)
        fclose(file->out);
    if (file->temporary)
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (struct tide_outfile){0};
}
