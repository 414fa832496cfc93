/*
 * test_blame.c - which of the call sites of a recording are culprits of its verdict, and which explain
 * nothing.
 */
#include "blamed.h"

/* One process leaks by one line. Another, which is flat, has imported something and has a line that grows
 * without its memory growing; the first one's import, and a line that takes hardly anything, are not an
 * answer either. */
static void only_what_explains_the_accused_is_a_culprit(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t leaks = add_process(&m, 100, 0, "python", "train.py"),
            flat = add_process(&m, 101, leaks, "helper", "helper");
    see_heap(&m, leaks);
    see_heap(&m, flat);
    int64_t held = add_site(&m, leaks, TIDE_SITE_MALLOC, line_of("train.py", 31, "step")),
            import = add_site(&m, leaks, TIDE_SITE_MALLOC, line_of("train.py", 2, "<module>")),
            hardly = add_site(&m, leaks, TIDE_SITE_MALLOC, line_of("train.py", 40, "log")),
            other_import = add_site(&m, flat, TIDE_SITE_MALLOC, line_of("helper.py", 3, "<module>")),
            other = add_site(&m, flat, TIDE_SITE_MALLOC, line_of("helper.py", 9, "serve"));
    for (int64_t i = 0; i < 300; i++) {
        mark(&m, leaks, TIDE_MARK_STEP, i, "");
        look(&m, 2, 150 * MIB + i * MIB / 2);
        sample(&m, leaks, 100 * MIB + i * MIB / 2);
        sample(&m, flat, 50 * MIB);
        hold(&m, held, i * MIB / 2, i);
        hold(&m, import, (i < 12 ? 0 : 8) * MIB, 10);
        hold(&m, hardly, i * 1000, i);
        hold(&m, other_import, (i < 20 ? 0 : 5) * MIB, 10);
        hold(&m, other, i * 20000, i);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[held - 1]);
    assert_true(blame->culprits[0].share > 0.95);
    assert_null(strstr(print_blame(blame, &answer, text, sizeof text), "0 %  "));
    forget(blame, &answer);
}

/* A program that names no steps frees its list as it ends, within two looks: what it held before is the
 * culprit, and none of it was freed while the program ran. */
static void what_is_freed_as_the_program_ends_is_still_the_culprit(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t list = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 7, "<module>"));
    for (int64_t i = 0; i < 300; i++) {
        bool ends = i >= 298;
        look(&m, 1, 20 * MIB + i * MIB / 2);
        sample(&m, id, 20 * MIB + i * MIB / 2);
        hold_of(&m, list, ends ? 0 : i * MIB / 2, ends ? 0 : i, i * MIB / 2, i);
    }
    m.t_ns += 100000000;
    end_process(&m, id, 100, 0, "python", "train.py", 0);
    look(&m, 0, 0);
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 1);
    assert_true(blame->culprits[0].share > 0.95);
    assert_non_null(strstr(print_blame(blame, &answer, text, sizeof text), "never freed"));
    forget(blame, &answer);
}

/* A program that names no steps imports for some seconds, then leaks at a slower rate. What it imported is no
 * part of the leak, and the rate is not that of the whole growth. */
static void what_was_imported_before_the_leak_is_no_culprit(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t list = add_site(&m, id, TIDE_SITE_MMAP, line_of("train.py", 7, "train")), imports[20];
    for (int i = 0; i < 20; i++)
        imports[i] = add_site(&m, id, TIDE_SITE_MMAP, line_of("train.py", 2, "<module>"));
    for (int64_t i = 0; i < 64; i++) {
        int64_t imported = (i < 12 ? i : 12) * 3 * MIB, kept = i < 12 ? 0 : (i - 12) * MIB;
        look(&m, 1, 20 * MIB + imported + kept);
        sample(&m, id, 20 * MIB + imported + kept);
        for (int64_t k = 0; k < 20; k++)
            if (i == 9 + k % 3)
                hold(&m, imports[k], MIB, 1);
        hold(&m, list, kept, kept / MIB);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    FILE *stream = fmemopen(text, sizeof text, "w");
    tide_assessment_print(answer.assessment, stream);
    fclose(stream);
    assert_int_equal(answer.assessment->judged[0].verdict.kind, TIDE_LEAK);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[list - 1]);
    assert_non_null(strstr(text, ") since 3"));
    forget(blame, &answer);
}

