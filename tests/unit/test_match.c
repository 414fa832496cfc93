/*
 * test_match.c - call sites of two recordings, told by what their frames are called.
 */
#include "assess/match.h"
#include "record/reader.h"
#include "record/writer.h"
#include "show/text/stack_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { DEPTH = 8 };

/* A frame is "function:file:line", or "module!function+offset"; Python's when its file ends in .py. Innermost
 * first, "" at the end. */
typedef const char *const stack_text[DEPTH];

static struct tide_frame read_frame(const char *text, char *room, size_t size)
{
    struct tide_frame f = {.function = "", .file = "", .module = "", .line = TIDE_UNKNOWN, .offset = 0x10};
    snprintf(room, size, "%s", text);
    char *bang = strchr(room, '!'), *rest;
    if (bang) {
        *bang = 0;
        f.module = room;
        f.function = bang + 1;
        rest = strchr(bang + 1, '+');
        f.offset = rest ? strtol(rest + 1, NULL, 10) : 0;
        if (rest)
            *rest = 0;
        return f;
    }
    f.function = strtok_r(room, ":", &rest);
    f.file = strtok_r(NULL, ":", &rest);
    f.line = strtol(rest, NULL, 10);
    size_t len = strlen(f.file);
    f.python = len > 3 && !strcmp(f.file + len - 3, ".py");
    if (!f.python)
        f.module = "/usr/bin/trainer";
    return f;
}

static void put_site(struct tide_writer *writer, int64_t process, enum tide_site_kind kind,
                     const char *const *stack)
{
    int64_t frames[DEPTH], id;
    size_t depth = 0;
    struct tide_site site = {.process = process, .kind = kind};
    for (; depth < DEPTH && stack[depth]; depth++) {
        char room[128];
        struct tide_frame f = read_frame(stack[depth], room, sizeof room);
        assert_int_equal(tide_writer_frame(writer, &f, &frames[depth], NULL), 0);
    }
    if (depth)
        assert_int_equal(tide_writer_stack(writer, frames, depth, &site.stack, NULL), 0);
    assert_int_equal(tide_writer_site(writer, &site, &id, NULL), 0);
}

static struct tide_history *make(const stack_text *stacks, size_t count, size_t processes)
{
    char path[64];
    struct tide_err err = {0};
    struct tide_writer *writer;
    struct tide_reader *reader = NULL;
    struct tide_history *history = NULL;
    snprintf(path, sizeof path, "/tmp/test_match.%d.tide", (int)getpid());
    unlink(path);
    if (tide_writer_new(path, &writer, &err))
        fail_msg("%s", err.text);
    for (size_t p = 0; p < processes; p++) {
        struct tide_process row = {.pid = (int64_t)p + 5,
                                   .name = "python3",
                                   .command = "",
                                   .role = "train.py",
                                   .ended_ns = TIDE_UNKNOWN};
        int64_t id;
        assert_int_equal(tide_writer_process(writer, &row, &id, NULL), 0);
        for (size_t i = 0; i < count; i++)
            put_site(writer, id, TIDE_SITE_MALLOC, stacks[i]);
    }
    assert_int_equal(tide_writer_free(writer, NULL), 0);
    if (tide_reader_new(path, &reader, &err) || tide_history_new(0, &history, &err) ||
        tide_history_load(history, reader, &err))
        fail_msg("%s", err.text);
    tide_reader_free(reader);
    unlink(path);
    return history;
}

static struct tide_arena arena;

/* Lives until the arena is released. */
static const struct tide_match *match(const struct tide_history *a, const struct tide_history *b)
{
    static struct tide_match m;
    tide_arena_init(&arena, (size_t)1 << 30);
    assert_int_equal(tide_match_sites(a, b, &arena, &m, NULL), 0);
    return &m;
}

/* Index of the site of B that site `a` of A is matched with; -1: none. */
static int partner(const struct tide_match *m, size_t a)
{
    for (size_t i = 0; i < m->count; i++)
        for (size_t k = 0; m->pairs[i].a && k < m->pairs[i].a->count; k++)
            if (m->pairs[i].a->sites[k] == a)
                return m->pairs[i].b ? (int)m->pairs[i].b->sites[0] : -1;
    fail_msg("site %zu is in no pair", a);
    return -2;
}

static void the_same_stacks_match_whatever_their_order_and_directory(void **state)
{
    (void)state;
    static const stack_text before[] = {{"malloc:libc.c:1", "load:/a/data.c:10", "main:/a/main.c:5"},
                                        {"malloc:libc.c:1", "train:/a/main.c:20", "main:/a/main.c:6"}};
    static const stack_text after[] = {{"malloc:libc.c:1", "train:/b/main.c:20", "main:/b/main.c:6"},
                                       {"malloc:libc.c:1", "load:/b/data.c:10", "main:/b/main.c:5"}};
    struct tide_history *a = make(before, 2, 1), *b = make(after, 2, 1);
    const struct tide_match *m = match(a, b);
    assert_int_equal(m->count, 2);
    assert_int_equal(partner(m, 0), 1);
    assert_int_equal(partner(m, 1), 0);
    assert_true(m->pairs[0].a->exact == m->pairs[0].b->exact);
    tide_arena_release(&arena);
    tide_history_free(a);
    tide_history_free(b);
}

