/*
 * recall.c - stacks seen before (recall.h).
 *
 * A hash of where a stack begins chooses a set, and is kept as a tag: one cache line tells which of the set's
 * stacks can be meant. A thread has a stack's notes to itself while it compares them or writes new ones; who
 * finds them taken does without.
 */
#include "hook/recall.h"
#include "hook/wiped.h"

struct set {
    _Atomic uint64_t tags[TIDE_RECALL_WAYS]; /* 0: nothing there */
};

static struct TIDE_WIPED {
    struct set sets[TIDE_RECALL_SETS];
    _Atomic uint8_t turns[TIDE_RECALL_SETS]; /* which way is given up next */
    _Alignas(4096) struct tide_recall_notes notes[TIDE_RECALL_SETS][TIDE_RECALL_WAYS];
} self;

static atomic_uint generation;

int tide_recall_init(void)
{
    return tide_wiped_declare(&self, sizeof self);
}

void tide_recall_forget(void)
{
    atomic_fetch_add(&generation, 1);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

static uint64_t tag_of(const struct tide_recall_place *place)
{
    uint64_t hash = mix(mix(mix((uint64_t)place->kind, place->caller.pc), place->caller.sp),
                        (uint64_t)place->python ^ place->python_hash);
    return hash ? hash : 1;
}

static bool is_same_place(const struct tide_recall_notes *notes, const struct tide_recall_place *place)
{
    const struct tide_recall_place *kept = &notes->place;
    return kept->caller.pc == place->caller.pc && kept->caller.sp == place->caller.sp &&
           kept->kind == place->kind && kept->stack_high == place->stack_high &&
           kept->python == place->python && (!notes->needs_bp || kept->caller.bp == place->caller.bp);
}

/* Among the variables of other functions, where a sanitizer would see a trespass. */
__attribute__((no_sanitize("address", "thread"))) static bool still_hold(const struct tide_recall_fact *facts,
                                                                         const struct tide_recall_fact *end)
{
    for (; facts < end; facts++) {
        if (facts->at & TIDE_RECALL_NARROW) {
            uint32_t now = *(const volatile uint32_t *)(facts->at - TIDE_RECALL_NARROW);
            if ((now & facts->value >> 32) != (uint32_t)facts->value)
                return false;
        } else if (*(const volatile uint64_t *)facts->at != facts->value) {
            return false;
        }
    }
    return true;
}

static bool take(struct tide_recall_notes *notes)
{
    return !atomic_exchange_explicit(&notes->busy, true, memory_order_acquire);
}

static void let_go(struct tide_recall_notes *notes)
{
    atomic_store_explicit(&notes->busy, false, memory_order_release);
}

/* The way in which a new stack is noted. */
static unsigned free_way(unsigned at, unsigned stale)
{
    if (stale < TIDE_RECALL_WAYS)
        return stale;
    for (unsigned way = 0; way < TIDE_RECALL_WAYS; way++)
        if (!atomic_load_explicit(&self.sets[at].tags[way], memory_order_relaxed))
            return way;
    return atomic_fetch_add_explicit(&self.turns[at], 1, memory_order_relaxed) % TIDE_RECALL_WAYS;
}

static struct tide_recall_notes *begin(const struct tide_recall_place *place, uint64_t tag, unsigned at,
                                       unsigned way)
{
    struct tide_recall_notes *notes = &self.notes[at][way];
    if (!take(notes))
        return NULL;
    atomic_store_explicit(&self.sets[at].tags[way], tag, memory_order_relaxed);
    notes->spoiled = notes->needs_bp = false;
    notes->count = 0;
    notes->site = -1;
    notes->generation = atomic_load(&generation);
    notes->place = *place;
    return notes;
}

int32_t tide_recall_find(const struct tide_recall_place *place, struct tide_recall_notes **ret_notes)
{
    uint64_t tag = tag_of(place);
    unsigned at = tag % TIDE_RECALL_SETS, stale = TIDE_RECALL_WAYS;
    unsigned now = atomic_load_explicit(&generation, memory_order_relaxed);
    for (unsigned way = 0; way < TIDE_RECALL_WAYS; way++) {
        if (atomic_load_explicit(&self.sets[at].tags[way], memory_order_relaxed) != tag)
            continue;
        struct tide_recall_notes *notes = &self.notes[at][way];
        if (!take(notes))
            continue;
        bool is_current = notes->site >= 0 && notes->generation == now;
        int32_t site =
            is_current && is_same_place(notes, place) && still_hold(notes->facts, notes->facts + notes->count)
                ? notes->site
                : -1;
        let_go(notes);
        if (site >= 0)
            return site;
        if (!is_current)
            stale = way;
    }
    *ret_notes = begin(place, tag, at, free_way(at, stale));
    return -1;
}

void tide_recall_keep(struct tide_recall_notes *notes, int32_t site)
{
    if (!notes)
        return;
    notes->site = notes->spoiled ? -1 : site;
    let_go(notes);
}
