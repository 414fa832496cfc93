/*
 * Steps found in output: what is one, what is not, which of several counters is believed, and that the
 * numbers never fall.
 */
#include "cli/stepwords.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct run {
    struct tide_stepwords *words;
    int64_t now;
    int64_t steps[4096], epochs[256];
    size_t step_count, epoch_count;
    int stage;
};

static struct run *begin(const char *regex)
{
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    assert_int_equal(tide_stepwords_new(regex, &run->words, NULL), 0);
    return run;
}

static void take(struct run *run)
{
    struct tide_stepwords_found found[2 * TIDE_STEPWORDS_TAKE];
    size_t count = tide_stepwords_take(run->words, found);
    size_t steps = 0;
    for (size_t i = 0; i < count; i++) {
        if (i)
            assert_true(found[i].t_ns >= found[i - 1].t_ns);
        if (found[i].kind == TIDE_MARK_STEP) {
            assert_true(run->step_count < 4096);
            if (run->step_count && found[i].stage == run->stage)
                assert_true(found[i].number > run->steps[run->step_count - 1]);
            run->stage = found[i].stage;
            run->steps[run->step_count++] = found[i].number;
            steps++;
        } else {
            assert_int_equal(found[i].kind, TIDE_MARK_EPOCH);
            run->epochs[run->epoch_count++] = found[i].number;
        }
    }
    assert_true(steps <= TIDE_STEPWORDS_TAKE);
}

static void say(struct run *run, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tide_stepwords_feed(run->words, 0, text, (size_t)len, ++run->now);
    take(run);
}

static void end(struct run *run)
{
    tide_stepwords_end(run->words);
    take(run);
}

static void finish(struct run *run)
{
    tide_stepwords_free(run->words);
    free(run);
}

static int64_t last_step(const struct run *run)
{
    return run->step_count ? run->steps[run->step_count - 1] : -1;
}

/* Says the line for 1..5, with the number put where the format has it, and expects the steps 1..5. */
static void expect_counted(const char *format)
{
    struct run *run = begin(NULL);
    for (int i = 1; i <= 5; i++) {
        char line[512];
        snprintf(line, sizeof line, format, i);
        say(run, "%s\n", line);
    }
    if (run->step_count != 5 || last_step(run) != 5)
        fail_msg("'%s': %zu steps, the last %lld", format, run->step_count, (long long)last_step(run));
    finish(run);
}

static void expect_no_step(const char *format)
{
    struct run *run = begin(NULL);
    for (int i = 1; i <= 9; i++) {
        char line[512];
        snprintf(line, sizeof line, format, i);
        say(run, "%s\n", line);
    }
    if (run->step_count)
        fail_msg("'%s': a step, %lld", format, (long long)run->steps[0]);
    finish(run);
}

static void the_usual_ways_of_printing_a_step_are_known(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "step %d",
        "Step: %d",
        "step=%d, loss=2.31",
        "STEP %d | loss 0.5",
        "[step %d] loss 3",
        "Step [%d/1000], Loss: 0.3",
        "step %d/19560 | train loss 3.1 | norm 0.2 | lr 1e-4 | 120.2 ms",
        "{'step': %d, 'loss': 2.5}",
        "{\"step\": %d, \"loss\": 2.5}",
        "iter %d/100",
        "iter %d: loss 4.1, time 12.34ms, mfu 3.1%%",
        "iteration %d",
        "Iteration #%d done",
        "global_step %d",
        "trainer/global_step=%d",
        "train_step: %d",
        "training step %d of 100",
        "INFO:root:2026-01-01 12:00:00 step %d done in 2.1s",
        "Epoch: [0][  %d/5005]\tTime  0.1 ( 0.2)\tLoss 6.9",
        "Epoch(train)  [1][  %d/5005]  lr: 1e-3",
        "Iter(train) [    %d/90000]  lr: 1e-2",
        "| epoch   1 |   %d/ 2983 batches | lr 20.00 | ms/batch 12.1",
        "Batch %d/500 loss 0.1",
        "  1%%|1         | %d/1000 [00:01<16:39,  1.00s/it]",
        "Epoch 3:   1%%|\xe2\x96\x8f         | %d/1000 [00:01<16:39,  1.00it/s, loss=0.1, v_num=0]",
        "%dit [00:05, 1.00it/s]",
        "%d/1000 [==>...........................] - ETA: 12s - loss: 0.4",
        "\x1b[1m%d/1000\x1b[0m \x1b[32m\xe2\x94\x81\xe2\x94\x81\x1b[0m 12s 10ms/step - loss: 0.4",
        "Epoch 0/9 \xe2\x94\x81\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81 %d/1000 0:00:12 \xe2\x80\xa2 0:00:00 3.2it/s",
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        expect_counted(formats[i]);
}

