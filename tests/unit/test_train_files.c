/*
 * test_train_files.c - what training reads: weights, configurations, data; good ones, and damaged or hostile
 * ones.
 */
#include "one_file.h"
#include "train/config.h"
#include "train/data.h"
#include "train/safetensors.h"
#include "train/vocabulary.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- safetensors */

static bool source_at(void *context, int index, struct tide_safetensor_source *ret_source)
{
    *ret_source = ((const struct tide_safetensor_source *)context)[index];
    return ret_source->data != NULL;
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct tide_err err;
    const float weight[6] = {1, -2, 3.5F, NAN, INFINITY, 1e-30F};
    const int32_t step[1] = {77};
    struct tide_safetensor_source sources[] = {
        {.name = "h.0.weight", .dtype = TIDE_F32, .rank = 2, .dims = {2, 3}, .data = weight},
        {.name = "not there"},
        {.name = "step", .dtype = TIDE_I32, .rank = 1, .dims = {1}, .data = step}};
    struct tide_durable out;
    unlink(path);
    assert_int_equal(tide_durable_open(&out, AT_FDCWD, path), 0);
    tide_safetensors_write(&out, 3, source_at, NULL, sources);
    assert_int_equal(tide_durable_close(&out), 0);
    struct tide_safetensors file;
    if (tide_safetensors_open(&file, path, &err))
        fail_msg("%s", err.text);
    assert_int_equal(file.count, 2);
    const struct tide_safetensor *found = tide_safetensors_find(&file, "h.0.weight");
    assert_non_null(found);
    assert_int_equal(found->rank, 2);
    assert_int_equal(found->dims[1], 3);
    float back[6];
    assert_int_equal(tide_safetensors_read(&file, found, TIDE_F32, back, &err), 0);
    assert_memory_equal(back, weight, sizeof weight);
    assert_int_equal(tide_safetensors_read(&file, tide_safetensors_find(&file, "step"), TIDE_F32, back, &err),
                     -1);
    assert_null(tide_safetensors_find(&file, "h.0"));
    tide_safetensors_close(&file);
}

/* A file of this header and so many bytes behind it. */
static int parse(const char *header, size_t data, struct tide_safetensors *file, struct tide_err *err)
{
    static char bytes[4096];
    size_t len = strlen(header);
    memset(bytes, 0, sizeof bytes);
    bytes[0] = (char)(len & 255);
    bytes[1] = (char)(len >> 8);
    memcpy(bytes + 8, header, len);
    write_file(bytes, 8 + len + data);
    int status = tide_safetensors_open(file, path, err);
    if (!status)
        tide_safetensors_close(file);
    return status;
}

static void halves_are_widened(void **state)
{
    (void)state;
    char bytes[256] = {0};
    const char *header = "{\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}";
    const uint16_t halves[4] = {0x3c00, 0xc000, 0x0001, 0x7c00}; /* 1, -2, the smallest, infinity */
    float back[4];
    struct tide_safetensors file;
    struct tide_err err;
    bytes[0] = (char)strlen(header);
    memcpy(bytes + 8, header, strlen(header));
    memcpy(bytes + 8 + strlen(header), halves, sizeof halves);
    write_file(bytes, 8 + strlen(header) + 8);
    assert_int_equal(tide_safetensors_open(&file, path, &err), 0);
    assert_int_equal(tide_safetensors_read(&file, &file.tensors[0], TIDE_F32, back, &err), 0);
    assert_true(back[0] == 1 && back[1] == -2 && back[2] == 0x1p-24F && isinf(back[3]));
    tide_safetensors_close(&file);
}

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } lies[] = {
        {"[]", 0, "not an object"},
        {"{", 0, "not valid JSON"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "outside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 12, "more in it"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "does not have the size"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "impossible shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,8],\"data_offsets\":[0,0]}}", 0,
         "impossible"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "outside"},
        {"{\"a\":{\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "unknown type"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole"},
        {"{\"a\":3}", 0, "unknown type"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct tide_safetensors file;
        struct tide_err err = {0};
        assert_int_equal(parse(lies[i].header, lies[i].data, &file, &err), -1);
        if (!strstr(err.text, lies[i].says))
            fail_msg("%s: '%s'", lies[i].header, err.text);
    }
}

