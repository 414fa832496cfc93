/*
 * test_rt_plans.c - what is planned for every preset, from the least possible memory upward, is kept; and
 * layouts, of these and of lifetimes by chance, are right and not far from the best.
 */
#include "layout_check.h"
#include "lent.h"
#include "rt/cpu/cpu_device.h"
#include "sanitized.h"
#include "rt/machine.h"
#include "rt/occupied.h"
#include "rt/cpu/threads.h"
#include "train/config.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 1;

static int64_t below(int64_t limit)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)(seed >> 33) % limit;
}

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

/* ---- presets under budgets */

static const struct preset {
    const char *name;
    int64_t batch, sequence;
    size_t walk; /* budgets between the least possible and all there is use for */
    bool runs;   /* small enough to */
} presets[] = {
    {"tiny", 3, 33, 24, true},   {"small", 1, 64, 24, true}, {"medium", 4, 128, 10, false},
    {"large", 4, 128, 5, false}, {"gpt2", 8, 174, 3, false},
};

enum { PRESETS = sizeof presets / sizeof *presets };

struct model {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_gpt gpt;
};

/* blocks 0: as many as the preset has. */
static struct model new_model_of(const struct preset *preset, int64_t blocks, enum tide_dtype compute)
{
    struct tide_err err;
    struct tide_gpt_config config;
    struct model m = {.graph = tide_graph_new(compute)};
    assert_non_null(m.graph);
    ok(tide_config_preset(preset->name, &config, &err), &err);
    config.vocabulary = config.vocabulary ? config.vocabulary : 97;
    config.blocks = blocks ? blocks : config.blocks;
    ok(tide_gpt_build(m.graph, &config, preset->batch, preset->sequence, &m.gpt, &err), &err);
    m.device = &tide_cpu_device;
    return m;
}

static struct model new_model(const struct preset *preset, enum tide_dtype compute)
{
    return new_model_of(preset, 0, compute);
}

static void free_model(struct model *m)
{
    tide_graph_free(m->graph);
}

/* Where the bytes of the arena's last page begin that are not planned; ret_count: how many they are. */
static unsigned char *beyond(const struct model *m, struct tide_machine *machine,
                             const struct tide_plan *plan, size_t *ret_count)
{
    *ret_count = (4096 - plan->total % 4096) % 4096;
    return (unsigned char *)lent(machine, m->gpt.token_table) + plan->total;
}

static float evaluate(const struct model *m, struct tide_machine *machine)
{
    tide_machine_run(machine, m->gpt.evaluate);
    return *(const float *)tide_machine_result(machine, m->gpt.evaluate, m->gpt.loss);
}

/* Two steps and an evaluation. Every byte of the arena holds a NaN's before, and none beyond the plan
 * changes. */
static void run_plan(const struct model *m, const struct tide_plan *plan, bool clips)
{
    struct tide_err err;
    struct tide_machine *machine;
    size_t spare;
    ok(tide_machine_new(m->graph, m->device, plan, &machine, &err), &err);
    assert_int_equal(tide_machine_high_bytes(machine), plan->total);
    unsigned char *arena = lent(machine, m->gpt.token_table), *end = beyond(m, machine, plan, &spare);
    memset(arena + plan->bytes[TIDE_TRAINED] + plan->bytes[TIDE_OPTIMIZER], 0xff,
           plan->total - plan->bytes[TIDE_TRAINED] - plan->bytes[TIDE_OPTIMIZER] + spare);
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        for (int64_t k = 0; t->role == TIDE_PARAMETER && k < tide_tensor_count(t); k++)
            ((float *)lent(machine, i))[k] = (float)(below(1001) - 500) / 5000;
        for (int64_t k = 0; t->role == TIDE_INPUT && k < tide_tensor_count(t); k++)
            ((int32_t *)tide_machine_input(machine, i))[k] = (int32_t)below(97);
    }
    struct tide_update_rule rule = {.step = {.rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F},
                                    .clip = clips ? 0.5F : 0,
                                    .micro_batches = 1};
    float before = evaluate(m, machine);
    for (int step = 1; step <= 2; step++) {
        rule.step.step = step;
        assert_true(isfinite(tide_machine_pass(machine, 0, &rule)));
        tide_machine_update(machine, &rule);
    }
    float after = evaluate(m, machine);
    if (!(after < before))
        fail_msg("two steps lead from a loss of %g to %g", (double)before, (double)after);
    for (size_t i = 0; i < spare; i++)
        assert_int_equal(end[i], 0xff);
    tide_machine_free(machine);
}

/* What each plan that there is takes. */
struct costs {
    size_t totals[256];
    double works[256];
    int count;
};