static void settings_times_and_side_work_are_no_steps(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "max_steps=%d",
        "num_steps: %d",
        "warmup_step %d",
        "warmup steps %d",
        "step time: %d ms",
        "step %dms",
        "step %d ms",
        "step 0.%d s",
        "time per step: %d",
        "tokens/step %d",
        "step %d%% done",
        "eval step %d",
        "Validation: step %d",
        "val_step=%d",
        "footstep %d",
        "stepping %d",
        "Downloading shards:  10%%|#   | %d/10 [00:01<00:09,  1.0it/s]",
        "Map: 10%%|#   | %d/10000 [00:01<00:09, 1000 examples/s]",
        "Validation DataLoader 0: 10%%|#   | %d/10 [00:01<00:09,  1.0it/s]",
        "Evaluating: 10%%|#   | %d/10 [00:01<00:09,  1.0it/s]",
        "Iter(val) [ %d/500]",
        "test: %d/10 steps",
        "http://example.com/%d/1000",
        "date 2026/%d/15 [note]",
        "epoch_time %d",
        "[%d/120] Building CXX object src/main.cc.o",
        "%d/100 files copied",
        "Validation 1 [%d/100] loss 0.2",
        "Epoch [%d/10] loss: 0.3",
        "fold %d/10 loss 0.3",
        "ran it %d times",
        "Test set: Average loss: 0.04, Accuracy: %d/10000 (98%%)",
        "2026/%d/15 loss of signal",
        "%d",
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        expect_no_step(formats[i]);
}

/* Puts back what the fixture spells out. Returns the length. */
static size_t unspell(char *text)
{
    size_t used = 0;
    for (const char *p = text; *p; p++) {
        bool spelled = p[0] == '\\' && p[1];
        text[used++] = !spelled ? *p : p[1] == 'r' ? '\r' : p[1] == 'e' ? '\x1b' : p[1];
        p += spelled;
    }
    return used;
}

static void end_part(struct run *run, const char *who, int64_t steps, size_t epochs)
{
    end(run);
    int64_t last = run->step_count ? last_step(run) : 0;
    if (last != steps || run->epoch_count != epochs)
        fail_msg("%s: the last step is %lld, not %lld; %zu epochs, not %zu", who, (long long)last,
                 (long long)steps, run->epoch_count, epochs);
    finish(run);
}

static void what_frameworks_print_is_known(void **state)
{
    (void)state;
    FILE *in = fopen("tests/fixtures/progress.txt", "r");
    assert_non_null(in);
    struct run *run = NULL;
    static char line[1 << 16], who[512];
    long long steps = 0, wanted = 0;
    size_t epochs = 0, wanted_epochs = 0, parts = 0;
    while (fgets(line, sizeof line, in)) {
        char *colon = strncmp(line, "=== ", 4) ? NULL : strrchr(line, ':');
        if (!colon || sscanf(colon, ": %lld steps, %zu epochs", &steps, &epochs) != 2) {
            if (run) {
                tide_stepwords_feed(run->words, 0, line, unspell(line), ++run->now);
                take(run);
            }
            continue;
        }
        if (run)
            end_part(run, who, wanted, wanted_epochs);
        snprintf(who, sizeof who, "%.*s", (int)(colon - line), line);
        wanted = steps;
        wanted_epochs = epochs;
        run = begin(NULL);
        parts++;
    }
    end_part(run, who, wanted, wanted_epochs);
    fclose(in);
    assert_true(parts > 20);
}

