/*
 * device.c - pieces of device memory, their handles and their mappings (device.h).
 */
#include "hook/device.h"
#include "hook/latch.h"

#include <string.h>

/* A piece of memory; free when nothing refers to it. */
struct piece {
    uint64_t bytes;
    uint32_t site, references, mappings;
};

/* Keys in order, equal ones in the order they came: of two pieces with one handle the older is found, which
 * is the one that was released and not yet taken out. */
struct item {
    uint64_t key, end; /* end: of a mapping */
    uint32_t piece;
};

struct list {
    size_t count;
    struct item at[TIDE_DEVICE_MOST];
};

static struct TIDE_WIPED {
    tide_latch latch;
    uint32_t next;      /* where to look for a free piece */
    atomic_size_t used; /* pieces */
    struct piece pieces[TIDE_DEVICE_MOST];
    struct list handles, mappings;
} self;

int tide_device_init(void)
{
    return tide_wiped_declare(&self, sizeof self);
}

bool tide_device_any(void)
{
    return atomic_load_explicit(&self.used, memory_order_relaxed) != 0;
}

/* The first item whose key is not below. */
static size_t first_from(const struct list *list, uint64_t key)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->at[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(struct list *list, struct item item)
{
    if (list->count == TIDE_DEVICE_MOST)
        return false;
    size_t at = first_from(list, item.key);
    while (at < list->count && list->at[at].key == item.key)
        at++;
    memmove(&list->at[at + 1], &list->at[at], (list->count - at) * sizeof *list->at);
    list->at[at] = item;
    list->count++;
    return true;
}

static void erase(struct list *list, size_t at)
{
    list->count--;
    memmove(&list->at[at], &list->at[at + 1], (list->count - at) * sizeof *list->at);
}

static struct item *find_handle(uint64_t handle)
{
    size_t at = first_from(&self.handles, handle);
    return at < self.handles.count && self.handles.at[at].key == handle ? &self.handles.at[at] : NULL;
}

static struct item *find_mapping(uint64_t address)
{
    size_t at = first_from(&self.mappings, address);
    if (at < self.mappings.count && self.mappings.at[at].key == address)
        return &self.mappings.at[at];
    return at && self.mappings.at[at - 1].end > address ? &self.mappings.at[at - 1] : NULL;
}

static void let_go(struct piece *piece, tide_device_gone *on_gone, void *context)
{
    if (piece->references || piece->mappings)
        return;
    atomic_fetch_sub_explicit(&self.used, 1, memory_order_relaxed);
    on_gone(context, piece->site, piece->bytes);
}

static enum tide_device_result create(uint64_t handle, uint64_t bytes, uint32_t site)
{
    if (atomic_load_explicit(&self.used, memory_order_relaxed) == TIDE_DEVICE_MOST)
        return TIDE_DEVICE_FULL;
    while (self.pieces[self.next].references || self.pieces[self.next].mappings)
        self.next = (self.next + 1) % TIDE_DEVICE_MOST;
    if (!insert(&self.handles, (struct item){.key = handle, .piece = self.next}))
        return TIDE_DEVICE_FULL;
    self.pieces[self.next] = (struct piece){.bytes = bytes, .site = site, .references = 1};
    atomic_fetch_add_explicit(&self.used, 1, memory_order_relaxed);
    return TIDE_DEVICE_DONE;
}

enum tide_device_result tide_device_create(uint64_t handle, uint64_t bytes, uint32_t site)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_DEVICE_BUSY;
    enum tide_device_result result = create(handle, bytes, site);
    tide_latch_release(&self.latch);
    return result;
}

enum tide_device_result tide_device_retain(uint64_t handle, uint64_t address)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_DEVICE_BUSY;
    enum tide_device_result result = TIDE_DEVICE_DONE;
    struct item *mapping = find_mapping(address);
    if (!mapping)
        result = TIDE_DEVICE_ABSENT;
    else if (!self.pieces[mapping->piece].references &&
             !insert(&self.handles, (struct item){.key = handle, .piece = mapping->piece}))
        result = TIDE_DEVICE_FULL;
    else
        self.pieces[mapping->piece].references++;
    tide_latch_release(&self.latch);
    return result;
}

enum tide_device_result tide_device_map(uint64_t address, uint64_t bytes, uint64_t handle, uint32_t *ret_site)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_DEVICE_BUSY;
    enum tide_device_result result = TIDE_DEVICE_DONE;
    struct item *item = find_handle(handle);
    if (!item)
        result = TIDE_DEVICE_ABSENT;
    else if (!insert(&self.mappings,
                     (struct item){.key = address, .end = address + bytes, .piece = item->piece}))
        result = TIDE_DEVICE_FULL;
    else {
        self.pieces[item->piece].mappings++;
        *ret_site = self.pieces[item->piece].site;
    }
    tide_latch_release(&self.latch);
    return result;
}

uint64_t tide_device_hand_over(uint64_t address, uint32_t site)
{
    if (!tide_latch_take(&self.latch))
        return 0;
    struct item *mapping = find_mapping(address);
    struct piece *piece = mapping ? &self.pieces[mapping->piece] : NULL;
    if (piece)
        piece->site = site;
    tide_latch_release(&self.latch);
    return piece ? piece->bytes : 0;
}

enum tide_device_result tide_device_unmap(uint64_t address, uint64_t bytes, tide_device_gone *on_gone,
                                          void *context)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_DEVICE_BUSY;
    enum tide_device_result result = TIDE_DEVICE_ABSENT;
    struct list *list = &self.mappings;
    size_t at = first_from(list, address);
    while (at < list->count && list->at[at].key - address < bytes) {
        if (list->at[at].end - address > bytes) {
            at++;
            continue;
        }
        struct piece *piece = &self.pieces[list->at[at].piece];
        erase(list, at);
        piece->mappings--;
        let_go(piece, on_gone, context);
        result = TIDE_DEVICE_DONE;
    }
    tide_latch_release(&self.latch);
    return result;
}

enum tide_device_result tide_device_release(uint64_t handle, tide_device_gone *on_gone, void *context)
{
    if (!tide_latch_take(&self.latch))
        return TIDE_DEVICE_BUSY;
    struct item *item = find_handle(handle);
    if (item) {
        struct piece *piece = &self.pieces[item->piece];
        if (--piece->references == 0)
            erase(&self.handles, (size_t)(item - self.handles.at));
        let_go(piece, on_gone, context);
    }
    tide_latch_release(&self.latch);
    return item ? TIDE_DEVICE_DONE : TIDE_DEVICE_ABSENT;
}
