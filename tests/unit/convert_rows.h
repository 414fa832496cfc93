/*
 * convert_rows.h - rows that follow each other, converted one after another.
 */
#ifndef CONVERT_ROWS_H
#define CONVERT_ROWS_H

#include "rt/cpu/rows.h"

static inline void convert_rows(void *to, enum tide_dtype to_type, const void *from,
                                enum tide_dtype from_type, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        tide_rows_convert_here((char *)to + (size_t)i * tide_row_bytes(to_type, columns), to_type,
                               (const char *)from + (size_t)i * tide_row_bytes(from_type, columns), from_type,
                               columns);
}

#endif
