#include "train/selfplay.h"
#include "base/clock.h"
#include "base/infile.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "game/contest.h"
#include "rt/cpu/arena_pages.h"
#include "rt/cpu/threads.h"
#include "tidemark.h"
#include "train/config.h"
#include "train/netplayer.h"
#include "train/selfgames.h"
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TREES, REPLAY, CACHE, GAMES, MEMORY };
enum { FEWER = 8, MOST_UPDATES = 1 << 24 };

static const double least_alpha = 0.001, most_alpha = 1000; /* for noise, if there is any */

/* Before the names of the rival's parameters. */
static const char RIVAL[] = "rival.";

static const char *const known_games[] = {"tictactoe", "connect4", "gomoku", NULL};

#define OF(field) offsetof(struct tide_selfplay_settings, field)

const struct tide_setting tide_selfplay_settings[] = {
    {"game", TIDE_SETTING_CHOICE, OF(game), 0, 0, known_games, false},
    {"board", TIDE_SETTING_COUNT, OF(board), 1, TIDE_BOARD_SIDE, NULL, false},
    {"exact", TIDE_SETTING_COUNT, OF(exact), 0, 1, NULL, false},
    {"net", TIDE_SETTING_PATH, OF(net), 0, 0, NULL, false},
    {"games", TIDE_SETTING_COUNT, OF(games), 1, 1 << 16, NULL, false},
    {"simulations", TIDE_SETTING_COUNT, OF(simulations), 1, 1 << 24, NULL, false},
    {"replay", TIDE_SETTING_COUNT, OF(replay), 1, INT32_MAX, NULL, false},
    {"batch", TIDE_SETTING_COUNT, OF(batch), 1, 1 << 20, NULL, false},
    {"positions", TIDE_SETTING_COUNT, OF(positions), 1, INT32_MAX, NULL, false},
    {"reuse", TIDE_SETTING_REAL, OF(reuse), 0, 0, NULL, false},
    {"sampled_plies", TIDE_SETTING_COUNT, OF(sampled_plies), 0, INT32_MAX, NULL, false},
    {"children", TIDE_SETTING_COUNT, OF(children), 1, UINT32_MAX, NULL, false},
    {"cache_bytes", TIDE_SETTING_COUNT, OF(cache_bytes), 0, 0, NULL, false},
    {"match_games", TIDE_SETTING_COUNT, OF(match_games), 0, INT32_MAX, NULL, false},
    {"exploration", TIDE_SETTING_REAL, OF(exploration), 0, 0, NULL, false},
    {"noise_alpha", TIDE_SETTING_REAL, OF(noise_alpha), 0, 0, NULL, false},
    {"noise_share", TIDE_SETTING_REAL, OF(noise_share), 0, 0, NULL, false},
    {"value_weight", TIDE_SETTING_REAL, OF(value_weight), 0, 0, NULL, false},
    /* Older runs do not have it. */
    {"openings", TIDE_SETTING_REAL, OF(openings), 0, 0, NULL, true},
    {0},
};

enum {
    LOSS,
    POLICY_LOSS,
    VALUE_LOSS,
    PLAYED,
    LENGTH,
    FIRST,
    DRAWN,
    POSITIONS,
    SEARCHED,
    FOUND,
    FULL,
    HIGH,
    ELO,
    ELO_LOW,
    ELO_HIGH,
    RATE,
    NORM,
    NUMBERS
};

struct selfplay {
    struct tide_task task;
    struct tide_selfplay_options options; /* settings are settled */
    struct tide_task_number numbers[NUMBERS];
    struct tide_task_memory memory[MEMORY];
    struct tide_game game;
    char model[TIDE_SETTING_PATH_BYTES + 64];
    struct tide_boardnet_config config;
    struct tide_boardnet net;
    struct tide_netplayer player, rival;
    const struct tide_graph *graph; /* NULL before the start */
    struct tide_selfgames_rule rule;
    struct tide_selfgames_room room;
    int64_t updates; /* per step */
    struct tide_pages pages;
    struct tide_selfgames *games;
    struct tide_replay replay;
    int64_t played; /* games ended, ever */
    double elo;     /* of the rival; new weights have 0 */
};

/* ---- settling */

