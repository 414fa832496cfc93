/*
 * dynamic8.h - numbers from -1 to 1, or from 0 to 1, in eight bits: the dynamic map of 8-bit optimizers
 * (Dettmers, 2015; Dettmers et al., 2022), as in bitsandbytes.
 *
 * There are seven decades. The one that ends at 1 is cut into 64 intervals of equal length (128 without a
 * sign), each decade below into half as many. A code stands for the middle of an interval; two more codes are
 * 0 and 1. Codes are ordered like their numbers. With a sign, 127 is 0, 255 is 1, and -1 has no code; without
 * a sign, 0 is 0 and 255 is 1.
 *
 * A block of numbers is coded as fractions of its largest magnitude.
 */
#ifndef TIDE_DYNAMIC8_H
#define TIDE_DYNAMIC8_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the number that a code stands for. */
double tide_dynamic8_number(uint8_t code, bool is_signed);

#endif
