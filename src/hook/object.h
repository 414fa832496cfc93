/*
 * object.h - which loaded ELF object an address belongs to.
 *
 * Asked inside allocations and signal handlers: never allocates and never takes the loader's lock. glibc 2.35
 * and later answer through _dl_find_object(), which is lock-free and knows a library before its constructors
 * run. On older ones the objects present at tide_object_init() are known, and no others.
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

/* Learns how to ask; may take the loader's lock, so only from a constructor. Without tide_object_init() no
 * object is found. */
void tide_object_init(void);

bool tide_object_find(uintptr_t address, struct tide_object *ret_object);

/* The address of a defined dynamic symbol, and its size if ret_size is given. 0 if there is none. */
uintptr_t tide_object_symbol(const struct tide_object *object, const char *name, uint64_t *ret_size);

/* Copies the GNU build-id, at most `room` bytes of it, and returns how many. */
uint32_t tide_object_build_id(const struct tide_object *object, uint8_t *bytes, uint32_t room);

#endif
