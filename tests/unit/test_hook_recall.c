/* Stacks are recognised if, and only if, everything that was read of them is as it was (src/hook/recall.h).
 */
#include "hook/recall.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS = 40, THREADS = 4, ROUNDS = 20000 };

static uint64_t words[WORDS];

static struct tide_recall_place place_of(uintptr_t pc)
{
    return (struct tide_recall_place){.kind = TIDE_HEAP_MALLOC,
                                      .caller = {.pc = pc, .sp = 0x7000, .bp = 1},
                                      .stack_high = 0x8000,
                                      .python = 5};
}

/* Notes what the words hold now; the site that is then known, or -1. */
static int32_t learn(const struct tide_recall_place *place, int32_t site)
{
    struct tide_recall_notes *notes;
    int32_t found = tide_recall_find(place, &notes);
    if (found >= 0)
        return found;
    assert_non_null(notes);
    for (int i = 0; i < WORDS; i++)
        tide_recall_note(notes, (uintptr_t)&words[i], words[i]);
    tide_recall_keep(notes, site);
    return -1;
}

static bool is_known(const struct tide_recall_place *place, int32_t site)
{
    struct tide_recall_notes *notes;
    int32_t found = tide_recall_find(place, &notes);
    if (found < 0)
        tide_recall_keep(notes, -1);
    return found == site;
}

static void a_stack_is_known_while_all_that_was_read_stays_as_it_was(void **state)
{
    (void)state;
    struct tide_recall_place place = place_of(0x1000);
    assert_int_equal(learn(&place, 7), -1);
    assert_int_equal(learn(&place, 8), 7);
    for (int i = 0; i < WORDS; i++) {
        words[i] ^= UINT64_C(1) << (i % 64);
        assert_false(is_known(&place, 7));
        words[i] ^= UINT64_C(1) << (i % 64);
        assert_true(is_known(&place, 7));
    }
}

static void a_stack_elsewhere_is_another(void **state)
{
    (void)state;
    struct tide_recall_place place = place_of(0x2000);
    learn(&place, 9);
    place.caller.bp++; /* of no consequence: nothing was found through it */
    assert_true(is_known(&place, 9));
    struct tide_recall_place others[5] = {place, place, place, place, place};
    others[0].caller.pc++;
    others[1].caller.sp += 16;
    others[2].kind = TIDE_HEAP_TENSOR;
    others[3].python++;
    others[4].stack_high += 16; /* a younger thread's, at the same addresses */
    for (int i = 0; i < 5; i++)
        assert_false(is_known(&others[i], 9));
}

static void the_frame_pointer_counts_if_it_was_used(void **state)
{
    (void)state;
    struct tide_recall_place place = place_of(0x3000);
    struct tide_recall_notes *notes;
    assert_int_equal(tide_recall_find(&place, &notes), -1);
    notes->needs_bp = true;
    tide_recall_keep(notes, 11);
    assert_true(is_known(&place, 11));
    place.caller.bp++;
    assert_false(is_known(&place, 11));
}

static void bits_beside_the_mask_do_not_count(void **state)
{
    (void)state;
    struct tide_recall_place place = place_of(0x4000);
    struct tide_recall_notes *notes;
    uint32_t halves[2] = {0x11223344, 0x55667788};
    assert_int_equal(tide_recall_find(&place, &notes), -1);
    tide_recall_note_bits(notes, (uintptr_t)&halves[1], 0xff00, halves[1]);
    tide_recall_keep(notes, 12);
    halves[0] = 0;
    halves[1] = 0xaaaa77aa;
    assert_true(is_known(&place, 12));
    halves[1] = 0x55667688;
    assert_false(is_known(&place, 12));
}

static void stacks_that_begin_alike_are_told_apart(void **state)
{
    (void)state;
    struct tide_recall_place place = place_of(0x5000);
    for (uint64_t i = 0; i < TIDE_RECALL_WAYS; i++) {
        words[WORDS - 1] = i;
        assert_int_equal(learn(&place, 100 + (int32_t)i), -1);
    }
    for (uint64_t i = 0; i < TIDE_RECALL_WAYS; i++) {
        words[WORDS - 1] = i;
        assert_int_equal(learn(&place, -1), 100 + (int32_t)i);
    }
    words[WORDS - 1] = 0;
}