static void a_header_longer_than_the_file_is_refused(void **state)
{
    (void)state;
    static const char bytes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, '{', '}'};
    struct tide_safetensors file;
    struct tide_err err;
    write_file(bytes, sizeof bytes);
    assert_int_equal(tide_safetensors_open(&file, path, &err), -1);
    write_file(bytes, 3);
    assert_int_equal(tide_safetensors_open(&file, path, &err), -1);
}

/* ---- configurations */

static void a_published_configuration_is_understood(void **state)
{
    (void)state;
    const char *text =
        "{\"model_type\": \"gpt2\", \"n_embd\": 1024, \"n_head\": 16, \"n_layer\": 24, \"n_ctx\": 1024, "
        "\"n_positions\": 1024, \"vocab_size\": 50257, \"activation_function\": \"gelu_new\", "
        "\"layer_norm_epsilon\": 1e-05, \"n_inner\": null, \"resid_pdrop\": 0.1, \"bos_token_id\": 50256, "
        "\"eos_token_id\": [50256, 198], \"pad_token_id\": null, \"scale_attn_weights\": true}";
    struct tide_gpt_config config;
    struct tide_err err;
    write_file(text, strlen(text));
    assert_int_equal(tide_config_read(path, &config, &err), 0);
    assert_int_equal(config.hidden, 4096);
    assert_int_equal(config.blocks, 24);
    char again[2048] = "";
    FILE *out = fmemopen(again, sizeof again, "w");
    tide_config_write(&config, out);
    fclose(out);
    struct tide_gpt_config back;
    write_file(again, strlen(again));
    assert_int_equal(tide_config_read(path, &back, &err), 0);
    assert_memory_equal(&back, &config, offsetof(struct tide_gpt_config, epsilon));
    assert_true(back.epsilon == config.epsilon);
    assert_memory_equal(&back.end, &config.end, sizeof back.end);
    assert_true(back.begin.ids[0] == 50256 && back.end.count == 2 && back.pad.count == -1);
}

static void configurations_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{\"n_embd\": 0}",
        "{\"n_embd\": -768}",
        "{\"n_embd\": 9223372036854775807}",
        "{\"n_embd\": 99999999999999999999999}",
        "{\"n_embd\": \"768\"}",
        "{\"n_embd\": 770}",
        "{\"n_ctx\": 512, \"n_positions\": 1024}",
        "{\"activation_function\": \"relu\"}",
        "{\"model_type\": \"llama\"}",
        "{\"tie_word_embeddings\": false}",
        "{\"layer_norm_epsilon\": -1}",
        "{\"scale_attn_weights\": false}",
        "{\"scale_attn_by_inverse_layer_idx\": true}",
        "{\"add_cross_attention\": true}",
        "{\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}",
        "{\"n_layer\": 1000000}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct tide_gpt_config config;
        struct tide_err err = {0};
        write_file(texts[i], strlen(texts[i]));
        if (!tide_config_read(path, &config, &err))
            fail_msg("taken: %s", texts[i]);
        assert_true(err.text[0]);
    }
}

static void presets_are_there_and_others_are_not(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny", "small", "medium", "large", "gpt2"};
    struct tide_gpt_config config;
    struct tide_err err = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(tide_config_preset(names[i], &config, &err), 0);
        config.vocabulary = config.vocabulary ? config.vocabulary : 96;
        assert_int_equal(tide_config_check(&config, &err), 0);
    }
    assert_int_equal(tide_config_preset("gpt3", &config, &err), -1);
    assert_non_null(strstr(err.hint, "gpt2"));
}

/* ---- data */

enum { SEQUENCE = 40, ROWS = 8 };

static struct tide_data *open_data(const char *file, int64_t vocabulary)
{
    struct tide_data *data;
    struct tide_err err;
    if (tide_data_open(
            &(struct tide_data_source){
                .path = file, .seed = 5, .sequence = SEQUENCE, .vocabulary = vocabulary},
            &data, &err))
        fail_msg("%s", err.text);
    return data;
}

static void a_batch_is_a_function_of_its_number(void **state)
{
    (void)state;
    struct tide_data *data = open_data(NULL, 0), *same = open_data(NULL, 0);
    int32_t a[ROWS * SEQUENCE], b[ROWS * SEQUENCE], c[ROWS * SEQUENCE], wanted[ROWS * SEQUENCE];
    assert_int_equal(tide_data_batch(data, 3, false, ROWS, a, wanted, NULL), 0);
    assert_int_equal(tide_data_batch(same, 9, false, ROWS, c, wanted, NULL), 0);
    assert_int_equal(tide_data_batch(same, 3, false, ROWS, b, wanted, NULL), 0);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    tide_data_free(data);
    tide_data_free(same);
}

