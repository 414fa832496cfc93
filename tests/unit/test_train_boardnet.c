/*
 * test_train_boardnet.c - nets over boards: their sizes, that they learn, that what changes memory or time
 * changes no bit, running statistics included, and that the net that plays is the one that learned.
 */
#include "lent.h"
#include "rt/cpu/cpu_device.h"
#include "sanitized.h"
#include "rt/cpu/threads.h"
#include "train/boardnet.h"
#include "train/checkpoint.h"
#include "train/lm.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

/* ---- sizes */

static struct tide_boardnet_config config_of(const char *net, const char *game, int board)
{
    struct tide_err err;
    struct tide_game of;
    struct tide_boardnet_config config;
    ok(tide_game_of(game, board, false, &of, &err), &err);
    ok(tide_boardnet_preset(net, &of, &config, &err), &err);
    return config;
}

static void presets_have_the_parameters_that_pytorch_counts(void **state)
{
    (void)state;
    static const struct {
        const char *net;
        int64_t parameters;
    } known[] = {{"10x96", 2768514}, {"14x128", 3081442}, {"18x192", 4046754}, {"30x192", 5037474}};
    for (int i = 0; i < 4; i++) {
        struct tide_err err;
        struct tide_boardnet net;
        struct tide_boardnet_config config = config_of(known[i].net, "gomoku", 15);
        struct tide_graph *graph = tide_graph_new(TIDE_F32);
        ok(tide_boardnet_build(graph, &config, 1, 1, &net, &err), &err);
        assert_int_equal(graph->parameters, known[i].parameters);
        assert_int_equal(graph->trained, known[i].parameters);
        tide_graph_free(graph);
    }
}

static void a_net_that_does_not_exist_gets_a_sentence(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "small",
                                        "10x97",
                                        "plain:",
                                        "plain:3",
                                        "plain:3x",
                                        "plain:0x32",
                                        "plain:3x0",
                                        "plain:3x-4",
                                        "plain:3x32 ",
                                        "plain:3x32x",
                                        "plain:101x32",
                                        "plain:3x1025",
                                        "plain:99999999999x32"};
    struct tide_game game;
    struct tide_boardnet_config config;
    struct tide_err err;
    ok(tide_game_of("tictactoe", 0, false, &game, &err), &err);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err.text[0] = '\0';
        assert_int_equal(tide_boardnet_preset(wrong[i], &game, &config, &err), -1);
        assert_non_null(strstr(err.text, "there is no net '"));
    }
    config = config_of("plain:5x64", "connect4", 0);
    assert_true(config.blocks == 5 && config.channels == 64 && !config.separable && config.moves == 7 &&
                config.columns == 7 && config.rows == 6);
}

/* ---- a net, and positions to learn */

enum { BATCH = 16 };

struct trained {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_boardnet_config config;
    struct tide_boardnet net;
    struct tide_boardnet_player player, rival;
    struct tide_plan plan;
    struct tide_machine *machine;
    struct tide_game game;
};

/* Whose best moves are the lowest two, and whose value depends on who moves. */
static void fill_inputs(struct trained *t)
{
    size_t board = (size_t)(t->game.cells * TIDE_PLANES);
    float *planes = tide_machine_input(t->machine, t->net.planes),
          *policy = tide_machine_input(t->machine, t->net.policy),
          *value = tide_machine_input(t->machine, t->net.value);
    memset(policy, 0, (size_t)(BATCH * t->game.moves) * sizeof *policy);
    for (int i = 0; i < BATCH; i++) {
        struct tide_position p;
        uint16_t moves[TIDE_BOARD_CELLS];
        tide_position_begin(&t->game, &p);
        for (int ply = 0; ply < i % 5; ply++) {
            int count = tide_position_moves(&t->game, &p, moves);
            tide_position_play(&t->game, &p, moves[(i * 5 + ply * 7) % count]);
        }
        tide_position_planes(&t->game, &p, 0, planes + (size_t)i * board);
        tide_position_moves(&t->game, &p, moves);
        policy[i * t->game.moves + moves[0]] = 0.75F;
        policy[i * t->game.moves + moves[1]] = 0.25F;
        value[i] = p.plies % 2 ? 0.5F : -0.5F;
    }
    memcpy(tide_machine_input(t->machine, t->player.planes), planes, BATCH * board * sizeof *planes);
    memcpy(tide_machine_input(t->machine, t->rival.planes), planes, BATCH * board * sizeof *planes);
}

