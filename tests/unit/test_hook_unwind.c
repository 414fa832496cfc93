/* The hook's unwinder: against libgcc's, through signal frames, and with stacks that lie. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "hook/cfi.h"
#include "hook/object.h"
#include "hook/unwind.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

enum { WORDS = 256 };

/* Asked once, since asking allocates, which a signal handler must not. */
static struct tide_unwind_stack stack_of_thread(void)
{
    static __thread struct tide_unwind_stack stack;
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    if (!stack.high) {
        assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
        pthread_attr_getstack(&attributes, &low, &bytes);
        pthread_attr_destroy(&attributes);
        stack = (struct tide_unwind_stack){.low = (uintptr_t)low, .high = (uintptr_t)low + bytes};
    }
    return stack;
}

struct trace {
    uint64_t words[WORDS];
    size_t count;
};

static _Unwind_Reason_Code take(struct _Unwind_Context *context, void *argument)
{
    struct trace *trace = argument;
    int before = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &before);
    if (!pc || trace->count == WORDS)
        return _URC_END_OF_STACK;
    trace->words[trace->count++] = pc + (uintptr_t)before; /* as heap.h wants what is not a return address */
    return _URC_NO_REASON;
}

static struct trace ours, theirs;
static bool ours_complete;

static __attribute__((noinline)) void walk_both(void)
{
    struct tide_unwind_stack stack = stack_of_thread();
    theirs.count = 0;
    _Unwind_Backtrace(take, &theirs);
    struct tide_unwind_trace trace = {.words = ours.words, .room = WORDS};
    tide_unwind_walk(TIDE_UNWIND_CALLER, &stack, &trace);
    ours.count = trace.count;
    ours_complete = trace.complete;
}

/* From the caller of walk_both on, both say the same. libgcc also sees walk_both itself. */
static void expect_equal(size_t least)
{
    assert_true(ours_complete);
    assert_true(ours.count >= least);
    size_t skip = 0;
    while (skip < theirs.count && theirs.words[skip] != ours.words[1])
        skip++;
    assert_true(skip > 0 && skip < theirs.count);
    size_t rest = theirs.count - skip;
    assert_true(ours.count - 1 == rest || ours.count - 1 == rest + 1);
    assert_memory_equal(ours.words + 1, theirs.words + skip, rest * sizeof *ours.words);
}

static __attribute__((noinline)) int descend(int depth)
{
    volatile char buffer[200];
    buffer[depth] = 1;
    if (depth)
        return descend(depth - 1) + buffer[depth];
    walk_both();
    return buffer[0];
}

static void a_deep_stack_is_what_libgcc_says(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) { /* learned, then known */
        descend(60);
        expect_equal(62);
    }
}

/* A variable-length array makes the compiler use a frame pointer, alignment makes it realign the stack. */
static __attribute__((noinline)) void vary(size_t bytes)
{
    volatile char array[bytes];
    array[bytes - 1] = 1;
    __asm__ volatile("" ::"r"(array) : "memory");
    walk_both();
    __asm__ volatile("" ::"r"(array) : "memory");
}

static __attribute__((noinline)) void align(size_t bytes)
{
    _Alignas(128) volatile char wide[256];
    volatile char array[bytes];
    wide[3] = array[0] = 1;
    __asm__ volatile("" ::"r"(wide), "r"(array) : "memory");
    walk_both();
    wide[5] = 1;
}

static void frame_pointers_and_aligned_frames_are_followed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        vary(1000 + (size_t)i * 64);
        expect_equal(3);
        align(100 + (size_t)i * 64);
        expect_equal(3);
    }
}

static int compare_by_walking(const void *a, const void *b)
{
    walk_both();
    return *(const int *)a - *(const int *)b;
}

static void code_of_the_c_library_is_stepped_over(void **state)
{
    (void)state;
    int numbers[] = {3, 1};
    qsort(numbers, 2, sizeof *numbers, compare_by_walking);
    expect_equal(4);
}

static void on_signal(int number)
{
    (void)number;
    walk_both();
}

static void a_signal_frame_is_stepped_over(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal}, before;
    stack_of_thread();
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int i = 0; i < 2; i++) {
        raise(SIGUSR1);
        expect_equal(5);
    }
    sigaction(SIGUSR1, &before, NULL);
}

static void *walk_in_thread(void *argument)
{
    descend(10);
    expect_equal(12);
    return argument;
}

static void the_stack_of_a_thread_ends_where_it_began(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, walk_in_thread, NULL), 0);
    pthread_join(thread, NULL);
}

static __attribute__((noinline)) size_t walk_with(struct tide_unwind_stack stack, size_t room,
                                                  bool *ret_complete)
{
    uint64_t words[WORDS];
    struct tide_unwind_trace trace = {.words = words, .room = room};
    tide_unwind_walk(TIDE_UNWIND_CALLER, &stack, &trace);
    *ret_complete = trace.complete;
    return trace.count;
}

static void a_walk_stays_within_its_bounds_and_room(void **state)
{
    (void)state;
    struct tide_unwind_stack stack = stack_of_thread();
    bool complete;
    assert_true(walk_with(stack, WORDS, &complete) > 3 && complete);
    assert_int_equal(walk_with(stack, 2, &complete), 2);
    assert_false(complete);
    stack.low = stack.high = 0;
    assert_int_equal(walk_with(stack, WORDS, &complete), 1);
    assert_false(complete);
}

