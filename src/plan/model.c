#include "plan/model.h"
#include "base/gpt2_config.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define GPT2(label, width, depth, head_count)                                                                \
    {                                                                                                        \
        .name = (label), .family = TIDE_FAMILY_GPT2, .activation = TIDE_GELU_NEW, .vocabulary = 50257,       \
        .positions = 1024, .channels = (width), .layers = (depth), .heads = (head_count),                    \
        .kv_heads = (head_count), .head_channels = (width) / (head_count), .hidden = 4 * (width),            \
        .tied = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .embed_dropout = 0.1,            \
        .residual_dropout = 0.1, .attention_dropout = 0.1                                                    \
    }
#define LLAMA(label, width, inner, depth, head_count, kv, tokens, ties, biased, longest)                     \
    {                                                                                                        \
        .name = (label), .family = TIDE_FAMILY_LLAMA, .activation = TIDE_ACTIVATION_FUSED,                   \
        .vocabulary = (tokens), .positions = (longest), .channels = (width), .layers = (depth),              \
        .heads = (head_count), .kv_heads = (kv), .head_channels = (width) / (head_count), .hidden = (inner), \
        .tied = (ties), .qkv_bias = (biased)                                                                 \
    }
#define VIT(label, width, inner, depth, head_count)                                                          \
    {                                                                                                        \
        .name = (label), .family = TIDE_FAMILY_VIT, .activation = TIDE_ACTIVATION_FUSED,                     \
        .channels = (width), .layers = (depth), .heads = (head_count), .kv_heads = (head_count),             \
        .head_channels = (width) / (head_count), .hidden = (inner), .image = 224, .patch = 16,               \
        .classes = 1000, .planes = 3, .qkv_bias = true, .out_bias = true, .mlp_bias = true                   \
    }
#define RESNET(label, wide, a, b, c, d)                                                                      \
    {                                                                                                        \
        .name = (label), .family = TIDE_FAMILY_RESNET, .activation = TIDE_ACTIVATION_FUSED, .image = 224,    \
        .classes = 1000, .planes = 3, .channels = 64, .depths = {a, b, c, d},                                \
        .widths = {(wide) ? 256 : 64, (wide) ? 512 : 128, (wide) ? 1024 : 256, (wide) ? 2048 : 512},         \
        .bottleneck = (wide), .layers = (a) + (b) + (c) + (d), .heads = 1, .kv_heads = 1,                    \
        .head_channels = 64, .hidden = 64                                                                    \
    }

static const struct tide_architecture presets[] = {
    GPT2("gpt2", 768, 12, 12),
    GPT2("gpt2-medium", 1024, 24, 16),
    GPT2("gpt2-large", 1280, 36, 20),
    GPT2("gpt2-xl", 1600, 48, 25),
    GPT2("distilgpt2", 768, 6, 12),
    LLAMA("smollm-135m", 576, 1536, 30, 9, 3, 49152, true, false, 2048),
    LLAMA("smollm-360m", 960, 2560, 32, 15, 5, 49152, true, false, 2048),
    LLAMA("tinyllama-1.1b", 2048, 5632, 22, 32, 4, 32000, false, false, 2048),
    LLAMA("llama-3.2-1b", 2048, 8192, 16, 32, 8, 128256, true, false, 131072),
    LLAMA("llama-3.2-3b", 3072, 8192, 28, 24, 8, 128256, true, false, 131072),
    LLAMA("llama-2-7b", 4096, 11008, 32, 32, 32, 32000, false, false, 4096),
    LLAMA("llama-3.1-8b", 4096, 14336, 32, 32, 8, 128256, false, false, 131072),
    LLAMA("mistral-7b", 4096, 14336, 32, 32, 8, 32000, false, false, 32768),
    LLAMA("qwen2.5-0.5b", 896, 4864, 24, 14, 2, 151936, true, true, 32768),
    LLAMA("qwen2.5-1.5b", 1536, 8960, 28, 12, 2, 151936, true, true, 32768),
    LLAMA("qwen2.5-7b", 3584, 18944, 28, 28, 4, 152064, false, true, 32768),
    VIT("vit-base", 768, 3072, 12, 12),
    VIT("vit-large", 1024, 4096, 24, 16),
    VIT("vit-huge", 1280, 5120, 32, 16),
    RESNET("resnet18", false, 2, 2, 2, 2),
    RESNET("resnet34", false, 3, 4, 6, 3),
    RESNET("resnet50", true, 3, 4, 6, 3),
    RESNET("resnet101", true, 3, 4, 23, 3),
    RESNET("resnet152", true, 3, 8, 36, 3),
};
enum { PRESETS = sizeof presets / sizeof *presets };

