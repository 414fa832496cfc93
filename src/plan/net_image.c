/*
 * net_image.c - ViT as transformers has it, ResNet as torchvision has it.
 */
#include "plan/net.h"

void tide_net_init_pictures(struct tide_net *net, struct tide_tape *tape)
{
    const struct tide_architecture *m = net->model;
    if (m->family == TIDE_FAMILY_VIT) {
        int64_t patches = tide_times(m->image / m->patch, m->image / m->patch);
        net->class_token = tide_net_weight(net, tape, m->channels);
        net->position_table = tide_net_weight(net, tape, tide_times(patches + 1, m->channels));
        net->patches = tide_net_linear(net, tape, tide_times(m->planes, tide_times(m->patch, m->patch)),
                                       m->channels, true, false);
        net->last = tide_net_norm(net, tape, m->channels, true);
        net->head = tide_net_linear(net, tape, m->channels, m->classes, true, false);
        return;
    }
    net->patches = tide_net_linear(net, tape, tide_times(m->planes, 49), m->channels, false, false);
    net->patches.window = TIDE_WINDOW_PLANES;
    net->last = tide_net_norm(net, tape, m->channels, true);
    int64_t in = m->channels, at = 0;
    for (int stage = 0; stage < TIDE_STAGES; stage++)
        for (int64_t i = 0; i < m->depths[stage] && !tape->failed; i++, at++) {
            struct tide_stage_block *b = &net->blocks[at];
            int64_t out = m->widths[stage], middle = m->bottleneck ? out / 4 : out;
            *b = (struct tide_stage_block){.stride = stage && !i ? 2 : 1};
            b->conv[0] =
                tide_net_linear(net, tape, tide_times(in, m->bottleneck ? 1 : 9), middle, false, false);
            b->norm[0] = tide_net_norm(net, tape, middle, true);
            b->conv[1] = tide_net_linear(net, tape, tide_times(middle, 9), middle, false, false);
            b->norm[1] = tide_net_norm(net, tape, middle, true);
            if (m->bottleneck) {
                b->conv[2] = tide_net_linear(net, tape, middle, out, false, false);
                b->norm[2] = tide_net_norm(net, tape, out, true);
            }
            b->conv[0].window = m->bottleneck ? TIDE_WINDOW_PIXEL : TIDE_WINDOW_WIDE;
            b->conv[2].window = TIDE_WINDOW_PIXEL;
            b->conv[3].weight = -1;
            if (in != out || b->stride > 1) {
                b->conv[3] = tide_net_linear(net, tape, in, out, false, false);
                b->norm[3] = tide_net_norm(net, tape, out, true);
                b->conv[3].window = b->stride > 1 ? TIDE_WINDOW_STRIDE : TIDE_WINDOW_PIXEL;
            }
            in = out;
        }
    net->head = tide_net_linear(net, tape, in, m->classes, true, false);
}

static struct tide_sized see_patches(struct tide_net *net, struct tide_tape *tape, struct tide_sized pictures)
{
    const struct tide_architecture *m = net->model;
    int64_t side = net->call.rows / m->patch, patches = tide_times(side, side), batch = net->call.batch;
    /* A convolution whose stride is its size: like a linear layer on patches, but the backward pass gives no
     * gradient to the images. */
    struct tide_sized planes = tide_torch_linear(tape, pictures, net->patches.weight, net->patches.bias,
                                                 net->patches.in, m->channels, false, TIDE_PART_RESIDUAL);
    /* cat((class token, patches)): a new tensor. The patches' part of its gradient is a view. */
    int node = planes.node >= 0 ? tide_tape_node(tape, 0) : -1;
    tide_tape_leaf_edge(tape, node, net->class_token, false);
    tide_tape_edge(tape, node, planes, TIDE_EDGE_SAME);
    struct tide_sized joined =
        tide_tape_make(tape, node, tide_times(tide_times(batch, patches + 1), m->channels), net->how.width,
                       TIDE_PART_RESIDUAL);
    tide_tape_drop(tape, planes);
    node = joined.node >= 0 ? tide_tape_node(tape, 0) : -1;
    tide_tape_leaf_edge(tape, node, net->position_table, false);
    tide_tape_edge(tape, node, joined, TIDE_EDGE_SAME);
    struct tide_sized x = tide_tape_make(tape, node, joined.count, joined.width, TIDE_PART_RESIDUAL);
    tide_tape_drop(tape, joined);
    net->call.rows = patches + 1;
    struct tide_sized embedded = tide_tape_keep(tape, x);
    x = tide_net_run_blocks(net, tape, tide_net_block, x);
    struct tide_sized normal = tide_net_normalise(net, tape, &net->last, x);
    TIDE_DROP(tape, x, embedded);
    struct tide_sized first = tide_torch_part(tape, normal, tide_times(batch, m->channels));
    struct tide_sized logits = tide_net_apply(tape, &net->head, first, TIDE_PART_HEAD);
    TIDE_DROP(tape, first, normal);
    return logits;
}

