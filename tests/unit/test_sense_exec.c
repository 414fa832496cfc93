/*
 * test_sense_exec.c - a process that becomes another program.
 */
#include "tree_fixture.h"

static struct fake_process shell(int parent)
{
    return (struct fake_process){.pid = 100,
                                 .parent = parent,
                                 .start = 10,
                                 .stack = 7000,
                                 .name = "bash",
                                 .args = "bash|",
                                 .anon = 900};
}

/* Begins with a shell and looks until it is no longer young. */
static struct tide_member *old_member(const struct fake_process *p)
{
    fake_put(p);
    begin(false, 100);
    for (int i = 0; i < 5; i++)
        look();
    return member(100);
}

static void look_at(const struct fake_process *p)
{
    fake_put(p);
    look();
}

/* Programs rename themselves; only an exec moves the stack. */
static void a_process_that_becomes_another_program_is_another_member(void **state)
{
    (void)state;
    struct fake_process p = shell(1);
    struct tide_member *first = old_member(&p);
    first->id = 1; /* as if it had been written */
    p.name = "renamed";
    look_at(&p);
    p.stack = 0; /* may no longer be known */
    p.name = "hidden";
    look_at(&p);
    assert_ptr_equal(member(100), first);
    p.stack = 9000;
    p.name = "python3";
    p.anon = 2000;
    look_at(&p);
    struct tide_member *second = member(100);
    assert_ptr_not_equal(second, first);
    assert_true(first->ended);
    assert_int_equal(first->peak_bytes, 900 * 1024);
    assert_int_equal(second->began_ns, now_ns - second_ns);
    assert_int_equal(second->earlier_id, first->id);
    assert_int_equal(second->first_rss_bytes, 2000 * 1024);
    assert_int_equal(second->now.counters.anon_bytes, 2000 * 1024);
    look();
    assert_ptr_equal(member(100), second);
    assert_int_equal(alive(), 1);
}

static void a_program_that_begins_itself_again_is_found_by_its_memory(void **state)
{
    (void)state;
    struct fake_process p = shell(1);
    struct tide_member *first = old_member(&p);
    p.stack = 9000;
    p.anon = 100; /* and the same name */
    look_at(&p);
    assert_ptr_not_equal(member(100), first);
    assert_int_equal(member(100)->peak_bytes, 100 * 1024);
}

/* While the memory of the program before is freed: hardly any is left, no arguments, a stack that moves once
 * more. */
static void an_exec_that_takes_long_is_one(void **state)
{
    (void)state;
    struct fake_process p = shell(1);
    p.anon = 400000;
    old_member(&p);
    const unsigned long meanwhile[] = {0, 8000, 8000};
    p.anon = 4;
    p.args = "";
    for (size_t i = 0; i < sizeof meanwhile / sizeof *meanwhile; i++) {
        p.stack = meanwhile[i];
        look_at(&p);
        assert_int_equal(tree.member_count, 2);
    }
    struct tide_member *second = member(100);
    p.stack = 9000;
    p.name = "python3";
    p.args = "python3|train.py|";
    p.anon = 5000;
    look_at(&p);
    look();
    assert_ptr_equal(member(100), second);
    assert_string_equal(second->role, "train.py");
    p.stack = 9500; /* and the next one is found as well */
    p.anon = 100;
    look_at(&p);
    assert_ptr_not_equal(member(100), second);
}

static void a_program_that_begins_itself_again_with_more_is_found(void **state)
{
    (void)state;
    struct fake_process p = shell(1);
    const struct tide_member *first = old_member(&p);
    p.anon = 9000;
    look_at(&p);
    assert_ptr_equal(member(100), first);
    p.stack = 9000;
    p.anon = 200000;
    look_at(&p);
    assert_ptr_not_equal(member(100), first);
}

/* A look may fall between a fork and the exec that nearly always follows. */
static void a_forked_process_that_runs_its_program_at_once_is_one_member(void **state)
{
    (void)state;
    fake_put(&(struct fake_process){.pid = 50, .parent = 1, .start = 5, .name = "bash", .args = "bash|"});
    struct fake_process p = shell(50);
    fake_put(&p);
    begin(false, 50);
    look();
    struct tide_member *first = member(100);
    assert_true(first->forked);
    p.stack = 9000;
    p.name = "sleep";
    p.args = "sleep|9|";
    look_at(&p);
    assert_ptr_equal(member(100), first);
    assert_string_equal(first->role, "sleep");
    assert_int_equal(alive(), 2);
}

/* Its children are first seen with the exec, so before the member that it is from then on. The command's own
 * parent is no member: of such an orphan, an older member that runs the same is taken for its origin. */
static void a_program_that_forks_at_once_is_no_worker_of_its_children(void **state)
{
    (void)state;
    struct fake_process p = shell(1);
    old_member(&p);
    p.stack = 9000;
    p.name = "forky";
    p.args = "forky|";
    fake_put(&p);
    for (int pid = 200; pid < 203; pid++)
        fake_put(&(struct fake_process){
            .pid = pid, .parent = 100, .start = 50, .stack = 9000, .name = "forky", .args = "forky|"});
    look();
    look();
    assert_string_equal(member(100)->role, "forky");
    assert_false(member(100)->forked);
    for (int pid = 200; pid < 203; pid++)
        assert_string_equal(member(pid)->role, "worker of forky");
}

/* The program before is a member until the next look, and runs the same. */
static void a_program_that_begins_itself_again_is_no_worker_of_itself(void **state)
{
    (void)state;
    struct fake_process p = shell(1);
    old_member(&p);
    p.stack = 9000;
    p.anon = 100;
    look_at(&p);
    assert_int_equal(tree.member_count, 2);
    assert_string_equal(member(100)->role, "bash");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_that_becomes_another_program_is_another_member),
        TEST(a_program_that_begins_itself_again_is_found_by_its_memory),
        TEST(an_exec_that_takes_long_is_one),
        TEST(a_program_that_begins_itself_again_with_more_is_found),
        TEST(a_forked_process_that_runs_its_program_at_once_is_one_member),
        TEST(a_program_that_forks_at_once_is_no_worker_of_its_children),
        TEST(a_program_that_begins_itself_again_is_no_worker_of_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