/* The hook's own census imports modules into the program. The program did not do that. */
static void what_the_hook_takes_is_no_culprit(void **state)
{
    (void)state;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    struct tide_frame asked[] = {line_of("/lib/tidemark/_asked.py", 155, "_count"),
                                 {.function = "put_question",
                                  .file = "census.c",
                                  .line = 169,
                                  .module = "/usr/lib/libtidemark-hook.so"},
                                 line_of("train.py", 9, "train")};
    int64_t list = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 7, "train")),
            census = add_stack(&m, id, TIDE_SITE_MALLOC, asked, 3);
    for (int64_t i = 0; i < 300; i++) {
        look(&m, 1, 20 * MIB + i * MIB / 2);
        sample(&m, id, 20 * MIB + i * MIB / 2);
        hold(&m, list, i * MIB / 3, i);
        hold(&m, census, i * MIB / 6, i);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[list - 1]);
    forget(blame, &answer);
}

/* Workers that are made anew in each epoch, each with more than the one before, beside a parent that has
 * imported something: at the peak that is live too, and no part of what rises. */
static void what_was_there_all_along_is_no_part_of_peaks_that_rise(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, parent);
    int64_t import = add_site(&m, parent, TIDE_SITE_MMAP, line_of("train.py", 2, "<module>"));
    int64_t buffers = add_site(&m, parent, TIDE_SITE_MALLOC, line_of("train.py", 77, "plan"));
    for (int64_t i = 0; i < 200; i++) {
        int64_t height = i % 20 < 4 ? (10 + i / 20 * 10) * MIB : 0;
        if (i > 0 && i % 20 == 0)
            mark(&m, parent, TIDE_MARK_EPOCH, i / 20, "");
        look(&m, 1, 100 * MIB + height);
        sample(&m, parent, 100 * MIB + height);
        hold(&m, import, 64 * MIB, 1);
        hold(&m, buffers, height, 10);
    }
    struct tide_answer answer = finish_answer(&m);
    assert_true(answer.assessment->judged[0].crest.epochs > 0);
    struct tide_blame_options options = {.by = TIDE_BLAME_PEAK, .most = 10};
    struct tide_blame *blame;
    struct tide_err err;
    ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
    assert_int_equal(blame->count, 2);
    tide_blame_free(blame);
    options.by = TIDE_BLAME_VERDICT;
    ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[buffers - 1]);
    assert_non_null(strstr(print_blame(blame, &answer, text, sizeof text), "100 % of the rise"));
    forget(blame, &answer);
}

/* From look 150 on each step asks for nine times as much and gives it back; the allocator keeps the pages. At
 * the peak imports are live too; a list that is kept was made when the step changed. Neither is the rise. */
static void what_each_step_holds_more_of_is_the_culprit_of_a_jump(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t import = add_site(&m, id, TIDE_SITE_MMAP, line_of("train.py", 2, "<module>"));
    int64_t losses = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 123, "update"));
    int64_t list = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 90, "note"));
    for (int64_t i = 0; i < 300; i++) {
        int64_t height = i % 3 ? (i < 150 ? 10 : 90) * MIB : 0, kept = i < 150 ? 0 : MIB / 4;
        int64_t memory = (i < 150 ? 110 : 190) * MIB;
        look(&m, 1, memory);
        sample(&m, id, memory);
        hold(&m, import, 96 * MIB, 1);
        hold(&m, losses, height, 10);
        hold(&m, list, kept, 1);
        hold_in_all(&m, id, 96 * MIB + height + kept, 100 * 1024);
    }
    struct tide_answer answer = finish_answer(&m);
    assert_int_equal(answer.assessment->judged[0].verdict.kind, TIDE_JUMP);
    struct tide_blame_options options = {.by = TIDE_BLAME_VERDICT, .most = 10};
    struct tide_blame *blame;
    struct tide_err err;
    ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
    assert_int_equal(blame->by, TIDE_BLAME_RISE);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[losses - 1]);
    assert_true(blame->culprits[0].bytes == 80 * MIB);
    assert_non_null(strstr(print_blame(blame, &answer, text, sizeof text), "100 % of the rise"));
    tide_blame_free(blame);
    blame = blame_growth(&answer); /* of the jump it is next to nothing */
    assert_int_equal(blame->count, 0);
    forget(blame, &answer);
}

