#include "train/adapters.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/text.h"
#include "train/safetensors.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK_MOST = 1 << 12, FILE_MOST = 1 << 20 };

static int set(struct tide_gpt_config *config, double rank, double alpha, struct tide_err *err)
{
    if (!(rank >= 1 && rank <= RANK_MOST && rank == floor(rank)))
        return tide_err_set(err, "the rank of adapters must be a whole number from 1 to %d", RANK_MOST);
    float scale = (float)(alpha / rank);
    if (!(scale > 0 && isfinite(scale)))
        return tide_err_set(err, "the alpha of adapters must be more than 0, and fit into an f32");
    config->adapter_rank = (int64_t)rank;
    config->adapter_scale = scale;
    return 0;
}

int tide_adapters_parse(const char *text, struct tide_gpt_config *config, struct tide_err *err)
{
    char *end = NULL;
    const char *numbers = !strncmp(text, "lora:", 5) ? text + 5 : "", *last = numbers;
    double rank = strtod(numbers, &end), alpha = rank;
    if (end != numbers && *end == ':') {
        last = end + 1;
        alpha = strtod(last, &end);
    }
    /* strtod also takes white space, infinities and hexadecimal digits. */
    if (*end || end == last || numbers[strspn(numbers, "0123456789.eE+-:")]) {
        tide_err_set(err, "'%s' does not name adapters", TIDE_SHOWN(text, 64));
        return tide_err_hint(err, "--adapt lora:16, or with an alpha: --adapt lora:16:32");
    }
    config->adapters = TIDE_ADAPT_ALL;
    return set(config, rank, alpha, err);
}

/* ---- PEFT's file */

/* True if a field means anything: PEFT writes all fields, the unused ones as null, false or empty. */
static bool is_used(const json_t *field)
{
    return field && !json_is_null(field) && !json_is_false(field) &&
           !(json_is_object(field) && !json_object_size(field)) &&
           !(json_is_array(field) && !json_array_size(field));
}

/* True if the model is unchanged. With other kinds of initialisation, adapters belong to a changed model. */
static bool leaves_model(const json_t *init)
{
    static const char *const kinds[] = {"gaussian", "eva", "orthogonal"};
    const char *kind = json_string_value(init);
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i]))
            return true;
    return !kind;
}

/* Refuses what would compute something else. */
static int refuse(const json_t *root, struct tide_err *err)
{
    static const char *const fields[] = {"use_rslora",        "use_dora",          "alpha_pattern",
                                         "rank_pattern",      "modules_to_save",   "alora_invocation_tokens",
                                         "layer_replication", "kasa_config",       "use_bdlora",
                                         "use_qalora",        "monteclora_config", "arrow_config"};
    const char *type = json_string_value(json_object_get(root, "peft_type")),
               *bias = json_string_value(json_object_get(root, "bias"));
    const json_t *init = json_object_get(root, "init_lora_weights");
    if (!type || strcmp(type, "LORA") != 0)
        return tide_err_set(err, "the adapters are not of peft_type LORA");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (is_used(json_object_get(root, fields[i])))
            return tide_err_set(err, "the adapters need %s, which is not supported", fields[i]);
    if (bias && strcmp(bias, "none") != 0)
        return tide_err_set(err, "the adapters train biases; only bias 'none' is supported");
    if (!leaves_model(init))
        return tide_err_set(err, "the adapters need init_lora_weights '%s', which is not supported",
                            TIDE_SHOWN(json_string_value(init), 64));
    return 0;
}

static int take(const json_t *root, struct tide_gpt_config *config, char *ret_base, size_t size,
                struct tide_err *err)
{
    const char *base = json_string_value(json_object_get(root, "base_model_name_or_path"));
    if (refuse(root, err) || set(config, json_number_value(json_object_get(root, "r")),
                                 json_number_value(json_object_get(root, "lora_alpha")), err))
        return -1;
    if ((size_t)snprintf(ret_base, size, "%s", base ? base : "") >= size)
        return tide_err_set(err, "the path of the adapted model is too long");
    return 0;
}

