/* Super-blocks of two rows in registers, and sixteen rows of them times the activations. The four
 * products of a lane are added up, less the offset's, which they begin with; these sums have 16
 * bits, and are multiplied by the scale where they meet in 32. */
#ifndef HKK_X86_FEW_512_SUPER_H
#define HKK_X86_FEW_512_SUPER_H

#include "kernels/x86/few_512.h"

/* Register j of C has elements 32j.. of one row, then of the other. SCALE has what is looked up for
 * them: of two groups of 16, as words of the even ones and words of the odd ones; or bytes. */
struct pair {
    __m512i c[8], scale;
};

/* Activations of one super-block. */
struct eight_q {
    __m512i q[8], start[8]; /* twice 32; -offset * them */
};

enum scaling {
    BY_NONE,
    BY_WORDS,  /* of 16, as above */
    BY_BYTES,  /* of 16 groups, unsigned */
    BY_32,     /* bytes, of eight groups of 32 */
    BY_DWORDS, /* j of each lane for registers 2j and 2j + 1, of which 16 bits are too few */
};

ALWAYS __m512i words_512(int x)
{
    return _mm512_set1_epi16((short)x);
}

/* W for the lanes of even groups, W + MORE for those of odd ones. */
ALWAYS __m512i by_lane(uint32_t w, uint32_t more)
{
    return _mm512_set_epi32((int)(w + more), (int)(w + more), (int)(w + more), (int)(w + more),
                            (int)w, (int)w, (int)w, (int)w, (int)(w + more), (int)(w + more),
                            (int)(w + more), (int)(w + more), (int)w, (int)w, (int)w, (int)w);
}

/* The scales of register j, in the lower words of lanes. */
ALWAYS __m512i step_scale(__m512i scale, int j, enum scaling by)
{
    const uint32_t k = (uint32_t)j;
    if (by == BY_WORDS)
        return _mm512_shuffle_epi8(scale, by_lane(0x80800000 + ((2 * k + 1) << 8) + 2 * k, 0));
    if (by == BY_BYTES)
        return _mm512_shuffle_epi8(scale, by_lane(0x80808000 + 2 * k, 1));
    return _mm512_shuffle_epi8(scale, by_lane(0x80808000 + k, 0));
}

ALWAYS void load_q(struct eight_q *x, const int8_t *q, int offset)
{
    const __m512i zero = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        x->q[j] = _mm512_broadcast_i64x4(load32(q + 32 * j));
        if (offset != 0)
            x->start[j] =
                _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, bytes_512(offset), x->q[j]));
    }
}

/* The same where nothing is scaled: one start for all. */
ALWAYS void load_q_unscaled(struct eight_q *x, const int8_t *q, int offset)
{
    __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        x->q[j] = _mm512_broadcast_i64x4(load32(q + 32 * j));
        sum = _mm512_dpbusd_epi32(sum, bytes_512(offset), x->q[j]);
    }
    x->start[0] = _mm512_sub_epi32(_mm512_setzero_si512(), sum);
}

/* Parts of two rows' sums of scale * value * q. */
ALWAYS __m512i pair_dot(const struct pair *w, const struct eight_q *x, bool offset, enum scaling by)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i acc = by == BY_NONE ? x->start[0] : zero;
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        if (by == BY_NONE) {
            acc = keep_order_512(_mm512_dpbusd_epi32(acc, w->c[j], x->q[j]));
            continue;
        }
        __m512i sum = _mm512_dpbusd_epi32(offset ? x->start[j] : zero, w->c[j], x->q[j]);
        acc = keep_order_512(_mm512_dpwssd_epi32(acc, sum, step_scale(w->scale, j, by)));
    }
    return acc;
}

/* ---- codes of two rows ---- */

typedef void pair_fn(const uint8_t *a, const uint8_t *b, struct pair *w);

/* X's bits of MASK, Y's others. */
ALWAYS __m512i pick_bits(__m512i mask, __m512i x, __m512i y)
{
    return _mm512_ternarylogic_epi32(mask, x, y, 0xca);
}

