/*
 * checkpoint.h - a run on disk: DIR/step-NNNNNNNN/{config.json, vocabulary.json, model.safetensors,
 * optimizer.safetensors, state.json}, and the files of the model's tokenizer where it has one.
 *
 * A checkpoint is written into a directory of another name (.step-NNNNNNNN.partial) and renamed when it is
 * whole and on the disk, so that a kill at any moment leaves either the old ones or also the new one; the
 * next save removes what a kill left. state.json has how the run trains, and length and checksum of every
 * other file. Weights have Hugging Face's names with the prefix "transformer." and load in `transformers`;
 * files from there load here (with or without the prefix, F32, F16 or BF16, mask buffers and a tied head
 * skipped).
 *
 * For a model with adapters, the adapters are saved instead of the model: adapter_config.json and
 * adapter_model.safetensors, as PEFT has them.
 *
 * Before training: tide_checkpoint_prepare. While training: tide_checkpoint_save, which takes no memory that
 * grows with the model. To go on or to sample: _find -> _read -> (graph, machine) -> _load.
 */
#ifndef TIDE_CHECKPOINT_H
#define TIDE_CHECKPOINT_H

#include "base/durable.h"
#include "rt/machine.h"
#include "train/settings.h"

/* All that decides the next step, beside weights, moments and data. */
struct tide_checkpoint_state {
    const char *task;                  /* whose run it is; of reading, whose settings are wanted */
    int64_t step;                      /* done; 0: a model from elsewhere */
    bool is_of_task;                   /* of reading: the run is of that task, and settings were filled in */
    struct tide_train_settings *train; /* NULL: not wanted */
    void *own;                         /* of the task, as its table in settings.h says; NULL: not wanted */
};

/* Writes a file of the model or the task (config.json, a tokenizer's ...) and returns whether there is one of
 * that name. file NULL: it is only asked. */
typedef bool tide_checkpoint_writer(void *context, const char *name, struct tide_durable *file);

/* Makes dir and those above it, removes what a kill left in it, and finds out whether something can be
 * written there, before anybody has trained for hours. After it saving touches no page for the first time. */
int tide_checkpoint_prepare(const char *dir, struct tide_err *err);

/* Writes weights, moments and state; then removes all but the newest `keep` of this step and earlier (those
 * into which somebody has put other files stay). One of the same step is replaced. Disk full, killed, another
 * process saving there: -1 or nothing, what was there stays. */
int tide_checkpoint_save(const char *dir, int keep, const struct tide_graph *graph,
                         struct tide_machine *machine, const struct tide_checkpoint_state *state,
                         tide_checkpoint_writer *write, void *context, struct tide_err *err);

/* Weights alone, in a file that nothing removes: dir/name, or where dir is NULL a file without a name, which
 * is there until *ret_fd is closed (else -1). ret_path: how it is opened. One that is there is replaced. */
int tide_checkpoint_keep(const char *dir, const char *name, const struct tide_graph *graph,
                         struct tide_machine *machine, char *ret_path, size_t size, int *ret_fd,
                         struct tide_err *err);

/* The newest whole one in dir, or dir itself where it is a checkpoint or a model of Hugging Face, as a path.
 * Whole: every file has the length and the checksum that state.json gives. 0: found, and where newer ones had
 * to be passed over, err says which was the newest and why (else its text is empty); 1: none; -1: not one of
 * those that are there is whole. */
int tide_checkpoint_find(const char *dir, char *ret_path, size_t size, struct tide_err *err);

/* Of a path that _find gave: what its run had, into `state`. */
int tide_checkpoint_read(const char *path, struct tide_checkpoint_state *state, struct tide_err *err);

/* Whether a file of a checkpoint is what would be written now. 1: it is, or this is a model from elsewhere;
 * 0: it is not; -1: it cannot be read. */
int tide_checkpoint_holds(const char *path, const char *name, tide_checkpoint_writer *write, void *context,
                          struct tide_err *err);

/* Whether its weights match the model: for asking before memory is taken that a lying file names. */
int tide_checkpoint_check(const char *path, const struct tide_graph *graph, struct tide_err *err);

/* Into a machine of the same model. optimizer: false for weights alone. A file that does not match the model
 * is refused, by the name of the first tensor that does not, before anything is overwritten. */
int tide_checkpoint_load(const char *path, const struct tide_graph *graph, struct tide_machine *machine,
                         bool optimizer, struct tide_err *err);

/* The frozen part of a model with adapters, from a model without. */
int tide_checkpoint_load_base(const char *path, const struct tide_graph *graph, struct tide_machine *machine,
                              struct tide_err *err);

#endif
