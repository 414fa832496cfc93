/*
 * cpu_dynamic8.h - encodes and decodes blocks of numbers in the codes of rt/dynamic8.h, on processors.
 */
#ifndef TIDE_CPU_DYNAMIC8_H
#define TIDE_CPU_DYNAMIC8_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers of the codes, times absmax. On the calling thread. */
void tide_dynamic8_decode(float *numbers, const uint8_t *codes, int64_t count, float absmax, bool is_signed);

/* The codes nearest to numbers / absmax. No magnitude may be larger than absmax. */
void tide_dynamic8_encode(uint8_t *codes, const float *numbers, int64_t count, float absmax, bool is_signed);

#endif
