/*
 * preloading.h - what `--heap` adds to the environment of a command, so that its allocations are recorded.
 *
 * tide_preloading_init (finds the hook, makes the settings) -> settings into the environment ->
 * tide_preloading_release(). tide_preloading_obstacle() says beforehand why a program cannot load the hook.
 *
 * The hook is $TIDEMARK_HOOK, else libtidemark-hook.so beside the running program (a build directory, a
 * wheel), else in ../lib from there (an installation). Libraries that the user preloads stay, after the hook.
 * AddressSanitizer's runtime aborts a program in which it is not the first library. A setting turns that
 * check off, because the hook does nothing in such a program and says so.
 */
#ifndef TIDE_PRELOADING_H
#define TIDE_PRELOADING_H

#include "assess/assessment.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_PRELOADING_SETTINGS = 5 };

struct tide_preloading {
    char *settings[TIDE_PRELOADING_SETTINGS]; /* "NAME=VALUE", or NULL after the last */
};

/* interval_bytes: mean between samples of small allocations. python_objects: also records Python's small
 * objects, one by one. no_census: does not ask Python who holds tensors. On failure nothing is allocated. */
int tide_preloading_init(struct tide_preloading *preload, int64_t interval_bytes, bool python_objects,
                         bool no_census, struct tide_err *err);
void tide_preloading_release(struct tide_preloading *preload);

/* Returns why the dynamic loader will not load the hook into this program (a path, or a name for PATH), as
 * the end of a sentence: "is statically linked, ..."; NULL: no reason is known. */
const char *tide_preloading_obstacle(const char *program);

/* The same for the program that the verdict is about, if its file is where its command line says: "'./train'
 * is statically linked, ...". False if no reason is known. Only for a recording that was just made: files
 * that an untrusted recording names must not be opened. */
bool tide_preloading_is_useless(const struct tide_answer *answer, char *out, size_t size);

#endif
