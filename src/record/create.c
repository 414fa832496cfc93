#include "record/create.h"

#include "base/descriptors.h"
#include "base/text.h"
#include "record/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const char *path, int error, struct tide_err *err)
{
    const char *shown = TIDE_SHOWN(path, 200);
    if (error == EEXIST) {
        tide_err_set(err, "cannot record to '%s': it exists, and a recording is never overwritten", shown);
        return tide_err_hint(err, "choose another name with -o, or remove it");
    }
    tide_err_set(err, "cannot record to '%s': %s", shown, strerror(error));
    return tide_err_hint(err, "choose another place with -o FILE");
}

/* A recording without rows, as the bytes of its file. Caller frees with sqlite3_free; NULL without memory. */
static unsigned char *empty_recording(size_t *ret_len)
{
    enum { WRITE_VERSION = 18, READ_VERSION = 19, LOGGED = 2 }; /* of the file's header: it has a log (WAL) */
    sqlite3 *db = NULL;
    sqlite3_int64 len = 0;
    unsigned char *bytes = NULL;
    if (sqlite3_open(":memory:", &db) == SQLITE_OK &&
        sqlite3_exec(db, "PRAGMA page_size = 4096;", NULL, NULL, NULL) == SQLITE_OK &&
        tide_schema_create(db) == SQLITE_OK)
        bytes = sqlite3_serialize(db, "main", &len, 0);
    sqlite3_close(db);
    if (bytes)
        bytes[WRITE_VERSION] = bytes[READ_VERSION] = LOGGED;
    *ret_len = (size_t)len;
    return bytes;
}

/* In a directory that everybody may write to, a recording is for its owner alone: it has command lines and
 * lines of source. (Its log gets the same mode from SQLite.) */
static mode_t mode_in(const char *directory)
{
    struct stat about;
    return stat(directory, &about) == 0 && (about.st_mode & S_IWOTH) ? 0600 : 0666;
}

int tide_recording_create(const char *path, struct tide_err *err)
{
    char nameless[64];
    size_t len;
    unsigned char *bytes = empty_recording(&len);
    char *copy = strdup(path);
    if (!bytes || !copy) {
        sqlite3_free(bytes);
        free(copy);
        return tide_err_set(err, "out of memory for the recording");
    }
    const char *directory = dirname(copy);
    mode_t mode = mode_in(directory);
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode), error = 0;
    bool named = fd < 0; /* where files without a name cannot be made */
    if ((named && (fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode)) < 0) ||
        tide_write_all(fd, bytes, len) != 0)
        error = errno;
    snprintf(nameless, sizeof nameless, "/proc/self/fd/%d", fd);
    if (!error && !named && linkat(AT_FDCWD, nameless, AT_FDCWD, path, AT_SYMLINK_FOLLOW))
        error = errno;
    if (error && named && fd >= 0)
        unlink(path);
    if (fd >= 0)
        close(fd);
    sqlite3_free(bytes);
    free(copy);
    return error ? refuse(path, error, err) : 0;
}