const char *const *tide_model_names(void)
{
    static const char *names[PRESETS + 1];
    for (size_t i = 0; i < PRESETS; i++)
        names[i] = presets[i].name;
    return names;
}

bool tide_model_sees(const struct tide_architecture *model)
{
    return model->family == TIDE_FAMILY_VIT || model->family == TIDE_FAMILY_RESNET;
}

static const struct tide_architecture *preset(const char *name)
{
    for (size_t i = 0; i < PRESETS; i++)
        if (!strcmp(presets[i].name, name))
            return &presets[i];
    return NULL;
}

static int check_bounds(const struct tide_architecture *m, struct tide_err *err)
{
    bool text = !tide_model_sees(m), attends = m->family != TIDE_FAMILY_RESNET;
    const struct {
        const char *name;
        int64_t value, most;
        bool counts;
    } bounds[] = {
        {"vocabulary", m->vocabulary, 1 << 24, text},
        {"longest sequence", m->positions, 1 << 24, text},
        {"width", m->channels, 1 << 20, true},
        {"number of layers", m->layers, 500, true},
        {"number of heads", m->heads, 1 << 14, attends},
        {"number of key-value heads", m->kv_heads, 1 << 14, attends},
        {"head's width", m->head_channels, 1 << 14, attends},
        {"hidden width", m->hidden, 1 << 22, attends},
        {"image size", m->image, 1 << 16, !text},
        {"patch size", m->patch, 1 << 16, m->family == TIDE_FAMILY_VIT},
        {"number of classes", m->classes, 1 << 24, !text},
        {"number of image planes", m->planes, 1 << 10, !text},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].counts && (bounds[i].value < 1 || bounds[i].value > bounds[i].most))
            return tide_err_set(err, "the model's %s is %lld; it must be from 1 to %lld", bounds[i].name,
                                (long long)bounds[i].value, (long long)bounds[i].most);
    return 0;
}

/* A configuration may give the width of a head itself: then it need not divide the model's width. */
static int check(const struct tide_architecture *m, struct tide_err *err)
{
    if (check_bounds(m, err))
        return -1;
    bool parts = m->family != TIDE_FAMILY_RESNET && m->head_channels == m->channels / m->heads;
    if (parts && m->channels % m->heads)
        return tide_err_set(err, "the model's width (%lld) is not a multiple of its heads (%lld)",
                            (long long)m->channels, (long long)m->heads);
    if (m->family == TIDE_FAMILY_LLAMA && m->heads % m->kv_heads)
        return tide_err_set(err, "the model's heads (%lld) are not a multiple of its key-value heads (%lld)",
                            (long long)m->heads, (long long)m->kv_heads);
    if (m->family == TIDE_FAMILY_VIT && m->image % m->patch)
        return tide_err_set(err, "the model's image size (%lld) is not a multiple of its patch size (%lld)",
                            (long long)m->image, (long long)m->patch);
    for (int i = 0; m->family == TIDE_FAMILY_RESNET && i < TIDE_STAGES; i++)
        if (m->depths[i] < 1 || m->depths[i] > 500 || m->widths[i] < 4 || m->widths[i] > 1 << 16)
            return tide_err_set(err, "stage %d of the model has %lld blocks of width %lld", i + 1,
                                (long long)m->depths[i], (long long)m->widths[i]);
    return 0;
}

