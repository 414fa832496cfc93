/*
 * stepwords.h - finds training steps and epochs in what a program prints.
 *
 * tide_stepwords_new -> tide_stepwords_feed() with output as it comes -> tide_stepwords_take() every tick ->
 * tide_stepwords_end() at the end of output, one more take -> tide_stepwords_free(). No I/O, no clock: the
 * caller says when bytes arrived. One thread.
 *
 * Lines end at \n and \r; escape sequences are dropped; only the first TIDE_STEPWORDS_LINE bytes of a line
 * count. It recognises tqdm and keras bars, `step 12`, `Step: 12`, `step=12`, `iter 12/100`, `global_step
 * 12`, `'step': 12`, `it 12`, `update 12`, `Epoch: [3][ 120/1000]`, `200/2983 batches`, `[12/100] loss 0.3`,
 * `12/100 loss 0.3`, `Epoch 3`, `epoch 3/10`, `'epoch': 0.5`; with a regular expression of the caller's, only
 * what that finds. tests/fixtures/progress.txt has what frameworks print. Times ("step 12ms"), settings
 * ("max_steps=100", "warmup_step 5") and bars of loading or of validation are not steps. Numbers are taken as
 * printed: in `Train Epoch: 1 [640/60000 (1%)]` the number counts items, because nothing tells ten batches of
 * 64 from 640 batches.
 *
 * A program may print several counters at once (a bar for training, one for validation, a line every 100
 * steps). Each is followed separately, and one of them supplies the steps: the first that rose twice, until
 * another rises more often while the first is silent, or a `global_step` appears. One that reached its total,
 * as a bar of preprocessing does, gives way sooner: when another has risen alone for longer than it took. If
 * the other counts something else, its steps are a stage of their own and keep their numbers. Within a stage
 * step numbers never fall: a counter that restarts (each epoch from 1) is added to what came before.
 */
#ifndef TIDE_STEPWORDS_H
#define TIDE_STEPWORDS_H

#include "base/err.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

enum { TIDE_STEPWORDS_LINE = 4096, TIDE_STEPWORDS_STREAMS = 2, TIDE_STEPWORDS_TAKE = 16 };

struct tide_stepwords;

struct tide_stepwords_found {
    int64_t t_ns;             /* when the line's last byte arrived */
    enum tide_mark_kind kind; /* TIDE_MARK_STEP or TIDE_MARK_EPOCH */
    int64_t number;
    int stage; /* of a step: 1, or how many loops counted one after another */
};

/* regex: POSIX extended; its first group is the number; NULL: the patterns above. Fails with regerror's
 * message. Caller frees with tide_stepwords_free. */
int tide_stepwords_new(const char *regex, struct tide_stepwords **ret_words, struct tide_err *err);
void tide_stepwords_free(struct tide_stepwords *words);

/* stream: 0 for standard output, 1 for standard error; lines of the two are kept apart. */
void tide_stepwords_feed(struct tide_stepwords *words, int stream, const char *bytes, size_t len,
                         int64_t t_ns);

/* Bytes of that stream were left out here: the line in progress is dropped. */
void tide_stepwords_gap(struct tide_stepwords *words, int stream);

/* The output ended: unfinished lines are parsed too. */
void tide_stepwords_end(struct tide_stepwords *words);

/* Returns what was found since the last take, in order of time: at most TIDE_STEPWORDS_TAKE steps (the first,
 * the last, and an even choice between) and as many epochs. */
size_t tide_stepwords_take(struct tide_stepwords *words,
                           struct tide_stepwords_found ret_found[static 2 * TIDE_STEPWORDS_TAKE]);

#endif