/* Whether the process leaks as well is not decided. That it took a block at once is, and whose line did:
 * that is part of the answer, also at the end of a run. */
static void a_jump_has_its_culprit_beside_what_is_undecided(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t block = add_site(&m, id, TIDE_SITE_MMAP, line_of("train.py", 25, "widen"));
    for (int64_t i = 0; i < 120; i++) {
        int64_t shake = i * i * 7919 % 997 * 1500;
        int64_t memory = 10 * MIB + i * 14000 + shake + (i < 60 ? 0 : 14 * MIB);
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, memory);
        sample(&m, id, memory);
        hold(&m, block, i < 60 ? 0 : 14 * MIB, 1);
    }
    struct tide_answer answer = finish_answer(&m);
    const struct tide_verdict *v = &answer.assessment->judged[0].verdict;
    assert_int_equal(v->kind, TIDE_UNDECIDED);
    assert_true(v->jump_bytes > 13 * MIB);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[block - 1]);
    assert_non_null(strstr(print_blame(blame, &answer, text, sizeof text), " % of the jump"));
    assert_true(blame->culprits[0].share > 0.9);
    assert_true(tide_blame_answers(blame, answer.assessment));
    forget(blame, &answer);
}

/* Both: from step 60 on each step asks for more and gives it back, and whether the process leaks as well is
 * not decided. No line keeps what the jump was for. */
static void so_has_a_jump_that_is_freed_again(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t losses = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 123, "update"));
    int64_t list = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 90, "note"));
    for (int64_t i = 0; i < 120; i++) {
        int64_t shake = i * i * 7919 % 997 * 1500, height = i % 3 ? (i < 60 ? 4 : 18) * MIB : 0;
        int64_t memory = 10 * MIB + i * 14000 + shake + (i < 60 ? 0 : 14 * MIB);
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, memory);
        sample(&m, id, memory);
        hold(&m, losses, height, 10);
        hold(&m, list, i * 200, i);
        hold_in_all(&m, id, height + i * 200, 100 * 1024);
    }
    struct tide_answer answer = finish_answer(&m);
    const struct tide_verdict *v = &answer.assessment->judged[0].verdict;
    assert_int_equal(v->kind, TIDE_UNDECIDED);
    assert_true(v->jump_bytes > 13 * MIB);
    struct tide_blame_options options = {.by = TIDE_BLAME_VERDICT, .most = 10};
    struct tide_blame *blame;
    struct tide_err err;
    ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
    assert_int_equal(blame->by, TIDE_BLAME_RISE);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[losses - 1]);
    assert_non_null(strstr(print_blame(blame, &answer, text, sizeof text), "100 % of the rise"));
    assert_true(tide_blame_answers(blame, answer.assessment));
    forget(blame, &answer);
}

/* Forty steps of a process that may grow by some MiB or not at all. What a runtime moves from one site to
 * another by the ten MiB is no part of that; of what is left the share is that of all sites. */
static void what_moves_between_sites_is_no_culprit_of_what_is_undecided(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "node", "serve.js");
    see_heap(&m, id);
    int64_t from = add_site(&m, id, TIDE_SITE_MMAP, line_of("serve.js", 3, "young"));
    int64_t to = add_site(&m, id, TIDE_SITE_MMAP, line_of("serve.js", 4, "old"));
    int64_t list = add_site(&m, id, TIDE_SITE_MMAP, line_of("serve.js", 9, "keep"));
    for (int64_t i = 0; i < 40; i++) {
        int64_t memory = 100 * MIB + i * i * 7919 % 13 * MIB / 4;
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, memory);
        sample(&m, id, memory);
        hold(&m, from, (40 - i) * MIB, 100);
        hold(&m, to, i * MIB, 100);
        hold(&m, list, i * MIB / 32, 1 + i);
    }
    struct tide_answer answer = finish_answer(&m);
    assert_int_equal(answer.assessment->judged[0].verdict.kind, TIDE_UNDECIDED);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[list - 1]);
    print_blame(blame, &answer, text, sizeof text);
    assert_non_null(strstr(text, "100 % of what is kept"));
    assert_null(strstr(text, "of the growth"));
    assert_int_equal(blame->outgrown, 1);
    blame->count = 0;
    print_blame(blame, &answer, text, sizeof text);
    assert_non_null(strstr(text, "culprit none: call sites grow faster than the process"));
    forget(blame, &answer);
}

