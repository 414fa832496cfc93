/*
 * net_image.c - ViT as transformers has it, ResNet as torchvision has it.
 */
#include "plan/net.h"

void tide_net_init_pictures(struct tide_net *net, struct tide_tape *tape)
{
    const struct tide_model *m = net->model;
    const struct tide_net_options *how = &net->how;
    if (m->family == TIDE_FAMILY_VIT) {
        int64_t patches = tide_times(m->image / m->patch, m->image / m->patch);
        net->class_token = tide_tape_leaf(tape, m->channels, how->width, how->trains, how->owner);
        net->places =
            tide_tape_leaf(tape, tide_times(patches + 1, m->channels), how->width, how->trains, how->owner);
        net->patches = tide_net_linear(net, tape, tide_times(m->planes, tide_times(m->patch, m->patch)),
                                       m->channels, true, false);
        net->last = tide_net_norm(net, tape, m->channels, true);
        net->head = tide_net_linear(net, tape, m->channels, m->classes, true, false);
        return;
    }
    net->patches = tide_net_linear(net, tape, tide_times(m->planes, 49), m->channels, false, false);
    net->last = tide_net_norm(net, tape, m->channels, true);
    int64_t in = m->channels, at = 0;
    for (int stage = 0; stage < TIDE_STAGES; stage++)
        for (int64_t i = 0; i < m->depths[stage] && !tape->failed; i++, at++) {
            struct tide_stage_block *b = &net->blocks[at];
            int64_t out = m->widths[stage], middle = m->bottleneck ? out / 4 : out;
            *b = (struct tide_stage_block){
                .in = in, .middle = middle, .out = out, .stride = stage && !i ? 2 : 1};
            b->conv[0] =
                tide_net_linear(net, tape, tide_times(in, m->bottleneck ? 1 : 9), middle, false, false);
            b->norm[0] = tide_net_norm(net, tape, middle, true);
            b->conv[1] = tide_net_linear(net, tape, tide_times(middle, 9), middle, false, false);
            b->norm[1] = tide_net_norm(net, tape, middle, true);
            if (m->bottleneck) {
                b->conv[2] = tide_net_linear(net, tape, middle, out, false, false);
                b->norm[2] = tide_net_norm(net, tape, out, true);
            }
            b->conv[3].weight = -1;
            if (in != out || b->stride > 1) {
                b->conv[3] = tide_net_linear(net, tape, in, out, false, false);
                b->norm[3] = tide_net_norm(net, tape, out, true);
            }
            in = out;
        }
    net->head = tide_net_linear(net, tape, in, m->classes, true, false);
}

static struct tide_tensor see_patches(struct tide_net *net, struct tide_tape *tape,
                                      struct tide_tensor pictures)
{
    const struct tide_model *m = net->model;
    int64_t side = net->rows / m->patch, patches = tide_times(side, side), batch = net->batch;
    /* A convolution whose stride is its size: like a linear layer on patches, but the way back gives no
     * gradient to the pictures. */
    struct tide_tensor planes = tide_op_linear(tape, pictures, net->patches.weight, net->patches.bias,
                                               net->patches.in, m->channels, TIDE_OWNER_RESIDUAL);
    /* cat((class token, patches)): a new tensor; its gradient's part for the patches is a view. */
    int node = planes.node >= 0 ? tide_tape_node(tape, TIDE_OWNER_RESIDUAL, 0) : -1;
    tide_tape_leaf_edge(tape, node, net->class_token,
                        tide_times(m->channels, tape->leaves[net->class_token].width));
    tide_tape_edge(tape, node, planes, TIDE_EDGE_SAME, 0);
    struct tide_tensor joined = tide_tape_take(tape, tide_times(tide_times(batch, patches + 1), m->channels),
                                               net->how.width, TIDE_OWNER_RESIDUAL);
    joined.node = node;
    tide_tape_drop(tape, planes);
    node = joined.node >= 0 ? tide_tape_node(tape, TIDE_OWNER_RESIDUAL, 0) : -1;
    tide_tape_leaf_edge(tape, node, net->places,
                        tide_times(tape->leaves[net->places].count, tape->leaves[net->places].width));
    tide_tape_edge(tape, node, joined, TIDE_EDGE_SAME, 0);
    struct tide_tensor x = tide_tape_take(tape, joined.count, joined.width, TIDE_OWNER_RESIDUAL);
    x.node = node;
    tide_tape_drop(tape, joined);
    net->rows = patches + 1;
    x = tide_net_run_blocks(net, tape, tide_net_block, x);
    struct tide_tensor normal = tide_net_normalise(net, tape, &net->last, x);
    tide_tape_drop(tape, x);
    struct tide_tensor first = tide_op_part(tape, normal, tide_times(batch, m->channels));
    struct tide_tensor logits = tide_net_apply(tape, &net->head, first, TIDE_OWNER_HEAD);
    tide_tape_drop(tape, first);
    tide_tape_drop(tape, normal);
    return logits;
}

