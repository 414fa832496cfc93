#include "train/config.h"
#include "base/gpt2_config.h"
#include "base/json.h"
#include "base/text.h"

#include <string.h>

#define MODEL(tokens, places, width, count, depth, inner)                                                    \
    {                                                                                                        \
        .vocabulary = (tokens), .positions = (places), .channels = (width), .heads = (count),                \
        .blocks = (depth), .hidden = (inner), .epsilon = 1e-5F                                               \
    }

static const struct {
    const char *name;
    struct tide_gpt_config config;
} presets[] = {
    {"tiny", MODEL(0, 128, 64, 4, 2, 256)},          {"small", MODEL(0, 256, 128, 4, 2, 512)},
    {"medium", MODEL(0, 512, 256, 8, 4, 1024)},      {"large", MODEL(0, 1024, 512, 16, 6, 2048)},
    {"gpt2", MODEL(50257, 1024, 768, 12, 12, 3072)},
};

int tide_config_preset(const char *name, struct tide_gpt_config *ret_config, struct tide_err *err)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (!strcmp(presets[i].name, name)) {
            *ret_config = presets[i].config;
            return 0;
        }
    tide_err_set(err, "there is no preset '%s'", TIDE_SHOWN(name, 64));
    return tide_err_hint(err, "tiny, small, medium, large, gpt2");
}

int tide_config_check(const struct tide_gpt_config *c, struct tide_err *err)
{
    const struct {
        const char *name;
        int64_t value, most;
    } bounds[] = {{"n_embd", c->channels, 1 << 16},       {"n_head", c->heads, 1 << 12},
                  {"n_layer", c->blocks, 1 << 10},        {"n_inner", c->hidden, 1 << 18},
                  {"n_positions", c->positions, 1 << 20}, {"vocab_size", c->vocabulary, 1 << 24}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].value < 1 || bounds[i].value > bounds[i].most)
            return tide_err_set(err, "the model's %s is %lld; it must be from 1 to %lld", bounds[i].name,
                                (long long)bounds[i].value, (long long)bounds[i].most);
    if (c->channels % c->heads)
        return tide_err_set(err, "the model's n_embd (%lld) is not a multiple of n_head (%lld)",
                            (long long)c->channels, (long long)c->heads);
    if (!(c->epsilon > 0 && c->epsilon < 1))
        return tide_err_set(err, "the model's layer_norm_epsilon must be between 0 and 1");
    return 0;
}

static int refuse_attention(const json_t *root, struct tide_err *err)
{
    static const struct {
        const char *name;
        bool wanted;
    } flags[] = {{"scale_attn_weights", true},
                 {"scale_attn_by_inverse_layer_idx", false},
                 {"add_cross_attention", false}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        bool value = flags[i].wanted;
        if (tide_json_take_flag(root, flags[i].name, &value, err))
            return -1;
        if (value != flags[i].wanted)
            return tide_err_set(err, "the model's %s is %s, which is not supported", flags[i].name,
                                value ? "true" : "false");
    }
    return 0;
}

/* Refuses what this runtime would compute differently. */
static int refuse_others(const json_t *root, const struct tide_gpt2_config *c, struct tide_err *err)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));
    if (type && !strcmp(type, TIDE_BOARDNET_TYPE))
        return tide_err_set(
            err, "the model plays a board game and knows no text; play against it with 'tidemark play'");
    if (type && strcmp(type, "gpt2") != 0)
        return tide_err_set(err, "the model is of type '%s'; only gpt2 is supported", TIDE_SHOWN(type, 64));
    if (strcmp(c->activation, "gelu_new") != 0 && strcmp(c->activation, "gelu_pytorch_tanh") != 0)
        return tide_err_set(err, "the model's activation_function is '%s'; only gelu_new is supported",
                            TIDE_SHOWN(c->activation, 64));
    if (!c->tied)
        return tide_err_set(err,
                            "the model has a head of its own; only one tied to the embedding is supported");
    return refuse_attention(root, err);
}

