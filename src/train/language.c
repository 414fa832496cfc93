#include "train/language.h"
#include "base/text.h"
#include "base/units.h"
#include "train/adapters.h"
#include "train/config.h"
#include "train/initial.h"
#include "train/tokenizer.h"
#include "train/trainer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- which model */

static int join(const char *dir, const char *name, char to[static TIDE_LANGUAGE_PATH], struct tide_err *err)
{
    if (snprintf(to, TIDE_LANGUAGE_PATH, "%s/%s", dir, name) >= TIDE_LANGUAGE_PATH)
        return tide_err_set(err, "the path of the model is too long");
    return 0;
}

int tide_language_read(const char *path, struct tide_gpt_config *ret_config,
                       char ret_base[static TIDE_LANGUAGE_PATH], struct tide_err *err)
{
    char file[TIDE_LANGUAGE_PATH];
    struct tide_gpt_config adapters = {0}, config;
    ret_base[0] = '\0';
    if (join(path, "adapter_config.json", file, err) ||
        (!access(file, F_OK) && tide_adapters_read(file, &adapters, ret_base, TIDE_LANGUAGE_PATH, err)) ||
        join(path, "config.json", file, err))
        return -1;
    /* Adapters from elsewhere come without the model's own configuration. */
    if (access(file, F_OK) && ret_base[0] && join(ret_base, "config.json", file, err))
        return -1;
    if (tide_config_read(file, &config, err))
        return -1;
    config.adapter_rank = adapters.adapter_rank;
    config.adapter_scale = adapters.adapter_scale;
    if (config.adapter_rank &&
        (join(path, "adapter_model.safetensors", file, err) || tide_adapters_find(file, &config, err)))
        return -1;
    *ret_config = config;
    return 0;
}

const char *tide_language_vocabulary_in(const char *path, const char *base)
{
    return base[0] && !tide_vocabulary_is_in(path) ? base : path;
}

static int settle_shape(struct tide_language *l, const struct tide_language_options *o, struct tide_err *err)
{
    struct tide_gpt_config asked;
    if (o->preset && o->config)
        return tide_err_set(err, "--preset and --config cannot be used together");
    if (l->from[0] && !o->preset && !o->config)
        return 0;
    if (o->config ? tide_config_read(o->config, &asked, err)
                  : tide_config_preset(o->preset ? o->preset : "tiny", &asked, err))
        return -1;
    if (l->from[0]) {
        if (o->preset)
            asked.vocabulary = l->config.vocabulary; /* for a preset the data set it */
        if (memcmp(&asked, &l->config, offsetof(struct tide_gpt_config, epsilon)) != 0 ||
            asked.epsilon != l->config.epsilon)
            return tide_err_set(err, "--%s names a different model from the one of the resumed run",
                                o->preset ? "preset" : "config");
        return 0;
    }
    l->config = asked;
    return 0;
}

static int compare_adapters(const struct tide_gpt_config *has, const struct tide_gpt_config *asked,
                            struct tide_err *err)
{
    if (asked->adapter_rank == has->adapter_rank && asked->adapter_scale == has->adapter_scale &&
        asked->adapters == has->adapters)
        return 0;
    return tide_err_set(err, "the resumed run has other adapters: leave --adapt out");
}

/* Adds new adapters to the model or to new weights, or keeps those that it has. */
static int settle_adapters(struct tide_language *l, const struct tide_language_options *o,
                           struct tide_err *err)
{
    struct tide_gpt_config asked = l->config;
    if (!o->adapt)
        return 0;
    if (tide_adapters_parse(o->adapt, &asked, err))
        return -1;
    if (l->config.adapter_rank && o->goes_on)
        return compare_adapters(&l->config, &asked, err);
    if (l->config.adapter_rank)
        return tide_err_set(err, "the resumed run has adapters: leave --adapt out");
    if (o->goes_on) { /* its optimizer state is that of the whole model */
        tide_err_set(err, "the resumed run trains the whole model: --adapt cannot be added");
        return tide_err_hint(err, "begin a new run with its model: --model %s --out DIR --adapt %s",
                             TIDE_SHOWN(l->from, 256), TIDE_SHOWN(o->adapt, 64));
    }
    l->config = asked;
    if (l->from[0] && !realpath(l->from, l->base))
        return tide_err_set(err, "cannot find the model to adapt: %s", strerror(errno));
    return 0;
}