/* A page whose neighbour cannot be read, filled with whatever leads out of it. */
static void a_stack_of_garbage_is_no_fault(void **state)
{
    (void)state;
    size_t bytes = 65536;
    char *memory = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + bytes, bytes, PROT_NONE), 0);
    uintptr_t known[] = {(uintptr_t)descend + 20, (uintptr_t)vary + 40,      (uintptr_t)align + 60,
                         (uintptr_t)qsort + 8,    (uintptr_t)walk_both + 30, 0xdeadbeef};
    uint64_t random = 12345;
    for (int round = 0; round < 20000; round++) {
        uintptr_t *words = (uintptr_t *)memory;
        for (size_t i = 0; i < 64; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t r = random >> 33;
            words[bytes / 8 - 64 + i] = r % 3 == 0   ? known[r % (sizeof known / sizeof *known)]
                                        : r % 3 == 1 ? (uintptr_t)memory + bytes - r % 1024
                                                     : random;
        }
        struct tide_unwind_stack stack = {.low = (uintptr_t)memory, .high = (uintptr_t)memory + bytes};
        struct tide_unwind_frame frame = {.pc = known[round % 5],
                                          .sp = (uintptr_t)memory + bytes - 8 * (uintptr_t)(round % 64),
                                          .bp = words[bytes / 8 - 1 - (size_t)round % 64]};
        uint64_t out[WORDS];
        struct tide_unwind_trace trace = {.words = out, .room = WORDS};
        tide_unwind_walk(frame, &stack, &trace);
        assert_true(trace.count <= WORDS);
    }
    munmap(memory, 2 * bytes);
}

static void rules_survive_packing(void **state)
{
    (void)state;
    for (int kind = TIDE_CFI_SP; kind <= TIDE_CFI_NONE; kind++)
        for (int32_t offset = -65536 * 8; offset <= 65535 * 8; offset += 8 * 1021)
            for (uint32_t saved = 0; saved <= TIDE_CFI_BP_AT_BP; saved += 89) {
                struct tide_cfi_rule rule = {
                    .kind = (enum tide_cfi_kind)kind, .offset = offset, .saved = saved};
                struct tide_cfi_rule back = tide_cfi_unpack(tide_cfi_pack(rule));
                assert_int_equal(back.kind, rule.kind);
                assert_int_equal(back.offset, rule.offset);
                assert_int_equal(back.saved, rule.saved);
            }
    struct tide_cfi_rule far = {.kind = TIDE_CFI_SP, .offset = 65536 * 8},
                         odd = {.kind = TIDE_CFI_SP, .offset = 4};
    assert_int_equal(tide_cfi_unpack(tide_cfi_pack(far)).kind, TIDE_CFI_NONE);
    assert_int_equal(tide_cfi_unpack(tide_cfi_pack(odd)).kind, TIDE_CFI_NONE);
}

/* Every address of a library, and every byte of its tables changed: a rule or none, never a fault. */
static void damaged_tables_give_no_rule_or_some_rule(void **state)
{
    (void)state;
    struct tide_object object;
    assert_true(tide_object_find((uintptr_t)getsid, &object));
    size_t none = 0, asked = 0;
    for (uintptr_t at = (uintptr_t)getsid & ~(uintptr_t)0xffff; at < ((uintptr_t)getsid | 0xffff);
         at += 13, asked++)
        none += tide_cfi_find(&object, at).kind == TIDE_CFI_NONE;
    assert_true(none < asked / 10);
    /* A copy of the header and what follows, in an object of its own. */
    size_t bytes = object.end - (uintptr_t)object.eh_frame;
    bytes = bytes < 200000 ? bytes : 200000;
    size_t whole = (bytes + 4095) & ~(size_t)4095;
    uint8_t *copy = mmap(NULL, whole + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(copy, MAP_FAILED);
    assert_int_equal(mprotect(copy + whole, 4096, PROT_NONE), 0);
    uint8_t *start = copy + whole - bytes;
    struct tide_object damaged = {
        .start = (uintptr_t)start, .end = (uintptr_t)copy + whole, .eh_frame = start, .path = "", .base = 0};
    uint64_t random = 99;
    memcpy(start, object.eh_frame, bytes);
    for (int round = 0; round < 20000; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        start[(random >> 33) % (round % 2 ? bytes : 64)] = (uint8_t)(random >> 56);
        if (round % 50 == 0)
            memcpy(start, object.eh_frame, bytes);
        uintptr_t address =
            (uintptr_t)start + ((uintptr_t)getsid - (uintptr_t)object.eh_frame) + (random >> 40) % 65536;
        tide_cfi_find(&damaged, address);
    }
    munmap(copy, whole + 4096);
}

static void objects_are_found_with_their_symbols(void **state)
{
    (void)state;
    struct tide_object object;
    uint64_t size = 0;
    assert_true(tide_object_find((uintptr_t)getsid, &object));
    assert_non_null(strstr(object.path, "libc"));
    assert_int_equal(tide_object_symbol(&object, "getsid", &size), (uintptr_t)dlsym(RTLD_DEFAULT, "getsid"));
    assert_true(size > 0);
    assert_int_equal(tide_object_symbol(&object, "no_such_function_here", NULL), 0);
    uint8_t id[20];
    assert_true(tide_object_build_id(&object, id, sizeof id) >= 8);
    assert_false(tide_object_find(4096, &object));
}

int main(void)
{
    tide_object_init();
    tide_unwind_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deep_stack_is_what_libgcc_says),
        cmocka_unit_test(frame_pointers_and_aligned_frames_are_followed),
        cmocka_unit_test(code_of_the_c_library_is_stepped_over),
        cmocka_unit_test(a_signal_frame_is_stepped_over),
        cmocka_unit_test(the_stack_of_a_thread_ends_where_it_began),
        cmocka_unit_test(a_walk_stays_within_its_bounds_and_room),
        cmocka_unit_test(a_stack_of_garbage_is_no_fault),
        cmocka_unit_test(rules_survive_packing),
        cmocka_unit_test(damaged_tables_give_no_rule_or_some_rule),
        cmocka_unit_test(objects_are_found_with_their_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
