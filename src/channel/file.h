/*
 * file.h - the files of a channel: their names, and how they are made, held and opened.
 *
 * Lanes of marks (lane.h) and tables of live memory (heap.h) are made and opened only here, on both ends of
 * the channel.
 *
 * Names: "marks-PID-START" and "heap-PID-START" (START: field 22 of /proc/PID/stat, so that a reused PID is
 * another file), followed by "-" and a suffix where a process has several.
 *
 * Making: in the channel's directory or, if that has no room, in the directory that its link TIDE_FILE_SPARE
 * points to; mode 0600 whatever the umask; never over another file. A file larger than RLIMIT_FSIZE is not
 * made, because writing it would raise SIGXFSZ.
 *
 * Holding: a process that maps a file holds it with flock(). The lock lasts as long as the mapping, in this
 * process and in its children. When no process holds the file, none will write to it.
 *
 * Opening: only a regular file of exactly the right size. Never blocks, never follows a link.
 *
 * Room: /dev/shm belongs to the job. When it is full, the job's own mappings there get SIGBUS, and a
 * container has only 64 MB of it. So a channel on a memory file system contains the link, and a file that
 * would leave less than three quarters of the file system free goes to the spare directory. Without the link,
 * and in the spare directory, no file takes more than a quarter of the free space. Several processes may
 * check at the same moment, so a process that has taken room checks again, for 0 bytes, and gives it back if
 * it may not keep it. A process that finds no room at all leaves an empty file, named TIDE_FILE_FULL and its
 * own name, so that the tracker can report it.
 *
 * Linked into other people's programs: makes its own system calls only. No allocation, no stdio, no
 * cancellation point.
 */
#ifndef TIDE_FILE_H
#define TIDE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#define TIDE_FILE_MARKS "marks-"
#define TIDE_FILE_HEAP  "heap-"
#define TIDE_FILE_FULL  "full-" /* followed by one of the two */
#define TIDE_FILE_SPARE "spare"

enum { TIDE_FILE_NAME = 64, TIDE_FILE_PLACES = 2 }; /* a name with its NUL; directories of a channel */

/* The file that this process is about to make. */
struct tide_file_own {
    char name[TIDE_FILE_NAME];
    uint64_t start_ticks;
    int places[TIDE_FILE_PLACES]; /* directories; -1: there is none */
    bool full[TIDE_FILE_PLACES];  /* checked, and there was no room */
};

#pragma GCC visibility push(hidden)

/* Parses a name of the form PREFIX PID-START; *ret_rest is what follows. */
int tide_file_parse(const char *name, const char *prefix, int64_t *ret_pid, uint64_t *ret_start_ticks,
                    const char **ret_rest);

/* Opens a directory; the caller closes it. -1: there is none. */
int tide_file_directory(int from, const char *path);

/* True if so many more bytes may be taken there. shared: three quarters of the file system must stay free, as
 * where the link is. */
bool tide_file_leaves_room(int directory, bool shared, uint64_t bytes);
bool tide_file_has_room(int directory, uint64_t bytes);

/* True if a file or a directory is on a memory file system. */
bool tide_file_is_in_memory(int fd);

/* Calls `attach`, which makes, maps and registers this process's file, with signals blocked and cancellation
 * disabled, so that no handler can fork or jump out in the middle of it. Preserves errno. */
void tide_file_attach(void (*attach)(void));

/* channel: path of its directory; prefix: of the file's name. */
int tide_file_begin(const char *channel, const char *prefix, struct tide_file_own *ret_own);

/* The same as tide_file_has_room(), for one of its places. */
bool tide_file_may_take(struct tide_file_own *own, int place, uint64_t bytes);

/* made: the file was made. */
void tide_file_end(struct tide_file_own *own, bool made);

/* Makes a file of that size, without blocks. -1 with errno. */
int tide_file_create(int directory, const char *name, uint64_t bytes);

/* Opens an existing file; access: O_RDONLY or O_RDWR. */
int tide_file_open(int directory, const char *name, uint64_t bytes, int access);

/* Locks and maps the file; flags: MAP_POPULATE or 0. NULL: out of memory. */
void *tide_file_map(int fd, uint64_t bytes, int flags);

/* True if a process holds it. */
bool tide_file_is_held(int fd);

#pragma GCC visibility pop

#endif