static void what_is_spoiled_or_too_long_is_not_kept(void **state)
{
    (void)state;
    struct tide_recall_place place = place_of(0x6000);
    struct tide_recall_notes *notes;
    assert_int_equal(tide_recall_find(&place, &notes), -1);
    tide_recall_spoil(notes);
    tide_recall_keep(notes, 13);
    assert_int_equal(tide_recall_find(&place, &notes), -1);
    for (int i = 0; i <= TIDE_RECALL_FACTS; i++)
        tide_recall_note(notes, (uintptr_t)&words[0], words[0]);
    tide_recall_keep(notes, 13);
    assert_int_equal(tide_recall_find(&place, &notes), -1);
    tide_recall_keep(notes, -1);
    tide_recall_note(NULL, 0, 0);
    tide_recall_spoil(NULL);
    tide_recall_keep(NULL, 1);
}

static void all_is_forgotten_even_what_is_being_noted(void **state)
{
    (void)state;
    struct tide_recall_place place = place_of(0x7000), other = place_of(0x7100);
    struct tide_recall_notes *notes;
    learn(&place, 14);
    assert_int_equal(tide_recall_find(&other, &notes), -1);
    tide_recall_forget();
    tide_recall_keep(notes, 15);
    assert_false(is_known(&place, 14));
    assert_false(is_known(&other, 15));
}

static void a_forked_child_knows_nothing_and_is_not_kept_waiting(void **state)
{
    (void)state;
    struct tide_recall_place place = place_of(0x8000), busy = place_of(0x8100);
    struct tide_recall_notes *notes;
    learn(&place, 16);
    assert_int_equal(tide_recall_find(&busy, &notes), -1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        bool good = tide_recall_find(&place, &notes) < 0 && notes;
        good = good && tide_recall_find(&busy, &notes) < 0 && notes;
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    tide_recall_keep(notes, 17);
    assert_true(is_known(&place, 16));
    assert_true(is_known(&busy, 17));
}

/* Each thread has stacks of its own among more than there is room for. */
static void *many(void *argument)
{
    uint64_t own[2], base = (uint64_t)(uintptr_t)argument, wrong = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t n = round * UINT64_C(2654435761) % 1024;
        struct tide_recall_place place = place_of(0x10000 + n % 700);
        struct tide_recall_notes *notes;
        place.caller.sp = (uintptr_t)own;
        own[0] = base << 32 | n;
        own[1] = ~own[0];
        int32_t want = (int32_t)(base << 16 | n), found = tide_recall_find(&place, &notes);
        if (found >= 0) {
            wrong += found != want;
            continue;
        }
        for (int i = 0; i < 2; i++)
            tide_recall_note(notes, (uintptr_t)&own[i], own[i]);
        tide_recall_keep(notes, want);
    }
    return (void *)(uintptr_t)wrong;
}

static void threads_do_not_mix_up_each_others_stacks(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many, (void *)(i + 1)), 0);
    void *wrong[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], &wrong[i]);
    for (int i = 0; i < THREADS; i++)
        assert_null(wrong[i]);
}

static int set_up(void **state)
{
    (void)state;
    return tide_recall_init();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_is_known_while_all_that_was_read_stays_as_it_was),
        cmocka_unit_test(a_stack_elsewhere_is_another),
        cmocka_unit_test(the_frame_pointer_counts_if_it_was_used),
        cmocka_unit_test(bits_beside_the_mask_do_not_count),
        cmocka_unit_test(stacks_that_begin_alike_are_told_apart),
        cmocka_unit_test(what_is_spoiled_or_too_long_is_not_kept),
        cmocka_unit_test(all_is_forgotten_even_what_is_being_noted),
        cmocka_unit_test(a_forked_child_knows_nothing_and_is_not_kept_waiting),
        cmocka_unit_test(threads_do_not_mix_up_each_others_stacks),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
