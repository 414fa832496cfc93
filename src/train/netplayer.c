#include "train/netplayer.h"
#include "rt/cpu/threads.h"

#include <math.h>
#include <string.h>

int tide_netplayer_build(struct tide_graph *graph, const struct tide_boardnet_config *config,
                         const char *prefix, const int64_t *batches, int count,
                         struct tide_netplayer *ret_player, struct tide_err *err)
{
    ret_player->count = count;
    for (int i = 0; i < count; i++) {
        ret_player->batches[i] = batches[i];
        if (tide_boardnet_build_player(graph, config, prefix, batches[i], &ret_player->programs[i], err))
            return -1;
    }
    return 0;
}

struct looking {
    const struct tide_game *game;
    const struct tide_position *positions;
    float *planes;
};

static void look(void *context, int64_t first, int64_t last)
{
    const struct looking *l = context;
    for (int64_t i = first; i < last; i++)
        tide_position_planes(l->game, &l->positions[i], 0,
                             l->planes + (size_t)i * (size_t)l->game->cells * TIDE_PLANES);
}

/* Unused rows keep their old contents; their results are not read. */
static int evaluate(void *context, const struct tide_position *positions, int count, float *logits,
                    float *values)
{
    const struct tide_netplayer *p = context;
    int size = 0;
    while (p->batches[size] < count)
        size++;
    const struct tide_boardnet_player *program = &p->programs[size];
    struct looking l = {
        .game = p->game, .positions = positions, .planes = tide_machine_input(p->machine, program->planes)};
    tide_parallel(count, 8, look, &l);
    tide_machine_run(p->machine, program->program);
    const float *found = tide_machine_result(p->machine, program->program, program->logits);
    memcpy(logits, found, (size_t)count * (size_t)p->game->moves * sizeof *logits);
    found = tide_machine_result(p->machine, program->program, program->values);
    memcpy(values, found, (size_t)count * sizeof *values);
    for (int i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return -1;
    return 0;
}

void tide_netplayer_warm(struct tide_netplayer *player)
{
    size_t board = (size_t)player->game->cells * TIDE_PLANES * sizeof(float);
    for (int i = 0; i < player->count; i++) {
        memset(tide_machine_input(player->machine, player->programs[i].planes), 0,
               (size_t)player->batches[i] * board);
        tide_machine_run(player->machine, player->programs[i].program);
    }
}

struct tide_evaluator tide_netplayer_evaluator(struct tide_netplayer *player)
{
    return (struct tide_evaluator){
        .most = (int)player->batches[player->count - 1], .evaluate = evaluate, .context = player};
}
