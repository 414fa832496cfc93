/*
 * model.h - what model: a preset, or a Hugging Face config.json of a family whose memory is known.
 *
 * Families: GPT-2; Llama and what has its shape (Mistral, Qwen2: grouped keys and values, RMSNorm, a gated
 * MLP); ViT; ResNet. A configuration is not trusted: what is missing has the family's default, what
 * contradicts itself, is absurd or is of another family is refused with a sentence.
 */
#ifndef TIDE_MODEL_H
#define TIDE_MODEL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tide_family { TIDE_FAMILY_GPT2, TIDE_FAMILY_LLAMA, TIDE_FAMILY_VIT, TIDE_FAMILY_RESNET };
enum tide_activation {
    TIDE_GELU_NEW,
    TIDE_ACTIVATION_FUSED
}; /* GPT-2's is eight operators; others are one */

enum { TIDE_STAGES = 4 };

struct tide_architecture {
    char name[64];
    enum tide_family family;
    enum tide_activation activation;
    int64_t vocabulary, positions, channels, layers, heads, kv_heads, head_channels, hidden;
    int64_t image, patch, classes, planes; /* of pictures */
    int64_t depths[TIDE_STAGES], widths[TIDE_STAGES];
    bool tied, qkv_bias, out_bias, mlp_bias, bottleneck;
    double embed_dropout, residual_dropout, attention_dropout;
};

/* A preset by name; or, where the name has a '/' or ends in .json, a file, or a folder with a config.json.
 * -1: an unknown name, with one suggestion. */
int tide_model_find(const char *name, struct tide_architecture *ret_model, struct tide_err *err);

int tide_model_parse(const char *text, size_t len, struct tide_architecture *ret_model, struct tide_err *err);

/* Names of presets, NULL-terminated. */
const char *const *tide_model_names(void);

/* Pictures, not text: `seq` is then the side of a picture. */
bool tide_model_sees(const struct tide_architecture *model);

#endif
