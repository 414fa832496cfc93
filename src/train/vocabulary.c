#include "train/vocabulary.h"
#include "base/json.h"

void tide_vocabulary_write(const struct tide_data *data, FILE *out)
{
    struct tide_json json;
    tide_json_init(&json, out, true);
    tide_json_object(&json, NULL);
    if (tide_data_kind(data) == TIDE_DATA_TOKENS) {
        tide_json_text(&json, "kind", "numbers");
    } else {
        tide_json_text(&json, "kind", "bytes");
        tide_json_array(&json, "symbols");
        for (int32_t token = 0; tide_data_symbol(data, token) >= 0; token++)
            tide_json_integer(&json, NULL, tide_data_symbol(data, token));
        tide_json_end(&json);
    }
    tide_json_end(&json);
}
