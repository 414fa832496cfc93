/*
 * rename.c - a leak in a process whose names are escape sequences: clear the screen, set the title, ring the
 * bell, C1 controls, invalid UTF-8, a direction override, a new line. The name changes every --every (25)
 * steps; command line and phase names are no better.
 *
 * Truth: leak, linear, --bytes (64K) per step, in the process itself; nothing of its names may reach a
 * terminal as it is.
 */
#include "workload.h"

/* The last one is the name that a run of 200 or 400 steps ends with. */
static const char *const names[] = {
    "<b>&\"'%s%n",
    "\033]0;owned\a",
    "a\nb\rc\td",
    "\x9b"
    "31m\x90",
    "\xe2\x80\xae"
    "txt",
    "\xff\xfe\xc0\xaf",
    "\b\b\b\b) R 1 2 3",
    "\033[2J\r\n\xc2\x9b"
    "5m\a",
};

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024, .every = 25};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_warm_heap(1);
    size_t room = strlen(argv[0]), at = 0;
    for (int64_t n = 0; n < w.steps; n++) {
        if (n % w.every == 0) {
            if (w.marks && n)
                tide_phase_end(names[at]);
            at = (size_t)(n / w.every) % (sizeof names / sizeof *names);
            prctl(PR_SET_NAME, names[at]);
            memset(argv[0], '\033', room);
            memcpy(argv[0], names[at], strlen(names[at]) < room ? strlen(names[at]) : room);
            if (w.marks)
                tide_phase_begin(names[at]);
        }
        workload_step(&w, n);
        workload_churn(&w);
        workload_map(w.bytes);
        workload_pace(&w, n);
    }
    return 0;
}
