/*
 * checkpoint_fixture.h - a small model in two machines, and a directory that is gone afterwards.
 */
#ifndef CHECKPOINT_FIXTURE_H
#define CHECKPOINT_FIXTURE_H

#include "lent.h"
#include "rt/cpu/cpu_device.h"
#include "train/data.h"
#include "train/language.h"

#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct tide_gpt_config config = {.vocabulary = 13,
                                              .positions = 24,
                                              .channels = 12,
                                              .heads = 3,
                                              .blocks = 2,
                                              .hidden = 20,
                                              .epsilon = 1e-5F};

struct world {
    struct tide_graph *graph;
    struct tide_machine *machine, *other;
    struct tide_data *data;
    struct tide_language language;
    char dir[64];
};

static struct world w;

static inline void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

static inline struct tide_graph *new_graph(const struct tide_gpt_config *of)
{
    struct tide_gpt gpt;
    struct tide_err err;
    struct tide_graph *graph = tide_graph_new(TIDE_F32);
    assert_non_null(graph);
    ok(tide_gpt_build(graph, of, 2, 8, &gpt, &err), &err);
    return graph;
}

static inline struct tide_machine *new_machine(const struct tide_graph *graph)
{
    struct tide_err err;
    struct tide_plan plan;
    struct tide_machine *machine;
    ok(tide_plan_make(graph, &tide_cpu_device, &(struct tide_choices){0}, &plan, &err), &err);
    ok(tide_machine_new(graph, &tide_cpu_device, &plan, &machine, &err), &err);
    return machine;
}

static inline int set_up_all(void **state)
{
    (void)state;
    struct tide_err err;
    w.graph = new_graph(&config);
    w.machine = new_machine(w.graph);
    w.other = new_machine(w.graph);
    w.language.config = config;
    ok(tide_data_open(&(struct tide_data_source){.seed = 7, .sequence = 8}, &w.data, &err), &err);
    w.language.vocabulary = w.data->vocabulary;
    return 0;
}

static inline int tear_down_all(void **state)
{
    (void)state;
    tide_data_free(w.data);
    tide_machine_free(w.machine);
    tide_machine_free(w.other);
    tide_graph_free(w.graph);
    return 0;
}

static inline void remove_tree(const char *path)
{
    DIR *there = opendir(path);
    for (struct dirent *entry; there && (entry = readdir(there));) {
        char inner[PATH_MAX];
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && unlink(inner))
            remove_tree(inner);
    }
    if (there)
        closedir(there);
    rmdir(path);
}

static inline int set_up(void **state)
{
    (void)state;
    /* Where waiting for the disk costs nothing, for it is waited for a thousand times. */
    snprintf(w.dir, sizeof w.dir, "%s/tide-checkpoint-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    return mkdtemp(w.dir) ? 0 : -1;
}

static inline int tear_down(void **state)
{
    (void)state;
    remove_tree(w.dir);
    return 0;
}

static inline float number(int tensor, int part, int64_t k, int64_t seed)
{
    return (float)((k * 31 + tensor * 7 + part * 3 + seed * 13) % 1009) / 64.0F - 5.0F;
}

/* Weights and moments that are a function of `seed`. */
static inline void fill(struct tide_machine *machine, int64_t seed)
{
    for (int i = 0; i < w.graph->tensor_count; i++) {
        if (w.graph->tensors[i].role != TIDE_PARAMETER)
            continue;
        float *parts[3] = {lent(machine, i), lent_state(machine, i, 0), lent_state(machine, i, 1)};
        for (int part = 0; part < 3; part++)
            for (int64_t k = 0; k < tide_tensor_count(&w.graph->tensors[i]); k++)
                parts[part][k] = number(i, part, k, seed);
    }
}

static inline bool holds(struct tide_machine *machine, int64_t seed, int parts)
{
    for (int i = 0; i < w.graph->tensor_count; i++) {
        if (w.graph->tensors[i].role != TIDE_PARAMETER)
            continue;
        const float *all[3] = {lent(machine, i), lent_state(machine, i, 0), lent_state(machine, i, 1)};
        for (int part = 0; part < parts; part++)
            for (int64_t k = 0; k < tide_tensor_count(&w.graph->tensors[i]); k++)
                if (all[part][k] != number(i, part, k, seed))
                    return false;
    }
    return true;
}

static inline void is_the_model(const char *path)
{
    struct tide_err err;
    struct tide_gpt_config read;
    char base[TIDE_LANGUAGE_PATH];
    ok(tide_language_read(path, &read, base, &err), &err);
    assert_memory_equal(&read, &config, offsetof(struct tide_gpt_config, epsilon));
    assert_true(read.epsilon == config.epsilon);
    assert_string_equal(base, "");
}

static inline char *inside(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", w.dir, name);
    return path;
}

static inline void put(const char *name, const char *text)
{
    FILE *out = fopen(inside(name), "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
