/*
 * boardnet.h - nets for board games: a tower of residual blocks with two heads, policy and value.
 *
 * A convolution of the planes, blocks, then the heads: 1x1 to a few channels, and linear layers over all
 * cells; the value head has a hidden layer and tanh. A plain block is two 3x3 convolutions. A separable block
 * replaces each by a depthwise 3x3 and a 1x1 convolution, and ends with a gate (squeeze-and-excitation). A
 * batch norm and ReLU follow every convolution but the depthwise ones; at the end of a block its input is
 * added before ReLU.
 *
 * A net has two kinds of programs: the one that trains normalises with the statistics of its batch and
 * updates the running ones; one that plays has those folded into its convolutions. Rows are cells: (B cells,
 * C).
 *
 * tide_boardnet_preset -> _build and/or _build_player -> a machine -> _initial, or a checkpoint.
 */
#ifndef TIDE_BOARDNET_H
#define TIDE_BOARDNET_H

#include "game/game.h"
#include "rt/machine.h"

struct tide_boardnet_config {
    int64_t columns, rows, planes, moves;
    int64_t blocks, channels;
    bool separable;
    int64_t policy_channels, value_channels, value_hidden;
};

/* The net of that name for a game: "tiny", which is plain; "10x96", "14x128", "18x192" and "30x192", which
 * are separable; "plain:BxC" with B blocks and C channels. */
int tide_boardnet_preset(const char *name, const struct tide_game *game,
                         struct tide_boardnet_config *ret_config, struct tide_err *err);

/* For training. A board's policy target is a probability for each move; all 0: it has none. */
struct tide_boardnet {
    int program;
    int planes;                  /* an input: (B cells, planes) f32 */
    int policy, value;           /* inputs: (B, moves) f32, (B) f32 from -1 to 1 */
    int policy_loss, value_loss; /* results: means over boards; value_loss times its weight */
};

int tide_boardnet_build(struct tide_graph *graph, const struct tide_boardnet_config *config, int64_t batch,
                        float value_weight, struct tide_boardnet *ret_net, struct tide_err *err);

/* For playing. */
struct tide_boardnet_player {
    int program;
    int planes;         /* an input: (B cells, planes) f32 */
    int logits, values; /* results: (B, moves) f32, (B, 1) f32 from -1 to 1 */
};

/* prefix "": uses the weights that train. Otherwise uses a second set of weights, whose names begin with
 * prefix: borrowed (graph.h), filled by the caller. */
int tide_boardnet_build_player(struct tide_graph *graph, const struct tide_boardnet_config *config,
                               const char *prefix, int64_t batch, struct tide_boardnet_player *ret_player,
                               struct tide_err *err);

/* Sets the weights before the first step: near normal, with the deviation that preserves the size of
 * activations (He), and a tenth of it at the end of a head, so that a new net has no preference. Each number
 * is a function of the seed and its index. Leaves borrowed weights alone. */
int tide_boardnet_initial(const struct tide_graph *graph, struct tide_machine *machine, uint64_t seed,
                          struct tide_err *err);

#endif
