/*
 * train.c - a character-level GPT, trained in doubles on one core, with every tensor of an iteration in an
 * arena.
 *
 *     train [--preset small|tiny] [--iterations N] [--fix none|suspects|next-chunk]
 *
 * Truth: leak, linear, in the arena. The small preset needs three chunks of 1.75 MiB per iteration. After a
 * reset, the first overflow makes a new second chunk and forgets the old one and what follows it: two chunks,
 * or 3.5 MiB, are orphaned by an iteration, except by one in ten, after which they were freed: 3.15 MiB per
 * iteration, of which the end of the last chunk is never touched. The tiny preset never overflows its first
 * chunk and does not leak. --fix suspects does what was tried (optimizer state, tape, stray mallocs) and
 * changes nothing; --fix next-chunk is the repair.
 */
#include "autograd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MOST = 4, SEQUENCE_MOST = 64, CHUNK_BYTES = 1792 << 10, VOCABULARY = 128 };

static const char text[] =
    "Memory that a run does not give back is not always lost: it may be a cache that fills once, a spike that comes and goes, or a "
    "pool that keeps what it was given. A leak is none of these. It is a floor that rises, a little with each step, for as long "
    "as the run lasts. Whoever watches one number sees all four alike; whoever watches the floor can tell them apart. ";

struct preset {
    const char *name;
    int width, layers, hidden, sequence;
};

static const struct preset presets[] = {{"small", 128, 2, 512, 64}, {"tiny", 32, 1, 128, 32}};

struct layer {
    struct tensor *q, *k, *v, *out, *up, *down;
};

struct model {
    const struct preset *size;
    struct tensor *tokens, *positions, *head;
    struct layer layers[LAYERS_MOST];
};

static void model_init(struct model *m, const struct preset *size)
{
    unsigned seed = 20251113;
    int d = size->width;
    *m = (struct model){.size = size};
    m->tokens = parameter_new(VOCABULARY, d, &seed);
    m->positions = parameter_new(size->sequence, d, &seed);
    m->head = parameter_new(d, VOCABULARY, &seed);
    for (int i = 0; i < size->layers; i++) {
        struct layer *l = &m->layers[i];
        struct tensor **square[] = {&l->q, &l->k, &l->v, &l->out};
        for (size_t s = 0; s < sizeof square / sizeof *square; s++)
            *square[s] = parameter_new(d, d, &seed);
        l->up = parameter_new(d, size->hidden, &seed);
        l->down = parameter_new(size->hidden, d, &seed);
    }
}

static struct tensor *layer_forward(const struct layer *l, struct tensor *x)
{
    struct tensor *q = op_matmul(x, l->q, false), *k = op_matmul(x, l->k, false),
                  *v = op_matmul(x, l->v, false);
    struct tensor *attention = op_causal_softmax(op_matmul(q, k, true));
    x = op_add(x, op_matmul(op_matmul(attention, v, false), l->out, false));
    return op_add(x, op_matmul(op_relu(op_matmul(x, l->up, false)), l->down, false));
}

/* The loss of predicting each character from those before it. */
static struct tensor *model_forward(const struct model *m, const int *tokens)
{
    int count = m->size->sequence, *places = arena_alloc((size_t)count * sizeof *places);
    for (int i = 0; i < count; i++)
        places[i] = i;
    struct tensor *x = op_add(op_embed(m->tokens, tokens, count), op_embed(m->positions, places, count));
    for (int i = 0; i < m->size->layers; i++)
        x = layer_forward(&m->layers[i], x);
    return op_cross_entropy(op_matmul(x, m->head, false), tokens + 1);
}

static double train_iteration(const struct model *m, int iteration)
{
    int tokens[SEQUENCE_MOST + 1], length = (int)sizeof text - 1, from = iteration * 37 % length;
    for (int i = 0; i <= m->size->sequence; i++)
        tokens[i] = text[(from + i) % length];
    double loss = model_forward(m, tokens)->data[0];
    tape_backward();
    adam_step(1e-3);
    tape_reset();
    arena_reset();
    return loss;
}

/* The place of a word in a list of words; leaves the program when it is none of them. */
static int choose(const char *word, const char *const *words, int count)
{
    for (int i = 0; word && i < count; i++)
        if (!strcmp(word, words[i]))
            return i;
    fprintf(stderr, "usage: train [--preset small|tiny] [--iterations N] [--fix none|suspects|next-chunk]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    static const char *const options[] = {"--preset", "--iterations", "--fix"},
                             *const sizes[] = {"small", "tiny"},
                             *const fixes[] = {"none", "suspects", "next-chunk"};
    int preset = 0, iterations = 150, fix = 0;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        int option = choose(value ? argv[i] : NULL, options, 3);
        if (option == 0)
            preset = choose(value, sizes, 2);
        else if (option == 1)
            iterations = atoi(value);
        else
            fix = choose(value, fixes, 3);
    }
    autograd_init((enum fix)fix, CHUNK_BYTES);
    struct model model;
    model_init(&model, &presets[preset]);
    for (int i = 0; i < iterations; i++) {
        printf("iter %d/%d loss %.3f\n", i + 1, iterations, train_iteration(&model, i));
        fflush(stdout);
    }
    return 0;
}
