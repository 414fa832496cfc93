#include "base/check.h"
#include "base/grow.h"
#include "plan/fully_shard.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MOST = 1 << 22, STORAGES_MOST = 1 << 22, LEAVES_MOST = 1 << 16, CHECKPOINTS_MOST = 1 << 16 };

struct tide_storage {
    int block, references;
    int64_t bytes;
    short layer;
    unsigned char owner;
    int next; /* in the list of unused storages */
};

struct tide_checkpoint {
    tide_block_function *block;
    void *context;
    struct tide_sized in;
    int layer, first, count;
    bool done;
};

int64_t tide_times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t tide_plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

void tide_tape_init(struct tide_tape *tape, enum tide_cacher_kind kind)
{
    *tape = (struct tide_tape){.storage_unused = -1, .grad = true, .phase = -1, .group = -1, .processes = 1};
    tide_cacher_init(&tape->cacher, kind);
    tide_tape_phase(tape, "start");
}

void tide_tape_release(struct tide_tape *tape)
{
    tide_cacher_release(&tape->cacher);
    free(tape->storages);
    free(tape->nodes);
    free(tape->leaves);
    free(tape->checkpoints);
    free(tape->groups);
    *tape = (struct tide_tape){.storage_unused = -1};
}

static bool has_grown(struct tide_tape *tape, int status)
{
    tape->failed |= status != 0;
    return status == 0;
}

/* Makes room for one more in an array; false if there is none. */
#define ROOM(tape, array, capacity, count, most)                                                             \
    has_grown(tape, TIDE_GROW((tape)->array, (tape)->capacity, (tape)->count + 1, most))

static void note_peak(struct tide_tape *tape)
{
    struct tide_plan_phase *phase = &tape->phases[tape->phase];
    if (tape->cacher.reserved > phase->reserved)
        phase->reserved = tape->cacher.reserved;
    if (tape->cacher.allocated <= phase->peak)
        return;
    phase->peak = tape->cacher.allocated;
    memcpy(phase->owned, tape->owned, sizeof phase->owned);
    int64_t most = tape->phases[tape->census_phase].peak;
    if (tape->census && (phase->peak > most || (phase->peak == most && tape->phase <= tape->census_phase))) {
        tape->census_phase = tape->phase;
        *tape->census = tape->alive;
    }
}

void tide_tape_phase(struct tide_tape *tape, const char *name)
{
    int at = 0;
    while (at < tape->phase_count && strcmp(tape->phases[at].name, name) != 0)
        at++;
    TIDE_CHECK(at, <, TIDE_PHASES_MOST);
    if (at == tape->phase_count)
        tape->phases[tape->phase_count++] = (struct tide_plan_phase){.name = name};
    tape->phase = at;
    note_peak(tape);
}

/* Counts what a storage holds (sign 1), or no longer (-1), for its owner and layer. */
static void count(struct tide_tape *tape, const struct tide_storage *s, int sign)
{
    int64_t bytes = sign * tide_cacher_size(&tape->cacher, s->block);
    tape->owned[s->owner] += bytes;
    tape->alive.bytes[s->owner][s->layer] += bytes;
}

static int new_storage(struct tide_tape *tape, int64_t bytes, enum tide_part owner)
{
    int at = tape->storage_unused;
    if (tape->failed || bytes <= 0)
        return -1;
    if (at >= 0)
        tape->storage_unused = tape->storages[at].next;
    else if (!ROOM(tape, storages, storage_capacity, storage_count, STORAGES_MOST))
        return -1;
    else
        at = tape->storage_count++;
    int block = tide_cacher_take(&tape->cacher, bytes);
    tape->storages[at] = (struct tide_storage){.block = block,
                                               .references = 1,
                                               .bytes = bytes,
                                               .layer = (short)tape->layer,
                                               .owner = (unsigned char)owner};
    count(tape, &tape->storages[at], 1);
    tape->failed |= tape->cacher.failed;
    note_peak(tape);
    return at;
}

