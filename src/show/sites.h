/*
 * sites.h - the call stacks of a recording that allocate, each with its live bytes over time.
 *
 * tide_sites_new -> look at the arrays -> tide_sites_free. Everything in it is owned by it. At most max_bytes
 * are used: of a recording that has more, the samples that do not fit are left out, latest first (`truncated`
 * says so).
 */
#ifndef TIDE_SITES_H
#define TIDE_SITES_H

#include "base/err.h"
#include "record/reader.h"

#include <stdbool.h>
#include <stddef.h>

struct tide_site_point {
    int64_t t_ns;
    int64_t live_bytes;
    int64_t live_blocks;
    int64_t total_bytes;
    int64_t total_blocks;
};

struct tide_site_history {
    struct tide_site row;
    const uint32_t *frames; /* indices into tide_sites.frames, innermost first */
    size_t frame_count;
    struct tide_site_point *points; /* in order of time; a value holds until the next */
    size_t point_count, point_capacity;
};

struct tide_sites {
    struct tide_frame *frames; /* frames[id - 1]; strings unescaped */
    size_t frame_count;
    struct tide_site_history *sites; /* sites[id - 1] */
    size_t site_count;
    struct tide_heap_status *states; /* in order of time */
    size_t state_count;
    bool truncated;
    struct tide_sites_private *private;
};

/* Caller frees with tide_sites_free. A recording without --heap gives one without sites. max_bytes 0: 1 GiB.
 */
int tide_sites_new(struct tide_reader *reader, size_t max_bytes, struct tide_sites **ret_sites,
                   struct tide_err *err);
void tide_sites_free(struct tide_sites *sites);

/* What a site held at a time: its last point at or before it; NULL before its first. Borrowed. */
const struct tide_site_point *tide_site_at(const struct tide_site_history *site, int64_t t_ns);

#endif
