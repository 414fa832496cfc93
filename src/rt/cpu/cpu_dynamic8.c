/*
 * Codes are computed, not looked up: a processor computes sixteen numbers in the time of two lookups.
 *
 * A code counts intervals up from 0. Its rank is that count, starting at 0 with a sign and at 1 without. Then
 * the highest bit of a rank, 2^e, gives the decade and how many intervals it has; the lower bits give the
 * interval.
 */
#include "rt/cpu/cpu_dynamic8.h"
#include "rt/cpu/avx512.h"
#include "rt/cpu/inner_loops.h"

#include <math.h>

/* e of the decade that ends at 1. It distinguishes the two kinds of codes. */
enum { SIGNED = 6, UNSIGNED = 7 };

/* For decade e, which ends at 1 / ten: how many of its intervals fit between 0 and 1, and the number halfway
 * between its first code and the code below. */
#define PIECES(e)    ((float)(1 << (e)))
#define RATE(e, ten) (PIECES(e) / 0.9F * (ten))
#define EDGE(e, ten) ((0.1F + 0.18F / PIECES(e)) / (ten))

/* Above ONE a number is nearer to 1, below ZERO nearer to 0. */
#define ONE(top)  (1.0F - 0.225F / PIECES(top))
#define ZERO(top) (0.5F * (0.1F + 0.45F / PIECES((top)-6)) * 1e-6F)

TIDE_INLINE float number_of(int32_t rank, int top)
{
    uint32_t bits = tide_float_bits((float)rank + 0.5F), e = (bits >> 23) - 127;
    float share = tide_bits_float((bits & 0x7fffff) | 0x3f800000) - 1.0F; /* within the decade */
    float ten = (e & 1 ? 10.0F : 1.0F) * (e & 2 ? 100.0F : 1.0F) * (e & 4 ? 10000.0F : 1.0F);
    float number = (0.1F + 0.9F * share) * (ten * (top == SIGNED ? 1e-6F : 1e-7F));
    number = rank == top - SIGNED ? 0.0F : number;
    return rank == 2 << top ? 1.0F : number;
}

struct decade {
    float pieces, rate;
};

TIDE_INLINE struct decade decade_of(struct decade below, float x, int e, float ten)
{
    bool is_in = x > EDGE(e, ten);
    return (struct decade){is_in ? PIECES(e) : below.pieces, is_in ? RATE(e, ten) : below.rate};
}

/* The rank of x >= 0. */
TIDE_INLINE int32_t rank_of(float x, int top)
{
    struct decade d = {PIECES(top - 6), RATE(top - 6, 1e6F)};
    d = decade_of(d, x, top - 5, 1e5F);
    d = decade_of(d, x, top - 4, 1e4F);
    d = decade_of(d, x, top - 3, 1e3F);
    d = decade_of(d, x, top - 2, 1e2F);
    d = decade_of(d, x, top - 1, 1e1F);
    d = decade_of(d, x, top, 1.0F);
    float rank = x * d.rate + d.pieces * (8.0F / 9.0F), last = 2.0F * d.pieces - 1.0F;
    rank = rank < last ? rank : last;
    rank = x > ONE(top) ? 2.0F * PIECES(top) : rank;
    return x > ZERO(top) ? (int32_t)rank : top - SIGNED;
}

TIDE_KERNEL(void, decode,
            (float *restrict numbers, const uint8_t *restrict codes, int64_t count, float absmax,
             bool is_signed),
            (numbers, codes, count, absmax, is_signed))
{
    for (int64_t i = 0; is_signed && i < count; i++) {
        int32_t rank = codes[i] - 127;
        float number = number_of(rank < 0 ? -rank : rank, SIGNED) * absmax;
        numbers[i] = rank < 0 ? -number : number;
    }
    for (int64_t i = 0; !is_signed && i < count; i++)
        numbers[i] = number_of(codes[i] + 1, UNSIGNED) * absmax;
}

TIDE_KERNEL(void, encode,
            (uint8_t *restrict codes, const float *restrict numbers, int64_t count, float share,
             bool is_signed),
            (codes, numbers, count, share, is_signed))
{
    for (int64_t i = 0; is_signed && i < count; i++) {
        float x = numbers[i] * share;
        int32_t rank = rank_of(x < 0 ? -x : x, SIGNED);
        codes[i] = (uint8_t)(127 + (x >= 0 ? rank : rank < 127 ? -rank : -127));
    }
    for (int64_t i = 0; !is_signed && i < count; i++)
        codes[i] = (uint8_t)(rank_of(numbers[i] * share, UNSIGNED) - 1);
}

