/*
 * unwind.c - the walk, and the table of rules it uses (unwind.h).
 *
 * The table is a hash of 2^15 words. A code address has 47 significant bits. Multiplied by an odd number
 * modulo 2^47, which loses nothing, its top 14 bits choose a pair of slots; the other 33 are stored beside
 * the rule's 31. So one word identifies its address exactly, and a reader never sees half a rule.
 */
#include "hook/unwind.h"
#include "hook/wiped.h"
#include "hook/cfi.h"
#include "hook/object.h"

#include <stdatomic.h>

#define MIX       UINT64_C(0x1e3779b97f4a7c15)
#define KEY_BITS  47
#define RULE_MASK ((UINT64_C(1) << TIDE_CFI_BITS) - 1)
enum { PAIR_BITS = 14, TAG_BITS = KEY_BITS - PAIR_BITS, SLOTS = 2 << PAIR_BITS };

_Static_assert(TAG_BITS + TIDE_CFI_BITS == 64, "a tag and a rule fill a word");

/* Offsets of the interrupted registers from the stack pointer at a signal's return trampoline (a
 * ucontext_t). */
enum { SIGNAL_BP = 120, SIGNAL_SP = 160, SIGNAL_PC = 168, SIGNAL_BYTES = 176 };

static _Alignas(4096) _Atomic uint64_t rules[SLOTS];

void tide_unwind_init(void)
{
    tide_wiped_count(rules, sizeof rules);
}

void tide_unwind_forget(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        atomic_store_explicit(&rules[i], 0, memory_order_relaxed);
}

/* `pair` is the two slots of the address. `tag` tells it from other addresses there, in the upper bits. */
static __attribute__((noinline, cold)) uint32_t learn(uintptr_t address, _Atomic uint64_t *pair, uint64_t tag)
{
    struct tide_object object;
    struct tide_cfi_rule rule = {.kind = TIDE_CFI_NONE};
    if (tide_object_find(address, &object))
        rule = tide_cfi_find(&object, address);
    uint32_t packed = tide_cfi_pack(rule);
    if (rule.kind == TIDE_CFI_NONE)
        return packed; /* not cached, because the object may still be loading */
    unsigned slot = !atomic_load_explicit(&pair[0], memory_order_relaxed)   ? 0
                    : !atomic_load_explicit(&pair[1], memory_order_relaxed) ? 1
                                                                            : (tag >> TIDE_CFI_BITS) & 1;
    atomic_store_explicit(&pair[slot], tag | packed, memory_order_relaxed);
    return packed;
}

static inline uint32_t rule_for(uintptr_t address)
{
    uint64_t mixed = (address * MIX) & ((UINT64_C(1) << KEY_BITS) - 1);
    uint64_t tag = mixed << TIDE_CFI_BITS; /* the bits that chose the pair fall off at the top */
    _Atomic uint64_t *pair = &rules[mixed >> TAG_BITS << 1];
    for (int i = 0; i < 2; i++) {
        uint64_t word = atomic_load_explicit(&pair[i], memory_order_relaxed);
        if ((word ^ tag) >> TIDE_CFI_BITS == 0 && word & RULE_MASK)
            return (uint32_t)(word & RULE_MASK);
    }
    return learn(address, pair, tag);
}

#if defined(__x86_64__)

static inline bool holds(const struct tide_unwind_stack *stack, uintptr_t address, size_t bytes)
{
    return address >= stack->low && address < stack->high && stack->high - address >= bytes && !(address & 7);
}

/* Reads between the variables of other functions, which a sanitizer would report. */
__attribute__((no_sanitize("address", "thread"))) static inline uintptr_t word_at(uintptr_t address)
{
    return *(const volatile uintptr_t *)address;
}

/* A walk in progress. */
struct walk {
    struct tide_unwind_frame frame;
    struct tide_unwind_stack stack;
};

static inline bool read_word(struct walk *w, uintptr_t at, uintptr_t *ret_word)
{
    if (!holds(&w->stack, at, 8))
        return false;
    *ret_word = word_at(at);
    return true;
}

/* Steps out of a signal handler, to the code it interrupted. */
static bool step_signal(struct walk *w)
{
    struct tide_unwind_stack *stack = &w->stack;
    uintptr_t sp = w->frame.sp;
    if (!holds(stack, sp, SIGNAL_BYTES))
        return false;
    w->frame = (struct tide_unwind_frame){
        .pc = word_at(sp + SIGNAL_PC), .sp = word_at(sp + SIGNAL_SP), .bp = word_at(sp + SIGNAL_BP)};
    if (holds(stack, w->frame.sp, 8))
        return true;
    stack->low = stack->other_low;
    stack->high = stack->other_high;
    return holds(stack, w->frame.sp, 8);
}

static inline bool step(struct walk *w, struct tide_cfi_rule rule)
{
    uintptr_t cfa = (rule.kind == TIDE_CFI_SP ? w->frame.sp : w->frame.bp) + (uintptr_t)(intptr_t)rule.offset;
    if (rule.kind == TIDE_CFI_BP_DEREF && !read_word(w, cfa, &cfa))
        return false;
    if (cfa <= w->frame.sp)
        return false;
    uintptr_t pc, bp_at = 0;
    if (rule.saved != TIDE_CFI_BP_SAME) {
        bp_at = rule.saved == TIDE_CFI_BP_AT_BP ? w->frame.bp : cfa - 8 * (uintptr_t)rule.saved;
        if (!holds(&w->stack, bp_at, 8))
            return false;
    }
    if (!read_word(w, cfa - 8, &pc))
        return false;
    if (bp_at)
        w->frame.bp = word_at(bp_at);
    w->frame.pc = pc;
    w->frame.sp = w->stack.low = cfa;
    return true;
}

void tide_unwind_walk(struct tide_unwind_frame frame, const struct tide_unwind_stack *where,
                      struct tide_unwind_trace *trace)
{
    struct walk w = {.frame = frame, .stack = *where};
    unsigned interrupted = 0; /* 1: pc is not a return address */
    trace->count = 0;
    trace->complete = trace->interrupted = false;
    if (frame.sp > w.stack.low)
        w.stack.low = frame.sp;
    while (trace->count < trace->room) {
        trace->words[trace->count++] = w.frame.pc + interrupted;
        struct tide_cfi_rule rule = tide_cfi_unpack(rule_for(w.frame.pc - 1 + interrupted));
        if (rule.kind == TIDE_CFI_END) {
            trace->complete = true;
            break;
        }
        if (rule.kind == TIDE_CFI_NONE)
            break;
        interrupted = rule.kind == TIDE_CFI_SIGNAL;
        trace->interrupted |= interrupted;
        if (interrupted ? !step_signal(&w) : !step(&w, rule))
            break;
        if (!w.frame.pc) {
            trace->complete = true;
            break;
        }
    }
}

#else

void tide_unwind_walk(struct tide_unwind_frame frame, const struct tide_unwind_stack *stack,
                      struct tide_unwind_trace *trace)
{
    (void)stack;
    trace->count = trace->room ? 1 : 0;
    trace->complete = false;
    trace->interrupted = true; /* unknown here */
    if (trace->room)
        trace->words[0] = frame.pc;
}

#endif
