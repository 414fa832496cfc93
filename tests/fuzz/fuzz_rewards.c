/*
 * fuzz_rewards.c - any bytes as the answer of a command that gives rewards: what is taken is what jansson
 * reads. And as completions: the question is JSON.
 */
#include "base/check.h"
#include "train/reward_lines.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COUNT = 2 };

static void answer(const uint8_t *data, size_t size)
{
    struct tide_err err;
    float rewards[COUNT];
    char *line = malloc(size + 1);
    TIDE_CHECK_TRUE(line != NULL);
    memcpy(line, data, size);
    line[size] = '\0';
    if (tide_reward_answer(line, size, COUNT, rewards, &err) == 0) {
        json_t *root = json_loadb(line, size, JSON_DECODE_INT_AS_REAL, NULL);
        const json_t *list = json_is_object(root) ? json_object_get(root, "rewards") : root;
        TIDE_CHECK(json_array_size(list), ==, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            TIDE_CHECK_TRUE((float)json_number_value(json_array_get(list, i)) == rewards[i]);
        json_decref(root);
    } else {
        TIDE_CHECK_TRUE(err.text[0] != '\0');
        TIDE_CHECK(memcmp(line, data, size), ==, 0);
    }
    free(line);
}

static void question(const uint8_t *data, size_t size)
{
    static const char fields[] = "\"prompt\":\"a\"";
    struct tide_prompt prompt = {"a", 1, fields, sizeof fields - 1, 1};
    struct tide_completion_text completions[COUNT] = {{(const char *)data, size / 2},
                                                      {(const char *)data + size / 2, size - size / 2}};
    struct tide_reward_question q = {.prompt = &prompt, .completions = completions, .count = COUNT};
    char *line = malloc(6 * size + 128);
    TIDE_CHECK_TRUE(line != NULL);
    size_t len = 0, got;
    while ((got = tide_reward_question_next(&q, line + len, TIDE_REWARD_PIECE_LEAST)))
        len += got;
    TIDE_CHECK_TRUE(line[len - 1] == '\n');
    TIDE_CHECK_TRUE(memchr(line, '\n', len) == line + len - 1);
    json_t *root = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    TIDE_CHECK(json_array_size(json_object_get(root, "completions")), ==, COUNT);
    json_decref(root);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    answer(data, size);
    question(data, size);
    return 0;
}
