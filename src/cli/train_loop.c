#include "cli/train_loop.h"
#include "base/clock.h"
#include "base/resident.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/room.h"
#include "cli/train_report.h"
#include "rt/cpu/processor.h"
#include "rt/cpu/threads.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { REPORTS = 20, REPORT_S = 10, DRAW_MS = 200, PATIENCE_S = 5 };

/* The names in rt/optimizer.c. */
#define OPTIMIZERS     "adamw|adamw8|adafactor|sgd"
#define VALUE(field)   offsetof(struct tide_train_values, field)
#define TRAIN(field)   VALUE(train.field)
#define SETTING(field) VALUE(train.settings.field)
#define MOST_COUNT     (INT64_C(1) << 40)

const struct tide_option tide_train_shared[] = {
    {0, "steps", TIDE_OPTION_COUNT, SETTING(steps), "N", NULL, 1, MOST_COUNT,
     "number of steps in all (2000)"},
    {0, "lr", TIDE_OPTION_REAL, SETTING(rate), "RATE", NULL, 0, 0,
     "learning rate (selfplay 0.002; lm 0.128 and grpo 0.0128, divided by the channels)"},
    {0, "warmup", TIDE_OPTION_COUNT, SETTING(warmup), "N", NULL, 0, MOST_COUNT,
     "steps until the rate is reached (lm 100, grpo 0, selfplay 10)"},
    {0, "schedule", TIDE_OPTION_CHOICE, SETTING(schedule), "NAME", "inverse|constant|cosine|linear", 0, 0,
     "the rate after warmup (lm inverse, grpo constant, selfplay cosine): inverse falls as one over the step from step 500 on, down to a tenth; constant stays; cosine and linear reach a tenth at the last step"},
    {0, "weight-decay", TIDE_OPTION_REAL, SETTING(weight_decay), "X", NULL, 0, 0,
     "decoupled weight decay of matrices and embeddings (lm 0.1, grpo 0, selfplay 0.01)"},
    {0, "clip", TIDE_OPTION_REAL, SETTING(clip), "NORM", NULL, 0, 0,
     "clip the norm of the gradients to this (1; 0: do not clip)"},
    {0, "dtype", TIDE_OPTION_CHOICE, SETTING(dtype), "TYPE", "f32|bf16", 0, 0,
     "number type of matrix products and activations (f32)"},
    {0, "weights", TIDE_OPTION_CHOICE, SETTING(stored), "TYPE", "f32|bf16|int8", 0, 0,
     "how matrices are stored (f32); updates of bf16 are rounded at random, so that small ones are not lost; int8 needs --adapt"},
    {0, "optimizer", TIDE_OPTION_CHOICE, SETTING(optimizer), "NAME", OPTIMIZERS, 0, 0,
     "the optimizer (adamw), and the state it keeps of each weight: see docs/TRAIN.md"},
    {0, "budget", TIDE_OPTION_SIZE, TRAIN(budget_bytes), "SIZE", NULL, 1, 0,
     "memory that the run may use: the fastest exact layout that fits is chosen"},
    {0, "seed", TIDE_OPTION_COUNT, SETTING(seed), "N", NULL, 1, 0,
     "seed of the weights and of the order of the data (1)"},
    {0, "threads", TIDE_OPTION_COUNT, TRAIN(threads), "N", NULL, 1, TIDE_THREADS_MOST,
     "number of threads (as many as there are processors and work for them); the result is the same, bit for bit, with any number"},
    {0, "out", TIDE_OPTION_TEXT, TRAIN(out), "DIR", NULL, 0, 0, "save checkpoints in this directory"},
    {0, "resume", TIDE_OPTION_TEXT, TRAIN(resume), "DIR", NULL, 0, 0,
     "continue from a checkpoint, or from the newest of a run, with its options unless given; 'auto': the newest in --out, if there is one"},
    {0, "save-every", TIDE_OPTION_COUNT, VALUE(save_every), "N", NULL, 0, MOST_COUNT,
     "steps between checkpoints (1000, selfplay 50; 0: only at the end)"},
    {0, "keep", TIDE_OPTION_COUNT, TRAIN(keep), "N", NULL, 1, 1000, "checkpoints to keep (2)"},
    {0, "eval-every", TIDE_OPTION_COUNT, VALUE(eval_every), "N", NULL, 0, MOST_COUNT,
     "steps between evaluations, on held-out data or in a match (500, selfplay 50; 0: only at the end)"},
    {0, "sample-every", TIDE_OPTION_COUNT, VALUE(sample_every), "N", NULL, 0, MOST_COUNT,
     "steps between samples from the model (0: none)"},
    {0, "report-every", TIDE_OPTION_COUNT, VALUE(report_every), "N", NULL, 1, MOST_COUNT,
     "steps between report lines (a twentieth of all, and at least every ten seconds)"},
    {0, "dry-run", TIDE_OPTION_FLAG, TRAIN(plans_only), NULL, NULL, 0, 0,
     "print the layout and allocate nothing"},
    {0, "debug-memory", TIDE_OPTION_FLAG, VALUE(debug_memory), NULL, NULL, 0, 0,
     "at the end, print planned and used memory of each phase, and what holds it at the peak"},
    {0, "verbose", TIDE_OPTION_FLAG, VALUE(verbose), NULL, NULL, 0, 0,
     "say which features of the processor are used, and which are not and why"},
    {0, "json", TIDE_OPTION_FLAG, VALUE(json), NULL, NULL, 0, 0, "a JSON document per line"},
    {0},
};