static void take_gpu(const struct made *m, int64_t device, int64_t process, int64_t bytes)
{
    struct tide_gpu_sample row = {.tick = m->tick, .device = device, .process = process, .bytes = bytes};
    struct tide_err err;
    ok(tide_writer_gpu(m->writer, &row, &err), &err);
}

/* From look 150 on each step's tensors take up nine times as much on the GPU, and end with the step; the
 * framework keeps its segments, of which more is left the less the tensors take up. */
static void what_each_step_holds_more_of_on_a_gpu_is_the_culprit_there(void **state)
{
    (void)state;
    char text[4096];
    struct tide_err err;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t weights = add_site(&m, id, TIDE_SITE_TENSOR, line_of("train.py", 9, "load"));
    int64_t losses = add_site(&m, id, TIDE_SITE_TENSOR, line_of("train.py", 123, "update"));
    int64_t segments = add_site(&m, id, TIDE_SITE_CUDA, line_of("train.py", 120, "update"));
    int64_t batch = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 50, "collate"));
    for (int64_t i = 0; i < 300; i++) {
        int64_t height = i % 3 ? (i < 150 ? 100 : 900) * MIB : 0, taken = (i < 150 ? 600 : 1400) * MIB;
        mark(&m, id, TIDE_MARK_STEP, i / 3, "");
        look(&m, 1, 100 * MIB);
        sample(&m, id, 100 * MIB);
        take_gpu(&m, 0, id, taken);
        hold(&m, weights, 400 * MIB, 10);
        hold(&m, losses, height, 10);
        hold(&m, segments, taken - 400 * MIB - height, 10);
        hold(&m, batch, i % 2 ? 4 * MIB : 0, 1);
    }
    struct tide_answer answer = finish_answer(&m);
    const struct tide_judged *worst = &answer.assessment->judged[0];
    assert_true(worst->subject == TIDE_SUBJECT_GPU && worst->verdict.kind == TIDE_JUMP);
    struct tide_blame_options options = {.by = TIDE_BLAME_VERDICT, .most = 10};
    struct tide_blame *blame;
    ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
    assert_int_equal(blame->by, TIDE_BLAME_RISE);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[losses - 1]);
    assert_true(blame->culprits[0].bytes == 800 * MIB);
    assert_non_null(strstr(print_blame(blame, &answer, text, sizeof text), "100 % of the rise on the GPU"));
    FILE *stream = fmemopen(text, sizeof text, "w");
    tide_assessment_print(answer.assessment, stream);
    fclose(stream);
    assert_non_null(
        strstr(text, "holds on the GPU rises within each step and is freed again: up to 1.3 GiB now"));
    forget(blame, &answer);
}

/* A library takes a block of the first GPU at look 150. The tensors of each step, which are on the second,
 * take up more from then on: of those of the first nobody knows anything. */
static void tensors_of_one_gpu_are_not_those_of_another(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) { /* whether the driver tells whose memory it is */
        struct made m = begin();
        int64_t id = add_process(&m, 100, 0, "python", "train.py");
        see_heap(&m, id);
        int64_t losses = add_site(&m, id, TIDE_SITE_TENSOR, line_of("train.py", 123, "update"));
        int64_t block = add_site(&m, id, TIDE_SITE_CUDA, line_of("train.py", 60, "compile"));
        for (int64_t i = 0; i < 300; i++) {
            mark(&m, id, TIDE_MARK_STEP, i / 3, "");
            look(&m, 1, 100 * MIB);
            sample(&m, id, 100 * MIB);
            take_gpu(&m, 0, told ? id : TIDE_UNKNOWN, (i < 150 ? 600 : 1400) * MIB);
            take_gpu(&m, 1, told ? id : TIDE_UNKNOWN, (i < 150 ? 200 : 600) * MIB);
            hold(&m, losses, i % 3 ? (i < 150 ? 100 : 500) * MIB : 0, 10);
            hold(&m, block, i < 150 ? 0 : 800 * MIB, 1);
        }
        struct tide_answer answer = finish_answer(&m);
        const struct tide_judged *worst = &answer.assessment->judged[0];
        assert_true(worst->subject == TIDE_SUBJECT_GPU && worst->device == 0);
        assert_int_equal(worst->verdict.kind, TIDE_JUMP);
        assert_false(worst->live_known);
        struct tide_blame_options options = {.by = TIDE_BLAME_VERDICT, .most = 10};
        struct tide_blame *blame;
        struct tide_err err;
        ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
        assert_int_equal(blame->count, 1);
        assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[block - 1]);
        forget(blame, &answer);
    }
}

