/*
 * preload.h - what `--heap` adds to the environment of a command, so that its allocations are seen.
 *
 * tide_preload_init (finds the hook, makes the settings) -> settings into the environment ->
 * tide_preload_release(). tide_preload_obstacle() says beforehand why a program cannot be seen into.
 *
 * The hook is $TIDEMARK_HOOK, else libtidemark-hook.so beside the running program (a build directory), else
 * in ../lib from there (an installation). What the user preloads already stays, behind it.
 */
#ifndef TIDE_PRELOAD_H
#define TIDE_PRELOAD_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_PRELOAD_SETTINGS = 2 };

struct tide_preload {
    char *settings[TIDE_PRELOAD_SETTINGS]; /* "NAME=VALUE" */
};

/* interval_bytes: mean between samples of small allocations. On failure nothing is held. */
int tide_preload_init(struct tide_preload *preload, int64_t interval_bytes, struct tide_err *err);
void tide_preload_release(struct tide_preload *preload);

/* Why the dynamic loader will not load the hook into this program (a path, or a name for PATH), as the end of
 * a sentence: "is statically linked, ..."; NULL: no reason is known. */
const char *tide_preload_obstacle(const char *program);

#endif
