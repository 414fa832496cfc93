#include "cli/train_report.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 256, BAR = 24 };

void tide_train_view_init(struct tide_train_view *view, bool json)
{
    const char *term = getenv("TERM");
    *view = (struct tide_train_view){.json = json, .first_anonymous_bytes = -1, .resident = {-1, -1, -1}};
    view->bar = !json && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* ---- the layout */

static void print_chosen(FILE *out, const struct tide_trainer *t)
{
    const struct tide_plan *plan = &t->plan, *least = &t->least;
    char rows[96] = "";
    const struct tide_graph *graph = t->graph;
    const struct tide_program *program = &graph->programs[tide_graph_training(graph)];
    int blocks = program->block_count;
    const struct tide_node *loss = &graph->nodes[program->end - 1];
    if (loss->op == &tide_op_of_head)
        snprintf(rows, sizeof rows, ", loss in chunks of %lld rows", (long long)loss->numbers[0]);
    if (plan->choices.recompute_logits)
        tide_text_add(rows, sizeof rows, ", %d %% of its logits computed twice",
                      100 * plan->choices.recompute_logits / TIDE_QUARTERS);
    if (plan->choices.recompute)
        fprintf(out, "         chosen: recompute %d of %d blocks", plan->choices.recompute, blocks);
    else
        fprintf(out, "         chosen: keep all activations");
    fprintf(out, "%s%s   (least possible, exact: %s)\n",
            plan->choices.fused ? ", update fused with the backward pass" : "", rows,
            TIDE_MEMORY((double)(least->total + tide_task_beside(t->task))));
}

static void print_layout_text(FILE *out, const struct tide_trainer *t, const struct tide_breakdown *b)
{
    const struct tide_train_options *o = &t->options;
    const struct tide_task *task = t->task;
    char typed[TIDE_UNITS_TEXT];
    fprintf(out, "layout   weights %s  optimizer %s  gradients %s  activations %s  head %s  batch %s",
            TIDE_MEMORY((double)b->weights), TIDE_MEMORY((double)b->optimizer),
            TIDE_MEMORY((double)b->gradients), TIDE_MEMORY((double)b->activations),
            TIDE_MEMORY((double)b->head), TIDE_MEMORY((double)b->inputs));
    for (int i = 0; i < task->memory_count; i++)
        fprintf(out, "  %s %s", task->memory[i].name, TIDE_MEMORY((double)task->memory[i].bytes));
    fprintf(out, "   total %s", TIDE_MEMORY((double)tide_trainer_planned(t)));
    if (o->budget_bytes)
        fprintf(out, " of %s", tide_typed_size_text((double)o->budget_bytes, typed));
    fputc('\n', out);
    print_chosen(out, t);
}

static void print_layout_json(FILE *out, const struct tide_trainer *t, const struct tide_breakdown *b)
{
    const struct tide_plan *plan = &t->plan;
    const struct tide_train_options *o = &t->options;
    const struct tide_task *task = t->task;
    int training = tide_graph_training(t->graph);
    struct tide_json json;
    tide_json_document(&json, out, true, "tidemark.layout/1");
    tide_json_integer(&json, "parameters", t->graph->parameters);
    tide_json_integer(&json, "batch", task->batch);
    tide_json_integer(&json, "sequence", task->sequence);
    tide_json_integer(&json, "accumulate", task->passes);
    tide_json_integer(&json, "weights_bytes", (int64_t)b->weights);
    tide_json_integer(&json, "optimizer_bytes", (int64_t)b->optimizer);
    tide_json_integer(&json, "gradients_bytes", (int64_t)b->gradients);
    tide_json_integer(&json, "activations_bytes", (int64_t)b->activations);
    tide_json_integer(&json, "head_bytes", (int64_t)b->head);
    tide_json_integer(&json, "inputs_bytes", (int64_t)b->inputs);
    for (int i = 0; i < task->memory_count; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_bytes", task->memory[i].name);
        tide_json_integer(&json, key, (int64_t)task->memory[i].bytes);
    }
    tide_json_integer(&json, "plan_bytes", (int64_t)tide_trainer_planned(t));
    tide_json_integer(&json, "least_bytes", (int64_t)(t->least.total + tide_task_beside(task)));
    tide_json_whole(&json, "budget_bytes", o->budget_bytes ? (double)o->budget_bytes : NAN);
    tide_json_integer(&json, "passes_bytes", (int64_t)plan->bytes[TIDE_PASSES]);
    tide_json_integer(&json, "passes_lower_bound_bytes", (int64_t)plan->layouts[training].lower_bound);
    tide_json_integer(&json, "recomputed_blocks", plan->choices.recompute);
    tide_json_integer(&json, "blocks", t->graph->programs[training].block_count);
    tide_json_bool(&json, "fused_update", plan->choices.fused);
    tide_json_integer(&json, "recomputed_logits_percent",
                      100 * plan->choices.recompute_logits / TIDE_QUARTERS);
    tide_json_end(&json);
}

int tide_train_print_layout(bool json, const struct tide_trainer *t, bool only, struct tide_err *err)
{
    struct tide_breakdown b;
    if (tide_train_breakdown(t, &b, err))
        return -1;
    if (json && only) {
        print_layout_json(stdout, t, &b);
        return 0;
    }
    FILE *out = json ? stderr : stdout;
    t->task->kind->describe(t->task, t, out);
    print_layout_text(out, t, &b);
    if (t->resumed[0])
        fprintf(out, "resumed  after step %lld: %s\n", (long long)t->done, TIDE_SHOWN(t->resumed, 256));
    fflush(out);
    return 0;
}

/* ---- how it goes */

static void print_json(const struct tide_train_progress *p)
{
    struct tide_json json;
    tide_json_document(&json, stdout, true, p->task->kind->schema);
    tide_json_integer(&json, "step", p->step);
    tide_json_integer(&json, "steps", p->steps);
    for (int i = 0; i < p->task->number_count; i++)
        tide_json_real(&json, p->task->numbers[i].name, p->task->numbers[i].value);
    tide_json_real(&json, p->task->kind->rate, p->tokens_per_second);
    tide_json_real(&json, "steps_per_second", p->steps_per_second);
    tide_json_real(&json, "peak_share", p->peak_share);
    tide_json_integer(&json, "plan_bytes", p->plan_bytes);
    tide_json_integer(&json, "arena_high_bytes", p->arena_high_bytes);
    tide_json_integer(&json, "rss_bytes", p->rss_bytes);
    tide_json_integer(&json, "anonymous_bytes", p->anonymous_bytes);
    tide_json_real(&json, "seconds", p->seconds);
    if (p->sample)
        tide_json_text(&json, "sample", p->sample);
    tide_json_bool(&json, "final", p->final);
    tide_json_end(&json);
    fflush(stdout);
}

/* Adds memory, and whether it grew since the first step. */
static void add_memory(char line[static LINE], const struct tide_train_view *view,
                       const struct tide_train_progress *p)
{
    int64_t grown = view->first_anonymous_bytes < 0 ? 0 : p->anonymous_bytes - view->first_anonymous_bytes;
    tide_text_add(line, LINE, "  mem %s", TIDE_MEMORY((double)p->arena_high_bytes));
    if (grown > 0)
        tide_text_add(line, LINE, " (+%s outside the plan)", TIDE_MEMORY((double)grown));
    else
        tide_text_add(line, LINE, " flat");
}

static void add_number(char line[static LINE], const struct tide_task_number *n)
{
    enum { MANY = 1000 }; /* from here on written in full, with separators */
    if (n->is_share)
        tide_text_add(line, LINE, "  %s %.1f %%", n->label, 100 * n->value);
    else if (n->value >= MANY)
        tide_text_add(line, LINE, "  %s %s", n->label, TIDE_COUNT(n->value));
    else
        tide_text_add(line, LINE, "  %s %.4g", n->label, n->value);
}

static void write_line(char line[static LINE], const struct tide_train_view *view,
                       const struct tide_train_progress *p)
{
    line[0] = '\0';
    tide_text_add(line, LINE, "step %lld/%lld", (long long)p->step, (long long)p->steps);
    for (int i = 0; i < p->task->number_count; i++) {
        const struct tide_task_number *n = &p->task->numbers[i];
        if (n->label && !isnan(n->value))
            add_number(line, n);
    }
    tide_text_add(line, LINE, "  %s %s", TIDE_COUNT(p->tokens_per_second), p->task->kind->rate_label);
    if (!isnan(p->peak_share))
        tide_text_add(line, LINE, "  %.0f %% of peak", 100 * p->peak_share);
    add_memory(line, view, p);
    if (!p->final)
        tide_text_add(line, LINE, "  eta %s", TIDE_DURATION(p->seconds_left));
}

void tide_train_clear(struct tide_train_view *view)
{
    if (view->drawn)
        fputs("\r\033[K", stderr);
    view->drawn = false;
}

void tide_train_draw(struct tide_train_view *view, const struct tide_train_progress *p)
{
    char line[LINE];
    if (!view->bar)
        return;
    write_line(line, view, p);
    int columns = tide_terminal_size(STDERR_FILENO).ws_col;
    int done = (int)(BAR * p->step / (p->steps > 0 ? p->steps : 1));
    if ((int)strlen(line) + BAR + 5 < columns) {
        tide_text_add(line, LINE, "  [");
        for (int i = 0; i < BAR; i++)
            tide_text_add(line, LINE, "%c", i < done ? '=' : i == done ? '>' : ' ');
        tide_text_add(line, LINE, "]");
    }
    fprintf(stderr, "\r\033[K%.*s", columns > 1 ? columns - 1 : 0, line);
    fflush(stderr);
    view->drawn = true;
}

/* Prints the sample on one line, with spaces for newlines. */
static void print_sample(const char *sample)
{
    char line[2 * LINE];
    snprintf(line, sizeof line, "%s", sample);
    for (char *end = line; (end = strchr(end, '\n'));)
        *end = ' ';
    printf("         says '%s'\n", TIDE_SHOWN(line, 4 * LINE));
}

void tide_train_print(struct tide_train_view *view, const struct tide_train_progress *p)
{
    char line[LINE];
    if (view->json) {
        print_json(p);
        return;
    }
    write_line(line, view, p);
    tide_train_clear(view);
    puts(line);
    if (p->sample)
        print_sample(p->sample);
    fflush(stdout);
}

/* ---- what each phase took */

static void print_bytes(FILE *out, int64_t bytes)
{
    fprintf(out, "%16s", bytes > 0 ? TIDE_COUNT((double)bytes) : "-");
}

static void print_phase(FILE *out, const char *name, size_t planned, size_t used, int64_t resident)
{
    fprintf(out, "%-12s", name);
    print_bytes(out, (int64_t)planned);
    print_bytes(out, (int64_t)used);
    print_bytes(out, resident);
    fputc('\n', out);
}

static void print_phases(FILE *out, const struct tide_train_view *view, const struct tide_trainer *t,
                         const struct tide_breakdown *b)
{
    const struct tide_plan *plan = &t->plan;
    const struct tide_machine *machine = t->machine;
    size_t lasting = tide_plan_start(plan, TIDE_PASSES);
    fprintf(out, "%-12s%16s%16s%16s   bytes\n", "phase", "planned", "used", "resident");
    print_phase(out, "data", lasting, view->resident.step > 0 ? lasting : 0, view->resident.step);
    for (int i = 0; i < TIDE_PHASES; i++)
        print_phase(out, tide_train_phases[i], b->phases[i], tide_machine_used(machine, (enum tide_phase)i),
                    i == TIDE_PHASE_EVALUATION ? view->resident.evaluation : view->resident.step);
    print_phase(out, "checkpoint", lasting, view->resident.checkpoint > 0 ? lasting : 0,
                view->resident.checkpoint);
    print_phase(out, "arena", plan->total, tide_machine_high_bytes(machine), -1);
}

static void print_owner(FILE *out, const char *name, size_t bytes)
{
    if (!bytes)
        return;
    print_bytes(out, (int64_t)bytes);
    fprintf(out, "   %s\n", name);
}

static void print_owners(FILE *out, const struct tide_task *task, const struct tide_plan *plan, size_t alive,
                         const struct tide_breakdown *b)
{
    fputs("at the peak\n", out);
    print_owner(out, "weights", plan->bytes[TIDE_FROZEN] + plan->bytes[TIDE_TRAINED]);
    print_owner(out, "optimizer", plan->bytes[TIDE_OPTIMIZER]);
    print_owner(out, "gradients", plan->bytes[TIDE_GRADIENTS]);
    print_owner(out, "batch", plan->bytes[TIDE_INPUTS]);
    for (int i = 0; i < task->memory_count; i++)
        print_owner(out, task->memory[i].name, task->memory[i].bytes);
    for (int i = 0; i < b->owner_count; i++)
        print_owner(out, b->owners[i].name, b->owners[i].bytes);
    print_owner(out, "others", b->others);
    print_owner(out, "unused at the peak", plan->bytes[TIDE_PASSES] - alive);
}

void tide_train_print_memory(const struct tide_train_view *view, const struct tide_trainer *t)
{
    const struct tide_plan *plan = &t->plan;
    struct tide_breakdown b;
    FILE *out = view->json ? stderr : stdout;
    if (tide_train_breakdown(t, &b, NULL))
        return;
    print_phases(out, view, t, &b);
    print_owners(out, t->task, plan, plan->layouts[tide_graph_training(t->graph)].lower_bound, &b);
    fflush(out);
}
