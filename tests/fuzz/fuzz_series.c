/*
 * fuzz_series.c - any bytes as a log, then judged: what a person may paste into `tidemark judge -`.
 */
#include "assess/assessment.h"
#include "record/series.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tide_series_options options = {.unit = size && data[size - 1] & 1 ? "MB" : NULL};
    struct tide_series_set set;
    struct tide_err err;
    if (tide_series_parse((const char *)data, size, &options, &set, &err))
        return 0;
    struct tide_assess_options want = {.items = 100, .items_per_step = 8, .limit_bytes = 8e9};
    struct tide_assessment *a;
    if (tide_assess_series(&set, &want, &a, &err) == 0) {
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);
        tide_assessment_json(a, "fuzz", out);
        tide_assessment_print(a, out);
        fclose(out);
        free(text);
        tide_assessment_free(a);
    }
    tide_series_release(&set);
    return 0;
}
