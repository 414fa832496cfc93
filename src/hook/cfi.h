/*
 * cfi.h - one rule of a call frame table: how to step from an address to its caller (x86-64).
 *
 * A rule is packed into one word so that it can be stored and shared without locks. Not every table entry
 * fits: code that keeps its frame in unusual registers gives TIDE_CFI_NONE, and a walk ends there.
 */
#ifndef TIDE_CFI_H
#define TIDE_CFI_H

#include "hook/object.h"

#include <stdint.h>

/* How to find the canonical frame address (CFA), which is the caller's stack pointer. The return address is
 * the word below it. */
enum tide_cfi_kind {
    TIDE_CFI_UNSET,
    TIDE_CFI_SP,       /* stack pointer + offset */
    TIDE_CFI_BP,       /* frame pointer + offset */
    TIDE_CFI_BP_DEREF, /* the word at frame pointer + offset: functions that align their stack */
    TIDE_CFI_SIGNAL,   /* registers of the interrupted code lie at the stack pointer */
    TIDE_CFI_END,      /* the outermost frame */
    TIDE_CFI_NONE      /* cannot be stepped over */
};

/* Where the caller's frame pointer is: `saved` words below the CFA, or one of these. */
enum { TIDE_CFI_BP_SAME = 0, TIDE_CFI_BP_AT_BP = 2047, TIDE_CFI_SAVED_MOST = 2046 };

struct tide_cfi_rule {
    enum tide_cfi_kind kind;
    int32_t offset; /* in bytes, a multiple of 8 */
    uint32_t saved; /* TIDE_CFI_BP_SAME, TIDE_CFI_BP_AT_BP, or words below the CFA */
};

enum { TIDE_CFI_BITS = 31 };

/* 3 bits of kind, 17 bits of offset, 11 bits of saved. An offset that does not fit gives TIDE_CFI_NONE. */
static inline uint32_t tide_cfi_pack(struct tide_cfi_rule rule)
{
    int32_t words = rule.offset / 8;
    if (words < -65536 || words > 65535 || rule.offset % 8)
        return (uint32_t)TIDE_CFI_NONE << 28;
    return (uint32_t)rule.kind << 28 | ((uint32_t)words & 0x1ffff) << 11 | (rule.saved & 0x7ff);
}

static inline struct tide_cfi_rule tide_cfi_unpack(uint32_t packed)
{
    return (struct tide_cfi_rule){.kind = (enum tide_cfi_kind)(packed >> 28 & 7),
                                  .offset = ((int32_t)(packed << 4) >> 15) * 8,
                                  .saved = packed & 0x7ff};
}

/* The rule for the instruction that holds `address`, from the object's tables. */
struct tide_cfi_rule tide_cfi_find(const struct tide_object *object, uintptr_t address);

#endif
