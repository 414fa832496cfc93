/*
 * heap_read.h - the tracker's end of the tables of live memory (heap.h has the layout and the protocol).
 *
 * tide_heap_tables_new -> each tick: tide_heap_tables_find(), then tide_heap_table_read() on each table and
 * use of what it holds; tide_heap_tables_drop() for one that has ended -> tide_heap_tables_free.
 *
 * Nothing in a table is trusted. A table of another layout or size, or whose head contradicts its name, is
 * not followed. Counts are clamped between their previous value and the capacity, entries with references out
 * of range are ignored, strings are terminated, negative live values become 0. The file is never mapped here.
 * At most TIDE_HEAP_TABLES tables are followed at once; `waiting` tells how many others wait.
 *
 * A table has ended when no process has it mapped any more: its process exited, was killed, or called exec.
 * This is checked before the read, so the read that finds `ended` is complete.
 */
#ifndef TIDE_HEAP_READ_H
#define TIDE_HEAP_READ_H

#include "base/descriptors.h"
#include "base/err.h"
#include "base/map.h"
#include "channel/file.h"
#include "channel/heap.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_HEAP_TABLES = 8192 };

/* A module of the process. */
struct tide_heap_range {
    uint64_t start, end, base;
    const char *path; /* owned by the table */
    uint8_t build_id[20];
    size_t build_id_bytes;
    bool ready; /* false: still being written */
};

struct tide_heap_table {
    char name[TIDE_FILE_NAME];
    int directory;  /* of its file; borrowed */
    bool in_memory; /* the directory is on a memory file system */
    int64_t pid;
    uint64_t start_ticks;
    uint32_t image;
    int fd;    /* -1: only open from its read until another table is read */
    bool kept; /* kept open */
    bool ended;
    bool replaced;              /* ended by exec, not by the end of its process */
    bool superseded;            /* a later image of its process was seen */
    struct tide_heap_head head; /* as of the last read, its counts clamped */
    struct tide_heap_range *modules;
    size_t module_count, module_capacity;
    size_t module_ready; /* all modules before this one are ready */
    /* Of the last read, valid until another table is read. Those that are ready were checked; values are in
     * [0, 2^62]. */
    const struct tide_heap_site *sites;
    size_t site_count;
    void *owner; /* for the caller; starts as NULL */
};

struct tide_heap_tables {
    DIR *listings[TIDE_FILE_PLACES]; /* of the channel's directory, and of its spare directory if it has
                                        one */
    struct tide_heap_table **tables; /* each is valid until it is dropped */
    size_t count, capacity;
    struct tide_map by_name; /* keys of the file names of the tables that are followed */
    size_t waiting; /* files that the last search could not follow: there were too many, or they could not be
                       opened */
    struct tide_heap_table *passing; /* the table that is open until another one is read; NULL: none */
    struct tide_descriptors *descriptors;
    struct tide_heap_site sites[TIDE_HEAP_SITES]; /* of the table that was read last */
};

/* directory: of the channel. descriptors: the budget for tables kept open; borrowed until the tables are
 * freed. Caller frees with tide_heap_tables_free. */
int tide_heap_tables_new(const char *directory, struct tide_descriptors *descriptors,
                         struct tide_heap_tables **ret_tables, struct tide_err *err);
void tide_heap_tables_free(struct tide_heap_tables *tables);

/* Starts to follow tables that have appeared. */
void tide_heap_tables_find(struct tide_heap_tables *tables);

/* Forgets the table and removes its file. The last table takes its index. */
void tide_heap_tables_drop(struct tide_heap_tables *tables, size_t index);

/* Memory that the hook takes in the process now: its own, and this table if it is in memory and not on a
 * disk. Zeros once the process has called exec. -1: it cannot be read now. */
int tide_heap_table_hook(const struct tide_heap_table *table, int64_t *ret_own_bytes,
                         int64_t *ret_table_bytes);

/* True if its process certainly does not exist any more. Cheaper than a read. */
bool tide_heap_table_is_dead(const struct tide_heap_table *table);

/* Reads the head, new modules and all sites. -1: the table broke the protocol; drop it. 1: its file cannot be
 * opened now. If memory runs out, some modules stay unknown until a later read. */
int tide_heap_table_read(struct tide_heap_tables *tables, struct tide_heap_table *table);

/* Reads the words of a site's stack, innermost first. Returns their number, 0 if they cannot be read. */
size_t tide_heap_table_stack(const struct tide_heap_table *table, const struct tide_heap_site *site,
                             uint64_t ret_words[TIDE_HEAP_DEPTH]);

/* Reads a Python code object. -1: there is none of that number. */
int tide_heap_table_code(const struct tide_heap_table *table, uint32_t code, char ret_file[TIDE_HEAP_STRING],
                         char ret_name[TIDE_HEAP_STRING], uint32_t *ret_first_line);

/* The module of an address on the stack of a site that was made when `known` modules were known. NULL: none,
 * or not yet. Borrowed until the next read of the table. */
const struct tide_heap_range *tide_heap_table_module(const struct tide_heap_table *table, uint64_t address,
                                                     uint32_t known);

#endif