static int settle_game(struct selfplay *p, struct tide_err *err)
{
    struct tide_selfplay_settings *s = &p->options.settings;
    s->game = s->game ? s->game : known_games[2];
    tide_setting_usual(&s->exact, 0);
    if (tide_game_of(s->game, s->board == TIDE_NOT_GIVEN ? 0 : (int)s->board, s->exact, &p->game, err))
        return -1;
    s->board = p->game.columns;
    if (!s->net[0])
        strcpy(s->net, "tiny");
    return tide_boardnet_preset(s->net, &p->game, &p->config, err);
}

static int keep_text(const char *option, const char *had, const char *wanted, struct tide_err *err)
{
    if (!strcmp(had, wanted))
        return 0;
    tide_err_set(err, "the run was made with --%s %s, and cannot go on with %s", option, TIDE_SHOWN(had, 64),
                 TIDE_SHOWN(wanted, 64));
    return tide_err_hint(err, "leave --%s out, or begin another run", option);
}

static int keep_count(const char *option, int64_t had, int64_t wanted, struct tide_err *err)
{
    char before[24], now[24];
    snprintf(before, sizeof before, "%lld", (long long)had);
    snprintf(now, sizeof now, "%lld", (long long)wanted);
    return keep_text(option, before, now, err);
}

/* Refuses to change what the replay and the current games were made with, and what counts positions. */
static int keep_settings(const struct tide_selfplay_settings *had, const struct tide_selfplay_settings *s,
                         struct tide_err *err)
{
    if (had->exact != s->exact) {
        tide_err_set(err, "the run was made without --exact, and cannot go on with it");
        return tide_err_hint(err, "leave --exact out, or begin another run");
    }
    return keep_text("game", had->game, s->game, err) || keep_count("board", had->board, s->board, err) ||
                   keep_text("net", had->net, s->net, err) ||
                   keep_count("games-at-once", had->games, s->games, err) ||
                   keep_count("replay", had->replay, s->replay, err) ||
                   keep_count("positions", had->positions, s->positions, err)
               ? -1
               : 0;
}

/* Computes the size of each part. Called again for other sizes if nothing fits. */
static void size_memory(struct selfplay *p)
{
    const struct tide_selfplay_settings *s = &p->options.settings;
    p->room = tide_selfgames_room(&p->game, &p->rule);
    size_t ring = (size_t)s->replay * tide_replay_record_bytes(&p->game);
    p->memory[TREES] = (struct tide_task_memory){"trees", p->room.trees};
    p->memory[REPLAY] = (struct tide_task_memory){"replay", tide_aligned(ring) + p->room.records};
    p->memory[CACHE] = (struct tide_task_memory){"cache", tide_aligned(p->room.cache)};
    p->memory[GAMES] = (struct tide_task_memory){"games", p->room.games};
    p->task.memory = p->memory;
    p->task.memory_count = MEMORY;
}

