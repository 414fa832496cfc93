/*
 * pyobjects.h - Python's small objects, one by one (--python-objects).
 *
 * CPython serves objects of up to 512 bytes from arenas of its own, which the hook sees as mappings. Asked
 * to, it puts itself in front of the interpreter's allocator, with the interpreter's own function for that,
 * and treats the arenas as the pool they are: an object's bytes are taken off its arena (blocks.h). The
 * program keeps its allocator, its speed and its layout in memory, which PYTHONMALLOC=malloc would change.
 */
#ifndef TIDE_PYOBJECTS_H
#define TIDE_PYOBJECTS_H

/* From a constructor, before any code of the interpreter. Nothing happens if the program has none by now. */
void tide_pyobjects_begin(void);

#endif