/* eats: x is freed right after the convolution, as when its variable is assigned again. */
static struct tide_sized conv_norm(struct tide_net *net, struct tide_tape *tape, struct tide_sized x,
                                   const struct tide_linear *l, const struct tide_norm *norm, int64_t pixels,
                                   bool bends, bool eats)
{
    struct tide_sized raw = tide_torch_convolve(tape, x, l->weight, tide_times(pixels, l->out),
                                                pixels / net->call.batch, l->window);
    if (eats)
        tide_tape_drop(tape, x);
    struct tide_sized normal =
        tide_then(tape, raw, tide_torch_batch_norm(tape, raw, norm->weight, norm->bias, l->out));
    return bends ? tide_torch_relu_inplace(tape, normal) : normal;
}

static struct tide_sized residual(struct tide_net *net, struct tide_tape *tape,
                                  const struct tide_stage_block *b, struct tide_sized x, int64_t pixels_in,
                                  int64_t pixels_out)
{
    bool deep = net->model->bottleneck;
    struct tide_sized out =
        conv_norm(net, tape, x, &b->conv[0], &b->norm[0], deep ? pixels_in : pixels_out, true, false);
    out = conv_norm(net, tape, out, &b->conv[1], &b->norm[1], pixels_out, deep, true);
    if (deep)
        out = conv_norm(net, tape, out, &b->conv[2], &b->norm[2], pixels_out, false, true);
    struct tide_sized shortcut = x;
    if (b->conv[3].weight >= 0)
        shortcut = conv_norm(net, tape, x, &b->conv[3], &b->norm[3], pixels_out, false, false);
    struct tide_sized sum = tide_torch_add_inplace(tape, out, shortcut);
    if (b->conv[3].weight >= 0)
        tide_tape_drop(tape, shortcut);
    return tide_torch_relu_inplace(tape, sum);
}

static struct tide_sized see_planes(struct tide_net *net, struct tide_tape *tape, struct tide_sized pictures)
{
    const struct tide_architecture *m = net->model;
    int64_t side = (net->call.rows + 1) / 2, batch = net->call.batch, at = 0;
    struct tide_sized x = conv_norm(net, tape, pictures, &net->patches, &net->last,
                                    tide_times(batch, tide_times(side, side)), true, false);
    side = (side + 1) / 2;
    int64_t pooled = tide_times(tide_times(batch, m->channels), tide_times(side, side));
    x = tide_then(tape, x, tide_torch_max_pool(tape, x, pooled));
    for (int stage = 0; stage < TIDE_STAGES; stage++)
        for (int64_t i = 0; i < m->depths[stage] && !tape->failed; i++, at++) {
            const struct tide_stage_block *b = &net->blocks[at];
            int64_t before = tide_times(batch, tide_times(side, side));
            side = (side + b->stride - 1) / b->stride;
            tape->layer = (int)at + 1;
            int64_t after = tide_times(batch, tide_times(side, side));
            x = tide_then(tape, x, residual(net, tape, b, x, before, after));
        }
    tape->layer = 0;
    struct tide_sized mean =
        tide_then(tape, x, tide_torch_mean(tape, x, tide_times(batch, m->widths[TIDE_STAGES - 1])));
    return tide_then(tape, mean, tide_net_apply(tape, &net->head, mean, TIDE_PART_HEAD));
}

struct tide_sized tide_net_see(struct tide_net *net, struct tide_tape *tape, struct tide_sized pictures)
{
    return net->model->family == TIDE_FAMILY_VIT ? see_patches(net, tape, pictures)
                                                 : see_planes(net, tape, pictures);
}