static struct trained set_up_budgeted(const char *net, struct tide_choices choices, size_t budget)
{
    struct tide_err err;
    struct trained t = {.graph = tide_graph_new(TIDE_F32), .device = &tide_cpu_device};
    struct tide_plan least;
    ok(tide_game_of("tictactoe", 0, false, &t.game, &err), &err);
    ok(tide_boardnet_preset(net, &t.game, &t.config, &err), &err);
    t.config.blocks = t.config.separable ? 2 : t.config.blocks;
    ok(tide_boardnet_build(t.graph, &t.config, BATCH, 0.5F, &t.net, &err), &err);
    ok(tide_boardnet_build_player(t.graph, &t.config, "", BATCH, &t.player, &err), &err);
    ok(tide_boardnet_build_player(t.graph, &t.config, "rival.", BATCH, &t.rival, &err), &err);
    if (budget)
        ok(tide_plan_choose(t.graph, t.device, budget, 1, choices.clips, &t.plan, &least, &err), &err);
    else
        ok(tide_plan_make(t.graph, t.device, &choices, &t.plan, &err), &err);
    ok(tide_machine_new(t.graph, t.device, &t.plan, &t.machine, &err), &err);
    ok(tide_boardnet_initial(t.graph, t.machine, 7, &err), &err);
    fill_inputs(&t);
    return t;
}

static struct trained set_up(const char *net, struct tide_choices choices)
{
    return set_up_budgeted(net, choices, 0);
}

static void tear_down(struct trained *t)
{
    tide_machine_free(t->machine);
    tide_graph_free(t->graph);
}

static struct tide_update_rule rule_of(const struct trained *t, int number)
{
    return (struct tide_update_rule){
        .step =
            {.rate = 0.003F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-6F, .decay = 0.01F, .step = number},
        .clip = t->plan.choices.clips ? 1.0F : 0,
        .micro_batches = 1};
}

static double step(struct trained *t, int number)
{
    struct tide_update_rule rule = rule_of(t, number);
    double loss = tide_machine_pass(t->machine, 0, &rule);
    tide_machine_update(t->machine, &rule);
    return loss;
}

static void steps(struct trained *t, int first, int last)
{
    for (int i = first; i <= last; i++)
        step(t, i);
}

/* Parameters, what is measured, and both moments: to the bit. */
static void are_the_same(const struct trained *a, const struct trained *b)
{
    int measured = 0;
    for (int i = 0; i < a->graph->tensor_count; i++) {
        const struct tide_tensor *t = &a->graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        measured += t->measured;
        if (memcmp(lent(a->machine, i), lent(b->machine, i), t->bytes) != 0)
            fail_msg("'%s' is not the same", t->name);
        for (int part = 0; part < 2 && !t->frozen; part++)
            assert_memory_equal(lent_state(a->machine, i, part), lent_state(b->machine, i, part), t->bytes);
    }
    assert_true(measured > 10);
}

static const float *said(const struct trained *t, const struct tide_boardnet_player *player, int what)
{
    tide_machine_run(t->machine, player->program);
    return tide_machine_result(t->machine, player->program, what);
}

/* ---- tests */

static const char *const nets[] = {"tiny", "10x96"};

