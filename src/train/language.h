/*
 * language.h - the language model of a run: its shape, adapters and vocabulary, and where its weights are.
 *
 * Shared by the tasks that train one. tide_language_settle() decides which model it is -> the task opens its
 * data and sets the vocabulary -> graph and machine -> tide_language_start() fills in the weights; what is
 * resumed is loaded over them. tide_language_write() writes the model's files of a checkpoint.
 */
#ifndef TIDE_LANGUAGE_H
#define TIDE_LANGUAGE_H

#include "train/checkpoint.h"
#include "train/gpt.h"
#include "train/vocabulary.h"

enum { TIDE_LANGUAGE_PATH = 4096 };

struct tide_trainer;

struct tide_language_options {
    const char *preset, *config; /* NULL: as in the resumed run, or the smallest */
    const char *adapt;           /* new adapters: adapters.h; NULL: none */
    bool goes_on;                /* `from` is the same run, whose adapters may be named again */
};

struct tide_language {
    struct tide_gpt_config config;
    char from[TIDE_LANGUAGE_PATH];            /* the checkpoint or directory that it is from; "": none */
    char base[TIDE_LANGUAGE_PATH];            /* with adapters: the adapted model; "": new weights */
    const struct tide_vocabulary *vocabulary; /* borrowed: that of the data, or the task's */
};

/* Reads the configuration at a path of tide_checkpoint_find. ret_base: the model that its adapters adapt. */
int tide_language_read(const char *path, struct tide_gpt_config *ret_config,
                       char ret_base[static TIDE_LANGUAGE_PATH], struct tide_err *err);

/* Returns the directory of the vocabulary. Adapters from elsewhere use that of their base model. */
const char *tide_language_vocabulary_in(const char *path, const char *base);

/* from NULL: a new model. stored: the name of the type of matrices in memory. */
int tide_language_settle(struct tide_language *language, const struct tide_language_options *options,
                         const char *from, const char *stored, struct tide_err *err);

/* Fills a new machine with new weights, or with those of the adapted model. */
int tide_language_start(const struct tide_language *language, const struct tide_graph *graph,
                        struct tide_machine *machine, uint64_t seed, struct tide_err *err);

/* Checks that tokens mean what they meant when a checkpoint was made. */
int tide_language_check(struct tide_language *language, const char *checkpoint, struct tide_err *err);

/* Writes a line for people. tokens: where they come from; NULL: nowhere. */
void tide_language_describe(const struct tide_language *language, const struct tide_trainer *trainer,
                            const char *tokens, FILE *out);

/* Writes the model's files; the context is the language. */
tide_checkpoint_writer tide_language_write;

#endif
