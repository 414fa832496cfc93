/*
 * blamed.h - who is blamed for the growth in a recording that was made by hand.
 */
#ifndef BLAMED_H
#define BLAMED_H

#include "assess/blame.h"
#include "made_recording.h"
#include "show/text/blame_text.h"

static inline struct tide_blame *blame_growth(const struct tide_answer *answer)
{
    struct tide_blame_options options = {.by = TIDE_BLAME_GROWTH, .most = 10};
    struct tide_blame *blame;
    struct tide_err err;
    ok(tide_blame_new(answer->history, answer->assessment, &options, &blame, &err), &err);
    return blame;
}

/* What a person reads of it. */
static inline char *print_blame(const struct tide_blame *blame, const struct tide_answer *answer, char *out,
                                size_t size)
{
    FILE *stream = fmemopen(out, size, "w");
    tide_blame_print(blame, answer->history, 3, 5, stream);
    fclose(stream);
    return out;
}

static inline void forget(struct tide_blame *blame, struct tide_answer *answer)
{
    tide_blame_free(blame);
    tide_answer_release(answer);
}

#endif
