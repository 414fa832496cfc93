/*
 * test_assess_growth.c - growth that is not a leak, or none yet: at a start, by what was there before, of
 * work that ends.
 */
#include "made_recording.h"
#include "show/text/verdict_text.h"

/* Libraries that load: growth in bursts of all sizes, most looks without any. */
static int64_t burst(int look)
{
    static const int64_t mib[] = {5, 30, 0, 0, 80, 2,  0, 0, 0, 45, 1,  0, 120, 0, 0, 3,
                                  0, 60, 0, 0, 0,  90, 0, 4, 0, 0,  70, 0, 0,   0, 9, 0};
    return mib[look % 32] * MIB;
}

static struct tide_assessment *grow_in_bursts(int looks, char *out, size_t size)
{
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "python", "python");
    int64_t held = 20 * MIB;
    for (int i = 0; i < looks; i++) {
        look(&m, 1, held);
        sample(&m, process, held);
        held += burst(i);
    }
    return finish(&m, out, size);
}

static void growth_in_bursts_at_the_start_is_no_leak_yet(void **state)
{
    (void)state;
    char text[4096];
    struct tide_assessment *a = grow_in_bursts(28, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_UNDECIDED);
    assert_int_equal(tide_assessment_exit_code(a), 3);
    assert_non_null(strstr(text, "as when a program starts"));
    tide_assessment_free(a);
    a = grow_in_bursts(300, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    tide_assessment_free(a);
}

/* Evenly, by so much in each of the looks of 24 s. */
static enum tide_verdict_kind growing_by(int64_t bytes)
{
    char text[4096];
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "sqlite3", "sqlite3"), held = 600 * 1024;
    for (int i = 0; i < 96; i++, held += bytes) {
        look(&m, 1, held);
        sample(&m, process, held);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static void a_small_cache_that_fills_at_the_start_is_no_leak_yet(void **state)
{
    (void)state;
    assert_int_equal(growing_by(12 * 1024), TIDE_UNDECIDED);
    assert_int_equal(growing_by(64 * 1024), TIDE_LEAK);
}

/* A program that imports its libraries for three minutes, because the machine gives it a twentieth of a
 * processor: MiB, every four seconds. */
static enum tide_verdict_kind importing(int64_t share_ppm, char *out, size_t size)
{
    static const int64_t mib[] = {102, 135, 179, 215, 230, 240, 258, 268, 278, 285, 291, 296, 299, 303, 307,
                                  309, 310, 312, 312, 312, 314, 319, 334, 341, 345, 354, 358, 359, 360, 362,
                                  370, 374, 378, 384, 389, 401, 417, 430, 444, 458, 474, 484, 494, 504};
    struct made m = begin();
    m.share_ppm = share_ppm;
    int64_t process = add_process(&m, 100, 0, "python", "hf_trainer.py");
    for (size_t i = 0; i + 1 < sizeof mib / sizeof *mib; i++)
        for (int64_t look_of = 0; look_of < 16; look_of++) {
            int64_t held = mib[i] * MIB + (mib[i + 1] - mib[i]) * MIB * look_of / 16;
            look(&m, 1, held);
            sample(&m, process, held);
        }
    struct tide_assessment *a = finish(&m, out, size);
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static void a_start_is_as_long_as_the_machine_is_slow(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(importing(0, text, sizeof text), TIDE_LEAK);
    assert_int_equal(importing(1000000, text, sizeof text), TIDE_LEAK);
    assert_int_equal(importing(50000, text, sizeof text), TIDE_UNDECIDED);
    assert_non_null(strstr(text, "as when a program starts or a cache fills; 17 m more"));
}

/* The exit code for 256 KiB a step, one step a look. */
static int exit_code_after(int steps, char *text, size_t size)
{
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "ruby", "churn.rb");
    for (int step = 0; step < steps; step++) {
        mark(&m, process, TIDE_MARK_STEP, step, "");
        look(&m, 1, 20 * MIB + step * MIB / 4);
        sample(&m, process, 20 * MIB + step * MIB / 4);
    }
    struct tide_assessment *a = finish(&m, text, size);
    int code = tide_assessment_exit_code(a);
    tide_assessment_free(a);
    return code;
}

static void the_first_steps_of_a_few_seconds_are_no_leak_yet(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(exit_code_after(16, text, sizeof text), 3);
    assert_non_null(
        strstr(text, "as when a program starts or a cache fills; 9 steps more would have settled it"));
    assert_int_equal(exit_code_after(30, text, sizeof text), 1);
}

static void a_leak_of_nothing_per_step_is_not_named(void **state)
{
    (void)state;
    struct tide_judged judged = {
        .room_bytes = NAN,
        .x_is_steps = true,
        .count = 13,
        .verdict = {
            .kind = TIDE_UNDECIDED, .jump_x = NAN, .drop_x = NAN, .steps_needed = 27e6, .needed_for = 0.01}};
    struct tide_assessment assessment = {0};
    char text[512];
    tide_judged_sentence(&judged, &assessment, text, sizeof text);
    assert_non_null(strstr(text, "; about 27,000,000 more steps would settle it"));
    judged.verdict.needed_for = 1;
    tide_judged_sentence(&judged, &assessment, text, sizeof text);
    assert_non_null(strstr(text, "more steps would settle a leak of 1 B per step"));
}

static void of_an_ended_run_nothing_would_settle_it_any_more(void **state)
{
    (void)state;
    struct tide_judged judged = {
        .unexplained = true,
        .room_bytes = NAN,
        .members = 3,
        .x_is_steps = true,
        .verdict = {.kind = TIDE_UNDECIDED, .growth_bytes = 1e6, .steps_needed = 50}};
    struct tide_assessment assessment = {0};
    char text[512];
    tide_judged_sentence(&judged, &assessment, text, sizeof text);
    assert_non_null(strstr(text, "none of which clearly grows; 50 steps more would settle it"));
    assessment.has_ended = true;
    tide_judged_sentence(&judged, &assessment, text, sizeof text);
    assert_non_null(strstr(text, "none of which clearly grows; 50 steps more would have settled it"));
}

/* A rank of a PyTorch job whose record of collectives fills: half a MiB now and then, hardly any in the first
 * 500 steps, as long as there are such; after that, or if it leaks, as often as before. */
static enum tide_verdict_kind recording_collectives(int steps, int until, char *text, size_t size)
{
    static const int every[] = {10, 5, 10, 30, 25, 45, 10, 65, 20, 5, 40, 15};
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "python", "ddp.py");
    int64_t held = 380 * MIB, next = 510;
    for (int step = 0, i = 0; step < steps; step += 5) {
        if (step >= next && step < until) {
            held += MIB / 2 * (1 + i % 2);
            next = step + every[i++ % 12];
        }
        mark(&m, process, TIDE_MARK_STEP, step, "");
        look(&m, 1, held);
        sample(&m, process, held);
    }
    struct tide_assessment *a = finish(&m, text, size);
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static void a_buffer_of_a_library_that_fills_is_no_leak_yet(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(recording_collectives(915, 2000, text, sizeof text), TIDE_UNDECIDED);
    assert_non_null(
        strstr(text, "as when a program starts or a cache fills; 1,090 steps more would have settled it"));
    assert_int_not_equal(recording_collectives(4000, 2000, text, sizeof text), TIDE_LEAK);
    assert_int_equal(recording_collectives(4000, 4000, text, sizeof text), TIDE_LEAK);
}

/* The same evenly, by so many bytes a step from step 430 on, in a rank of a job or in a process alone. */
static enum tide_verdict_kind rising_evenly(int steps, int64_t per_step, int64_t rank)
{
    struct made m = begin();
    int64_t process = add_rank(&m, 100, 0, "python", "ddp.py", rank);
    for (int step = 0; step < steps; step += 5) {
        int64_t held = 380 * MIB + (step > 430 ? per_step * (step - 430) : 0);
        mark(&m, process, TIDE_MARK_STEP, step, "");
        look(&m, 1, held);
        sample(&m, process, held);
    }
    char text[4096];
    struct tide_assessment *a = finish(&m, text, sizeof text);
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static void what_a_rank_may_record_of_its_job_is_no_leak_yet(void **state)
{
    (void)state;
    assert_int_equal(rising_evenly(1034, MIB / 20, 1), TIDE_UNDECIDED);
    assert_int_equal(rising_evenly(1034, MIB / 20, TIDE_UNKNOWN), TIDE_LEAK);
    assert_int_equal(rising_evenly(1034, MIB / 4, 1), TIDE_LEAK);
    assert_int_equal(rising_evenly(4000, MIB / 20, 1), TIDE_LEAK);
}

/* Rises by so many bytes a step for 300 steps: by memory of its own or by such as it shares. What it has
 * asked for and mapped are 500 MiB, soon after its start. The verdict on it. */
static enum tide_verdict_kind rising_by(int64_t per_step, bool shared, int64_t asked_per_step,
                                        int64_t mapped_per_step, char *text, size_t size)
{
    const int64_t started = 10; /* steps until it has asked for the first 500 */
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "python", "train.py");
    for (int64_t step = 0; step < 300; step++) {
        int64_t more = step * per_step;
        mark(&m, process, TIDE_MARK_STEP, step, "");
        look(&m, 1, 100 * MIB + more);
        put_sample(&m, (struct tide_sample){
                           .process = process,
                           .anon_bytes = 100 * MIB + (shared ? 0 : more),
                           .shmem_bytes = shared ? more : 0,
                           .asked_bytes = (step < started ? 110 : 500) * MIB + step * asked_per_step,
                           .mapped_bytes = (step < started ? 110 : 500) * MIB + step * mapped_per_step});
    }
    struct tide_assessment *a = finish(&m, text, size);
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static enum tide_verdict_kind rising(bool shared, int64_t asked_per_step, int64_t mapped_per_step, char *text,
                                     size_t size)
{
    return rising_by(MIB / 4, shared, asked_per_step, mapped_per_step, text, size);
}

/* A process that mapped a gigabyte at its start and touches 256 KiB more with each step. Of what is there in
 * mappings without a reservation it is read so often that it grows by so much a step. The verdict on it. */
static enum tide_verdict_kind rising_in_an_arena(int every, int64_t unreserved_per_step, char *text,
                                                 size_t size)
{
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "python", "train.py");
    for (int64_t step = 0; step < 300; step++) {
        mark(&m, process, TIDE_MARK_STEP, step, "");
        look(&m, 1, 100 * MIB + step * MIB / 4);
        put_sample(&m, (struct tide_sample){.process = process,
                                            .anon_bytes = 100 * MIB + step * MIB / 4,
                                            .asked_bytes = 1200 * MIB,
                                            .mapped_bytes = 1400 * MIB});
        if (step % every == every / 2)
            read_unreserved(&m, process, 30 * MIB + step * unreserved_per_step);
    }
    struct tide_assessment *a = finish(&m, text, size);
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static void what_is_touched_of_an_arena_without_a_reservation_was_asked_for(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(rising_in_an_arena(60, MIB / 4, text, sizeof text), TIDE_LEAK);
    assert_non_null(strstr(text, "256.00 KiB per step"));
    assert_int_equal(rising_in_an_arena(60, MIB / 5, text, sizeof text), TIDE_LEAK);
    /* An arena that stays as it is beside a buffer that fills. */
    assert_int_equal(rising_in_an_arena(60, 0, text, sizeof text), TIDE_UNDECIDED);
    assert_int_equal(rising_in_an_arena(60, MIB / 10, text, sizeof text), TIDE_UNDECIDED);
    /* One reading tells nothing. */
    assert_int_equal(rising_in_an_arena(300, MIB / 4, text, sizeof text), TIDE_UNDECIDED);
}

static void a_little_of_what_he_had_is_no_finding(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(rising_by(MIB / 128, false, 0, 0, text, sizeof text), TIDE_FLAT);
    assert_int_equal(rising_by(MIB / 128, false, MIB / 128, 0, text, sizeof text), TIDE_LEAK);
}

static void who_asks_for_no_more_touches_what_he_had(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(rising(false, 0, 0, text, sizeof text), TIDE_UNDECIDED);
    assert_non_null(
        strstr(text, "without allocating more: it touched pages that it already had, of which 325 MiB"));
    assert_non_null(
        strstr(text, "at 256 KiB per step they would last 1,301 steps: what grows after that leaks"));
    assert_int_equal(rising(false, MIB / 16, MIB, text, sizeof text), TIDE_UNDECIDED);
    assert_int_equal(rising(true, MIB, 0, text, sizeof text), TIDE_UNDECIDED);
}

/* The last look sees all but two pages given back. */
static void what_is_given_back_at_the_end_was_asked_for(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "python", "train.py");
    for (int64_t i = 0; i < 300; i++) {
        int64_t more = i < 299 ? i * MIB / 4 : 0;
        look(&m, 1, 100 * MIB + more);
        put_sample(&m, (struct tide_sample){.process = process,
                                            .anon_bytes = 100 * MIB + more + (i < 299 ? 0 : 8192),
                                            .asked_bytes = 500 * MIB + more,
                                            .mapped_bytes = 500 * MIB + more});
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    tide_assessment_free(a);
}

/* The last look at it came while it ended; the tree is still counted with what it had. */
static void what_a_process_gives_back_is_not_what_others_have(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t process = add_process(&m, 100, 0, "python", "train.py");
    limit(&m, "--limit", 256 * MIB);
    for (int64_t i = 0; i < 300; i++) {
        int64_t held = 8 * MIB + i * MIB / 4;
        look(&m, 1, held);
        sample(&m, process, i < 299 ? held : 8 * MIB);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_true(fabs(a->judged[0].limit_bytes / MIB - 256) < 1);
    tide_assessment_free(a);
}

/* Leaks 1 MiB a step from 100 MiB on, for 300 steps, in each of `count` workers: of what a worker maps 100
 * MiB are not memory of its own, and of what it asked for 20 MiB are untouched. */
static struct tide_assessment *leak_below(struct made *m, int count, char *text, size_t size)
{
    int64_t parent = add_process(m, 100, 0, "python", "train.py"), worker[4];
    for (int i = 0; i < count; i++)
        worker[i] = add_process(m, 101 + i, parent, "python", "worker");
    for (int64_t step = 0; step < 300; step++) {
        int64_t held = (100 + step) * MIB;
        mark(m, parent, TIDE_MARK_STEP, step, "");
        look(m, count + 1, count * held + 10 * MIB);
        sample(m, parent, 10 * MIB);
        for (int i = 0; i < count; i++)
            put_sample(m, (struct tide_sample){.process = worker[i],
                                               .anon_bytes = held,
                                               .asked_bytes = held + 20 * MIB,
                                               .mapped_bytes = held + 100 * MIB});
    }
    return finish(m, text, size);
}

#define AS   "rlimit AS (address space of each process)"
#define DATA "rlimit DATA (data of each process)"

/* What counts against it is not what is judged: mappings that are not touched, or not of memory. */
static void a_limit_of_each_process_is_reached_by_what_it_maps_or_asks_for(void **state)
{
    (void)state;
    static const struct {
        const char *name, *words;
        int64_t mib, step; /* 4 GiB: the tightest is the host's */
    } cases[] = {{AS, "1.0 GiB of address space (ulimit -v) would have been reached at step 824", 1024, 824},
                 {DATA, "512 MiB of data (ulimit -d) would have been reached at step 392", 512, 392},
                 {AS, "2.0 GiB (host memory) would have been reached at step 1,9", 4096, 1938}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        struct made m = begin();
        limit(&m, "host memory", 2 * GIB);
        limit(&m, AS, 3 * GIB);
        limit(&m, cases[i].name, cases[i].mib * MIB);
        struct tide_assessment *a = leak_below(&m, 1, text, sizeof text);
        assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
        assert_true(fabs(a->judged[0].verdict.limit_x - (double)cases[i].step) < 2);
        if (!strstr(text, cases[i].words))
            fail_msg("%s", text);
        tide_assessment_free(a);
    }
}

/* Together they come to 2 GiB of the host's 60 when one of them comes to its own. */
static void of_several_that_leak_the_first_at_its_own_limit_is_named(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    limit(&m, "host memory", 60 * GIB);
    limit(&m, AS, GIB);
    struct tide_assessment *a = leak_below(&m, 4, text, sizeof text);
    assert_int_equal(a->judged[0].subject, TIDE_SUBJECT_ROLE);
    assert_true(fabs(a->judged[0].verdict.limit_x - 824) < 2);
    assert_non_null(strstr(
        text, "1.0 GiB of address space (ulimit -v) would have been reached at step 824 by one of them"));
    tide_assessment_free(a);
}

/* A child, whose own pages are read as well: by 256 KiB a step more are there, or more of those that were
 * there are its own. */
static enum tide_verdict_kind rising_in_a_child(bool there, char *text, size_t size)
{
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "timeout", "timeout"),
            child = add_process(&m, 101, parent, "xz", "xz");
    for (int64_t i = 0; i < 300; i++) {
        int64_t more = i * MIB / 4, resident = (there ? 20 * MIB + more : 120 * MIB);
        look(&m, 2, MIB + resident);
        sample(&m, parent, MIB);
        put_sample(&m, (struct tide_sample){.process = child,
                                            .anon_bytes = resident,
                                            .asked_bytes = 200 * MIB,
                                            .mapped_bytes = 200 * MIB});
        read_shared(&m, child, 20 * MIB + more, 20 * MIB + more);
    }
    struct tide_assessment *a = finish(&m, text, size);
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static void pages_that_become_its_own_were_there_before(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(rising_in_a_child(true, text, sizeof text), TIDE_UNDECIDED);
    assert_int_equal(rising_in_a_child(false, text, sizeof text), TIDE_LEAK);
    assert_non_null(strstr(text, "copy-on-write"));
}

static void who_asks_for_what_he_grows_by_leaks(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(rising(false, MIB / 4, 0, text, sizeof text), TIDE_LEAK);
    assert_int_equal(rising(false, 8 * MIB, 8 * MIB, text, sizeof text), TIDE_LEAK);
    assert_int_equal(rising(true, 0, MIB / 4, text, sizeof text), TIDE_LEAK);
}

/* A process that grows evenly for 15 s, beside one that does nothing, in a recording of so many looks after
 * it. How often it is run. */
static int exit_code_of_compiling(int looks_after, int times)
{
    char text[2048];
    struct made m = begin();
    int64_t shell = add_process(&m, 100, 0, "sh", "sh"), compiler = 0, began_ns = 0;
    for (int64_t i = 0; i < 60 * times + looks_after; i++) {
        bool running = i < 60 * times;
        if (running && i % 60 == 0) {
            began_ns = m.t_ns;
            compiler = add_process(&m, 101 + i, shell, "cc1", "cc1");
        }
        look(&m, running ? 2 : 1, running ? 10 * MIB + i % 60 * MIB : MIB);
        sample(&m, shell, MIB);
        if (running)
            sample(&m, compiler, 9 * MIB + i % 60 * MIB);
        if (running && i % 60 == 59)
            end_process(&m, compiler, 101 + i - 59, shell, "cc1", "cc1", began_ns);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    int code = tide_assessment_exit_code(a);
    tide_assessment_free(a);
    return code;
}

static void what_a_process_takes_that_is_done_soon_is_no_leak(void **state)
{
    (void)state;
    assert_int_equal(exit_code_of_compiling(1, 1), 1); /* all there was to be seen */
    assert_int_not_equal(exit_code_of_compiling(60, 1), 1);
    assert_int_not_equal(exit_code_of_compiling(1, 2), 1);
}

/* A compiler on a busy machine, a second from value to value: it reads, and then it generates code. */
static const int COMPILER_MIB[] = {
    0,   4,   18,  20,  25,  30,  34,  38,  41,  44,  46,  49,  52,  55,  60,  62,  65,  68,  71,
    76,  78,  85,  90,  95,  97,  100, 104, 108, 109, 112, 114, 117, 119, 128, 131, 133, 136, 137,
    137, 138, 138, 139, 139, 140, 141, 141, 141, 142, 143, 143, 144, 144, 145, 146, 146, 147, 147,
    148, 149, 149, 150, 150, 151, 151, 152, 153, 153, 154, 154, 155, 156, 157, 158, 158, 159, 159,
    160, 161, 161, 162, 163, 164, 165, 165, 166, 166, 167, 168, 168, 169, 170, 171, 172, 173};

/* What is said of it when it goes on as at its end for so many seconds more. */
static enum tide_verdict_kind compiling(int seconds_more, char *text, size_t size)
{
    const int recorded = sizeof COMPILER_MIB / sizeof *COMPILER_MIB;
    struct made m = begin();
    int64_t compiler = add_process(&m, 100, 0, "cc1plus", "cc1plus");
    for (int i = 0; i < 4 * (recorded + seconds_more); i++) {
        int second = i / 4, last = recorded - 1;
        int64_t held = second < last
                           ? COMPILER_MIB[second] * MIB +
                                 (COMPILER_MIB[second + 1] - COMPILER_MIB[second]) * MIB * (i % 4) / 4
                           : COMPILER_MIB[last] * MIB + (i - 4 * last) * MIB / 5;
        look(&m, 1, held);
        sample(&m, compiler, held);
    }
    struct tide_assessment *a = finish(&m, text, size);
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    tide_assessment_free(a);
    return kind;
}

static void growth_that_became_slower_must_go_on_for_longer_than_it_took(void **state)
{
    (void)state;
    char text[2048];
    assert_int_equal(compiling(0, text, sizeof text), TIDE_UNDECIDED);
    assert_non_null(strstr(text, "as when a program starts"));
    assert_int_equal(compiling(300, text, sizeof text), TIDE_LEAK);
}

/* Judges a recording in the memory given, which may be thinned for that. Returns the share of the points of
 * its first process that lie in the last tenth of the run. */
static double points_at_the_end(const char *path, size_t max_bytes, unsigned *ret_thinned)
{
    struct tide_err err;
    struct tide_reader *reader;
    struct tide_history *history;
    struct tide_assessment *a;
    ok(tide_reader_new(path, &reader, &err), &err);
    ok(tide_history_new(max_bytes, &history, &err), &err);
    ok(tide_history_load(history, reader, &err), &err);
    ok(tide_assess_history(history, NULL, &a, &err), &err);
    const struct tide_judged *j = &a->judged[0];
    size_t late = 0;
    for (size_t i = 0; i < j->count; i++)
        late += j->x[i] >= j->x[0] + 0.9 * (j->x[j->count - 1] - j->x[0]);
    double share = (double)late / (double)j->count;
    *ret_thinned = history->thinned;
    tide_assessment_free(a);
    tide_history_free(history);
    tide_reader_free(reader);
    return share;
}

/* What came since a recording was thinned is not thinned. Cut by their number, the last points would be so
 * close that a window is shorter than a period, and the last rise of a level that swings a leak. */
static void a_thinned_recording_is_judged_evenly(void **state)
{
    (void)state;
    enum { LOOKS = 20000 };
    struct made m = begin();
    struct tide_err err;
    unsigned thinned, thinned_runs = 0;
    int64_t process = add_process(&m, 100, 0, "python", "python");
    for (int i = 0; i < LOOKS; i++) {
        look(&m, 1, (256 + i % 7) * MIB);
        sample(&m, process, (256 + i % 7) * MIB);
    }
    ok(tide_writer_free(m.writer, &err), &err);
    for (size_t max_bytes = (size_t)1 << 20; max_bytes <= (size_t)4 << 20; max_bytes += 1 << 18) {
        double share = points_at_the_end(m.path, max_bytes, &thinned);
        assert_true(share > 0.095 && share < 0.105);
        thinned_runs += thinned > 1;
    }
    assert_true(thinned_runs >= 5);
    unlink(m.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_in_bursts_at_the_start_is_no_leak_yet),
        cmocka_unit_test(a_small_cache_that_fills_at_the_start_is_no_leak_yet),
        cmocka_unit_test(a_start_is_as_long_as_the_machine_is_slow),
        cmocka_unit_test(a_buffer_of_a_library_that_fills_is_no_leak_yet),
        cmocka_unit_test(what_a_rank_may_record_of_its_job_is_no_leak_yet),
        cmocka_unit_test(a_leak_of_nothing_per_step_is_not_named),
        cmocka_unit_test(of_an_ended_run_nothing_would_settle_it_any_more),
        cmocka_unit_test(the_first_steps_of_a_few_seconds_are_no_leak_yet),
        cmocka_unit_test(what_a_process_gives_back_is_not_what_others_have),
        cmocka_unit_test(a_limit_of_each_process_is_reached_by_what_it_maps_or_asks_for),
        cmocka_unit_test(of_several_that_leak_the_first_at_its_own_limit_is_named),
        cmocka_unit_test(who_asks_for_no_more_touches_what_he_had),
        cmocka_unit_test(what_is_touched_of_an_arena_without_a_reservation_was_asked_for),
        cmocka_unit_test(a_little_of_what_he_had_is_no_finding),
        cmocka_unit_test(what_is_given_back_at_the_end_was_asked_for),
        cmocka_unit_test(pages_that_become_its_own_were_there_before),
        cmocka_unit_test(who_asks_for_what_he_grows_by_leaks),
        cmocka_unit_test(what_a_process_takes_that_is_done_soon_is_no_leak),
        cmocka_unit_test(growth_that_became_slower_must_go_on_for_longer_than_it_took),
        cmocka_unit_test(a_thinned_recording_is_judged_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
