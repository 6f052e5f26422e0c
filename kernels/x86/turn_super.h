/* Super-blocks turned: turn.h says how. */
#ifndef HKK_X86_TURN_SUPER_H
#define HKK_X86_TURN_SUPER_H

#include "kernels/x86/turn_grid.h"

/* ---- codes ---- */

ALWAYS void turn_q4_k(const uint8_t *qs, size_t stride, const struct code_place *o)
{
#pragma GCC unroll 1
    for (size_t i = 0; i < 8; i++) {
        const size_t g = i / 2 * 2, k = i % 2 * 4;
        turn_nibbles(qs + 16 * i, stride, NULL, o, g, k, g + 1, k);
    }
}

ALWAYS void turn_q5_k(const uint8_t *qs, const uint8_t *qh, size_t stride,
                      const struct code_place *o)
{
    const lanes low = l_bytes(15), bit = l_bytes(16);
#pragma GCC unroll 1
    for (size_t s = 0; s < 2; s++) {
        lanes h[4], v[4];
        turn_16_bytes(qh + 16 * s, stride, h);
#pragma GCC unroll 1
        for (size_t c = 0; c < 4; c++) {
            turn_16_bytes(qs + 32 * c + 16 * s, stride, v);
#pragma GCC unroll 4
            for (size_t k = 0; k < 4; k++) {
                lanes x = l_and(v[k], low), y = l_and(l_right(v[k], 4), low);
                put_codes(o, 2 * c, 4 * s + k, l_pick(bit, l_left(h[k], 4), x));
                put_codes(o, 2 * c + 1, 4 * s + k, l_pick(bit, l_left(h[k], 3), y));
                h[k] = l_right(h[k], 2);
            }
        }
    }
}

ALWAYS void turn_q6_k(const uint8_t *ql, const uint8_t *qh, size_t stride,
                      const struct code_place *o)
{
    const lanes low = l_bytes(15), six = l_bytes(63);
#pragma GCC unroll 1
    for (size_t i = 0; i < 4; i++) {
        const size_t g = i / 2 * 4, s = i % 2;
        const uint8_t *from = ql + 16 * g + 16 * s;
        lanes a[4], b[4], h[4];
        turn_16_bytes(from, stride, a);
        turn_16_bytes(from + 32, stride, b);
        turn_16_bytes(qh + 8 * g + 16 * s, stride, h);
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            const size_t at = 4 * s + k;
            put_codes(o, g, at, l_and(l_pick(low, a[k], l_left(h[k], 4)), six));
            put_codes(o, g + 1, at, l_and(l_pick(low, b[k], l_left(h[k], 2)), six));
            put_codes(o, g + 2, at, l_and(l_pick(low, l_right(a[k], 4), h[k]), six));
            put_codes(o, g + 3, at, l_and(l_pick(low, l_right(b[k], 4), l_right(h[k], 2)), six));
        }
    }
}

/* Two bits of each column; QH has a third one, or is NULL. */
ALWAYS void turn_two_bits(const uint8_t *qs, const uint8_t *qh, size_t stride,
                          const struct code_place *o)
{
    const lanes two = l_bytes(3), bit = l_bytes(4);
#pragma GCC unroll 1
    for (size_t s = 0; s < 2; s++) {
        lanes h[4], v[4];
        if (qh != NULL)
            turn_16_bytes(qh + 16 * s, stride, h);
#pragma GCC unroll 1
        for (size_t n = 0; n < 2; n++) {
            turn_16_bytes(qs + 32 * n + 16 * s, stride, v);
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++)
#pragma GCC unroll 4
                for (size_t k = 0; k < 4; k++) {
                    lanes x = l_and(v[k], two);
                    v[k] = l_right(v[k], 2);
                    if (qh != NULL) {
                        x = l_pick(bit, l_left(h[k], 2), x);
                        h[k] = l_right(h[k], 1);
                    }
                    put_codes(o, 4 * n + j, 4 * s + k, x);
                }
        }
    }
}

/* The first base-3 digit of each byte, a fraction of 256; what remains of it. */
ALWAYS lanes next_digit(lanes *x)
{
    lanes digit = l_plus(l_above(*x, 85), l_above(*x, 170));
    *x = l_plus(*x, l_plus(*x, *x));
    return digit;
}

ALWAYS void turn_tq1_0(const uint8_t *p, size_t stride, const struct code_place *o)
{
    lanes v[4];
#pragma GCC unroll 1
    for (size_t s = 0; s < 2; s++) {
        turn_16_bytes(p + 16 * s, stride, v);
#pragma GCC unroll 5
        for (size_t n = 0; n < 5; n++)
#pragma GCC unroll 4
            for (size_t k = 0; k < 4; k++)
                put_codes(o, n, 4 * s + k, next_digit(v + k));
    }
    turn_16_bytes(p + 32, stride, v);
#pragma GCC unroll 5
    for (size_t n = 0; n < 5; n++)
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++)
            put_codes(o, 5 + n / 2, 4 * (n % 2) + k, next_digit(v + k));
    v[0] = l_words(p + 48, stride);
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++)
        put_codes(o, 7, 4 + k, next_digit(v));
}

/* ---- scales ---- */

/* Sixteen unsigned bytes in four registers. */
ALWAYS void words_of_bytes(const lanes v[4], lanes pair[8])
{
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        pair[j] = two_words(v[j / 2], j % 2 * 2, 1, false);
}

ALWAYS void words_of_signed_bytes(const lanes v[4], lanes pair[8])
{
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        pair[j] = l_right_signed(two_words(v[j / 2], j % 2 * 2, 1, true), 8);
}

