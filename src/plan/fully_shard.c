#include "plan/fully_shard.h"

#include <stdlib.h>

int64_t tide_shard_part(const struct tide_leaf *leaf, int64_t processes)
{
    int64_t rows = leaf->rows > 1 ? leaf->rows : leaf->count;
    return tide_times((rows + processes - 1) / processes, leaf->count / rows);
}

static int64_t padded(const struct tide_tape *tape, const struct tide_leaf *leaf)
{
    return tide_times(tide_shard_part(leaf, tape->processes), tape->processes);
}

static struct tide_sized take_on(struct tide_tape *tape, enum tide_stream stream, int64_t count, int width,
                                 enum tide_part owner)
{
    tape->cacher.stream = stream;
    struct tide_sized taken = tide_tape_take(tape, count, width, owner);
    tape->cacher.stream = TIDE_STREAM_OWN;
    return taken;
}

/* Returns the elements of all parameters of a group. *ret_width: bytes of one, the same for all. */
static int64_t group_count(const struct tide_tape *tape, int number, bool gradients, int *ret_width)
{
    const struct tide_group *group = &tape->groups[number];
    int64_t count = 0;
    for (int i = group->first; i < group->end; i++) {
        const struct tide_leaf *leaf = &tape->leaves[i];
        if (leaf->group != number || (gradients && leaf->gradient < 0))
            continue;
        count += padded(tape, leaf);
        *ret_width = leaf->width;
    }
    return count;
}

/* Makes this process's parts of a new group's parameters, then frees the whole ones. */
static void cut_up(struct tide_tape *tape, int number)
{
    struct tide_group *group = &tape->groups[number];
    for (int i = group->first; i < group->end; i++) {
        const struct tide_leaf *leaf = &tape->leaves[i];
        if (leaf->group == number)
            tide_tape_take(tape, tide_shard_part(leaf, tape->processes), leaf->width, leaf->owner);
    }
    for (int i = group->first; i < group->end; i++)
        if (tape->leaves[i].group == number)
            tide_tape_let_go(tape, &tape->leaves[i].storage);
}

int tide_shard_net(struct tide_tape *tape, int first, int end, const int *starts, int blocks, int blocks_end,
                   bool stays)
{
    int base = tape->group_count, outer = base + blocks;
    struct tide_group *grown =
        tape->failed ? NULL : realloc(tape->groups, (size_t)(outer + 1) * sizeof *grown);
    if (!grown) {
        tape->failed = true;
        return -1;
    }
    tape->groups = grown;
    tape->group_count = outer + 1;
    for (int i = 0; i <= blocks; i++)
        tape->groups[base + i] = (struct tide_group){.first = i < blocks ? starts[i] : first,
                                                     .end = i == blocks       ? end
                                                            : i == blocks - 1 ? blocks_end
                                                                              : starts[i + 1],
                                                     .outer = outer,
                                                     .before = i ? base + i - 1 : -1,
                                                     .stays = stays || i == blocks,
                                                     .ahead = TIDE_NOTHING,
                                                     .gradient = TIDE_NOTHING,
                                                     .held = TIDE_NOTHING,
                                                     .summed = TIDE_NOTHING};
    for (int i = first; i < end; i++)
        tape->leaves[i].group = outer;
    for (int i = 0; i < blocks; i++)
        for (int leaf = tape->groups[base + i].first; leaf < tape->groups[base + i].end; leaf++)
            tape->leaves[leaf].group = base + i;
    for (int i = base; i <= outer && !tape->failed; i++)
        cut_up(tape, i);
    return base;
}

static void gather(struct tide_tape *tape, int number)
{
    int width = 1;
    int64_t count = group_count(tape, number, false, &width);
    bool reference = tape->leaves[tape->groups[number].first].owner == TIDE_PART_REFERENCE;
    tape->groups[number].ahead = take_on(tape, reference ? TIDE_STREAM_GATHER_REFERENCE : TIDE_STREAM_GATHER,
                                         count, width, TIDE_PART_GATHERED);
}

static void take_apart(struct tide_tape *tape, int number)
{
    struct tide_group *group = &tape->groups[number];
    for (int i = group->first; i < group->end; i++) {
        struct tide_leaf *leaf = &tape->leaves[i];
        if (leaf->group == number)
            leaf->storage = tide_tape_take(tape, padded(tape, leaf), leaf->width, TIDE_PART_GATHERED).storage;
    }
    group->whole = true;
}

static void make_partial(struct tide_tape *tape, int number)
{
    struct tide_group *group = &tape->groups[number];
    for (int i = group->first; i < group->end && group->whole; i++)
        if (tape->leaves[i].group == number)
            tide_tape_let_go(tape, &tape->leaves[i].storage);
    group->whole = false;
}

void tide_shard_enter(struct tide_tape *tape, int number)
{
    if (number < 0 || tape->failed || tape->groups[number].whole)
        return;
    struct tide_group *group = &tape->groups[number], *outer = &tape->groups[group->outer];
    gather(tape, number);
    take_apart(tape, number);
    tide_tape_let_go(tape, &outer->held.storage); /* a local variable holds it until here */
    outer->held = group->ahead;
    group->ahead = TIDE_NOTHING;
}

void tide_shard_leave(struct tide_tape *tape, int number)
{
    if (number >= 0 && !tape->failed && !tape->groups[number].stays)
        make_partial(tape, number);
}

void tide_shard_done(struct tide_tape *tape, int outer)
{
    if (outer < 0 || tape->failed)
        return;
    tide_tape_let_go(tape, &tape->groups[outer].held.storage);
    if (tape->grad && tape->node_count)
        tape->nodes[tape->node_count - 1].group = outer;
}

void tide_shard_before_backward(struct tide_tape *tape, int number)
{
    struct tide_group *group = &tape->groups[number];
    if (!group->whole) {
        if (group->ahead.storage < 0)
            gather(tape, number);
        take_apart(tape, number);
        tide_tape_let_go(tape, &group->ahead.storage);
    }
    int before = group->before;
    if (before >= 0 && !tape->groups[before].whole && tape->groups[before].ahead.storage < 0)
        gather(tape, before);
}

void tide_shard_after_backward(struct tide_tape *tape, int number)
{
    struct tide_group *group = &tape->groups[number], *outer = &tape->groups[group->outer];
    int width = 1;
    int64_t count = group_count(tape, number, true, &width);
    make_partial(tape, number);
    if (!count || tape->failed)
        return;
    tide_tape_let_go(tape, &outer->summed.storage);
    outer->summed = tide_tape_take(tape, count, width, TIDE_PART_BUCKETS);
    for (int i = group->first; i < group->end; i++)
        if (tape->leaves[i].group == number)
            tide_tape_let_go(tape, &tape->leaves[i].gradient);
    struct tide_sized part =
        take_on(tape, TIDE_STREAM_REDUCE, count / tape->processes, width, TIDE_PART_GRADIENTS);
    if (group->gradient.storage < 0)
        group->gradient = part;
    else /* added to the existing gradient */
        tide_tape_drop(tape, part);
}

void tide_shard_drop_gradients(struct tide_tape *tape)
{
    for (int i = 0; i < tape->group_count; i++)
        tide_tape_let_go(tape, &tape->groups[i].gradient.storage);
}
