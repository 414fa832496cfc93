/*
 * thread_stack.h - where the calling thread's stack is, found without allocating and without a lock.
 *
 * The C library knows it, but allocates to say it. Where the program maps memory it may be an allocator that
 * holds its own lock, and what the C library allocates would wait for that lock for ever. So the kernel is
 * asked for the mapping that holds the stack pointer, and the C library only for where it put the thread's
 * own data, which is at the stack's upper end. It takes as long as a process has mappings: 0.1 to 1 ms, once
 * for a thread that maps before it allocates.
 */
#ifndef TIDE_THREAD_STACK_H
#define TIDE_THREAD_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* False: `here` is not on the stack that the C library made for this thread (a coroutine's, the main
 * thread's), or the kernel does not tell. */
bool tide_thread_stack_find(uintptr_t here, uintptr_t *ret_low, uintptr_t *ret_high);

#endif
