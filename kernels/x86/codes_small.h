/* Codes of the blocks of 32 as 32 bytes in the order of the elements: unsigned, the value plus an
 * offset, or (q8_0, iq4_nl) the signed value. */
#ifndef HKK_X86_CODES_SMALL_H
#define HKK_X86_CODES_SMALL_H

#include <immintrin.h>

#include "kernels/bits.h"
#include "libhkfmt/tensor/blocks.h"
#include "libhkfmt/tensor/tables.h"

static inline __m128i load16(const void *p)
{
    return _mm_loadu_si128(p);
}

static inline __m256i load32(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* Sixteen bytes: low nibbles, then high ones. */
static inline __m256i nibbles32(const uint8_t *qs)
{
    __m128i x = load16(qs);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(x), _mm_srli_epi16(x, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* All ones in byte i where bit i is set. */
static inline __m256i bit_masks(uint32_t bits)
{
    const __m256i spread =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i x = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread);
    return _mm256_cmpeq_epi8(_mm256_and_si256(x, bit), bit);
}

static inline __m256i look_up(__m128i table, __m256i index)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
}

static inline __m256i codes_q4_0(const uint8_t *block)
{
    return nibbles32(((const struct hk_q4_0 *)(const void *)block)->qs);
}

static inline __m256i codes_q4_1(const uint8_t *block)
{
    return nibbles32(((const struct hk_q4_1 *)(const void *)block)->qs);
}

static inline __m256i five_bits(const uint8_t *qs, uint32_t qh)
{
    __m256i fifth = _mm256_and_si256(bit_masks(qh), _mm256_set1_epi8(16));
    return _mm256_or_si256(nibbles32(qs), fifth);
}

static inline __m256i codes_q5_0(const uint8_t *block)
{
    const struct hk_q5_0 *b = (const void *)block;
    return five_bits(b->qs, load_le32(b->qh));
}

static inline __m256i codes_q5_1(const uint8_t *block)
{
    const struct hk_q5_1 *b = (const void *)block;
    return five_bits(b->qs, load_le32(b->qh));
}

static inline __m256i codes_q8_0(const uint8_t *block)
{
    return load32(((const struct hk_q8_0 *)(const void *)block)->qs);
}

static inline __m256i codes_iq4_nl(const uint8_t *block)
{
    const struct hk_iq4_nl *b = (const void *)block;
    return look_up(load16(hk_iq4_nl_values), nibbles32(b->qs));
}

/* iq4_nl's values plus 128, as q8_0's after their sign is flipped. */
static const uint8_t iq4_nl_codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                         129, 141, 153, 166, 181, 197, 217, 241};

/* Doubled E2M1 values plus 12. */
static const int8_t e2m1_codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

static inline __m256i codes_mxfp4(const uint8_t *block)
{
    const struct hk_mxfp4 *b = (const void *)block;
    return look_up(load16(e2m1_codes), nibbles32(b->qs));
}

/* BLOCK is a block of nvfp4 moved on by 16 for each 32 elements after the first. */
static inline __m256i codes_nvfp4(const uint8_t *block)
{
    __m128i x = load16(block + 4), low = _mm_set1_epi8(15);
    __m128i lo = _mm_and_si128(x, low), hi = _mm_and_si128(_mm_srli_epi16(x, 4), low);
    __m256i both = _mm256_set_m128i(_mm_unpackhi_epi64(lo, hi), _mm_unpacklo_epi64(lo, hi));
    return look_up(load16(e2m1_codes), both);
}

#endif
