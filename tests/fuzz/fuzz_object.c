/*
 * fuzz_object.c - any bytes as a loaded library whose symbols and build-id are looked for (hook/object.h).
 *
 * The input begins with where its dynamic section is, four bytes, and a name of eight at most. Addresses in
 * the dynamic section are offsets in the library. What is read outside it is found by a sanitizer.
 */
#include "base/check.h"
#include "hook/object.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NAME = 8, WORD = 8, ALIGNMENT = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t place;
    char name[NAME + 1] = "";
    if (size <= sizeof place + NAME)
        return 0;
    memcpy(&place, data, sizeof place);
    memcpy(name, data + sizeof place, NAME);
    data += sizeof place + NAME;
    size -= sizeof place + NAME;
    uint8_t *image = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    TIDE_CHECK_TRUE(image != NULL);
    memcpy(image, data, size);
    struct tide_object object = {.start = (uintptr_t)image,
                                 .end = (uintptr_t)image + size,
                                 .base = (uintptr_t)image,
                                 .path = "",
                                 .dynamic = image + place % size / WORD * WORD};
    uint64_t bytes = 0;
    uint8_t id[20];
    tide_object_symbol(&object, name, &bytes);
    TIDE_CHECK(tide_object_build_id(&object, id, sizeof id), <=, sizeof id);
    free(image);
    return 0;
}