static void code_that_moved_as_a_whole_is_matched_in_order(void **state)
{
    (void)state;
    /* Three lines were put in front: the second of B is where the third of A was. */
    static const stack_text before[] = {{"step:train.py:10", "run:train.py:90"},
                                        {"step:train.py:13", "run:train.py:90"},
                                        {"step:train.py:16", "run:train.py:90"}};
    static const stack_text after[] = {{"step:train.py:13", "run:train.py:93"},
                                       {"step:train.py:16", "run:train.py:93"},
                                       {"step:train.py:19", "run:train.py:93"}};
    struct tide_history *a = make(before, 3, 1), *b = make(after, 3, 1);
    const struct tide_match *m = match(a, b);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(partner(m, i), (int)i);
    tide_arena_release(&arena);
    tide_history_free(a);
    tide_history_free(b);
}

static void a_line_that_is_gone_leaves_the_others_matched(void **state)
{
    (void)state;
    static const stack_text before[] = {
        {"step:train.py:10"}, {"step:train.py:13"}, {"step:train.py:16"}, {"other:train.py:40"}};
    static const stack_text after[] = {{"step:train.py:10"}, {"step:train.py:16"}, {"new:train.py:50"}};
    struct tide_history *a = make(before, 4, 1), *b = make(after, 3, 1);
    const struct tide_match *m = match(a, b);
    assert_int_equal(partner(m, 0), 0);
    assert_int_equal(partner(m, 1), -1);
    assert_int_equal(partner(m, 2), 1);
    assert_int_equal(partner(m, 3), -1);
    assert_int_equal(m->count, 5); /* and the new one */
    tide_arena_release(&arena);
    tide_history_free(a);
    tide_history_free(b);
}

static void another_interpreter_below_the_same_lines_does_not_matter(void **state)
{
    (void)state;
    static const stack_text before[] = {{"python3.11!PyByteArray_Resize+100", "keep:train.py:10",
                                         "python3.11!_PyEval_Vector+55", "main:train.py:20"}};
    static const stack_text after[] = {{"python3.12!bytearray_init+7", "python3.12!PyByteArray_Resize+3",
                                        "keep:train.py:11", "main:train.py:21"},
                                       {"python3.12!PyDict_New+7", "fill:train.py:12", "main:train.py:22"}};
    struct tide_history *a = make(before, 1, 1), *b = make(after, 2, 1);
    const struct tide_match *m = match(a, b);
    assert_int_equal(partner(m, 0), 0);
    tide_arena_release(&arena);
    tide_history_free(a);
    tide_history_free(b);
}

static void functions_without_lines_match_by_name_and_then_by_address(void **state)
{
    (void)state;
    static const stack_text before[] = {{"libx.so!grow+100"}, {"libx.so!grow+200"}, {"libx.so!+300"}};
    static const stack_text after[] = {{"libx.so!+301"}, {"libx.so!grow+150"}, {"libx.so!grow+260"}};
    struct tide_history *a = make(before, 3, 1), *b = make(after, 3, 1);
    const struct tide_match *m = match(a, b);
    assert_int_equal(partner(m, 0), 1);
    assert_int_equal(partner(m, 1), 2);
    assert_int_equal(partner(m, 2), 0);
    tide_arena_release(&arena);
    tide_history_free(a);
    tide_history_free(b);
}

static void workers_that_run_the_same_code_are_one_group(void **state)
{
    (void)state;
    static const stack_text stacks[] = {{"keep:train.py:10"}, {"load:train.py:20"}, {NULL}};
    struct tide_history *a = make(stacks, 3, 4), *b = make(stacks, 3, 1);
    const struct tide_match *m = match(a, b);
    assert_int_equal(m->count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(m->pairs[i].a->count, 4);
        assert_int_equal(m->pairs[i].b->count, 1);
    }
    tide_arena_release(&arena);
    tide_history_free(a);
    tide_history_free(b);
}

static void a_recording_without_sites_matches_nothing(void **state)
{
    (void)state;
    static const stack_text stacks[] = {{"keep:train.py:10"}};
    struct tide_history *a = make(stacks, 1, 1), *b = make(stacks, 0, 1);
    const struct tide_match *m = match(a, b);
    assert_int_equal(m->count, 1);
    assert_null(m->pairs[0].b);
    tide_arena_release(&arena);
    m = match(b, b);
    assert_int_equal(m->count, 0);
    tide_arena_release(&arena);
    tide_history_free(a);
    tide_history_free(b);
}

static void a_name_is_not_read_before_its_beginning(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages, page, PROT_NONE), 0);
    memcpy(pages + page, ">>odd(int)", sizeof ">>odd(int)");
    struct tide_frame frame = {
        .function = pages + page, .file = "odd.cc", .line = 3, .module = "", .offset = TIDE_UNKNOWN};
    struct tide_buf text;
    tide_buf_init(&text, 256);
    tide_frame_put(&text, &frame, false);
    assert_string_equal(tide_buf_view(&text), "odd.cc:3 >>odd");
    tide_buf_release(&text);
    munmap(pages, 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_stacks_match_whatever_their_order_and_directory),
        cmocka_unit_test(code_that_moved_as_a_whole_is_matched_in_order),
        cmocka_unit_test(a_line_that_is_gone_leaves_the_others_matched),
        cmocka_unit_test(another_interpreter_below_the_same_lines_does_not_matter),
        cmocka_unit_test(functions_without_lines_match_by_name_and_then_by_address),
        cmocka_unit_test(workers_that_run_the_same_code_are_one_group),
        cmocka_unit_test(a_recording_without_sites_matches_nothing),
        cmocka_unit_test(a_name_is_not_read_before_its_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