/* A tape that failed no longer counts references: its operators return what they were given. */
static void hold(struct tide_tape *tape, int storage)
{
    if (storage >= 0 && !tape->failed)
        tape->storages[storage].references++;
}

static void let_go(struct tide_tape *tape, int storage)
{
    if (storage < 0 || tape->failed)
        return;
    struct tide_storage *s = &tape->storages[storage];
    TIDE_CHECK(s->references, >, 0);
    if (--s->references)
        return;
    count(tape, s, -1);
    tide_cacher_give(&tape->cacher, s->block);
    s->next = tape->storage_unused;
    tape->storage_unused = storage;
}

struct tide_sized tide_tape_take(struct tide_tape *tape, int64_t count, int width, enum tide_part owner)
{
    return tide_tape_make(tape, -1, count, width, owner);
}

struct tide_sized tide_tape_keep(struct tide_tape *tape, struct tide_sized tensor)
{
    hold(tape, tensor.storage);
    return tensor;
}

void tide_tape_drop(struct tide_tape *tape, struct tide_sized tensor)
{
    let_go(tape, tensor.storage);
}

void tide_tape_let_go(struct tide_tape *tape, int *storage)
{
    let_go(tape, *storage);
    *storage = -1;
}

void tide_tape_drop_all(struct tide_tape *tape, const struct tide_sized *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tide_tape_drop(tape, tensors[i]);
}

struct tide_sized tide_then(struct tide_tape *tape, struct tide_sized spent, struct tide_sized next)
{
    tide_tape_drop(tape, spent);
    return next;
}

int tide_tape_leaf(struct tide_tape *tape, int64_t count, int width, bool trains, enum tide_part owner)
{
    if (!ROOM(tape, leaves, leaf_capacity, leaf_count, LEAVES_MOST))
        return -1;
    tape->leaves[tape->leaf_count] =
        (struct tide_leaf){.count = count,
                           .width = width,
                           .storage = new_storage(tape, tide_times(count, width), owner),
                           .gradient = -1,
                           .group = -1,
                           .buffer = -1,
                           .cast = TIDE_NOTHING,
                           .trains = trains,
                           .rows = 1,
                           .owner = owner,
                           .scratch = {TIDE_NOTHING, TIDE_NOTHING}};
    return tape->leaf_count++;
}

int tide_tape_node(struct tide_tape *tape, int64_t scratch)
{
    if (!tape->grad || !ROOM(tape, nodes, node_capacity, node_count, NODES_MOST))
        return -1;
    tape->nodes[tape->node_count] = (struct tide_tape_node){.grads = {-1, -1, -1},
                                                            .scratch = scratch,
                                                            .again = -1,
                                                            .group = tape->group,
                                                            .layer = (short)tape->layer};
    return tape->node_count++;
}

struct tide_sized tide_tape_make(struct tide_tape *tape, int node, int64_t count, int width,
                                 enum tide_part owner)
{
    return (struct tide_sized){.storage = new_storage(tape, tide_times(count, width), owner),
                               .node = node,
                               .count = count,
                               .width = width};
}

void tide_tape_scratch(struct tide_tape *tape, int node, enum tide_scratch_use use, int64_t bytes)
{
    if (node < 0 || tape->failed)
        return;
    tape->nodes[node].scratch = bytes;
    tape->nodes[node].scratch_use = use;
}

void tide_tape_edge(struct tide_tape *tape, int node, struct tide_sized in, enum tide_edge_kind kind)
{
    if (node < 0 || in.node < 0)
        return;
    struct tide_tape_node *n = &tape->nodes[node];
    TIDE_CHECK(n->edge_count, <, TIDE_EDGES);
    n->edges[n->edge_count++] = (struct tide_edge){
        .node = in.node, .slot = in.slot, .leaf = -1, .kind = kind, .bytes = tide_times(in.count, in.width)};
}

