/*
 * recorder.h - puts an allocation and its call stack into the table: the slow half of every hooked function.
 *
 * The fast half is tide_recorder_due() and tide_pointers_may_hold(): a few instructions without a lock. The
 * rest runs only for allocations that are sampled or large, and for their frees. A nested allocation (in a
 * signal handler that interrupted the recorder, or in the C library when the recorder calls it) is not
 * recorded. errno is preserved.
 */
#ifndef TIDE_RECORDER_H
#define TIDE_RECORDER_H

#include "channel/heap.h"
#include "hook/pointers.h"
#include "hook/ranges.h"
#include "hook/unwind.h"

enum {
    TIDE_RECORDER_DEFERRED = 16,
    TIDE_RECORDER_PIECES = 8,  /* of one mapping that is moved by mremap */
    TIDE_RECORDER_NATIVE = 256 /* words walked before Python frames are merged in */
};

/* Where a thread is: outside the recorder, in it, or in the C library, called by the recorder. */
enum { TIDE_RECORDER_OUT, TIDE_RECORDER_IN, TIDE_RECORDER_INTERNAL };

/* When a thread takes its next sample. */
struct tide_sampling {
    int64_t left;    /* bytes until the next sample */
    double interval; /* the mean that `left` was drawn with; 0: not drawn yet */
    uint64_t random;
};

/* The state of a thread. All zeros is a new thread. */
struct tide_local {
    struct tide_sampling blocks, tensors;
    uintptr_t stack_low, stack_high; /* 0: not asked yet */
    uintptr_t entered_at;            /* stack address at which the guard went up */
    int saved_errno;                 /* errno at that moment */
    volatile uint8_t guard;          /* TIDE_RECORDER_OUT, ... */
    atomic_bool any_deferred;
    _Atomic uintptr_t
        deferred[TIDE_RECORDER_DEFERRED]; /* freed by a signal handler while the guard was up; 0: none */
    /* The call stack being recorded, while the guard is up. Not kept on the thread's stack, which may be a
     * signal handler's few KiB. */
    uint64_t native[TIDE_RECORDER_NATIVE], merged[TIDE_HEAP_DEPTH];
    bool uninterrupted; /* the last stack was walked to its end, and no signal handler was on it */
};

extern __thread struct tide_local tide_local __attribute__((tls_model("initial-exec")));

/* All allocations of at least this size are recorded. SIZE_MAX while recording is off. */
extern _Atomic size_t tide_recorder_exact;

/* From a constructor, on the main thread, after tide_object_init(). interval_bytes is the mean between
 * samples. first_seed: if not 0, a program with one thread gets the same samples each time. -1: cannot work
 * here. */
int tide_recorder_init(uint64_t interval_bytes, uint64_t first_seed);

/* Makes the table. Recording begins if `state` is TIDE_HEAP_ON, _REPLACED or _OWN_NEW. */
void tide_recorder_start(enum tide_heap_state state);

/* Nothing will be recorded in this process. */
void tide_recorder_refuse(void);

/* Counts the bytes. True if this allocation must be passed to tide_recorder_allocated(). */
static inline bool tide_recorder_due(size_t bytes)
{
    if (__builtin_expect(bytes >= atomic_load_explicit(&tide_recorder_exact, memory_order_relaxed), 0))
        return true;
    return __builtin_expect((tide_local.blocks.left -= (int64_t)bytes) < 0, 0);
}

/* The same for a tensor. Tensors are larger than blocks and their stacks deeper, so fewer are recorded: all
 * only from the mean between two samples on. */
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

/* Records a block that was due. NULL is ignored. A pool's block (TIDE_SITE_POOL) or a tensor has an address
 * below TIDE_POINTERS_POOL, and is freed by the key tide_pointers_pooled(). */
void tide_recorder_allocated(enum tide_site_kind kind, const void *pointer, size_t bytes,
                             struct tide_unwind_frame caller);

/* A block that may be in the map is about to be freed or moved. Returns what it counted for (blocks = 0: it
 * was not in the map). If the free fails, tide_recorder_put_back() undoes it. */
struct tide_pointers_block tide_recorder_take(const void *pointer);
void tide_recorder_put_back(const void *pointer, struct tide_pointers_block block);

/* For every tensor, sampled or not: subtracts its bytes from the site of the segment that it lies in;
 * negative bytes are added back. So that site keeps exactly what no tensor takes up. */
void tide_recorder_tensor_bytes(uintptr_t address, int64_t bytes);

/* Memory was mapped (open), or address space was reserved (not open). */
void tide_recorder_mapped(const void *pointer, size_t bytes, bool open, struct tide_unwind_frame caller);

/* Memory or address space is about to be unmapped. */
void tide_recorder_unmapped(const void *pointer, size_t bytes);

/* Reservations became writable (open), or memory became a reservation (not open). */
void tide_recorder_protected(const void *pointer, size_t bytes, bool open, struct tide_unwind_frame caller);

/* Takes out a mapping that will move. If it does, report the new place as mapped or reserved. If not, call
 * tide_recorder_stayed(), which puts it back. */
struct tide_recorder_moving {
    size_t mapped, count; /* pieces: the mappings first, then the reservations */
    size_t lost;          /* further pieces, which found no room here */
    struct tide_range pieces[TIDE_RECORDER_PIECES];
};
struct tide_recorder_moving tide_recorder_moving(const void *pointer, size_t bytes);
void tide_recorder_stayed(const struct tide_recorder_moving *moving);

/* To be put around a call of the C library that allocates while it holds a lock that the recorder needs:
 * nothing is recorded in between. False if recording was paused already; then the caller must not resume. */
bool tide_recorder_pause(void);
void tide_recorder_resume(void);

/* True if allocations are recorded in this process. */
bool tide_recorder_works(void);

/* Records a block of any size. Its key must not be a host address that malloc may return. Frees go through
 * tide_recorder_take() and tide_recorder_put_back(). */
void tide_recorder_block(enum tide_site_kind kind, const void *key, size_t bytes,
                         struct tide_unwind_frame caller);

/* The same for device memory that a pool may cut up. */
void tide_recorder_segment(uint64_t address, size_t bytes, struct tide_unwind_frame caller);

/* Sets what the head of the table says about the CUDA driver. */
void tide_recorder_cuda(enum tide_heap_cuda what);

/* Device memory that is created without an address (pieces.h). Called after the driver's call succeeded. */
void tide_recorder_device_created(enum tide_site_kind kind, uint64_t handle, size_t bytes,
                                  struct tide_unwind_frame caller);
void tide_recorder_device_mapped(uint64_t address, size_t bytes, uint64_t handle);
void tide_recorder_device_unmapped(uint64_t address, size_t bytes);
void tide_recorder_device_retained(uint64_t handle, uint64_t address);
void tide_recorder_device_released(uint64_t handle);

/* An object was unloaded. */
void tide_recorder_unloaded(void);

#endif