/* ---- being told to stop */

static volatile sig_atomic_t stop_signal;
static volatile int64_t stop_ns; /* when the signal came */
static char stop_answer[160];    /* formatted beforehand: a signal handler may not call printf */
static void (*abandon)(void);    /* the task's; may be NULL */

static void on_stop(int number)
{
    if (stop_signal) {
        if (abandon)
            abandon();
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    stop_ns = tide_clock_ns();
    stop_signal = number;
    int before = errno;
    if (write(STDERR_FILENO, stop_answer, strlen(stop_answer)) < 0)
        errno = before;
}

/* True if the signal to stop is so old that the current step should be cut short. */
static bool hurries(void)
{
    return stop_signal && tide_clock_ns() - stop_ns > (int64_t)PATIENCE_S * TIDE_NS_PER_S;
}

/* Signals that we were started to ignore (nohup, a shell's background) stay ignored. */
static void listen_for_stop(const struct tide_task *task, bool bar, bool saves)
{
    abandon = task->kind->abandon;
    snprintf(stop_answer, sizeof stop_answer,
             "%stidemark: finishing the step%s; a second signal ends it at once\n", bar ? "\r\033[K" : "",
             saves ? " and saving it" : "");
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

/* ---- the loop */

struct loop {
    const struct tide_train_values *values;
    struct tide_trainer *trainer;
    struct tide_train_view view;
    struct tide_train_progress progress;
    int64_t begin_ns, first_step; /* first_step: steps done by earlier runs */
    int64_t line_ns, drawn_ns, report_every;
    int64_t busy_ns, tokens, steps; /* of the steps since the last line */
    double peak;                    /* of matrix products, operations per second */
    int threads;                    /* the fastest number of threads so far; 0: none yet */
    int64_t evaluated;              /* the last step after which it was evaluated */
    bool is_halfway;                /* stopped in the middle of a step */
    char sample[512];
};

static int64_t steps_of(const struct loop *l)
{
    return l->trainer->options.settings.steps;
}

static void note_speed(struct loop *l)
{
    struct tide_train_progress *p = &l->progress;
    double seconds = (double)l->busy_ns / TIDE_NS_PER_S;
    if (seconds > 0) {
        p->tokens_per_second = (double)l->tokens / seconds;
        p->steps_per_second = (double)l->steps / seconds;
    }
    double rate = 6.0 * (double)l->trainer->graph->parameters * p->tokens_per_second;
    l->peak = rate > l->peak ? rate : l->peak; /* the peak was measured too low, on a busy machine */
    p->peak_share = l->trainer->task->kind->is_all_work ? rate / l->peak : NAN;
    int64_t made = p->step - l->first_step;
    p->seconds = (double)(tide_clock_ns() - l->begin_ns) / TIDE_NS_PER_S;
    p->seconds_left = made > 0 ? p->seconds / (double)made * (double)(p->steps - p->step) : NAN;
    struct tide_resident now = tide_resident_now();
    p->rss_bytes = now.bytes;
    p->anonymous_bytes = now.anonymous_bytes;
    p->arena_high_bytes =
        (int64_t)(tide_machine_high_bytes(l->trainer->machine) + tide_task_beside(l->trainer->task));
}

static void report(struct loop *l)
{
    note_speed(l);
    tide_train_print(&l->view, &l->progress);
    l->progress.sample = NULL;
    l->line_ns = tide_clock_ns();
    l->busy_ns = l->tokens = l->steps = 0;
}

static bool is_due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

static int evaluate(struct loop *l, bool last, struct tide_err *err)
{
    if (!l->trainer->task->kind->evaluate)
        return 0;
    if (tide_trainer_evaluate(l->trainer, last, err))
        return -1;
    l->evaluated = l->trainer->done;
    l->view.resident.evaluation = tide_resident_now().bytes;
    return 0;
}

static int sample(struct loop *l, struct tide_err *err)
{
    if (tide_trainer_sample(l->trainer, l->sample, sizeof l->sample, err))
        return -1;
    l->progress.sample = l->sample;
    return 0;
}

/* Saves a checkpoint if there is an --out. A failure is reported; training goes on. */
static int save(struct loop *l)
{
    struct tide_err err = {0};
    if (!l->trainer->options.out)
        return 0;
    if (!tide_trainer_save(l->trainer, &err)) {
        l->view.resident.checkpoint = tide_resident_now().bytes;
        return 0;
    }
    tide_train_clear(&l->view);
    tide_err_wrap(&err, "cannot save step %lld", (long long)l->trainer->done);
    tide_report(&err);
    return -1;
}

static void say_threads(struct loop *l)
{
    int now = tide_trainer_threads(l->trainer);
    if (l->values->verbose && l->threads && now != l->threads) {
        tide_train_clear(&l->view);
        fprintf(stderr, "tidemark: step %lld: %d thread%s faster here than %d\n", (long long)l->progress.step,
                now, now == 1 ? " is" : "s are", l->threads);
    }
    l->threads = now;
}

static int one_step(struct loop *l, struct tide_err *err)
{
    struct tide_task_step made;
    int64_t begin = tide_clock_ns();
    int status = tide_trainer_step(l->trainer, &made, err);
    if (status)
        return status;
    l->busy_ns += tide_clock_ns() - begin;
    l->tokens += made.tokens;
    l->steps++;
    l->progress.step = l->trainer->done;
    say_threads(l);
    return 0;
}

static void look(struct loop *l, bool evaluated)
{
    int64_t step = l->progress.step, now = tide_clock_ns();
    bool first = step == l->first_step + 1;
    bool due = first || is_due(l->report_every, step) || now - l->line_ns > (int64_t)REPORT_S * TIDE_NS_PER_S;
    if (step == steps_of(l))
        return; /* finish() makes the last report */
    if (l->view.bar ? evaluated : due || evaluated)
        report(l);
    if (first) {
        struct tide_resident held = tide_resident_now();
        l->view.resident.step = held.bytes;
        l->view.first_anonymous_bytes = held.anonymous_bytes;
    }
    if (l->view.bar && now - l->drawn_ns > (int64_t)DRAW_MS * TIDE_NS_PER_MS) {
        note_speed(l);
        tide_train_draw(&l->view, &l->progress);
        l->drawn_ns = now;
    }
}

static int train(struct loop *l, struct tide_err *err)
{
    const struct tide_train_values *v = l->values;
    while (l->trainer->done < steps_of(l) && !stop_signal) {
        int status = one_step(l, err);
        l->is_halfway = status > 0;
        if (status)
            return status < 0 ? -1 : 0;
        int64_t step = l->progress.step;
        bool last = step == steps_of(l);
        bool evaluates = is_due(v->eval_every, step) && (!last || l->trainer->task->kind->keeps_evaluations);
        bool samples = !last && is_due(v->sample_every, step);
        if ((evaluates && evaluate(l, false, err)) || (samples && sample(l, err)))
            return -1;
        look(l, evaluates || samples);
        if (!last && is_due(v->save_every, step))
            save(l);
    }
    return 0;
}

/* ---- the end */

static int say_stopped(struct loop *l)
{
    const char *out = l->trainer->options.out, *name = stop_signal == SIGINT    ? "SIGINT"
                                                       : stop_signal == SIGTERM ? "SIGTERM"
                                                                                : "SIGHUP";
    int64_t step = l->trainer->done + l->is_halfway;
    const char *when = l->is_halfway ? "in" : "after";
    int unsaved = save(l);
    tide_train_clear(&l->view);
    if (!out)
        fprintf(stderr, "tidemark: %s: stopped %s step %lld; nothing was saved, because there is no --out\n",
                name, when, (long long)step);
    else if (unsaved)
        fprintf(stderr, "tidemark: %s: stopped %s step %lld\n", name, when, (long long)step);
    else
        fprintf(stderr,
                "tidemark: %s: stopped %s step %lld and saved it\nhint: continue with --resume auto\n", name,
                when, (long long)step);
    return unsaved ? TIDE_EXIT_TROUBLE : 128 + stop_signal;
}

/* Reports that a step or an evaluation failed; checkpoints on disk stay as they are. */
static int say_broken(struct loop *l, struct tide_err *err)
{
    const char *out = l->trainer->options.out;
    char path[4096];
    tide_train_clear(&l->view);
    tide_report(err);
    if (out && !tide_checkpoint_find(out, path, sizeof path, NULL))
        fprintf(stderr, "hint: the last good checkpoint is '%s'\n", TIDE_SHOWN(path, 256));
    return TIDE_EXIT_TROUBLE;
}

/* Saves first: the evaluation may take minutes, and an interruption must not cost the last steps. */
static int finish(struct loop *l, struct tide_err *err)
{
    int unsaved = save(l);
    bool evaluated = l->evaluated == l->trainer->done;
    if ((!evaluated && evaluate(l, true, err)) || (l->values->sample_every && sample(l, err)))
        return say_broken(l, err);
    l->progress.final = true;
    report(l);
    return unsaved ? TIDE_EXIT_TROUBLE : TIDE_EXIT_OK;
}

static int run_loop(const struct tide_train_values *v, struct tide_trainer *trainer, double peak,
                    struct tide_err *err)
{
    struct loop l = {.values = v, .trainer = trainer, .peak = peak, .begin_ns = tide_clock_ns()};
    l.first_step = trainer->done;
    l.line_ns = l.begin_ns;
    l.report_every = v->report_every ? v->report_every : (steps_of(&l) + REPORTS - 1) / REPORTS;
    l.progress = (struct tide_train_progress){.step = l.first_step,
                                              .steps = steps_of(&l),
                                              .task = trainer->task,
                                              .tokens_per_second = NAN,
                                              .steps_per_second = NAN,
                                              .peak_share = NAN,
                                              .plan_bytes = (int64_t)tide_trainer_planned(trainer)};
    tide_train_view_init(&l.view, v->json);
    listen_for_stop(trainer->task, l.view.bar, trainer->options.out);
    int status = train(&l, err);
    int code = status ? say_broken(&l, err) : stop_signal ? say_stopped(&l) : finish(&l, err);
    if (v->debug_memory)
        tide_train_print_memory(&l.view, trainer);
    return code;
}

/* A run that needs more than the system has would be killed. */
static int check_room(const struct tide_trainer *trainer, struct tide_err *err)
{
    size_t total = tide_trainer_planned(trainer);
    int64_t room = tide_room_bytes();
    if (room < 0 || total <= (size_t)room)
        return 0;
    tide_err_set(err, "the run needs %s (%zu bytes), and the system has %s", TIDE_MEMORY((double)total),
                 total, TIDE_MEMORY((double)room));
    if (trainer->least.total + tide_task_beside(trainer->task) <= (size_t)room)
        return tide_err_hint(err, "--budget %lldM fits", (long long)(room / 1000000));
    return tide_err_hint(err, "--dry-run shows what takes the memory; make that smaller");
}

static int start(const struct tide_train_values *v, struct tide_trainer *trainer, struct tide_err *err)
{
    if (check_room(trainer, err))
        return -1;
    /* Measured before the arena is allocated: the measurement's own memory is freed by then. */
    const struct tide_device *device = trainer->device;
    double peak = device->peak(device, trainer->graph->compute);
    malloc_trim(0); /* what reading a tokenizer took is free, but still resident beside the plan */
    return tide_trainer_start(trainer, err) ? -1 : run_loop(v, trainer, peak, err);
}

void tide_train_values_init(struct tide_train_values *values, tide_train_make *make)
{
    *values = (struct tide_train_values){
        .make = make,
        .train = {.threads = TIDE_NOT_GIVEN, .keep = 2, .hurries = hurries},
        .eval_every = 500,
        .save_every = 1000,
    };
    tide_settings_clear(tide_train_settings, &values->train.settings);
}

/* Makes the task that a command's arguments describe. */
static struct tide_task *make_task(struct tide_command_call *call, struct tide_err *err)
{
    struct tide_train_values *v = (void *)call->values;
    if (call->count > 0) {
        tide_err_set(err, "%s: unexpected '%s'", call->command->name, TIDE_SHOWN(call->operands[0], 96));
        tide_err_hint(err, "'tidemark %s -h' lists the options", call->command->name);
        return NULL;
    }
    struct tide_task *task = v->make(v, err);
    if (!task && !err->text[0])
        tide_err_set(err, "out of memory");
    return task;
}

int tide_train_open(int argc, char **argv, struct tide_trainer **ret_trainer, struct tide_err *err)
{
    struct tide_command_call call;
    int status = tide_command_read(&tide_command_train, argc, argv, &call, err);
    if (status)
        return status;
    if (call.command == &tide_command_train)
        return call.command->run(&call, err); /* no task was named */
    struct tide_task *task = make_task(&call, err);
    struct tide_train_values *values = (void *)call.values;
    values->train.plans_only = true;
    return task ? tide_trainer_new(task, &values->train, ret_trainer, err) : -1;
}

/* Shows why a run may be slow on this processor. */
static void print_processor(const struct tide_trainer *trainer)
{
    const struct tide_device *device = trainer->device;
    int there = tide_processors();
    fprintf(stderr, "tidemark: this processor has %s; matrix products use %s for f32 and %s for bf16\n",
            tide_isa_name(tide_isa()), device->products(device, TIDE_F32),
            device->products(device, TIDE_BF16));
    fprintf(stderr, "tidemark: %d processor%s may be used; %lld thread%s compute\n", there,
            there == 1 ? "" : "s", (long long)trainer->options.threads,
            trainer->options.threads == 1 ? "" : "s");
    if (tide_processor_broken())
        fprintf(stderr, "tidemark: the processor reports %s, but it does not work; it is not used\n",
                tide_isa_name(tide_processor_broken()));
}

int tide_train_main(struct tide_command_call *call, struct tide_err *err)
{
    int code = TIDE_EXIT_OK;
    signal(SIGXFSZ, SIG_IGN); /* exceeding a file size limit is reported like a full disk */
    const struct tide_train_values *v = (const void *)call->values;
    struct tide_task *task = make_task(call, err);
    struct tide_trainer *trainer;
    if (!task || tide_trainer_new(task, &v->train, &trainer, err))
        return -1;
    int64_t steps = trainer->options.settings.steps;
    bool is_over = !v->train.plans_only && trainer->done >= steps;
    if (trainer->passed_over[0])
        fprintf(stderr, "tidemark: %s\n", trainer->passed_over);
    if (v->verbose)
        print_processor(trainer);
    if (tide_train_print_layout(v->json, trainer, v->train.plans_only, err))
        code = -1;
    else if (!v->train.plans_only && !is_over)
        code = start(v, trainer, err);
    if (is_over)
        fprintf(
            stderr,
            "tidemark: all %lld steps are done; there is nothing to do\nhint: to continue, give a larger --steps\n",
            (long long)steps);
    tide_trainer_free(trainer);
    return code;
}
