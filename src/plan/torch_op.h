/*
 * torch_op.h - what PyTorch's operators take, save and give back, by sizes.
 *
 * Each function stands for one call of the framework and returns a tensor that the caller drops. The comment
 * says what it saves for the way back; a tensor saved twice is held twice and counted once. Under autocast
 * (tape->cast_width) matrix products take their operands in the narrow type and norms, losses and softmax
 * theirs in fp32, as torch.autocast does.
 */
#ifndef TIDE_TORCH_OP_H
#define TIDE_TORCH_OP_H

#include "plan/tape.h"

/* x in another width: a copy, or x itself (held once more). */
struct tide_tensor tide_op_cast(struct tide_tape *tape, struct tide_tensor x, int width,
                                enum tide_owner owner);

/* rows x in -> rows x out. Saves x (if the weight trains) and the weight (if x is on the graph). bias -1:
 * none. */
struct tide_tensor tide_op_linear(struct tide_tape *tape, struct tide_tensor x, int weight, int bias,
                                  int64_t in, int64_t out, enum tide_owner owner);

/* Element by element, to a new tensor. */
enum tide_saves { TIDE_SAVES_NOTHING = 0, TIDE_SAVES_INPUT = 1, TIDE_SAVES_OUTPUT = 2 };
struct tide_tensor tide_op_map(struct tide_tape *tape, struct tide_tensor x, enum tide_saves saves,
                               enum tide_owner owner);
/* a * b, the same shape: saves both. */
struct tide_tensor tide_op_multiply(struct tide_tape *tape, struct tide_tensor a, struct tide_tensor b,
                                    enum tide_owner owner);
/* a + b: saves nothing, and both get the same gradient. Widths may differ; the wider wins. */
struct tide_tensor tide_op_add(struct tide_tape *tape, struct tide_tensor a, struct tide_tensor b,
                               enum tide_owner owner);
/* Saves a mask of one byte per element. */
struct tide_tensor tide_op_dropout(struct tide_tape *tape, struct tide_tensor x, double p,
                                   enum tide_owner owner);
/* A copy, as contiguous() makes. */
struct tide_tensor tide_op_copy(struct tide_tape *tape, struct tide_tensor x, enum tide_owner owner);

/* A part of x, or another shape, in the same memory; on the way back a part is filled up with zeros. */
struct tide_tensor tide_op_part(struct tide_tape *tape, struct tide_tensor x, int64_t count);
/* Three equal parts; their gradients are joined in one new tensor. */
void tide_op_split3(struct tide_tape *tape, struct tide_tensor x, struct tide_tensor parts[3]);

/* Tables: ids are not on the graph. Gradient: a whole table. */
struct tide_tensor tide_op_embed(struct tide_tape *tape, struct tide_tensor ids, int table, int64_t rows,
                                 int64_t channels, enum tide_owner owner);

/* LayerNorm in one kernel: saves x, mean and 1/deviation. */
struct tide_tensor tide_op_layer_norm(struct tide_tape *tape, struct tide_tensor x, int weight, int bias,
                                      int64_t channels);
/* RMSNorm as transformers writes it, operator by operator, in fp32. */
struct tide_tensor tide_op_rms_norm(struct tide_tape *tape, struct tide_tensor x, int weight,
                                    int64_t channels);

/* A product of two tensors, batched: saves both. */
struct tide_tensor tide_op_product(struct tide_tape *tape, struct tide_tensor a, struct tide_tensor b,
                                   int64_t count, enum tide_owner owner);

/* Log-probabilities over the vocabulary, in fp32: saves its output. */
struct tide_tensor tide_op_log_softmax(struct tide_tape *tape, struct tide_tensor logits);
/* One value per row: saves the index (and x where `keeps`, as a loss does). */
struct tide_tensor tide_op_pick(struct tide_tape *tape, struct tide_tensor x, int64_t rows, bool keeps);

/* Pictures. A convolution saves its input and weight; batch norm its input and two numbers per channel; relu,
 * in place, its output; the largest of a window 8 bytes of index per output. */
struct tide_tensor tide_op_convolve(struct tide_tape *tape, struct tide_tensor x, int weight, int64_t count);
struct tide_tensor tide_op_batch_norm(struct tide_tape *tape, struct tide_tensor x, int weight, int bias,
                                      int64_t channels);
struct tide_tensor tide_op_relu_inplace(struct tide_tape *tape, struct tide_tensor x);
/* a += b; b is not taken over. */
struct tide_tensor tide_op_add_inplace(struct tide_tape *tape, struct tide_tensor a, struct tide_tensor b);
struct tide_tensor tide_op_max_pool(struct tide_tape *tape, struct tide_tensor x, int64_t count);
struct tide_tensor tide_op_mean(struct tide_tape *tape, struct tide_tensor x, int64_t count);

#endif
