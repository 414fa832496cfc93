/*
 * plan_table.h - tests/fixtures/plan_h200.tsv as jobs, and what was measured of each.
 */
#ifndef TIDE_PLAN_TABLE_H
#define TIDE_PLAN_TABLE_H

#include "base/check.h"
#include "plan/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_CELLS = 32, PLAN_ROWS = 384 };

struct plan_row {
    char name[40], use[16], mistake[24];
    struct tide_job job;
    int64_t k, allocated, device; /* k: graphs that were held, or logits kept */
};

static inline int64_t plan_number(const char *text)
{
    return strtoll(text, NULL, 10);
}

/* Splits at tabs, in place; empty cells count. */
static inline int plan_split(char *line, char *cells[PLAN_CELLS])
{
    int count = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *rest = line; rest && count < PLAN_CELLS;)
        cells[count++] = strsep(&rest, "\t");
    return count;
}

static inline void plan_fill(struct plan_row *row, char **c)
{
    struct tide_err err;
    struct tide_job *job = &row->job;
    snprintf(row->name, sizeof row->name, "%s", c[0]);
    snprintf(row->use, sizeof row->use, "%s", c[1]);
    snprintf(row->mistake, sizeof row->mistake, "%s", c[2]);
    tide_job_init(job);
    TIDE_CHECK(tide_model_find(c[3], &job->model, &err), ==, 0);
    if (*c[4])
        job->model.layers = plan_number(c[4]);
    job->task = (enum tide_job_task)tide_name_find(tide_task_names, c[5]);
    job->batch = plan_number(c[6]);
    job->sequence = plan_number(c[7]);
    job->accumulation = plan_number(c[8]);
    job->generate = plan_number(c[9]);
    job->dtype = (enum tide_precision)tide_name_find(tide_precision_names, c[10]);
    job->autocast = strcmp(c[11], "0") != 0; /* 1: to bf16, or fp16 */
    job->eager = !strcmp(c[12], "eager");
    job->checkpointing = plan_number(c[13]);
    job->optimizer = (enum tide_job_optimizer)tide_name_find(tide_optimizer_names, c[14]);
    job->keep_gradients = !plan_number(c[15]);
    job->reference = plan_number(c[16]);
    job->compiled = plan_number(c[17]);
    if (*c[19])
        job->model.embed_dropout = job->model.residual_dropout = job->model.attention_dropout =
            strtod(c[19], NULL);
    job->rank = plan_number(c[20]);
    job->padded = plan_number(c[21]);
    job->host = !strncmp(row->use, "host", 4);
    row->k = plan_number(c[22]);
    /* Data-parallel training was measured with one process: each of several needs as much. */
    job->degree = plan_number(c[18]) && plan_number(c[23]) == 1 ? 2 : plan_number(c[23]);
    job->sharding = (enum tide_sharding)tide_name_find(tide_sharding_names, c[24]);
    job->loss = (enum tide_loss)tide_name_find(tide_loss_names, c[26]);
    job->no_cache = !plan_number(c[27]);
    job->held = plan_number(c[28]);
    row->allocated = plan_number(c[29]);
    row->device = plan_number(c[31]);
}

/* The row's job with its mistake made, as it was when it was measured. */
static inline struct tide_job plan_mistaken(const struct plan_row *row)
{
    static const struct {
        const char *mistake, *name; /* name: of the row, where the mistake needs a number */
        struct tide_mistakes made;
        int64_t sequence, batch; /* 0: as meant */
        bool wide, eager, checkpoints_not, keeps, held;
    } table[] = {
        {.mistake = "padding", .name = "m-pad-1024", .sequence = 1024},
        {.mistake = "padding", .name = "m-s-pad-2048", .sequence = 2048},
        {.mistake = "batch", .name = "m-group-times-4", .batch = 32},
        {.mistake = "batch", .name = "m-accum-as-batch", .batch = 16},
        {.mistake = "dtype", .wide = true},
        {.mistake = "eager", .eager = true},
        {.mistake = "checkpointing", .checkpoints_not = true},
        {.mistake = "keeps", .keeps = true},
        {.mistake = "graphs", .made = {.graphs = -1}},
        {.mistake = "outputs", .made = {.logits_kept = -1}},
        {.mistake = "copies", .made = {.copies = 1}},
        {.mistake = "generation", .made = {.generate_grad = true}},
        {.mistake = "reference", .made = {.reference_grad = true}},
        {.mistake = "cache", .made = {.cache_kept = true}},
        {.mistake = "evaluation", .made = {.evaluate_grad = true}},
        {.mistake = "held", .held = true},
        {.mistake = "master", .made = {.master = true}},
        {.mistake = "unfrozen", .made = {.unfrozen = true}},
        {.mistake = "infer-grad", .made = {.infer_grad = true}},
        {.mistake = "prefill", .made = {.prefill_logits = true}},
        {.mistake = "logits", .made = {.upcast_logits = true}},
    };
    struct tide_job job = row->job;
    size_t i = 0;
    while (i < sizeof table / sizeof *table && (strcmp(table[i].mistake, row->mistake) != 0 ||
                                                (table[i].name && strcmp(table[i].name, row->name) != 0)))
        i++;
    TIDE_CHECK(i, <, sizeof table / sizeof *table);
    job.mistakes = table[i].made;
    job.mistakes.graphs = job.mistakes.graphs < 0 ? row->k : 0;
    job.mistakes.logits_kept = job.mistakes.logits_kept < 0 ? row->k : 0;
    job.sequence = table[i].sequence ? table[i].sequence : job.sequence;
    job.batch = table[i].batch ? table[i].batch : job.batch;
    job.dtype = table[i].wide ? TIDE_DTYPE_FP32 : job.dtype;
    job.eager |= table[i].eager;
    job.checkpointing &= !table[i].checkpoints_not;
    job.keep_gradients |= table[i].keeps;
    job.held |= table[i].held;
    return job;
}

/* Caller frees. */
static inline struct plan_row *plan_table(int *ret_count)
{
    FILE *in = fopen("tests/fixtures/plan_h200.tsv", "re");
    struct plan_row *rows = calloc(PLAN_ROWS, sizeof *rows);
    char line[1024], *cells[PLAN_CELLS];
    int count = 0;
    TIDE_CHECK_TRUE(in && rows);
    while (fgets(line, sizeof line, in)) {
        if (line[0] == '#' || !strncmp(line, "name\t", 5))
            continue;
        TIDE_CHECK(plan_split(line, cells), ==, PLAN_CELLS);
        TIDE_CHECK(count, <, PLAN_ROWS);
        plan_fill(&rows[count++], cells);
    }
    fclose(in);
    *ret_count = count;
    return rows;
}

#endif
