/*
 * stacks.h - call sites and their stacks: whose code a frame is, and which frames a reader wants.
 *
 * A stack has dozens of frames, and a reader wants few of them: the program's own code (code that no package
 * installed), outermost first, then what it called into. For a person, frames of start-up and of the import
 * machinery are left out, and frames without a name if there are others. Documents contain all frames.
 */
#ifndef TIDE_STACKS_H
#define TIDE_STACKS_H

#include "assess/history.h"

enum { TIDE_STACK_SHOWN = 64, TIDE_SITE_PROCESS = 64 };

/* "malloc", "mmap", "cuda", "pool", "tensor". */
const char *tide_site_kind_name(enum tide_site_kind kind);

/* True if a site's memory is on a device. It is never added to, or compared with, the host's. */
bool tide_site_is_on_device(const struct tide_history_site *site);

/* "python[4711]", escaped; "" when the process is not known. */
void tide_site_process_name(const struct tide_history *history, const struct tide_history_site *site,
                            char *out, size_t size);

/* Returns why a recording made with --heap knows nothing of some process or of all, in the words of the hook
 * or the tracker; NULL: it was made without, or there was no obstacle. Borrowed from the history. */
const char *tide_sites_refusal(const struct tide_history *history);

/* True if the recording was made with --heap. */
bool tide_sites_were_asked(const struct tide_history *history);

/* Sets the error to why a recording has no call sites: nobody looked, somebody looked and could not see, or
 * nothing was large enough. Always returns -1. */
int tide_sites_missing(const struct tide_history *history, struct tide_err *err);

/* Names the largest process, and the possible reasons, if the hook was not in it or was lost when it became
 * another program; escaped. False: the hook was there, or nobody asked for it. */
bool tide_sites_unseen(const struct tide_history *history, char *out, size_t size);

/* Chooses frames to show a person, outermost first, at most `most`. The program's innermost own frames get
 * most of the room, then the function that asked for the memory, then libraries. Borrowed from the history.
 * Returns how many. */
size_t tide_stack_choose(const struct tide_history *history, int64_t stack, size_t most,
                         const struct tide_frame *out[static TIDE_STACK_SHOWN]);

/* Returns the frame that a person would open in an editor; NULL: none has a name. Borrowed. */
const struct tide_frame *tide_stack_line(const struct tide_history *history, int64_t stack);

/* True if a frame is the program's own code rather than a package's, as far as its path tells. */
bool tide_frame_is_own(const struct tide_frame *frame);

/* Returns the innermost own frame of the program at this depth (0: who allocated) or further out, and its
 * depth; NULL: there is none. Borrowed from the history. */
const struct tide_frame *tide_stack_own(const struct tide_history *history, int64_t stack, size_t *ret_depth);

/* True if a line of the program asked for what a stack allocates, rather than a library by itself. */
bool tide_stack_is_asked_for(const struct tide_history *history, int64_t stack);

/* True if the hook itself asked for what a stack allocates: it takes a census in the program. */
bool tide_stack_is_of_hook(const struct tide_history *history, int64_t stack);

#endif
