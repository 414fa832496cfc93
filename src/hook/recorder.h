/*
 * recorder.h - from "this was allocated here" to the table: the slow half of every hooked function.
 *
 * The fast half is tide_recorder_due() and tide_pointers_may_hold(): a few instructions without a lock. All
 * else happens for the few allocations that are sampled or large, and for frees of those. Re-entry (an
 * allocation in a signal handler that interrupted the recorder, or one that the C library makes on our
 * behalf) passes unrecorded. errno is kept.
 */
#ifndef TIDE_RECORDER_H
#define TIDE_RECORDER_H

#include "channel/heap.h"
#include "hook/pointers.h"
#include "hook/ranges.h"
#include "hook/unwind.h"

enum {
    TIDE_RECORDER_DEFERRED = 16,
    TIDE_RECORDER_PIECES = 8,  /* of one mapping that is moved */
    TIDE_RECORDER_NATIVE = 256 /* words walked before Python frames are merged in */
};

/* Where a thread is: outside, in the recorder, or in the C library on the recorder's behalf. */
enum { TIDE_RECORDER_OUT, TIDE_RECORDER_IN, TIDE_RECORDER_INTERNAL };

/* When a thread takes its next sample. */
struct tide_sampling {
    int64_t left;    /* bytes until then */
    double interval; /* the mean that `left` was drawn with; 0: not drawn yet */
    uint64_t random;
};

/* What a thread knows. All zeros is a new thread. */
struct tide_local {
    struct tide_sampling blocks, tensors;
    uintptr_t stack_low, stack_high; /* 0: not asked yet */
    uintptr_t entered_at;            /* stack address at which the guard was put up */
    int saved_errno;                 /* what errno was then */
    volatile uint8_t guard;          /* TIDE_RECORDER_OUT, ... */
    atomic_bool any_deferred;
    _Atomic uintptr_t
        deferred[TIDE_RECORDER_DEFERRED]; /* freed by a handler while the guard was up; 0: none */
    /* The stack at hand, while the guard is up: not on the stack itself, which may be a signal handler's few
     * KiB. */
    uint64_t native[TIDE_RECORDER_NATIVE], merged[TIDE_HEAP_DEPTH];
    bool uninterrupted; /* the last stack was seen to its end, and no signal handler on it */
};

extern __thread struct tide_local tide_local __attribute__((tls_model("initial-exec")));

/* Allocations from this size on are all recorded. SIZE_MAX while nothing is. */
extern _Atomic size_t tide_recorder_exact;

/* From a constructor, on the main thread, after tide_object_init(). interval_bytes: mean between samples.
 * first_seed: 0, or what makes the samples of a program with one thread the same each time. -1: cannot work
 * here. */
int tide_recorder_init(uint64_t interval_bytes, uint64_t first_seed);

/* Makes the table and, if what it says of the process is TIDE_HEAP_ON, _REPLACED or _OWN_NEW, begins. */
void tide_recorder_start(enum tide_heap_state state);

/* Nothing will be recorded in this process. */
void tide_recorder_refuse(void);

/* Counts the bytes; whether this allocation must go through tide_recorder_allocated(). */
static inline bool tide_recorder_due(size_t bytes)
{
    if (__builtin_expect(bytes >= atomic_load_explicit(&tide_recorder_exact, memory_order_relaxed), 0))
        return true;
    return __builtin_expect((tide_local.blocks.left -= (int64_t)bytes) < 0, 0);
}

/* The same of a tensor. Tensors are larger than blocks and their stacks
 * deeper, so fewer are looked at: all of them only from the mean between two samples on. */
static inline bool tide_recorder_tensor_is_exact(size_t bytes)
{
    return bytes / (4 * TIDE_HEAP_TENSORS) >=
           atomic_load_explicit(&tide_recorder_exact, memory_order_relaxed);
}

static inline bool tide_recorder_tensor_due(size_t bytes)
{
    if (__builtin_expect(tide_recorder_tensor_is_exact(bytes), 0))
        return true;
    return __builtin_expect((tide_local.tensors.left -= (int64_t)bytes) < 0, 0);
}

/* A block that was due came to be. NULL is ignored. One of a pool (TIDE_SITE_POOL) or a tensor lies below
 * TIDE_POINTERS_POOL, and is freed by its key, tide_pointers_pooled(). */
void tide_recorder_allocated(enum tide_site_kind kind, const void *pointer, size_t bytes,
                             struct tide_unwind_frame caller);

/* A block that may be in the map is about to be freed or moved: what it counted for, blocks 0 if nothing, so
 * that tide_recorder_put_back can undo it when it was not. */
struct tide_pointers_block tide_recorder_take(const void *pointer);
void tide_recorder_put_back(const void *pointer, struct tide_pointers_block block);

/* Of every tensor, sampled or not: its bytes are taken off the site of the segment it lies in, or with
 * negative ones given back. So what is left there is exactly what no tensor takes up. */
void tide_recorder_tensor_bytes(uintptr_t address, int64_t bytes);

/* Memory mapped, address space reserved, unmapped: after, after and before the system call. */
void tide_recorder_mapped(const void *pointer, size_t bytes, struct tide_unwind_frame caller);
void tide_recorder_reserved(const void *pointer, size_t bytes);
void tide_recorder_unmapped(const void *pointer, size_t bytes);

/* Reservations became writable (open), or memory became a reservation. */
void tide_recorder_protected(const void *pointer, size_t bytes, bool open, struct tide_unwind_frame caller);

/* What is about to be moved is taken out. It moved: tell it as mapped or reserved, there. It stayed: */
struct tide_recorder_moving {
    size_t count;
    struct tide_range pieces[TIDE_RECORDER_PIECES];
    bool reserved;
};
struct tide_recorder_moving tide_recorder_moving(const void *pointer, size_t bytes);
void tide_recorder_stayed(const struct tide_recorder_moving *moving);

/* Around a call of the C library that allocates while it holds a lock that the recorder would ask for: what
 * it allocates is not recorded. false: it was not anyway, and there is nothing to resume. */
bool tide_recorder_pause(void);
void tide_recorder_resume(void);

/* Whether allocations are recorded in this process. */
bool tide_recorder_works(void);

/* A block that is recorded whatever its size. key: what it is known by; not a host address that malloc may
 * give out. tide_recorder_take() and tide_recorder_put_back() do the rest. */
void tide_recorder_block(enum tide_site_kind kind, const void *key, size_t bytes,
                         struct tide_unwind_frame caller);

/* The same of device memory that a pool may cut up. */
void tide_recorder_segment(uint64_t address, size_t bytes, struct tide_unwind_frame caller);

/* What the head of the table says of the CUDA driver. */
void tide_recorder_cuda(enum tide_heap_cuda what);

/* Device memory that is made without an address (pieces.h), each after the driver's call succeeded. */
void tide_recorder_device_created(enum tide_site_kind kind, uint64_t handle, size_t bytes,
                                  struct tide_unwind_frame caller);
void tide_recorder_device_mapped(uint64_t address, size_t bytes, uint64_t handle);
void tide_recorder_device_unmapped(uint64_t address, size_t bytes);
void tide_recorder_device_retained(uint64_t handle, uint64_t address);
void tide_recorder_device_released(uint64_t handle);

/* An object was unloaded. */
void tide_recorder_unloaded(void);

#endif
