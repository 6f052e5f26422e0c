/* Super-blocks in registers: codes of 32 elements each, unsigned and offset as noted (iq4_xs:
 * signed values), and the integer scales and minimums of each 16. */
#ifndef HKK_X86_CODES_SUPER_H
#define HKK_X86_CODES_SUPER_H

#include "kernels/x86/codes_small.h"

struct codes {
    __m256i c[8];       /* elements 32j.. */
    __m256i scale, min; /* 16 int16, of 16 elements each */
    float d, dmin;
};

/* Eight bytes, each for two groups of 16. */
static inline __m256i scales_of_32(uint64_t eight)
{
    __m128i x = _mm_cvtsi64_si128((long long)eight);
    return _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, x));
}

/* Nibbles of the lower eight bytes, low ones first, as sixteen bytes. */
static inline __m128i nibbles_in_turn(__m128i x)
{
    return _mm_and_si128(_mm_unpacklo_epi8(x, _mm_srli_epi16(x, 4)), _mm_set1_epi8(15));
}

static inline __m128i sixteen_nibbles(const uint8_t *p)
{
    return nibbles_in_turn(_mm_loadl_epi64((const void *)p));
}

/* Four planes of two bits of 32 bytes. */
static inline void planes(__m256i c[4], __m256i x)
{
    const __m256i two = _mm256_set1_epi8(3);
    c[0] = _mm256_and_si256(x, two);
    c[1] = _mm256_and_si256(_mm256_srli_epi16(x, 2), two);
    c[2] = _mm256_and_si256(_mm256_srli_epi16(x, 4), two);
    c[3] = _mm256_and_si256(_mm256_srli_epi16(x, 6), two);
}

static inline void codes_q2_k(const uint8_t *block, struct codes *s)
{
    const struct hk_q2_k *b = (const void *)block;
    __m128i x = load16(b->scales), low = _mm_set1_epi8(15);
    s->d = le_half(b->d);
    s->dmin = le_half(b->dmin);
    s->scale = _mm256_cvtepu8_epi16(_mm_and_si128(x, low));
    s->min = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16(x, 4), low));
    planes(s->c, load32(b->qs));
    planes(s->c + 4, load32(b->qs + 32));
}

static inline __m256i q3_k_scales(const uint8_t *p)
{
    __m128i x = _mm_loadl_epi64((const void *)p), low = _mm_set1_epi8(15);
    __m128i nibbles = _mm_and_si128(_mm_unpacklo_epi64(x, _mm_srli_epi16(x, 4)), low);
    __m128i top = _mm_srlv_epi32(_mm_set1_epi32((int)load_le32(p + 8)), _mm_setr_epi32(0, 2, 4, 6));
    top = _mm_slli_epi16(_mm_and_si128(top, _mm_set1_epi8(3)), 4);
    return _mm256_cvtepi8_epi16(_mm_sub_epi8(_mm_or_si128(nibbles, top), _mm_set1_epi8(32)));
}

/* Offset 4. */
static inline void codes_q3_k(const uint8_t *block, struct codes *s)
{
    const struct hk_q3_k *b = (const void *)block;
    __m256i high = load32(b->qh), bit = _mm256_set1_epi8(4);
    s->d = le_half(b->d);
    s->scale = q3_k_scales(b->scales);
    planes(s->c, load32(b->qs));
    planes(s->c + 4, load32(b->qs + 32));
    s->c[0] = _mm256_or_si256(s->c[0], _mm256_and_si256(_mm256_slli_epi16(high, 2), bit));
    s->c[1] = _mm256_or_si256(s->c[1], _mm256_and_si256(_mm256_slli_epi16(high, 1), bit));
    s->c[2] = _mm256_or_si256(s->c[2], _mm256_and_si256(high, bit));
    s->c[3] = _mm256_or_si256(s->c[3], _mm256_and_si256(_mm256_srli_epi16(high, 1), bit));
    s->c[4] = _mm256_or_si256(s->c[4], _mm256_and_si256(_mm256_srli_epi16(high, 2), bit));
    s->c[5] = _mm256_or_si256(s->c[5], _mm256_and_si256(_mm256_srli_epi16(high, 3), bit));
    s->c[6] = _mm256_or_si256(s->c[6], _mm256_and_si256(_mm256_srli_epi16(high, 4), bit));
    s->c[7] = _mm256_or_si256(s->c[7], _mm256_and_si256(_mm256_srli_epi16(high, 5), bit));
}

