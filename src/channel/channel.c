/*
 * channel.c - the lanes of a channel (channel.h); places.c has its directories, ring.c reads one lane.
 */
#include "channel/channel.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/map.h"
#include "channel/birth.h"
#include "channel/file.h"
#include "channel/places.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRIES_MOST = 65536,  /* directory entries read, as a bound on a flood of files */
    REUSE_CHECK_EVERY = 64 /* drains between checks whether a quiet lane's PID was reused */
};

struct lane {
    char name[TIDE_FILE_NAME];
    size_t place; /* index of its directory */
    int fd;       /* -1: not kept open */
    unsigned age; /* in drains */
    struct tide_ring ring;
};

struct tide_channel {
    struct tide_places places;
    int64_t birth_ns;
    struct lane *lanes;
    size_t lane_count, lane_capacity;
    struct tide_descriptors *descriptors; /* lanes that get none are opened for every drain */
    struct tide_map by_name;              /* keys of the file names of the lanes */
    struct tide_ring_scratch *scratch;
    struct tide_channel_counts totals;
};

int tide_channel_new(struct tide_descriptors *descriptors, struct tide_channel **ret_channel,
                     struct tide_err *err)
{
    struct tide_channel *channel = calloc(1, sizeof *channel);
    if (!channel || !(channel->scratch = tide_ring_scratch_new())) {
        free(channel);
        return tide_err_set(err, "out of memory for the channel of marks");
    }
    channel->birth_ns = tide_clock_ns();
    channel->descriptors = descriptors;
    tide_map_init(&channel->by_name, TIDE_CHANNEL_LANES);
    if (tide_places_init(&channel->places, err)) {
        tide_channel_free(channel);
        return -1;
    }
    *ret_channel = channel;
    return 0;
}

const char *tide_channel_path(const struct tide_channel *channel)
{
    return channel->places.at[0].path;
}

int64_t tide_channel_helper(const struct tide_channel *channel)
{
    return channel->places.sweeper;
}

static int open_lane(const struct tide_channel *channel, size_t place, const char *name)
{
    return tide_file_open(channel->places.at[place].fd, name, TIDE_LANE_BYTES, O_RDONLY);
}

/* Follows the file if it is a complete lane whose head agrees with its name; otherwise it is tried again at
 * the next drain. -1: out of memory. */
static int follow(struct tide_channel *channel, size_t place, const char *name, int64_t now_ns)
{
    struct lane lane = {
        .fd = -1, .place = place, .ring = {.last_ns = channel->birth_ns, .birth_ns = channel->birth_ns}};
    const char *suffix;
    if (strlen(name) >= sizeof lane.name ||
        tide_file_parse(name, TIDE_FILE_MARKS, &lane.ring.pid, &lane.ring.start_ticks, &suffix) ||
        (*suffix && *suffix != '-'))
        return 0;
    uint64_t key = tide_map_text_key(name);
    if (tide_map_get(&channel->by_name, key, NULL) || channel->lane_count >= TIDE_CHANNEL_LANES)
        return 0;
    int fd = open_lane(channel, place, name);
    if (fd < 0)
        return 0;
    struct tide_lane_head head;
    if (tide_ring_head(&lane.ring, fd, now_ns, &head) || head.pid != (uint64_t)lane.ring.pid ||
        head.start_ticks != lane.ring.start_ticks) {
        close(fd);
        return 0;
    }
    memcpy(lane.name, name, strlen(name) + 1);
    if (TIDE_GROW(channel->lanes, channel->lane_capacity, channel->lane_count + 1, TIDE_CHANNEL_LANES) ||
        tide_map_put(&channel->by_name, key, 1)) {
        close(fd);
        return -1;
    }
    if (tide_descriptors_take(channel->descriptors))
        lane.fd = fd;
    else
        close(fd);
    channel->lanes[channel->lane_count++] = lane;
    channel->totals.lanes++;
    return 0;
}