void tide_tape_leaf_edge(struct tide_tape *tape, int node, int leaf, bool turned)
{
    if (node < 0 || leaf < 0 || !tape->leaves[leaf].trains)
        return;
    const struct tide_leaf *l = &tape->leaves[leaf];
    struct tide_tape_node *n = &tape->nodes[node];
    TIDE_CHECK(n->edge_count, <, TIDE_EDGES);
    n->edges[n->edge_count++] = (struct tide_edge){
        .node = -1, .leaf = leaf, .bytes = tide_times(l->count, l->width), .turned = turned};
}

void tide_tape_edge_scratch(struct tide_tape *tape, int node, int64_t bytes)
{
    if (node >= 0 && tape->nodes[node].edge_count)
        tape->nodes[node].edges[tape->nodes[node].edge_count - 1].scratch = bytes;
}

void tide_tape_save(struct tide_tape *tape, int node, struct tide_sized tensor)
{
    if (node < 0 || tensor.storage < 0 || tape->discards)
        return;
    struct tide_tape_node *n = &tape->nodes[node];
    TIDE_CHECK(n->saved_count, <, TIDE_SAVED);
    n->saved[n->saved_count++] = tensor.storage;
    hold(tape, tensor.storage);
}

struct tide_sized tide_tape_checkpoint(struct tide_tape *tape, tide_block_function *block, void *context,
                                       int layer, struct tide_sized in)
{
    if (!tape->grad || !ROOM(tape, checkpoints, checkpoint_capacity, checkpoint_count, CHECKPOINTS_MOST))
        return block(tape, context, layer, in);
    int first = tape->node_count, number = tape->checkpoint_count++;
    hold(tape, in.storage);
    tape->checkpoints[number] = (struct tide_checkpoint){
        .block = block, .context = context, .in = in, .layer = layer, .first = first};
    tape->discards = true;
    struct tide_sized out = block(tape, context, layer, in);
    tape->discards = false;
    tape->checkpoints[number].count = tape->node_count - first;
    for (int i = first; i < tape->node_count; i++)
        tape->nodes[i].again = number;
    return out;
}

/* Recomputes a checkpointed block, and gives its nodes what the second run saved. */
static void run_again(struct tide_tape *tape, int number)
{
    struct tide_checkpoint c = tape->checkpoints[number];
    int base = tape->node_count, layer = tape->layer;
    bool grad = tape->grad;
    tape->checkpoints[number].done = true;
    tape->grad = true;
    struct tide_sized out = c.block(tape, c.context, c.layer, c.in);
    tape->grad = grad;
    tape->layer = layer;
    let_go(tape, out.storage);
    tide_tape_end_cast(tape);
    if (tape->failed)
        return;
    TIDE_CHECK(tape->node_count - base, ==, c.count);
    for (int i = 0; i < c.count; i++) {
        struct tide_tape_node *to = &tape->nodes[c.first + i], *from = &tape->nodes[base + i];
        memcpy(to->saved, from->saved, sizeof to->saved);
        to->saved_count = from->saved_count;
    }
    tape->node_count = base;
}

/* Adds the gradient `storage`, whose reference the caller owns, to the one that is `there` (viewed: which is
 * a view). Returns the sum's storage. */
static int add_up(struct tide_tape *tape, int there, int storage, bool viewed)
{
    if (there < 0)
        return storage;
    if (storage < 0)
        return there;
    if (tape->storages[there].references == 1 && !viewed) {
        let_go(tape, storage);
        return there;
    }
    int sum = new_storage(tape, tape->storages[there].bytes, TIDE_PART_BACKWARD);
    let_go(tape, there);
    let_go(tape, storage);
    return sum;
}

static void change_owner(struct tide_tape *tape, int storage, enum tide_part owner)
{
    if (storage < 0)
        return;
    struct tide_storage *s = &tape->storages[storage];
    count(tape, s, -1);
    s->owner = (unsigned char)owner;
    count(tape, s, 1);
}

