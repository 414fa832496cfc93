/*
 * tree_fixture.h - a tree of processes on a /proc that is not there, looked at once a second.
 */
#ifndef TREE_FIXTURE_H
#define TREE_FIXTURE_H

#include "base/clock.h"
#include "sense/tree.h"
#include "../fake/fake_proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const int64_t second_ns = TIDE_NS_PER_S;
static struct tide_tree tree;
static int64_t now_ns;

static inline int set_up(void **state)
{
    (void)state;
    fake_begin();
    now_ns = 1000 * second_ns;
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    tide_tree_release(&tree);
    fake_end();
    return 0;
}

static inline void begin(bool adopt_orphans, int root)
{
    struct tide_err err;
    assert_int_equal(tide_tree_init(&tree, fake_root, adopt_orphans, &err), 0);
    if (root)
        assert_int_equal(tide_tree_add_root(&tree, root, now_ns, &err), 0);
}

static inline void look(void)
{
    assert_int_equal(tide_tree_scan(&tree, now_ns, NULL), 0);
    tide_tree_read(&tree, now_ns);
    now_ns += second_ns;
}

static inline struct tide_member *member(int pid)
{
    return tide_tree_find(&tree, pid);
}

static inline size_t alive(void)
{
    size_t count = 0;
    for (size_t i = 0; i < tree.member_count; i++)
        count += !tree.members[i]->ended;
    return count;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