/* Eight bytes, each for two groups of 16. */
ALWAYS void words_of_32(lanes a, lanes b, lanes pair[8])
{
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        pair[j] = two_words(j < 4 ? a : b, j % 4, 0, false);
}

/* q4_k's and q5_k's heads. */
ALWAYS void turn_k_scales(const uint8_t *p, size_t stride, struct turned *s, float *d, float *m)
{
    const lanes low = l_bytes(15), six = l_bytes(63);
    lanes v[4];
    turn_16_bytes(p, stride, v);
    r_store(d, l_half(v[0]));
    r_store(m, r_negative(l_half(l_right_32(v[0], 16))));
    lanes top = l_pick(low, v[3], l_right(v[1], 2)),
          top_min = l_pick(low, l_right(v[3], 4), l_right(v[2], 2));
    words_of_32(l_and(v[1], six), l_and(top, six), s->scale);
    words_of_32(l_and(v[2], six), l_and(top_min, six), s->min);
}

ALWAYS void turn_q2_k_scales(const uint8_t *p, size_t stride, struct turned *s, float *d, float *m)
{
    const lanes low = l_bytes(15), word = l_words(p + 80, stride);
    lanes v[4], min[4];
    turn_16_bytes(p, stride, v);
    r_store(d, l_half(word));
    r_store(m, r_negative(l_half(l_right_32(word, 16))));
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        min[k] = l_and(l_right(v[k], 4), low);
        v[k] = l_and(v[k], low);
    }
    words_of_bytes(v, s->scale);
    words_of_bytes(min, s->min);
}

/* Four scales from the nibbles of X and from the lowest bits of TOP's bytes, less 32. */
ALWAYS lanes four_q3_k_scales(lanes x, lanes top)
{
    x = l_pick(l_bytes(15), x, l_left(top, 4));
    return l_minus(l_and(x, l_bytes(63)), l_bytes(32));
}

/* Sixteen bytes of which the last twelve are the scales. */
ALWAYS void turn_q3_k_scales(const uint8_t *p, size_t stride, struct turned *s, float *d)
{
    lanes v[4], x[4];
    turn_16_bytes(p + 92, stride, v);
    r_store(d, l_half(l_right_32(l_words(p + 106, stride), 16)));
    x[0] = four_q3_k_scales(v[1], v[3]);
    x[1] = four_q3_k_scales(v[2], l_right(v[3], 2));
    x[2] = four_q3_k_scales(l_right(v[1], 4), l_right(v[3], 4));
    x[3] = four_q3_k_scales(l_right(v[2], 4), l_right(v[3], 6));
    words_of_signed_bytes(x, s->scale);
}

ALWAYS void turn_q6_k_scales(const uint8_t *p, size_t stride, struct turned *s, float *d)
{
    lanes v[4];
    turn_16_bytes(p + 192, stride, v);
    r_store(d, l_half(l_right_32(l_words(p + 206, stride), 16)));
    words_of_signed_bytes(v, s->scale);
}

/* Nibbles, and two bits each of the head's upper half. */
ALWAYS void turn_iq4_xs_scales(const uint8_t *p, size_t stride, struct turned *s, float *d)
{
    lanes word = l_words(p, stride), x = l_words(p + 4, stride);
    lanes top = l_right_32(word, 16), four = l_dwords(15), two = l_dwords(3);
    r_store(d, l_half(word));
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++, x = l_right_32(x, 4), top = l_right_32(top, 2)) {
        lanes scale = l_pick(four, x, l_left(l_and(top, two), 4));
        scale = l_minus(l_and(scale, l_dwords(63)), l_dwords(32));
        s->scale[j] = l_right_signed(two_words(scale, 0, 0, true), 8);
    }
}

/* Ones; d is the half at P. */
ALWAYS void turn_no_scales(const uint8_t *p, size_t stride, struct turned *s, float *d)
{
    r_store(d, l_half(l_right_32(l_words(p - 2, stride), 16)));
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        s->scale[j] = l_dwords(0x00010001);
}

/* The super-block of each row at P. */
ALWAYS void turn_super(const uint8_t *p, size_t stride, unsigned type, const struct code_place *o,
                       struct turned *s, float *d, float *m)
{
    switch (type) {
    case HKK_Q2_K:
        turn_two_bits(p + 16, NULL, stride, o);
        turn_q2_k_scales(p, stride, s, d, m);
        break;
    case HKK_Q3_K:
        turn_two_bits(p + 32, p, stride, o);
        turn_q3_k_scales(p, stride, s, d);
        break;
    case HKK_Q4_K:
        turn_q4_k(p + 16, stride, o);
        turn_k_scales(p, stride, s, d, m);
        break;
    case HKK_Q5_K:
        turn_q5_k(p + 48, p + 16, stride, o);
        turn_k_scales(p, stride, s, d, m);
        break;
    case HKK_Q6_K:
        turn_q6_k(p, p + 128, stride, o);
        turn_q6_k_scales(p, stride, s, d);
        break;
    case HKK_IQ4_XS:
#pragma GCC unroll 1
        for (size_t g = 0; g < 8; g++)
            turn_nibbles(p + 8 + 16 * g, stride, iq4_nl_codes, o, g, 0, g, 4);
        turn_iq4_xs_scales(p, stride, s, d);
        break;
    case HKK_TQ1_0:
        turn_tq1_0(p, stride, o);
        turn_no_scales(p + 52, stride, s, d);
        break;
    case HKK_TQ2_0:
        turn_two_bits(p, NULL, stride, o);
        turn_no_scales(p + 64, stride, s, d);
        break;
    default:
        turn_grid(p, stride, type, o, s, d);
    }
}

#endif
