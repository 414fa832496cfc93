#include "train/selfplay_player.h"
#include "base/text.h"
#include "rt/cpu/cpu_device.h"
#include "train/selfplay.h"

#include <stdlib.h>

/* Reads which game and net it was. */
static int read_run(struct tide_selfplay_player *p, const char *run, const char *path,
                    struct tide_selfplay_settings *ret_settings, struct tide_err *err)
{
    struct tide_checkpoint_state state = {.task = "selfplay", .own = ret_settings};
    if (tide_checkpoint_read(path, &state, err))
        return -1;
    if (!state.is_of_task) {
        tide_err_set(err, "'%s' is not a run of self-play", TIDE_SHOWN(run, 256));
        return tide_err_hint(err, "tidemark train selfplay --out DIR makes one");
    }
    p->steps = state.step;
    return tide_game_of(ret_settings->game, (int)ret_settings->board, ret_settings->exact, &p->game, err);
}

static int load(struct tide_selfplay_player *p, const char *run, struct tide_err *err)
{
    static const int64_t batches[] = {1, TIDE_SELFPLAY_AT_ONCE};
    struct tide_selfplay_settings *settings = calloc(1, sizeof *settings);
    struct tide_boardnet_config config;
    struct tide_choices none = {0};
    struct tide_plan plan;
    char path[4096];
    int status =
        settings ? tide_checkpoint_find(run, path, sizeof path, err) : tide_err_set(err, "out of memory");
    if (status > 0) {
        tide_err_set(err, "there is no run in '%s'", TIDE_SHOWN(run, 256));
        status = tide_err_hint(err, "tidemark train selfplay --out DIR makes one");
    }
    if (!status)
        status = read_run(p, run, path, settings, err) ||
                 tide_boardnet_preset(settings->net, &p->game, &config, err);
    free(settings);
    if (status)
        return -1;
    p->graph = tide_graph_new(TIDE_F32);
    if (!p->graph)
        return tide_err_set(err, "out of memory for the net");
    if (tide_netplayer_build(p->graph, &config, "", batches, 2, &p->net, err) ||
        tide_checkpoint_check(path, p->graph, err) ||
        tide_plan_make(p->graph, &tide_cpu_device, &none, &plan, err) ||
        tide_machine_new(p->graph, &tide_cpu_device, &plan, &p->machine, err) ||
        tide_checkpoint_load(path, p->graph, p->machine, false, err))
        return -1;
    p->net.game = &p->game;
    p->net.machine = p->machine;
    p->evaluator = tide_netplayer_evaluator(&p->net);
    return 0;
}

int tide_selfplay_open(const char *run, struct tide_selfplay_player **ret_player, struct tide_err *err)
{
    struct tide_selfplay_player *p = calloc(1, sizeof *p);
    if (!p)
        return tide_err_set(err, "out of memory");
    if (load(p, run, err)) {
        tide_selfplay_free(p);
        return -1;
    }
    *ret_player = p;
    return 0;
}

void tide_selfplay_free(struct tide_selfplay_player *p)
{
    if (!p)
        return;
    tide_machine_free(p->machine);
    tide_graph_free(p->graph);
    free(p);
}