static int settle_rule(struct selfplay *p, uint64_t seed, struct tide_err *err)
{
    struct tide_selfplay_settings *s = &p->options.settings;
    tide_setting_usual(&s->games, 64);
    tide_setting_usual(&s->simulations, 100);
    tide_setting_usual(&s->replay, 100000);
    tide_setting_usual(&s->batch, 256);
    tide_setting_usual(&s->positions, 1024);
    tide_setting_usual(&s->sampled_plies, 2 + p->game.cells / 8);
    tide_setting_usual(&s->children, tide_search_children(&p->game, s->simulations));
    tide_setting_usual(&s->cache_bytes, 32 << 20);
    tide_setting_usual(&s->match_games, 40);
    tide_setting_usual_real(&s->reuse, 4);
    tide_setting_usual_real(&s->exploration, 1.8);
    tide_setting_usual_real(&s->noise_alpha, 10.0 / p->game.moves);
    tide_setting_usual_real(&s->noise_share, 0.25);
    tide_setting_usual_real(&s->openings, 0);
    tide_setting_usual_real(&s->value_weight, 1);
    if (s->noise_alpha < least_alpha || s->noise_alpha > most_alpha) {
        tide_err_set(err, "--noise-alpha is %g; it must be from %g to %g", s->noise_alpha, least_alpha,
                     most_alpha);
        return tide_err_hint(err, "--noise-share 0 plays without noise");
    }
    if (s->noise_share > 1) {
        tide_err_set(err, "--noise-share %g is more than 1", s->noise_share);
        return tide_err_hint(err, "it is a share: 0.25 leaves three quarters to the net");
    }
    if (s->openings > 1) {
        tide_err_set(err, "--openings %g is more than 1", s->openings);
        return tide_err_hint(err, "it is a share: with 0.5 every other game begins with a random opening");
    }
    if (s->children <= p->game.moves)
        return tide_err_set(
            err, "--children %lld is too few: a tree needs room for one more than the %d moves of a position",
            (long long)s->children, p->game.moves);
    p->rule = (struct tide_selfgames_rule){
        .search = {.exploration = (float)s->exploration,
                   .first_play = 0.2F,
                   .noise_alpha = (float)s->noise_alpha,
                   .noise_share = (float)s->noise_share,
                   .forced = true},
        .games = s->games,
        .simulations = s->simulations,
        .children = s->children,
        .openings = s->openings,
        .sampled_plies = s->sampled_plies,
        .cache_bytes = (size_t)s->cache_bytes,
        .seed = seed,
    };
    double updates = (double)s->positions * s->reuse / (double)s->batch;
    if (updates > MOST_UPDATES) {
        tide_err_set(err, "--reuse %g makes more than %d updates in a step", s->reuse, MOST_UPDATES);
        return tide_err_hint(err, "it is how often a position is trained on, on average; the default is 4");
    }
    p->updates = updates < 1 ? 1 : (int64_t)llrint(updates);
    return 0;
}

static int settle(struct tide_task *task, const char *resumed, struct tide_train_settings *train,
                  struct tide_err *err)
{
    struct selfplay *p = (struct selfplay *)task;
    struct tide_selfplay_settings had;
    struct tide_checkpoint_state state = {.task = "selfplay", .own = &had};
    if (resumed && tide_checkpoint_read(resumed, &state, err))
        return -1;
    if (resumed && !state.is_of_task) {
        tide_err_set(err, "the run to resume is not a run of self-play");
        return tide_err_hint(err, "name one that 'tidemark train selfplay --out DIR' made");
    }
    if (strcmp(train->dtype, "f32") != 0) {
        tide_err_set(err, "self-play computes in f32 only");
        return tide_err_hint(err, "leave --dtype out; --weights bf16 halves the weights");
    }
    if (!strcmp(train->stored, "int8")) {
        tide_err_set(err, "weights that are stored as int8 cannot be trained");
        return tide_err_hint(err, "leave --weights out, or say --weights bf16");
    }
    if (resumed && keep_settings(&had, &p->options.settings, err))
        return -1;
    if (settle_game(p, err) || settle_rule(p, (uint64_t)train->seed, err))
        return -1;
    size_memory(p);
    task->batch = p->options.settings.batch;
    task->sequence = p->game.cells;
    task->passes = 1;
    task->blocks = p->config.blocks;
    task->vocabulary = p->game.moves;
    snprintf(p->model, sizeof p->model, "%s %dx%d, net %s", p->game.name, p->game.columns, p->game.rows,
             p->options.settings.net);
    task->model = p->model;
    tide_setting_usual(&train->warmup, 10);
    tide_setting_usual_real(&train->rate, 0.002);
    tide_setting_usual_real(&train->weight_decay, 0.01);
    train->schedule = train->schedule ? train->schedule : "cosine";
    return 0;
}

/* Builds batches for all games, and for few: in matches, or when most games rest. */
static int build_players(struct selfplay *p, struct tide_graph *graph, struct tide_err *err)
{
    int64_t games = p->rule.games, half = games < 2 ? 1 : games / 2;
    int64_t few = (games + FEWER - 1) / FEWER;
    int64_t all[] = {few, games}, some[] = {few, half};
    int first = few < games ? 0 : 1, first_of_half = few < half ? 0 : 1;
    return tide_netplayer_build(graph, &p->config, "", all + first, 2 - first, &p->player, err) ||
                   tide_netplayer_build(graph, &p->config, RIVAL, some + first_of_half, 2 - first_of_half,
                                        &p->rival, err)
               ? -1
               : 0;
}