int tide_adapters_read(const char *path, struct tide_gpt_config *config, char *ret_base, size_t size,
                       struct tide_err *err)
{
    json_t *root = tide_json_read(path, FILE_MOST, "the adapters' configuration", err);
    if (!root)
        return -1;
    int status = take(root, config, ret_base, size, err);
    json_decref(root);
    return status ? tide_err_wrap(err, "%s", TIDE_SHOWN(path, 256)) : 0;
}

/* Returns the layer whose adapter a tensor belongs to, and its block; -1: none.
 * "base_model.model.transformer.h.BLOCK.LAYER.lora_A.weight", or lora_B. */
static int layer_of(const char *name, int64_t *ret_block)
{
    static const char before[] = "base_model.model.transformer.h.";
    if (strncmp(name, before, strlen(before)) != 0)
        return -1;
    const char *block = name + strlen(before);
    size_t digits = strspn(block, "0123456789");
    if (!digits || digits > 9 || block[digits] != '.')
        return -1;
    *ret_block = strtoll(block, NULL, 10);
    const char *layer = block + digits + 1;
    for (int i = 0; i < TIDE_GPT_LAYERS; i++) {
        size_t len = strlen(tide_gpt_layers[i]);
        if (!strncmp(layer, tide_gpt_layers[i], len) &&
            (!strcmp(layer + len, ".lora_A.weight") || !strcmp(layer + len, ".lora_B.weight")))
            return i;
    }
    return -1;
}

static int take_layers(const struct tide_safetensors *file, struct tide_gpt_config *config,
                       struct tide_err *err)
{
    int64_t found[TIDE_GPT_LAYERS] = {0}, block;
    config->adapters = 0;
    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].name;
        int layer = layer_of(name, &block);
        if (layer < 0 || block >= config->blocks)
            return tide_err_set(
                err,
                "it has a tensor '%s'; only lora_A.weight and lora_B.weight of c_attn, c_proj and c_fc in the model's %lld blocks are supported",
                TIDE_SHOWN(name, 160), (long long)config->blocks);
        found[layer]++;
        config->adapters |= 1U << layer;
    }
    for (int i = 0; i < TIDE_GPT_LAYERS; i++)
        if (found[i] && found[i] != 2 * config->blocks)
            return tide_err_set(
                err,
                "it has adapters on %s in some of the model's %lld blocks only; a layer must have them in every block",
                tide_gpt_layers[i], (long long)config->blocks);
    return file->count ? 0 : tide_err_set(err, "it has no adapters");
}

int tide_adapters_find(const char *path, struct tide_gpt_config *config, struct tide_err *err)
{
    struct tide_safetensors file;
    if (tide_safetensors_open(&file, path, err))
        return -1;
    int status = take_layers(&file, config, err);
    tide_safetensors_close(&file);
    return status ? tide_err_wrap(err, "%s", TIDE_SHOWN(path, 256)) : 0;
}

void tide_adapters_write(const struct tide_gpt_config *config, const char *base, FILE *out)
{
    struct tide_json json;
    tide_json_init(&json, out, false);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "peft_type", "LORA");
    tide_json_text(&json, "task_type", "CAUSAL_LM");
    tide_json_text(&json, "base_model_name_or_path", *base ? base : NULL);
    tide_json_integer(&json, "r", config->adapter_rank);
    tide_json_real(&json, "lora_alpha", (double)config->adapter_scale * (double)config->adapter_rank);
    tide_json_real(&json, "lora_dropout", 0);
    tide_json_text(&json, "bias", "none");
    tide_json_bool(&json, "fan_in_fan_out", true); /* GPT-2's layers are stored as (in, out) */
    tide_json_bool(&json, "inference_mode", true);
    tide_json_array(&json, "target_modules");
    for (int i = 0; i < TIDE_GPT_LAYERS; i++)
        if (config->adapters >> i & 1)
            tide_json_text(&json, NULL, tide_gpt_layers[i]);
    tide_json_end(&json);
    tide_json_end(&json);
}
