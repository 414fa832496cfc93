/*
 * downsample.h - makes an array of moments shorter without losing what matters about it.
 *
 * Elements are in order of time and belong to series with different keys. Time is cut into cells. Of each
 * series, a cell keeps the element with the lowest value, the one with the highest, and the last (which holds
 * until the next cell). Thinning again with the same cell changes nothing, and first thinning with a cell
 * that divides it makes no difference.
 */
#ifndef TIDE_DOWNSAMPLE_H
#define TIDE_DOWNSAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* Where time and value are in an element, and which series it belongs to; key NULL: there is only one. */
struct tide_layout {
    size_t size, time, value;
    uint64_t (*key)(const void *element);
};
#define TIDE_LAYOUT(type, value, key)                                                                        \
    {                                                                                                        \
        sizeof(type), offsetof(type, t_ns), offsetof(type, value), key                                       \
    }

/* Returns how many elements are left, at the front of the array, in their old order. cell_ns >= 1. If out of
 * memory, it thins less. */
size_t tide_thin(void *elements, size_t count, int64_t cell_ns, const struct tide_layout *layout);

#endif
