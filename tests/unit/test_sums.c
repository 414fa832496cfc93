/*
 * test_sums.c - what is said of a tree and of a role, whose memory is the sum of their processes'.
 */
#include "made_recording.h"

static const struct tide_judged *find(const struct tide_assessment *a, enum tide_subject subject)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->judged[i].subject == subject)
            return &a->judged[i];
    fail_msg("nothing of that kind was judged");
    return NULL;
}

static void assert_no_leak(const struct tide_assessment *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (tide_verdict_grows(&a->judged[i].verdict) || a->judged[i].verdict.kind == TIDE_RETENTION)
            fail_msg("%s: %s", a->judged[i].name, tide_verdict_name(a->judged[i].verdict.kind));
    assert_int_equal(tide_assessment_exit_code(a), 0);
}

/* A parent writes to the pages that it had in common with four workers, which do nothing. */
static void pages_that_idle_workers_no_longer_share_are_no_leak(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), worker[4];
    for (int i = 0; i < 4; i++)
        worker[i] = add_process(&m, 101 + i, parent, "python", "worker of train.py");
    for (int64_t step = 0; step < 300; step++) {
        int64_t unshared = step * 320 * 1024;
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        look_at_shared(&m, 5, 440 * MIB + unshared, 5 * 404 * MIB, 5 * 404 * MIB);
        sample(&m, parent, 400 * MIB);
        for (int i = 0; i < 4; i++)
            sample(&m, worker[i], 400 * MIB);
        if (step % 4)
            continue;
        read_shared(&m, parent, 84 * MIB + unshared, 4 * MIB + unshared);
        for (int i = 0; i < 4; i++)
            read_shared(&m, worker[i], 84 * MIB, 4 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_no_leak(a);
    tide_assessment_free(a);
}

/* Workers come and go before anybody has read them, while the parent, which has been read, goes up and down.
 */
static void workers_that_end_unread_do_not_lift_what_was_before(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), worker = 0, began_ns = 0;
    for (int64_t i = 0; i < 400; i++) {
        int64_t mine = 500 + (i % 10 == 5 ? 4 : 0), its = i % 10 < 5 ? 500 : 0;
        if (i % 10 == 0) {
            began_ns = m.t_ns;
            worker = add_process(&m, 1000 + i / 10, parent, "python", "helper");
        }
        look_at_shared(&m, its ? 2 : 1, mine * MIB, (mine + its + 4) * MIB, (mine + 4) * MIB);
        sample(&m, parent, mine * MIB);
        if (its)
            sample(&m, worker, its * MIB);
        if (i % 10 == 4)
            end_process(&m, worker, 1000 + i / 10, parent, "python", "helper", began_ns);
        if (i % 40 == 0)
            read_shared(&m, parent, mine * MIB, mine * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    const struct tide_judged *tree = find(a, TIDE_SUBJECT_TREE);
    assert_in_range((int64_t)tree->verdict.floor_first, 499 * MIB, 505 * MIB);
    assert_in_range((int64_t)tree->verdict.floor_last, 499 * MIB, 505 * MIB);
    tide_assessment_free(a);
}

/* Each of them may have touched another page of a library here and there. */
static void what_is_too_little_in_each_of_four_workers_is_too_little_in_all(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), worker[4];
    for (int i = 0; i < 4; i++)
        worker[i] = add_process(&m, 101 + i, parent, "worker", "worker");
    for (int64_t step = 0; step < 400; step++) {
        int64_t more = step * 57 * 1024 / 400 / 4096 * 4096;
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        look(&m, 5, 140 * MIB + 4 * more);
        sample(&m, parent, 100 * MIB);
        for (int i = 0; i < 4; i++)
            sample(&m, worker[i], 10 * MIB + more);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_no_leak(a);
    tide_assessment_free(a);
}

/* Nothing was seen of what is live, and the tree is not higher at the end than it was at the start. */
static void a_tree_that_jumps_and_falls_retains_nothing(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "server"),
            other = add_process(&m, 101, parent, "cat", "cat");
    for (int64_t i = 0; i < 400; i++) {
        int64_t kib = (500 << 10) - i * 100 + (i >= 200 ? 30 << 10 : 0);
        look(&m, 2, kib * 1024 + MIB);
        sample(&m, parent, kib * 1024);
        sample(&m, other, MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_true(find(a, TIDE_SUBJECT_TREE)->verdict.growth_bytes <= 0);
    assert_int_equal(find(a, TIDE_SUBJECT_TREE)->verdict.kind, TIDE_JUMP);
    tide_assessment_free(a);
}

/* A worker leaks, beside its parent and after helpers that were there before the first step. It ends between
 * the last step and the next look, and the parent after it. */
static void a_tree_is_explained_by_a_worker_that_ends_with_the_steps(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), helper[4], began_ns = 0;
    for (int i = 0; i < 4; i++)
        helper[i] = add_process(&m, 200 + i, parent, "cc", "cc");
    for (int i = 0; i < 8; i++) {
        look(&m, 5, 440 * MIB);
        sample(&m, parent, 40 * MIB);
        for (int k = 0; k < 4; k++)
            sample(&m, helper[k], 100 * MIB);
    }
    for (int i = 0; i < 4; i++)
        end_process(&m, helper[i], 200 + i, parent, "cc", "cc", 0);
    began_ns = m.t_ns;
    int64_t worker = add_process(&m, 101, parent, "worker", "worker");
    for (int64_t step = 0; step < 300; step++) {
        look(&m, 2, 50 * MIB + step * 200 * 1024);
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        sample(&m, parent, 40 * MIB);
        sample(&m, worker, 10 * MIB + step * 200 * 1024);
    }
    m.t_ns += 2000;
    end_process(&m, worker, 101, parent, "worker", "worker", began_ns);
    for (int i = 0; i < 8; i++) {
        look(&m, 1, 40 * MIB);
        sample(&m, parent, 40 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    const struct tide_judged *tree = find(a, TIDE_SUBJECT_TREE);
    assert_int_equal(find(a, TIDE_SUBJECT_PROCESS)->verdict.kind, TIDE_LEAK);
    assert_false(tree->unexplained);
    assert_int_equal(tree->verdict.kind, TIDE_LEAK);
    tide_assessment_free(a);
}

/* Of what a process has once the steps are over, as it takes itself apart, nothing is said. */
static void what_another_process_grows_by_is_said_as_of_the_last_step(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"),
            worker = add_process(&m, 101, parent, "loader", "loader");
    for (int64_t step = 0; step < 400; step++) {
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        look(&m, 2, 110 * MIB + step * 300 * 1024);
        sample(&m, parent, 100 * MIB + step * 100 * 1024);
        sample(&m, worker, 10 * MIB + step * 200 * 1024);
    }
    for (int i = 0; i < 4; i++) {
        look(&m, 2, 99 * MIB);
        sample(&m, parent, 9 * MIB);
    }
    struct tide_err err;
    look(&m, 0, 0);
    end_process(&m, parent, 100, 0, "python", "train.py", 0);
    end_process(&m, worker, 101, parent, "loader", "loader", 0);
    ok(tide_writer_meta_integer(m.writer, TIDE_META_EXIT, 0, &err), &err);
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].process, worker);
    assert_true(!strncmp(a->others, "1 other process grows too, by 100 KiB per step; 143 MiB RSS", 59));
    tide_assessment_free(a);
}

/* Two processes leak alike. Either alone would take twice as long to the limit as both do. */
static void the_limit_is_hit_by_all_that_leaks(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), worker[2];
    limit(&m, "host memory", 60 * GIB);
    worker[0] = add_process(&m, 101, parent, "loader", "loader");
    worker[1] = add_process(&m, 102, parent, "tokenizer", "tokenizer");
    for (int64_t step = 0; step < 400; step++) {
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        look(&m, 3, GIB + 2 * step * 200 * 1024);
        sample(&m, parent, GIB - 200 * MIB);
        for (int i = 0; i < 2; i++)
            sample(&m, worker[i], 100 * MIB + step * 200 * 1024);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    const struct tide_verdict *v = &a->judged[0].verdict;
    assert_int_equal(a->judged[0].subject, TIDE_SUBJECT_PROCESS);
    assert_true(fabs(v->slope / (200 * 1024) - 1) < 0.02);
    assert_true(fabs(v->limit_x / (59.0 * GIB / (400 * 1024)) - 1) < 0.02);
    assert_non_null(strstr(text, " by all processes together"));
    tide_assessment_free(a);
}

/* A worker begins with all that its parent has: that the parent has more by then is no news about it. */
static void new_workers_of_a_larger_parent_have_not_jumped(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py");
    for (int epoch = 0; epoch < 4; epoch++) {
        int64_t inherited = epoch < 2 ? 300 : 700, worker[2], began_ns = m.t_ns;
        for (int w = 0; w < 2; w++)
            worker[w] = add_process(&m, 1000 + 2 * epoch + w, parent, "python", "pt_data_worker");
        for (int i = 0; i < 60; i++) {
            mark(&m, parent, TIDE_MARK_STEP, 60 * epoch + i, "");
            look_at_shared(&m, 3, (inherited + 2 * 20) * MIB, 3 * (inherited + 4) * MIB,
                           (inherited + 4) * MIB);
            sample(&m, parent, inherited * MIB);
            for (int w = 0; w < 2; w++)
                sample(&m, worker[w], (inherited + (i ? 16 : 0)) * MIB);
            if (i == 30)
                read_shared(&m, worker[0], (inherited / 3 + 20) * MIB, 20 * MIB);
        }
        for (int w = 0; w < 2; w++)
            end_process(&m, worker[w], 1000 + 2 * epoch + w, parent, "python", "pt_data_worker", began_ns);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_not_equal(find(a, TIDE_SUBJECT_ROLE)->verdict.kind, TIDE_JUMP);
    assert_int_not_equal(a->judged[0].subject, TIDE_SUBJECT_ROLE);
    tide_assessment_free(a);
}

/* A script runs for some of 80 looks before it starts a program. */
static struct tide_assessment *script(int64_t before, int64_t program, int first, char *text, size_t size)
{
    struct made m = begin();
    int64_t shell = add_process(&m, 100, 0, "bash", "bash"), python = 0;
    for (int i = 0; i < 80; i++) {
        if (i == first)
            python = add_process(&m, 101, shell, "python", "train.py");
        look(&m, python ? 2 : 1, before + (python ? program : 0));
        sample(&m, shell, before);
        if (python)
            sample(&m, python, program);
    }
    return finish(&m, text, size);
}

static void a_script_that_starts_its_program_has_not_jumped(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = script(4 * MIB, 300 * MIB, 20, text, sizeof text);
    const struct tide_judged *tree = find(a, TIDE_SUBJECT_TREE);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_FLAT);
    assert_string_equal(a->judged[0].role, "train.py");
    assert_int_equal(tree->verdict.kind, TIDE_FLAT);
    assert_in_range((int64_t)tree->verdict.floor_first, 300 * MIB, 305 * MIB);
    tide_assessment_free(a);
}

static void a_program_that_comes_late_or_beside_a_larger_one_is_a_jump(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *late = script(4 * MIB, 300 * MIB, 50, text, sizeof text);
    assert_int_equal(find(late, TIDE_SUBJECT_TREE)->verdict.kind, TIDE_JUMP);
    tide_assessment_free(late);
    struct tide_assessment *beside = script(400 * MIB, 300 * MIB, 20, text, sizeof text);
    assert_int_equal(find(beside, TIDE_SUBJECT_TREE)->verdict.kind, TIDE_JUMP);
    tide_assessment_free(beside);
}

/* Workers of 250 MiB come one by one and stay. Of whatever size the last is, each came when there was less.
 */
static void workers_that_come_one_by_one_and_stay_leak(void **state)
{
    (void)state;
    static const int comes[] = {0, 70, 160, 280, 310, 480};
    enum { WORKERS = sizeof comes / sizeof *comes };
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), workers[WORKERS];
    for (int i = 0, count = 0; i < 600; i++) {
        for (; count < WORKERS && comes[count] <= i; count++)
            workers[count] = add_process(&m, 101 + count, parent, "worker", "worker");
        look(&m, count + 1, (10 + 250 * count) * MIB);
        sample(&m, parent, 10 * MIB);
        for (int k = 0; k < count; k++)
            sample(&m, workers[k], 250 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_int_equal(find(a, TIDE_SUBJECT_TREE)->verdict.kind, TIDE_LEAK);
    assert_true(find(a, TIDE_SUBJECT_TREE)->verdict.growth_bytes > 1000.0 * MIB);
    tide_assessment_free(a);
}

/* A trainer grows until look 70 of 160; a compiler has more than it for three looks, and is gone. */
static void a_helper_that_is_the_highest_is_not_the_program(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t main = add_process(&m, 100, 0, "python", "train.py"), helper = 0, began_ns = 0;
    for (int i = 0; i < 160; i++) {
        int64_t size = (100 + 4 * (i < 70 ? i : 70)) * MIB;
        if (i == 74) {
            began_ns = m.t_ns;
            helper = add_process(&m, 101, main, "cc1", "cc1");
        }
        look(&m, helper ? 2 : 1, size + (helper ? 1200 * MIB : 0));
        sample(&m, main, size);
        if (helper)
            sample(&m, helper, 1200 * MIB);
        if (i == 76) {
            end_process(&m, helper, 101, main, "cc1", "cc1", began_ns);
            helper = 0;
        }
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_not_equal(find(a, TIDE_SUBJECT_TREE)->verdict.kind, TIDE_FLAT);
    assert_true(find(a, TIDE_SUBJECT_TREE)->verdict.growth_bytes > 200.0 * MIB);
    tide_assessment_free(a);
}

/* Two programs one after the other: the tree never has two processes. */
static void a_helper_that_came_before_is_not_the_answer(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t helper = add_process(&m, 100, 0, "sleep", "sleep"), program = 0, began_ns = m.t_ns;
    for (int i = 0; i < 80; i++) {
        look(&m, 1, program ? 300 * MIB : MIB);
        if (i < 10)
            sample(&m, helper, MIB);
        if (i == 10) {
            end_process(&m, helper, 100, 0, "sleep", "sleep", began_ns);
            program = add_process(&m, 101, 0, "python", "train.py");
        }
        if (program)
            sample(&m, program, 300 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_FLAT);
    assert_string_equal(a->judged[0].role, "train.py");
    tide_assessment_free(a);
}

/* Ten pools of two forked workers, each of which takes 22 MiB as it begins and no more. In the first six
 * epochs the first look at them came after that, in the last four before. */
static void workers_that_are_first_seen_late_have_no_less_than_others(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py");
    for (int epoch = 0; epoch < 10; epoch++) {
        mark(&m, parent, TIDE_MARK_EPOCH, epoch, "");
        int64_t worker[2], began_ns = m.t_ns;
        for (int w = 0; w < 2; w++)
            worker[w] = add_process(&m, 1000 + 2 * epoch + w, parent, "python", "worker of train.py");
        for (int i = 0; i < 16; i++) {
            int64_t taken = i || epoch < 6 ? 22 : 0;
            look(&m, 3, (170 + 2 * taken) * MIB);
            sample(&m, parent, 130 * MIB);
            for (int w = 0; w < 2; w++)
                sample(&m, worker[w], (130 + taken) * MIB);
            if (i == 8)
                read_shared(&m, worker[0], 77 * MIB, (taken + 6) * MIB);
        }
        for (int w = 0; w < 2; w++)
            end_process(&m, worker[w], 1000 + 2 * epoch + w, parent, "python", "worker of train.py",
                        began_ns);
        look(&m, 1, 130 * MIB);
        sample(&m, parent, 130 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    const struct tide_judged *role = find(a, TIDE_SUBJECT_ROLE);
    assert_int_equal(role->crest.epochs, 0);
    assert_int_equal(role->verdict.spikes.typical_bytes, 2 * 28 * MIB);
    assert_int_equal(role->verdict.spikes.largest_bytes, 2 * 28 * MIB);
    tide_assessment_free(a);
}

/* Between -1 and 1, slowly, the same on every machine. */
static double sway(int64_t i)
{
    return (sin((double)i / 9) + sin((double)i / 23) + sin((double)i / 57)) / 3;
}

/* Of two ranks one keeps what it was given back, and of the other it is too early to tell. */
static void a_job_does_not_leak_when_none_of_its_ranks_does(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t launcher = add_process(&m, 99, 0, "torchrun", "torchrun"),
            kept = add_process(&m, 100, launcher, "python", "train.py"),
            unsure = add_process(&m, 101, launcher, "python", "train.py");
    see_heap(&m, kept);
    for (int64_t i = 0; i < 240; i++) {
        int64_t more = i * 40 * 1024, wavering = (int64_t)(6 * sway(i) * MIB);
        mark(&m, kept, TIDE_MARK_STEP, i, "");
        look(&m, 3, 440 * MIB + 2 * more + wavering);
        sample(&m, launcher, 40 * MIB);
        sample(&m, kept, 200 * MIB + more);
        sample(&m, unsure, 200 * MIB + more + wavering);
        hold_in_all(&m, kept, 150 * MIB, more);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    for (size_t i = 0; i < a->count; i++)
        assert_int_not_equal(a->judged[i].verdict.kind, TIDE_LEAK);
    assert_int_equal(a->judged[0].process, kept);
    tide_assessment_free(a);
}

/* A compiler that is called for one file after another, each growing to another size; one look in ten falls
 * between two of them. The verdict on all of them, with sizes that become larger by the step. */
static enum tide_verdict_kind compiling(int64_t larger, char *text, size_t size)
{
    struct made m = begin();
    int64_t make = add_process(&m, 100, 0, "make", "make"), compiler = 0, began_ns = 0;
    for (int64_t i = 0; i < 130; i++) {
        int64_t file = i / 13, grown = (i % 13 + 1) * (3 + file * 7 % 4 + file * larger) * MIB;
        bool running = i % 13 < 12;
        if (i % 13 == 0) {
            began_ns = m.t_ns;
            compiler = add_process(&m, 200 + file, make, "cc1", "cc1");
        }
        look(&m, running ? 2 : 1, (running ? grown : 0) + MIB);
        sample(&m, make, MIB);
        if (running)
            sample(&m, compiler, grown);
        if (i % 13 == 11)
            end_process(&m, compiler, 200 + file, make, "cc1", "cc1", began_ns);
    }
    struct tide_assessment *a = finish(&m, text, size);
    enum tide_verdict_kind kind = find(a, TIDE_SUBJECT_ROLE)->verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static void processes_that_come_and_go_alike_are_spikes(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(compiling(0, text, sizeof text), TIDE_SPIKES);
    assert_non_null(strstr(text, "10 of about"));
    assert_int_not_equal(compiling(20, text, sizeof text), TIDE_SPIKES);
}

/* A shell starts a trainer six times, which takes `more` KiB more in each of its first `until` steps.
 * What it prints comes through the shell. */
static struct tide_assessment *made_of_restarts(int64_t steps, int64_t more, int64_t until, char *text,
                                                size_t size)
{
    struct made m = begin();
    int64_t shell = add_process(&m, 100, 0, "sh", "sh"), step = 0;
    limit(&m, "host memory", 60 * GIB);
    for (int64_t life = 0; life < 6; life++) {
        int64_t began_ns = m.t_ns, trainer = add_process(&m, 200 + life, shell, "python", "train.py");
        for (int64_t i = 0; i < steps; i++) {
            int64_t held = 20 * MIB + (i < until ? i : until) * more * 1024;
            mark(&m, shell, TIDE_MARK_STEP, step++, "");
            look(&m, 2, held + MIB);
            sample(&m, shell, MIB);
            sample(&m, trainer, held);
        }
        end_process(&m, trainer, 200 + life, shell, "python", "train.py", began_ns);
    }
    return finish(&m, text, size);
}

static void a_trainer_that_leaks_whenever_it_is_started_again_leaks(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = made_of_restarts(60, 500, 60, text, sizeof text);
    const struct tide_judged *worst = &a->judged[0];
    assert_int_equal(worst->subject, TIDE_SUBJECT_ROLE);
    assert_int_equal(worst->verdict.kind, TIDE_LEAK);
    assert_int_equal(worst->each, 6);
    assert_true(fabs(worst->verdict.slope / (500 * 1024) - 1) < 0.02);
    assert_int_equal(tide_assessment_exit_code(a), 1);
    assert_non_null(strstr(text, "LEAK in 1 x train.py (6 in all)\n"));
    assert_non_null(strstr(text, ", in each of 6 processes while it lives (the median)\n"));
    assert_null(strstr(text, "limit ")); /* it ends before */
    tide_assessment_free(a);
}

/* One is level from its fifth step on, and one ends when its growth may still be its start. */
static void a_trainer_that_only_starts_whenever_it_is_started_again_does_not_leak(void **state)
{
    (void)state;
    static const int64_t lives[][2] = {{60, 5}, {20, 20}};
    for (size_t i = 0; i < 2; i++) {
        char text[2048];
        struct tide_assessment *a = made_of_restarts(lives[i][0], 500, lives[i][1], text, sizeof text);
        assert_int_equal(find(a, TIDE_SUBJECT_ROLE)->verdict.kind, TIDE_SPIKES);
        assert_int_equal(tide_assessment_exit_code(a), 0);
        tide_assessment_free(a);
    }
}

/* Workers that are forked one after another, three at once, from a parent of 400 MiB, of which only the first
 * few are read: what they have of their own, and how many there are at a time, is said of all. */
static void forked_workers_that_come_and_go_are_counted_without_their_parents_pages(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), worker[3] = {0};
    for (int64_t i = 0; i < 150; i++) {
        int64_t there = i < 2 ? i + 1 : 3, gone = worker[i % 3];
        mark(&m, parent, TIDE_MARK_STEP, i, "");
        worker[i % 3] = add_process(&m, 1000 + i, parent, "python", "worker");
        look_at_shared(&m, 1 + there, (400 + 2 * there) * MIB, (1 + there) * 404 * MIB, 404 * MIB);
        if (gone)
            end_process(&m, gone, 1000 + i - 3, parent, "python", "worker", m.t_ns - 4 * 250000000);
        sample(&m, parent, 400 * MIB);
        for (int64_t w = 0; w < there; w++) {
            sample(&m, worker[w], 402 * MIB);
            if (i < 9)
                read_shared(&m, worker[w], 102 * MIB, 2 * MIB);
        }
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(find(a, TIDE_SUBJECT_ROLE)->verdict.kind, TIDE_SPIKES);
    assert_in_range((int64_t)find(a, TIDE_SUBJECT_ROLE)->verdict.spikes.largest_bytes, MIB, 3 * MIB);
    assert_string_equal(a->others, "3 x worker steady, 1.2 GiB RSS but 6.0 MiB counted once (PSS)");
    tide_assessment_free(a);
}

/* Four workers that copy half of their parent's 200 MiB in the run, and were read five times. */
static void pages_that_workers_copy_are_said(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), worker[4];
    for (int i = 0; i < 4; i++)
        worker[i] = add_process(&m, 101 + i, parent, "python", "worker");
    for (int64_t step = 0; step < 200; step++) {
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        look_at_shared(&m, 5, 200 * MIB + step * 2 * MIB, GIB, GIB);
        sample(&m, parent, 200 * MIB);
        for (int i = 0; i < 4; i++) {
            sample(&m, worker[i], 200 * MIB);
            if (step % 50 == 10 || step == 199)
                read_shared(&m, worker[i], 40 * MIB + step * MIB / 2, step * MIB / 2);
        }
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_UNDECIDED); /* they go on, as far as is known */
    assert_true(a->judged[0].own_pages);
    assert_string_equal(a->others, "3 x worker and 1 more steady, but 284 MiB is no longer shared, "
                                   "816 MiB RSS but 622 MiB counted once (PSS)");
    tide_assessment_free(a);
}

/* A worker that maps a file and reads it once, in order, or whose libraries another program had open until it
 * ended: USS rises by pages of files, which are page cache. */
static void pages_of_files_are_not_a_workers_own(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        char text[2048];
        struct made m = begin();
        int64_t parent = add_process(&m, 100, 0, "python", "train.py"),
                worker = add_process(&m, 101, parent, "python", "worker");
        for (int64_t step = 0; step < 300; step++) {
            int64_t file = reads ? step * MIB / 2 : 0, alone = step < 150 ? 0 : 15 * MIB;
            mark(&m, parent, TIDE_MARK_STEP, step, "");
            look_at_shared(&m, 2, 40 * MIB, 80 * MIB + file, 80 * MIB + file);
            sample(&m, parent, 40 * MIB);
            put_sample(&m, (struct tide_sample){
                               .process = worker, .anon_bytes = 20 * MIB, .file_bytes = 20 * MIB + file});
            if (step % 10 == 5)
                read_shared(&m, worker, 22 * MIB + file + alone, reads ? 5 * MIB + file : 21 * MIB + alone);
        }
        struct tide_assessment *a = finish(&m, text, sizeof text);
        assert_int_equal(a->judged[0].verdict.kind, TIDE_FLAT);
        tide_assessment_free(a);
    }
}

/* A worker copies its parent's pages, and on a busy machine that is read a few times only. */
static void a_worker_that_goes_on_copying_is_not_flat(void **state)
{
    (void)state;
    for (int64_t until = 100; until <= 300; until += 200) {
        char text[2048];
        struct made m = begin();
        int64_t parent = add_process(&m, 100, 0, "python", "train.py"),
                worker = add_process(&m, 101, parent, "python", "worker");
        for (int64_t step = 0; step < 300; step++) {
            int64_t copied = (step < until ? step : until) * MIB;
            mark(&m, parent, TIDE_MARK_STEP, step, "");
            look_at_shared(&m, 2, 400 * MIB + copied, 2 * 400 * MIB, 2 * 400 * MIB);
            sample(&m, parent, 400 * MIB);
            sample(&m, worker, 400 * MIB);
            if (step % 40 == 20)
                read_shared(&m, worker, 200 * MIB + copied / 2, copied);
        }
        struct tide_assessment *a = finish(&m, text, sizeof text);
        /* It is flat if it stopped copying long ago. */
        assert_int_equal(a->judged[0].verdict.kind, until < 300 ? TIDE_FLAT : TIDE_UNDECIDED);
        tide_assessment_free(a);
    }
}

/* A parent whose pages are its own again when its workers have ended has copied nothing. */
static void a_parent_whose_workers_end_copies_nothing(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"),
            worker = add_process(&m, 101, parent, "python", "worker");
    for (int64_t step = 0; step < 200; step++) {
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        look_at_shared(&m, 2, 200 * MIB + step * MIB, GIB, GIB);
        sample(&m, parent, 200 * MIB);
        sample(&m, worker, 200 * MIB + step * MIB);
        if (step == 20 || step == 180)
            read_shared(&m, parent, 150 * MIB, step * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_true(!strncmp(a->others, "1 other process steady, 204 MiB RSS", 35));
    tide_assessment_free(a);
}

/* Three workers that leak are named as such, and not as the tree they make up nearly all of. */
static void workers_that_leak_together_come_before_the_tree(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), worker[3];
    for (int i = 0; i < 3; i++)
        worker[i] = add_process(&m, 101 + i, parent, "worker", "worker");
    for (int64_t step = 0; step < 300; step++) {
        mark(&m, parent, TIDE_MARK_STEP, step, "");
        look(&m, 4, 400 * MIB + step * 310 * 1024);
        sample(&m, parent, 100 * MIB + step * 10 * 1024);
        for (int i = 0; i < 3; i++)
            sample(&m, worker[i], 100 * MIB + step * 100 * 1024);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_int_equal(a->judged[0].subject, TIDE_SUBJECT_ROLE);
    tide_assessment_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_that_idle_workers_no_longer_share_are_no_leak),
        cmocka_unit_test(workers_that_end_unread_do_not_lift_what_was_before),
        cmocka_unit_test(what_is_too_little_in_each_of_four_workers_is_too_little_in_all),
        cmocka_unit_test(a_tree_that_jumps_and_falls_retains_nothing),
        cmocka_unit_test(a_tree_is_explained_by_a_worker_that_ends_with_the_steps),
        cmocka_unit_test(what_another_process_grows_by_is_said_as_of_the_last_step),
        cmocka_unit_test(the_limit_is_hit_by_all_that_leaks),
        cmocka_unit_test(a_script_that_starts_its_program_has_not_jumped),
        cmocka_unit_test(a_program_that_comes_late_or_beside_a_larger_one_is_a_jump),
        cmocka_unit_test(a_helper_that_came_before_is_not_the_answer),
        cmocka_unit_test(workers_that_come_one_by_one_and_stay_leak),
        cmocka_unit_test(a_helper_that_is_the_highest_is_not_the_program),
        cmocka_unit_test(new_workers_of_a_larger_parent_have_not_jumped),
        cmocka_unit_test(workers_that_are_first_seen_late_have_no_less_than_others),
        cmocka_unit_test(a_job_does_not_leak_when_none_of_its_ranks_does),
        cmocka_unit_test(processes_that_come_and_go_alike_are_spikes),
        cmocka_unit_test(a_trainer_that_leaks_whenever_it_is_started_again_leaks),
        cmocka_unit_test(a_trainer_that_only_starts_whenever_it_is_started_again_does_not_leak),
        cmocka_unit_test(forked_workers_that_come_and_go_are_counted_without_their_parents_pages),
        cmocka_unit_test(pages_that_workers_copy_are_said),
        cmocka_unit_test(a_parent_whose_workers_end_copies_nothing),
        cmocka_unit_test(a_worker_that_goes_on_copying_is_not_flat),
        cmocka_unit_test(pages_of_files_are_not_a_workers_own),
        cmocka_unit_test(workers_that_leak_together_come_before_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