static void a_net_learns_positions_and_plays_what_it_learned(void **state)
{
    (void)state;
    for (int n = 0; n < (is_slow() ? 1 : 2); n++) {
        struct trained t = set_up(nets[n], (struct tide_choices){0});
        double first = step(&t, 1), last = 0;
        for (int i = 2; i <= 150; i++)
            last = step(&t, i);
        /* 2.2 = log 9 at first; 0.56 is the least that targets of 3/4 and 1/4 leave. */
        assert_true(first > 2 && last < 0.65);
        const float *logits = said(&t, &t.player, t.player.logits),
                    *policy = tide_machine_input(t.machine, t.net.policy);
        for (int i = 0; i < BATCH; i++)
            for (int j = 0; j < t.game.moves; j++)
                if (policy[i * t.game.moves + j] == 0.75F)
                    for (int k = 0; k < t.game.moves; k++)
                        assert_true(k == j || logits[i * t.game.moves + k] < logits[i * t.game.moves + j]);
        const float *values = said(&t, &t.player, t.player.values),
                    *value = tide_machine_input(t.machine, t.net.value);
        for (int i = 0; i < BATCH; i++)
            assert_true(fabsf(values[i] - value[i]) < 0.2F);
        tear_down(&t);
    }
}

static void memory_and_time_are_chosen_without_changing_a_bit(void **state)
{
    (void)state;
    static const struct tide_choices choices[] = {{.recompute = 1},
                                                  {.recompute = 3},
                                                  {.fused = true},
                                                  {.fused = true, .recompute = 2},
                                                  {.fused = true, .clips = true, .recompute = 3}};
    for (int n = 0; n < 2; n++)
        for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
            if (is_slow() && i % 2 != (size_t)n) /* each with one of the nets */
                continue;
            tide_threads_set(1);
            struct trained plain = set_up(nets[n], (struct tide_choices){.clips = choices[i].clips});
            steps(&plain, 1, 3);
            tide_threads_set(2);
            struct trained other = set_up(nets[n], choices[i]);
            steps(&other, 1, 3);
            are_the_same(&plain, &other);
            tear_down(&plain);
            tear_down(&other);
        }
}

/* The least that is possible. */
static void a_budget_changes_no_bit(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        struct tide_err err;
        struct tide_plan plan, least;
        struct trained plain = set_up(nets[n], (struct tide_choices){0});
        assert_int_equal(tide_plan_choose(plain.graph, plain.device, 1, 1, false, &plan, &least, &err), -1);
        struct trained poor = set_up_budgeted(nets[n], (struct tide_choices){0}, least.total);
        assert_true(poor.plan.total < plain.plan.total);
        steps(&plain, 1, 3);
        steps(&poor, 1, 3);
        are_the_same(&plain, &poor);
        tear_down(&plain);
        tear_down(&poor);
    }
}

/* Files that a checkpoint must have and that are not of this test. */
static bool write_file(void *context, const char *name, struct tide_durable *file)
{
    (void)context;
    bool is_there = !strcmp(name, "config.json") || !strcmp(name, "vocabulary.json");
    if (is_there && file)
        tide_durable_put(file, "{}", 2);
    return is_there;
}

static void a_run_that_is_resumed_goes_on_to_the_bit(void **state)
{
    (void)state;
    struct tide_train_settings how = {
        .schedule = "cosine", .dtype = "f32", .stored = "f32", .optimizer = "adamw"};
    struct tide_lm_settings own = {.batch = BATCH, .sequence = 1, .accumulate = 1};
    struct tide_checkpoint_state saved = {.task = "lm", .step = 3, .train = &how, .own = &own};
    for (int n = 0; n < 2; n++) {
        char dir[] = "/tmp/tide-boardnet-XXXXXX", path[PATH_MAX], command[PATH_MAX];
        struct tide_checkpoint_dir held = {.path = dir, .keep = 1, .fd = -1};
        struct tide_err err = {0};
        struct trained one = set_up(nets[n], (struct tide_choices){0}),
                       other = set_up(nets[n], (struct tide_choices){.fused = true});
        assert_non_null(mkdtemp(dir));
        steps(&one, 1, 3);
        ok(tide_checkpoint_save(&held, one.graph, one.machine, &saved, write_file, NULL, &err), &err);
        tide_checkpoint_leave(&held);
        steps(&one, 4, 6);
        ok(tide_checkpoint_find(dir, path, sizeof path, &err), &err);
        ok(tide_checkpoint_load(path, other.graph, other.machine, true, &err), &err);
        steps(&other, 4, 6);
        are_the_same(&one, &other);
        snprintf(command, sizeof command, "rm -r %s", dir);
        assert_int_equal(system(command), 0);
        tear_down(&one);
        tear_down(&other);
    }
}

