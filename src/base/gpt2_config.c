#include "base/gpt2_config.h"

int tide_gpt2_config_take(const json_t *root, struct tide_gpt2_config *ret_config, struct tide_err *err)
{
    struct tide_gpt2_config c = {.vocabulary = 50257,
                                 .positions = 1024,
                                 .channels = 768,
                                 .heads = 12,
                                 .blocks = 12,
                                 .epsilon = 1e-5,
                                 .embed_dropout = 0.1,
                                 .residual_dropout = 0.1,
                                 .attention_dropout = 0.1,
                                 .tied = true,
                                 .activation = "gelu_new"};
    const json_t *epsilon = json_object_get(root, "layer_norm_epsilon");
    const json_t *activation = json_object_get(root, "activation_function");
    int64_t context = 0;
    if (tide_json_take_number(root, "n_embd", &c.channels, err) ||
        tide_json_take_number(root, "n_layer", &c.blocks, err) ||
        tide_json_take_number(root, "n_head", &c.heads, err) ||
        tide_json_take_number(root, "n_positions", &c.positions, err) ||
        tide_json_take_number(root, "n_ctx", &context, err) ||
        tide_json_take_number(root, "vocab_size", &c.vocabulary, err) ||
        tide_json_take_number(root, "hidden_size", &c.channels,
                              err) || /* the other names that `transformers` reads */
        tide_json_take_number(root, "num_hidden_layers", &c.blocks, err) ||
        tide_json_take_number(root, "num_attention_heads", &c.heads, err) ||
        tide_json_take_number(root, "max_position_embeddings", &c.positions, err) ||
        tide_json_take_share(root, "embd_pdrop", &c.embed_dropout, err) ||
        tide_json_take_share(root, "resid_pdrop", &c.residual_dropout, err) ||
        tide_json_take_share(root, "attn_pdrop", &c.attention_dropout, err) ||
        tide_json_take_flag(root, "tie_word_embeddings", &c.tied, err))
        return -1;
    if (context && json_object_get(root, "n_positions") && context != c.positions)
        return tide_err_set(err, "the model's n_ctx (%lld) and n_positions (%lld) contradict each other",
                            (long long)context, (long long)c.positions);
    c.positions = context ? context : c.positions;
    c.hidden = c.channels > 0 && c.channels <= 1 << 20 ? 4 * c.channels : 1;
    if (epsilon)
        c.epsilon = json_number_value(epsilon);
    if (activation && !json_is_string(activation))
        return tide_err_set(err, "'activation_function' must be a text");
    if (activation)
        c.activation = json_string_value(activation);
    if (tide_json_take_number(root, "n_inner", &c.hidden, err))
        return -1;
    *ret_config = c;
    return 0;
}
