/*
 * test_assess.c - whole recordings, written here with a known truth, and what is said about them.
 */
#include "made_recording.h"
#include "show/text/verdict_text.h"

static void a_leak_behind_a_wrapper_is_found_in_the_child(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t uv = add_process(&m, 141489, 0, "uv", "uv"),
            python = add_process(&m, 141495, uv, "python", "train.py");
    int64_t workers[20];
    for (int i = 0; i < 20; i++)
        workers[i] = add_process(&m, 141500 + i, python, "python", "compile_worker");
    limit(&m, "cgroup /job memory.max", 24 * GIB);
    limit(&m, "host memory", 60 * GIB);
    for (int64_t step = 0; step < 600; step++) {
        bool validating = step % 100 >= 95;
        int64_t leaked = step * 208 * 1024, spike = validating ? 2 * GIB : 0;
        if (step % 100 == 95)
            mark(&m, python, TIDE_MARK_PHASE_BEGIN, 0, "validation");
        if (step % 100 == 0 && step)
            mark(&m, python, TIDE_MARK_PHASE_END, 0, "validation");
        mark(&m, python, TIDE_MARK_STEP, step, "");
        look(&m, 22, 2 * GIB + leaked + spike);
        sample(&m, uv, 20 * MIB);
        sample(&m, python, GIB + leaked + spike);
        for (int i = 0; i < 20; i++)
            sample(&m, workers[i], 400 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    const struct tide_judged *worst = &a->judged[0];
    assert_int_equal(worst->verdict.kind, TIDE_LEAK);
    assert_int_equal(worst->process, python);
    assert_string_equal(worst->name, "train.py[141495] (child of uv[141489])");
    assert_true(fabs(worst->verdict.slope / (208 * 1024) - 1) < 0.02);
    assert_true(a->limit_bytes == (double)(24 * GIB));
    assert_string_equal(a->limit_name, "cgroup /job memory.max");
    /* (24 - 2 - 2 of the spike) GiB of room at the start, 208 KiB a step */
    assert_true(fabs(worst->verdict.limit_x / (20.0 * GIB / (208 * 1024)) - 1) < 0.03);
    assert_non_null(strstr(text, "tidemark: LEAK in train.py[141495] (child of uv[141489])\n"));
    assert_non_null(strstr(text, "6 of about +2.0 GiB, all in phase \"validation\""));
    assert_non_null(strstr(text, "20 x compile_worker and 1 more steady, 7.9 GiB RSS"));
    assert_int_equal(tide_assessment_exit_code(a), 1);
    tide_assessment_free(a);
}

static void a_rise_by_the_number_of_processes_is_the_trees(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t ids[100], parent = add_process(&m, 10, 0, "python", "train.py");
    for (int64_t step = 0; step < 400; step++) {
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        int64_t alive = step / 8;
        if (step % 8 == 0)
            ids[alive] = add_process(&m, 100 + alive, parent, "python", "worker");
        look(&m, alive + 2, 500 * MIB + (alive + 1) * 50 * MIB);
        sample(&m, parent, 500 * MIB);
        for (int64_t i = 0; i <= alive; i++)
            sample(&m, ids[i], 50 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_true(a->judged[0].subject == TIDE_SUBJECT_ROLE || a->judged[0].subject == TIDE_SUBJECT_TREE);
    assert_true(fabs(a->judged[0].verdict.slope / (50.0 * MIB / 8) - 1) < 0.1);
    tide_assessment_free(a);
}

static void a_flat_gauge_beside_a_rising_process_is_evidence(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t step = 0; step < 400; step++) {
        mark(&m, id, TIDE_MARK_STEP, step, "");
        mark(&m, id, TIDE_MARK_GAUGE, 300 * MIB + step % 3 * 4096, "live");
        look(&m, 1, 400 * MIB + step * MIB);
        sample(&m, id, 400 * MIB + step * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_non_null(strstr(a->evidence, "gauge \"live\" is flat"));
    tide_assessment_free(a);
}

/* 400 looks at a process that is level, beside shared memory of 50 MiB that grows by so much per look. */
static struct tide_assessment *beside_shared_memory(int64_t per_look, char *text, size_t size)
{
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t i = 0; i < 400; i++) {
        look(&m, 1, 400 * MIB);
        sample(&m, id, 400 * MIB);
        struct tide_mark row = {.t_ns = m.t_ns,
                                .kind = TIDE_MARK_GAUGE,
                                .source = TIDE_SOURCE_TRACKER,
                                .number = 50 * MIB + i * per_look + i % 3 * 4096,
                                .name = TIDE_GAUGE_SHARED};
        struct tide_err err;
        ok(tide_writer_mark(m.writer, &row, &err), &err);
    }
    return finish(&m, text, size);
}

static void shared_memory_that_nobody_maps_leaks_by_itself(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = beside_shared_memory(100 * 1024, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_true(a->judged[0].shared);
    assert_true(fabs(a->judged[0].verdict.slope / (400 * 1024) - 1) < 0.02);
    assert_int_equal(tide_assessment_exit_code(a), 1);
    assert_non_null(strstr(text, "LEAK in shared memory (/dev/shm, memfd)\n"));
    tide_assessment_free(a);
    a = beside_shared_memory(0, text, sizeof text);
    assert_int_equal(a->judged[0].subject, TIDE_SUBJECT_PROCESS);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_FLAT);
    assert_string_equal(a->evidence, "");
    tide_assessment_free(a);
}

static void without_steps_the_axis_is_seconds(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t i = 0; i < 400; i++) {
        look(&m, 1, 400 * MIB + i * MIB);
        sample(&m, id, 400 * MIB + i * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_false(a->judged[0].x_is_steps);
    assert_true(fabs(a->judged[0].verdict.slope / (4.0 * MIB) - 1) < 0.02);
    assert_true(isnan(a->steps));
    tide_assessment_free(a);
}

/* A loop over a mapped file: its pages come and go with the page cache, and are most of the tree's. */
static void the_only_process_is_the_answer_however_much_of_a_file_it_maps(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t i = 0; i < 400; i++) {
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 24 * MIB + i * MIB);
        sample(&m, id, 24 * MIB);
        if (i == 399)
            read_shared(&m, id, 424 * MIB, 24 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].subject, TIDE_SUBJECT_PROCESS);
    assert_non_null(strstr(text, "the floor stays at 24.0 MiB"));
    tide_assessment_free(a);
}

static void steps_that_a_buffer_held_back_are_no_axis(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t i = 0; i < 400; i++) {
        look(&m, 1, 400 * MIB + i * MIB);
        sample(&m, id, 400 * MIB + i * MIB);
        for (int64_t step = i - 79; i % 80 == 79 && step <= i; step++)
            mark(&m, 0, TIDE_MARK_STEP, step, "");
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_false(a->judged[0].x_is_steps);
    assert_true(fabs(a->judged[0].verdict.slope / (4.0 * MIB) - 1) < 0.02);
    assert_non_null(strstr(text, "  steps   came in bursts"));
    tide_assessment_free(a);
}

/* A bar of 60 items, or steps, and then `looks` looks without any, in which memory rises by `rise` each. */
static struct tide_assessment *after_the_last_step(int64_t looks, int64_t in_steps, int64_t rise, char *out,
                                                   size_t size)
{
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer"), held = 400 * MIB;
    for (int64_t i = 0; i < 60 + looks; i++) {
        if (i < 60)
            mark(&m, 0, TIDE_MARK_STEP, i, "");
        held += i < 60 ? in_steps : rise;
        look(&m, 1, held);
        sample(&m, id, held);
    }
    struct tide_err err;
    ok(tide_writer_meta_integer(m.writer, TIDE_META_EXIT, 0, &err), &err);
    ok(tide_writer_meta_integer(m.writer, TIDE_META_ENDED, m.t_ns, &err), &err);
    return finish(&m, out, size);
}

static void what_rises_after_the_last_step_is_judged_by_time(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = after_the_last_step(120, 0, MIB / 2, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_false(a->judged[0].x_is_steps);
    assert_true(fabs(a->judged[0].verdict.slope / (2.0 * MIB) - 1) < 0.05);
    assert_non_null(
        strstr(text, "  steps   the last one came 30 s before the end, and memory rose after it"));
    tide_assessment_free(a);
}

static void a_final_evaluation_that_is_freed_is_no_leak(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer"), held = 400 * MIB;
    for (int64_t i = 0; i < 163; i++) {
        if (i < 100)
            mark(&m, 0, TIDE_MARK_STEP, i, "");
        held = i < 100 || i >= 160 ? 400 * MIB : held + 4 * MIB;
        look(&m, 1, held);
        sample(&m, id, held);
    }
    struct tide_err err;
    ok(tide_writer_meta_integer(m.writer, TIDE_META_EXIT, 0, &err), &err);
    ok(tide_writer_meta_integer(m.writer, TIDE_META_ENDED, m.t_ns, &err), &err);
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_not_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    tide_assessment_free(a);
}

static void what_does_not_rise_after_the_last_step_is_said(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = after_the_last_step(120, MIB, 0, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK); /* as it was in its steps */
    assert_true(a->judged[0].x_is_steps);
    assert_true(fabs(a->judged[0].verdict.slope / (1.0 * MIB) - 1) < 0.05);
    assert_non_null(
        strstr(text, "  steps   the last one came 30 s before the end; what followed is not judged"));
    tide_assessment_free(a);
    a = after_the_last_step(8, MIB, 0, text, sizeof text); /* a checkpoint is saved */
    assert_null(strstr(text, "  steps   "));
    tide_assessment_free(a);
}

static void steps_that_start_over_make_one_axis(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t i = 0; i < 400; i++) {
        mark(&m, id, TIDE_MARK_STEP, i % 100, "");
        look(&m, 1, 400 * MIB + i * MIB);
        sample(&m, id, 400 * MIB + i * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_true(fabs(a->judged[0].verdict.slope / (1.0 * MIB) - 1) < 0.02);
    assert_true(a->steps == 399);
    tide_assessment_free(a);
}

static void look_in_phase(struct made *m, int64_t process, const char *name, int64_t bytes)
{
    mark(m, process, TIDE_MARK_PHASE_BEGIN, 0, name);
    look(m, 1, bytes);
    sample(m, process, bytes);
    mark(m, process, TIDE_MARK_PHASE_END, 0, name);
}

/* All phases of a step are at one place of the axis, and one may run inside another. */
static void a_spike_belongs_to_the_phase_in_which_it_was_high(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t step = 0; step < 300; step++) {
        mark(&m, id, TIDE_MARK_STEP, step, "");
        mark(&m, id, TIDE_MARK_PHASE_BEGIN, 0, "training");
        look_in_phase(&m, id, "forward", 400 * MIB);
        look_in_phase(&m, id, "backward", (step % 30 == 29 ? 900 : 400) * MIB);
        look_in_phase(&m, id, "optimizer", 400 * MIB);
        mark(&m, id, TIDE_MARK_PHASE_END, 0, "training");
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_SPIKES);
    assert_int_equal(a->judged[0].verdict.spikes.count, 10);
    assert_int_equal(a->judged[0].verdict.spikes.in_phase, 10);
    assert_string_equal(a->judged[0].phase, "backward");
    tide_assessment_free(a);
}

/* Under load a recorder gets few looks at a short run, and one of them may fall between the last step and the
 * end of the process. */
static void what_a_process_gives_back_as_it_ends_is_no_training(void **state)
{
    (void)state;
    static const char looks[] = "#.......#.......#####.##.........###........#";
    char text[2048];
    struct made m = begin();
    struct tide_err err;
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t step = 0; looks[step]; step++) {
        mark(&m, id, TIDE_MARK_STEP, step, "");
        if (looks[step] == '#') {
            look(&m, 1, (8 + step) * MIB);
            sample(&m, id, (8 + step) * MIB);
        } else {
            m.t_ns += 250000000;
        }
    }
    for (int64_t left = 30; left >= 6; left -= 24) {
        m.t_ns -= 230000000; /* 20 ms later: still within what a last step may take */
        look(&m, 1, left * MIB);
        sample(&m, id, left * MIB);
    }
    ok(tide_writer_meta_integer(m.writer, TIDE_META_EXIT, 0, &err), &err);
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_true(fabs(a->judged[0].verdict.slope / (1.0 * MIB) - 1) < 0.02);
    assert_true(a->judged[0].verdict.x_last == 44);
    tide_assessment_free(a);
}

/* A program that leaks 14 kB a step and takes 170 MiB at step 60, of which looks see more or less. */
static struct tide_assessment *leak_beside_jump(int64_t blur, char *text, size_t size)
{
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    for (int64_t i = 0; i < 120; i++) {
        int64_t memory = 10 * MIB + i * 14000 + i * i * 7919 % 997 * blur + (i < 60 ? 0 : 170 * MIB);
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, memory);
        sample(&m, id, memory);
    }
    return finish(&m, text, size);
}

static void a_leak_beside_a_jump_is_said_with_both(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = leak_beside_jump(50, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_non_null(strstr(text, "+1.6 MiB over 119 steps: 13."));
    assert_non_null(strstr(text, ", beside +170 MiB at once, at step 60"));
    tide_assessment_free(a);
}

/* Where a rise beside a jump is not surely a leak, none is said to have shown. */
static void a_rise_beside_a_jump_is_said_with_what_it_is_at_the_most(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = leak_beside_jump(1500, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_JUMP);
    assert_non_null(strstr(text, "; beside it at most "));
    assert_null(strstr(text, "would have shown"));
    assert_true(a->judged[0].verdict.slope_high > 14000);
    tide_assessment_free(a);
}

/* A process of which only the end is to be seen has no memory any more. */
static void sample_dying(struct made *m, int64_t process)
{
    struct tide_sample s = {.tick = m->tick,
                            .process = process,
                            .anon_bytes = TIDE_UNKNOWN,
                            .file_bytes = TIDE_UNKNOWN,
                            .shmem_bytes = TIDE_UNKNOWN,
                            .swap_bytes = TIDE_UNKNOWN,
                            .huge_bytes = TIDE_UNKNOWN,
                            .threads = 1};
    struct tide_err err;
    ok(tide_writer_sample(m->writer, &s, &err), &err);
}

static void what_is_not_read_of_a_dying_process_does_not_stand_still(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t i = 0; i < 12; i++) {
        look(&m, 1, (100 + 10 * i) * MIB);
        sample(&m, id, (100 + 10 * i) * MIB);
    }
    for (int i = 0; i < 6; i++) {
        look(&m, 1, 0);
        sample_dying(&m, id);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->judged[i].verdict.kind, TIDE_LEAK);
        assert_true(fabs(a->judged[i].verdict.slope / (40.0 * MIB) - 1) < 0.01);
    }
    tide_assessment_free(a);
}

static void a_jump_names_the_mark_it_came_with(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int64_t step = 0; step < 400; step++) {
        if (step % 130 == 0)
            mark(&m, id, TIDE_MARK_EPOCH, step / 130, "");
        mark(&m, id, TIDE_MARK_STEP, step, "");
        look(&m, 1, (step < 260 ? 400 : 900) * MIB);
        sample(&m, id, (step < 260 ? 400 : 900) * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_JUMP);
    assert_true(a->judged[0].verdict.jump_x == 260);
    assert_string_equal(a->judged[0].jump_mark, "start of epoch 2");
    tide_assessment_free(a);
}

static void items_that_the_program_counts_give_bytes_per_item(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer"),
            loader = add_process(&m, 8, id, "loader", "loader");
    for (int64_t step = 0; step < 400; step++) {
        mark(&m, loader, TIDE_MARK_ITEMS, step * 1000, ""); /* ahead of the training, and none of its own */
        mark(&m, id, TIDE_MARK_STEP, step, "");
        mark(&m, id, TIDE_MARK_ITEMS, step * 8, "");
        int64_t cached = (step < 150 ? step : 150) * 8 * 2 * MIB;
        look(&m, 1, 400 * MIB + cached);
        sample(&m, id, 400 * MIB + cached);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_PLATEAU);
    assert_true(fabs(a->judged[0].verdict.knee_x - 150) < 5);
    assert_true(fabs(a->judged[0].verdict.bytes_per_item / (2.0 * MIB) - 1) < 0.03);
    tide_assessment_free(a);
}

static void hostile_names_are_escaped_everywhere(void **state)
{
    (void)state;
    char text[2048], *json = NULL;
    size_t len;
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "\x1b]0;owned\x07\xff", "\x1b[2J");
    for (int64_t step = 0; step < 200; step++) {
        mark(&m, id, TIDE_MARK_STEP, step, "");
        mark(&m, id, TIDE_MARK_GAUGE, 5, "\x1b[31m");
        look(&m, 1, 400 * MIB + step * MIB);
        sample(&m, id, 400 * MIB + step * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    FILE *out = open_memstream(&json, &len);
    tide_assessment_json(a, "x.tide", out);
    fclose(out);
    for (const char *p = text; *p; p++)
        assert_true(*p == '\n' || (unsigned char)*p >= 0x20);
    for (const char *p = json; *p; p++)
        assert_true(*p == '\n' || (unsigned char)*p >= 0x20);
    assert_null(strchr(json, '\xff'));
    free(json);
    tide_assessment_free(a);
}

static void a_recording_of_two_looks_is_undecided(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "trainer", "trainer");
    for (int i = 0; i < 2; i++) {
        look(&m, 1, MIB);
        sample(&m, id, MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_UNDECIDED);
    assert_int_equal(tide_assessment_exit_code(a), 3);
    tide_assessment_free(a);
}

static void what_is_learnt_late_about_shared_pages_is_no_growth(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t trainer = add_process(&m, 100, 0, "python", "train.py"), helper[6];
    for (int i = 0; i < 6; i++)
        helper[i] = add_process(&m, 101 + i, trainer, "compile_worker", "compile_worker");
    for (int i = 0; i < 120; i++) {
        int64_t read = i / 20; /* helpers whose PSS is known: each counts for 20 MiB from then on */
        mark(&m, trainer, TIDE_MARK_STEP, i, "");
        look_at_shared(&m, 7, (160 + 20 * read) * MIB, 940 * MIB, (160 + 130 * read) * MIB);
        sample(&m, trainer, 160 * MIB);
        for (int k = 0; k < 6; k++)
            sample(&m, helper[k], 120 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    for (size_t i = 0; i < a->count; i++)
        assert_int_equal(a->judged[i].verdict.kind, TIDE_FLAT);
    tide_assessment_free(a);
}

static void a_neighbour_that_loads_the_same_library_is_no_growth(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t trainer = add_process(&m, 100, 0, "python", "train.py");
    for (int i = 0; i < 120; i++) {
        int64_t files = i < 10   ? 2
                        : i < 60 ? 130
                        : i < 90 ? 65
                                 : 130; /* a part of the library's pages, as read */
        mark(&m, trainer, TIDE_MARK_STEP, i, "");
        look_at_shared(&m, 1, (160 + files) * MIB, 300 * MIB, 300 * MIB);
        sample(&m, trainer, 160 * MIB);
        if (i % 10 == 0)
            read_shared(&m, trainer, (160 + files) * MIB, 160 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    for (size_t i = 0; i < a->count; i++)
        assert_int_equal(a->judged[i].verdict.kind, TIDE_FLAT);
    tide_assessment_free(a);
}

/* Ten epochs of ten seconds: in each, two new workers rise for eight of them and end, beside a parent that
 * is flat. */
static struct tide_assessment *made_of_pools(int parent_mib, int first_mib, int more_mib, char *text,
                                             size_t size)
{
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py");
    limit(&m, "host memory", 60 * GIB);
    for (int epoch = 0; epoch < 10; epoch++) {
        mark(&m, parent, TIDE_MARK_EPOCH, epoch, "");
        mark(&m, parent, TIDE_MARK_PHASE_BEGIN, 0, "self-play");
        int64_t worker[2], most = first_mib + more_mib * epoch, began_ns = m.t_ns;
        for (int w = 0; w < 2; w++)
            worker[w] = add_process(&m, 1000 + 2 * epoch + w, parent, "python", "worker of train.py");
        for (int i = 1; i <= 32; i++) {
            int64_t now = 20 + most * i / 32;
            look(&m, 3, (parent_mib + 2 * now) * MIB);
            sample(&m, parent, parent_mib * MIB);
            for (int w = 0; w < 2; w++)
                sample(&m, worker[w], now * MIB);
        }
        for (int w = 0; w < 2; w++)
            end_process(&m, worker[w], 1000 + 2 * epoch + w, parent, "python", "worker of train.py",
                        began_ns);
        mark(&m, parent, TIDE_MARK_PHASE_END, 0, "self-play");
        for (int i = 0; i < 8; i++) {
            look(&m, 1, parent_mib * MIB);
            sample(&m, parent, parent_mib * MIB);
        }
    }
    return finish(&m, text, size);
}

static void peaks_that_rise_with_the_epochs_are_found_in_the_workers_that_make_them(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = made_of_pools(100, 40, 16, text, sizeof text);
    const struct tide_judged *worst = &a->judged[0];
    assert_int_equal(worst->subject, TIDE_SUBJECT_ROLE);
    assert_string_equal(worst->name, "2 x worker of train.py (20 in all)");
    assert_int_equal(worst->crest.epochs, 10);
    assert_true(fabs(worst->crest.per_epoch - 32.0 * MIB) < MIB);
    assert_string_equal(worst->crest.phase, "self-play");
    assert_int_equal(tide_assessment_exit_code(a), 1);
    assert_non_null(strstr(text, "RISING PEAKS in 2 x worker of train.py (20 in all)"));
    assert_non_null(strstr(text, "1 other process steady"));
    assert_null(strstr(text, "limit ")); /* no worker lives long enough to reach it */
    tide_assessment_free(a);
}

/* A floor that takes one step, under a validation that needs more in every epoch, or the same. */
static struct tide_assessment *judge_step_under_peaks(int64_t step, int64_t per_epoch, char *text,
                                                      size_t size)
{
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    for (int64_t i = 0; i < 400; i++) {
        int64_t memory = 12 * MIB + (i < 290 ? 0 : step) + (i % 20 < 3 ? 8 * MIB + i / 20 * per_epoch : 0);
        if (i % 20 == 0)
            mark(&m, id, TIDE_MARK_EPOCH, i / 20, "");
        look(&m, 1, memory);
        sample(&m, id, memory);
    }
    return finish(&m, text, size);
}

static void peaks_that_rise_are_more_than_one_small_step_of_the_floor(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = judge_step_under_peaks(MIB / 3, 8 * MIB, text, sizeof text);
    assert_int_equal(a->judged[0].crest.epochs, 20);
    assert_int_equal(tide_assessment_exit_code(a), 1);
    tide_assessment_free(a);
    a = judge_step_under_peaks(60 * MIB, 0, text, sizeof text); /* the step lifts the peaks of later epochs */
    assert_int_equal(a->judged[0].verdict.kind, TIDE_JUMP);
    assert_int_equal(a->judged[0].crest.epochs, 0);
    tide_assessment_free(a);
}

static void peaks_of_workers_are_theirs_beside_a_large_parent(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = made_of_pools(600, 40, 16, text, sizeof text);
    assert_non_null(strstr(text, "RISING PEAKS in 2 x worker of train.py (20 in all)"));
    tide_assessment_free(a);
}

static void workers_that_rise_as_high_in_every_epoch_are_no_finding(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = made_of_pools(100, 120, 0, text, sizeof text);
    assert_int_equal(a->judged[0].crest.epochs, 0);
    assert_string_equal(a->judged[0].name, "2 x worker of train.py (20 in all)");
    assert_int_equal(a->judged[0].verdict.kind, TIDE_SPIKES);
    assert_int_equal(a->judged[0].verdict.spikes.count, 10);
    assert_int_equal(tide_assessment_exit_code(a), 0);
    tide_assessment_free(a);
}

static void judging_that_nobody_waits_for_can_be_stopped(void **state)
{
    (void)state;
    struct tide_tick ticks[] = {{.id = 1, .t_ns = 1, .processes = 1}, {.id = 2, .t_ns = 2, .processes = 1}};
    struct tide_history_point points[] = {{.t_ns = 1, .private_bytes = MIB},
                                          {.t_ns = 2, .private_bytes = MIB}};
    struct tide_history_process process = {
        .row = {.id = 1, .pid = 7, .name = "p", .command = "", .role = "p", .ended_ns = TIDE_UNKNOWN},
        .points = points,
        .point_count = 2};
    struct tide_history history = {
        .ticks = ticks, .tick_count = 2, .processes = &process, .process_count = 1, .command = (char *)""};
    atomic_bool stop = false;
    struct tide_assess_options options = {
        .items = NAN, .items_per_step = NAN, .limit_bytes = NAN, .stop = &stop};
    struct tide_assessment *a;
    struct tide_err err = {0};
    assert_int_equal(tide_assess_history(&history, &options, &a, &err), 0);
    tide_assessment_free(a);
    atomic_store(&stop, true);
    assert_int_equal(tide_assess_history(&history, &options, &a, &err), -1);
    assert_string_equal(err.text, "judging was stopped");
}

/* 256 KiB that it maps of shared memory, and one reading of which none was its own, as it ended: the process
 * is judged at every look all the same. */
static void a_little_shared_memory_does_not_hide_a_process(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "python", "train.py");
    for (int64_t i = 0; i < 300; i++) {
        look(&m, 1, 100 * MIB + i * MIB);
        put_sample(&m, (struct tide_sample){.process = id,
                                            .anon_bytes = 100 * MIB + i * MIB,
                                            .shmem_bytes = MIB / 4,
                                            .asked_bytes = TIDE_UNKNOWN,
                                            .mapped_bytes = TIDE_UNKNOWN});
        if (i == 2 || i == 280)
            read_shared(&m, id, 100 * MIB + i * MIB, 100 * MIB + i * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].subject, TIDE_SUBJECT_PROCESS);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    tide_assessment_free(a);
}

/* 600 processes of one role and 20 gauges; beside them their sum and the tree are judged. */
static void series_that_are_too_many_to_judge_are_said(void **state)
{
    enum { PROCESSES = 600, GAUGES = 20, LOOKS = 30 };
    (void)state;
    char text[2048], name[16];
    int64_t process[PROCESSES];
    struct made m = begin();
    for (int i = 0; i < PROCESSES; i++)
        process[i] = add_process(&m, 100 + i, 0, "worker", "worker");
    for (int64_t step = 0; step < LOOKS; step++) {
        mark(&m, process[0], TIDE_MARK_STEP, step, "");
        for (int i = 0; i < GAUGES; i++) {
            snprintf(name, sizeof name, "gauge %d", i);
            mark(&m, process[0], TIDE_MARK_GAUGE, MIB, name);
        }
        look(&m, PROCESSES, PROCESSES * MIB);
        for (int i = 0; i < PROCESSES; i++)
            sample(&m, process[i], MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->count + a->beyond, PROCESSES + GAUGES + 2);
    assert_int_equal(a->beyond, 111);
    assert_non_null(strstr(text, "111 more series were not judged"));
    tide_assessment_free(a);
}

/* What a GPU has in use is other people's as well: a program that is level beside it. owner: whose what it
 * has on the GPU is said to be; 0: it has nothing there. */
static struct tide_assessment *beside_a_busy_gpu(int64_t owner, int64_t own_per_step, char *text, size_t size)
{
    struct tide_err err;
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "python", "train.py");
    for (int64_t step = 0; step < 200; step++) {
        int64_t own = 200 * MIB + step * own_per_step, others = 2000 * MIB + step * 8 * MIB;
        mark(&m, process, TIDE_MARK_STEP, step, "");
        look(&m, 1, 100 * MIB);
        sample(&m, process, 100 * MIB);
        struct tide_gpu_sample rows[] = {{.tick = m.tick, .bytes = own + others},
                                         {.tick = m.tick, .process = owner, .bytes = own}};
        for (int i = 0; i < (owner ? 2 : 1); i++)
            ok(tide_writer_gpu(m.writer, &rows[i], &err), &err);
    }
    return finish(&m, text, size);
}

static void what_others_do_on_a_gpu_is_not_the_answer(void **state)
{
    (void)state;
    static const int64_t owners[] = {0, 1, TIDE_UNKNOWN};
    char text[2048];
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        struct tide_assessment *a = beside_a_busy_gpu(owners[i], 0, text, sizeof text);
        assert_int_equal(a->judged[0].verdict.kind, TIDE_FLAT);
        assert_int_equal(tide_assessment_exit_code(a), 0);
        tide_assessment_free(a);
    }
    for (size_t i = 1; i < sizeof owners / sizeof *owners; i++) {
        struct tide_assessment *a = beside_a_busy_gpu(owners[i], MIB, text, sizeof text);
        assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
        assert_non_null(strstr(text, i == 1 ? "GPU 0, train.py[100]" : "GPU 0, unidentified processes"));
        assert_true(fabs(a->judged[0].verdict.slope / MIB - 1) < 0.01);
        tide_assessment_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leak_beside_a_jump_is_said_with_both),
        cmocka_unit_test(a_rise_beside_a_jump_is_said_with_what_it_is_at_the_most),
        cmocka_unit_test(what_is_learnt_late_about_shared_pages_is_no_growth),
        cmocka_unit_test(a_neighbour_that_loads_the_same_library_is_no_growth),
        cmocka_unit_test(peaks_that_rise_with_the_epochs_are_found_in_the_workers_that_make_them),
        cmocka_unit_test(peaks_that_rise_are_more_than_one_small_step_of_the_floor),
        cmocka_unit_test(peaks_of_workers_are_theirs_beside_a_large_parent),
        cmocka_unit_test(workers_that_rise_as_high_in_every_epoch_are_no_finding),
        cmocka_unit_test(series_that_are_too_many_to_judge_are_said),
        cmocka_unit_test(a_leak_behind_a_wrapper_is_found_in_the_child),
        cmocka_unit_test(a_rise_by_the_number_of_processes_is_the_trees),
        cmocka_unit_test(a_flat_gauge_beside_a_rising_process_is_evidence),
        cmocka_unit_test(shared_memory_that_nobody_maps_leaks_by_itself),
        cmocka_unit_test(without_steps_the_axis_is_seconds),
        cmocka_unit_test(the_only_process_is_the_answer_however_much_of_a_file_it_maps),
        cmocka_unit_test(steps_that_a_buffer_held_back_are_no_axis),
        cmocka_unit_test(what_rises_after_the_last_step_is_judged_by_time),
        cmocka_unit_test(a_final_evaluation_that_is_freed_is_no_leak),
        cmocka_unit_test(what_does_not_rise_after_the_last_step_is_said),
        cmocka_unit_test(steps_that_start_over_make_one_axis),
        cmocka_unit_test(a_spike_belongs_to_the_phase_in_which_it_was_high),
        cmocka_unit_test(what_a_process_gives_back_as_it_ends_is_no_training),
        cmocka_unit_test(what_is_not_read_of_a_dying_process_does_not_stand_still),
        cmocka_unit_test(a_jump_names_the_mark_it_came_with),
        cmocka_unit_test(items_that_the_program_counts_give_bytes_per_item),
        cmocka_unit_test(hostile_names_are_escaped_everywhere),
        cmocka_unit_test(a_recording_of_two_looks_is_undecided),
        cmocka_unit_test(judging_that_nobody_waits_for_can_be_stopped),
        cmocka_unit_test(a_little_shared_memory_does_not_hide_a_process),
        cmocka_unit_test(what_others_do_on_a_gpu_is_not_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