/* Each step asks for more from look 150 on, as above. What is larger is not that: a file that is read before
 * the first step, one that is written after the last, an evaluation in between, and another process. */
static void the_rise_is_that_of_the_accused_in_its_steps(void **state)
{
    (void)state;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py"),
            other = add_process(&m, 101, id, "helper", "helper");
    see_heap(&m, id);
    see_heap(&m, other);
    int64_t losses = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 123, "update"));
    int64_t files = add_site(&m, id, TIDE_SITE_MMAP, line_of("train.py", 9, "load"));
    int64_t evaluation = add_site(&m, id, TIDE_SITE_MMAP, line_of("train.py", 60, "evaluate"));
    int64_t served = add_site(&m, other, TIDE_SITE_MMAP, line_of("helper.py", 3, "serve"));
    for (int64_t i = 0; i < 313; i++) {
        int64_t height = i % 3 ? (i < 150 ? 10 : 90) * MIB : 0, file = i < 10 || i >= 310 ? 400 * MIB : 0;
        int64_t evaluated = i == 260 ? 300 * MIB : 0;
        int64_t memory = (i < 150 ? 110 : 190) * MIB + file + evaluated;
        if (i >= 10 && i < 310)
            mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 2, memory + 600 * MIB);
        sample(&m, id, memory);
        sample(&m, other, 600 * MIB);
        hold(&m, losses, height, 10);
        hold(&m, files, file, 1);
        hold(&m, evaluation, evaluated, 1);
        hold(&m, served, (i % 2 ? 590 : i < 200 ? 100 : 300) * MIB, 10);
        hold_in_all(&m, id, height + file + evaluated, 100 * 1024);
    }
    struct tide_answer answer = finish_answer(&m);
    assert_int_equal(answer.assessment->judged[0].verdict.kind, TIDE_JUMP);
    struct tide_blame_options options = {.by = TIDE_BLAME_VERDICT, .most = 10};
    struct tide_blame *blame;
    struct tide_err err;
    ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
    assert_int_equal(blame->by, TIDE_BLAME_RISE);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[losses - 1]);
    assert_true(blame->culprits[0].bytes == 80 * MIB);
    assert_true(blame->culprits[0].share == 1);
    forget(blame, &answer);
}

/* A leak that begins in the last eighth of a run. */
static void a_line_that_leaks_late_is_the_culprit(void **state)
{
    (void)state;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t late = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 31, "step"));
    for (int64_t i = 0; i < 500; i++) {
        int64_t held = (i < 445 ? 0 : i - 444) * MIB / 4;
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 100 * MIB + held);
        sample(&m, id, 100 * MIB + held);
        if (held)
            hold(&m, late, held, i - 444);
        hold_in_all(&m, id, 90 * MIB + held, 100 * 1024);
    }
    struct tide_answer answer = finish_answer(&m);
    assert_int_equal(answer.assessment->judged[0].verdict.kind, TIDE_LEAK);
    assert_true(fabs(answer.assessment->judged[0].verdict.since_x - 444) < 10);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 1);
    assert_ptr_equal(blame->culprits[0].site, &answer.history->sites[late - 1]);
    assert_true(blame->culprits[0].share > 0.9);
    forget(blame, &answer);
}

/* A site that grew most before the stretch in which its process leaks explains what it grew by since. */
static void a_share_is_of_the_same_stretch(void **state)
{
    (void)state;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t site = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 31, "step"));
    static const int shake[] = {0, 6, 2, 7, 1, 5, 3, 0, 4, 2, 6, 1, 7};
    for (int64_t i = 0; i < 300; i++) {
        int64_t early = (i < 20 ? i : 20) * MIB / 4;
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 100 * MIB + early + i * 20000);
        sample(&m, id, 100 * MIB + early + i * 20000);
        hold(&m, site, early + i * 6000 + shake[i % 13] * MIB / 4, 1 + i / 40);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(answer.assessment->judged[0].verdict.kind, TIDE_LEAK);
    for (size_t i = 0; i < blame->count; i++)
        if (isfinite(blame->culprits[i].share))
            assert_true(blame->culprits[i].share < 0.6);
    forget(blame, &answer);
}

