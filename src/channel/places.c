#include "channel/places.h"
#include "base/descriptors.h"
#include "base/title.h"
#include "channel/birth.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
    ENTRIES_MOST = 65536, /* directory entries read, as a bound on a flood of files */
    FIRST_BYTES = 1 << 20 /* free space that a place must have to be chosen */
};

/* ---- removing */

/* Removes the files of a channel's directory and then the directory, which stays if something else than files
 * is in it. Follows no links. */
static void remove_place(int base, const char *name, int directory)
{
    DIR *listing = tide_list_directory(directory, ".");
    const struct dirent *entry;
    for (int n = 0; listing && n < ENTRIES_MOST && (entry = readdir(listing)); n++)
        unlinkat(directory, entry->d_name, 0); /* fails for "." and ".." */
    if (listing)
        closedir(listing);
    unlinkat(base, name, AT_REMOVEDIR);
}

static bool is_of_dead_tracker(const char *name)
{
    int64_t pid;
    uint64_t start;
    const char *rest;
    return !tide_file_parse(name, "tidemark-", &pid, &start, &rest) && rest[0] == '-' && strlen(rest) == 7 &&
           !tide_birth_is_there(pid, start);
}

static void sweep_one(int base, const char *name)
{
    if (!is_of_dead_tracker(name))
        return;
    int directory = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0)
        return;
    struct stat is;
    if (!fstat(directory, &is) && is.st_uid == geteuid() && !flock(directory, LOCK_EX | LOCK_NB))
        remove_place(base, name, directory);
    close(directory);
}

static void sweep(const char *base_path)
{
    DIR *listing = opendir(base_path);
    if (!listing)
        return;
    struct dirent *entry;
    for (int n = 0; n < ENTRIES_MOST && (entry = readdir(listing)); n++)
        sweep_one(dirfd(listing), entry->d_name);
    closedir(listing);
}

/* ---- making */

/* Makes, opens and locks a directory under base. */
static int make_place(struct tide_place *place, const char *base)
{
    uint64_t start;
    if (!base || base[0] != '/' || tide_birth_read(0, &start))
        return -1;
    int len = snprintf(place->path, sizeof place->path, "%s/tidemark-%d-%" PRIu64 "-XXXXXX", base,
                       (int)getpid(), start);
    if (len >= (int)sizeof place->path || !mkdtemp(place->path))
        return -1;
    place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place->fd >= 0 && !flock(place->fd, LOCK_EX | LOCK_NB) &&
        (place->listing = tide_list_directory(place->fd, ".")))
        return 0;
    int error = errno;
    if (place->fd >= 0)
        close(place->fd);
    rmdir(place->path);
    errno = error;
    return -1;
}

static void drop_place(struct tide_place *place)
{
    remove_place(AT_FDCWD, place->path, place->fd);
    closedir(place->listing);
    close(place->fd);
}

/* Makes a place under the first base, other than `but`, that has room; any: or where a directory can be made.
 * Returns the base's index, or -1. */
static int choose(const char *const *bases, int count, int but, bool any, struct tide_place *ret_place)
{
    for (int i = 0; i < count; i++) {
        if (i == but || make_place(ret_place, bases[i]))
            continue;
        if (any || tide_file_leaves_room(ret_place->fd, tide_file_is_in_memory(ret_place->fd), FIRST_BYTES))
            return i;
        drop_place(ret_place);
    }
    return -1;
}

/* A first place in memory gets the link even if there is no spare directory, because the file system is
 * shared with the job all the same. */
static void make_spare(struct tide_places *places, const char *const *bases, int count, int first)
{
    if (!tide_file_is_in_memory(places->at[0].fd))
        return;
    bool made = choose(bases, count, first, false, &places->at[1]) >= 0;
    if (symlinkat(made ? places->at[1].path : "/nonexistent", places->at[0].fd, TIDE_FILE_SPARE) && made)
        drop_place(&places->at[1]);
    else
        places->count += made;
}

/* ---- when the tracker is killed */

static void wait_and_remove(const struct tide_places *places, int pipe_end)
{
    const int keep[3] = {pipe_end, places->at[0].fd, places->count > 1 ? places->at[1].fd : -1};
    sigset_t all;
    char nothing;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    tide_title_set("channel-sweeper"); /* so that killing the tracker by name spares it */
    tide_close_all_but(0, keep, 3);    /* readers of the tracker's output wait for the last writer */
    while (read(keep[0], &nothing, 1) < 0 && errno == EINTR)
        ;
    for (size_t i = 0; i < places->count; i++)
        remove_place(AT_FDCWD, places->at[i].path, keep[i + 1]);
    _exit(0);
}

static void start_sweeper(struct tide_places *places)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return;
    pid_t pid = fork();
    if (!pid) {
        close(ends[1]);
        wait_and_remove(places, ends[0]);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return;
    }
    places->sweeper = pid;
    places->sweeper_end = ends[1];
}

/* ---- lifecycle */

int tide_places_init(struct tide_places *places, struct tide_err *err)
{
    const char *bases[] = {"/dev/shm", getenv("XDG_RUNTIME_DIR"), "/tmp", "/var/tmp"};
    enum { BASES = sizeof bases / sizeof *bases };
    *places = (struct tide_places){.count = 0};
    for (int i = 0; i < BASES; i++)
        if (bases[i])
            sweep(bases[i]);
    int first = choose(bases, BASES, -1, false, &places->at[0]);
    if (first < 0)
        first = choose(bases, BASES, -1, true, &places->at[0]);
    if (first < 0) {
        tide_err_set(err,
                     "cannot make a directory for marks in /dev/shm, $XDG_RUNTIME_DIR, /tmp or /var/tmp: %s",
                     strerror(errno));
        return tide_err_hint(err, "steps can still be read from the program's output with --step-regex");
    }
    places->count = 1;
    make_spare(places, bases, BASES, first);
    start_sweeper(places);
    return 0;
}

void tide_places_release(struct tide_places *places)
{
    for (size_t i = 0; i < places->count; i++)
        drop_place(&places->at[i]);
    if (places->sweeper) { /* its work is done, and another process may still have the pipe open */
        kill(places->sweeper, SIGKILL);
        waitpid(places->sweeper, NULL, 0);
        close(places->sweeper_end);
    }
    *places = (struct tide_places){.count = 0};
}
