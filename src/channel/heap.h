/*
 * heap.h - the layout of the table in which a tracked process keeps its live memory by call stack.
 *
 * libtidemark-hook.so, preloaded into the target, creates one file per program image in the channel directory
 * (file.h): "heap-PID-START", and after each exec of the same process "heap-PID-START-N", N = 1, 2, ... The
 * image with the highest N is the running one; the memory of older ones ended with the exec. A forked child
 * creates its own file at its first sample and starts empty. The tracker reads with pread only.
 *
 * The file has TIDE_HEAP_BYTES and is sparse: six areas at fixed offsets, each append-only. Blocks are
 * allocated in chunks before they are written. Once written, only the counters of sites and of the head
 * change.
 *
 *     head | sites | frames | codes | modules | text
 *
 * Writing: a writer takes an entry's number from the count in the head with an atomic add, so several threads
 * can append. It fills the entry and sets `ready` last (release). When an area is full, its count may exceed
 * the capacity: clamp it. An entry below the count that is not ready is being written, or its writer died:
 * look again at the next read. Everything an entry refers to (frames, codes, text) was complete before its
 * `ready`, with one exception: a module may appear after the first site that runs through it, or never (code
 * generated at run time).
 *
 * A stack is `depth` words of the frames area from `frames_at` on, innermost first:
 *     bit 63 clear: a native return address. Always look up the address minus one: the hook has added one to
 *                   the few that are not return addresses (code interrupted by a signal).
 *     bit 63 set:   a Python frame: TIDE_HEAP_CODE_OF(word) is an entry of codes, TIDE_HEAP_LINE_OF(word) the
 *                   line it was executing (0: unknown).
 * Return addresses of the interpreter itself, between two Python frames, are left out.
 *
 * The values of a site are already scaled, without bias: an allocation of s bytes that was sampled with
 * probability p counts s/p bytes and 1/p blocks (rounded at random, so that the mean is exact). One that is
 * always recorded counts as itself. Sampled and exact allocations of one stack share a site. A live value can
 * be negative for a moment, when one thread's free is counted before another thread's allocation is complete.
 *
 * All numbers are little-endian native; another layout has another magic.
 */
#ifndef TIDE_HEAP_H
#define TIDE_HEAP_H

#include "base/kinds.h"

#include <stdatomic.h>
#include <stdint.h>

#define TIDE_HEAP_ENV           "TIDEMARK_HEAP" /* mean bytes between samples, decimal; absent: no hook */
#define TIDE_HEAP_OBJECTS_ENV   "TIDEMARK_PYTHON_OBJECTS"    /* 1: also every small object of Python */
#define TIDE_HEAP_NO_CENSUS_ENV "TIDEMARK_NO_CENSUS"         /* 1: do not ask Python who holds tensors */
#define TIDE_HEAP_MAGIC         UINT64_C(0x3170616568646974) /* the bytes "tidheap1" */

enum {
    TIDE_HEAP_SITES = 65536,
    TIDE_HEAP_FRAMES = 2097152, /* words */
    TIDE_HEAP_CODES = 32768,
    TIDE_HEAP_MODULES = 4096,
    TIDE_HEAP_TEXT = 4194304,    /* bytes; offset 0 is the empty string */
    TIDE_HEAP_DEPTH = 128,       /* words of one stack at most */
    TIDE_HEAP_STRING = 512,      /* bytes of one string, with its NUL; a longer path keeps its end */
    TIDE_HEAP_INTERVAL = 524288, /* the default mean between samples */
    TIDE_HEAP_TENSORS = 32       /* mean for tensors, as a multiple; larger tensors are all recorded */
};

/* Why there are sites, or why there are none. */
enum tide_heap_state {
    TIDE_HEAP_STARTING, /* the table is being made */
    TIDE_HEAP_ON,
    TIDE_HEAP_REPLACED,     /* the program has its own malloc, ahead of any preloaded one: only mappings are
                               seen */
    TIDE_HEAP_SANITIZED,    /* the program is built with a sanitizer: its allocator must be left alone */
    TIDE_HEAP_UNKNOWN_LIBC, /* a C library function to pass calls on to was not found: nothing is recorded */
    TIDE_HEAP_OWN_NEW,      /* a library replaces malloc and serves C++ new without it: not seen */
};

/* State of Python frames in the stacks. */
enum tide_heap_python {
    TIDE_HEAP_PYTHON_NONE, /* no interpreter seen */
    TIDE_HEAP_PYTHON_ON,
    TIDE_HEAP_PYTHON_VERSION, /* an interpreter of a version whose layout is not known here */
    TIDE_HEAP_PYTHON_CHECK    /* the self-check failed: the layout is not that of its version */
};

/* State of the CUDA driver's library. */
enum tide_heap_cuda {
    TIDE_HEAP_CUDA_NONE, /* not seen */
    TIDE_HEAP_CUDA_ON,
    TIDE_HEAP_CUDA_INCOMPLETE, /* it lacks functions that every driver has: left alone */
    TIDE_HEAP_CUDA_SECOND      /* there are two: the one loaded later is left alone */
};

/* Site flags. */
enum {
    TIDE_HEAP_TRUNCATED =
        1, /* the stack continues beyond its last word: too deep, or code without unwind tables */
};