/* A runtime's heap has filled what it has, for now. */
static void a_runtimes_heap_is_no_cache(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "node", "node");
    see_heap(&m, id);
    struct tide_frame inside = {.function = "v8::internal::Heap::SetUp",
                                .file = "",
                                .line = TIDE_UNKNOWN,
                                .module = "/usr/lib/libnode.so",
                                .offset = 16};
    struct tide_frame built_elsewhere = {.function = "uv__async_io",
                                         .file = "/home/iojs/build/ws/out/../deps/uv/src/unix/async.c",
                                         .line = 176,
                                         .module = "/usr/bin/node",
                                         .offset = 32};
    int64_t heap = add_stack(&m, id, TIDE_SITE_MMAP, (struct tide_frame[]){inside, built_elsewhere}, 2);
    for (int64_t i = 0; i < 300; i++) {
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 100 * MIB + i * MIB);
        sample(&m, id, 100 * MIB + i * MIB);
        hold(&m, heap, (i < 150 ? i : 150) * 2 * MIB, i);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(answer.assessment->judged[0].verdict.kind, TIDE_LEAK);
    assert_null(strstr(print_blame(blame, &answer, text, sizeof text), "not a leak"));
    forget(blame, &answer);
}

/* Small Python objects leak at two lines alike; which of them needs the next arena is a matter of luck. */
static void a_few_arenas_of_a_line_that_stop_are_no_cache(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t lucky = add_site(&m, id, TIDE_SITE_MMAP, line_of("train.py", 31, "step")),
            other = add_site(&m, id, TIDE_SITE_MMAP, line_of("train.py", 32, "step"));
    for (int64_t i = 0; i < 300; i++) {
        int64_t arenas = i / 10, first = (i < 150 ? i : 150) / 30;
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 100 * MIB + i * MIB / 10);
        sample(&m, id, 100 * MIB + i * MIB / 10);
        hold(&m, lucky, first * MIB, first);
        hold(&m, other, (arenas - first) * MIB, arenas - first);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(answer.assessment->judged[0].verdict.kind, TIDE_LEAK);
    assert_null(strstr(print_blame(blame, &answer, text, sizeof text), "not a leak"));
    forget(blame, &answer);
}

static void call_sites_that_are_too_many_to_judge_are_said(void **state)
{
    enum { SITES = 300 };
    (void)state;
    char text[4096];
    int64_t sites[SITES];
    struct made m = begin();
    int64_t leaks = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, leaks);
    for (int k = 0; k < SITES; k++)
        sites[k] = add_site(&m, leaks, TIDE_SITE_MALLOC, line_of("train.py", k + 1, "step"));
    for (int64_t i = 0; i < 40; i++) {
        mark(&m, leaks, TIDE_MARK_STEP, i, "");
        look(&m, 1, 150 * MIB + i * MIB);
        sample(&m, leaks, 100 * MIB + i * MIB);
        for (int k = 0; k < SITES; k++)
            hold(&m, sites[k], i * (3500 + k), i);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->beyond, SITES - TIDE_BLAME_JUDGED);
    assert_non_null(strstr(print_blame(blame, &answer, text, sizeof text),
                           "44 more call sites rose, each by less than the 256 that were judged"));
    forget(blame, &answer);
}

static void a_rate_that_samples_tell_to_a_tenth_or_worse_says_so(void **state)
{
    (void)state;
    static const struct {
        double samples;
        const char *said;
    } cases[] = {
        {1, " (1 sample)"}, {70, " (70 samples)"}, {399, " (399 samples)"}, {400, ""}, {INFINITY, ""}};
    struct tide_blame blame = {.x_is_steps = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tide_culprit c = {.judged = true,
                                 .bytes_per_x = 1024,
                                 .blocks_per_x = 1,
                                 .factor = NAN,
                                 .samples = cases[i].samples};
        char said[128];
        struct tide_buf b = TIDE_BUF_HERE(sizeof said);
        tide_culprit_put_habit(&b, &blame, &c);
        snprintf(said, sizeof said, "1 block of 1.0 KiB per step, never freed%s", cases[i].said);
        assert_string_equal(tide_buf_view(&b), said);
    }
}