static int take_gpt2(const json_t *root, struct tide_architecture *m, struct tide_err *err)
{
    struct tide_gpt2_config c;
    if (tide_gpt2_config_take(root, &c, err))
        return -1;
    m->channels = c.channels;
    m->layers = c.blocks;
    m->heads = m->kv_heads = c.heads;
    m->positions = c.positions;
    m->vocabulary = c.vocabulary;
    m->hidden = c.hidden;
    m->head_channels = c.heads > 0 ? c.channels / c.heads : 0;
    m->embed_dropout = c.embed_dropout;
    m->residual_dropout = c.residual_dropout;
    m->attention_dropout = c.attention_dropout;
    m->tied = c.tied;
    if (strcmp(c.activation, "gelu_new") != 0)
        m->activation = TIDE_ACTIVATION_FUSED;
    return 0;
}

static int take_llama(const json_t *root, struct tide_architecture *m, struct tide_err *err)
{
    bool bias = m->qkv_bias;
    if (tide_json_take_number(root, "hidden_size", &m->channels, err) ||
        tide_json_take_number(root, "num_hidden_layers", &m->layers, err) ||
        tide_json_take_number(root, "num_attention_heads", &m->heads, err) ||
        tide_json_take_number(root, "intermediate_size", &m->hidden, err) ||
        tide_json_take_number(root, "vocab_size", &m->vocabulary, err) ||
        tide_json_take_number(root, "max_position_embeddings", &m->positions, err) ||
        tide_json_take_share(root, "attention_dropout", &m->attention_dropout, err) ||
        tide_json_take_flag(root, "tie_word_embeddings", &m->tied, err) ||
        tide_json_take_flag(root, "attention_bias", &bias, err) ||
        tide_json_take_flag(root, "mlp_bias", &m->mlp_bias, err))
        return -1;
    m->out_bias = bias && !m->qkv_bias;
    m->qkv_bias = bias;
    m->kv_heads = m->heads;
    m->head_channels = m->heads > 0 ? m->channels / m->heads : 0;
    return tide_json_take_number(root, "num_key_value_heads", &m->kv_heads, err) ||
                   tide_json_take_number(root, "head_dim", &m->head_channels, err)
               ? -1
               : 0;
}

static int take_labels(const json_t *root, struct tide_architecture *m, struct tide_err *err)
{
    const json_t *names = json_object_get(root, "id2label");
    if (json_is_object(names))
        m->classes = (int64_t)json_object_size(names);
    return tide_json_take_number(root, "num_labels", &m->classes, err);
}

static int take_vit(const json_t *root, struct tide_architecture *m, struct tide_err *err)
{
    if (tide_json_take_number(root, "hidden_size", &m->channels, err) ||
        tide_json_take_number(root, "num_hidden_layers", &m->layers, err) ||
        tide_json_take_number(root, "num_attention_heads", &m->heads, err) ||
        tide_json_take_number(root, "intermediate_size", &m->hidden, err) ||
        tide_json_take_number(root, "image_size", &m->image, err) ||
        tide_json_take_number(root, "patch_size", &m->patch, err) ||
        tide_json_take_number(root, "num_channels", &m->planes, err) ||
        tide_json_take_share(root, "hidden_dropout_prob", &m->residual_dropout, err) ||
        tide_json_take_share(root, "attention_probs_dropout_prob", &m->attention_dropout, err) ||
        tide_json_take_flag(root, "qkv_bias", &m->qkv_bias, err) || take_labels(root, m, err))
        return -1;
    m->embed_dropout = m->residual_dropout;
    m->kv_heads = m->heads;
    m->head_channels = m->heads > 0 ? m->channels / m->heads : 0;
    return 0;
}

static int take_stages(const json_t *root, const char *key, int64_t to[TIDE_STAGES], struct tide_err *err)
{
    const json_t *list = json_object_get(root, key);
    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) != TIDE_STAGES)
        return tide_err_set(err, "'%s' must be a list of four numbers", key);
    for (size_t i = 0; i < TIDE_STAGES; i++) {
        if (!json_is_integer(json_array_get(list, i)))
            return tide_err_set(err, "'%s' must be a list of four numbers", key);
        to[i] = json_integer_value(json_array_get(list, i));
    }
    return 0;
}