static struct tide_tensor conv_norm(struct tide_tape *tape, struct tide_tensor x, const struct tide_linear *l,
                                    const struct tide_norm *norm, int64_t pixels, bool bends)
{
    struct tide_tensor raw = tide_op_convolve(tape, x, l->weight, tide_times(pixels, l->out));
    struct tide_tensor normal = tide_op_batch_norm(tape, raw, norm->weight, norm->bias, l->out);
    tide_tape_drop(tape, raw);
    return bends ? tide_op_relu_inplace(tape, normal) : normal;
}

static struct tide_tensor residual(struct tide_net *net, struct tide_tape *tape,
                                   const struct tide_stage_block *b, struct tide_tensor x, int64_t pixels_in,
                                   int64_t pixels_out)
{
    bool deep = net->model->bottleneck;
    struct tide_tensor first =
        conv_norm(tape, x, &b->conv[0], &b->norm[0], deep ? pixels_in : pixels_out, true);
    struct tide_tensor out = conv_norm(tape, first, &b->conv[1], &b->norm[1], pixels_out, deep);
    tide_tape_drop(tape, first);
    if (deep) {
        struct tide_tensor last = conv_norm(tape, out, &b->conv[2], &b->norm[2], pixels_out, false);
        tide_tape_drop(tape, out);
        out = last;
    }
    struct tide_tensor shortcut = x;
    if (b->conv[3].weight >= 0)
        shortcut = conv_norm(tape, x, &b->conv[3], &b->norm[3], pixels_out, false);
    struct tide_tensor sum = tide_op_add_inplace(tape, out, shortcut);
    if (b->conv[3].weight >= 0)
        tide_tape_drop(tape, shortcut);
    return tide_op_relu_inplace(tape, sum);
}

static struct tide_tensor see_planes(struct tide_net *net, struct tide_tape *tape,
                                     struct tide_tensor pictures)
{
    const struct tide_model *m = net->model;
    int64_t side = (net->rows + 1) / 2, batch = net->batch, at = 0;
    struct tide_tensor x =
        conv_norm(tape, pictures, &net->patches, &net->last, tide_times(batch, tide_times(side, side)), true);
    side = (side + 1) / 2;
    struct tide_tensor pooled =
        tide_op_max_pool(tape, x, tide_times(tide_times(batch, m->channels), tide_times(side, side)));
    tide_tape_drop(tape, x);
    x = pooled;
    for (int stage = 0; stage < TIDE_STAGES; stage++)
        for (int64_t i = 0; i < m->depths[stage] && !tape->failed; i++, at++) {
            const struct tide_stage_block *b = &net->blocks[at];
            int64_t before = tide_times(batch, tide_times(side, side));
            side = (side + b->stride - 1) / b->stride;
            tape->layer = (int)at + 1;
            struct tide_tensor out =
                residual(net, tape, b, x, before, tide_times(batch, tide_times(side, side)));
            tide_tape_drop(tape, x);
            x = out;
        }
    tape->layer = 0;
    struct tide_tensor mean = tide_op_mean(tape, x, tide_times(batch, m->widths[TIDE_STAGES - 1]));
    tide_tape_drop(tape, x);
    struct tide_tensor logits = tide_net_apply(tape, &net->head, mean, TIDE_OWNER_HEAD);
    tide_tape_drop(tape, mean);
    return logits;
}

struct tide_tensor tide_net_see(struct tide_net *net, struct tide_tape *tape, struct tide_tensor pictures)
{
    return net->model->family == TIDE_FAMILY_VIT ? see_patches(net, tape, pictures)
                                                 : see_planes(net, tape, pictures);
}
