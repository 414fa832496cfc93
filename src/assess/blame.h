/*
 * blame.h - which code holds the bytes.
 *
 * A site is a time series, judged like a process is. The culprits are the sites whose growth explains the
 * growth of the process that the verdict accuses, largest first; those that meet in one line of the program,
 * an allocator that others call, are one culprit. Where what is held rises within each step and is freed
 * again, no site grows: there the culprits are the sites that hold more at the peak than before the rise.
 * Other orders are by what is live at the peak, at the end, in a phase, or by what changed between two steps.
 * Sites that rose and stopped are marked `bounded`: a cache, not a leak.
 */
#ifndef TIDE_BLAME_H
#define TIDE_BLAME_H

#include "assess/assessment.h"
#include "assess/healthy.h"

enum tide_blame_by {
    TIDE_BLAME_VERDICT, /* what the verdict is about: one of the next two */
    TIDE_BLAME_GROWTH,
    TIDE_BLAME_RISE,    /* live at the peak, over what was held before peaks rose */
    TIDE_BLAME_PEAK,    /* live when all sites together were largest */
    TIDE_BLAME_END,     /* live at the end of training */
    TIDE_BLAME_PHASE,   /* most that was live during a phase, over what was live before it */
    TIDE_BLAME_BETWEEN, /* live at one step less live at another */
};

struct tide_blame_options {
    enum tide_blame_by by;
    const char *phase;   /* TIDE_BLAME_PHASE */
    double from_x, to_x; /* TIDE_BLAME_BETWEEN */
    size_t most;         /* culprits wanted */
    bool every_site;     /* TIDE_BLAME_GROWTH: each site that grows, whether or not it explains the verdict */
};

enum { TIDE_HOLDERS = 2 };

struct tide_culprit {
    const struct tide_history_site *site;
    int64_t process;       /* id */
    char process_name[64]; /* escaped, with its PID */
    bool judged;           /* verdict and series are there */
    struct tide_judged on;
    double bytes_per_x; /* growth per step or second; NAN when it does not grow */
    double blocks_per_x;
    double share;  /* of the growth (or of all bytes, in the other orders) in the memory that it is in,
                    * the host's or the devices', 0..1; NAN when unknown */
    bool of_sites; /* growth: that is what all sites grow by, since nothing around them is known to leak */
    double bytes;  /* what it is ordered by: growth over the run, or live bytes */
    double blocks; /* live blocks at the same moment */
    double live_bytes;  /* at the end of training, or of its process */
    double freed_share; /* of what it allocated in the run, 0..1; NAN: it allocated nothing */
    bool bounded;       /* rose and has stopped */
    bool arenas;        /* of small Python objects, not blocks that its line asked for */
    double factor;      /* a container that is made so many times larger whenever it is full; NAN: none */
    double samples;     /* that its growth rests on; INFINITY: every block is seen */
    const struct tide_culprit
        *callers; /* sites that meet in one line of the program are one culprit: what each
                     of its callers has of it, the largest first; NULL: it is one site */
    size_t caller_count;
    const char *holders[TIDE_HOLDERS]; /* who holds what grows, as a census of the program's tensors said, the
                                          largest first; borrowed from the history, unescaped */
    size_t holder_count;
    size_t common; /* frames of the program's own, from the innermost, that all callers have in common */
};

/* Sites that are judged: those that rose most; judging one takes milliseconds. */
enum { TIDE_BLAME_JUDGED = 256 };

struct tide_blame {
    struct tide_culprit *culprits; /* largest first */
    size_t count;
    struct tide_healthy *healthy; /* by growth: what is not a culprit, the largest first of each kind */
    size_t healthy_count;
    size_t sites;     /* that were looked at */
    size_t unjudged;  /* of those that grew, how many were seen too rarely to be judged */
    size_t outgrown;  /* that grew by more than their process can have, and so explain nothing of it */
    size_t beyond;    /* that rose as well, each by less than those that were judged: they were too many */
    double all_bytes; /* live at the moment asked for, or growth, of all sites of host memory together */
    double all_device_bytes; /* and of device memory */
    bool x_is_steps;
    enum tide_blame_by by; /* never TIDE_BLAME_VERDICT */
    struct tide_arena arena;
};

/* The assessment must be of that history. Caller frees with tide_blame_free. Fails when the recording has no
 * call sites. */
int tide_blame_new(const struct tide_history *history, struct tide_assessment *assessment,
                   const struct tide_blame_options *options, struct tide_blame **ret_blame,
                   struct tide_err *err);
void tide_blame_free(struct tide_blame *blame);

/* Whether the culprits are part of the answer, also where nobody asked for them: of a leak and of what rises
 * they are; of a process that jumped or is undecided if one of them explains that. */
bool tide_blame_answers(const struct tide_blame *blame, const struct tide_assessment *assessment);

/* Of one of a culprit's callers, its line: the innermost that the others do not have; NULL: there is none.
 * Borrowed from the history. */
const struct tide_frame *tide_culprit_caller(const struct tide_history *history,
                                             const struct tide_culprit *culprit);

#endif