static void deliver_leaf(struct tide_tape *tape, struct tide_leaf *leaf, int storage, bool turned)
{
    int before = leaf->buffer;
    leaf->buffer = add_up(tape, leaf->buffer, storage, leaf->turned);
    leaf->turned = before < 0 && turned;
    if (++leaf->arrived < leaf->uses)
        return;
    leaf->arrived = leaf->uses = 0;
    if (leaf->gradient < 0) {
        leaf->gradient = leaf->buffer;
        change_owner(tape, leaf->gradient, TIDE_PART_GRADIENTS);
    } else
        let_go(tape, leaf->buffer);
    leaf->buffer = -1;
}

static void clear_node(struct tide_tape *tape, struct tide_tape_node *node)
{
    for (int i = 0; i < TIDE_SLOTS; i++)
        tide_tape_let_go(tape, &node->grads[i]);
    for (int i = 0; i < node->saved_count; i++)
        let_go(tape, node->saved[i]);
    node->saved_count = 0;
}

/* 32 MiB is what PyTorch gives cuBLAS on Hopper: 4096 KiB times 8 (CUBLAS_WORKSPACE_CONFIG), for each thread
 * that multiplies. cuBLASLt, which adds biases, gets 1 MiB (CUBLASLT_WORKSPACE_SIZE). */
enum { WORKSPACE = 32 << 20, BIAS_WORKSPACE = 1 << 20 };

/* Takes a workspace when the first of its kind of product runs. */
static void workspace(struct tide_tape *tape, bool *ran, int64_t bytes)
{
    int layer = tape->layer;
    tape->layer = 0;
    if (!*ran)
        tide_tape_take(tape, bytes, 1, TIDE_PART_WORKSPACE);
    *ran = true;
    tape->layer = layer;
}

void tide_tape_bias(struct tide_tape *tape)
{
    workspace(tape, &tape->bias_ran, BIAS_WORKSPACE);
}

void tide_tape_product(struct tide_tape *tape, int node)
{
    workspace(tape, &tape->product_ran, WORKSPACE);
    if (node >= 0)
        tape->nodes[node].multiplies = true;
}

static void step_backward(struct tide_tape *tape, int at)
{
    struct tide_tape_node *node = &tape->nodes[at];
    int results[TIDE_EDGES];
    tape->layer = node->layer;
    for (int i = 0; i < TIDE_SLOTS; i++)
        if (node->grads[i] < 0 && node->slot_bytes[i])
            node->grads[i] = new_storage(tape, node->slot_bytes[i], TIDE_PART_BACKWARD);
    bool twice = node->scratch_use == TIDE_SCRATCH_TWICE;
    bool before = twice || node->scratch_use == TIDE_SCRATCH_BEFORE;
    int first = before ? new_storage(tape, node->scratch, TIDE_PART_BACKWARD) : -1;
    int second = twice ? new_storage(tape, node->scratch, TIDE_PART_BACKWARD) : -1;
    for (int i = 0; i < node->edge_count; i++) {
        struct tide_edge *edge = &node->edges[i];
        if (node->again >= 0) /* recomputed tensors are freed when read, before a gradient is cast */
            let_go(tape, new_storage(tape, edge->scratch, TIDE_PART_BACKWARD));
        results[i] = edge->kind == TIDE_EDGE_SAME ? node->grads[0]
                                                  : new_storage(tape, edge->bytes, TIDE_PART_BACKWARD);
        if (edge->kind == TIDE_EDGE_SAME)
            hold(tape, results[i]);
        else if (node->multiplies)
            workspace(tape, &tape->product_ran_backward, WORKSPACE);
        if (node->again < 0)
            let_go(tape, new_storage(tape, edge->scratch, TIDE_PART_BACKWARD));
    }
    if (node->scratch_use == TIDE_SCRATCH_ONCE)
        first = new_storage(tape, node->scratch, TIDE_PART_BACKWARD);
    let_go(tape, second);
    let_go(tape, first);
    clear_node(tape, node);
    for (int i = 0; i < node->edge_count; i++) {
        struct tide_edge *edge = &node->edges[i];
        if (edge->node < 0)
            deliver_leaf(tape, &tape->leaves[edge->leaf], results[i], edge->turned);
        else {
            struct tide_tape_node *next = &tape->nodes[edge->node];
            bool only = next->grads[edge->slot] < 0;
            next->grads[edge->slot] =
                add_up(tape, next->grads[edge->slot], results[i], next->viewed[edge->slot]);
            next->viewed[edge->slot] = only && node->multiplies && edge->kind == TIDE_EDGE_NEW;
        }
    }
}

