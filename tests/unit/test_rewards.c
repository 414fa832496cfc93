/*
 * test_rewards.c - questions to commands that give rewards, and what commands do instead of answering.
 */
#include "base/allocations.h"
#include "base/clock.h"
#include "failing_malloc.h"
#include "train/reward_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char fields[] = "\"prompt\": \"07+85=\", \"n\": 1.50";
static const struct tide_prompt prompt = {"07+85=", 6, fields, sizeof fields - 1, 12};
static const struct tide_completion_text two[] = {{"092\n", 4}, {"91\n", 3}};

/* ---- lines */

static void a_question_is_one_line_of_json_however_it_is_cut(void **state)
{
    (void)state;
    static const struct tide_completion_text odd[] = {
        {"a\"\\\n\x01\xff\xc3", 7}, {"", 0}, {"\xc3\xa9\xf0\x9f\x98\x80\0z", 8}};
    static const char expected[] =
        "{\"prompt\": \"07+85=\", \"n\": 1.50,\"completions\":[\"a\\\"\\\\\\u000a\\u0001\xef\xbf\xbd\xef\xbf\xbd\","
        "\"\",\"\xc3\xa9\xf0\x9f\x98\x80\\u0000z\"]}\n";
    for (size_t room = TIDE_REWARD_PIECE_LEAST; room < 300; room += 7) {
        struct tide_reward_question question = {.prompt = &prompt, .completions = odd, .count = 3};
        char whole[512], piece[300];
        size_t len = 0, got;
        while ((got = tide_reward_question_next(&question, piece, room))) {
            memcpy(whole + len, piece, got);
            len += got;
        }
        assert_int_equal(len, strlen(expected));
        assert_memory_equal(whole, expected, len);
        json_t *root = json_loadb(whole, len, JSON_ALLOW_NUL, NULL);
        assert_int_equal(json_array_size(json_object_get(root, "completions")), 3);
        json_decref(root);
    }
}

static int answer(const char *text, float rewards[static 2], struct tide_err *err)
{
    char line[256];
    snprintf(line, sizeof line, "%s", text);
    return tide_reward_answer(line, strlen(line), 2, rewards, err);
}

static void answers_are_a_number_for_each(void **state)
{
    (void)state;
    static const char *const good[] = {"[1.5,-2e-1]", " [ 1.5 , -0.2 ] \r", "{\"rewards\":[1.5,-0.2]}",
                                       " { \"rewards\" : [ 15e-1 , -0.20 ] } "};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        float rewards[2];
        struct tide_err err;
        if (answer(good[i], rewards, &err))
            fail_msg("%s", err.text);
        assert_true(rewards[0] == 1.5F && rewards[1] == -0.2F);
    }
}

static void other_answers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *sentence;
    } bad[] = {
        {"", "answered '', which is not a JSON array of numbers"},
        {"Loading", "answered 'Loading', which is not a JSON array of numbers"},
        {"1 0", "answered '1 0', which is not a JSON array of numbers"},
        {"[1, 0", "answered '[1, 0', which is not a JSON array of numbers"},
        {"[1 0]", "answered '[1 0]', which is not a JSON array of numbers"},
        {"[1, 0] ok", "answered '[1, 0] ok', which is not a JSON array of numbers"},
        {"{\"scores\":[1,0]}", "answered '{\"scores\":[1,0]}', which is not a JSON array of numbers"},
        {"{\"rewards\":[1,0]", "answered '{\"rewards\":[1,0]', which is not a JSON array of numbers"},
        {"{\"rewards\":[1,0],\"a\":1}",
         "answered '{\"rewards\":[1,0],\"a\":1}', which is not a JSON array of numbers"},
        {"\x1b[2J", "answered '\\x1b[2J', which is not a JSON array of numbers"},
        {"[]", "gave 0 rewards for 2 completions"},
        {"[1]", "gave 1 rewards for 2 completions"},
        {"[1,0,1]", "gave 3 rewards for 2 completions"},
        {"[1,NaN]", "answered 'NaN' as reward 2 of 2, which is not a finite number"},
        {"[Infinity,1]", "answered 'Infinity' as reward 1 of 2, which is not a finite number"},
        {"[1,null]", "answered 'null' as reward 2 of 2, which is not a finite number"},
        {"[1,true]", "answered 'true' as reward 2 of 2, which is not a finite number"},
        {"[1,\"0\"]", "answered '\"0\"' as reward 2 of 2, which is not a finite number"},
        {"[1,]", "answered '' as reward 2 of 2, which is not a finite number"},
        {"[1,1e39]", "answered '1e39' as reward 2 of 2, which is not a finite number"},
        {"[1,1e999]", "answered '1e999' as reward 2 of 2, which is not a finite number"},
        {"[1,-]", "answered '-' as reward 2 of 2, which is not a finite number"},
        {"[1,0x10]", "answered '[1,0x10]', which is not a JSON array of numbers"},
        {"[1,.5]", "answered '.5' as reward 2 of 2, which is not a finite number"},
        {"[1,01]", "answered '01' as reward 2 of 2, which is not a finite number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float rewards[2];
        struct tide_err err;
        assert_int_equal(answer(bad[i].line, rewards, &err), -1);
        assert_string_equal(err.text, bad[i].sentence);
        assert_true(*err.hint);
    }
    struct tide_err err;
    char nul[] = "[1,0]\0x";
    assert_int_equal(tide_reward_answer(nul, 7, 2, (float[2]){0}, &err), -1);
    assert_string_equal(err.text, "answered '[1,0]\\x00x', which is not a JSON array of numbers");
}