/* q4_k's and q5_k's twelve bytes: three words of four. */
static inline void codes_k_scales(const uint8_t *p, struct codes *s)
{
    uint32_t a = load_le32(p), b = load_le32(p + 4), c = load_le32(p + 8);
    uint32_t scale = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
    uint32_t min = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
    s->scale = scales_of_32((uint64_t)scale << 32 | (a & 0x3f3f3f3f));
    s->min = scales_of_32((uint64_t)min << 32 | (b & 0x3f3f3f3f));
}

static inline void nibble_rows(__m256i c[8], const uint8_t *qs)
{
    const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        __m256i x = load32(qs + 32 * r);
        c[2 * r] = _mm256_and_si256(x, low);
        c[2 * r + 1] = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
    }
}

static inline void codes_q4_k(const uint8_t *block, struct codes *s)
{
    const struct hk_q4_k *b = (const void *)block;
    s->d = le_half(b->d);
    s->dmin = le_half(b->dmin);
    codes_k_scales(b->scales, s);
    nibble_rows(s->c, b->qs);
}

static inline void codes_q5_k(const uint8_t *block, struct codes *s)
{
    const struct hk_q5_k *b = (const void *)block;
    __m256i h = load32(b->qh), bit = _mm256_set1_epi8(16);
    s->d = le_half(b->d);
    s->dmin = le_half(b->dmin);
    codes_k_scales(b->scales, s);
    nibble_rows(s->c, b->qs);
    s->c[0] = _mm256_or_si256(s->c[0], _mm256_and_si256(_mm256_slli_epi16(h, 4), bit));
    s->c[1] = _mm256_or_si256(s->c[1], _mm256_and_si256(_mm256_slli_epi16(h, 3), bit));
    s->c[2] = _mm256_or_si256(s->c[2], _mm256_and_si256(_mm256_slli_epi16(h, 2), bit));
    s->c[3] = _mm256_or_si256(s->c[3], _mm256_and_si256(_mm256_slli_epi16(h, 1), bit));
    s->c[4] = _mm256_or_si256(s->c[4], _mm256_and_si256(h, bit));
    s->c[5] = _mm256_or_si256(s->c[5], _mm256_and_si256(_mm256_srli_epi16(h, 1), bit));
    s->c[6] = _mm256_or_si256(s->c[6], _mm256_and_si256(_mm256_srli_epi16(h, 2), bit));
    s->c[7] = _mm256_or_si256(s->c[7], _mm256_and_si256(_mm256_srli_epi16(h, 3), bit));
}

static inline void q6_k_half(__m256i c[4], const uint8_t *ql, const uint8_t *qh)
{
    const __m256i low = _mm256_set1_epi8(15), top = _mm256_set1_epi8(0x30);
    __m256i a = load32(ql), b = load32(ql + 32), h = load32(qh);
    c[0] =
        _mm256_or_si256(_mm256_and_si256(a, low), _mm256_and_si256(_mm256_slli_epi16(h, 4), top));
    c[1] =
        _mm256_or_si256(_mm256_and_si256(b, low), _mm256_and_si256(_mm256_slli_epi16(h, 2), top));
    c[2] =
        _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(a, 4), low), _mm256_and_si256(h, top));
    c[3] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(b, 4), low),
                           _mm256_and_si256(_mm256_srli_epi16(h, 2), top));
}