struct tide_heap_head {
    uint64_t magic; /* written last by the creator */
    uint32_t pid;
    uint32_t image; /* N of the file name, 0 for the first */
    uint64_t start_ticks;
    uint32_t reserved0[10];
    _Atomic uint64_t exact_bytes;    /* allocations of this size or more are all counted, not sampled */
    _Atomic uint64_t interval_bytes; /* current mean between samples; grows when a table fills up */
    _Atomic uint32_t state;          /* enum tide_heap_state */
    _Atomic uint32_t python;         /* enum tide_heap_python */
    _Atomic uint32_t python_version; /* PY_VERSION_HEX of the interpreter, 0: none */
    _Atomic uint32_t cuda;           /* enum tide_heap_cuda */
    /* Entries taken in each area; may exceed the capacity. */
    _Atomic uint64_t site_count, frame_count, code_count, module_count, text_count;
    /* Events since the table was made. */
    _Atomic uint64_t sampled;          /* allocations recorded in the table, exact ones included */
    _Atomic uint64_t dropped_sites;    /* samples lost because sites or frames were full */
    _Atomic uint64_t dropped_pointers; /* samples lost because the map of live pointers was full or busy */
    _Atomic uint64_t lost_frees; /* frees of sampled pointers that could not be recorded: live is too high */
    _Atomic uint64_t nested;     /* allocations inside a signal handler that interrupted the hook: not seen */
    _Atomic uint64_t truncated;  /* samples with an incomplete stack */
    _Atomic uint64_t python_failed; /* samples whose Python frames could not be read */
    _Atomic uint64_t unwinds;       /* stacks for which a site was looked up */
    _Atomic uint64_t unwinds_timed; /* of these, how many were timed, */
    _Atomic uint64_t unwind_ns;     /* and the total time of those */
    _Atomic uint64_t coarsened;     /* times the interval was doubled */
    _Atomic uint64_t own_bytes; /* of the process's anonymous memory, what belongs to the hook. Updated at a
                                   sample, at most four times a second; 0: not known */
    _Atomic uint64_t live_pointers; /* entries in the map of live pointers */
    /* What the C library's malloc keeps, when it was last asked (allocator.h). */
    _Atomic uint64_t
        allocator_readings;            /* 0: another allocator serves the program, or it was not asked yet */
    _Atomic uint64_t allocator_ns;     /* total CPU time that asking took */
    _Atomic uint64_t allocator_system; /* bytes from the system for its arenas */
    _Atomic uint64_t allocator_mapped; /* bytes mapped for single large blocks */
    _Atomic uint64_t allocator_free;   /* free bytes of the arenas, */
    _Atomic uint64_t allocator_pieces; /* the number of pieces they are in, */
    _Atomic uint64_t allocator_top;    /* and the size of the piece at the end of the heap */
    _Atomic uint64_t table_bytes;      /* of this file in the process's memory, updated with own_bytes */
    uint8_t reserved2[4096 - 304];
};

struct tide_heap_site {
    _Atomic uint32_t ready;
    uint16_t kind;  /* enum tide_site_kind */
    uint16_t flags; /* TIDE_HEAP_TRUNCATED */
    uint32_t frames_at;
    uint32_t depth;
    uint64_t hash;    /* of kind and stack */
    uint32_t modules; /* modules known when the site was made. An address belongs to the last of these that
                         covers it or, if none does, to the first later one that does */
    uint32_t reserved;
    _Atomic int64_t live_bytes, live_blocks;
    _Atomic int64_t total_bytes, total_blocks;
};

struct tide_heap_code {
    _Atomic uint32_t ready;
    uint32_t file, name; /* offsets in text */
    uint32_t first_line;
};

struct tide_heap_module {
    _Atomic uint32_t ready;
    uint32_t path;           /* offset in text */
    uint64_t base;           /* an address minus base is the address in the ELF file */
    uint64_t start, end;     /* addresses [start, end) */
    uint32_t build_id_bytes; /* 0: none */
    uint8_t build_id[20];
    uint64_t reserved;
};

_Static_assert(sizeof(struct tide_heap_head) == 4096, "the head is one page");
_Static_assert(sizeof(struct tide_heap_site) == 64, "a site is one cache line");
_Static_assert(sizeof(struct tide_heap_code) == 16, "four codes in a cache line");
_Static_assert(sizeof(struct tide_heap_module) == 64, "a module is one cache line");

/* Where the areas start. */
#define TIDE_HEAP_SITES_AT   ((uint64_t)sizeof(struct tide_heap_head))
#define TIDE_HEAP_FRAMES_AT  (TIDE_HEAP_SITES_AT + (uint64_t)TIDE_HEAP_SITES * sizeof(struct tide_heap_site))
#define TIDE_HEAP_CODES_AT   (TIDE_HEAP_FRAMES_AT + (uint64_t)TIDE_HEAP_FRAMES * 8)
#define TIDE_HEAP_MODULES_AT (TIDE_HEAP_CODES_AT + (uint64_t)TIDE_HEAP_CODES * sizeof(struct tide_heap_code))
#define TIDE_HEAP_TEXT_AT                                                                                    \
    (TIDE_HEAP_MODULES_AT + (uint64_t)TIDE_HEAP_MODULES * sizeof(struct tide_heap_module))
#define TIDE_HEAP_BYTES (TIDE_HEAP_TEXT_AT + (uint64_t)TIDE_HEAP_TEXT)

#define TIDE_HEAP_PYTHON_BIT (UINT64_C(1) << 63)
#define TIDE_HEAP_PYTHON_WORD(code, line)                                                                    \
    (TIDE_HEAP_PYTHON_BIT | (uint64_t)((code)&0x7fffffff) << 32 | (uint32_t)(line))
#define TIDE_HEAP_CODE_OF(word) ((uint32_t)((word) >> 32) & 0x7fffffff)
#define TIDE_HEAP_LINE_OF(word) ((uint32_t)(word))

#endif
