#include "train/trainer.h"
#include "base/allocations.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/processor.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/tile_products.h"
#include "tidemark.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { USUAL_WARMUP = 100, USUAL_STEPS = 2000, HELD = 500, OWN_SETTINGS = 8192 };

/* ---- what run this is */

/* Locks the directory until the end, so that what is found in it stays as it is. */
static int lock_out(struct tide_trainer *t, struct tide_err *err)
{
    return t->options.out && !t->options.plans_only ? tide_checkpoint_enter(&t->out, err) : 0;
}

/* True if a checkpoint is in the directory of a run. */
static bool is_in(const char *checkpoint, const char *dir)
{
    char above[TIDE_SETTING_PATH_BYTES + 4];
    struct stat a, b;
    snprintf(above, sizeof above, "%s/..", checkpoint);
    return !stat(above, &a) && !stat(dir, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Finds where to resume from, if anywhere. Refuses to write into the directory of another run. */
static int find_resumed(struct tide_trainer *t, struct tide_err *err)
{
    const struct tide_train_options *o = &t->options;
    bool automatic = o->resume && !strcmp(o->resume, "auto");
    if (automatic && !o->out) {
        tide_err_set(err, "--resume auto needs the directory of the run");
        return tide_err_hint(err, "name it: --out DIR --resume auto");
    }
    int here = o->out ? tide_checkpoint_find(o->out, t->resumed, sizeof t->resumed, err) : 1;
    bool is_model = !here && !strcmp(t->resumed, o->out);
    int there =
        o->resume && !automatic ? tide_checkpoint_find(o->resume, t->resumed, sizeof t->resumed, err) : here;
    if (here < 0 || there < 0)
        return -1;
    if (is_model) {
        tide_err_set(err, "'%s' is a model or a checkpoint, not the directory of a run",
                     TIDE_SHOWN(o->out, 256));
        return tide_err_hint(err, "begin with it in another directory: --resume %s --out DIR",
                             TIDE_SHOWN(o->out, 256));
    }
    if (!here && (!o->resume || !is_in(t->resumed, o->out))) {
        tide_err_set(err, "'%s' already holds a run", TIDE_SHOWN(o->out, 256));
        return tide_err_hint(err, "continue it with --resume auto, or name another directory");
    }
    if (there > 0 && o->resume && !automatic)
        return tide_err_set(err, "there is no checkpoint in '%s'", TIDE_SHOWN(o->resume, 256));
    if (there > 0) {
        t->resumed[0] = '\0';
        return 0;
    }
    if (err && err->text[0])
        snprintf(t->passed_over, sizeof t->passed_over, "%s", err->text);
    return 0;
}

/* A run that begins with a model counts its steps from 1. In the directory of the model's run, its
 * checkpoints would not be the newest. */
static int begin_with_model(const struct tide_trainer *t, struct tide_err *err)
{
    if (!t->options.out || !is_in(t->resumed, t->options.out))
        return 0;
    tide_err_set(err, "'%s' holds a run of another kind", TIDE_SHOWN(t->options.out, 256));
    return tide_err_hint(err, "to begin with its model, name another directory: --resume %s --out DIR",
                         TIDE_SHOWN(t->options.out, 256));
}

/* Takes what was not given from the resumed run. */
static int take_resumed(struct tide_trainer *t, struct tide_err *err)
{
    struct tide_train_settings *settings = &t->options.settings, train;
    _Alignas(16) char own[OWN_SETTINGS];
    const struct tide_setting *table = tide_task_settings(t->task->kind->name);
    struct tide_checkpoint_state state = {.task = t->task->kind->name, .train = &train, .own = own};
    if (!t->resumed[0] || t->task->starts_anew)
        return 0;
    if (tide_checkpoint_read(t->resumed, &state, err))
        return -1;
    if (!state.is_of_task)
        return begin_with_model(t, err);
    train.stored = train.stored ? train.stored : "f32";
    train.optimizer = train.optimizer ? train.optimizer : tide_optimizers[0]->name;
    tide_settings_take(tide_train_settings, settings, &train);
    tide_settings_take(table, t->task->settings, own);
    t->done = state.step;
    if (!strcmp(settings->optimizer, train.optimizer))
        return 0;
    tide_err_set(err, "the run was trained with --optimizer %s, and %s cannot use its state", train.optimizer,
                 settings->optimizer);
    return tide_err_hint(err, "leave --optimizer out");
}

static int settle(struct tide_trainer *t, struct tide_err *err)
{
    struct tide_train_settings *s = &t->options.settings;
    s->dtype = s->dtype ? s->dtype : "f32";
    s->stored = s->stored ? s->stored : "f32";
    tide_setting_usual(&s->seed, 1);
    if (t->task->kind->settle(t->task, t->resumed[0] ? t->resumed : NULL, s, err) ||
        (t->resumed[0] && t->task->starts_anew && begin_with_model(t, err)))
        return -1;
    tide_setting_usual(&s->steps, USUAL_STEPS);
    tide_setting_usual(&s->warmup, USUAL_WARMUP);
    tide_setting_usual_real(&s->weight_decay, 0.1);
    tide_setting_usual_real(&s->clip, 1);
    s->schedule = s->schedule ? s->schedule : "inverse";
    s->optimizer = s->optimizer ? s->optimizer : tide_optimizers[0]->name;
    return 0;
}

/* ---- the plan */

static int make_graph(const struct tide_trainer *t, struct tide_graph **ret_graph, struct tide_err *err)
{
    const struct tide_train_settings *s = &t->options.settings;
    struct tide_graph *graph = tide_graph_new(tide_setting_dtype(s->dtype));
    if (!graph)
        return tide_err_set(err, "out of memory for the model");
    graph->optimizer = tide_optimizer_find(s->optimizer);
    graph->stored = tide_setting_dtype(s->stored);
    if (t->task->kind->build(t->task, graph, err)) {
        tide_graph_free(graph);
        return -1;
    }
    *ret_graph = graph;
    return 0;
}

/* Returns the part of the budget left for the arena; 0: there is no budget. */
static size_t room_for_arena(const struct tide_trainer *t)
{
    size_t budget = (size_t)t->options.budget_bytes, beside = tide_task_beside(t->task);
    return budget > beside ? budget - beside : budget ? 1 : 0;
}

/* True if the smallest plan fits the budget, with the task's current sizes. */
static bool would_fit(const struct tide_trainer *t)
{
    struct tide_graph *graph = NULL;
    struct tide_plan plan;
    struct tide_choices choices = t->least.choices;
    if (make_graph(t, &graph, NULL))
        return false;
    choices.fused = choices.fused && t->task->passes == 1;
    bool fits = !tide_plan_make(graph, t->device, &choices, &plan, NULL) && plan.total <= room_for_arena(t);
    tide_graph_free(graph);
    return fits;
}

int64_t tide_trainer_most_that_fits(const struct tide_trainer *t, int64_t *size)
{
    int64_t fits = 0, too_much = *size;
    while (too_much - fits > 1) {
        *size = fits + (too_much - fits) / 2;
        if (would_fit(t))
            fits = *size;
        else
            too_much = *size;
    }
    return fits;
}

/* least: the bytes of the smallest plan, of all sizes that were tried. */
static int refuse_budget(const struct tide_trainer *t, size_t least, struct tide_err *err)
{
    char budget[TIDE_UNITS_TEXT], possible[TIDE_UNITS_TEXT], model[TIDE_UNITS_TEXT];
    tide_err_set(err, "nothing exact fits into %s: the least possible is %s (%zu bytes)",
                 tide_typed_size_text((double)t->options.budget_bytes, budget),
                 tide_memory_text((double)least, possible), least);
    if (t->task->kind->suggest(t->task, t, err))
        return -1;
    return tide_err_hint(
        err, "weights and optimizer alone take %s: use a smaller model, or more memory",
        tide_memory_text((double)(t->least.bytes[TIDE_TRAINED] + t->least.bytes[TIDE_OPTIMIZER]), model));
}

/* Sets the given number, or as many as the largest operator is worth: more would wait for each other. */
static void settle_threads(struct tide_trainer *t)
{
    struct tide_train_options *o = &t->options;
    double most = 0;
    for (int i = 0; i < t->graph->programs[tide_graph_training(t->graph)].end; i++)
        most = fmax(most, tide_node_work(t->graph, &t->graph->nodes[i]));
    tide_threads_set(o->threads > 0 ? (int)o->threads : tide_processors());
    if (o->threads <= 0)
        tide_threads_set(tide_tiles_threads(most));
    tide_tuning_init(&t->tuning, o->threads > 0 || t->task->kind->is_uneven ? 1 : tide_threads());
    o->threads = tide_threads();
}

/* 1: nothing fits the budget. *least is reduced to what would be needed. */
static int choose_plan(struct tide_trainer *t, size_t *least, struct tide_err *err)
{
    if (!tide_plan_choose(t->graph, t->device, room_for_arena(t), t->task->passes,
                          t->options.settings.clip > 0, &t->plan, &t->least, err))
        return 0;
    size_t needed = t->least.total + tide_task_beside(t->task);
    *least = needed < *least ? needed : *least;
    return t->least.total > room_for_arena(t) ? 1 : -1;
}

static int make_plan(struct tide_trainer *t, struct tide_err *err)
{
    const struct tide_task_kind *kind = t->task->kind;
    size_t least = SIZE_MAX;
    if (make_graph(t, &t->graph, err))
        return -1;
    settle_threads(t);
    int status = choose_plan(t, &least, err);
    if (status > 0 && kind->fit && kind->fit(t->task, t)) {
        tide_graph_free(t->graph);
        t->graph = NULL;
        status = make_graph(t, &t->graph, err) ? -1 : choose_plan(t, &least, err);
    }
    return status > 0 ? refuse_budget(t, least, err) : status;
}

int tide_trainer_new(struct tide_task *task, const struct tide_train_options *options,
                     struct tide_trainer **ret_trainer, struct tide_err *err)
{
    struct tide_trainer *t = calloc(1, sizeof *t);
    if (!t) {
        task->kind->free(task);
        return tide_err_set(err, "out of memory");
    }
    t->task = task;
    t->device = &tide_cpu_device;
    t->options = *options;
    t->out = (struct tide_checkpoint_dir){.path = options->out, .keep = options->keep, .fd = -1};
    if (lock_out(t, err) || find_resumed(t, err) || take_resumed(t, err) || settle(t, err) ||
        make_plan(t, err)) {
        tide_trainer_free(t);
        return -1;
    }
    *ret_trainer = t;
    return 0;
}

int tide_trainer_start(struct tide_trainer *t, struct tide_err *err)
{
    if (t->options.out && tide_checkpoint_prepare(&t->out, err))
        return -1;
    if (tide_machine_new(t->graph, t->device, &t->plan, &t->machine, err))
        return -1;
    tide_gauge("arena", (int64_t)t->plan.total);
    if (t->task->kind->start(t->task, t, err))
        return -1;
    if (!t->resumed[0] || t->task->starts_anew)
        return 0;
    return tide_checkpoint_load(t->resumed, t->graph, t->machine, t->done > 0, err);
}

void tide_trainer_free(struct tide_trainer *t)
{
    if (!t)
        return;
    t->task->kind->free(t->task);
    tide_machine_free(t->machine);
    tide_graph_free(t->graph);
    tide_checkpoint_leave(&t->out);
    free(t);
}

/* ---- steps */

/* The learning rate of step n, from 1. Schedules that decay end at a tenth. */
static double rate_at(const struct tide_train_settings *o, int64_t step)
{
    if (step <= o->warmup)
        return o->rate * (double)step / (double)o->warmup;
    double rest = (double)(o->steps - o->warmup);
    double gone = rest > 0 ? (double)(step - o->warmup) / rest : 1;
    gone = gone > 1 ? 1 : gone;
    if (!strcmp(o->schedule, "cosine"))
        return o->rate * (0.1 + 0.9 * 0.5 * (1 + cos(3.14159265358979323846 * gone)));
    if (!strcmp(o->schedule, "linear"))
        return o->rate * (1 - 0.9 * gone);
    if (!strcmp(o->schedule, "inverse") && step > HELD)
        return o->rate * fmax((double)HELD / (double)step, 0.1);
    return o->rate;
}

int tide_trainer_stop_at(int64_t step, const char *what, struct tide_err *err)
{
    tide_err_set(err, "the %s of step %lld is not a finite number", what, (long long)step);
    return tide_err_hint(err, step > 1 ? "try a lower --lr, a longer --warmup, or --clip"
                                       : "nothing was learned yet: the weights that were loaded are damaged");
}

int tide_trainer_step(struct tide_trainer *t, struct tide_task_step *ret_step, struct tide_err *err)
{
    const struct tide_train_settings *s = &t->options.settings;
    int64_t step = t->done + 1;
    struct tide_update_rule rule = {
        .step = {.rate = (float)rate_at(s, step),
                 .beta1 = 0.9F,
                 .beta2 = 0.95F,
                 .epsilon = 1e-8F,
                 .decay = (float)s->weight_decay,
                 .step = step,
                 .seed = (uint64_t)s->seed},
        .clip = (float)s->clip,
        .micro_batches = t->task->passes,
    };
    struct tide_task_step made = {.norm = NAN};
    tide_step(step);
    int64_t allocations = tide_allocations(), start = tide_clock_ns();
    int status = t->task->kind->step(t->task, t, &rule, &made, err);
    if (status)
        return status;
    if (t->tuning.most > 1)
        tide_threads_use(tide_tuning_step(&t->tuning, tide_clock_ns() - start));
    if (t->is_warm)
        TIDE_CHECK(tide_allocations(), ==, allocations);
    t->is_warm = true;
    if (s->clip > 0 && !isfinite(made.norm))
        return tide_trainer_stop_at(step, "norm of the gradients", err);
    t->done = step;
    *ret_step = made;
    return 0;
}

/* Ends a phase between steps; nothing is allocated in it either. */
static void end_phase(const struct tide_trainer *t, const char *name, int64_t allocations)
{
    if (t->is_warm)
        TIDE_CHECK(tide_allocations(), ==, allocations);
    tide_phase_end(name);
}

int tide_trainer_evaluate(struct tide_trainer *t, bool last, struct tide_err *err)
{
    tide_phase_begin("evaluation");
    int64_t allocations = tide_allocations();
    int status = t->task->kind->evaluate(t->task, t, last, err);
    end_phase(t, "evaluation", allocations);
    return status;
}

int tide_trainer_sample(struct tide_trainer *t, char *out, size_t size, struct tide_err *err)
{
    tide_phase_begin("sampling");
    int64_t allocations = tide_allocations();
    int status = t->task->kind->sample(t->task, t, out, size, err);
    end_phase(t, "sampling", allocations);
    return status;
}

/* ---- saving */

static bool weights_are_numbers(struct tide_trainer *t)
{
    for (int i = 0; i < t->graph->tensor_count; i++)
        if (tide_tensor_trains(&t->graph->tensors[i]) && !isfinite(tide_machine_squares(t->machine, i)))
            return false;
    return true;
}

int tide_trainer_save(struct tide_trainer *t, struct tide_err *err)
{
    struct tide_checkpoint_state state = {.task = t->task->kind->name,
                                          .step = t->done,
                                          .train = &t->options.settings,
                                          .own = t->task->settings};
    TIDE_CHECK_TRUE(t->options.out);
    if (!weights_are_numbers(t))
        return tide_err_set(err, "the weights after step %lld are not finite numbers; they are not saved",
                            (long long)t->done);
    tide_phase_begin("checkpoint");
    int status =
        tide_checkpoint_save(&t->out, t->graph, t->machine, &state, t->task->kind->write, t->task, err);
    tide_phase_end("checkpoint");
    return status;
}

/* ---- looking */

size_t tide_trainer_planned(const struct tide_trainer *t)
{
    return t->plan.total + tide_task_beside(t->task);
}

int tide_trainer_threads(const struct tide_trainer *t)
{
    return t->tuning.most > 1 ? t->tuning.now : (int)t->options.threads;
}