static void a_single_mention_is_not_believed(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    say(run, "resuming from step 5000\nstarting\nbest step 4000\n");
    end(run);
    assert_int_equal(run->step_count, 0);
    finish(run);
}

static void the_sightings_before_belief_are_not_lost(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    tide_stepwords_feed(run->words, 0, "step 10\n", 8, 100);
    tide_stepwords_feed(run->words, 0, "step 20\n", 8, 200);
    tide_stepwords_feed(run->words, 0, "step 30\n", 8, 300);
    struct tide_stepwords_found found[2 * TIDE_STEPWORDS_TAKE];
    assert_int_equal(tide_stepwords_take(run->words, found), 3);
    assert_int_equal(found[0].number, 10);
    assert_int_equal(found[0].t_ns, 100);
    assert_int_equal(found[2].number, 30);
    finish(run);
}

static void a_count_that_begins_again_each_epoch_is_added_up(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int epoch = 0; epoch < 5; epoch++)
        for (int i = 1; i <= 100; i++)
            say(run, "epoch %d step %d loss 1\n", epoch, i);
    assert_int_equal(last_step(run), 500);
    assert_int_equal(run->step_count, 500);
    assert_int_equal(run->epoch_count, 5);
    finish(run);

    run = begin(NULL);
    for (int epoch = 0; epoch < 5; epoch++)
        for (int i = 0; i < 1000; i += 50)
            say(run, "step %d\n", i);
    assert_int_equal(last_step(run), 4950);
    finish(run);

    run = begin(NULL);
    for (int epoch = 0; epoch < 3; epoch++)
        for (int i = 0; i <= 40; i++)
            say(run, "\rEpoch %d: %d%%|##  | %d/40 [00:01<00:02, 9.8it/s]", epoch, i, i);
    end(run);
    assert_int_equal(last_step(run), 120);
    finish(run);
}

static void several_ranks_out_of_order_do_not_begin_again(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int i = 0; i < 200; i++)
        for (int rank = 0; rank < 4; rank++) {
            int lag = (i * 7 + rank * 3) % 3;
            say(run, "[rank %d] step %d loss 0.1\n", rank, i > lag ? i - lag : 0);
        }
    assert_true(last_step(run) >= 197 && last_step(run) <= 199);
    finish(run);
}

static void bars_of_training_and_validation_are_not_mixed(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int epoch = 0; epoch < 4; epoch++) {
        for (int i = 0; i <= 300; i++)
            say(run, "\r %d%%|##  | %d/300 [00:01<00:02, 9.8it/s]", i / 3, i);
        for (int i = 0; i <= 50; i++)
            say(run, "\r %d%%|##  | %d/50 [00:01<00:02, 9.8it/s]", i * 2, i);
    }
    end(run);
    assert_int_equal(last_step(run), 1200);
    finish(run);
}

static void a_bar_of_preparation_gives_way_to_the_training_loop(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int i = 0; i <= 60; i++)
        say(run, "\r %d%%|##  | %d/60 [00:01<00:02, 9.8it/s]", i, i);
    for (int i = 0; i <= 2000; i++)
        say(run, "\r %d%%|##  | %d/2000 [00:01<00:02, 9.8it/s]", i / 20, i);
    end(run);
    assert_int_equal(last_step(run), 2000);
    finish(run);
}

/* Preprocessing that is shown as a bar for 6 s, then steps that are printed every half a second. */
static void steps_behind_a_finished_bar_are_a_stage_of_their_own(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int i = 0; i <= 600; i++, run->now += 10000000)
        say(run, "\rPreprocessing: %d%%|##  | %d/600 [00:01<00:02, 9.8it/s]", i / 6, i);
    say(run, "\n");
    for (int i = 1; i <= 50; i++, run->now += 500000000)
        say(run, "step %d/50 loss 0.3\n", i);
    end(run);
    assert_int_equal(run->stage, 2);
    assert_int_equal(last_step(run), 50);
    size_t first = 0;
    while (run->steps[first] != 600)
        first++;
    assert_int_equal(run->steps[first + 1], 1); /* those before it was believed are not lost */
    assert_true(run->step_count - first > 40);
    finish(run);
}

