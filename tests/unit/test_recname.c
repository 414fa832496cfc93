/*
 * What a recording is called: after the program that a person would name, whatever starts it.
 */
#include "cli/recname.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS = 12 };

static void expect(const char *command, const char *word)
{
    char text[256], *argv[WORDS + 1] = {0}, got[80];
    snprintf(text, sizeof text, "%s", command);
    size_t count = 0;
    for (char *p = strtok(text, " "); p && count < WORDS; p = strtok(NULL, " "))
        argv[count++] = p;
    tide_recname_word(argv, got, sizeof got);
    if (strcmp(got, word))
        fail_msg("'%s' is called '%s', not '%s'", command, got, word);
}

static void a_recording_is_called_after_the_script(void **state)
{
    (void)state;
    expect("./train", "train");
    expect("/opt/bin/train --lr 1", "train");
    expect("python train.py", "train");
    expect("python3.11 -u train.py --epochs 3", "train");
    expect("python -m pkg.train --x", "pkg.train");
    expect("uv run python train.py", "train");
    expect("uv run train.py", "train");
    expect("torchrun --nproc_per_node=4 train.py", "train");
    expect("accelerate launch train.py", "train");
    expect("env CUDA_VISIBLE_DEVICES=0 OMP_NUM_THREADS=4 python finetune.py", "finetune");
    expect("nice -n 10 ./train", "train");
    expect("timeout 10m ./train", "train");
    expect("bash run.sh", "run");
    expect("sh -c whatever", "sh");
    expect("python", "python");
    expect("python -c print(1)", "python");
    expect("uv", "uv");
}

static void nothing_strange_gets_into_a_file_name(void **state)
{
    (void)state;
    expect("./a\x1b[31m;rm", "a__31m_rm");
    expect("./.hidden", "_hidden");
    expect("./-rf", "_rf");
    expect("./gr\xc3\xbcn", "gr__n");
    expect("/", "_");
    char long_name[200], *argv[] = {long_name, NULL}, got[80];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    tide_recname_word(argv, got, sizeof got);
    assert_int_equal(strlen(got), 64);
    tide_recname_word(argv, got, 5);
    assert_string_equal(got, "xxxx");
}

static void a_name_that_is_taken_gets_a_number(void **state)
{
    (void)state;
    char folder[] = "/tmp/tidemark-recname-XXXXXX", path[4096], again[4096], here[4096];
    bool elsewhere = 1;
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(tide_recname_path("train", path, sizeof path, &elsewhere), 0);
    assert_int_equal(elsewhere, 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(tide_recname_path("train", again, sizeof again, &elsewhere), 0);
    assert_string_not_equal(path, again);
    assert_int_equal(tide_recname_path("train", again, 10, &elsewhere), -1);
    unlink(path);
    assert_int_equal(chdir(here), 0);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_is_called_after_the_script),
        cmocka_unit_test(nothing_strange_gets_into_a_file_name),
        cmocka_unit_test(a_name_that_is_taken_gets_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
