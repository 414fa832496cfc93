/*
 * language.h - the language model of a run: its shape, adapters and vocabulary, and where its weights lie.
 *
 * What tasks that train one share. tide_language_settle() says which model it is -> the task opens its data
 * and sets the vocabulary -> graph and machine -> tide_language_start() fills the weights; whatever is
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
    const char *preset, *config; /* NULL: as in what is resumed, or the smallest */
    const char *adapt;           /* new adapters: adapters.h; NULL: none */
    bool goes_on;                /* what it is from is the same run, whose adapters may be named again */
};

struct tide_language {
    struct tide_gpt_config config;
    char from[TIDE_LANGUAGE_PATH]; /* the checkpoint or directory that it is from; "": from nowhere */
    char base[TIDE_LANGUAGE_PATH]; /* of adapters: the model that they adapt; "": first weights */
    struct tide_vocabulary *vocabulary;
};

/* What a path that tide_checkpoint_find gave holds. ret_base: of adapters, the model that they adapt. */
int tide_language_read(const char *path, struct tide_gpt_config *ret_config,
                       char ret_base[static TIDE_LANGUAGE_PATH], struct tide_err *err);

/* Where its vocabulary lies. Adapters from elsewhere come without, and have that of the model that they
 * adapt. */
const char *tide_language_vocabulary_in(const char *path, const char *base);

/* from: NULL: a new model. stored: as matrices will lie in memory. */
int tide_language_settle(struct tide_language *language, const struct tide_language_options *options,
                         const char *from, enum tide_dtype stored, struct tide_err *err);

/* First weights, or those of the model that adapters adapt, into a machine that is new. */
int tide_language_start(const struct tide_language *language, const struct tide_graph *graph,
                        struct tide_machine *machine, uint64_t seed, struct tide_err *err);

/* Whether its tokens mean what they meant when a checkpoint was made. */
int tide_language_check(struct tide_language *language, const char *checkpoint, struct tide_err *err);

/* A line for people. tokens: where they come from; NULL: from nowhere. */
void tide_language_describe(const struct tide_language *language, const struct tide_trainer *trainer,
                            const char *tokens, FILE *out);

/* A tide_checkpoint_writer. */
bool tide_language_write(struct tide_language *language, const char *name, struct tide_durable *file);

#endif