/* Every line of a row is a sum that is right, and no line that is trained on is ever asked. */
static void sums_are_right_and_held_out_ones_are_never_trained_on(void **state)
{
    (void)state;
    struct tide_data *data = open_data(NULL, 0);
    static bool trained[100][100];
    int32_t tokens[ROWS * SEQUENCE], targets[ROWS * SEQUENCE];
    for (uint64_t batch = 0; batch < 400; batch++) {
        assert_int_equal(tide_data_batch(data, batch, false, ROWS, tokens, targets, NULL), 0);
        for (int row = 0; row < ROWS; row++) {
            char text[SEQUENCE + 1] = "", *line = text;
            for (int i = 0; i < SEQUENCE; i++) {
                text[i] = data->vocabulary->symbols[tokens[row * SEQUENCE + i]];
                int32_t wanted = targets[row * SEQUENCE + i];
                if (wanted >= 0 && i + 1 < SEQUENCE)
                    assert_int_equal(wanted, tokens[row * SEQUENCE + i + 1]);
            }
            for (char *end; (end = strchr(line, '\n')); line = end + 1) {
                int a, b, sum;
                assert_int_equal(sscanf(line, "%d+%d=%d", &a, &b, &sum), 3);
                assert_int_equal(a + b, sum);
                trained[a][b] = true;
            }
        }
    }
    int held_out = 0;
    for (uint64_t n = 0; n < 300; n++) {
        char prompt[16], answer[16];
        int a, b;
        tide_data_question(data, n, true, prompt, sizeof prompt);
        assert_int_equal(sscanf(prompt, "%d+%d=", &a, &b), 2);
        assert_false(trained[a][b]);
        snprintf(answer, sizeof answer, "%d\n", a + b);
        assert_true(tide_data_is_right(prompt, answer));
        snprintf(answer, sizeof answer, "%d", a + b + 1);
        assert_false(tide_data_is_right(prompt, answer));
        held_out++;
    }
    assert_int_equal(held_out, 300);
    assert_true(tide_data_is_right("07+85=", "092\n"));
    assert_true(tide_data_is_right("07+85=", "92"));
    static const char *const wrong[] = {"", "\n", "+92", "\n92", " 92", "92+", "092=", "-92", "93"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(tide_data_is_right("07+85=", wrong[i]));
    tide_data_free(data);
}

static void a_text_is_read_by_its_bytes(void **state)
{
    (void)state;
    char text[2000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "ab\0\xff"[i * 2654435761U >> 8 & 3];
    write_file(text, sizeof text);
    struct tide_data *data = open_data(path, 0);
    assert_int_equal(data->kind, TIDE_DATA_TEXT);
    assert_int_equal(data->vocabulary->size, 4);
    assert_int_equal(data->train_count, 1800);
    int32_t tokens[SEQUENCE], targets[SEQUENCE];
    for (int held_out = 0; held_out < 2; held_out++) {
        assert_int_equal(tide_data_batch(data, 1, held_out, 1, tokens, targets, NULL), 0);
        for (int i = 0; i < SEQUENCE; i++) {
            assert_in_range(tokens[i], 0, 3);
            if (i + 1 < SEQUENCE)
                assert_int_equal(targets[i], tokens[i + 1]);
        }
    }
    struct tide_err err;
    assert_int_equal(tide_vocabulary_tokens(data->vocabulary, "ab", tokens, &err), 2);
    assert_int_equal(tide_vocabulary_tokens(data->vocabulary, "abc", tokens, &err), -1);
    tide_data_free(data);
}

static void refuse(const void *bytes, size_t count, int64_t vocabulary, const char *says)
{
    struct tide_data *data;
    struct tide_err err = {0};
    write_file(bytes, count);
    assert_int_equal(tide_data_open(
                         &(struct tide_data_source){
                             .path = path, .seed = 5, .sequence = SEQUENCE, .vocabulary = vocabulary},
                         &data, &err),
                     -1);
    if (!strstr(err.text, says))
        fail_msg("'%s' instead of '%s'", err.text, says);
}

static void data_that_cannot_be_learned_from_is_refused(void **state)
{
    (void)state;
    char same[500], text[500];
    memset(same, 'x', sizeof same);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 20);
    refuse("", 0, 0, "empty");
    refuse(same, sizeof same, 0, "one symbol only");
    refuse(text, 60, 0, "a sequence of 40 needs");
    refuse(text, sizeof text, 5, "20 symbols");
    int32_t head[512] = {20240520, 1, 100000};
    refuse(head, sizeof head, 0, "says that it has 100000 tokens");
    head[1] = 7;
    refuse(head, sizeof head, 0, "version 7");
    head[1] = 1;
    head[2] = 500;
    head[300] = 60000;
    refuse(head, sizeof head, 50257, "token 60000");
    head[2] = -3;
    refuse(head, sizeof head, 0, "says that it has -3");
}

static void a_token_file_is_read(void **state)
{
    (void)state;
    static int32_t file[1024] = {20240520, 1, 1500};
    uint16_t *tokens = (uint16_t *)(file + 256);
    for (int i = 0; i < 1500; i++)
        tokens[i] = (uint16_t)(i % 300);
    write_file(file, sizeof file);
    struct tide_data *data = open_data(path, 0);
    assert_int_equal(data->kind, TIDE_DATA_TOKENS);
    assert_int_equal(data->vocabulary->size, 300);
    int32_t got[SEQUENCE], targets[SEQUENCE];
    assert_int_equal(tide_data_batch(data, 2, false, 1, got, targets, NULL), 0);
    for (int i = 0; i < SEQUENCE; i++)
        assert_int_equal(targets[i], (got[i] + 1) % 300);
    tide_data_free(data);
}

static void refuse_batch(const struct tide_data *data, const char *says)
{
    struct tide_err err = {0};
    int32_t guarded[SEQUENCE + 2], targets[SEQUENCE];
    guarded[0] = guarded[SEQUENCE + 1] = 77;
    assert_int_equal(tide_data_batch(data, 0, false, 1, guarded + 1, targets, &err), -1);
    if (!strstr(err.text, says) || !strstr(err.text, path))
        fail_msg("'%s' instead of '%s'", err.text, says);
    assert_int_equal(guarded[0], 77);
    assert_int_equal(guarded[SEQUENCE + 1], 77);
}

/* A file belongs to others, too. */
static void a_file_that_changes_under_its_reader_is_refused(void **state)
{
    (void)state;
    static int32_t file[1024] = {20240520, 1, 1500};
    char text[2000];
    write_file(file, sizeof file);
    struct tide_data *tokens = open_data(path, 300);
    memset(file + 256, 0xff, sizeof file - 1024);
    write_file(file, sizeof file);
    refuse_batch(tokens, "the model does not know token");
    assert_int_equal(truncate(path, 1030), 0);
    refuse_batch(tokens, "it had 4096 bytes");
    tide_data_free(tokens);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "ab"[i % 2];
    write_file(text, sizeof text);
    struct tide_data *symbols = open_data(path, 0);
    memset(text, 'c', sizeof text);
    write_file(text, sizeof text);
    refuse_batch(symbols, "the model does not know token");
    assert_int_equal(truncate(path, 0), 0);
    refuse_batch(symbols, "it had 2000 bytes");
    tide_data_free(symbols);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, make_path, remove_path),
        cmocka_unit_test_setup_teardown(halves_are_widened, make_path, remove_path),
        cmocka_unit_test_setup_teardown(files_that_lie_are_refused, make_path, remove_path),
        cmocka_unit_test_setup_teardown(a_header_longer_than_the_file_is_refused, make_path, remove_path),
        cmocka_unit_test_setup_teardown(a_published_configuration_is_understood, make_path, remove_path),
        cmocka_unit_test_setup_teardown(configurations_that_cannot_be_are_refused, make_path, remove_path),
        cmocka_unit_test(presets_are_there_and_others_are_not),
        cmocka_unit_test(a_batch_is_a_function_of_its_number),
        cmocka_unit_test(sums_are_right_and_held_out_ones_are_never_trained_on),
        cmocka_unit_test_setup_teardown(a_text_is_read_by_its_bytes, make_path, remove_path),
        cmocka_unit_test_setup_teardown(data_that_cannot_be_learned_from_is_refused, make_path, remove_path),
        cmocka_unit_test_setup_teardown(a_token_file_is_read, make_path, remove_path),
        cmocka_unit_test_setup_teardown(a_file_that_changes_under_its_reader_is_refused, make_path,
                                        remove_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
