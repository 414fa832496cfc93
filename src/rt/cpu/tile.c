#include "rt/cpu/tile.h"

const struct tide_tile_kind *tide_tile_choose(enum tide_isa isa, bool multiplies_bf16, enum tide_dtype from,
                                              bool packs)
{
#if defined(__x86_64__)
    if (from == TIDE_BF16 && isa == TIDE_ISA_AMX && packs)
        return &tide_tile_amx;
    if (from == TIDE_BF16 && multiplies_bf16)
        return &tide_tile_avx512_bf16;
    if (isa >= TIDE_ISA_AVX512)
        return &tide_tile_avx512;
    if (isa == TIDE_ISA_AVX2)
        return &tide_tile_avx2;
#endif
    (void)isa, (void)multiplies_bf16, (void)from, (void)packs;
    return &tide_tile_plain;
}

const struct tide_tile_kind *tide_tile_kind(enum tide_dtype from)
{
    return tide_tile_choose(tide_isa(), tide_processor_multiplies_bf16(), from, true);
}

const struct tide_tile_kind *tide_tile_kind_of_few(enum tide_dtype from, bool b_transposed)
{
    return tide_tile_choose(tide_isa(), tide_processor_multiplies_bf16(), from, b_transposed);
}

void tide_tile_write_plainly(const struct tide_tile *t, const float *sums, int64_t columns)
{
    const int64_t row_bytes = t->c_stride * (int64_t)tide_dtype_bytes(t->to);
    for (int64_t i = 0; i < t->rows; i++) {
        char *c = t->c + i * row_bytes;
        const char *add = t->add ? t->add + i * row_bytes : NULL;
        for (int64_t j = 0; j < t->width; j++) {
            float sum = sums[i * columns + j];
            if (t->bias)
                sum += t->bias[j];
            if (add)
                sum += (float)tide_number(add, t->to, j);
            if (t->relu)
                sum = sum > 0 ? sum : 0;
            tide_number_set(c, t->to, j, (double)sum);
        }
    }
}
