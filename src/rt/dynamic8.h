/*
 * dynamic8.h - numbers from -1 to 1, or from 0 to 1, in eight bits: the dynamic map of 8-bit optimizers
 * (Dettmers, 2015; Dettmers et al., 2022), as bitsandbytes has it.
 *
 * Numbers have seven decades. The one that ends at 1 is cut into 64 pieces of equal length (128 where there
 * is no sign), each decade below into half as many, and a code stands for the middle of a piece; two further
 * codes are 0 and 1. Codes are ordered like their numbers: with a sign 127 is 0 and 255 is 1, and there is
 * none for -1; without a sign 0 is 0 and 255 is 1.
 *
 * A block of numbers is coded as shares of its largest magnitude.
 */
#ifndef TIDE_DYNAMIC8_H
#define TIDE_DYNAMIC8_H

#include <stdbool.h>
#include <stdint.h>

/* The number of a code, in f64. */
double tide_dynamic8_number(uint8_t code, bool is_signed);

#endif