/* True if a gradient reaches the node. If none does, the node still counts as a use of its parameters. */
static bool reached(const struct tide_tape_node *node)
{
    for (int i = 0; i < TIDE_SLOTS; i++)
        if (node->grads[i] >= 0)
            return true;
    return false;
}

static void pass_by(struct tide_tape *tape, int at)
{
    struct tide_tape_node *node = &tape->nodes[at];
    clear_node(tape, node);
    for (int i = 0; i < node->edge_count; i++)
        if (node->edges[i].node < 0)
            deliver_leaf(tape, &tape->leaves[node->edges[i].leaf], -1, false);
}

static void end_checkpoint(struct tide_tape *tape, int at)
{
    int number = tape->nodes[at].again;
    if (number >= 0 && tape->checkpoints[number].first == at)
        tide_tape_let_go(tape, &tape->checkpoints[number].in.storage);
}

/* Counts how often each parameter will get a gradient from the nodes of this graph. */
static void count_uses(struct tide_tape *tape, int from)
{
    for (int i = 0; i < tape->leaf_count; i++)
        tape->leaves[i].uses = tape->leaves[i].arrived = 0;
    for (int at = from; at < tape->node_count; at++)
        for (int i = 0; i < tape->nodes[at].edge_count; i++)
            if (tape->nodes[at].edges[i].node < 0)
                tape->leaves[tape->nodes[at].edges[i].leaf].uses++;
}

void tide_tape_backward(struct tide_tape *tape, struct tide_sized loss, int from)
{
    int layer = tape->layer, group = -1, outer = -1;
    count_uses(tape, from);
    if (loss.node >= 0 && !tape->failed) {
        tape->nodes[loss.node].grads[loss.slot] = new_storage(tape, 4, TIDE_PART_BACKWARD);
        tide_tape_drop(tape, loss);
    }
    for (int at = tape->node_count - 1; at >= from && !tape->failed; at--) {
        int again = tape->nodes[at].again, needs = tape->nodes[at].group;
        if (needs >= 0 && needs != group) {
            tide_shard_before_backward(tape, needs);
            outer = tape->groups[needs].outer;
        }
        group = needs;
        if (!reached(&tape->nodes[at])) {
            pass_by(tape, at);
        } else {
            if (again >= 0 && !tape->checkpoints[again].done)
                run_again(tape, again);
            if (!tape->failed)
                step_backward(tape, at);
        }
        if (!tape->failed)
            end_checkpoint(tape, at);
        if (!tape->failed && tape->nodes[at].opens)
            tide_shard_after_backward(tape, needs);
    }
    if (outer >= 0 && !tape->failed) {
        tide_shard_after_backward(tape, outer);
        tide_tape_let_go(tape, &tape->groups[outer].summed.storage);
    }
    tape->node_count = from;
    if (from == 0)
        tape->checkpoint_count = 0;
    tape->layer = layer;
}

void tide_tape_forget(struct tide_tape *tape, int count)
{
    for (int at = count - 1; at >= 0 && !tape->failed; at--) {
        clear_node(tape, &tape->nodes[at]);
        tape->nodes[at].edge_count = 0;
        end_checkpoint(tape, at);
    }
    if (count == tape->node_count)
        tape->node_count = 0;
}

void tide_tape_end_cast(struct tide_tape *tape)
{
    for (int i = 0; i < tape->leaf_count; i++)
        tide_tape_let_go(tape, &tape->leaves[i].cast.storage);
}
