#include "channel/ring.h"

#include "base/map.h"
#include "base/units.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUPS_MAX = 2 * TIDE_LANE_SLOTS, NO_SLOT = UINT16_MAX };

/* One series of marks within one read. */
struct group {
    uint64_t key;   /* 0: free */
    uint32_t total; /* marks, or pairs of a phase */
    uint32_t rank;  /* index of the next one, during selection */
    uint16_t open;  /* the latest phase begin without an end, or NO_SLOT */
};

struct tide_ring_scratch {
    uint64_t sequences[TIDE_LANE_SLOTS];
    struct tide_lane_slot slots[TIDE_LANE_SLOTS];
    struct group groups[GROUPS_MAX];
    uint16_t group_of[TIDE_LANE_SLOTS];
    uint16_t partner[TIDE_LANE_SLOTS]; /* of an end: its begin; of an open begin: the open one before it */
    bool paired[TIDE_LANE_SLOTS];
    bool keep[TIDE_LANE_SLOTS];
};

struct tide_ring_scratch *tide_ring_scratch_new(void)
{
    return calloc(1, sizeof(struct tide_ring_scratch));
}

void tide_ring_scratch_free(struct tide_ring_scratch *scratch)
{
    free(scratch);
}

int tide_ring_head(const struct tide_ring *ring, int fd, int64_t now_ns, struct tide_lane_head *ret_head)
{
    struct tide_lane_head head;
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || head.magic != TIDE_LANE_MAGIC ||
        head.slot_count != TIDE_LANE_SLOTS)
        return -1;
    /* Nobody marks more than once per nanosecond. */
    int64_t age_ns = now_ns > ring->birth_ns ? now_ns - ring->birth_ns : 0;
    uint64_t taken = atomic_load_explicit(&head.head, memory_order_relaxed);
    if (taken < ring->seen || taken > (uint64_t)age_ns + TIDE_LANE_SLOTS)
        return -1;
    *ret_head = head;
    return 0;
}

static int read_span(int fd, uint64_t first_slot, uint64_t count, struct tide_lane_slot *out)
{
    size_t bytes = count * sizeof *out;
    off_t at = (off_t)(sizeof(struct tide_lane_head) + first_slot * sizeof *out);
    return pread(fd, out, bytes, at) == (ssize_t)bytes ? 0 : -1;
}

static int read_slots(int fd, uint64_t next, uint64_t count, struct tide_lane_slot *out)
{
    uint64_t first = next % TIDE_LANE_SLOTS;
    uint64_t until_end = TIDE_LANE_SLOTS - first;
    uint64_t straight = count < until_end ? count : until_end;
    if (read_span(fd, first, straight, out))
        return -1;
    return straight == count ? 0 : read_span(fd, 0, count - straight, out + straight);
}

static bool is_mark(const struct tide_lane_slot *slot)
{
    return slot->kind >= TIDE_MARK_STEP && slot->kind < TIDE_MARK_KINDS && slot->number >= -TIDE_EXACT_MOST &&
           slot->number <= TIDE_EXACT_MOST;
}

static bool has_name(uint32_t kind)
{
    return kind == TIDE_MARK_PHASE_BEGIN || kind == TIDE_MARK_PHASE_END || kind == TIDE_MARK_GAUGE;
}

/* Moves the good ones among the `count` slots from number ring->next on to the front and returns their
 * number. Moves ring->next past all slots that are good or lost. */
static size_t take_good(struct tide_ring *ring, struct tide_ring_scratch *scratch, uint64_t count,
                        uint64_t head_after, bool last, struct tide_ring_counts *counts)
{
    size_t good = 0;
    uint64_t first = ring->next;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = first + i;
        bool overwritten = n + TIDE_LANE_SLOTS < head_after;
        bool complete = scratch->sequences[i] == n + 1;
        if (!overwritten && !complete && !last && n >= ring->seen)
            break;
        ring->next = n + 1;
        struct tide_lane_slot *slot = &scratch->slots[i];
        if (overwritten || !complete || !is_mark(slot)) {
            counts->lost++;
            continue;
        }
        slot->name[has_name(slot->kind) ? TIDE_LANE_NAME - 1 : 0] = '\0';
        scratch->slots[good++] = *slot;
    }
    return good;
}

static uint64_t series_key(const struct tide_lane_slot *slot)
{
    unsigned char kind =
        slot->kind == TIDE_MARK_PHASE_END ? TIDE_MARK_PHASE_BEGIN : (unsigned char)slot->kind;
    uint64_t key = tide_map_key(tide_map_key(TIDE_MAP_SEED, &kind, 1), slot->name, strlen(slot->name));
    return key ? key : 1;
}

