/*
 * test_hook_pieces.c - pieces of device memory live as long as the driver keeps them (hook/pieces.h).
 */
#include "hook/pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { PIECE = 2 << 20 };

static uint32_t piece, site; /* of what was mapped last */

struct gone {
    uint64_t bytes;
    unsigned count;
    uint32_t last_site;
};

static void on_gone(void *context, uint32_t of, uint64_t bytes)
{
    struct gone *gone = context;
    gone->bytes += bytes;
    gone->count++;
    gone->last_site = of;
}

static void a_piece_that_was_never_mapped_goes_with_its_handle(void **state)
{
    (void)state;
    struct gone gone = {0};
    assert_false(tide_pieces_any());
    assert_int_equal(tide_pieces_create(7, PIECE, 3), TIDE_PIECES_DONE);
    assert_true(tide_pieces_any());
    assert_int_equal(tide_pieces_release(7, on_gone, &gone), TIDE_PIECES_DONE);
    assert_int_equal(gone.bytes, PIECE);
    assert_int_equal(gone.last_site, 3);
    assert_int_equal(tide_pieces_release(7, on_gone, &gone), TIDE_PIECES_ABSENT);
    assert_false(tide_pieces_any());
}

static void a_mapped_piece_outlives_its_handle(void **state)
{
    (void)state;
    struct gone gone = {0};
    tide_pieces_create(7, PIECE, 3);
    assert_int_equal(tide_pieces_map(7, &piece, &site), TIDE_PIECES_DONE);
    assert_int_equal(tide_pieces_map(7, &piece, &site), TIDE_PIECES_DONE);
    assert_int_equal(site, 3);
    assert_int_equal(tide_pieces_map(8, &piece, &site), TIDE_PIECES_ABSENT);
    tide_pieces_release(7, on_gone, &gone);
    assert_int_equal(tide_pieces_unmap(piece, on_gone, &gone), TIDE_PIECES_DONE);
    assert_int_equal(gone.count, 0);
    tide_pieces_unmap(piece, on_gone, &gone);
    assert_int_equal(gone.bytes, PIECE);
}

static void a_piece_can_be_given_another_site(void **state)
{
    (void)state;
    struct gone gone = {0};
    tide_pieces_create(7, PIECE, 3);
    tide_pieces_map(7, &piece, &site);
    assert_int_equal(tide_pieces_set_site(piece, 5), PIECE);
    tide_pieces_release(7, on_gone, &gone);
    tide_pieces_unmap(piece, on_gone, &gone);
    assert_int_equal(gone.last_site, 5);
}

static void a_mapped_piece_gives_back_a_handle(void **state)
{
    (void)state;
    struct gone gone = {0};
    tide_pieces_create(7, PIECE, 1);
    tide_pieces_map(7, &piece, &site);
    tide_pieces_release(7, on_gone, &gone);
    assert_int_equal(tide_pieces_retain(7, piece), TIDE_PIECES_DONE);
    assert_int_equal(tide_pieces_retain(7, piece), TIDE_PIECES_DONE);
    tide_pieces_unmap(piece, on_gone, &gone);
    tide_pieces_release(7, on_gone, &gone);
    assert_int_equal(gone.count, 0);
    tide_pieces_release(7, on_gone, &gone);
    assert_int_equal(gone.count, 1);
    assert_int_equal(tide_pieces_retain(7, piece), TIDE_PIECES_ABSENT);
}

/* Another thread was given the value of a handle before its release was noted here. */
static void of_two_pieces_with_one_handle_the_older_is_released(void **state)
{
    (void)state;
    struct gone gone = {0};
    tide_pieces_create(7, PIECE, 1);
    tide_pieces_create(7, 5 * PIECE, 2);
    tide_pieces_release(7, on_gone, &gone);
    assert_int_equal(gone.last_site, 1);
    tide_pieces_map(7, &piece, &site);
    tide_pieces_release(7, on_gone, &gone);
    assert_int_equal(gone.count, 1);
    tide_pieces_unmap(piece, on_gone, &gone);
    assert_int_equal(gone.last_site, 2);
}

static void a_full_table_refuses_and_goes_on(void **state)
{
    (void)state;
    struct gone gone = {0};
    for (uint64_t i = 0; i < TIDE_PIECES_MOST; i++)
        assert_int_equal(tide_pieces_create(i + 1, PIECE, 1), TIDE_PIECES_DONE);
    assert_int_equal(tide_pieces_create(1 << 20, PIECE, 1), TIDE_PIECES_FULL);
    for (uint64_t i = 0; i < TIDE_PIECES_MOST; i++)
        assert_int_equal(tide_pieces_map(i + 1, &piece, &site), TIDE_PIECES_DONE);
    for (uint64_t i = TIDE_PIECES_MOST; i > 0; i--) /* from the end, where a sorted array is quick */
        tide_pieces_release(i, on_gone, &gone);
    assert_int_equal(gone.count, 0);
    for (uint32_t i = 0; i < TIDE_PIECES_MOST; i++)
        tide_pieces_unmap(i, on_gone, &gone);
    assert_int_equal(gone.count, TIDE_PIECES_MOST);
    assert_int_equal(tide_pieces_create(1 << 20, PIECE, 1), TIDE_PIECES_DONE);
    tide_pieces_release(1 << 20, on_gone, &gone);
    assert_false(tide_pieces_any());
}

static void a_forked_child_begins_with_nothing(void **state)
{
    (void)state;
    struct gone gone = {0};
    int status;
    tide_pieces_create(7, PIECE, 1);
    pid_t child = fork();
    if (child == 0)
        _exit(tide_pieces_any());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    tide_pieces_release(7, on_gone, &gone);
    assert_int_equal(gone.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_that_was_never_mapped_goes_with_its_handle),
        cmocka_unit_test(a_mapped_piece_outlives_its_handle),
        cmocka_unit_test(a_piece_can_be_given_another_site),
        cmocka_unit_test(a_mapped_piece_gives_back_a_handle),
        cmocka_unit_test(of_two_pieces_with_one_handle_the_older_is_released),
        cmocka_unit_test(a_full_table_refuses_and_goes_on),
        cmocka_unit_test(a_forked_child_begins_with_nothing),
    };
    if (tide_pieces_init())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
