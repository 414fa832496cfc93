/*
 * pyobjects.h - Python's small objects, one by one (--python-objects).
 *
 * CPython serves objects of up to 512 bytes from its own arenas, which the hook sees as mappings. With this
 * option the hook wraps the interpreter's allocator, using the interpreter's own function for that, and
 * treats the arenas as pools: an object's bytes are subtracted from its arena (blocks.h). The program keeps
 * its allocator, its speed and its layout in memory, which PYTHONMALLOC=malloc would change.
 */
#ifndef TIDE_PYOBJECTS_H
#define TIDE_PYOBJECTS_H

/* From a constructor, before the interpreter runs. Does nothing if no interpreter is loaded yet. */
void tide_pyobjects_begin(void);

#endif
