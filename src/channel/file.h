/*
 * file.h - the files of a channel: what they are called, and how they are made, held and opened.
 *
 * Lanes of marks (lane.h) and tables of live memory (heap.h) are made and opened here and nowhere else, at
 * both ends of the channel.
 *
 * Names: "marks-PID-START" and "heap-PID-START" (START: field 22 of /proc/PID/stat, so that a reused PID is
 * another file), and "-" with something more where a process has several.
 *
 * Making: in the channel's directory or, where that has no room, where its link TIDE_FILE_SPARE leads to;
 * mode 0600 whatever the umask is; never over another file; not under a limit on file sizes that it exceeds,
 * because the answer to that is SIGXFSZ.
 *
 * Holding: a process that has a file mapped holds it with flock(). The lock lives as long as the mapping, in
 * this process and in its children; when no process holds the file, none will write to it.
 *
 * Opening: a regular file of exactly its size. Never blocks, never follows a link.
 *
 * Room: /dev/shm belongs to the job. When it is full, the job's own mappings there die of SIGBUS, and a
 * container has 64 MB of it. So where the tracker has put the channel on a memory file system it leaves the
 * link in it: a file that would leave less than three quarters of the file system free goes to the spare
 * directory. Without the link, and in the spare directory, no file takes more than a quarter of what is free.
 * Several processes may ask at the same moment: one that has taken room asks again, for 0 bytes, whether it
 * may keep it, and gives it back if not. A process that finds no room at all leaves an empty file behind,
 * TIDE_FILE_FULL and its name, so that the tracker can report it.
 *
 * Linked into other people's programs: system calls of its own only, no allocation, no stdio, no place where
 * a thread can be cancelled.
 */
#ifndef TIDE_FILE_H
#define TIDE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#define TIDE_FILE_MARKS "marks-"
#define TIDE_FILE_HEAP  "heap-"
#define TIDE_FILE_FULL  "full-" /* and then one of the two */
#define TIDE_FILE_SPARE "spare"

enum { TIDE_FILE_NAME = 64, TIDE_FILE_PLACES = 2 }; /* a name with its NUL; directories of a channel */

/* The file that this process is about to make. */
struct tide_file_own {
    char name[TIDE_FILE_NAME];
    uint64_t start_ticks;
    int places[TIDE_FILE_PLACES]; /* directories; -1: there is none */
    bool full[TIDE_FILE_PLACES];  /* there was no room when it was asked for */
};

#pragma GCC visibility push(hidden)

/* PREFIX PID-START of a name; *ret_rest is what follows. */
int tide_file_parse(const char *name, const char *prefix, int64_t *ret_pid, uint64_t *ret_start_ticks,
                    const char **ret_rest);

/* A directory, to be closed; -1: there is none. */
int tide_file_directory(int from, const char *path);

/* Whether so many bytes more may be taken there. shared: three quarters must stay free, as where the link is.
 */
bool tide_file_leaves_room(int directory, bool shared, uint64_t bytes);
bool tide_file_has_room(int directory, uint64_t bytes);

/* Whether a file or a directory is on a memory file system. */
bool tide_file_is_in_memory(int fd);

/* Calls `attach`, which makes and maps this process's file and notes it, where no signal handler can fork or
 * jump out of the middle of it and the thread cannot be cancelled. errno is kept. */
void tide_file_attach(void (*attach)(void));

/* channel: path of its directory; prefix: of the name. */
int tide_file_begin(const char *channel, const char *prefix, struct tide_file_own *ret_own);

/* As tide_file_has_room(), of one of its places. */
bool tide_file_may_take(struct tide_file_own *own, int place, uint64_t bytes);

/* made: there is such a file now. */
void tide_file_end(struct tide_file_own *own, bool made);

/* A new file of that size without blocks, or -1 with errno. */
int tide_file_create(int directory, const char *name, uint64_t bytes);

/* A file that exists; access: O_RDONLY or O_RDWR. */
int tide_file_open(int directory, const char *name, uint64_t bytes, int access);

/* Holds and maps it; flags: MAP_POPULATE or 0. NULL: no memory. */
void *tide_file_map(int fd, uint64_t bytes, int flags);

/* Whether somebody holds it. */
bool tide_file_is_held(int fd);

#pragma GCC visibility pop

#endif