/* Sixteen bytes of each row, twice. */
ALWAYS __m512i two_heads(const uint8_t *a, const uint8_t *b)
{
    __m512i x = _mm512_broadcast_i32x4(load16(a));
    return _mm512_mask_broadcast_i32x4(x, 0xff00, load16(b));
}

ALWAYS void pair_planes(__m512i c[4], __m512i x)
{
    const __m512i two = bytes_512(3);
    c[0] = _mm512_and_si512(x, two);
    c[1] = _mm512_and_si512(_mm512_srli_epi16(x, 2), two);
    c[2] = _mm512_and_si512(_mm512_srli_epi16(x, 4), two);
    c[3] = _mm512_and_si512(_mm512_srli_epi16(x, 6), two);
}

ALWAYS void pair_nibbles(__m512i c[8], const uint8_t *a, const uint8_t *b)
{
    const __m512i low = bytes_512(15);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m512i x = two_rows(a + 32 * k, b + 32 * k);
        c[2 * k] = _mm512_and_si512(x, low);
        c[2 * k + 1] = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
    }
}

/* Bit j of the bytes of H as the third one of register j. */
ALWAYS void third_bits(__m512i c[8], __m512i h)
{
    const __m512i bit = bytes_512(4);
    c[0] = pick_bits(bit, _mm512_slli_epi16(h, 2), c[0]);
    c[1] = pick_bits(bit, _mm512_slli_epi16(h, 1), c[1]);
    c[2] = pick_bits(bit, h, c[2]);
    c[3] = pick_bits(bit, _mm512_srli_epi16(h, 1), c[3]);
    c[4] = pick_bits(bit, _mm512_srli_epi16(h, 2), c[4]);
    c[5] = pick_bits(bit, _mm512_srli_epi16(h, 3), c[5]);
    c[6] = pick_bits(bit, _mm512_srli_epi16(h, 4), c[6]);
    c[7] = pick_bits(bit, _mm512_srli_epi16(h, 5), c[7]);
}

/* The same as the fifth one. */
ALWAYS void fifth_bits_by_row(__m512i c[8], __m512i h)
{
    const __m512i bit = bytes_512(16);
    c[0] = pick_bits(bit, _mm512_slli_epi16(h, 4), c[0]);
    c[1] = pick_bits(bit, _mm512_slli_epi16(h, 3), c[1]);
    c[2] = pick_bits(bit, _mm512_slli_epi16(h, 2), c[2]);
    c[3] = pick_bits(bit, _mm512_slli_epi16(h, 1), c[3]);
    c[4] = pick_bits(bit, h, c[4]);
    c[5] = pick_bits(bit, _mm512_srli_epi16(h, 1), c[5]);
    c[6] = pick_bits(bit, _mm512_srli_epi16(h, 2), c[6]);
    c[7] = pick_bits(bit, _mm512_srli_epi16(h, 3), c[7]);
}

ALWAYS void pair_q2_k(const uint8_t *a, const uint8_t *b, struct pair *w)
{
    w->scale = _mm512_and_si512(two_heads(a, b), bytes_512(15));
    pair_planes(w->c, two_rows(a + 16, b + 16));
    pair_planes(w->c + 4, two_rows(a + 48, b + 48));
}

/* Bytes in X as words, of even groups and of odd ones, shifted right. INDEX has the bytes. */
ALWAYS __m512i shifted_bytes(__m512i x, __m256i index, __m256i shift)
{
    const __m512i twice = _mm512_broadcast_i64x4(index);
    return _mm512_srlv_epi16(_mm512_shuffle_epi8(x, twice), _mm512_broadcast_i64x4(shift));
}

