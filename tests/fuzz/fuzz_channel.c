/*
 * The reader of a lane against any contents: the input is the beginning of a lane file, the rest is zero. It
 * is read twice, with the head that stands in the first reserved bytes at the second time, as a writer that
 * went on (or broke the protocol) would leave it, and a third time as the lane of a process that is gone.
 */
#include "base/check.h"
#include "channel/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BIRTH_NS = 1000, NOW_NS = 1000000000 };

struct seen {
    int64_t last_ns;
    uint64_t count;
};

static void look(void *context, int64_t pid, uint64_t start_ticks, const struct tide_lane_slot *slot)
{
    struct seen *seen = context;
    TIDE_CHECK(pid, ==, 0);
    TIDE_CHECK(start_ticks, ==, 0);
    TIDE_CHECK(slot->t_ns, >=, seen->last_ns);
    TIDE_CHECK(slot->t_ns, <=, NOW_NS);
    TIDE_CHECK(slot->kind, >=, TIDE_MARK_STEP);
    TIDE_CHECK(slot->kind, <=, TIDE_MARK_GAUGE);
    TIDE_CHECK(slot->number, <=, INT64_C(1) << 53);
    TIDE_CHECK(slot->number, >=, -(INT64_C(1) << 53));
    TIDE_CHECK(strnlen(slot->name, TIDE_LANE_NAME), <, TIDE_LANE_NAME);
    seen->last_ns = slot->t_ns;
    seen->count++;
}

/* Every slot that was passed is given, thinned or lost, and nothing twice. */
static int read_once(struct tide_ring *ring, int fd, bool last, struct tide_ring_scratch *scratch,
                     struct seen *seen)
{
    struct tide_ring_counts counts = {0};
    uint64_t before = ring->next, given = seen->count;
    int refused = tide_ring_read(ring, fd, NOW_NS, last, scratch, look, seen, &counts);
    TIDE_CHECK(counts.events, ==, seen->count - given);
    TIDE_CHECK(ring->next, ==, before + counts.events + counts.thinned + counts.lost);
    if (last && !refused)
        TIDE_CHECK(ring->next, ==, ring->seen);
    return refused;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tide_ring_scratch *scratch;
    static int fd = -1;
    if (!scratch) {
        scratch = tide_ring_scratch_new();
        fd = memfd_create("lane", MFD_CLOEXEC);
    }
    TIDE_CHECK(fd, >=, 0);
    TIDE_CHECK_TRUE(scratch != NULL);
    if (size > TIDE_LANE_BYTES)
        size = TIDE_LANE_BYTES;
    bool whole = size >= sizeof(struct tide_lane_head);
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size ||
        (whole && ftruncate(fd, (off_t)TIDE_LANE_BYTES)))
        return 0;
    struct tide_ring ring = {.last_ns = BIRTH_NS, .birth_ns = BIRTH_NS};
    struct seen seen = {.last_ns = BIRTH_NS};
    if (read_once(&ring, fd, false, scratch, &seen) || !whole)
        return 0;
    const uint8_t *second = data + offsetof(struct tide_lane_head, reserved);
    if (pwrite(fd, second, sizeof(uint64_t), offsetof(struct tide_lane_head, head)) != sizeof(uint64_t))
        return 0;
    if (!read_once(&ring, fd, false, scratch, &seen))
        read_once(&ring, fd, true, scratch, &seen);
    return 0;
}