/* Counts a process that left a note that it found no room, and removes the note so that it counts once. */
static void count_refused(struct tide_channel *channel, size_t place, const char *name)
{
    static const char *const kinds[] = {TIDE_FILE_FULL TIDE_FILE_MARKS, TIDE_FILE_FULL TIDE_FILE_HEAP};
    struct tide_channel_refused *refused[] = {&channel->totals.no_lane, &channel->totals.no_table};
    for (int i = 0; i < 2; i++) {
        int64_t pid;
        uint64_t start;
        const char *rest;
        if (tide_file_parse(name, kinds[i], &pid, &start, &rest))
            continue;
        refused[i]->last_pid = pid;
        refused[i]->last_start = start;
        refused[i]->count += !unlinkat(channel->places.at[place].fd, name, 0);
    }
}

static int find_lanes(struct tide_channel *channel, size_t place, int64_t now_ns)
{
    DIR *listing = channel->places.at[place].listing;
    struct dirent *entry;
    rewinddir(listing);
    for (int n = 0; n < ENTRIES_MOST && (entry = readdir(listing)); n++) {
        if (!strncmp(entry->d_name, TIDE_FILE_FULL, strlen(TIDE_FILE_FULL)))
            count_refused(channel, place, entry->d_name);
        else if (entry->d_name[0] != '.' && follow(channel, place, entry->d_name, now_ns))
            return -1;
    }
    return 0;
}

static void close_lane(struct tide_channel *channel, const struct lane *lane)
{
    if (lane->fd < 0)
        return;
    close(lane->fd);
    tide_descriptors_give(channel->descriptors);
}

/* Forgets lane i and removes its file, which nobody needs any more. The last lane takes its index. */
static void drop_lane(struct tide_channel *channel, size_t i)
{
    const struct lane *lane = &channel->lanes[i];
    close_lane(channel, lane);
    unlinkat(channel->places.at[lane->place].fd, lane->name, 0);
    tide_map_remove(&channel->by_name, tide_map_text_key(lane->name));
    channel->lanes[i] = channel->lanes[--channel->lane_count];
}

/* True if nobody will write to the lane any more: the process does not exist and nobody holds the lane. A
 * process in another PID namespace is recognised by the second alone. */
static bool has_ended(struct lane *lane, int fd)
{
    bool gone = kill((pid_t)lane->ring.pid, 0) && errno == ESRCH;
    if (!gone && ++lane->age % REUSE_CHECK_EVERY == 0)
        gone = !tide_birth_is_there(lane->ring.pid, lane->ring.start_ticks);
    return gone && !tide_file_is_held(fd);
}

/* True if the lane is finished: its process has ended (checked before the read, so that the read is
 * complete), or it broke the protocol. */
static bool drain_lane(struct tide_channel *channel, struct lane *lane, int64_t now_ns,
                       tide_ring_on_mark *on_mark, void *context)
{
    int fd = lane->fd >= 0 ? lane->fd : open_lane(channel, lane->place, lane->name);
    if (fd < 0)
        return errno != EMFILE && errno != ENFILE; /* out of descriptors: try again at the next drain */
    bool ended = has_ended(lane, fd);
    struct tide_ring_counts counts = {0};
    int broken = tide_ring_read(&lane->ring, fd, now_ns, ended, channel->scratch, on_mark, context, &counts);
    channel->totals.events += counts.events;
    channel->totals.thinned += counts.thinned;
    channel->totals.lost += counts.lost;
    if (fd != lane->fd)
        close(fd);
    return ended || broken;
}

int tide_channel_drain(struct tide_channel *channel, tide_ring_on_mark *on_mark, void *context,
                       struct tide_channel_counts *ret_totals, struct tide_err *err)
{
    int64_t now_ns = tide_clock_ns();
    int failed = 0;
    for (size_t i = 0; i < channel->places.count && !failed; i++)
        failed = find_lanes(channel, i, now_ns);
    for (size_t i = 0; i < channel->lane_count;) {
        if (drain_lane(channel, &channel->lanes[i], now_ns, on_mark, context))
            drop_lane(channel, i);
        else
            i++;
    }
    if (ret_totals)
        *ret_totals = channel->totals;
    return failed ? tide_err_set(err, "out of memory for marks of more processes") : 0;
}

void tide_channel_free(struct tide_channel *channel)
{
    if (!channel)
        return;
    for (size_t i = 0; i < channel->lane_count; i++)
        close_lane(channel, &channel->lanes[i]);
    tide_places_release(&channel->places);
    tide_map_release(&channel->by_name);
    tide_ring_scratch_free(channel->scratch);
    free(channel->lanes);
    free(channel);
}