static void count_costs(const struct model *m, bool clips, struct costs *ret)
{
    struct tide_err err;
    ret->count = 0;
    for (int again = 0; again <= m->graph->programs[m->gpt.train].block_count; again++)
        for (int i = 0; i < 2 * (TIDE_QUARTERS + 1); i++) {
            struct tide_choices choices = {again, i % 2, clips, i / 2};
            struct tide_plan plan;
            ok(tide_plan_make(m->graph, m->device, &choices, &plan, &err), &err);
            assert_in_range(ret->count, 0, 255);
            ret->totals[ret->count] = plan.total;
            ret->works[ret->count++] = plan.work;
        }
}

static void is_the_best(const struct tide_plan *plan, const struct tide_plan *least, size_t budget,
                        const struct costs *costs)
{
    double least_work = INFINITY;
    size_t least_total = SIZE_MAX;
    for (int i = 0; i < costs->count; i++) {
        least_work = costs->totals[i] <= budget ? fmin(least_work, costs->works[i]) : least_work;
        least_total = costs->totals[i] < least_total ? costs->totals[i] : least_total;
    }
    assert_true(plan->total <= budget);
    assert_true(plan->work == least_work);
    assert_int_equal(least->total, least_total);
}

static void walk_budgets(const struct preset *preset, enum tide_dtype compute, bool clips)
{
    struct tide_err err;
    struct model m = new_model(preset, compute);
    struct tide_plan all, least, plan, last = {0};
    ok(tide_plan_choose(m.graph, m.device, 0, 1, clips, &all, &least, &err), &err);
    assert_int_equal(tide_plan_choose(m.graph, m.device, least.total - 1, 1, clips, &plan, &least, &err), -1);
    assert_non_null(strstr(err.text, "least possible"));
    size_t budgets = is_slow() ? 3 : preset->walk;
    struct costs costs;
    if (preset->runs)
        count_costs(&m, clips, &costs);
    for (size_t i = 0; i <= budgets; i++) {
        size_t budget = least.total + (all.total - least.total) * i / budgets;
        ok(tide_plan_choose(m.graph, m.device, budget, 1, clips, &plan, &least, &err), &err);
        assert_true(plan.total <= budget);
        assert_int_equal(plan.total, plan.bytes[TIDE_TRAINED] + plan.bytes[TIDE_OPTIMIZER] +
                                         plan.bytes[TIDE_GRADIENTS] + plan.bytes[TIDE_INPUTS] +
                                         plan.bytes[TIDE_PASSES]);
        if (preset->runs)
            is_the_best(&plan, &least, budget, &costs);
        bool is_new = !last.total || plan.choices.recompute != last.choices.recompute ||
                      plan.choices.fused != last.choices.fused ||
                      plan.choices.recompute_logits != last.choices.recompute_logits;
        if (is_new && preset->runs)
            run_plan(&m, &plan, clips);
        last = plan;
    }
    assert_int_equal(last.total, all.total);
    free_model(&m);
}

static void every_preset_keeps_every_budget_to_the_byte(void **state)
{
    (void)state;
    int last = TIDE_BF16;
    tide_threads_set(1);
    for (int i = 0; i < PRESETS; i++)
        for (int compute = TIDE_F32; compute <= (presets[i].runs ? last : (int)TIDE_F32); compute++)
            for (int clips = presets[i].runs ? 0 : 1; clips < 2; clips++)
                if (!is_slow() || !presets[i].runs || clips == (compute == TIDE_F32))
                    walk_budgets(&presets[i], compute, clips);
}

static void computing_again_takes_less_memory(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model(&presets[PRESETS - 1], TIDE_F32);
    size_t before = SIZE_MAX, all = 0;
    for (int again = 0; again <= m.graph->programs[m.gpt.train].block_count; again++) {
        struct tide_choices choices = {.recompute = again};
        struct tide_plan plan;
        ok(tide_plan_make(m.graph, m.device, &choices, &plan, &err), &err);
        assert_true(plan.layouts[m.gpt.train].bytes < before ||
                    again == m.graph->programs[m.gpt.train].block_count); /* of the last nothing is saved */
        before = plan.layouts[m.gpt.train].bytes;
        all = again ? all : before;
    }
    assert_true(before < all / 4);
    free_model(&m);
}

/* ---- many blocks */

static void of_many_blocks_the_plan_with_least_work_is_found(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model_of(&presets[0], is_slow() ? 9 : 20, TIDE_BF16);
    struct tide_plan all, least, plan;
    struct costs costs;
    ok(tide_plan_choose(m.graph, m.device, 0, 1, true, &all, &least, &err), &err);
    count_costs(&m, true, &costs);
    for (size_t i = 1; i <= 2; i++) {
        size_t budget = least.total + (all.total - least.total) * i / 3;
        ok(tide_plan_choose(m.graph, m.device, budget, 1, true, &plan, &least, &err), &err);
        is_the_best(&plan, &least, budget, &costs);
    }
    free_model(&m);
}

