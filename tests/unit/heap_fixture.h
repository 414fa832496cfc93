/*
 * heap_fixture.h - the writing end of a heap table, without the hook: a directory, a table in it, entries as
 * tests want them.
 */
#ifndef HEAP_FIXTURE_H
#define HEAP_FIXTURE_H

#include "channel/birth.h"
#include "channel/heap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

struct heap_fixture {
    char directory[64], path[160];
    int fd;
    struct tide_heap_head *head; /* the whole file is mapped */
    struct tide_heap_site *sites;
    uint64_t *frames;
    struct tide_heap_code *codes;
    struct tide_heap_module *modules;
    char *text;
};

static inline void heap_fixture_directory(struct heap_fixture *f)
{
    snprintf(f->directory, sizeof f->directory, "/tmp/heap-test-%d-XXXXXX", (int)getpid());
    if (!mkdtemp(f->directory))
        abort();
}

/* A table of process pid, empty and on; its file is held as the hook holds it. */
static inline void heap_fixture_table(struct heap_fixture *f, int64_t pid, uint64_t start_ticks,
                                      uint32_t image)
{
    int len = snprintf(f->path, sizeof f->path, "%s/heap-%lld-%llu", f->directory, (long long)pid,
                       (unsigned long long)start_ticks);
    if (image)
        snprintf(f->path + len, sizeof f->path - (size_t)len, "-%u", image);
    f->fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0 || ftruncate(f->fd, (off_t)TIDE_HEAP_BYTES) || flock(f->fd, LOCK_EX | LOCK_NB))
        abort();
    char *map = mmap(NULL, TIDE_HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    if (map == MAP_FAILED)
        abort();
    f->head = (struct tide_heap_head *)map;
    f->sites = (struct tide_heap_site *)(map + TIDE_HEAP_SITES_AT);
    f->frames = (uint64_t *)(map + TIDE_HEAP_FRAMES_AT);
    f->codes = (struct tide_heap_code *)(map + TIDE_HEAP_CODES_AT);
    f->modules = (struct tide_heap_module *)(map + TIDE_HEAP_MODULES_AT);
    f->text = map + TIDE_HEAP_TEXT_AT;
    struct tide_heap_head *head = f->head;
    head->pid = (uint32_t)pid;
    head->image = image;
    head->start_ticks = start_ticks;
    head->interval_bytes = TIDE_HEAP_INTERVAL;
    head->state = TIDE_HEAP_ON;
    head->text_count = 1;
    head->magic = TIDE_HEAP_MAGIC;
}

/* As when the process ends: nobody holds it, nobody has it mapped. */
static inline void heap_fixture_end(struct heap_fixture *f)
{
    if (f->head)
        munmap(f->head, TIDE_HEAP_BYTES);
    if (f->fd >= 0)
        close(f->fd);
    f->head = NULL;
    f->fd = -1;
}

static inline void heap_fixture_remove(struct heap_fixture *f)
{
    heap_fixture_end(f);
    unlink(f->path);
    rmdir(f->directory);
}

static inline uint32_t heap_fixture_text(struct heap_fixture *f, const char *text)
{
    uint32_t at = (uint32_t)f->head->text_count;
    memcpy(f->text + at, text, strlen(text) + 1);
    f->head->text_count += strlen(text) + 1;
    return at;
}

static inline void heap_fixture_module(struct heap_fixture *f, const char *path, uint64_t base,
                                       uint64_t start, uint64_t end)
{
    struct tide_heap_module *module = &f->modules[f->head->module_count++];
    module->path = heap_fixture_text(f, path);
    module->base = base;
    module->start = start;
    module->end = end;
    module->ready = 1;
}

static inline uint64_t heap_fixture_code(struct heap_fixture *f, const char *file, const char *name,
                                         uint32_t line)
{
    uint32_t at = (uint32_t)f->head->code_count++;
    f->codes[at].file = heap_fixture_text(f, file);
    f->codes[at].name = heap_fixture_text(f, name);
    f->codes[at].first_line = 1;
    f->codes[at].ready = 1;
    return TIDE_HEAP_PYTHON_WORD(at, line);
}

static inline struct tide_heap_site *heap_fixture_site(struct heap_fixture *f, uint16_t kind,
                                                       const uint64_t *words, uint32_t depth,
                                                       int64_t live_bytes)
{
    struct tide_heap_site *site = &f->sites[f->head->site_count++];
    site->kind = kind;
    site->frames_at = (uint32_t)f->head->frame_count;
    site->depth = depth;
    site->modules = (uint32_t)f->head->module_count;
    memcpy(f->frames + site->frames_at, words, depth * sizeof *words);
    f->head->frame_count += depth;
    site->live_bytes = site->total_bytes = live_bytes;
    site->live_blocks = site->total_blocks = 1;
    site->ready = 1;
    return site;
}

#endif
