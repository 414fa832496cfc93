/*
 * census.h - asks a PyTorch program, now and then, who holds its tensors.
 *
 * The table says where memory was allocated; who still holds it only the program's own interpreter can tell.
 * If its Python can import the package tidemark, that counts the tensors (python/tidemark/_asked.py) and
 * tells of holders that grow in the process's lane.
 *
 * The count is made where the interpreter itself would handle a signal: between two instructions of its main
 * thread, by Py_AddPendingCall. It is asked for by that thread alone, from within an allocation, because to
 * others the interpreter may end at any moment. Nothing of it happens in a program that has not imported
 * torch, while code is traced, profiled or compiled by torch.compile, or once the interpreter is ending. What
 * a signal handler of the program raises meanwhile is passed on to the program.
 *
 * When: one second after torch was first seen, and each time as long after the last one as that was after the
 * first, but never so soon that counting takes more than a fiftieth of the time.
 */
#ifndef TIDE_CENSUS_H
#define TIDE_CENSUS_H

#include "hook/object.h"

#include <stdint.h>

/* From a constructor. -1: forks cannot be seen. */
int tide_census_init(void);

/* Nobody is to be asked. Before the first object is considered. */
void tide_census_refuse(void);

/* Whether the object is an interpreter, and if so where its functions are. Takes no lock of the loader. Not
 * from two threads at once. */
void tide_census_consider(const struct tide_object *object);

/* The object may have been unloaded, and the interpreter with it. */
void tide_census_unloaded(void);

/* From within an allocation of any thread; now_ns by a monotonic clock. Asks if it is time to. */
void tide_census_ask(uint64_t now_ns);

#endif