static int build(struct tide_task *task, struct tide_graph *graph, struct tide_err *err)
{
    struct selfplay *p = (struct selfplay *)task;
    p->rule.games = p->options.settings.games;
    size_memory(p);
    return tide_boardnet_build(graph, &p->config, task->batch, (float)p->options.settings.value_weight,
                               &p->net, err) ||
                   build_players(p, graph, err)
               ? -1
               : 0;
}

static int suggest(struct tide_task *task, const struct tide_trainer *trainer, struct tide_err *err)
{
    struct selfplay *p = (struct selfplay *)task;
    struct tide_selfplay_settings *s = &p->options.settings;
    static const char *const names[] = {"batch", "replay", "games-at-once"};
    int64_t *const sizes[] = {&task->batch, &s->replay, &s->games};
    for (int i = 0; i < 3; i++) {
        int64_t before = *sizes[i], fits = tide_trainer_most_that_fits(trainer, sizes[i]);
        *sizes[i] = before;
        if (fits)
            return tide_err_hint(err, "--%s %lld would fit", names[i], (long long)fits);
    }
    return 0;
}

/* ---- the rival: a second net in the graph, with the weights of the last match */

/* Its parameters are borrowed (graph.h). Returns the net's own of the same name. */
static int own_of(const struct tide_graph *graph, int rivals)
{
    const char *name = graph->tensors[rivals].name + strlen(RIVAL);
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TIDE_PARAMETER && !strcmp(graph->tensors[i].name, name))
            return i;
    return -1;
}

/* Walks over its weights: reads them from `in`, or writes them to `out`; with neither, copies the net's own.
 * -1: the file ends too early. */
static int walk_rival(const struct selfplay *p, FILE *in, struct tide_durable *out)
{
    struct tide_machine *machine = p->player.machine;
    char window[1 << 14];
    for (int i = 0; i < p->graph->tensor_count; i++) {
        const struct tide_tensor *t = &p->graph->tensors[i];
        if (t->role != TIDE_BORROWED)
            continue;
        size_t own = tide_machine_place(machine, own_of(p->graph, i)),
               rivals = tide_machine_place(machine, i);
        for (size_t at = 0; at < t->bytes; at += sizeof window) {
            size_t bytes = t->bytes - at < sizeof window ? t->bytes - at : sizeof window;
            if (in && fread(window, bytes, 1, in) != 1)
                return -1;
            if (!in)
                tide_machine_read(machine, (out ? rivals : own) + at, window, bytes);
            if (out)
                tide_durable_put(out, window, bytes);
            else
                tide_machine_write(machine, rivals + at, window, bytes);
        }
    }
    return 0;
}

/* ---- starting */

static int take_memory(struct selfplay *p, struct tide_err *err)
{
    size_t at[MEMORY], sum = 0;
    for (int i = 0; i < MEMORY; i++) {
        at[i] = sum;
        sum += p->memory[i].bytes;
    }
    if (tide_pages_map(&p->pages, sum, 0, 0, err))
        return -1;
    tide_pages_touch(&p->pages, sum);
    char *start = p->pages.start, *records = start + at[REPLAY];
    size_t ring = tide_aligned((size_t)p->options.settings.replay * tide_replay_record_bytes(&p->game));
    p->replay = tide_replay_over(&p->game, p->options.settings.replay, records);
    p->games = tide_selfgames_place(&p->game, &p->rule, &p->room, start + at[TREES], records + ring,
                                    start + at[CACHE], start + at[GAMES]);
    return 0;
}

/* The beginning of replay.bin. */
struct head {
    char magic[16];
    int64_t played;
    double elo;
};
static const char magic[16] = "tidemark-play-1";

static int read_state(struct selfplay *p, FILE *file, struct tide_err *err)
{
    struct head head;
    if (fread(&head, sizeof head, 1, file) != 1 || memcmp(head.magic, magic, sizeof magic) != 0 ||
        head.played < 0 || head.played > TIDE_LARGEST || !isfinite(head.elo))
        return tide_err_set(err, "it does not begin like a saved replay");
    p->played = head.played;
    p->elo = head.elo;
    if (tide_replay_read(&p->replay, file, err) || tide_selfgames_read(p->games, file, err))
        return -1;
    if (walk_rival(p, file, NULL))
        return tide_err_set(err, "the weights of the last match are cut off");
    return fgetc(file) == EOF ? 0 : tide_err_set(err, "it is longer than what was saved");
}

