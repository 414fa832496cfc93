/*
 * fuzz_cfi.c - any bytes as a loaded library with a call frame table, asked for one address.
 *
 * The input begins with two numbers of four bytes: where its .eh_frame_hdr is, and the address. What is read
 * outside the library is found by a sanitizer.
 */
#include "base/check.h"
#include "hook/cfi.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t places[2];
    if (size <= sizeof places)
        return 0;
    memcpy(places, data, sizeof places);
    size -= sizeof places;
    uint8_t *image = malloc(size);
    TIDE_CHECK_TRUE(image != NULL);
    memcpy(image, data + sizeof places, size);
    struct tide_object object = {.start = (uintptr_t)image,
                                 .end = (uintptr_t)image + size,
                                 .base = (uintptr_t)image,
                                 .eh_frame = image + places[0] % size,
                                 .path = ""};
    struct tide_cfi_rule rule = tide_cfi_find(&object, object.start + places[1] % size);
    TIDE_CHECK(rule.kind, <=, TIDE_CFI_NONE);
    free(image);
    return 0;
}
