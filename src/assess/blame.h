/*
 * blame.h - which code holds the bytes.
 *
 * A site is a time series and is judged like a process. The culprits are the sites whose growth explains the
 * growth of the process that the verdict is about, largest first. Sites that meet in one line of the program,
 * such as an allocator that others call, are one culprit; so are those of several workers if the verdict is
 * about all of them. Where memory rises within each step and is freed
 * again, no site grows: there the culprits are the sites that hold more at the peak than before the rise.
 * Other orders are by what is live at the peak, at the end, in a phase, or by what changed between two steps.
 * Sites that rose and stopped are marked `bounded`: a cache, not a leak.
 */
#ifndef TIDE_BLAME_H
#define TIDE_BLAME_H

#include "assess/assessment.h"

enum tide_blame_by {
    TIDE_BLAME_VERDICT, /* what the verdict is about: one of the next two */
    TIDE_BLAME_GROWTH,
    TIDE_BLAME_RISE,    /* live at the peak minus what was held before peaks rose */
    TIDE_BLAME_PEAK,    /* live when all sites together held most */
    TIDE_BLAME_END,     /* live at the end of training */
    TIDE_BLAME_PHASE,   /* most that was live during a phase minus what was live before it */
    TIDE_BLAME_BETWEEN, /* live at one step minus live at another */
};

struct tide_blame_options {
    enum tide_blame_by by;
    const char *phase;   /* TIDE_BLAME_PHASE */
    double from_x, to_x; /* TIDE_BLAME_BETWEEN */
    size_t most;         /* culprits wanted */
    bool every_site; /* TIDE_BLAME_GROWTH: each site that grows, even if it explains nothing of the verdict */
};

/*
 * Memory that looks like a leak but is not one, by the code that it comes from. There are two kinds. A phase
 * whose memory is freed each time: what its sites held at most, minus what they held when it began, is gone
 * before it begins again. A cache: a site that rose and has stopped (`bounded` below). Places are the
 * program's own lines: several sites of one line are one place.
 */
enum tide_healthy_kind { TIDE_HEALTHY_PHASE, TIDE_HEALTHY_CACHE };

struct tide_healthy {
    enum tide_healthy_kind kind;
    const struct tide_history_site *site; /* the largest of its place */
    double bytes;   /* more than before the phase, each time; for a cache, the level where it stopped */
    char phase[64]; /* escaped */
    double part;    /* of the phase's bytes that come from this place, 0..1 */
    size_t times;   /* how often the phase ran */
    double knee_x;  /* of a cache: where it stopped */
    bool x_is_steps;
};

enum { TIDE_HOLDERS = 2 };

struct tide_culprit {
    const struct tide_history_site *site;
    int64_t process;       /* id */
    char process_name[64]; /* escaped, with its PID */
    bool judged;           /* `on` has a verdict and a series */
    struct tide_judged on;
    double bytes_per_x; /* growth per step or second; NAN when it does not grow */
    double blocks_per_x;
    double share;  /* of the growth (in the other orders, of all bytes) in its kind of memory, the host's or
                      the devices', 0..1; NAN when unknown */
    bool of_sites; /* share is of what all sites grow by, since nothing around them is known to leak */
    double bytes;  /* what it is ordered by: growth over the run, or live bytes */
    double blocks; /* live blocks at the same moment */
    double live_bytes;  /* at the end of training, or of its process */
    double freed_share; /* of what it allocated in training, by live bytes also of what it had allocated
                           before, 0..1; NAN: it allocated nothing */
    bool bounded;       /* rose and has stopped */
    bool arenas;        /* its blocks are arenas of small Python objects, not what its line asked for */
    double factor;      /* a container that becomes this many times as large whenever it is full; NAN: none */
    double samples;     /* that its growth is estimated from; INFINITY: every block is seen */
    const struct tide_culprit *callers; /* NULL: this is one site; else sites that meet in one line of the
                                           program: what each caller has of it, largest first */
    size_t caller_count;
    const char *holders[TIDE_HOLDERS]; /* who holds what grows, by a census of the program's tensors, largest
                                          first; borrowed from the history, unescaped */
    size_t holder_count;
    size_t common; /* number of the program's own frames, from the innermost, that all callers share */
};

/* Most sites that are judged: those that rose most. Judging one takes milliseconds. */
enum { TIDE_BLAME_JUDGED = 256 };

struct tide_blame {
    struct tide_culprit *culprits; /* largest first */
    size_t count;
    struct tide_healthy *healthy; /* by growth only: what is not a culprit, largest first of each kind */
    size_t healthy_count;
    size_t sites;            /* that were looked at */
    size_t unjudged;         /* that grew but were seen too rarely to be judged */
    size_t outgrown;         /* that grew by more than their process can have, so they explain nothing */
    size_t beyond;           /* that rose too, but less than those that were judged: they were too many */
    double all_bytes;        /* of all sites of host memory: live at the moment asked for, or growth */
    double all_device_bytes; /* the same of device memory */
    bool x_is_steps;
    enum tide_blame_by by; /* never TIDE_BLAME_VERDICT */
    struct tide_arena arena;
};

/* The assessment must be of that history. Caller frees with tide_blame_free. Fails without call sites. */
int tide_blame_new(const struct tide_history *history, struct tide_assessment *assessment,
                   const struct tide_blame_options *options, struct tide_blame **ret_blame,
                   struct tide_err *err);
void tide_blame_free(struct tide_blame *blame);

/* True if the culprits are part of the answer even if nobody asked for them: for a leak and for peaks that
 * rise; for a jump or an undecided verdict if a culprit explains it. */
bool tide_blame_answers(const struct tide_blame *blame, const struct tide_assessment *assessment);

/* Returns the line of one of a culprit's callers: its innermost own frame that the others do not have; NULL:
 * none. Borrowed from the history. */
const struct tide_frame *tide_culprit_caller(const struct tide_history *history,
                                             const struct tide_culprit *culprit);

#endif