static int resume(struct selfplay *p, const struct tide_trainer *trainer, struct tide_err *err)
{
    char path[TIDE_SETTING_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/replay.bin", trainer->resumed) >= (int)sizeof path)
        return tide_err_set(err, "the path of the replay is too long");
    struct stat about;
    int fd = tide_infile_open(path, &about);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file) {
        tide_err_set(err, "cannot open the replay: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int status = read_state(p, file, err) ? tide_err_wrap(err, "replay.bin") : 0;
    fclose(file);
    return status;
}

static int start(struct tide_task *task, struct tide_trainer *trainer, struct tide_err *err)
{
    struct selfplay *p = (struct selfplay *)task;
    struct tide_machine *machine = trainer->machine;
    p->graph = trainer->graph;
    p->player.game = p->rival.game = &p->game;
    p->player.machine = p->rival.machine = machine;
    if (take_memory(p, err) ||
        tide_boardnet_initial(p->graph, machine, (uint64_t)trainer->options.settings.seed, err))
        return -1;
    tide_gauge("trees", (int64_t)p->memory[TREES].bytes);
    tide_gauge("replay", (int64_t)p->memory[REPLAY].bytes);
    tide_gauge("cache", (int64_t)p->memory[CACHE].bytes);
    walk_rival(p, NULL, NULL);
    tide_netplayer_warm(&p->player);
    tide_netplayer_warm(&p->rival);
    return trainer->resumed[0] ? resume(p, trainer, err) : 0;
}

static void free_selfplay(struct tide_task *task)
{
    struct selfplay *p = (struct selfplay *)task;
    tide_pages_release(&p->pages);
    free(p);
}

/* ---- steps */

static int fail(struct tide_err *err)
{
    tide_err_set(err, "the net's value of a position is not a number");
    return tide_err_hint(err, "try a lower --lr, a longer --warmup, or --clip");
}

/* 1: it was told to hurry before there were enough positions. */
static int play(struct selfplay *p, int64_t number, bool (*hurries)(void), struct tide_task_step *ret_step,
                struct tide_err *err)
{
    struct tide_evaluator evaluator = tide_netplayer_evaluator(&p->player);
    struct tide_selfgames_counts c;
    int64_t before = p->replay.put, until = number * p->options.settings.positions, began = tide_clock_ns();
    tide_phase_begin("selfplay");
    int bad = tide_selfgames_play(p->games, &evaluator, &p->replay, until, hurries, &c);
    tide_phase_end("selfplay");
    if (bad)
        return fail(err);
    double seconds = (double)(tide_clock_ns() - began) / TIDE_NS_PER_S, ended = (double)c.games;
    p->played += c.games;
    ret_step->tokens = p->replay.put - before;
    p->numbers[PLAYED].value = (double)p->played;
    p->numbers[LENGTH].value = c.games ? (double)ret_step->tokens / ended : NAN;
    p->numbers[FIRST].value = c.games ? (double)c.first_wins / ended : NAN;
    p->numbers[DRAWN].value = c.games ? (double)c.draws / ended : NAN;
    p->numbers[POSITIONS].value = (double)tide_replay_count(&p->replay);
    p->numbers[SEARCHED].value = seconds > 0 ? (double)c.simulations / seconds : NAN;
    p->numbers[FOUND].value = c.asked ? (double)c.found / (double)c.asked : NAN;
    p->numbers[FULL].value = (double)c.full;
    p->numbers[HIGH].value = (double)c.trees_high_water;
    return p->replay.put < until;
}

struct drawing {
    const struct selfplay *p;
    uint64_t seed, draw;
    float *planes, *policy, *value;
};

static void draw_some(void *context, int64_t first, int64_t last)
{
    const struct drawing *d = context;
    const struct tide_game *game = &d->p->game;
    for (int64_t i = first; i < last; i++)
        tide_replay_draw(&d->p->replay, d->seed, d->draw, (uint64_t)i,
                         d->planes + (size_t)i * (size_t)game->cells * TIDE_PLANES,
                         d->policy + (size_t)i * (size_t)game->moves, &d->value[i]);
}

static float loss_of(const struct selfplay *p, const struct tide_machine *machine, int tensor)
{
    return *(const float *)tide_machine_result(machine, p->net.program, tensor);
}

static int learn(struct selfplay *p, struct tide_machine *machine, struct tide_update_rule *rule,
                 struct tide_task_step *ret_step, struct tide_err *err)
{
    int64_t number = rule->step.step;
    double policy = 0, value = 0;
    struct drawing d = {.p = p, .seed = rule->step.seed};
    for (int64_t i = 0; i < p->updates; i++) {
        rule->step.step = (number - 1) * p->updates + i + 1;
        d.draw = (uint64_t)rule->step.step;
        d.planes = tide_machine_input(machine, p->net.planes);
        d.policy = tide_machine_input(machine, p->net.policy);
        d.value = tide_machine_input(machine, p->net.value);
        tide_parallel(p->task.batch, 8, draw_some, &d);
        if (!isfinite(tide_machine_pass(machine, 0, rule)))
            return tide_trainer_stop_at(number, "loss", err);
        policy += (double)loss_of(p, machine, p->net.policy_loss);
        value += (double)loss_of(p, machine, p->net.value_loss);
        ret_step->norm = tide_machine_update(machine, rule);
    }
    rule->step.step = number;
    p->numbers[POLICY_LOSS].value = policy / (double)p->updates;
    p->numbers[VALUE_LOSS].value = value / (double)p->updates;
    ret_step->loss = (policy + value) / (double)p->updates;
    return 0;
}

static int step(struct tide_task *task, struct tide_trainer *trainer, struct tide_update_rule *rule,
                struct tide_task_step *ret_step, struct tide_err *err)
{
    struct selfplay *p = (struct selfplay *)task;
    int bad = play(p, rule->step.step, trainer->options.hurries, ret_step, err);
    if (bad)
        return bad < 0 ? tide_err_wrap(err, "step %lld", (long long)rule->step.step) : bad;
    tide_phase_begin("train");
    bad = learn(p, trainer->machine, rule, ret_step, err);
    tide_phase_end("train");
    p->numbers[LOSS].value = ret_step->loss;
    p->numbers[RATE].value = (double)rule->step.rate;
    p->numbers[NORM].value = ret_step->norm;
    return bad;
}

/* ---- between steps */

/* Plays against the weights of the last match. Elo adds up over matches; its interval is this match's. */
static int evaluate(struct tide_task *task, struct tide_trainer *trainer, bool last, struct tide_err *err)
{
    struct selfplay *p = (struct selfplay *)task;
    struct tide_evaluator own = tide_netplayer_evaluator(&p->player),
                          rival = tide_netplayer_evaluator(&p->rival);
    const struct tide_evaluator *const both[2] = {&own, &rival};
    struct tide_selfgames_score score;
    int64_t pairs = (p->options.settings.match_games + 1) / 2;
    uint64_t seed = tide_random_at(p->rule.seed, (uint64_t)trainer->done, 1);
    if (!pairs)
        return 0;
    int status = tide_selfgames_match(p->games, both, pairs, seed, trainer->options.hurries, &score);
    if (status)
        return status < 0 ? fail(err) : 0;
    struct tide_rating rating = tide_contest_rate(score.wins, score.draws, score.losses);
    p->numbers[ELO].value = p->elo + rating.elo;
    p->numbers[ELO_LOW].value = p->elo + rating.low;
    p->numbers[ELO_HIGH].value = p->elo + rating.high;
    if (last)
        return 0;
    p->elo += rating.elo;
    walk_rival(p, NULL, NULL);
    return 0;
}

/* The moves of the first current game. */
static int sample(struct tide_task *task, struct tide_trainer *trainer, char *out, size_t size,
                  struct tide_err *err)
{
    const struct selfplay *p = (const struct selfplay *)task;
    (void)trainer;
    (void)err;
    tide_selfgames_show(p->games, out, size);
    return 0;
}

/* ---- files and messages */

static void write_config(const struct selfplay *p, FILE *out)
{
    const struct tide_selfplay_settings *s = &p->options.settings;
    struct tide_json json;
    tide_json_init(&json, out, false);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "model_type", TIDE_BOARDNET_TYPE);
    tide_json_text(&json, "game", s->game);
    tide_json_integer(&json, "columns", p->game.columns);
    tide_json_integer(&json, "rows", p->game.rows);
    tide_json_bool(&json, "exact", p->game.exact);
    tide_json_text(&json, "net", s->net);
    tide_json_integer(&json, "blocks", p->config.blocks);
    tide_json_integer(&json, "channels", p->config.channels);
    tide_json_end(&json);
}

static bool write_file(void *task, const char *name, struct tide_durable *file)
{
    const struct selfplay *p = (const struct selfplay *)task;
    if (!strcmp(name, "config.json")) {
        if (file)
            write_config(p, file->out);
        return true;
    }
    if (strcmp(name, "replay.bin") != 0)
        return false;
    if (!file)
        return true;
    struct head head = {.played = p->played, .elo = p->elo};
    memcpy(head.magic, magic, sizeof magic);
    tide_durable_put(file, &head, sizeof head);
    tide_replay_write(&p->replay, file);
    tide_selfgames_write(p->games, file);
    walk_rival(p, NULL, file);
    return true;
}

static void describe(const struct tide_task *task, const struct tide_trainer *trainer, FILE *out)
{
    const struct selfplay *p = (const struct selfplay *)task;
    const struct tide_selfplay_settings *s = &p->options.settings;
    char parameters[TIDE_UNITS_TEXT];
    fprintf(out, "game     %s %dx%d, %d in a row%s\n", p->game.name, p->game.columns, p->game.rows,
            p->game.line, p->game.exact ? " exactly" : "");
    fprintf(out, "net      %s: %s parameters, %lld blocks of %lld channels; %s, %d thread%s\n", s->net,
            tide_count_text((double)trainer->graph->trained, parameters), (long long)p->config.blocks,
            (long long)p->config.channels,
            trainer->device->products(trainer->device, trainer->graph->compute),
            (int)trainer->options.threads, trainer->options.threads == 1 ? "" : "s");
    fprintf(out,
            "step     %lld new positions by %lld games at once with %lld simulations a move, then %lld "
            "updates of %lld positions out of the last %lld\n",
            (long long)s->positions, (long long)s->games, (long long)s->simulations, (long long)p->updates,
            (long long)s->batch, (long long)s->replay);
}

static const struct tide_task_kind kind = {
    .name = "selfplay",
    .schema = "tidemark.selfplay/1",
    .keeps_evaluations = true,
    .is_uneven = true,
    .rate = "positions_per_second",
    .rate_label = "pos/s",
    .settle = settle,
    .build = build,
    .suggest = suggest,
    .start = start,
    .step = step,
    .evaluate = evaluate,
    .sample = sample,
    .write = write_file,
    .describe = describe,
    .free = free_selfplay,
};

struct tide_task *tide_selfplay_new(const struct tide_selfplay_options *options)
{
    static const struct tide_task_number numbers[NUMBERS] = {
        [LOSS] = {"loss", "loss", false, NAN},
        [POLICY_LOSS] = {"policy_loss", "policy", false, NAN},
        [VALUE_LOSS] = {"value_loss", "value", false, NAN},
        [PLAYED] = {"games", "games", false, NAN},
        [LENGTH] = {"game_length", "length", false, NAN},
        [FIRST] = {"first_wins_share", "first wins", true, NAN},
        [DRAWN] = {"draws_share", "draws", true, NAN},
        [POSITIONS] = {"replay_positions", NULL, false, NAN},
        [SEARCHED] = {"simulations_per_second", "sims/s", false, NAN},
        [FOUND] = {"cache_hits_share", NULL, false, NAN},
        [FULL] = {"trees_full", NULL, false, NAN},
        [HIGH] = {"trees_high_bytes", NULL, false, NAN},
        [ELO] = {"elo", "Elo", false, NAN},
        [ELO_LOW] = {"elo_low", NULL, false, NAN},
        [ELO_HIGH] = {"elo_high", NULL, false, NAN},
        [RATE] = {"learning_rate", NULL, false, NAN},
        [NORM] = {"gradient_norm", NULL, false, NAN},
    };
    struct selfplay *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->options = *options;
    memcpy(p->numbers, numbers, sizeof numbers);
    p->task = (struct tide_task){
        .kind = &kind, .settings = &p->options.settings, .numbers = p->numbers, .number_count = NUMBERS};
    return &p->task;
}
