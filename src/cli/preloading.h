/*
 * preloading.h - what `--heap` adds to the environment of a command, so that its allocations are seen.
 *
 * tide_preloading_init (finds the hook, makes the settings) -> settings into the environment ->
 * tide_preloading_release(). tide_preloading_obstacle() says beforehand why a program cannot be seen into.
 *
 * The hook is $TIDEMARK_HOOK, else libtidemark-hook.so beside the running program (a build directory, a
 * wheel), else in ../lib from there (an installation). What the user preloads already stays, behind it. The
 * runtime of AddressSanitizer ends programs in which it is not the first library; it is told not to, since
 * the hook then leaves them alone and says so.
 */
#ifndef TIDE_PRELOADING_H
#define TIDE_PRELOADING_H

#include "assess/assessment.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_PRELOADING_SETTINGS = 5 };

struct tide_preloading {
    char *settings[TIDE_PRELOADING_SETTINGS]; /* "NAME=VALUE", or NULL behind the last */
};

/* interval_bytes: mean between samples of small allocations. python_objects: Python's small objects too, one
 * by one. no_census: Python is not asked who holds tensors. On failure nothing is held. */
int tide_preloading_init(struct tide_preloading *preload, int64_t interval_bytes, bool python_objects,
                         bool no_census, struct tide_err *err);
void tide_preloading_release(struct tide_preloading *preload);

/* Why the dynamic loader will not load the hook into this program (a path, or a name for PATH), as the end of
 * a sentence: "is statically linked, ..."; NULL: no reason is known. */
const char *tide_preloading_obstacle(const char *program);

/* The same of the program that a verdict is about, if its file is where its command line says: "'./train' is
 * statically linked, ..."; false: no reason is known. For a recording that was just made: of one that anybody
 * may have made no file is opened that it names. */
bool tide_preloading_is_useless(const struct tide_answer *answer, char *out, size_t size);

#endif