/* A rival with the weights of the net says what it says, and goes on saying so while the net learns. */
static void a_rival_keeps_its_own_weights(void **state)
{
    (void)state;
    struct trained t = set_up("10x96", (struct tide_choices){0});
    size_t bytes = (size_t)(BATCH * t.game.moves) * sizeof(float);
    float *before = malloc(bytes);
    steps(&t, 1, 2);
    for (int i = 0; i < t.graph->tensor_count; i++)
        for (int k = 0; k < t.graph->tensor_count && t.graph->tensors[i].role == TIDE_BORROWED; k++)
            if (!strcmp(t.graph->tensors[i].name + strlen("rival."), t.graph->tensors[k].name))
                memcpy(lent(t.machine, i), lent(t.machine, k), t.graph->tensors[k].bytes);
    memcpy(before, said(&t, &t.player, t.player.logits), bytes);
    assert_memory_equal(said(&t, &t.rival, t.rival.logits), before, bytes);
    steps(&t, 3, 4);
    assert_memory_equal(said(&t, &t.rival, t.rival.logits), before, bytes);
    assert_memory_not_equal(said(&t, &t.player, t.player.logits), before, bytes);
    free(before);
    tear_down(&t);
}

static void a_net_that_plays_before_an_update_plays_otherwise_after_it(void **state)
{
    (void)state;
    struct trained one = set_up("tiny", (struct tide_choices){0}),
                   other = set_up("tiny", (struct tide_choices){0});
    struct tide_update_rule rule = rule_of(&other, 1);
    size_t bytes = (size_t)(BATCH * one.game.moves) * sizeof(float);
    float *before = malloc(bytes);
    step(&one, 1);
    tide_machine_pass(other.machine, 0, &rule);
    memcpy(before, said(&other, &other.player, other.player.logits), bytes);
    tide_machine_update(other.machine, &rule);
    const float *after = said(&other, &other.player, other.player.logits);
    assert_memory_not_equal(after, before, bytes);
    assert_memory_equal(after, said(&one, &one.player, one.player.logits), bytes);
    free(before);
    tear_down(&one);
    tear_down(&other);
}

/* A search may put any boards into a batch. */
static void what_a_board_gets_does_not_depend_on_the_others(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        struct trained t = set_up(nets[n], (struct tide_choices){0});
        size_t board = (size_t)(t.game.cells * TIDE_PLANES), moves = (size_t)t.game.moves;
        float before[TIDE_BOARD_CELLS], *planes = tide_machine_input(t.machine, t.player.planes);
        steps(&t, 1, 2);
        memcpy(before, said(&t, &t.player, t.player.logits) + 5 * moves, moves * sizeof *before);
        for (size_t i = 0; i < BATCH * board; i++)
            planes[i] = i / board == 5 ? planes[i] : 1 - planes[i];
        const float *after = said(&t, &t.player, t.player.logits);
        assert_memory_equal(after + 5 * moves, before, moves * sizeof *before);
        assert_memory_not_equal(after, before, moves * sizeof *before);
        tear_down(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_parameters_that_pytorch_counts),
        cmocka_unit_test(a_net_that_does_not_exist_gets_a_sentence),
        cmocka_unit_test(a_net_learns_positions_and_plays_what_it_learned),
        cmocka_unit_test(memory_and_time_are_chosen_without_changing_a_bit),
        cmocka_unit_test(a_budget_changes_no_bit),
        cmocka_unit_test(a_run_that_is_resumed_goes_on_to_the_bit),
        cmocka_unit_test(a_rival_keeps_its_own_weights),
        cmocka_unit_test(a_net_that_plays_before_an_update_plays_otherwise_after_it),
        cmocka_unit_test(what_a_board_gets_does_not_depend_on_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
