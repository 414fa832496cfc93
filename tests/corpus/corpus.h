/*
 * corpus.h - labelled memory series, made from a seed: what the judge is measured on.
 *
 * A run is a truth (shape of the floor, in the classes (a) to (j) of the reference cases) plus everything
 * that hides it: noise with and without memory, collector sawtooth, validation spikes, warm-up, quantised
 * allocators, missing and irregular samples, broken samples. Levels go from 100 MB to 20 GB, leaks from 1e-5
 * to 1e-3 of the level per step (1 KB per step on 100 MB, 20 MB per step on 20 GB). The same seed and number
 * give the same run on every machine with IEEE doubles.
 */
#ifndef TIDE_CORPUS_H
#define TIDE_CORPUS_H

#include "judge/judge.h"

#include <stdint.h>

enum tide_corpus_class {
    CORPUS_FLAT,         /* nothing but noise */
    CORPUS_HELPERS,      /* (f) helper processes: constant, started early */
    CORPUS_SPIKES,       /* (c) */
    CORPUS_SAWTOOTH,     /* collector: fills and falls, floor flat */
    CORPUS_LINEAR,       /* (a) (e): leak */
    CORPUS_LATE,         /* leak that begins after a while */
    CORPUS_STAIRCASE,    /* (g): leak per epoch */
    CORPUS_ACCELERATING, /* (h): leak */
    CORPUS_ONE_PASS,     /* (b): linear, then flat */
    CORPUS_SATURATING,   /* (b) (i) (j): slows down and stops */
    CORPUS_JUMP,         /* (d) */
    CORPUS_WALK,         /* a walk at random: goes somewhere, driven by nothing */
    CORPUS_CLASSES
};

enum tide_corpus_length { CORPUS_SHORT, CORPUS_MEDIUM, CORPUS_LONG, CORPUS_LENGTHS };

struct tide_corpus_run {
    enum tide_corpus_class class;
    enum tide_corpus_length length;
    enum tide_verdict_kind truth;
    enum tide_verdict_kind also_right; /* of a walk nobody can say that it is flat: undecided is right too */
    double bytes_per_step;             /* leaks: where it varies, over the last third of the run; else 0 */
    double change_x;                   /* knee or jump; else NAN */
    double level;
    double *x, *bytes; /* live in the arena */
    size_t count;
};

/* Run number n of the corpus of that seed: class and length cycle, the rest is drawn. -1 without memory. */
int tide_corpus_make(uint64_t seed, uint64_t n, struct tide_arena *arena, struct tide_corpus_run *ret);

const char *tide_corpus_class_name(enum tide_corpus_class class);
const char *tide_corpus_length_name(enum tide_corpus_length length);

#endif