/* Sixteen bytes end with the scales' twelve and d. */
ALWAYS __m512i pair_q3_k_scales(__m512i x)
{
    const __m256i low_at = _mm256_setr_epi16(
        (short)0x8002, (short)0x8004, (short)0x8006, (short)0x8008, (short)0x8002, (short)0x8004,
        (short)0x8006, (short)0x8008, (short)0x8003, (short)0x8005, (short)0x8007, (short)0x8009,
        (short)0x8003, (short)0x8005, (short)0x8007, (short)0x8009);
    const __m256i low_shift = _mm256_setr_epi16(0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0, 4, 4, 4, 4);
    const __m256i top_at = _mm256_setr_epi16(
        (short)0x800a, (short)0x800c, (short)0x800a, (short)0x800c, (short)0x800a, (short)0x800c,
        (short)0x800a, (short)0x800c, (short)0x800b, (short)0x800d, (short)0x800b, (short)0x800d,
        (short)0x800b, (short)0x800d, (short)0x800b, (short)0x800d);
    const __m256i top_shift = _mm256_setr_epi16(0, 0, 2, 2, 4, 4, 6, 6, 0, 0, 2, 2, 4, 4, 6, 6);
    __m512i low = shifted_bytes(x, low_at, low_shift), top = shifted_bytes(x, top_at, top_shift);
    top = _mm512_and_si512(_mm512_slli_epi16(top, 4), words_512(0x30));
    return _mm512_sub_epi16(pick_bits(words_512(15), low, top), words_512(32));
}

/* Offset 4. */
ALWAYS void pair_q3_k(const uint8_t *a, const uint8_t *b, struct pair *w)
{
    w->scale = pair_q3_k_scales(two_heads(a + 94, b + 94));
    pair_planes(w->c, two_rows(a + 32, b + 32));
    pair_planes(w->c + 4, two_rows(a + 64, b + 64));
    third_bits(w->c, two_rows(a, b));
}

/* Scales of sixteen rows come from elsewhere. */
ALWAYS void pair_q4_k(const uint8_t *a, const uint8_t *b, struct pair *w)
{
    pair_nibbles(w->c, a + 16, b + 16);
}

ALWAYS void pair_q5_k(const uint8_t *a, const uint8_t *b, struct pair *w)
{
    pair_nibbles(w->c, a + 48, b + 48);
    fifth_bits_by_row(w->c, two_rows(a + 16, b + 16));
}

ALWAYS void pair_q6_k_half(__m512i c[4], const uint8_t *a, const uint8_t *b, __m512i h)
{
    const __m512i low = bytes_512(15), six = bytes_512(63);
    __m512i x = two_rows(a, b), y = two_rows(a + 32, b + 32);
    __m512i h2 = _mm512_srli_epi16(h, 2);
    c[0] = _mm512_and_si512(pick_bits(low, x, _mm512_slli_epi16(h, 4)), six);
    c[1] = _mm512_and_si512(pick_bits(low, y, _mm512_slli_epi16(h, 2)), six);
    c[2] = _mm512_and_si512(pick_bits(low, _mm512_srli_epi16(x, 4), h), six);
    c[3] = _mm512_and_si512(pick_bits(low, _mm512_srli_epi16(y, 4), h2), six);
}

/* Sixteen signed bytes of each row as words of even groups, then of odd ones. */
ALWAYS __m512i signed_words(const uint8_t *a, const uint8_t *b)
{
    const __m512i order =
        _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 30, 28, 26, 24, 22, 20, 18, 16, 15, 13, 11,
                         9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0);
    __m256i x = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a)), load16(b), 1);
    return _mm512_permutexvar_epi16(order, _mm512_cvtepi8_epi16(x));
}

/* Offset 32. */
ALWAYS void pair_q6_k(const uint8_t *a, const uint8_t *b, struct pair *w)
{
    w->scale = signed_words(a + 192, b + 192);
    pair_q6_k_half(w->c, a, b, two_rows(a + 128, b + 128));
    pair_q6_k_half(w->c + 4, a + 64, b + 64, two_rows(a + 160, b + 160));
}

/* Offset 1. */
ALWAYS void pair_tq2_0(const uint8_t *a, const uint8_t *b, struct pair *w)
{
    pair_planes(w->c, two_rows(a, b));
    pair_planes(w->c + 4, two_rows(a + 32, b + 32));
}

