/*
 * processor.h - what this processor can do, and what is used of it. No other code asks the processor.
 *
 * An instruction set is used if CPUID announces it, the system saves its registers, and a trial gives the
 * right numbers: a virtual machine may announce what does not work, and may announce only part of what works
 * (AMX without its leaf 0x1D). TIDEMARK_ISA=plain|avx2|avx512|amx in the environment asks for less.
 *
 * Call tide_processor_check() once, early; it reports a wrong value of that variable. Then call tide_isa() at
 * any time.
 */
#ifndef TIDE_PROCESSOR_H
#define TIDE_PROCESSOR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each includes all before it. */
enum tide_isa { TIDE_ISA_PLAIN, TIDE_ISA_AVX2, TIDE_ISA_AVX512, TIDE_ISA_AMX, TIDE_ISAS };

/* Returns -1 with err set if TIDEMARK_ISA has an unknown value, or one that this processor cannot do. */
int tide_processor_check(struct tide_err *err);

/* Selects the kernels. Determined at the first call and constant afterwards. */
enum tide_isa tide_isa(void);

/* True if AVX-512's bf16 instruction exists and pays: on some processors it does less work per cycle than
 * f32. */
bool tide_processor_multiplies_bf16(void);

/* For people: "AVX-512", "AMX", ... */
const char *tide_isa_name(enum tide_isa isa);

/* Returns an instruction set that the processor reports but that failed its trial, so it and those above it
 * are not used; TIDE_ISA_PLAIN: there is none. */
enum tide_isa tide_processor_broken(void);

/* Floating-point operations per second of one thread that only multiplies registers, in tries of a
 * millisecond: the ceiling of products. 0: this processor cannot. */
enum tide_multiplier { TIDE_MULTIPLIES_F32, TIDE_MULTIPLIES_BF16, TIDE_MULTIPLIES_TILES };
double tide_processor_ceiling(enum tide_isa isa, enum tide_multiplier multiplier);

/* How many processors this process may use at once, by its affinity and its cgroup's quota. At least 1. */
int tide_processors(void);

/* The lowest quota of processors, rounded up, of a process's group and all groups above it, of either version
 * of cgroups; INT64_MAX: none. groups: a file as /proc/self/cgroup; root: where groups are mounted, those of
 * version 1 in its folder "cpu". */
int64_t tide_processor_quota(const char *groups, const char *root);

/* True if trial() returns true without an illegal instruction or a memory fault. Do not call it while other
 * threads may cause either. */
bool tide_processor_try(bool (*trial)(void));

#endif
