/*
 * heap_frames.h - frames of call stacks, each looked up once and written into the recording once.
 *
 * A frame is requested by what it is (an address of a module, a line of a Python function) and gets a number
 * at once. Its rows exist once the symbol server has answered (symbol_server.h), which
 * tide_heap_frames_settle() waits for. The same frame has the same number in every process and at any time.
 * Without a server, or after it gave up, the row of an address is its module and offset.
 *
 * One thread. At most TIDE_HEAP_FRAMES_MOST numbers.
 */
#ifndef TIDE_HEAP_FRAMES_H
#define TIDE_HEAP_FRAMES_H

#include "channel/heap_read.h"
#include "record/writer.h"
#include "sense/symbol_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_HEAP_FRAMES_MOST = 1 << 20, TIDE_HEAP_FRAMES_MODULES = 1 << 14 };

struct tide_heap_frames;
struct tide_heap_look; /* heap_sites.h */

/* server: borrowed, may be NULL. Returns NULL if out of memory. Caller frees with tide_heap_frames_free. */
struct tide_heap_frames *tide_heap_frames_new(struct tide_symbol_server *server);
void tide_heap_frames_free(struct tide_heap_frames *frames);

/* Returns the number of a frame, or -1 if there is no room for more. `return_address` is as on the stack.
 * range NULL: in no module. */
int32_t tide_heap_frames_native(struct tide_heap_frames *frames, int64_t pid,
                                const struct tide_heap_range *range, uint64_t return_address);
int32_t tide_heap_frames_python(struct tide_heap_look *look, const char *file, const char *function,
                                uint32_t line);

/* Asks the server, takes answers and writes their rows, for at most timeout_ms (0: only answers that are
 * there now). */
void tide_heap_frames_settle(struct tide_heap_look *look, int timeout_ms);

/* Gives every frame without an answer its module and offset, and stops waiting for the answer. */
void tide_heap_frames_give_up(struct tide_heap_look *look);

/* Ids of a frame's rows: *ret_first .. *ret_first + result - 1, innermost first. 0: not there yet. */
size_t tide_heap_frames_rows(const struct tide_heap_frames *frames, int32_t number, int64_t *ret_first);

#endif