/* The first base-3 digit of each byte, a fraction of 256: how often three times it carries. */
ALWAYS __m512i first_digits_512(__m512i x)
{
    const __m512i one = bytes_512(1);
    __m512i a = _mm512_min_epu8(_mm512_subs_epu8(x, bytes_512(85)), one);
    __m512i b = _mm512_min_epu8(_mm512_subs_epu8(x, bytes_512(170)), one);
    return _mm512_add_epi8(a, b);
}

ALWAYS __m512i thrice_512(__m512i x)
{
    return _mm512_add_epi8(x, _mm512_add_epi8(x, x));
}

/* Offset 1. */
ALWAYS void pair_tq1_0(const uint8_t *a, const uint8_t *b, struct pair *w)
{
    __m512i x = two_rows(a, b), y = two_heads(a + 32, b + 32);
#pragma GCC unroll 5
    for (int k = 0; k < 5; k++, x = thrice_512(x))
        w->c[k] = first_digits_512(x);
    __m512i y3 = thrice_512(y), y9 = thrice_512(y3), y27 = thrice_512(y9), y81 = thrice_512(y27);
    w->c[5] = first_digits_512(_mm512_mask_mov_epi32(y, 0xf0f0, y3));
    w->c[6] = first_digits_512(_mm512_mask_mov_epi32(y9, 0xf0f0, y27));
    /* Four bytes, four digits. */
    __m512i z = _mm512_set1_epi32((int)load_le32(a + 48));
    z = _mm512_mask_set1_epi32(z, 0xff00, (int)load_le32(b + 48));
    __m512i z3 = thrice_512(z), z9 = thrice_512(z3);
    z = _mm512_mask_mov_epi32(z, 0x2020, z3);
    z = _mm512_mask_mov_epi32(z, 0x4040, z9);
    z = _mm512_mask_mov_epi32(z, 0x8080, thrice_512(z9));
    w->c[7] = first_digits_512(_mm512_mask_mov_epi32(y81, 0xf0f0, z));
}

/* Codes of 16 bytes each of groups 2k and 2k + 1 are elements 0..15, then 16..31, of both. */
ALWAYS void pair_iq4_xs(const uint8_t *a, const uint8_t *b, struct pair *w)
{
    const __m512i codes = _mm512_broadcast_i32x4(load16(iq4_nl_codes));
    const __m256i low_at =
        _mm256_setr_epi32((int)0x80808004, (int)0x80808005, (int)0x80808006, (int)0x80808007,
                          (int)0x80808004, (int)0x80808005, (int)0x80808006, (int)0x80808007);
    const __m256i low_shift = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    const __m256i top_shift = _mm256_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14);
    __m512i x = two_heads(a, b);
    __m512i low = _mm512_shuffle_epi8(x, _mm512_broadcast_i64x4(low_at));
    __m512i top = _mm512_shuffle_epi8(x, _mm512_set1_epi32((int)0x80800302));
    low = _mm512_srlv_epi32(low, _mm512_broadcast_i64x4(low_shift));
    top = _mm512_slli_epi32(_mm512_srlv_epi32(top, _mm512_broadcast_i64x4(top_shift)), 4);
    top = _mm512_and_si512(top, _mm512_set1_epi32(0x30));
    w->scale = _mm512_sub_epi32(pick_bits(_mm512_set1_epi32(15), low, top), _mm512_set1_epi32(32));
    pair_nibbles(w->c, a + 8, b + 8);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w->c[j] = _mm512_shuffle_epi8(codes, w->c[j]);
}

/* What pair_iq4_xs() wants: 16 elements each of two groups of 32. */
ALWAYS void load_q_by_16(struct eight_q *x, const int8_t *q, int offset)
{
    const __m512i zero = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m512i both = _mm512_loadu_si512(q + 64 * k);
        __m512i a = _mm512_shuffle_i32x4(both, both, 0x88);
        __m512i b = _mm512_shuffle_i32x4(both, both, 0xdd);
        __m512i sum = _mm512_dpbusd_epi32(zero, bytes_512(offset), a);
        x->q[2 * k] = a;
        x->q[2 * k + 1] = b;
        x->start[k] = _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(sum, bytes_512(offset), b));
    }
}