static int asked;

static size_t counting_scratch(const struct tide_device *device, const struct tide_graph *graph,
                               const struct tide_node *node, enum tide_direction direction, int quarters)
{
    asked += node == graph->nodes;
    return tide_cpu_device.scratch(device, graph, node, direction, quarters);
}

/* Each schedule asks for the scratch of the first node equally often. To try all 256 blocks would be 2,570,
 * all 128 1,290, all 64 650. */
static void planning_many_blocks_takes_few_schedules(void **state)
{
    (void)state;
    int blocks = is_slow() ? 64 : is_long() ? 256 : 128;
    struct tide_err err;
    struct model m = new_model_of(&presets[0], blocks, TIDE_F32);
    struct tide_plan all, least, plan;
    struct tide_schedule schedule;
    struct tide_device counted = tide_cpu_device;
    counted.scratch = counting_scratch;
    m.device = &counted;
    ok(tide_plan_choose(m.graph, m.device, 0, 1, false, &all, &least, &err), &err);
    asked = 0;
    ok(tide_schedule(m.graph, m.gpt.train, m.device, &all.choices, &schedule, &err), &err);
    tide_schedule_release(&schedule);
    int once = asked;
    ok(tide_plan_choose(m.graph, m.device, (all.total + least.total) / 2, 1, false, &plan, &least, &err),
       &err);
    print_message("planning %d blocks takes %d schedules\n", blocks, asked / once - 1);
    assert_in_range(plan.choices.recompute, 1, blocks - 1);
    assert_in_range(asked / once - 1, 1, 512);
    free_model(&m);
}

static void the_layout_of_many_blocks_costs_little_for_each_value(void **state)
{
    (void)state;
    struct tide_err err;
    for (int which = 0; which < (is_slow() ? 1 : 4); which++) {
        struct model m = new_model_of(&presets[0], 1024, which & 1 ? TIDE_BF16 : TIDE_F32);
        struct tide_choices choices = {.recompute = which >> 1 ? 512 : 0};
        struct tide_schedule schedule;
        struct tide_layout layout;
        ok(tide_schedule(m.graph, m.gpt.train, m.device, &choices, &schedule, &err), &err);
        ok(tide_layout(&schedule, &layout, &err), &err);
        assert_true(layout.looks < 500 * (uint64_t)schedule.value_count);
        assert_true((double)layout.bytes < 1.001 * (double)layout.lower_bound);
        tide_schedule_release(&schedule);
        free_model(&m);
    }
}

/* ---- layouts */

/* How much more than the lower bound a layout of a preset may take. */
/* Of models of a megabyte a value or two that do not fit are more. */
static const double most_gap = 1.05;
enum { SMALL_GAP = 64 << 10 };

static void layouts_of_presets_are_near_the_lower_bound(void **state)
{
    (void)state;
    struct tide_err err;
    double worst = 1;
    for (int i = 0; i < PRESETS; i++)
        for (int compute = TIDE_F32; compute <= TIDE_BF16; compute++) {
            struct model m = new_model(&presets[i], compute);
            for (int again = 0; again <= m.graph->programs[m.gpt.train].block_count;
                 again += 1 + m.graph->programs[m.gpt.train].block_count / 4)
                for (int which = 0; which < 4; which++) {
                    struct tide_choices choices = {again, which & 1, which >> 1, 0};
                    struct tide_schedule schedule;
                    struct tide_layout layout;
                    ok(tide_schedule(m.graph, m.gpt.train, m.device, &choices, &schedule, &err), &err);
                    ok(tide_layout(&schedule, &layout, &err), &err);
                    ok(layout_check(&schedule, layout.bytes, &err), &err);
                    assert_true(layout.lower_bound <= layout.bytes);
                    double gap = (double)layout.bytes / (double)layout.lower_bound;
                    worst = gap > worst ? gap : worst;
                    if (gap > most_gap && layout.bytes - layout.lower_bound > SMALL_GAP)
                        fail_msg("%s: %g of the lower bound", presets[i].name, gap);
                    tide_schedule_release(&schedule);
                }
            free_model(&m);
        }
    print_message("the worst layout takes %.4f of its lower bound\n", worst);
}

enum { MOST_VALUES = 60, INSTRUCTIONS = 80, ROUNDS = 120 };

/* Overlap in time and in memory, written differently: each byte's owner at each instruction. */
static bool overlaps(const struct tide_schedule *s, size_t bytes)
{
    bool found = false;
    size_t units = bytes / TIDE_ALIGN;
    int *owner = malloc((units + 1) * sizeof *owner);
    assert_non_null(owner);
    for (int now = 0; now < s->count; now++) {
        memset(owner, 0xff, units * sizeof *owner);
        for (int v = 0; v < s->value_count; v++) {
            const struct tide_value *value = &s->values[v];
            if (value->first > now || value->last < now)
                continue;
            for (size_t u = value->offset / TIDE_ALIGN; u * TIDE_ALIGN < value->offset + value->bytes; u++) {
                found = found || u >= units || owner[u] >= 0;
                if (u < units)
                    owner[u] = v;
            }
        }
    }
    free(owner);
    return found;
}