/* All of it is said to be freed only if nothing is kept: the line may leak one of thousands. */
static void nearly_all_is_not_all(void **state)
{
    (void)state;
    static const struct {
        double freed;
        const char *said;
    } cases[] = {{0.01, "never freed"},
                 {0.667, "67 % of what it allocates is freed"},
                 {0.9949, "99 % of what it allocates is freed"},
                 {0.9974, "99.7 % of what it allocates is freed"},
                 {0.9996, "over 99.9 % of what it allocates is freed"},
                 {1, "100 % of what it allocates is freed"}};
    struct tide_blame blame = {.x_is_steps = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tide_culprit c = {.factor = NAN, .freed_share = cases[i].freed};
        struct tide_buf b = TIDE_BUF_HERE(128);
        tide_culprit_put_habit(&b, &blame, &c);
        assert_string_equal(tide_buf_view(&b), cases[i].said);
    }
}

/* A line loads 50 MiB before the first step and keeps them; each step it takes 1 MiB and frees it. */
static void what_was_kept_before_the_first_step_counts_among_live_bytes(void **state)
{
    (void)state;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py");
    see_heap(&m, id);
    int64_t load = add_site(&m, id, TIDE_SITE_MALLOC, line_of("train.py", 7, "load"));
    for (int64_t i = 0; i < 100; i++) {
        look(&m, 1, 80 * MIB);
        sample(&m, id, 80 * MIB);
        if (i >= 10)
            mark(&m, id, TIDE_MARK_STEP, i - 10, "");
        hold_of(&m, load, 50 * MIB, 50, (50 + (i < 10 ? 0 : i - 9)) * MIB, 50 + (i < 10 ? 0 : i - 9));
    }
    struct tide_answer answer = finish_answer(&m);
    static const enum tide_blame_by orders[] = {TIDE_BLAME_PEAK, TIDE_BLAME_END};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct tide_blame_options options = {.by = orders[i], .most = 10};
        struct tide_blame *blame;
        struct tide_err err;
        ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
        assert_int_equal(blame->count, 1);
        assert_true(fabs(blame->culprits[0].freed_share - 90.0 / 140) < 0.01);
        tide_blame_free(blame);
    }
    tide_answer_release(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_explains_the_accused_is_a_culprit),
        cmocka_unit_test(what_is_freed_as_the_program_ends_is_still_the_culprit),
        cmocka_unit_test(what_the_hook_takes_is_no_culprit),
        cmocka_unit_test(what_was_imported_before_the_leak_is_no_culprit),
        cmocka_unit_test(what_was_there_all_along_is_no_part_of_peaks_that_rise),
        cmocka_unit_test(what_each_step_holds_more_of_is_the_culprit_of_a_jump),
        cmocka_unit_test(what_each_step_holds_more_of_on_a_gpu_is_the_culprit_there),
        cmocka_unit_test(tensors_of_one_gpu_are_not_those_of_another),
        cmocka_unit_test(a_jump_has_its_culprit_beside_what_is_undecided),
        cmocka_unit_test(so_has_a_jump_that_is_freed_again),
        cmocka_unit_test(what_moves_between_sites_is_no_culprit_of_what_is_undecided),
        cmocka_unit_test(the_rise_is_that_of_the_accused_in_its_steps),
        cmocka_unit_test(a_share_is_of_the_same_stretch),
        cmocka_unit_test(a_runtimes_heap_is_no_cache),
        cmocka_unit_test(a_few_arenas_of_a_line_that_stop_are_no_cache),
        cmocka_unit_test(a_line_that_leaks_late_is_the_culprit),
        cmocka_unit_test(call_sites_that_are_too_many_to_judge_are_said),
        cmocka_unit_test(a_rate_that_samples_tell_to_a_tenth_or_worse_says_so),
        cmocka_unit_test(nearly_all_is_not_all),
        cmocka_unit_test(what_was_kept_before_the_first_step_counts_among_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
