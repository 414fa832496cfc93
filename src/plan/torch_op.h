/*
 * torch_op.h - what PyTorch's operators allocate, save and free, by sizes.
 *
 * Each function stands for one call of the framework and returns a tensor that the caller drops. The comment
 * says what it saves for the backward pass; a tensor saved twice is held twice and counted once. Under
 * autocast (tape->cast_width), matrix products cast their operands to the narrow type; norms, losses and
 * softmax cast theirs to fp32, as torch.autocast does.
 */
#ifndef TIDE_TORCH_OP_H
#define TIDE_TORCH_OP_H

#include "plan/tape.h"

/* Returns x in another width: a copy, or x itself (held once more). */
struct tide_sized tide_torch_cast(struct tide_tape *tape, struct tide_sized x, int width,
                                  enum tide_part owner);

/* rows x in -> rows x out. Saves x (if the weight trains) and the weight (if x is on the graph). bias -1:
 * none. */
struct tide_sized tide_torch_linear(struct tide_tape *tape, struct tide_sized x, int weight, int bias,
                                    int64_t in, int64_t out, bool turned, enum tide_part owner);

/* Element by element, into a new tensor. */
enum tide_saves { TIDE_SAVES_NOTHING = 0, TIDE_SAVES_INPUT = 1, TIDE_SAVES_OUTPUT = 2 };
struct tide_sized tide_torch_map(struct tide_tape *tape, struct tide_sized x, enum tide_saves saves,
                                 enum tide_part owner);
/* x to a power: saves x. Its gradient needs two more tensors. */
struct tide_sized tide_torch_power(struct tide_tape *tape, struct tide_sized x, enum tide_part owner);
/* a * b, element by element or as matrices: saves both. count and width: of the result. */
struct tide_sized tide_torch_multiply(struct tide_tape *tape, struct tide_sized a, struct tide_sized b,
                                      int64_t count, int width, enum tide_part owner);
/* a + b: saves nothing, and both get the same gradient. Widths may differ; the wider wins. */
struct tide_sized tide_torch_add(struct tide_tape *tape, struct tide_sized a, struct tide_sized b,
                                 enum tide_part owner);
/* Saves a mask of one byte per element; on the host, one as wide as x. */
struct tide_sized tide_torch_dropout(struct tide_tape *tape, struct tide_sized x, double p,
                                     enum tide_part owner);
/* A copy, as contiguous() makes. */
struct tide_sized tide_torch_copy(struct tide_tape *tape, struct tide_sized x, enum tide_part owner);

/* A part of x, or another shape, in the same memory. Backward fills a part's gradient up with zeros. */
struct tide_sized tide_torch_part(struct tide_tape *tape, struct tide_sized x, int64_t count);
/* Three equal parts. Their gradients are joined in one new tensor. */
void tide_torch_split3(struct tide_tape *tape, struct tide_sized x, struct tide_sized parts[3]);

/* Looks rows up in a table. ids are not on the graph. The gradient is a whole table. */
struct tide_sized tide_torch_embed(struct tide_tape *tape, struct tide_sized ids, int table, int64_t rows,
                                   int64_t channels);

/* LayerNorm in one kernel: saves x, mean and 1/deviation. */
struct tide_sized tide_torch_layer_norm(struct tide_tape *tape, struct tide_sized x, int weight, int bias,
                                        int64_t channels);
/* RMSNorm as transformers writes it, operator by operator, in fp32. */
struct tide_sized tide_torch_rms_norm(struct tide_tape *tape, struct tide_sized x, int weight,
                                      int64_t channels);

/* Compiled: a norm with the casts around it (bias -1: none), which saves x; and a loss, which saves the
 * logits as they are. */
struct tide_sized tide_torch_fused_norm(struct tide_tape *tape, struct tide_sized x, int weight, int bias,
                                        int64_t channels);
struct tide_sized tide_torch_fused_loss(struct tide_tape *tape, struct tide_sized logits);

/*
 * A head that makes its logits tile by tile (of 4096 rows and 32768 tokens) and does not keep them. The
 * backward pass recomputes them and sums the gradients in fp32. If x or the weight has another type than the
 * tiles, their parts are cast; Python holds the previous part until it has the next one. Returns one value
 * per row, in fp32; saves x and the weight.
 */
struct tide_sized tide_torch_tiled_head(struct tide_tape *tape, struct tide_sized x, int weight,
                                        int64_t channels);

/* Log-probabilities over the vocabulary: saves its output. Autocast computes them in fp32 from narrow logits,
 * without a copy of these. */
struct tide_sized tide_torch_log_softmax(struct tide_tape *tape, struct tide_sized logits);
/* One value per row: saves the index (and x if `keeps`, as a loss does). */
struct tide_sized tide_torch_pick(struct tide_tape *tape, struct tide_sized x, int64_t rows, bool keeps);

/* Images. A convolution saves its input and weight; batch norm its input and two numbers per channel; relu,
 * in place, its output; max pooling its input and 8 bytes of index per output. */
enum tide_window { TIDE_WINDOW_WIDE, TIDE_WINDOW_PIXEL, TIDE_WINDOW_STRIDE, TIDE_WINDOW_PLANES };
/* count: elements of the output; pixels: of one of its images. */
struct tide_sized tide_torch_convolve(struct tide_tape *tape, struct tide_sized x, int weight, int64_t count,
                                      int64_t pixels, enum tide_window window);
struct tide_sized tide_torch_batch_norm(struct tide_tape *tape, struct tide_sized x, int weight, int bias,
                                        int64_t channels);
struct tide_sized tide_torch_relu_inplace(struct tide_tape *tape, struct tide_sized x);
/* a += b; the caller still owns b. */
struct tide_sized tide_torch_add_inplace(struct tide_tape *tape, struct tide_sized a, struct tide_sized b);
struct tide_sized tide_torch_max_pool(struct tide_tape *tape, struct tide_sized x, int64_t count);
struct tide_sized tide_torch_mean(struct tide_tape *tape, struct tide_sized x, int64_t count);

#endif
