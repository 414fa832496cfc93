/*
 * track_private.h - the tracker, shared by track.c (start, ticks and end) and track_events.c (signals, and
 * the end of the command).
 */
#ifndef TIDE_TRACK_PRIVATE_H
#define TIDE_TRACK_PRIVATE_H

#include "channel/channel.h"
#include "cli/preloading.h"
#include "cli/relay.h"
#include "cli/spawn.h"
#include "cli/stepwords.h"
#include "cli/track.h"
#include "cli/trend.h"
#include "cli/witness.h"
#include "record/writer.h"
#include "sense/heap_sense.h"
#include "sense/sense.h"

struct tide_tracker {
    const struct tide_track_config *config;
    struct tide_track_outcome *outcome;
    struct tide_relay *relay;     /* NULL for attach */
    struct tide_stepwords *words; /* NULL: no steps from the output */
    struct tide_channel *channel; /* NULL: none */
    struct tide_writer *writer;
    struct tide_sense *sense;
    struct tide_heap_sense *heap; /* NULL: without --heap */
    struct tide_preloading preload;
    struct tide_trend *trend; /* NULL: no status line */
    struct tide_spawned spawned;
    struct tide_witness witness;
    struct tide_spawn_inheritance inherited;
    struct tide_descriptors descriptors; /* open-file budget of sense, channel and heap */
    int signals;                         /* signalfd */
    sigset_t early;                      /* signals that came before the command was there */
    struct tide_tail file;               /* attach: the command's standard output, when it is a file */
    int64_t base_ns, next_ns, step_ns, committed_ns;
    int64_t cost_ns;  /* of a look, smoothed */
    int64_t ended_ns; /* when the command ended; 0: it runs */
    int exit_signal;  /* signal that killed the command; 0: none */
    struct tide_channel_counts marks;
    struct tide_sense_view view;
    int empty_looks;              /* consecutive looks that saw no live process, since the command ended */
    bool steps_said, epochs_said; /* the program marks these itself, so those in its output are ignored */
    bool stop;                    /* the user asked to stop */
    struct tide_err err;          /* see tide_tracker_check() */
    bool told_of_survivors;
};

/* Prints a line for the user, after "tidemark: ", on stderr or among the program's output. */
void tide_tracker_say(struct tide_tracker *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* If `bad`, reports t->err as the first error of the recording, and only that one; tracking goes on. */
void tide_tracker_check(struct tide_tracker *t, int bad);

/* Blocks the handled signals and remembers the mask and dispositions for the command to inherit. */
int tide_tracker_set_up_signals(struct tide_tracker *t, bool owns_terminal, struct tide_err *err);

/* Restores the signal mask and dispositions. */
void tide_tracker_restore_signals(struct tide_tracker *t);

/* Handles signals that have arrived: reaps children, forwards signals, sets t->stop. */
void tide_tracker_handle_signals(struct tide_tracker *t);

/* Reads the keeper's events about a command on a pseudo-terminal. */
void tide_tracker_hear_keeper(struct tide_tracker *t);

#endif
