/*
 * fuzz_prompts.c - any bytes as a file of prompts. What is read back is what jansson says, line by line.
 */
#include "base/check.h"
#include "train/prompts.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void clean_up(void)
{
    unlink(path);
}

static void write_file(const uint8_t *data, size_t size)
{
    if (!path[0]) {
        snprintf(path, sizeof path, "/dev/shm/fuzz-prompts-%d", (int)getpid());
        atexit(clean_up);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    TIDE_CHECK(fd, >=, 0);
    TIDE_CHECK(write(fd, data, size), ==, size);
    TIDE_CHECK(close(fd), ==, 0);
}

/* The fields, and what a question would be made of. */
static void compare(const struct tide_prompt *prompt)
{
    char *whole = malloc(prompt->fields_len + 2);
    TIDE_CHECK_TRUE(whole != NULL);
    whole[0] = '{';
    memcpy(whole + 1, prompt->fields, prompt->fields_len);
    whole[prompt->fields_len + 1] = '}';
    json_t *root = json_loadb(whole, prompt->fields_len + 2, JSON_REJECT_DUPLICATES, NULL);
    TIDE_CHECK_TRUE(root != NULL);
    const json_t *text = json_object_get(root, "prompt");
    TIDE_CHECK(json_string_length(text), ==, prompt->len);
    TIDE_CHECK(memcmp(json_string_value(text), prompt->text, prompt->len + 1), ==, 0);
    json_decref(root);
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tide_prompts *prompts;
    struct tide_prompt prompt;
    struct tide_err err;
    write_file(data, size);
    if (tide_prompts_open(path, 1, &prompts, &err)) {
        TIDE_CHECK_TRUE(err.text[0] != '\0');
        return 0;
    }
    for (int64_t i = 0; i < tide_prompts_count(prompts); i++) {
        TIDE_CHECK(tide_prompts_read_in_order(prompts, i, &prompt, &err), ==, 0);
        compare(&prompt);
    }
    TIDE_CHECK(tide_prompts_read(prompts, size, &prompt, &err), ==, 0);
    write_file(data, size / 2);
    if (tide_prompts_read(prompts, size, &prompt, &err) == 0)
        compare(&prompt);
    tide_prompts_free(prompts);
    return 0;
}
