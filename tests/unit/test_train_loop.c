/*
 * test_train_loop.c - the trainer: what a step may not do to weights, and what a plan's parts add up to.
 */
#include "lent.h"
#include "cli/train_breakdown.h"
#include "train/lm.h"
#include "train/trainer.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tide_train_options tiny(void)
{
    return (struct tide_train_options){.settings = {.steps = 10,
                                                    .seed = 1,
                                                    .warmup = 0,
                                                    .rate = 0.01,
                                                    .weight_decay = TIDE_NOT_GIVEN,
                                                    .clip = TIDE_NOT_GIVEN},
                                       .threads = 1,
                                       .keep = 1};
}

static int new_trainer(const struct tide_train_options *options, struct tide_trainer **ret,
                       struct tide_err *err)
{
    struct tide_lm_options lm = {.settings = {.batch = 2, .sequence = 16, .accumulate = 1},
                                 .model = {.preset = "tiny"}};
    struct tide_task *task = tide_lm_new(&lm);
    assert_non_null(task);
    return tide_trainer_new(task, options, ret, err);
}

static struct tide_trainer *started(const struct tide_train_options *options)
{
    struct tide_trainer *t;
    struct tide_err err = {0};
    if (new_trainer(options, &t, &err) || tide_trainer_start(t, &err))
        fail_msg("%s", err.text);
    return t;
}

/* All weights, one tensor after another; caller frees. */
static char *weights_of(struct tide_trainer *t, size_t *ret_bytes)
{
    const struct tide_graph *graph = t->graph;
    size_t used = 0;
    char *copy = malloc(t->plan.bytes[TIDE_TRAINED]);
    assert_non_null(copy);
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TIDE_PARAMETER) {
            memcpy(copy + used, lent(t->machine, i), graph->tensors[i].bytes);
            used += graph->tensors[i].bytes;
        }
    *ret_bytes = used;
    return copy;
}

static int first_parameter(const struct tide_graph *graph)
{
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TIDE_PARAMETER)
            return i;
    fail_msg("the model has no parameter");
    return -1;
}

/* One step with a weight that is not a number: every weight must be what it was. */
static void break_a_step(const struct tide_train_options *options, bool fused)
{
    struct tide_trainer *t = started(options);
    struct tide_task_step made;
    struct tide_err err = {0};
    size_t bytes;
    assert_int_equal(t->plan.choices.fused, fused);
    assert_int_equal(tide_trainer_step(t, &made, &err), 0);
    float *weight = lent(t->machine, first_parameter(t->graph));
    *weight = NAN;
    char *before = weights_of(t, &bytes);
    assert_int_equal(tide_trainer_step(t, &made, &err), -1);
    assert_non_null(strstr(err.text, "of step 2 is not a finite number"));
    assert_int_equal(t->done, 1);
    char *after = weights_of(t, &bytes);
    assert_memory_equal(before, after, bytes);
    free(before);
    free(after);
    tide_trainer_free(t);
}

static size_t least_of(const struct tide_train_options *options)
{
    struct tide_trainer *t;
    assert_int_equal(new_trainer(options, &t, NULL), 0);
    size_t least = t->least.total;
    tide_trainer_free(t);
    return least;
}

static void a_loss_that_is_no_number_leaves_the_weights_as_they_were(void **state)
{
    (void)state;
    struct tide_train_options options = tiny();
    break_a_step(&options, false);
    options.settings.clip = 0;
    break_a_step(&options, false);
    options.settings.clip = 1;
    options.budget_bytes = (int64_t)least_of(&options);
    break_a_step(&options, true);
    options.settings.clip = 0;
    options.budget_bytes = (int64_t)least_of(&options);
    break_a_step(&options, true);
}

static void weights_that_are_no_numbers_are_not_saved(void **state)
{
    (void)state;
    struct tide_train_options options = tiny();
    struct tide_err err = {0};
    char dir[] = "/tmp/tide-train-XXXXXX";
    assert_non_null(mkdtemp(dir));
    options.out = dir;
    struct tide_trainer *t = started(&options);
    *(float *)lent(t->machine, first_parameter(t->graph)) = INFINITY;
    assert_int_equal(tide_trainer_save(t, &err), -1);
    assert_non_null(strstr(err.text, "they are not saved"));
    tide_trainer_free(t);
    assert_int_equal(remove(dir), 0); /* which holds only for an empty one */
}

static void the_parts_of_every_plan_are_the_whole(void **state)
{
    (void)state;
    struct tide_train_options options = tiny();
    size_t least = least_of(&options);
    for (int i = 0; i < 3; i++) {
        struct tide_trainer *t;
        struct tide_breakdown b;
        struct tide_err err = {0};
        options.budget_bytes = i == 2 ? 0 : (int64_t)(least + (size_t)i * least / 8);
        assert_int_equal(new_trainer(&options, &t, &err), 0);
        const struct tide_plan *plan = &t->plan;
        assert_int_equal(tide_train_breakdown(t, &b, &err), 0);
        assert_int_equal(b.weights + b.optimizer + b.gradients + b.inputs + b.activations + b.head,
                         plan->total);
        size_t alive = b.others;
        for (int k = 0; k < b.owner_count; k++)
            alive += b.owners[k].bytes;
        assert_int_equal(alive, plan->layouts[tide_graph_training(t->graph)].lower_bound);
        tide_trainer_free(t);
    }
}

static void first_weights_have_the_deviation_of_gpt2(void **state)
{
    (void)state;
    struct tide_train_options options = tiny();
    struct tide_trainer *t = started(&options);
    const struct tide_graph *graph = t->graph;
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct tide_tensor *w = &graph->tensors[i];
        if (w->role != TIDE_PARAMETER || w->rank < 2)
            continue;
        double sum = 0, squares = 0, wanted = strstr(w->name, "c_proj") ? 0.01 : 0.02;
        int64_t count = tide_tensor_count(w);
        const float *x = lent(t->machine, i);
        for (int64_t k = 0; k < count; k++) {
            sum += (double)x[k];
            squares += (double)x[k] * (double)x[k];
        }
        double error = 5 / sqrt((double)count);
        assert_true(fabs(sum / (double)count) < wanted * error);
        assert_true(fabs(sqrt(squares / (double)count) / wanted - 1) < error);
    }
    tide_trainer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_that_is_no_number_leaves_the_weights_as_they_were),
        cmocka_unit_test(weights_that_are_no_numbers_are_not_saved),
        cmocka_unit_test(the_parts_of_every_plan_are_the_whole),
        cmocka_unit_test(first_weights_have_the_deviation_of_gpt2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