/* ---- the same with AVX-512, which looks up the constants of a decade; 0 and 1 have decades of their own */

#if defined(__x86_64__)

/* The length of decade e, divided by 0.9 and scaled, at index (e - 1) % 16. */
TIDE_INLINE TIDE_AVX512 __m512 units_16(float absmax, int top)
{
    const float unit = top == SIGNED ? 1e-6F : 1e-7F, half_piece = 0.25F / PIECES(top);
    const float one = 1.0F / (0.1F + 0.9F * half_piece);
    __m512 units =
        _mm512_setr_ps(1e1F * unit, 1e2F * unit, 1e3F * unit, 1e4F * unit, 1e5F * unit, 1e6F * unit,
                       top == SIGNED ? one : 1.0F, one, 0, 0, 0, 0, 0, 0, 0, top == SIGNED ? unit : 0);
    return _mm512_mul_ps(units, _mm512_set1_ps(absmax));
}

TIDE_INLINE TIDE_AVX512 __m512 decode_16(__m128i codes, __m512 units, int top)
{
    const __m512 one = _mm512_set1_ps(1.0F), half = _mm512_set1_ps(0.5F);
    __m512i zero = _mm512_set1_epi32(top == SIGNED ? 127 : -1);
    __m512 rank = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32(codes), zero));
    __m512 place = _mm512_add_ps(top == SIGNED ? _mm512_abs_ps(rank) : rank, half);
    __m512 share = _mm512_sub_ps(_mm512_getmant_ps(place, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero), one);
    __m512 number = _mm512_fmadd_ps(_mm512_set1_ps(0.9F), share, _mm512_set1_ps(0.1F));
    number = _mm512_mul_ps(number, _mm512_permutexvar_ps(_mm512_srli_epi32((__m512i)place, 23), units));
    return top == SIGNED ? _mm512_or_ps(number, _mm512_and_ps(rank, _mm512_set1_ps(-0.0F))) : number;
}

TIDE_INLINE TIDE_AVX512 void decode_all(float *numbers, const uint8_t *codes, int64_t count, float absmax,
                                        int top)
{
    __m512 units = units_16(absmax, top);
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(numbers + i, decode_16(_mm_loadu_si128((const void *)(codes + i)), units, top));
    __mmask16 rest = tide_first_16(count - i);
    if (rest)
        _mm512_mask_storeu_ps(numbers + i, rest,
                              decode_16(_mm_maskz_loadu_epi8(rest, codes + i), units, top));
}

/* Decades are numbered from the lowest; 7 stands for the number 1, and -1 (at 15) for 0. */
#define BY_DECADE(of, top, one, zero)                                                                        \
    _mm512_setr_ps(of((top)-6, 1e6F), of((top)-5, 1e5F), of((top)-4, 1e4F), of((top)-3, 1e3F),               \
                   of((top)-2, 1e2F), of((top)-1, 1e1F), of(top, 1.0F), one, 0, 0, 0, 0, 0, 0, 0, zero)
#define BASE(e, ten) (PIECES(e) * (8.0F / 9.0F))
#define LAST(e, ten) (2.0F * PIECES(e) - 1.0F)

/* The decade of 2^n, at index (n - 1) % 32, for n >= -23. A number up to 2^(n + 1) may be in the next one. */
TIDE_INLINE TIDE_AVX512 __m512i decade_16(__m512i exponent, int top)
{
    int a = top == SIGNED ? -1 : 0, b = top == SIGNED ? 2 : 3; /* decades of 2^-22 and 2^-13 */
    __m512i low = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, -1, a, 0, 0, 1, 1, 1, 2),
            high = _mm512_setr_epi32(2, 2, b, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7);
    return _mm512_permutex2var_epi32(low, exponent, high);
}