int tide_language_settle(struct tide_language *l, const struct tide_language_options *options,
                         const char *from, const char *stored, struct tide_err *err)
{
    if (from && snprintf(l->from, sizeof l->from, "%s", from) >= (int)sizeof l->from)
        return tide_err_set(err, "the path of the model is too long");
    if ((from && tide_language_read(from, &l->config, l->base, err)) || settle_shape(l, options, err) ||
        settle_adapters(l, options, err))
        return -1;
    if (strcmp(stored, "int8") != 0 || l->config.adapter_rank)
        return 0;
    tide_err_set(err, "weights stored as int8 cannot be trained");
    return tide_err_hint(err, "adapters on them can: --adapt lora:16");
}

/* ---- its weights */

int tide_language_start(const struct tide_language *l, const struct tide_graph *graph,
                        struct tide_machine *machine, uint64_t seed, struct tide_err *err)
{
    char path[TIDE_LANGUAGE_PATH];
    if (tide_initial_weights(graph, machine, seed, err))
        return -1;
    if (!l->base[0])
        return 0;
    int found = tide_checkpoint_find(l->base, path, sizeof path, err);
    if (found > 0)
        return tide_err_set(err, "the adapted model is no longer in '%s'", l->base);
    return found < 0 || tide_checkpoint_load_base(path, graph, machine, err) ? -1 : 0;
}

/* ---- its files */

int tide_language_check(struct tide_language *l, const char *checkpoint, struct tide_err *err)
{
    int status = tide_checkpoint_holds(checkpoint, "vocabulary.json", tide_language_write, l, err);
    if (status)
        return status < 0 ? -1 : 0;
    tide_err_set(err,
                 "the model was trained with other symbols than this data has, or with another tokenizer");
    return tide_err_wrap(err, "%s", TIDE_SHOWN(checkpoint, 256));
}

/* A file that the tokenizer came with. */
static bool write_of_tokenizer(const struct tide_language *l, const char *name, struct tide_durable *file)
{
    const struct tide_tokenizer *tokenizer = l->vocabulary->tokenizer;
    for (int i = 0; tokenizer && i < TIDE_TOKENIZER_FILES; i++) {
        if (!tokenizer->files[i].bytes || strcmp(tide_tokenizer_names[i], name) != 0)
            continue;
        if (file)
            tide_durable_put(file, tokenizer->files[i].bytes, tokenizer->files[i].len);
        return true;
    }
    return false;
}

bool tide_language_write(void *language, const char *name, struct tide_durable *file)
{
    const struct tide_language *l = language;
    if (!strcmp(name, "config.json")) {
        if (file)
            tide_config_write(&l->config, file->out);
        return true;
    }
    if (!strcmp(name, "vocabulary.json")) {
        if (file)
            tide_vocabulary_write(l->vocabulary, file->out);
        return true;
    }
    if (!strcmp(name, "adapter_config.json")) {
        if (file && l->config.adapter_rank)
            tide_adapters_write(&l->config, l->base, file->out);
        return l->config.adapter_rank;
    }
    return write_of_tokenizer(l, name, file);
}

void tide_language_describe(const struct tide_language *l, const struct tide_trainer *trainer,
                            const char *tokens, FILE *out)
{
    const struct tide_gpt_config *c = &l->config;
    const struct tide_train_options *o = &trainer->options;
    const struct tide_device *device = trainer->device;
    char parameters[TIDE_UNITS_TEXT];
    fprintf(
        out,
        "model    %s parameters: %lld blocks of %lld, %lld heads, %lld tokens%s%s; %s, %lld thread%s, %s\n",
        tide_count_text((double)trainer->graph->parameters, parameters), (long long)c->blocks,
        (long long)c->channels, (long long)c->heads, (long long)c->vocabulary, tokens ? " of " : "",
        tokens ? tokens : "", o->settings.dtype, (long long)o->threads, o->threads == 1 ? "" : "s",
        device->products(device, trainer->graph->compute));
}