/* ---- commands */

static char said[4096]; /* on standard error */

static void hear(void *context, const char *line)
{
    (void)context;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", line);
}

static struct tide_rewarder *started_for(const char *command, int64_t timeout_ms, int64_t most)
{
    struct tide_reward_command how = {
        .command = command, .timeout_ms = timeout_ms, .most = most, .say = hear};
    struct tide_rewarder *rewarder;
    struct tide_err err;
    *said = '\0';
    if (tide_rewarder_command(&how, &rewarder, &err))
        fail_msg("%s", err.text);
    return rewarder;
}

static struct tide_rewarder *started(const char *command)
{
    return started_for(command, 30000, 2);
}

static void assert_no_child(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* The sentence after the command and what it was asked about. */
static void assert_fault(const char *command, int64_t timeout_ms, const char *sentence)
{
    struct tide_rewarder *rewarder = started_for(command, timeout_ms, 2);
    struct tide_err err;
    float rewards[2];
    assert_int_equal(tide_rewarder_ask(rewarder, &prompt, two, 2, rewards, &err), -1);
    assert_memory_equal(err.text, "the reward command '", 20);
    const char *after = strstr(err.text, "', asked about line 12, ");
    assert_non_null(after);
    after += strlen("', asked about line 12, ");
    if (strncmp(after, sentence, strlen(sentence)) != 0)
        fail_msg("'%s' is not '%s'", after, sentence);
    assert_true(*err.hint);
    assert_no_child();
    assert_int_equal(tide_rewarder_ask(rewarder, &prompt, two, 2, rewards, &err), -1);
    assert_non_null(strstr(err.text, "' has ended"));
    tide_rewarder_free(rewarder);
}

static void a_command_is_asked_again_and_again(void **state)
{
    (void)state;
    struct tide_rewarder *rewarder = started(
        "n=0; while read -r line; do n=$((n+1)); printf '%s\\033\\n' \"$line\" >&2; echo \"[$n, -$n]\"; done");
    struct tide_err err;
    for (int i = 1; i <= 5; i++) {
        float rewards[2];
        if (tide_rewarder_ask(rewarder, &prompt, two, 2, rewards, &err))
            fail_msg("%s", err.text);
        assert_true(rewards[0] == (float)i && rewards[1] == (float)-i);
        assert_int_equal(tide_rewarder_check(rewarder, &err), 0);
    }
    tide_rewarder_free(rewarder);
    static const char line[] = "{\"prompt\": \"07+85=\", \"n\": "
                               "1.50,\"completions\":[\"092\\u000a\",\"91\\u000a\"]}\\x1b\n";
    assert_int_equal(strlen(said), 5 * strlen(line));
    assert_memory_equal(said, line, strlen(line));
    assert_no_child();
}

static void neither_side_waits_for_the_other(void **state)
{
    (void)state;
    enum { MANY = 1 << 18 }; /* more than a pipe holds */
    static const char *const commands[] = {
        "dd bs=1 count=1 2>/dev/null | wc -c >&2; echo '[1, 0]'; cat >/dev/null", /* answers first */
        "while read -r line; do echo \"$line\" >&2; echo '[1, 0]'; done", /* says as much as it hears */
    };
    char *large = malloc(MANY);
    memset(large, 'x', MANY);
    struct tide_completion_text long_ones[] = {{large, MANY}, {large, MANY}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct tide_rewarder *rewarder = started(commands[i]);
        struct tide_err err;
        float rewards[2];
        if (tide_rewarder_ask(rewarder, &prompt, long_ones, 2, rewards, &err))
            fail_msg("%s", err.text);
        assert_true(rewards[0] == 1 && rewards[1] == 0);
        tide_rewarder_free(rewarder);
        assert_no_child();
    }
    struct tide_rewarder *rewarder = started("dd bs=1 count=1 2>/dev/null | wc -c >&2; exit 4");
    struct tide_err err;
    assert_int_equal(tide_rewarder_ask(rewarder, &prompt, long_ones, 2, (float[2]){0}, &err), -1);
    assert_non_null(strstr(err.text, ", asked about line 12, ended with exit status 4: 1"));
    tide_rewarder_free(rewarder);
    free(large);
}

static void a_command_that_dies_says_why(void **state)
{
    (void)state;
    assert_fault("read -r line; echo one >&2; echo two >&2; echo three >&2; printf four >&2; exit 3", 30000,
                 "ended with exit status 3: two | three | four");
    assert_fault("read -r line; printf '  f()\\n  ^^~^\\nKeyError: 7\\n' >&2; exit 1", 30000,
                 "ended with exit status 1: f() | KeyError: 7");
    assert_fault("read -r line; kill -9 $$", 30000, "was killed by signal 9 (Killed)");
    assert_fault("read -r line; exit 0", 30000, "ended with exit status 0");
}

static void a_command_that_is_not_there_is_noticed_before_it_is_asked(void **state)
{
    (void)state;
    struct tide_rewarder *rewarder = started("/not/there");
    struct tide_err err;
    int64_t deadline = tide_clock_ns() + INT64_C(30) * TIDE_NS_PER_S;
    int status;
    while (!(status = tide_rewarder_check(rewarder, &err)) && tide_clock_ns() < deadline)
        usleep(1000);
    assert_int_equal(status, -1);
    assert_memory_equal(err.text, "the reward command '/not/there' ended with exit status 127: ", 60);
    assert_non_null(strstr(err.text, "not found"));
    assert_non_null(strstr(err.hint, "PATH"));
    tide_rewarder_free(rewarder);
    assert_no_child();
}

static bool is_alive(pid_t pid)
{
    char path[64], stat[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *in = fopen(path, "re");
    if (!in)
        return false;
    bool read = fgets(stat, sizeof stat, in) != NULL;
    fclose(in);
    const char *after = strrchr(stat, ')');
    return read && after && after[2] != 'Z' && after[2] != 'X';
}

static void a_command_that_hangs_is_killed_with_its_children(void **state)
{
    (void)state;
    assert_fault("sleep 1000 & echo $! >&2; while :; do sleep 1000; done", 1000, "gave no answer in 1 s");
    pid_t child = (pid_t)atoi(said);
    assert_true(child > 1);
    for (int64_t deadline = tide_clock_ns() + INT64_C(30) * TIDE_NS_PER_S;
         is_alive(child) && tide_clock_ns() < deadline;)
        usleep(1000);
    assert_false(is_alive(child));
}

static void what_keeps_talking_to_people_is_late_too(void **state)
{
    (void)state;
    assert_fault("read -r line; while :; do echo working >&2; done", 300, "gave no answer in 0.3 s");
    assert_non_null(strstr(said, "working\nworking\n"));
}

static void a_flood_is_an_answer_that_is_too_long_or_one_too_many(void **state)
{
    (void)state;
    assert_fault("read -r line; while :; do printf 0123456789; done", 30000,
                 "answered with a line of more than 4224 bytes");
    assert_fault("read -r line; printf '[1, 0]\\nhello\\n'; cat", 30000,
                 "wrote more than the answer that it was asked for: 'hello'");
}

static void answers_that_nobody_asked_for_are_noticed_when_they_come(void **state)
{
    (void)state;
    struct tide_rewarder *rewarder = started("read -r line; while :; do echo '[1, 0]'; done");
    struct tide_err err = {0};
    while (!tide_rewarder_ask(rewarder, &prompt, two, 2, (float[2]){0}, &err))
        ; /* one may be as fast as the other for a while */
    assert_non_null(strstr(err.text, "wrote more than the answer that it was asked for: '["));
    assert_no_child();
    tide_rewarder_free(rewarder);
}

static void what_comes_before_the_question_is_refused(void **state)
{
    (void)state;
    struct tide_rewarder *rewarder = started("echo Loading; echo loaded >&2; cat >/dev/null");
    struct tide_err err;
    int64_t deadline = tide_clock_ns() + INT64_C(30) * TIDE_NS_PER_S;
    while (!tide_rewarder_check(rewarder, &err) && tide_clock_ns() < deadline)
        usleep(1000);
    assert_non_null(strstr(err.text, "wrote more than the answer that it was asked for: 'Loading'"));
    tide_rewarder_free(rewarder);
}

static void pipes_that_are_closed_are_named(void **state)
{
    (void)state;
    assert_fault("exec >&-; sleep 1000", 30000, "closed its standard output");
    struct tide_rewarder *rewarder = started("exec <&-; echo closed >&2; sleep 1000");
    struct tide_err err;
    while (!*said)
        assert_int_equal(tide_rewarder_check(rewarder, &err), 0);
    assert_int_equal(tide_rewarder_ask(rewarder, &prompt, two, 2, (float[2]){0}, &err), -1);
    assert_non_null(strstr(err.text, "closed its standard input"));
    tide_rewarder_free(rewarder);
    assert_no_child();
}

static void a_wrong_answer_ends_it(void **state)
{
    (void)state;
    assert_fault("while read -r line; do echo '[1]'; done", 30000, "gave 1 rewards for 2 completions");
    assert_fault("while read -r line; do echo '[1, NaN]'; done", 30000,
                 "answered 'NaN' as reward 2 of 2, which is not a finite number");
}

static void nothing_is_left_open_or_running(void **state)
{
    (void)state;
    int before[64], after[64], count = 0;
    for (int fd = 0; fd < 64; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    struct tide_rewarder *rewarder = started("cat >/dev/null; sleep 1000"); /* goes on when its input ends */
    for (int fd = 0; fd < 64; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (before[fd] || flags < 0)
            continue;
        count++;
        assert_true(flags & FD_CLOEXEC);
    }
    assert_true(count >= 3);
    int64_t begin = tide_clock_ns();
    tide_rewarder_free(rewarder);
    assert_true(tide_clock_ns() - begin < INT64_C(30) * TIDE_NS_PER_S);
    assert_no_child();
    for (int fd = 0; fd < 64; fd++) {
        after[fd] = fcntl(fd, F_GETFD) >= 0;
        assert_int_equal(after[fd], before[fd]);
    }
}

static void asking_allocates_nothing(void **state)
{
    (void)state;
    struct tide_rewarder *rewarder = started("while read -r line; do echo a line >&2; echo '[1, 0]'; done");
    struct tide_err err;
    float rewards[2];
    assert_int_equal(tide_rewarder_ask(rewarder, &prompt, two, 2, rewards, &err), 0);
    int64_t before = tide_allocations();
#if HAVE_FAILING_MALLOC
    failing_arm(0);
#endif
    for (int i = 0; i < 20; i++)
        assert_int_equal(tide_rewarder_ask(rewarder, &prompt, two, 2, rewards, &err), 0);
#if HAVE_FAILING_MALLOC
    assert_false(failing_disarm());
#endif
    assert_int_equal(tide_allocations(), before);
    tide_rewarder_free(rewarder);
}

static void sums_are_checked_here(void **state)
{
    (void)state;
    static const struct tide_completion_text all[] = {
        {"092\n", 4},           {"92", 2},   {"091\n", 4}, {"", 0},    {"x", 1}, {"092", 3},
        {"092\n17+05=022", 13}, {"0092", 4}, {"00092", 5}, {"0920", 4}};
    /* Of "092" and its end; half for all of it. What is right in another writing ("92") is right. */
    static const float expected[] = {1, 1, 0.375F, 0, 0, 1, 1, 1, 0.125F, 0.375F};
    float rewards[10];
    tide_rewards_of_sums(&prompt, all, 10, rewards);
    for (int i = 0; i < 10; i++)
        assert_true(rewards[i] == expected[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_is_one_line_of_json_however_it_is_cut),
        cmocka_unit_test(answers_are_a_number_for_each),
        cmocka_unit_test(other_answers_are_refused),
        cmocka_unit_test(a_command_is_asked_again_and_again),
        cmocka_unit_test(neither_side_waits_for_the_other),
        cmocka_unit_test(a_command_that_dies_says_why),
        cmocka_unit_test(a_command_that_is_not_there_is_noticed_before_it_is_asked),
        cmocka_unit_test(a_command_that_hangs_is_killed_with_its_children),
        cmocka_unit_test(what_keeps_talking_to_people_is_late_too),
        cmocka_unit_test(a_flood_is_an_answer_that_is_too_long_or_one_too_many),
        cmocka_unit_test(answers_that_nobody_asked_for_are_noticed_when_they_come),
        cmocka_unit_test(what_comes_before_the_question_is_refused),
        cmocka_unit_test(pipes_that_are_closed_are_named),
        cmocka_unit_test(a_wrong_answer_ends_it),
        cmocka_unit_test(nothing_is_left_open_or_running),
        cmocka_unit_test(asking_allocates_nothing),
        cmocka_unit_test(sums_are_checked_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
