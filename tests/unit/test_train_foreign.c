/*
 * test_train_foreign.c - models from elsewhere: weights of Hugging Face are loaded, or what does not match is
 * named.
 */
#include "lent.h"
#include "checkpoint_fixture.h"

struct foreign {
    const char *prefix, *type;
    bool masks, head;
    const char *without, *reshaped; /* parameters */
    const char *more;               /* a tensor */
};

/* Bytes of one tensor's numbers: those of number(i, 0, k, 3) rounded to the type. */
static void put_numbers(FILE *out, int tensor, const char *type)
{
    for (int64_t k = 0; k < tide_tensor_count(&w.graph->tensors[tensor]); k++) {
        float value = number(tensor, 0, k, 3);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (!strcmp(type, "F32"))
            fwrite(&value, sizeof value, 1, out);
        else if (!strcmp(type, "BF16")) {
            uint16_t half = tide_to_bf16(value);
            fwrite(&half, sizeof half, 1, out);
        } else { /* every number is a multiple of 1/64 below 16: F16 has it exactly */
            uint16_t half =
                (uint16_t)((bits >> 16 & 0x8000) | (value != 0 ? ((bits >> 23 & 255) - 112) << 10 : 0) |
                           (value != 0 ? bits >> 13 & 1023 : 0));
            fwrite(&half, sizeof half, 1, out);
        }
    }
}

static void describe(FILE *header, const char *prefix, const char *name, const char *type, const char *shape,
                     size_t *at, size_t bytes)
{
    fprintf(header, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
            ftell(header) > 1 ? "," : "", prefix, name, type, shape, *at, *at + bytes);
    *at += bytes;
}

/* A directory as Hugging Face has them. */
static void put_foreign(const struct foreign *f)
{
    char *header_text, *data_text, shape[64];
    size_t header_bytes, data_bytes, at = 0, width = strcmp(f->type, "F32") != 0 ? 2 : 4;
    FILE *header = open_memstream(&header_text, &header_bytes),
         *data = open_memstream(&data_text, &data_bytes);
    fputc('{', header);
    for (int i = 0; i < w.graph->tensor_count; i++) {
        const struct tide_tensor *t = &w.graph->tensors[i];
        if (t->role != TIDE_PARAMETER || (f->without && !strcmp(t->name, f->without)))
            continue;
        int64_t last = t->dims[t->rank - 1], first = t->rank == 2 ? t->dims[0] : 1;
        if (f->reshaped && !strcmp(t->name, f->reshaped))
            snprintf(shape, sizeof shape, "[%lld,%lld]", (long long)last, (long long)first);
        else if (t->rank == 2)
            snprintf(shape, sizeof shape, "[%lld,%lld]", (long long)first, (long long)last);
        else
            snprintf(shape, sizeof shape, "[%lld]", (long long)last);
        describe(header, f->prefix, t->name, f->type, shape, &at, (size_t)tide_tensor_count(t) * width);
        put_numbers(data, i, f->type);
    }
    if (f->masks) {
        describe(header, f->prefix, "h.0.attn.bias", "BOOL", "[1,1,2,2]", &at, 4);
        describe(header, f->prefix, "h.0.attn.masked_bias", "F32", "[]", &at, 4);
        fwrite("12345678", 1, 8, data);
    }
    if (f->head || f->more) {
        describe(header, "", f->head ? "lm_head.weight" : f->more, "F32", "[1]", &at, 4);
        fwrite("1234", 1, 4, data);
    }
    fputs("}", header);
    fclose(header);
    fclose(data);
    FILE *out = fopen(inside("model.safetensors"), "wb");
    uint64_t length = header_bytes;
    fwrite(&length, sizeof length, 1, out);
    fwrite(header_text, 1, header_bytes, out);
    fwrite(data_text, 1, data_bytes, out);
    assert_int_equal(fclose(out), 0);
    free(header_text);
    free(data_text);
    put("config.json", "{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_head\":3,\"n_layer\":2,\"n_inner\":20,"
                       "\"n_positions\":24,\"vocab_size\":13,\"layer_norm_epsilon\":1e-5}");
}