/* Two series whose keys collide are thinned as one, which is harmless. */
static uint16_t group_at(struct tide_ring_scratch *scratch, size_t table, uint64_t key)
{
    size_t i = (size_t)(key ^ key >> 29) & (table - 1);
    while (scratch->groups[i].key && scratch->groups[i].key != key)
        i = (i + 1) & (table - 1);
    if (!scratch->groups[i].key)
        scratch->groups[i] = (struct group){.key = key, .open = NO_SLOT};
    return (uint16_t)i;
}

/* Puts every slot into its series and finds the partner of each phase end. */
static void group_slots(struct tide_ring_scratch *scratch, size_t count)
{
    size_t table = 32;
    while (table < 2 * count)
        table *= 2;
    memset(scratch->groups, 0, table * sizeof *scratch->groups);
    for (size_t i = 0; i < count; i++) {
        const struct tide_lane_slot *slot = &scratch->slots[i];
        scratch->group_of[i] = group_at(scratch, table, series_key(slot));
        struct group *group = &scratch->groups[scratch->group_of[i]];
        scratch->paired[i] = false;
        if (slot->kind == TIDE_MARK_PHASE_BEGIN) {
            scratch->partner[i] = group->open;
            group->open = (uint16_t)i;
        } else if (slot->kind == TIDE_MARK_PHASE_END && group->open != NO_SLOT) {
            uint16_t begin = group->open;
            group->open = scratch->partner[begin];
            scratch->partner[i] = begin;
            scratch->paired[i] = scratch->paired[begin] = true;
            group->total++;
        } else if (slot->kind != TIDE_MARK_PHASE_END) {
            group->total++;
        }
    }
}

/* True if number `rank` of `total` is one of the TIDE_RING_KEEP marks that stay, as ring.h says. */
static bool is_chosen(uint32_t rank, uint32_t total)
{
    if (total <= TIDE_RING_KEEP || rank == 0)
        return true;
    uint64_t pieces = TIDE_RING_KEEP - 1;
    return rank * pieces / (total - 1) != (rank - 1) * pieces / (total - 1);
}

static void choose(struct tide_ring_scratch *scratch, size_t count)
{
    group_slots(scratch, count);
    for (size_t i = 0; i < count; i++) {
        struct group *group = &scratch->groups[scratch->group_of[i]];
        uint32_t kind = scratch->slots[i].kind;
        bool phase = kind == TIDE_MARK_PHASE_BEGIN || kind == TIDE_MARK_PHASE_END;
        if (phase && !scratch->paired[i]) {
            scratch->keep[i] = true;
        } else if (kind != TIDE_MARK_PHASE_BEGIN) {
            scratch->keep[i] = is_chosen(group->rank++, group->total);
            if (phase)
                scratch->keep[scratch->partner[i]] = scratch->keep[i];
        }
    }
}

static int64_t clamp_time(int64_t t_ns, int64_t least, int64_t most)
{
    return t_ns > most ? most : t_ns < least ? least : t_ns;
}

int tide_ring_read(struct tide_ring *ring, int fd, int64_t now_ns, bool last,
                   struct tide_ring_scratch *scratch, tide_ring_on_mark *on_mark, void *context,
                   struct tide_ring_counts *counts)
{
    struct tide_lane_head before, after;
    if (tide_ring_head(ring, fd, now_ns, &before))
        return -1;
    uint64_t head = atomic_load_explicit(&before.head, memory_order_relaxed);
    if (head - ring->next > TIDE_LANE_SLOTS) {
        counts->lost += head - ring->next - TIDE_LANE_SLOTS;
        ring->next = head - TIDE_LANE_SLOTS;
    }
    uint64_t count = head - ring->next;
    if (count == 0) {
        ring->seen = head;
        return 0;
    }
    /* Contents are read after the sequences: a complete sequence then guarantees complete contents. */
    if (read_slots(fd, ring->next, count, scratch->slots))
        return -1;
    for (uint64_t i = 0; i < count; i++)
        scratch->sequences[i] = atomic_load_explicit(&scratch->slots[i].sequence, memory_order_relaxed);
    if (read_slots(fd, ring->next, count, scratch->slots) || tide_ring_head(ring, fd, INT64_MAX, &after))
        return -1;
    uint64_t head_after = atomic_load_explicit(&after.head, memory_order_relaxed);
    if (head_after < head)
        return -1;
    size_t good = take_good(ring, scratch, count, head_after, last, counts);
    ring->seen = head;
    choose(scratch, good);
    for (size_t i = 0; i < good; i++) {
        if (!scratch->keep[i]) {
            counts->thinned++;
            continue;
        }
        struct tide_lane_slot *slot = &scratch->slots[i];
        slot->t_ns = ring->last_ns = clamp_time(slot->t_ns, ring->last_ns, now_ns);
        counts->events++;
        on_mark(context, ring->pid, ring->start_ticks, slot);
    }
    return 0;
}