static int take_resnet(const json_t *root, struct tide_architecture *m, struct tide_err *err)
{
    const char *kind = json_string_value(json_object_get(root, "layer_type"));
    if (kind && !strcmp(kind, "basic"))
        *m = *preset("resnet18");
    if (tide_json_take_number(root, "embedding_size", &m->channels, err) ||
        tide_json_take_number(root, "num_channels", &m->planes, err) ||
        take_stages(root, "depths", m->depths, err) || take_stages(root, "hidden_sizes", m->widths, err) ||
        take_labels(root, m, err))
        return -1;
    m->layers = 0;
    for (int i = 0; i < TIDE_STAGES; i++)
        m->layers += m->depths[i] > 0 && m->depths[i] <= 500 ? m->depths[i] : 0;
    return 0;
}

static const struct {
    const char *type, *defaults;
    int (*take)(const json_t *, struct tide_architecture *, struct tide_err *);
} families[] = {
    {"gpt2", "gpt2", take_gpt2},           {"llama", "llama-2-7b", take_llama},
    {"mistral", "mistral-7b", take_llama}, {"qwen2", "qwen2.5-7b", take_llama},
    {"vit", "vit-base", take_vit},         {"resnet", "resnet50", take_resnet},
};
enum { FAMILIES = sizeof families / sizeof *families };

static int take_config(const json_t *root, struct tide_architecture *m, struct tide_err *err)
{
    const char *names[FAMILIES + 1] = {NULL};
    const char *type = json_string_value(json_object_get(root, "model_type"));
    if (!type) {
        tide_err_set(err, "the model's configuration has no model_type");
        return tide_err_hint(err, "gpt2, llama, mistral, qwen2, vit and resnet are supported");
    }
    for (size_t i = 0; i < FAMILIES; i++) {
        names[i] = families[i].type;
        if (strcmp(type, families[i].type) != 0)
            continue;
        *m = *preset(families[i].defaults);
        snprintf(m->name, sizeof m->name, "%s", type);
        return families[i].take(root, m, err) || check(m, err) ? -1 : 0;
    }
    tide_err_set(err, "models of type '%s' cannot be planned yet", TIDE_SHOWN(type, 64));
    const char *nearest = tide_text_nearest(type, names);
    return nearest ? tide_err_hint(err, "did you mean '%s'?", nearest)
                   : tide_err_hint(err, "gpt2, llama, mistral, qwen2, vit and resnet are supported");
}

/* Consumes the reference to the document. */
static int take_document(json_t *root, struct tide_architecture *ret_model, struct tide_err *err)
{
    struct tide_architecture model;
    int status = root ? take_config(root, &model, err) : -1;
    json_decref(root);
    if (!status)
        *ret_model = model;
    return status;
}

int tide_model_parse(const char *text, size_t len, struct tide_architecture *ret_model, struct tide_err *err)
{
    return take_document(tide_json_parse(text, len, TIDE_CONFIG_WHAT, err), ret_model, err);
}

static int read_file(const char *path, struct tide_architecture *ret_model, struct tide_err *err)
{
    char inside[4096];
    struct stat st;
    const char *shown = TIDE_SHOWN(path, 256);
    if (!stat(path, &st) && S_ISDIR(st.st_mode) &&
        snprintf(inside, sizeof inside, "%s/config.json", path) < (int)sizeof inside)
        path = inside;
    json_t *root = tide_json_read(path, TIDE_CONFIG_MOST, TIDE_CONFIG_WHAT, err);
    if (!root)
        return -1;
    return take_document(root, ret_model, err) ? tide_err_wrap(err, "%s", shown) : 0;
}

int tide_model_find(const char *name, struct tide_architecture *ret_model, struct tide_err *err)
{
    const struct tide_architecture *found = preset(name);
    size_t len = strlen(name);
    if (found) {
        *ret_model = *found;
        return 0;
    }
    if (strchr(name, '/') || (len > 5 && !strcmp(name + len - 5, ".json")))
        return read_file(name, ret_model, err);
    tide_err_set(err, "there is no model '%s'", TIDE_ESCAPED(name, len, 96));
    const char *nearest = tide_text_nearest(name, tide_model_names());
    return nearest
               ? tide_err_hint(err, "did you mean '%s'?", nearest)
               : tide_err_hint(
                     err,
                     "a preset (gpt2, llama-3.2-1b, vit-base, resnet50, ...) or the path of a config.json");
}