/* Ranks, with the signs of the numbers. */
TIDE_INLINE TIDE_AVX512 __m512i ranks_16(__m512 x, int top)
{
    const __m512 edges = _mm512_setr_ps(EDGE(top - 5, 1e5F), EDGE(top - 4, 1e4F), EDGE(top - 3, 1e3F),
                                        EDGE(top - 2, 1e2F), EDGE(top - 1, 1e1F), EDGE(top, 1.0F), ONE(top),
                                        INFINITY, 0, 0, 0, 0, 0, 0, 0, ZERO(top));
    const float one = 2.0F * PIECES(top), zero = (float)(top - SIGNED);
    const __m512 rates = BY_DECADE(RATE, top, 0, 0), bases = BY_DECADE(BASE, top, one, zero),
                 lasts = BY_DECADE(LAST, top, one, zero), sign = _mm512_set1_ps(-0.0F);
    __m512 size = _mm512_max_ps(_mm512_andnot_ps(sign, x), _mm512_set1_ps(0x1p-23F));
    __m512i decade = decade_16(_mm512_srli_epi32((__m512i)size, 23), top);
    __mmask16 is_next = _mm512_cmp_ps_mask(size, _mm512_permutexvar_ps(decade, edges), _CMP_GT_OQ);
    decade = _mm512_mask_add_epi32(decade, is_next, decade, _mm512_set1_epi32(1));
    __m512 rank =
        _mm512_fmadd_ps(size, _mm512_permutexvar_ps(decade, rates), _mm512_permutexvar_ps(decade, bases));
    rank = _mm512_min_ps(rank, _mm512_permutexvar_ps(decade, lasts));
    return _mm512_cvttps_epi32(top == SIGNED ? _mm512_or_ps(rank, _mm512_and_ps(sign, x)) : rank);
}

/* With a sign, code - 128 is rank - 1; -1 has no code, and the conversion saturates it to the lowest. */
TIDE_INLINE TIDE_AVX512 __m128i encode_16(__m512 numbers, float share, int top)
{
    __m512i rank = ranks_16(_mm512_mul_ps(numbers, _mm512_set1_ps(share)), top);
    __m512i code = _mm512_sub_epi32(rank, _mm512_set1_epi32(1));
    return top == SIGNED ? _mm_xor_si128(_mm512_cvtsepi32_epi8(code), _mm_set1_epi8(-128))
                         : _mm512_cvtepi32_epi8(code);
}

/* Whole vectors are stored without a mask, which is faster. */
TIDE_INLINE TIDE_AVX512 void encode_all(uint8_t *codes, const float *numbers, int64_t count, float share,
                                        int top)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm_storeu_si128((void *)(codes + i), encode_16(_mm512_loadu_ps(numbers + i), share, top));
    __mmask16 rest = tide_first_16(count - i);
    if (rest)
        _mm_mask_storeu_epi8(codes + i, rest,
                             encode_16(_mm512_maskz_loadu_ps(rest, numbers + i), share, top));
}

static TIDE_AVX512 void decode_avx512(float *numbers, const uint8_t *codes, int64_t count, float absmax,
                                      bool is_signed)
{
    if (is_signed)
        decode_all(numbers, codes, count, absmax, SIGNED);
    else
        decode_all(numbers, codes, count, absmax, UNSIGNED);
}

static TIDE_AVX512 void encode_avx512(uint8_t *codes, const float *numbers, int64_t count, float share,
                                      bool is_signed)
{
    if (is_signed)
        encode_all(codes, numbers, count, share, SIGNED);
    else
        encode_all(codes, numbers, count, share, UNSIGNED);
}

#endif

void tide_dynamic8_decode(float *numbers, const uint8_t *codes, int64_t count, float absmax, bool is_signed)
{
#if defined(__x86_64__)
    if (tide_isa() >= TIDE_ISA_AVX512) {
        decode_avx512(numbers, codes, count, absmax, is_signed);
        return;
    }
#endif
    decode(numbers, codes, count, absmax, is_signed);
}

void tide_dynamic8_encode(uint8_t *codes, const float *numbers, int64_t count, float absmax, bool is_signed)
{
    float share = 1.0F / (absmax > 1e-38F ? absmax : 1e-38F);
#if defined(__x86_64__)
    if (tide_isa() >= TIDE_ISA_AVX512) {
        encode_avx512(codes, numbers, count, share, is_signed);
        return;
    }
#endif
    encode(codes, numbers, count, share, is_signed);
}
