/*
 * census.h - asks a PyTorch program, now and then, who holds its tensors.
 *
 * The table says where memory was allocated. Only the program's own interpreter knows who still holds it. If
 * its Python can import the package tidemark, that package counts the tensors (python/tidemark/_asked.py) and
 * reports growing holders as marks of the process.
 *
 * The count runs where the interpreter would handle a signal: between two instructions of its main thread, by
 * Py_AddPendingCall. Only that thread asks for it, from within an allocation, because for other threads the
 * interpreter may end at any moment. Nothing is asked in a program that has not imported torch, while code is
 * traced, profiled or compiled by torch.compile, or once the interpreter is ending. An exception that a
 * signal handler of the program raises during the count is passed on to the program.
 *
 * The first count comes one second after torch was first seen. Each later one waits as long as the time from
 * the first count to the last one, but at least so long that counting takes at most a fiftieth of the time.
 */
#ifndef TIDE_CENSUS_H
#define TIDE_CENSUS_H

#include "hook/object.h"

#include <stdint.h>

/* From a constructor. -1: memory cannot be wiped at fork. */
int tide_census_init(void);

/* Switches the census off. Must be called before the first object is considered. */
void tide_census_refuse(void);

/* If the object is an interpreter, looks up its functions. Does not take the loader's lock. Not from two
 * threads at once. */
void tide_census_consider(const struct tide_object *object);

/* The object may have been unloaded, and the interpreter with it. */
void tide_census_unloaded(void);

/* Called from within an allocation of any thread. now_ns is a monotonic clock. Asks if it is time to. */
void tide_census_ask(uint64_t now_ns);

#endif
