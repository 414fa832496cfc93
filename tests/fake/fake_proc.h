/*
 * fake_proc.h - a /proc that is not there: a temporary directory with numbered folders, for tests of
 * src/sense.
 */
#ifndef FAKE_PROC_H
#define FAKE_PROC_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char fake_root[64];

static inline void fake_die(const char *what, const char *path)
{
    fprintf(stderr, "%s '%s': %s\n", what, path, strerror(errno));
    abort();
}

/* Makes the directory; its name is in fake_root. */
static inline void fake_begin(void)
{
    snprintf(fake_root, sizeof fake_root, "/tmp/fake_proc.XXXXXX");
    if (!mkdtemp(fake_root))
        fake_die("cannot make", fake_root);
}

static inline int fake_unlink(const char *path, const struct stat *info, int type, struct FTW *position)
{
    (void)info, (void)type, (void)position;
    return remove(path);
}

/* Removes the file or directory fake_root/path, "" for all of it. */
static inline void fake_remove(const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", fake_root, path);
    nftw(full, fake_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void fake_end(void)
{
    fake_remove("");
}

/* Writes fake_root/path, making the directories above it. */
static inline void fake_write_bytes(const char *path, const char *data, size_t len)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", fake_root, path);
    for (char *slash = full + strlen(fake_root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    /* Not replaced but rewritten: who holds it open reads the new text, as in the real one. */
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        fake_die("cannot write", full);
    close(fd);
}

__attribute__((format(printf, 2, 3))) static inline void fake_write(const char *path, const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fake_write_bytes(path, text, (size_t)len);
}

struct fake_process {
    int pid, parent;
    int inner;                  /* PID in a namespace of its own; 0: has none */
    unsigned long start, stack; /* where the stack of its program begins; 0: may not be known */
    const char *name;           /* NULL: "worker" */
    const char *args;           /* arguments with '|' for each NUL, as "python|train.py|" */
    char state;                 /* 0: 'S' */
    bool exiting;
    long anon, file, shmem, swap; /* KiB */
    long pss, pss_shmem, uss;     /* KiB; pss 0: no smaps_rollup */
    long anon_read;               /* KiB, in smaps_rollup; 0: the same as anon */
    long asked;                   /* KiB; 0: not told */
    const char *smaps;            /* NULL: none */
    int threads;                  /* 0: 1 */
};

static inline void fake_stat(const struct fake_process *process)
{
    char path[64];
    snprintf(path, sizeof path, "%d/stat", process->pid);
    fake_write(path,
               "%d (%s) %c %d 1 1 0 -1 %d 1 0 0 0 0 0 0 0 20 0 %d 0 %lu 1 1 18446744073709551615 1 1 %lu\n",
               process->pid, process->name ? process->name : "worker", process->state ? process->state : 'S',
               process->parent, process->exiting ? 4194564 : 4194560, process->threads ? process->threads : 1,
               process->start, process->stack);
}

static inline void fake_status(const struct fake_process *process)
{
    char path[64], memory[512] = "", inner[16] = "", asked[32] = "";
    snprintf(path, sizeof path, "%d/status", process->pid);
    if (process->inner)
        snprintf(inner, sizeof inner, "\t%d", process->inner);
    if (process->asked)
        snprintf(asked, sizeof asked, "VmData:\t%8ld kB\n", process->asked);
    if (process->state != 'Z')
        snprintf(
            memory, sizeof memory,
            "VmHWM:\t%8ld kB\nVmRSS:\t%8ld kB\nRssAnon:\t%8ld kB\nRssFile:\t%8ld kB\nRssShmem:\t%8ld kB\n"
            "VmSwap:\t%8ld kB\nHugetlbPages:\t%8ld kB\n",
            process->anon + process->file + process->shmem, process->anon + process->file + process->shmem,
            process->anon, process->file, process->shmem, process->swap, 0L);
    fake_write(path, "Name:\t%s\nState:\t%c (x)\nPid:\t%d\nPPid:\t%d\nNSpid:\t%d%s\n%s%sThreads:\t%d\n",
               process->name ? process->name : "worker", process->state ? process->state : 'S', process->pid,
               process->parent, process->pid, inner, memory, asked, process->threads ? process->threads : 1);
}

/* Writes the folder of a process, or what changed in it. */
static inline void fake_put(const struct fake_process *process)
{
    char path[64], args[1024];
    fake_stat(process);
    fake_status(process);
    snprintf(args, sizeof args, "%s", process->args ? process->args : "worker|");
    size_t len = strlen(args);
    for (size_t i = 0; i < len; i++)
        if (args[i] == '|')
            args[i] = '\0';
    snprintf(path, sizeof path, "%d/cmdline", process->pid);
    fake_write_bytes(path, args, len);
    if (process->pss) {
        snprintf(path, sizeof path, "%d/smaps_rollup", process->pid);
        fake_write(
            path,
            "0-1 ---p 00000000 00:00 0 [rollup]\nRss: %ld kB\nPss: %ld kB\nPss_Shmem: %ld kB\nPrivate_Dirty: %ld kB\nAnonymous: %ld kB\nSwapPss: 0 kB\n",
            process->anon + process->file + process->shmem, process->pss, process->pss_shmem, process->uss,
            process->anon_read ? process->anon_read : process->anon);
    }
    if (process->smaps) {
        snprintf(path, sizeof path, "%d/smaps", process->pid);
        fake_write(path, "%s", process->smaps);
    }
}

/* Its folder goes out of sight rather than away, so that no later one gets its inode. */
static inline void fake_kill(int pid)
{
    static int count;
    char from[128], to[128];
    snprintf(from, sizeof from, "%s/%d", fake_root, pid);
    snprintf(to, sizeof to, "%s/dead-%d", fake_root, count++);
    if (rename(from, to) != 0)
        fake_die("cannot move", from);
}

#endif
