/*
 * heap_sites.h - the second half of heap_sense.c: writes the rows for the sites in the table of one process.
 *
 * States of a site: NEW (not looked at), SMALL (part of the sum of small ones), WAITING (for its symbols;
 * nothing is written yet), OWN (has a row). One `struct tide_heap_row` is kept per entry of a table; the
 * entry's values are read anew at every look.
 *
 * The structures are for these two files only.
 */
#ifndef TIDE_HEAP_SITES_H
#define TIDE_HEAP_SITES_H

#include "base/map.h"
#include "base/units.h"
#include "channel/heap_read.h"
#include "sense/heap_frames.h"
#include "sense/heap_sense.h"
#include "sense/symbol_server.h"

enum {
    TIDE_HEAP_BACKLOG = 32, /* samples kept of a site that waits for symbols */
    TIDE_HEAP_NOTICES = 8,
    TIDE_HEAP_NOTICE_TEXT = 450,
};

enum tide_heap_row_state { TIDE_HEAP_NEW, TIDE_HEAP_SMALL, TIDE_HEAP_WAITING, TIDE_HEAP_OWN };

/* What a site held before its stack was known. When it is full, every second sample is dropped. */
struct tide_heap_backlog {
    size_t count;
    struct tide_site_sample at[TIDE_HEAP_BACKLOG]; /* without the site's id */
};

struct tide_heap_row {
    struct tide_site_sample written;   /* the last one, and the id of the site; tick 0: none yet */
    int32_t *frames;                   /* while TIDE_HEAP_WAITING */
    struct tide_heap_backlog *backlog; /* while TIDE_HEAP_NEW or TIDE_HEAP_WAITING; NULL: nothing was kept */
    uint16_t depth;
    uint8_t state;
    uint8_t patience;
};

/* The sum of the small sites of a kind. */
struct tide_heap_rest {
    struct tide_site_sample now, written; /* site 0: none yet */
};

struct tide_heap_process {
    int64_t id;
    struct tide_heap_row *sites;
    size_t site_count;
    size_t own_count;
    struct tide_map frames; /* stack word and known modules -> frame */
    struct tide_heap_rest rest[TIDE_SITE_KINDS];
    struct tide_heap_sample heap; /* as last written; tick 0: never */
    int64_t status_ns;            /* when its status was last written; TIDE_UNKNOWN: never */
    uint32_t state, python, cuda;
    uint64_t sampled;
    int64_t ended_ns; /* when its end was first seen; 0: still running */
    bool lost_frees;  /* its last status says so */
    bool unread;      /* its table was never read */
    bool elsewhere;   /* it runs but its PID is not in our namespace */
};

/* A sample that is due. */
struct tide_heap_due {
    int64_t weight;
    uint32_t site;
};

struct tide_heap_sense {
    struct tide_symbol_server *server;
    struct tide_heap_tables *tables;
    struct tide_heap_frames *frames;
    struct tide_map stacks; /* hash of a stack's frames -> its id */
    int64_t base_ns, last_ns, purse_ns;
    double rows; /* samples that may be written now */
    size_t turn; /* table to read next */
    size_t tables_seen, sites_held, backlogs, unseen, adopted;
    bool rewrite; /* the writer failed: rows that were put are lost */
    struct tide_heap_due due[TIDE_HEAP_SITES];
    char notices[TIDE_HEAP_NOTICES][TIDE_HEAP_NOTICE_TEXT];
    size_t notice_count, notice_said;
};

/* One look in progress. */
struct tide_heap_look {
    struct tide_heap_sense *heap;
    const struct tide_sense *sense;
    struct tide_writer *writer;
    struct tide_err *err;
    int64_t tick, now_ns;
    bool rewrite;
    bool final;  /* no look at the tree follows */
    bool failed; /* a row could not be written */
};

/* Asks for the symbols of all new sites at once, so that the server can work on them, and writes what
 * changed; all: without regard to the limit on rows. True if nothing waits for symbols any more. */
bool tide_heap_sites_write(struct tide_heap_look *look, struct tide_heap_table *table,
                           struct tide_heap_process *process, bool all);

/* Frees what is kept of the process's sites. */
void tide_heap_sites_release(struct tide_heap_sense *heap, struct tide_heap_process *process);

#endif