static int take_special(const json_t *root, const char *key, struct tide_gpt_special *to,
                        struct tide_err *err)
{
    const json_t *value = json_object_get(root, key);
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    *to = (struct tide_gpt_special){0};
    if (!value || json_is_null(value)) {
        to->count = value ? -1 : 0;
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(id) || count > TIDE_GPT_SPECIAL)
            return tide_err_set(err, "'%s' must be the number of a token, or a list of at most %d", key,
                                TIDE_GPT_SPECIAL);
        to->ids[to->count++] = json_integer_value(id);
    }
    return 0;
}

/* Frees the document. */
static int take_config(json_t *root, struct tide_gpt_config *ret_config, struct tide_err *err)
{
    struct tide_gpt2_config c;
    struct tide_gpt_special begin, end, pad;
    int status = tide_gpt2_config_take(root, &c, err) || refuse_others(root, &c, err) ||
                         take_special(root, "bos_token_id", &begin, err) ||
                         take_special(root, "eos_token_id", &end, err) ||
                         take_special(root, "pad_token_id", &pad, err)
                     ? -1
                     : 0;
    json_decref(root);
    if (status)
        return -1;
    struct tide_gpt_config config = {.vocabulary = c.vocabulary,
                                     .positions = c.positions,
                                     .channels = c.channels,
                                     .heads = c.heads,
                                     .blocks = c.blocks,
                                     .hidden = c.hidden,
                                     .epsilon = (float)c.epsilon,
                                     .begin = begin,
                                     .end = end,
                                     .pad = pad};
    if (tide_config_check(&config, err))
        return -1;
    *ret_config = config;
    return 0;
}

int tide_config_read(const char *path, struct tide_gpt_config *ret_config, struct tide_err *err)
{
    json_t *root = tide_json_read(path, TIDE_CONFIG_MOST, TIDE_CONFIG_WHAT, err);
    if (!root)
        return -1;
    return take_config(root, ret_config, err) ? tide_err_wrap(err, "%s", TIDE_SHOWN(path, 256)) : 0;
}

static void write_special(const char *key, const struct tide_gpt_special *s, struct tide_json *json)
{
    if (s->count < 0)
        tide_json_null(json, key);
    if (s->count == 1)
        tide_json_integer(json, key, s->ids[0]);
    if (s->count <= 1)
        return;
    tide_json_array(json, key);
    for (int i = 0; i < s->count; i++)
        tide_json_integer(json, NULL, s->ids[i]);
    tide_json_end(json);
}

void tide_config_write(const struct tide_gpt_config *c, FILE *out)
{
    struct tide_json json;
    tide_json_init(&json, out, false);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "model_type", "gpt2");
    tide_json_array(&json, "architectures");
    tide_json_text(&json, NULL, "GPT2LMHeadModel");
    tide_json_end(&json);
    tide_json_integer(&json, "vocab_size", c->vocabulary);
    tide_json_integer(&json, "n_positions", c->positions);
    tide_json_integer(&json, "n_ctx", c->positions);
    tide_json_integer(&json, "n_embd", c->channels);
    tide_json_integer(&json, "n_layer", c->blocks);
    tide_json_integer(&json, "n_head", c->heads);
    tide_json_integer(&json, "n_inner", c->hidden);
    tide_json_text(&json, "activation_function", "gelu_new");
    tide_json_real(&json, "layer_norm_epsilon", (double)c->epsilon);
    tide_json_bool(&json, "tie_word_embeddings", true);
    tide_json_real(&json, "resid_pdrop", 0);
    tide_json_real(&json, "embd_pdrop", 0);
    tide_json_real(&json, "attn_pdrop", 0);
    write_special("bos_token_id", &c->begin, &json);
    write_special("eos_token_id", &c->end, &json);
    write_special("pad_token_id", &c->pad, &json);
    tide_json_end(&json);
}