ALWAYS __m512i pair_dot_by_dwords(const struct pair *w, const struct eight_q *x)
{
    __m512i sum[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        sum[k] = _mm512_dpbusd_epi32(x->start[k], w->c[2 * k], x->q[2 * k]);
        sum[k] = _mm512_dpbusd_epi32(sum[k], w->c[2 * k + 1], x->q[2 * k + 1]);
    }
    sum[0] = _mm512_mullo_epi32(sum[0], _mm512_shuffle_epi32(w->scale, (_MM_PERM_ENUM)0x00));
    sum[1] = _mm512_mullo_epi32(sum[1], _mm512_shuffle_epi32(w->scale, (_MM_PERM_ENUM)0x55));
    sum[2] = _mm512_mullo_epi32(sum[2], _mm512_shuffle_epi32(w->scale, (_MM_PERM_ENUM)0xaa));
    sum[3] = _mm512_mullo_epi32(sum[3], _mm512_shuffle_epi32(w->scale, (_MM_PERM_ENUM)0xff));
    return _mm512_add_epi32(_mm512_add_epi32(sum[0], sum[1]), _mm512_add_epi32(sum[2], sum[3]));
}

/* ---- scales and minimums of sixteen rows ---- */

/* What the pairs do not have: q4_k's and q5_k's scales (bytes 0..3 and 4..7 of the rows), minimums
 * times sums of q, d and dmin. */
struct heads {
    __m512i scale[2], min;
    __m512 d, dmin;
};

/* Four unsigned bytes of each row times four sums of q, STEP apart, of which N make one. */
ALWAYS __m512i dot_mins(__m512i acc, __m512i min, const int16_t *sum, int n)
{
    const __m512i low = _mm512_set1_epi32(0x00ff00ff);
    unsigned s[4];
    for (int i = 0; i < 4; i++)
        s[i] = (unsigned)(n == 1 ? sum[i] : sum[2 * i] + sum[2 * i + 1]);
    __m512i even = _mm512_set1_epi32((int)((s[0] & 0xffff) | s[2] << 16));
    __m512i odd = _mm512_set1_epi32((int)((s[1] & 0xffff) | s[3] << 16));
    acc = _mm512_dpwssd_epi32(acc, _mm512_and_si512(min, low), even);
    return _mm512_dpwssd_epi32(acc, _mm512_and_si512(_mm512_srli_epi32(min, 8), low), odd);
}

/* The first sixteen bytes at P of all rows, as four words each. */
ALWAYS void sixteen_heads(const uint8_t *p, size_t stride, __m512i v[4])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        v[i] = load_four_rows(p + (size_t)i * stride, stride);
    transpose_4(v);
}

/* q4_k and q5_k. */
ALWAYS void heads_by_32(const uint8_t *p, const struct rows_16 *r, const int16_t *sum,
                        struct heads *h)
{
    const __m512i low = bytes_512(15), six = bytes_512(63);
    __m512i v[4];
    sixteen_heads(p, r->stride, v);
    h->d = halves_16(v[0]);
    h->dmin = upper_halves_16(v[0]);
    __m512i top = _mm512_srli_epi16(v[1], 2), top_min = _mm512_srli_epi16(v[2], 2);
    h->scale[0] = _mm512_and_si512(v[1], six);
    h->scale[1] = _mm512_and_si512(pick_bits(low, v[3], top), six);
    h->min = dot_mins(_mm512_setzero_si512(), _mm512_and_si512(v[2], six), sum, 2);
    top_min = pick_bits(low, _mm512_srli_epi16(v[3], 4), top_min);
    h->min = dot_mins(h->min, _mm512_and_si512(top_min, six), sum + 8, 2);
}

