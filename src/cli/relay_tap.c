#include "cli/relay_tap.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum { RING = 1 << 20, PIECE = 16 * 1024 };

struct head {
    int64_t t_ns;
    uint32_t len; /* 0: a gap */
    uint32_t stream;
};

struct tide_tap {
    _Atomic uint64_t written, taken; /* bytes since the start */
    bool lost[2]; /* used by the writer: bytes of that stream were dropped since its last piece */
    char ring[RING];
};

struct tide_tap *tide_tap_new(void)
{
    void *memory =
        mmap(NULL, sizeof(struct tide_tap), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void tide_tap_free(struct tide_tap *tap)
{
    if (tap)
        munmap(tap, sizeof *tap);
}

static void copy_in(struct tide_tap *tap, uint64_t at, const void *bytes, size_t len)
{
    size_t from = at % RING, first = len < RING - from ? len : RING - from;
    memcpy(tap->ring + from, bytes, first);
    memcpy(tap->ring, (const char *)bytes + first, len - first);
}

static void copy_out(const struct tide_tap *tap, uint64_t at, void *bytes, size_t len)
{
    size_t from = at % RING, first = len < RING - from ? len : RING - from;
    memcpy(bytes, tap->ring + from, first);
    memcpy((char *)bytes + first, tap->ring, len - first);
}

static void put(struct tide_tap *tap, int stream, const char *bytes, size_t len, int64_t t_ns)
{
    uint64_t at = atomic_load_explicit(&tap->written, memory_order_relaxed);
    struct head head = {t_ns, (uint32_t)len, (uint32_t)stream};
    copy_in(tap, at, &head, sizeof head);
    copy_in(tap, at + sizeof head, bytes, len);
    atomic_store_explicit(&tap->written, at + sizeof head + len, memory_order_release);
}

void tide_tap_put(struct tide_tap *tap, int stream, const char *bytes, size_t len, int64_t t_ns)
{
    uint64_t used = atomic_load_explicit(&tap->written, memory_order_relaxed) -
                    atomic_load_explicit(&tap->taken, memory_order_acquire);
    if (len > RING || 2 * sizeof(struct head) + len > RING - used) {
        tap->lost[stream] = true;
        return;
    }
    if (tap->lost[stream])
        put(tap, stream, "", 0, t_ns);
    tap->lost[stream] = false;
    put(tap, stream, bytes, len, t_ns);
}

void tide_tap_take(struct tide_tap *tap, tide_relay_on_output *on_output, void *context)
{
    char bytes[PIECE];
    uint64_t at = atomic_load_explicit(&tap->taken, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&tap->written, memory_order_acquire);
    while (at < end) {
        struct head head;
        copy_out(tap, at, &head, sizeof head);
        at += sizeof head;
        if (!head.len)
            on_output(context, (int)head.stream, NULL, 0, head.t_ns);
        for (size_t left = head.len; left;) {
            size_t piece = left < PIECE ? left : PIECE;
            copy_out(tap, at, bytes, piece);
            on_output(context, (int)head.stream, bytes, piece, head.t_ns);
            at += piece;
            left -= piece;
        }
        atomic_store_explicit(&tap->taken, at, memory_order_release);
    }
}