static void layouts_of_lifetimes_by_chance_overlap_nowhere(void **state)
{
    (void)state;
    struct tide_err err;
    struct tide_value values[MOST_VALUES];
    double worst = 1, sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct tide_schedule s = {.count = INSTRUCTIONS, .values = values};
        s.value_count = 1 + (int)below(MOST_VALUES);
        for (int i = 0; i < s.value_count; i++) {
            int first = (int)below(INSTRUCTIONS);
            values[i] = (struct tide_value){.bytes = (size_t)(1 + below(round % 3 ? 5000 : 200)),
                                            .first = first,
                                            .last = first + (int)below(INSTRUCTIONS - first)};
        }
        struct tide_layout layout;
        ok(tide_layout(&s, &layout, &err), &err);
        ok(layout_check(&s, layout.bytes, &err), &err);
        assert_false(overlaps(&s, layout.bytes));
        double gap = (double)layout.bytes / (double)layout.lower_bound;
        worst = gap > worst ? gap : worst;
        sum += gap;
    }
    print_message("lifetimes by chance: %.4f of the lower bound on average, %.4f at worst\n", sum / ROUNDS,
                  worst);
    assert_true(sum / ROUNDS < 1.05);
}

/* Against the lowest place at which every instruction has every unit free. */
static void the_lowest_gap_is_found(void **state)
{
    (void)state;
    enum { UNITS = 400, TAKEN = 60 };
    static bool is_taken[INSTRUCTIONS][UNITS];
    struct tide_occupied *occupied = tide_occupied_new(INSTRUCTIONS);
    assert_non_null(occupied);
    for (int round = 0; round < ROUNDS; round++) {
        memset(is_taken, 0, sizeof is_taken);
        tide_occupied_clear(occupied);
        for (int i = 0; i < TAKEN; i++) {
            int first = (int)below(INSTRUCTIONS), last = first + (int)below(INSTRUCTIONS - first);
            size_t size = 1 + (size_t)below(6), lowest = 0;
            for (size_t free = 0; free < size; lowest++) {
                bool is_free = true;
                for (int now = first; now <= last; now++)
                    is_free = is_free && !is_taken[now][lowest];
                free = is_free ? free + 1 : 0;
            }
            lowest -= size;
            assert_int_equal(tide_occupied_lowest(occupied, first, last, size), lowest);
            size_t at = below(3) ? lowest : lowest + (size_t)below(5); /* leaves gaps; may overlap */
            assert_int_equal(tide_occupied_take(occupied, first, last, at, size), 0);
            for (int now = first; now <= last; now++)
                memset(is_taken[now] + at, true, size);
        }
    }
    tide_occupied_free(occupied);
}

/* The check itself, against the owner of each byte: a value is moved to anywhere. */
static void the_check_of_layouts_sees_every_overlap(void **state)
{
    (void)state;
    struct tide_err err;
    struct tide_value values[8];
    int bad = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct tide_schedule s = {.count = INSTRUCTIONS, .values = values, .value_count = 8};
        for (int i = 0; i < s.value_count; i++) {
            int first = (int)below(INSTRUCTIONS);
            values[i] = (struct tide_value){.bytes = (size_t)(1 + below(20)) * TIDE_ALIGN,
                                            .first = first,
                                            .last = first + (int)below(INSTRUCTIONS - first)};
        }
        struct tide_layout layout;
        ok(tide_layout(&s, &layout, &err), &err);
        values[below(8)].offset = (size_t)below((int64_t)(layout.bytes / TIDE_ALIGN)) * TIDE_ALIGN;
        bool expected = overlaps(&s, layout.bytes);
        assert_int_equal(layout_check(&s, layout.bytes, &err), expected ? -1 : 0);
        bad += expected;
    }
    assert_in_range(bad, ROUNDS / 10, ROUNDS - ROUNDS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_keeps_every_budget_to_the_byte),
        cmocka_unit_test(computing_again_takes_less_memory),
        cmocka_unit_test(of_many_blocks_the_plan_with_least_work_is_found),
        cmocka_unit_test(planning_many_blocks_takes_few_schedules),
        cmocka_unit_test(the_layout_of_many_blocks_costs_little_for_each_value),
        cmocka_unit_test(the_lowest_gap_is_found),
        cmocka_unit_test(layouts_of_presets_are_near_the_lower_bound),
        cmocka_unit_test(layouts_of_lifetimes_by_chance_overlap_nowhere),
        cmocka_unit_test(the_check_of_layouts_sees_every_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
