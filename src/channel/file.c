#include "channel/file.h"
#include "channel/birth.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#define PID_MOST (1 << 22)

/* System calls, because the C library's open() and close() are cancellation points. */
static int open_at(int directory, const char *path, int flags)
{
    return (int)syscall(SYS_openat, directory, path, flags | O_CLOEXEC, 0600);
}

/* Preserves errno. */
static void shut(int fd)
{
    int error = errno;
    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = error;
}

/* ---- names */

int tide_file_parse(const char *name, const char *prefix, int64_t *ret_pid, uint64_t *ret_start_ticks,
                    const char **ret_rest)
{
    size_t len = strlen(prefix);
    const char *p = name + len, *end = name + strlen(name);
    uint64_t pid, start;
    if (strncmp(name, prefix, len) || tide_birth_number(&p, end, &pid) || *p++ != '-' ||
        tide_birth_number(&p, end, &start) || pid == 0 || pid > PID_MOST)
        return -1;
    *ret_pid = (int64_t)pid;
    *ret_start_ticks = start;
    *ret_rest = p;
    return 0;
}

static void write_name(char *out, const char *prefix, uint64_t start_ticks)
{
    size_t len = strlen(prefix);
    memcpy(out, prefix, len);
    out = tide_birth_digits(out + len, (uint64_t)getpid());
    *out++ = '-';
    *tide_birth_digits(out, start_ticks) = '\0';
}

/* ---- room */

int tide_file_directory(int from, const char *path)
{
    return open_at(from, path, O_RDONLY | O_DIRECTORY);
}

bool tide_file_is_in_memory(int fd)
{
    struct statfs about;
    return !fstatfs(fd, &about) && about.f_type == TMPFS_MAGIC;
}

bool tide_file_leaves_room(int directory, bool shared, uint64_t bytes)
{
    struct statvfs about;
    if (fstatvfs(directory, &about))
        return true;
    uint64_t free_bytes = (uint64_t)about.f_bavail * about.f_frsize,
             all = (uint64_t)about.f_blocks * about.f_frsize;
    if (!all) /* the file system has no limit of its own */
        return true;
    return bytes <= free_bytes && (shared ? free_bytes - bytes >= all / 4 * 3 : bytes <= free_bytes / 4);
}

bool tide_file_has_room(int directory, uint64_t bytes)
{
    bool shared = !faccessat(directory, TIDE_FILE_SPARE, F_OK, AT_SYMLINK_NOFOLLOW);
    return tide_file_leaves_room(directory, shared, bytes);
}

/* ---- making */

void tide_file_attach(void (*attach)(void))
{
    sigset_t all, before;
    int cancel, saved = errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    attach();
    pthread_setcancelstate(cancel, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
}

int tide_file_begin(const char *channel, const char *prefix, struct tide_file_own *ret_own)
{
    struct tide_file_own own = {.full = {false, false}};
    if (tide_birth_read(0, &own.start_ticks))
        return -1;
    write_name(own.name, prefix, own.start_ticks);
    own.places[0] = tide_file_directory(AT_FDCWD, channel);
    if (own.places[0] < 0)
        return -1;
    own.places[1] = tide_file_directory(own.places[0], TIDE_FILE_SPARE);
    *ret_own = own;
    return 0;
}

bool tide_file_may_take(struct tide_file_own *own, int place, uint64_t bytes)
{
    own->full[place] = own->places[place] < 0 || !tide_file_has_room(own->places[place], bytes);
    return !own->full[place];
}

void tide_file_end(struct tide_file_own *own, bool made)
{
    if (!made && own->full[0] && own->full[1]) {
        char full[sizeof TIDE_FILE_FULL + TIDE_FILE_NAME] = TIDE_FILE_FULL;
        shut(open_at(own->places[0], strcat(full, own->name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
    }
    for (int i = 0; i < TIDE_FILE_PLACES; i++)
        shut(own->places[i]);
}

int tide_file_create(int directory, const char *name, uint64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < bytes) {
        errno = EFBIG;
        return -1;
    }
    int fd = open_at(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (fd < 0 || (!fchmod(fd, 0600) && !ftruncate(fd, (off_t)bytes)))
        return fd;
    unlinkat(directory, name, 0);
    shut(fd);
    return -1;
}

/* ---- opening and holding */

int tide_file_open(int directory, const char *name, uint64_t bytes, int access)
{
    struct stat about;
    int fd = open_at(directory, name, access | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || (!fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_size == (off_t)bytes))
        return fd;
    shut(fd);
    errno = EINVAL;
    return -1;
}

/* Makes the system call itself, because the hook interposes the C library's mmap(). */
void *tide_file_map(int fd, uint64_t bytes, int flags)
{
    flock(fd, LOCK_EX | LOCK_NB);
    long at = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, (off_t)0);
    return at == -1 ? NULL : (void *)at;
}

bool tide_file_is_held(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB))
        return true;
    flock(fd, LOCK_UN);
    return false;
}
