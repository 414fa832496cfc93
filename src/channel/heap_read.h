/*
 * heap_read.h - the tracker's end of the tables of live memory (heap.h has the layout and the protocol).
 *
 * tide_heap_tables_new -> each tick: tide_heap_tables_find(), then for each table tide_heap_table_read() and
 * a look at what it holds; tide_heap_tables_drop() one that has ended -> tide_heap_tables_free.
 *
 * Nothing in a table is trusted. One of another layout or size, or that says of itself something
 * else than its name, is not followed; counts are put between what was there before and the capacity, an
 * entry whose references lead outside is as if it were not there, strings are ended, negative live values are
 * 0. The file is never mapped here. At most TIDE_HEAP_TABLES tables are followed at once; the others wait,
 * and tide_heap_tables_waiting() tells how many.
 *
 * A table has ended when nobody has it mapped any more: its process exited, was killed, or called exec. The
 * question is asked before the read, so the read that finds `ended` is complete.
 */
#ifndef TIDE_HEAP_READ_H
#define TIDE_HEAP_READ_H

#include "base/descriptors.h"
#include "base/err.h"
#include "channel/file.h"
#include "channel/heap.h"

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
    bool ready; /* else it is still being written */
};

/* What a site says now. */
struct tide_heap_values {
    bool ready;
    uint16_t kind; /* enum tide_site_kind, checked */
    uint32_t frames_at, depth, modules;
    int64_t live_bytes, live_blocks, total_bytes, total_blocks; /* in [0, 2^62] */
};

struct tide_heap_table {
    char name[TIDE_FILE_NAME];
    int directory;  /* where it lies; borrowed */
    bool in_memory; /* and that is no disk */
    int64_t pid;
    uint64_t start_ticks;
    uint32_t image;
    int fd;    /* -1: it is open only from its read to that of another */
    bool kept; /* open all the time */
    bool ended;
    bool replaced;              /* ended by a call of exec, not with its process */
    bool superseded;            /* a later image of its process was seen */
    struct tide_heap_head head; /* as of the last read, its counts clamped */
    struct tide_heap_range *modules;
    size_t module_count, module_capacity;
    size_t module_ready;                  /* all before this one are */
    const struct tide_heap_values *sites; /* of the last read; valid until another table is read */
    size_t site_count;
    void *owner; /* for who reads; starts as NULL */
};

struct tide_heap_tables;

/* directory: of the channel. descriptors: of which it keeps tables open; borrowed until the tables are freed.
 * Caller frees with tide_heap_tables_free. */
int tide_heap_tables_new(const char *directory, struct tide_descriptors *descriptors,
                         struct tide_heap_tables **ret_tables, struct tide_err *err);
void tide_heap_tables_free(struct tide_heap_tables *tables);

/* Takes up tables that have appeared. */
void tide_heap_tables_find(struct tide_heap_tables *tables);

/* Files of the last search that could not be taken up: there were too many, or they could not be opened. */
size_t tide_heap_tables_waiting(const struct tide_heap_tables *tables);

/* Index 0 .. count - 1; borrowed, valid until dropped. */
size_t tide_heap_tables_count(const struct tide_heap_tables *tables);
struct tide_heap_table *tide_heap_tables_at(struct tide_heap_tables *tables, size_t index);

/* Forgets the table and removes its file. The last one takes its index. */
void tide_heap_tables_drop(struct tide_heap_tables *tables, size_t index);

/* What the hook has now in the memory of the process, beside this table and of it, as far as that lies in
 * memory and not on a disk; zeros once the process has become another program. -1: it cannot be read now. */
int tide_heap_table_hook(const struct tide_heap_table *table, int64_t *ret_own_bytes,
                         int64_t *ret_table_bytes);

/* Whether its process is certainly not there any more, which costs less to ask than a read does. */
bool tide_heap_table_is_dead(const struct tide_heap_table *table);

/* Reads head, new modules and all sites. -1: the table broke the protocol; drop it. 1: its file cannot be
 * opened at the moment. Without memory some modules are not known until a later read. */
int tide_heap_table_read(struct tide_heap_tables *tables, struct tide_heap_table *table);

/* The words of a site's stack, innermost first; returns how many, 0 when they cannot be had. */
size_t tide_heap_table_stack(const struct tide_heap_table *table, const struct tide_heap_values *site,
                             uint64_t ret_words[TIDE_HEAP_DEPTH]);

/* A Python code object. -1: there is none of that number. */
int tide_heap_table_code(const struct tide_heap_table *table, uint32_t code, char ret_file[TIDE_HEAP_STRING],
                         char ret_name[TIDE_HEAP_STRING], uint32_t *ret_first_line);

/* The module of an address on the stack of a site that was made when `known` modules were; NULL: none, or not
 * yet. Borrowed: valid until the next read of the table. */
const struct tide_heap_range *tide_heap_table_module(const struct tide_heap_table *table, uint64_t address,
                                                     uint32_t known);

#endif
