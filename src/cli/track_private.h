/*
 * track_private.h - the tracker, shared by track.c (what it does every tick, at the beginning and at the end)
 * and track_events.c (signals, and what becomes of the command).
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
#include "record/writer.h"
#include "sense/heap_sense.h"
#include "sense/sense.h"

struct tide_tracker {
    const struct tide_track_config *config;
    struct tide_track_outcome *outcome;
    struct tide_relay *relay;     /* NULL for attach */
    struct tide_stepwords *words; /* NULL: no output to look at */
    struct tide_channel *channel; /* NULL: none */
    struct tide_writer *writer;
    struct tide_sense *sense;
    struct tide_heap_sense *heap; /* NULL: without --heap */
    struct tide_preloading preload;
    struct tide_trend *trend; /* NULL: no status line */
    struct tide_spawned spawned;
    struct tide_spawn_inheritance inherited;
    struct tide_descriptors descriptors; /* for who keeps files open: sense, channel, heap */
    int signals;                         /* signalfd */
    int file_fd;                         /* attach: the command's standard output, when it is a file; -1 */
    off_t file_at;
    int64_t base_ns, next_ns, step_ns, committed_ns;
    int64_t cost_ns;  /* of a look, smoothed */
    int64_t ended_ns; /* when the command ended; 0: it runs */
    int exit_signal;  /* that killed it; 0: none did */
    struct tide_channel_counts marks;
    struct tide_sense_view view;
    int empty_looks;              /* in a row that saw nobody alive, since the command ended */
    bool steps_said, epochs_said; /* by the program itself: its output is not asked any more */
    bool stop;                    /* the user has had enough */
    bool told_of_survivors;
};

/* A line for the user, behind "tidemark: ", on stderr or among the program's output. */
void tide_tracker_say(struct tide_tracker *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first thing that went wrong with the recording is told once; the program goes on. */
void tide_tracker_trouble(struct tide_tracker *t, const struct tide_err *err);

/* Blocks what is handled and remembers what the command is to inherit. */
int tide_tracker_set_up_signals(struct tide_tracker *t, bool owns_terminal, struct tide_err *err);

/* Everything about signals as it was before. */
void tide_tracker_restore_signals(struct tide_tracker *t);

/* What has arrived: children are reaped, signals forwarded, t->stop set. */
void tide_tracker_handle_signals(struct tide_tracker *t);

/* What the keeper has to say about a command on a pseudo-terminal. */
void tide_tracker_hear_keeper(struct tide_tracker *t);

#endif