/* Offset 32. */
static inline void codes_q6_k(const uint8_t *block, struct codes *s)
{
    const struct hk_q6_k *b = (const void *)block;
    s->d = le_half(b->d);
    s->scale = _mm256_cvtepi8_epi16(load16(b->scales));
    q6_k_half(s->c, b->ql, b->qh);
    q6_k_half(s->c + 4, b->ql + 64, b->qh + 32);
}

/* Eight scales: nibbles, and two bits each of a word; the multiplication moves them to its top. */
static inline __m256i iq4_xs_scales(const struct hk_iq4_xs *b)
{
    const __m128i places = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 4, 1);
    __m128i x = _mm_cvtsi32_si128((int)load_le32(b->scales_l));
    __m128i low = nibbles_in_turn(x);
    __m128i top = _mm_mullo_epi16(_mm_set1_epi16((short)load_le16(b->scales_h)), places);
    top = _mm_slli_epi16(_mm_srli_epi16(top, 14), 4);
    __m128i s = _mm_sub_epi16(_mm_or_si128(_mm_cvtepu8_epi16(low), top), _mm_set1_epi16(32));
    return _mm256_set_m128i(_mm_unpackhi_epi16(s, s), _mm_unpacklo_epi16(s, s));
}

/* Signed values. */
static inline void codes_iq4_xs(const uint8_t *block, struct codes *s)
{
    const struct hk_iq4_xs *b = (const void *)block;
    __m128i values = load16(hk_iq4_nl_values);
    s->d = le_half(b->d);
    s->scale = iq4_xs_scales(b);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++)
        s->c[g] = look_up(values, nibbles32(b->qs + 16 * g));
}

/* Offset 1. */
static inline void codes_tq2_0(const uint8_t *block, struct codes *s)
{
    const struct hk_tq2_0 *b = (const void *)block;
    s->d = le_half(b->d);
    s->scale = _mm256_set1_epi16(1);
    planes(s->c, load32(b->qs));
    planes(s->c + 4, load32(b->qs + 32));
}

/* The first base-3 digit of each byte, a fraction of 256: how often three times it carries. */
static inline __m256i first_digits(__m256i x)
{
    const __m256i one = _mm256_set1_epi8(86), two = _mm256_set1_epi8((char)171);
    __m256i a = _mm256_cmpeq_epi8(_mm256_max_epu8(x, one), x);
    __m256i b = _mm256_cmpeq_epi8(_mm256_max_epu8(x, two), x);
    return _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_add_epi8(a, b));
}

static inline __m256i thrice(__m256i x)
{
    return _mm256_add_epi8(x, _mm256_add_epi8(x, x));
}

/* Offset 1. */
static inline void codes_tq1_0(const uint8_t *block, struct codes *s)
{
    const struct hk_tq1_0 *b = (const void *)block;
    s->d = le_half(b->d);
    s->scale = _mm256_set1_epi16(1);
    __m256i x = load32(b->qs);
#pragma GCC unroll 5
    for (int k = 0; k < 5; k++) {
        s->c[k] = first_digits(x);
        x = thrice(x);
    }
    /* Sixteen bytes, and next to them three times these: digits k and k + 1. */
    __m256i y = _mm256_broadcastsi128_si256(load16(b->qs + 32)), y3 = thrice(y);
    __m256i y9 = thrice(y3), y27 = thrice(y9), y81 = thrice(y27);
    s->c[5] = first_digits(_mm256_blend_epi32(y, y3, 0xf0));
    s->c[6] = first_digits(_mm256_blend_epi32(y9, y27, 0xf0));
    /* Four bytes, four digits. */
    __m256i z = _mm256_set1_epi32((int)load_le32(b->qh)), z3 = thrice(z), z9 = thrice(z3);
    z = _mm256_blend_epi32(_mm256_blend_epi32(z, z3, 0x20), z9, 0x40);
    z = _mm256_blend_epi32(z, thrice(z9), 0x80);
    s->c[7] = first_digits(_mm256_blend_epi32(y81, z, 0xf0));
}

#endif
