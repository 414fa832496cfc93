/*
 * fuzz_pylines.c - any bytes as the line table of a Python code object, asked for one instruction.
 *
 * The input begins with the version's way to write it, and the instruction and the first line in four bytes
 * each. What is read outside the table is found by a sanitizer. The decoders are nobody's but pyframes.c's,
 * which is why it is all here.
 */
#include "hook/pyframes.c"

#include "base/check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t numbers[2];
    if (size <= 1 + sizeof numbers)
        return 0;
    memcpy(numbers, data + 1, sizeof numbers);
    enum lines lines = (enum lines)(data[0] % (LOCATIONS + 1));
    data += 1 + sizeof numbers;
    size -= 1 + sizeof numbers;
    uint8_t *table = malloc(size);
    TIDE_CHECK_TRUE(table != NULL);
    memcpy(table, data, size);
    struct merge m = {0};
    struct bytes b = {.m = &m, .at = (uintptr_t)table, .end = (uintptr_t)table + size};
    uint32_t unit = numbers[0] % (INT32_MAX / 2), line = numbers[1];
    switch (lines) {
    case LNOTAB:
        line_of_lnotab(b, line, 2 * unit);
        break;
    case LINETABLE:
        line_of_linetable(b, line, 2 * unit);
        break;
    default:
        line_of_locations(b, line, unit);
    }
    TIDE_CHECK_TRUE(!m.failed);
    free(table);
    return 0;
}
