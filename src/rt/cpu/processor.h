/*
 * processor.h - what this processor can do, and what is used of it. Nothing else asks the processor.
 *
 * An instruction set is used when CPUID announces it, the system saves its registers, and a trial of it gives
 * the right numbers: a virtual machine may announce what does not work, and what works may be announced in
 * part (AMX without its leaf 0x1D). TIDEMARK_ISA=plain|avx2|avx512|amx in the environment asks for less.
 *
 * tide_processor_check() once, early, says what is wrong with that variable; tide_isa() is then free to call.
 */
#ifndef TIDE_PROCESSOR_H
#define TIDE_PROCESSOR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Each has all that those before it have. */
enum tide_isa { TIDE_ISA_PLAIN, TIDE_ISA_AVX2, TIDE_ISA_AVX512, TIDE_ISA_AMX, TIDE_ISAS };

/* -1 with err set: TIDEMARK_ISA names nothing, or what this processor cannot do. */
int tide_processor_check(struct tide_err *err);

/* What kernels are chosen by. Found at the first call; the same ever after. */
enum tide_isa tide_isa(void);

/* Whether AVX-512's instruction for bf16 is there and worth it: on some processors it does less work in a
 * cycle than f32 does. */
bool tide_processor_multiplies_bf16(void);

/* For people: "AVX-512", "AMX", ... */
const char *tide_isa_name(enum tide_isa isa);

/* What is announced and was found not to work, as a sentence; NULL: nothing. */
const char *tide_processor_complaint(void);

/* Floating-point operations per second of one thread that only multiplies, from registers, in tries of a
 * millisecond: the ceiling of products. 0: this processor cannot. */
enum tide_multiplier { TIDE_MULTIPLIES_F32, TIDE_MULTIPLIES_BF16, TIDE_MULTIPLIES_TILES };
double tide_processor_ceiling(enum tide_isa isa, enum tide_multiplier multiplier);

/* Processors that this process may use at once: by its affinity, and by its cgroup's quota. At least 1. */
int tide_processors(void);

/* Whether trial() returns true, and no illegal instruction or wrong address ends it. Not while other threads
 * run that may do either. */
bool tide_processor_try(bool (*trial)(void));

#endif
