/*
 * object.h - which loaded ELF object an address belongs to.
 *
 * Used inside allocations and signal handlers, so it never allocates and never takes the loader's lock. glibc
 * 2.35 and later have _dl_find_object(), which is lock-free and knows a library before its constructors run.
 * On an older glibc only the objects present at tide_object_init() are known.
 */
#ifndef TIDE_OBJECT_H
#define TIDE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

struct tide_object {
    uintptr_t start, end; /* addresses [start, end) */
    uintptr_t base;       /* address minus base is the address in the file */
    const void *eh_frame; /* its .eh_frame_hdr, or NULL */
    const char *path;     /* borrowed from the loader; "" for the program itself */
    const void *dynamic;  /* its dynamic section, or NULL */
};

/* Prepares the lookup. May take the loader's lock, so only from a constructor. Before it is called no object
 * is found. */
void tide_object_init(void);

bool tide_object_find(uintptr_t address, struct tide_object *ret_object);

/* Returns the address of a defined dynamic symbol, and its size if ret_size is given. 0 if there is none. */
uintptr_t tide_object_symbol(const struct tide_object *object, const char *name, uint64_t *ret_size);

/* Copies the GNU build-id, at most `room` bytes of it, and returns the number of bytes. */
uint32_t tide_object_build_id(const struct tide_object *object, uint8_t *bytes, uint32_t room);

#endif