static void models_of_hugging_face_load(void **state)
{
    (void)state;
    static const struct foreign kinds[] = {
        {.prefix = "transformer.", .type = "F32", .head = true},
        {.prefix = "", .type = "F32", .masks = true},
        {.prefix = "", .type = "F16"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[PATH_MAX];
        struct tide_err err;
        struct tide_checkpoint_state told = {.task = "lm", .step = 7};
        put_foreign(&kinds[i]);
        ok(tide_checkpoint_find(w.dir, path, sizeof path, &err), &err);
        assert_string_equal(path, w.dir);
        is_the_model(path);
        ok(tide_checkpoint_read(path, &told, &err), &err);
        assert_int_equal(told.step, 0);
        assert_false(told.is_of_task);
        ok(tide_language_check(&w.language, path, &err), &err);
        fill(w.other, -1);
        ok(tide_checkpoint_load(path, w.graph, w.other, false, &err), &err);
        assert_true(holds(w.other, 3, 1));
        assert_int_equal(tide_checkpoint_load(path, w.graph, w.other, true, &err), -1);
        assert_non_null(strstr(err.text, "optimizer.safetensors"));
    }
}

static void numbers_in_bf16_are_widened(void **state)
{
    (void)state;
    struct tide_err err;
    put_foreign(&(struct foreign){.prefix = "", .type = "BF16"});
    ok(tide_checkpoint_load(w.dir, w.graph, w.other, false, &err), &err);
    for (int i = 0; i < w.graph->tensor_count; i++)
        for (int64_t k = 0;
             w.graph->tensors[i].role == TIDE_PARAMETER && k < tide_tensor_count(&w.graph->tensors[i]); k++)
            assert_true(((float *)lent(w.other, i))[k] == tide_from_bf16(tide_to_bf16(number(i, 0, k, 3))));
}

static void the_first_tensor_that_does_not_match_is_named(void **state)
{
    (void)state;
    static const struct {
        struct foreign file;
        const char *says;
    } cases[] = {
        {{.prefix = "", .type = "F32", .without = "h.1.mlp.c_fc.bias"},
         "the model has a tensor 'h.1.mlp.c_fc.bias' (20), which the file does not have"},
        {{.prefix = "transformer.", .type = "F32", .reshaped = "h.0.mlp.c_fc.weight"},
         "tensor 'h.0.mlp.c_fc.weight' is (12, 20) in the model and (20, 12) in the file"},
        {{.prefix = "", .type = "F32", .more = "h.2.ln_1.weight"},
         "the file has a tensor 'h.2.ln_1.weight', which the model does not have"},
        {{.prefix = "", .type = "F32", .more = "transformer.wte.weight"},
         "tensor 'wte.weight' is (13, 12) in the model and (1) in the file"},
        {{.prefix = "", .type = "F32", .more = "\033[31m"},
         "the file has a tensor '\\x1b[31m', which the model does not have"},
        {{.prefix = "", .type = "I16"},
         "tensor 'wte.weight' has numbers of type I16; only F32, F16 and BF16 are supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tide_err err = {0};
        put_foreign(&cases[i].file);
        if (i == 4) /* a name that JSON needs written in another way */
            put_foreign(&(struct foreign){.prefix = "", .type = "F32", .more = "\\u001b[31m"});
        fill(w.other, 77);
        assert_int_equal(tide_checkpoint_load(w.dir, w.graph, w.other, false, &err), -1);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s' instead of '%s'", err.text, cases[i].says);
        assert_true(holds(w.other, 77, 3)); /* nothing was overwritten */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_PLACE(models_of_hugging_face_load),
        IN_A_PLACE(numbers_in_bf16_are_widened),
        IN_A_PLACE(the_first_tensor_that_does_not_match_is_named),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
