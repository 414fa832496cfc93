#include "hook/pieces.h"
#include "hook/latch.h"

#include <string.h>

/* A piece of memory. The entry is free if nothing refers to it. */
struct piece {
    uint64_t bytes;
    uint32_t site, references, mappings;
};

/* Sorted by value, equal values by age. Of two pieces with the same handle the older is found, which is the
 * one that was released but not yet taken out. */
struct handle {
    uint64_t value;
    uint32_t piece;
};

static struct TIDE_WIPED {
    tide_latch latch;
    uint32_t next;      /* where to look for a free piece */
    atomic_size_t used; /* pieces */
    struct piece pieces[TIDE_PIECES_MOST];
    size_t handle_count;
    struct handle handles[TIDE_PIECES_MOST];
} self;

int tide_pieces_init(void)
{
    return tide_wiped_declare(&self, sizeof self);
}

bool tide_pieces_any(void)
{
    return atomic_load_explicit(&self.used, memory_order_relaxed) != 0;
}

/* Returns the index of the first handle that is not below `value`. */
static size_t first_from(uint64_t value)
{
    size_t low = 0, high = self.handle_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self.handles[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct handle *find(uint64_t value)
{
    size_t at = first_from(value);
    return at < self.handle_count && self.handles[at].value == value ? &self.handles[at] : NULL;
}

static bool insert(uint64_t value, uint32_t piece)
{
    if (self.handle_count == TIDE_PIECES_MOST)
        return false;
    size_t at = first_from(value);
    while (at < self.handle_count && self.handles[at].value == value)
        at++;
    memmove(&self.handles[at + 1], &self.handles[at], (self.handle_count - at) * sizeof *self.handles);
    self.handles[at] = (struct handle){.value = value, .piece = piece};
    self.handle_count++;
    return true;
}

static void erase(struct handle *handle)
{
    size_t after = self.handle_count-- - (size_t)(handle - self.handles) - 1;
    memmove(handle, handle + 1, after * sizeof *handle);
}

static void let_go(struct piece *piece, tide_pieces_gone *on_gone, void *context)
{
    if (piece->references || piece->mappings)
        return;
    atomic_fetch_sub_explicit(&self.used, 1, memory_order_relaxed);
    on_gone(context, piece->site, piece->bytes);
}

static enum tide_pieces_result create(uint64_t handle, uint64_t bytes, uint32_t site)
{
    if (atomic_load_explicit(&self.used, memory_order_relaxed) == TIDE_PIECES_MOST)
        return TIDE_PIECES_FULL;
    while (self.pieces[self.next].references || self.pieces[self.next].mappings)
        self.next = (self.next + 1) % TIDE_PIECES_MOST;
    if (!insert(handle, self.next))
        return TIDE_PIECES_FULL;
    self.pieces[self.next] = (struct piece){.bytes = bytes, .site = site, .references = 1};
    atomic_fetch_add_explicit(&self.used, 1, memory_order_relaxed);
    return TIDE_PIECES_DONE;
}

enum tide_pieces_result tide_pieces_create(uint64_t handle, uint64_t bytes, uint32_t site)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_PIECES_BUSY;
    enum tide_pieces_result result = create(handle, bytes, site);
    tide_latch_release(&self.latch);
    return result;
}

enum tide_pieces_result tide_pieces_map(uint64_t handle, uint32_t *ret_piece, uint32_t *ret_site)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_PIECES_BUSY;
    const struct handle *found = find(handle);
    if (found) {
        *ret_piece = found->piece;
        *ret_site = self.pieces[found->piece].site;
        self.pieces[found->piece].mappings++;
    }
    tide_latch_release(&self.latch);
    return found ? TIDE_PIECES_DONE : TIDE_PIECES_ABSENT;
}

enum tide_pieces_result tide_pieces_retain(uint64_t handle, uint32_t piece)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_PIECES_BUSY;
    struct piece *p = &self.pieces[piece];
    enum tide_pieces_result result = TIDE_PIECES_DONE;
    if (!p->references && !p->mappings) /* it was freed meanwhile */
        result = TIDE_PIECES_ABSENT;
    else if (!p->references && !insert(handle, piece))
        result = TIDE_PIECES_FULL;
    else
        p->references++;
    tide_latch_release(&self.latch);
    return result;
}

uint64_t tide_pieces_set_site(uint32_t piece, uint32_t site)
{
    if (!tide_latch_take(&self.latch))
        return 0;
    uint64_t bytes = self.pieces[piece].bytes;
    self.pieces[piece].site = site;
    tide_latch_release(&self.latch);
    return bytes;
}

enum tide_pieces_result tide_pieces_unmap(uint32_t piece, tide_pieces_gone *on_gone, void *context)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_PIECES_BUSY;
    self.pieces[piece].mappings--;
    let_go(&self.pieces[piece], on_gone, context);
    tide_latch_release(&self.latch);
    return TIDE_PIECES_DONE;
}

enum tide_pieces_result tide_pieces_release(uint64_t handle, tide_pieces_gone *on_gone, void *context)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_PIECES_BUSY;
    struct handle *found = find(handle);
    if (found) {
        struct piece *piece = &self.pieces[found->piece];
        if (--piece->references == 0)
            erase(found);
        let_go(piece, on_gone, context);
    }
    tide_latch_release(&self.latch);
    return found ? TIDE_PIECES_DONE : TIDE_PIECES_ABSENT;
}
