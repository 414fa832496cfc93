/*
 * op_embed.h - the operands and sizes of an embedding, for the reference and the kernels.
 */
#ifndef TIDE_OP_EMBED_H
#define TIDE_OP_EMBED_H

#include "rt/op.h"

enum { TOKENS, TABLE, PLACES, POSITIONS };

struct tide_embedding {
    const struct tide_call *call;
    const int32_t *tokens, *positions; /* positions NULL: each sequence starts at 0 */
    int64_t rows, columns, sequence;
};

static inline struct tide_embedding tide_embedding_of(const struct tide_call *call)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[0]];
    const int32_t *positions = call->node->in_count > POSITIONS ? call->in[POSITIONS] : NULL;
    return (struct tide_embedding){call,       call->in[TOKENS], positions,
                                   y->dims[0], y->dims[1],       call->node->numbers[0]};
}

static inline int64_t tide_embedding_place(const struct tide_embedding *e, int64_t row)
{
    return e->positions ? e->positions[row] : row % e->sequence;
}

#endif
