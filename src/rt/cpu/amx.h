/*
 * amx.h - for the few functions that multiply tiles of bf16 with intrinsics.
 *
 * Call a function marked TIDE_AMX only if tide_isa() is TIDE_ISA_AMX. A thread calls tide_amx_begin() before
 * its first tile and _tile_release() after the last, so that context switches do not save unused tiles.
 */
#ifndef TIDE_AMX_H
#define TIDE_AMX_H

#if defined(__x86_64__)

#include "rt/cpu/avx512.h"

#include <cpuid.h>

#define TIDE_AMX                                                                                             \
    __attribute__((target("amx-tile,amx-bf16,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16")))

/* Eight tiles of 16 rows of 64 bytes. */
struct tide_amx_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Palette 1, whatever CPUID says of it. The assembly names the whole structure as an operand: the compiler's
 * own intrinsic names only eight bytes of it, and the compiler may then drop the rest. */
TIDE_INLINE TIDE_AMX void tide_amx_begin(void)
{
    static const struct tide_amx_shapes shapes = {.palette = 1,
                                                  .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                                  .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

#endif

#endif
