/*
 * boardnet.h - nets that look at a board: a tower of residual blocks with two heads, which moves to look at
 * and who wins.
 *
 * A convolution of the planes, blocks, then the heads: 1x1 to a few channels, and linear layers over all
 * cells; the value through a hidden layer and tanh. A plain block is two 3x3 convolutions. A separable one
 * has, instead of each, 3x3 channel by channel and 1x1 between channels, and a gate at its end
 * (squeeze-and-excitation). A batch norm follows every convolution but those channel by channel, and ReLU
 * follows it; at the end of a block what came in is added before.
 *
 * Two programs of one net: the one that trains normalises with the statistics of its batch and keeps running
 * ones; one that plays has those folded into its convolutions. Rows are cells: (B cells, C).
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
 * are separable; "plain:BxC" with so many blocks and channels. */
int tide_boardnet_preset(const char *name, const struct tide_game *game,
                         struct tide_boardnet_config *ret_config, struct tide_err *err);

/* As it trains. Each board's policy is probabilities of moves; all 0, and the board has none to learn. */
struct tide_boardnet {
    int program;
    int planes;                  /* an input: (B cells, planes) f32 */
    int policy, value;           /* inputs: (B, moves) f32, (B) f32 from -1 to 1 */
    int policy_loss, value_loss; /* results: means over boards, the second times its weight */
};

int tide_boardnet_build(struct tide_graph *graph, const struct tide_boardnet_config *config, int64_t batch,
                        float value_weight, struct tide_boardnet *ret_net, struct tide_err *err);

/* As it plays. */
struct tide_boardnet_player {
    int program;
    int planes;         /* an input: (B cells, planes) f32 */
    int logits, values; /* results: (B, moves) f32, (B, 1) f32 from -1 to 1 */
};

/* prefix "": with the weights that train. Else with others of its own, called that and then as those are:
 * borrowed (graph.h), and filled by the caller. */
int tide_boardnet_build_player(struct tide_graph *graph, const struct tide_boardnet_config *config,
                               const char *prefix, int64_t batch, struct tide_boardnet_player *ret_player,
                               struct tide_err *err);

/* Weights before the first step: near normal, with the deviation that keeps the size of what goes through
 * (He), a tenth of that where a head ends, so that a new net has no opinion. Each number is a function of the
 * seed and its place. Borrowed ones are left alone. */
int tide_boardnet_initial(const struct tide_graph *graph, struct tide_machine *machine, uint64_t seed,
                          struct tide_err *err);

#endif
