/*
 * Which of a job's processes one is, by what launchers put into the environment.
 */
#include "sense/role.h"

#include "record/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define RANK_OF(text) tide_rank_of(text, sizeof text - 1)

static void launchers_are_known(void **state)
{
    (void)state;
    assert_int_equal(RANK_OF("HOME=/root\0RANK=3\0WORLD_SIZE=8\0"), 3);
    assert_int_equal(RANK_OF("RANK=0\0LOCAL_RANK=0\0WORLD_SIZE=2\0"), 0);
    assert_int_equal(RANK_OF("LOCAL_RANK=1\0"), 1);
    assert_int_equal(RANK_OF("OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_RANK=2"), 2);
    assert_int_equal(RANK_OF("PMI_RANK=5\0PMI_SIZE=6\0"), 5);
    assert_int_equal(RANK_OF("SLURM_PROCID=7\0SLURM_NTASKS=8\0"), 7);
}

static void a_job_of_one_process_has_no_ranks(void **state)
{
    (void)state;
    assert_int_equal(RANK_OF("SLURM_PROCID=0\0SLURM_NTASKS=1\0"), TIDE_UNKNOWN);
    assert_int_equal(RANK_OF("SLURM_PROCID=0\0"), TIDE_UNKNOWN);
    assert_int_equal(RANK_OF("RANK=0\0WORLD_SIZE=1\0"), TIDE_UNKNOWN);
    assert_int_equal(RANK_OF("HOME=/root\0MY_RANK=3\0"), TIDE_UNKNOWN);
    assert_int_equal(tide_rank_of("", 0), TIDE_UNKNOWN);
}

static void what_is_no_number_is_no_rank(void **state)
{
    (void)state;
    assert_int_equal(RANK_OF("RANK=\0"), TIDE_UNKNOWN);
    assert_int_equal(RANK_OF("RANK=first\0"), TIDE_UNKNOWN);
    assert_int_equal(RANK_OF("RANK=-1\0"), TIDE_UNKNOWN);
    assert_int_equal(RANK_OF("RANK=99999999999999999999\0"), TIDE_UNKNOWN);
    assert_int_equal(RANK_OF("RANK=9\0WORLD_SIZE=2\0"), TIDE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_known),
        cmocka_unit_test(a_job_of_one_process_has_no_ranks),
        cmocka_unit_test(what_is_no_number_is_no_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
