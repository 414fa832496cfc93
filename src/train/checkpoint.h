/*
 * checkpoint.h - a run on disk: DIR/step-NNNNNNNN/{config.json, vocabulary.json, model.safetensors,
 * optimizer.safetensors, state.json}, and the files of the model's tokenizer if it has one.
 *
 * A checkpoint is written into a directory of another name (.step-NNNNNNNN.partial) and renamed when it is
 * complete and on disk. So a kill at any moment leaves the old ones, or also the new one; the next save
 * removes what a kill left. state.json holds the settings of the run, the length and checksum of every other
 * file, and a checksum of its own. Weights have Hugging Face's names with the prefix "transformer." and load
 * in `transformers`; files from there load here (with or without the prefix, F32, F16 or BF16; mask buffers
 * and a tied head are skipped).
 *
 * For a model with adapters, the adapters are saved instead of the model: adapter_config.json and
 * adapter_model.safetensors, in PEFT's format.
 *
 * Before training: tide_checkpoint_enter, _prepare. While training: tide_checkpoint_save, whose memory does
 * not grow with the model. Afterwards: tide_checkpoint_leave. To resume or to sample: _find -> _read ->
 * (graph, machine) -> _load.
 */
#ifndef TIDE_CHECKPOINT_H
#define TIDE_CHECKPOINT_H

#include "base/durable.h"
#include "rt/machine.h"
#include "train/settings.h"

/* Everything that decides the next step, besides weights, moments and data. */
struct tide_checkpoint_state {
    const char *task; /* whose run it is; when reading, whose settings are wanted */
    int64_t step;     /* steps done; 0: a model from elsewhere */
    bool is_of_task;  /* when reading: the run is of that task, and settings were filled in */
    struct tide_train_settings *train; /* NULL: not wanted */
    void *own; /* the task's own, as its table in settings.h describes; NULL: not wanted */
};

/* Writes a file of the model or the task (config.json, a tokenizer's ...). Returns true if there is one of
 * that name. file NULL: only asks. */
typedef bool tide_checkpoint_writer(void *context, const char *name, struct tide_durable *file);

/* The directory that a run saves its checkpoints in. Only one process at a time may hold it. */
struct tide_checkpoint_dir {
    const char *path;
    int64_t keep; /* how many of the newest checkpoints stay */
    int fd;       /* open and locked; -1: not held. The kernel unlocks it if the process dies. */
    size_t made;  /* length of the path up to the first directory that was made here; 0: none was made */
};

/* Makes the directory and its parents, and locks it. If it is held already, only checks that it is still at
 * its path, and if not, makes and locks a new one. -1: another process holds it, or it cannot be made. */
int tide_checkpoint_enter(struct tide_checkpoint_dir *dir, struct tide_err *err);

/* Unlocks it. If nothing was saved, removes the directories that were made here, and what was kept. */
void tide_checkpoint_leave(struct tide_checkpoint_dir *dir);

/* Enters, removes what a kill left, and checks that files can be written there, so that a run does not fail
 * hours later. Also touches every page that saving needs. */
int tide_checkpoint_prepare(struct tide_checkpoint_dir *dir, struct tide_err *err);

/* Enters, and writes weights, moments and state; then removes all but the newest dir->keep checkpoints up to
 * this step (those that contain foreign files stay). Replaces one of the same step. If it fails or is killed
 * (disk full, another process trains into it), everything that was there stays. */
int tide_checkpoint_save(struct tide_checkpoint_dir *dir, const struct tide_graph *graph,
                         struct tide_machine *machine, const struct tide_checkpoint_state *state,
                         tide_checkpoint_writer *write, void *context, struct tide_err *err);

/* Writes the weights alone to a file that stays beside the checkpoints: dir/TIDE_CHECKPOINT_KEPT or, if dir
 * is NULL, an unnamed file that exists until *ret_fd is closed (else -1). ret_path: the path to open it.
 * Replaces an existing file. */
#define TIDE_CHECKPOINT_KEPT "reference.safetensors"
int tide_checkpoint_keep(const char *dir, const struct tide_graph *graph, struct tide_machine *machine,
                         char *ret_path, size_t size, int *ret_fd, struct tide_err *err);

/* Finds the newest complete checkpoint in dir, or dir itself if it is a checkpoint or a Hugging Face model.
 * Complete: every file has the length and the checksum that state.json gives. Returns 0 if found; if newer
 * ones were skipped, err names the newest and the reason (else its text is empty). 1: there are none; -1:
 * none of those that exist is complete. */
int tide_checkpoint_find(const char *dir, char *ret_path, size_t size, struct tide_err *err);

/* Reads the settings of a checkpoint that _find returned into `state`. */
int tide_checkpoint_read(const char *path, struct tide_checkpoint_state *state, struct tide_err *err);

/* 1: a file of a checkpoint is what would be written now, or this is a model from elsewhere; 0: it is not;
 * -1: it cannot be read. */
int tide_checkpoint_holds(const char *path, const char *name, tide_checkpoint_writer *write, void *context,
                          struct tide_err *err);

/* Checks that its weights match the model, before memory is allocated on the word of an untrusted file. */
int tide_checkpoint_check(const char *path, const struct tide_graph *graph, struct tide_err *err);

/* Loads into a machine of the same model. optimizer: false loads weights alone. Refuses a file that does not
 * match the model, with the name of the first wrong tensor, before anything is overwritten. */
int tide_checkpoint_load(const char *path, const struct tide_graph *graph, struct tide_machine *machine,
                         bool optimizer, struct tide_err *err);

/* Loads the frozen part of a model with adapters from a model without. */
int tide_checkpoint_load_base(const char *path, const struct tide_graph *graph, struct tide_machine *machine,
                              struct tide_err *err);

#endif