ALWAYS void heads_q2_k(const uint8_t *p, const struct rows_16 *r, const int16_t *sum,
                       struct heads *h)
{
    __m512i v[4], d = words_16(p + 80, r->at);
    sixteen_heads(p, r->stride, v);
    h->d = halves_16(d);
    h->dmin = upper_halves_16(d);
    h->min = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m512i min = _mm512_and_si512(_mm512_srli_epi16(v[k], 4), bytes_512(15));
        h->min = dot_mins(h->min, min, sum + 4 * k, 1);
    }
}

/* The scales of pair I, rows FIRST and FIRST + 4, from all rows'. */
ALWAYS __m512i scales_by_32(const struct heads *h, size_t first)
{
    const __m512i at = _mm512_set_epi32(20, 4, 20, 4, 20, 4, 20, 4, 16, 0, 16, 0, 16, 0, 16, 0);
    return _mm512_permutex2var_epi32(
        h->scale[0], _mm512_add_epi32(at, _mm512_set1_epi32((int)first)), h->scale[1]);
}

/* ---- sixteen rows ---- */

struct form_16 {
    enum scaling by;
    int offset;
    void (*heads)(const uint8_t *p, const struct rows_16 *r, const int16_t *sum, struct heads *h);
    size_t d; /* where that half is, if not in the heads, which types with minimums have */
};

ALWAYS __m512 d_16(const uint8_t *p, __m512i at, size_t d)
{
    return d == 0 ? halves_16(words_16(p, at)) : upper_halves_16(words_16(p + d - 2, at));
}

/* Sums of scale * value * q of the super-blocks B. */
ALWAYS __m512i super_dots(const struct rows_16 *r, size_t b, size_t size, const struct heads *h,
                          const struct eight_q *x, struct form_16 f, pair_fn *codes)
{
    const uint8_t *p = r->p + b * size, *next = r->p + 16 * (r->stride + b * size);
    const bool far = r->stride >= FAR_ROW;
    __m512i dot[8];
#pragma GCC unroll 1
    for (size_t i = 0; i < 8; i++, next += 2 * size) {
        struct pair w;
        const uint8_t *row = p + first_of_pair(i) * r->stride;
        fetch(next, 2 * size, far);
        codes(row, row + 4 * r->stride, &w);
        if (f.by == BY_32)
            w.scale = scales_by_32(h, first_of_pair(i));
        dot[i] =
            f.by == BY_DWORDS ? pair_dot_by_dwords(&w, x) : pair_dot(&w, x, f.offset != 0, f.by);
    }
    return sums_of_pairs(dot);
}

ALWAYS __m512 few_super_16(const struct rows_16 *r, const struct hkk_acts *a, size_t t, size_t size,
                           struct form_16 f, pair_fn *codes)
{
    __m512 acc = _mm512_setzero_ps();
    for (size_t b = 0; b < a->blocks; b++) {
        const int8_t *q = a->q + t * a->cols + 256 * b;
        const uint8_t *p = r->p + b * size;
        struct eight_q x;
        struct heads h;
        if (f.by == BY_DWORDS)
            load_q_by_16(&x, q, f.offset);
        else if (f.by == BY_NONE)
            load_q_unscaled(&x, q, f.offset);
        else
            load_q(&x, q, f.offset);
        if (f.heads != NULL)
            f.heads(p, r, a->sum + t * a->sums + 16 * b, &h);
        __m512i dot = super_dots(r, b, size, &h, &x, f, codes);
        __m512 dx = _mm512_set1_ps(a->d[t * a->blocks + b]);
        __m512 d = f.heads != NULL ? h.d : d_16(p, r->at, f.d);
        acc = _mm512_fmadd_ps(_mm512_mul_ps(d, dx), _mm512_cvtepi32_ps(dot), acc);
        if (f.heads != NULL) {
            __m512 m = _mm512_xor_ps(h.dmin, _mm512_set1_ps(-0.0f));
            acc = _mm512_fmadd_ps(_mm512_mul_ps(m, dx), _mm512_cvtepi32_ps(h.min), acc);
        }
    }
    return acc;
}

#endif
