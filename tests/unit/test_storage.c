/* Memory that other modules build on: arena, buffer, map. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void an_arena_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    struct tide_arena arena;
    tide_arena_init(&arena, 1 << 20);
    for (size_t size = 1; size < 3000; size += 7) {
        unsigned char *taken = tide_arena_take(&arena, 1, size);
        assert_non_null(taken);
        assert_int_equal((uintptr_t)taken % 16, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(taken[i], 0);
        memset(taken, 0xa5, size);
        if (size % 3 == 0) {
            tide_arena_release(&arena);
        }
    }
    tide_arena_release(&arena);
}

static void an_arena_never_holds_more_than_its_maximum(void **state)
{
    (void)state;
    struct tide_arena arena;
    tide_arena_init(&arena, 200000);
    assert_null(tide_arena_take(&arena, 1, 200000));
    assert_null(tide_arena_take(&arena, SIZE_MAX / 2, 3));
    assert_null(tide_arena_take(&arena, 1, SIZE_MAX));
    assert_null(tide_arena_text(&arena, "", SIZE_MAX));
    size_t taken = 0;
    while (tide_arena_take(&arena, 10, 100))
        taken += 1000;
    assert_in_range(taken, 100000, 200000);
    assert_true(arena.held_bytes <= 200000);
    tide_arena_release(&arena);
    assert_int_equal(arena.held_bytes, 0);
    assert_non_null(tide_arena_take(&arena, 1, 1));
    tide_arena_release(&arena);
}

static void a_rewind_gives_back_what_came_after_the_mark(void **state)
{
    (void)state;
    struct tide_arena arena;
    tide_arena_init(&arena, 1 << 22);
    char *kept = tide_arena_text(&arena, "kept and more", 4);
    assert_string_equal(kept, "kept");
    struct tide_arena_mark mark = tide_arena_mark(&arena);
    size_t held = arena.held_bytes;
    for (int round = 0; round < 1000; round++) {
        char *scratch = tide_arena_take(&arena, 1, 100000);
        assert_non_null(scratch);
        assert_int_equal(scratch[99999], 0);
        memset(scratch, 1, 100000);
        tide_arena_rewind(&arena, mark);
        assert_int_equal(arena.held_bytes, held);
    }
    assert_string_equal(kept, "kept");
    tide_arena_release(&arena);
}

static void a_buffer_grows_up_to_its_maximum_and_then_keeps_what_it_has(void **state)
{
    (void)state;
    struct tide_buf buf;
    tide_buf_init(&buf, 1000);
    assert_string_equal(tide_buf_view(&buf), "");
    tide_buf_text(&buf, "one ");
    tide_buf_format(&buf, "%d %s", 2, "three");
    assert_string_equal(tide_buf_view(&buf), "one 2 three");
    char big[1000];
    memset(big, 'x', sizeof big);
    tide_buf_append(&buf, big, sizeof big);
    assert_true(buf.failed);
    assert_string_equal(tide_buf_view(&buf), "one 2 three");
    tide_buf_text(&buf, "y");
    assert_string_equal(tide_buf_view(&buf), "one 2 three");
    tide_buf_clear(&buf);
    assert_false(buf.failed);
    tide_buf_append(&buf, big, 999);
    assert_false(buf.failed);
    assert_int_equal(buf.len, 999);
    tide_buf_append(&buf, "x", 1);
    assert_true(buf.failed);
    assert_true(buf.capacity <= 1000);
    tide_buf_release(&buf);
}

static void a_buffer_formats_text_longer_than_any_guess(void **state)
{
    (void)state;
    struct tide_buf buf;
    tide_buf_init(&buf, 1 << 20);
    for (int i = 0; i < 200; i++)
        tide_buf_format(&buf, "%*d", i * 7, i);
    assert_false(buf.failed);
    assert_int_equal(strlen(tide_buf_view(&buf)), buf.len);
    tide_buf_release(&buf);
}

/* xorshift: the same sequence everywhere. */
static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void a_map_agrees_with_an_array(void **state)
{
    (void)state;
    enum { KEYS = 512 };
    bool present[KEYS] = {false};
    uint64_t value[KEYS] = {0}, seed = 7;
    size_t count = 0;
    struct tide_map map;
    tide_map_init(&map, KEYS);
    for (int i = 0; i < 200000; i++) {
        uint64_t random = next_random(&seed), key = random % KEYS, spread = key * 0x100000001b3u << 12;
        if (random >> 62) {
            assert_int_equal(tide_map_put(&map, spread, random), 0);
            count += !present[key];
            present[key] = true;
            value[key] = random;
        } else {
            assert_int_equal(tide_map_remove(&map, spread), present[key]);
            count -= present[key];
            present[key] = false;
        }
        uint64_t got = 0;
        key = next_random(&seed) % KEYS;
        assert_int_equal(tide_map_get(&map, key * 0x100000001b3u << 12, &got), present[key]);
        if (present[key])
            assert_int_equal(got, value[key]);
    }
    assert_int_equal(map.count, count);
    assert_true(map.slot_count <= 4 * KEYS);
    size_t cursor = 0, seen = 0;
    uint64_t key, got;
    while (tide_map_next(&map, &cursor, &key, &got))
        seen++;
    assert_int_equal(seen, count);
    tide_map_release(&map);
}

static void a_full_map_refuses_a_new_key_and_still_takes_an_old_one(void **state)
{
    (void)state;
    struct tide_map map;
    tide_map_init(&map, 3);
    assert_false(tide_map_get(&map, 0, NULL));
    assert_false(tide_map_remove(&map, 0));
    assert_int_equal(tide_map_put(&map, 0, 1), 0);
    assert_int_equal(tide_map_put(&map, UINT64_MAX, 2), 0);
    assert_int_equal(tide_map_put(&map, 5, 3), 0);
    assert_int_equal(tide_map_put(&map, 6, 4), -1);
    assert_int_equal(tide_map_put(&map, 5, 9), 0);
    uint64_t got;
    assert_true(tide_map_get(&map, 5, &got));
    assert_int_equal(got, 9);
    tide_map_clear(&map);
    assert_false(tide_map_get(&map, 5, NULL));
    assert_int_equal(tide_map_put(&map, 6, 4), 0);
    tide_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(an_arena_never_holds_more_than_its_maximum),
        cmocka_unit_test(a_rewind_gives_back_what_came_after_the_mark),
        cmocka_unit_test(a_buffer_grows_up_to_its_maximum_and_then_keeps_what_it_has),
        cmocka_unit_test(a_buffer_formats_text_longer_than_any_guess),
        cmocka_unit_test(a_map_agrees_with_an_array),
        cmocka_unit_test(a_full_map_refuses_a_new_key_and_still_takes_an_old_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
