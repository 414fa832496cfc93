/*
 * model.h - which model: a preset, or a Hugging Face config.json of a known family.
 *
 * Families: GPT-2; Llama and models of the same shape (Mistral, Qwen2: grouped keys and values, RMSNorm, a
 * gated MLP); ViT; ResNet. A configuration is not trusted: missing values get the family's default;
 * contradictory or absurd values and other families are refused with a sentence.
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
}; /* GPT-2's is eight operators; the others are one */

enum { TIDE_STAGES = 4 };

struct tide_architecture {
    char name[64];
    enum tide_family family;
    enum tide_activation activation;
    int64_t vocabulary, positions, channels, layers, heads, kv_heads, head_channels, hidden;
    int64_t image, patch, classes, planes; /* of image models */
    int64_t depths[TIDE_STAGES], widths[TIDE_STAGES];
    bool tied, qkv_bias, out_bias, mlp_bias, bottleneck;
    double embed_dropout, residual_dropout, attention_dropout;
};

/* Finds a preset by name. If the name has a '/' or ends in .json, reads a file, or config.json in a folder.
 * -1: an unknown name, with one suggestion. */
int tide_model_find(const char *name, struct tide_architecture *ret_model, struct tide_err *err);

int tide_model_parse(const char *text, size_t len, struct tide_architecture *ret_model, struct tide_err *err);

/* Names of presets, NULL-terminated. */
const char *const *tide_model_names(void);

/* True for image models. Then `seq` is the side of an image. */
bool tide_model_sees(const struct tide_architecture *model);

#endif