/* Bars without a name: validation is shorter than the epoch before it, and the next epoch has another size.
 */
static void bars_of_epochs_and_validation_stay_one_stage(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int epoch = 0; epoch < 4; epoch++) {
        for (int i = 0; i <= 100 + 40 * epoch; i++, run->now += 100000000)
            say(run, "\r %d%%|##  | %d/%d [00:01<00:02, 9.8it/s]", i, i, 100 + 40 * epoch);
        for (int i = 0; i <= 30; i++, run->now += 100000000)
            say(run, "\r %d%%|##  | %d/30 [00:01<00:02, 9.8it/s]", i, i);
    }
    end(run);
    assert_int_equal(run->stage, 1);
    finish(run);
}

/* Two stages that are shown as bars without a name, at the same pace. */
static void steps_of_a_second_bar_without_a_name_are_not_lost(void **state)
{
    static const int totals[] = {150, 300, 900};
    (void)state;
    for (size_t k = 0; k < sizeof totals / sizeof *totals; k++) {
        struct run *run = begin(NULL);
        for (int i = 0; i <= 100; i++, run->now += 100000000)
            say(run, "\r %d%%|##  | %d/100 [00:01<00:02, 9.8it/s]", i, i);
        say(run, "\n");
        for (int i = 0; i <= totals[k]; i++, run->now += 100000000)
            say(run, "\r %d%%|##  | %d/%d [00:01<00:02, 9.8it/s]", i, i, totals[k]);
        end(run);
        int before = totals[k] > 200 ? 0 : 100; /* a much longer one counts from the beginning */
        assert_int_equal(run->stage, before ? 1 : 2);
        assert_int_equal(last_step(run), before + totals[k]);
        size_t early = 0; /* of the steps before the second bar was believed */
        for (size_t i = 101; i < run->step_count; i++)
            early += run->steps[i] > before && run->steps[i] <= before + 100;
        assert_true(early >= 16);
        finish(run);
    }
}

/* A named bar of training that is shorter than the one of validation beside it. */
static void training_is_believed_again_when_it_comes_back(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int epoch = 0; epoch < 4; epoch++) {
        for (int i = 0; i <= 20; i++, run->now += 100000000)
            say(run, "\r %d%%|##  | %d/20 [00:01<00:02, 9.8it/s]", i, i);
        for (int i = 0; i <= 60; i++, run->now += 20000000 + 100000000 * (epoch % 2))
            say(run, "\r Check: %d%%|##  | %d/60 [00:01<00:02, 9.8it/s]", i, i);
    }
    end(run);
    assert_int_equal(run->stage, 1);
    assert_int_equal(last_step(run), 80);
    finish(run);
}

static void an_outer_bar_of_epochs_does_not_hide_the_inner_one(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int epoch = 0; epoch < 6; epoch++) {
        say(run, "\rEpoch:  %d%%|#  | %d/6 [00:01<00:02, 9.8s/it]", epoch, epoch);
        for (int i = 0; i <= 100; i++)
            say(run, "\n\rIteration: %d%%|##  | %d/100 [00:01<00:02, 9.8it/s]\x1b[A", i, i);
    }
    end(run);
    assert_int_equal(last_step(run), 600);
    finish(run);
}

static void a_global_step_is_believed_over_a_step_of_the_epoch(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int i = 0; i < 300; i++)
        say(run, "step %d\nglobal_step: %d\n", i % 100, i);
    assert_int_equal(last_step(run), 299);
    finish(run);
}

