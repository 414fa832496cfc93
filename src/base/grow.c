#include "base/grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 64 };

int tide_grow(void *array, size_t *capacity, size_t count, size_t most, size_t size)
{
    size_t more = *capacity ? *capacity : FIRST;
    void *elements;
    if (count <= *capacity)
        return 0;
    if (count > most || most > SIZE_MAX / 2 / size)
        return -1;
    while (more < count)
        more *= 2;
    more = more < most ? more : most;
    memcpy(&elements, array, sizeof elements);
    elements = realloc(elements, more * size);
    if (!elements)
        return -1;
    memcpy(array, &elements, sizeof elements);
    *capacity = more;
    return 0;
}