static void one_absurd_number_is_ignored_until_it_is_repeated(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    for (int i = 0; i < 100; i++) {
        if (i == 50)
            say(run, "step 99999999\n");
        say(run, "step %d\n", i);
    }
    assert_int_equal(last_step(run), 99);
    for (int i = 500000; i < 500010; i++)
        say(run, "step %d\n", i);
    assert_int_equal(last_step(run), 500009);
    finish(run);
}

static void numbers_may_be_grouped_or_shortened(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    say(run, "step 1,000\nstep 1,001\nstep 1_002\nstep 1,003, loss 1\n");
    assert_int_equal(run->step_count, 4);
    assert_int_equal(run->steps[0], 1000);
    assert_int_equal(last_step(run), 1003);
    finish(run);
    run = begin(NULL);
    say(run, " 1%%|# | 1.20k/10.0k [00:01<00:02, 9.8it/s]\n 2%%|# | 1.21k/10.0k [00:01<00:02, 9.8it/s]\n"
             " 3%%|# | 1.23k/10.0k [00:01<00:02, 9.8it/s]\n");
    assert_int_equal(last_step(run), 1230);
    finish(run);
}

static void epochs_are_found_and_only_rise(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    say(run,
        "Epoch 1/10\nepoch: 2\n[Epoch 3]\n{'loss': 2.1, 'learning_rate': 5e-05, 'epoch': 3.52}\n"
        "{'loss': 2.1, 'epoch': 4.0}\nepoch=5\nEpoch 2 was best\nnum_epochs=100\nepochs: 100\nEpoch [6/10]\n");
    assert_int_equal(run->epoch_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(run->epochs[i], i + 1);
    assert_int_equal(run->step_count, 0);
    finish(run);
}

static void colours_and_cursor_movements_do_not_hide_a_step(void **state)
{
    (void)state;
    expect_counted("\x1b[32mstep\x1b[0m \x1b[1m%d\x1b[0m");
    expect_counted("\x1b]0;title step 7\x07step %d");
    expect_counted("\x1b]8;;http://x/step 9\x1b\\link\x1b]8;;\x1b\\ step %d");
}

static void a_line_may_arrive_byte_by_byte_and_on_two_streams(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    static const char out[] = "step 1\nstep 2\nstep 3\n", err[] = "warning: iter x\nnoise\nmore noise\n";
    for (size_t i = 0; i + 1 < sizeof out; i++) {
        tide_stepwords_feed(run->words, 0, out + i, 1, (int64_t)i);
        tide_stepwords_feed(run->words, 1, err + i, 1, (int64_t)i);
    }
    take(run);
    assert_int_equal(last_step(run), 3);
    finish(run);
}

static void a_gap_drops_the_line_in_progress(void **state)
{
    (void)state;
    struct run *run = begin("([0-9]+)");
    tide_stepwords_feed(run->words, 0, "12", 2, 1);
    tide_stepwords_gap(run->words, 0);
    tide_stepwords_feed(run->words, 0, "34\n56\n", 6, 2);
    take(run);
    assert_int_equal(run->step_count, 1);
    assert_int_equal(run->steps[0], 56);
    finish(run);
}

static void only_the_beginning_of_a_long_line_is_looked_at(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    char *line = malloc(20000);
    for (int i = 1; i <= 3; i++) {
        memset(line, 'x', 20000);
        snprintf(line + 10000, 100, " step %d ", i + 50);
        line[10000 + strlen(line + 10000)] = 'x';
        line[19999] = '\n';
        tide_stepwords_feed(run->words, 0, line, 20000, i);
        say(run, "step %d\n", i);
    }
    assert_int_equal(last_step(run), 3);
    free(line);
    finish(run);
}

/* Searching the rest of a line for every count in it took 70 ms a line; these take 2 ms in all. */
static void lines_full_of_counts_take_no_time(void **state)
{
    (void)state;
    static const char *const words[] = {"1/2 ", "1 / 2 / 3 ", "9999/1 loss ", "epoch 1][", "(step "};
    struct run *run = begin(NULL);
    clock_t began = clock();
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (int lines = 0; lines < 40; lines++) {
            for (size_t len = 0; len < TIDE_STEPWORDS_LINE; len += strlen(words[w]))
                tide_stepwords_feed(run->words, 0, words[w], strlen(words[w]), lines);
            tide_stepwords_feed(run->words, 0, "\n", 1, lines);
        }
    assert_true(clock() - began < 2 * CLOCKS_PER_SEC);
    finish(run);
}

static void a_fast_program_is_thinned_and_keeps_its_first_and_last_step(void **state)
{
    (void)state;
    struct run *run = begin(NULL);
    char line[32];
    for (int i = 0; i < 10000; i++) {
        int len = snprintf(line, sizeof line, "step %d\n", i);
        tide_stepwords_feed(run->words, 0, line, (size_t)len, i);
    }
    take(run);
    assert_int_equal(run->step_count, TIDE_STEPWORDS_TAKE);
    assert_int_equal(run->steps[0], 0);
    assert_int_equal(last_step(run), 9999);
    finish(run);
}

static void the_callers_expression_replaces_the_patterns(void **state)
{
    (void)state;
    struct run *run = begin("update +([0-9]+)");
    say(run, "step 7\nupdate 3\nstep 8\nstep 9\nupdate   4\n");
    assert_int_equal(run->step_count, 2);
    assert_int_equal(run->steps[0], 3);
    assert_int_equal(run->steps[1], 4);
    finish(run);
}

static void a_bad_expression_is_refused_with_its_reason(void **state)
{
    (void)state;
    struct tide_stepwords *words = NULL;
    struct tide_err err;
    assert_int_equal(tide_stepwords_new("step ([0-9]+", &words, &err), -1);
    assert_non_null(strstr(err.text, "step ([0-9]+"));
    assert_true(strstr(err.text, "Unmatched") || strstr(err.text, "unmatched"));
    assert_int_equal(tide_stepwords_new("step [0-9]+", &words, &err), -1);
    assert_non_null(strstr(err.text, "no group"));
    assert_null(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_ways_of_printing_a_step_are_known),
        cmocka_unit_test(settings_times_and_side_work_are_no_steps),
        cmocka_unit_test(what_frameworks_print_is_known),
        cmocka_unit_test(a_single_mention_is_not_believed),
        cmocka_unit_test(the_sightings_before_belief_are_not_lost),
        cmocka_unit_test(a_count_that_begins_again_each_epoch_is_added_up),
        cmocka_unit_test(several_ranks_out_of_order_do_not_begin_again),
        cmocka_unit_test(bars_of_training_and_validation_are_not_mixed),
        cmocka_unit_test(a_bar_of_preparation_gives_way_to_the_training_loop),
        cmocka_unit_test(steps_behind_a_finished_bar_are_a_stage_of_their_own),
        cmocka_unit_test(bars_of_epochs_and_validation_stay_one_stage),
        cmocka_unit_test(steps_of_a_second_bar_without_a_name_are_not_lost),
        cmocka_unit_test(training_is_believed_again_when_it_comes_back),
        cmocka_unit_test(an_outer_bar_of_epochs_does_not_hide_the_inner_one),
        cmocka_unit_test(a_global_step_is_believed_over_a_step_of_the_epoch),
        cmocka_unit_test(one_absurd_number_is_ignored_until_it_is_repeated),
        cmocka_unit_test(numbers_may_be_grouped_or_shortened),
        cmocka_unit_test(epochs_are_found_and_only_rise),
        cmocka_unit_test(colours_and_cursor_movements_do_not_hide_a_step),
        cmocka_unit_test(a_line_may_arrive_byte_by_byte_and_on_two_streams),
        cmocka_unit_test(a_gap_drops_the_line_in_progress),
        cmocka_unit_test(only_the_beginning_of_a_long_line_is_looked_at),
        cmocka_unit_test(lines_full_of_counts_take_no_time),
        cmocka_unit_test(a_fast_program_is_thinned_and_keeps_its_first_and_last_step),
        cmocka_unit_test(the_callers_expression_replaces_the_patterns),
        cmocka_unit_test(a_bad_expression_is_refused_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
