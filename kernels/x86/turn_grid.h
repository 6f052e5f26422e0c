/* Super-blocks whose codes index grids, turned: a lane's entry is that of its row, so that four of
 * its bytes are the lane's four columns. Signs are bits of a byte for each eight columns. */
#ifndef HKK_X86_TURN_GRID_H
#define HKK_X86_TURN_GRID_H

#include "kernels/x86/turn.h"

/* Four columns from K on of group G: OFFSET plus the four bytes of GRID at AT, less them where the
 * K-th four bits of byte N of SIGNS are set. */
ALWAYS void put_entry(const struct code_place *o, size_t g, size_t k, const uint8_t *grid, lanes at,
                      lanes signs, int n, int offset)
{
    static const uint8_t first[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    const lanes bits = l_look_up(signs, l_plus(l_table(first), l_bytes(n)));
    const lanes bit = l_dwords(k % 2 == 0 ? 0x08040201 : 0x80402010);
    put_codes(o, g, k, l_plus_or_minus(l_bytes(offset), l_gather(grid, at), bits, bit));
}

/* Eight columns, whose entry has eight bytes. */
ALWAYS void put_long_entry(const struct code_place *o, size_t g, size_t k, const uint8_t *grid,
                           lanes index, lanes signs, int n, int offset)
{
    const lanes at = l_left_32(index, 3);
    put_entry(o, g, k, grid, at, signs, n, offset);
    put_entry(o, g, k + 1, grid + 4, at, signs, n, offset);
}

/* An eighth sign goes with seven, so that their number is even: of bytes below 128. */
ALWAYS lanes turned_signs(lanes x)
{
    static const uint8_t odd[16] = {0, 128, 128, 0, 128, 0, 0, 128, 128, 0, 0, 128, 0, 128, 128, 0};
    const lanes low = l_bytes(15), table = l_table(odd);
    lanes a = l_look_up(table, l_and(x, low)), b = l_look_up(table, l_and(l_right(x, 4), low));
    return l_plus(x, l_plus(a, b)); /* 128 twice is none */
}

/* Of words of four times seven signs, below a scale. */
ALWAYS lanes signs_of_word(lanes w)
{
    lanes x = l_pick(l_dwords(0x7f), w, l_left_32(w, 1));
    x = l_pick(l_dwords(0x7f7f), x, l_left_32(w, 2));
    x = l_pick(l_dwords(0x7f7f7f), x, l_left_32(w, 3));
    return turned_signs(l_and(x, l_dwords(0x7f7f7f7f)));
}

/* 2s + 1 of words of four bits. */
ALWAYS lanes odd_words(lanes s)
{
    return l_plus(l_plus(s, s), l_dwords(0x00010001));
}

/* The scale above the signs, for two groups of 16. */
ALWAYS lanes scale_of_word(lanes w)
{
    lanes s = l_right_32(w, 28);
    return odd_words(l_pick(l_dwords(0xffff), s, l_left_32(s, 16)));
}

/* Eight bytes at P of two scales of four bits, the lower ones first. */
ALWAYS void turn_nibble_scales(const uint8_t *p, size_t stride, lanes scale[8])
{
    const lanes a = l_words(p, stride), b = l_words(p + 4, stride);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        lanes x = two_words(j < 4 ? a : b, j % 4, 0, false);
        x = l_pick(l_dwords(0xffff), x, l_right(x, 4));
        scale[j] = odd_words(l_and(x, l_dwords(0x000f000f)));
    }
}

/* Byte N of X's lanes. */
ALWAYS lanes byte_of_lane(lanes x, unsigned n)
{
    return l_and(l_right_32(x, 8 * n), l_dwords(255));
}

ALWAYS void turn_iq2_xxs(const uint8_t *p, size_t stride, const struct code_place *o,
                         struct turned *s)
{
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g += 2) {
        lanes v[4];
        turn_16_bytes(p + 2 + 8 * g, stride, v);
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            const lanes signs = signs_of_word(v[2 * h + 1]);
            s->scale[g + h] = scale_of_word(v[2 * h + 1]);
#pragma GCC unroll 4
            for (unsigned e = 0; e < 4; e++)
                put_long_entry(o, g + h, 2 * e, hk_iq2_xxs_grid[0], byte_of_lane(v[2 * h], e),
                               signs, (int)e, 43);
        }
    }
}

ALWAYS void turn_iq2_xs(const uint8_t *p, size_t stride, const struct code_place *o,
                        struct turned *s)
{
    const lanes nine = l_dwords(511);
    turn_nibble_scales(p + 66, stride, s->scale);
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g += 2) {
        lanes v[4];
        turn_16_bytes(p + 2 + 8 * g, stride, v);
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            const lanes signs = turned_signs(l_right(v[k], 9));
            put_long_entry(o, g + k / 2, 4 * (k % 2), hk_iq2_xs_grid[0], l_and(v[k], nine), signs,
                           0, 43);
            put_long_entry(o, g + k / 2, 4 * (k % 2) + 2, hk_iq2_xs_grid[0],
                           l_and(l_right_32(v[k], 16), nine), signs, 2, 43);
        }
    }
}

ALWAYS void turn_iq2_s(const uint8_t *p, size_t stride, const struct code_place *o,
                       struct turned *s)
{
    turn_nibble_scales(p + 74, stride, s->scale);
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g += 4) {
        lanes v[4], signs[4], high = l_words(p + 66 + g, stride);
        turn_16_bytes(p + 2 + 4 * g, stride, v);
        turn_16_bytes(p + 34 + 4 * g, stride, signs);
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++)
#pragma GCC unroll 4
            for (unsigned e = 0; e < 4; e++, high = l_right_32(high, 2)) {
                lanes index = l_pick(l_dwords(255), byte_of_lane(v[k], e), l_left_32(high, 8));
                put_long_entry(o, g + k, 2 * e, hk_iq2_s_grid[0], l_and(index, l_dwords(1023)),
                               signs[k], (int)e, 43);
            }
    }
}

ALWAYS void turn_iq3_xxs(const uint8_t *p, size_t stride, const struct code_place *o,
                         struct turned *s)
{
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g += 2) {
        lanes v[4];
        turn_16_bytes(p + 2 + 8 * g, stride, v);
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            const lanes w = l_words(p + 66 + 4 * (g + h), stride), signs = signs_of_word(w);
            s->scale[g + h] = scale_of_word(w);
#pragma GCC unroll 8
            for (unsigned e = 0; e < 8; e++)
                put_entry(o, g + h, e, hk_iq3_xxs_grid[0],
                          l_left_32(byte_of_lane(v[2 * h + e / 4], e % 4), 2), signs, (int)e / 2,
                          62);
        }
    }
}

ALWAYS void turn_iq3_s(const uint8_t *p, size_t stride, const struct code_place *o,
                       struct turned *s)
{
    const lanes scales = l_words(p + 106, stride);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        lanes x = two_words(scales, j / 2, 0, false);
        x = j % 2 == 0 ? x : l_right(x, 4);
        s->scale[j] = odd_words(l_and(x, l_dwords(0x000f000f)));
    }
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g += 2) {
        lanes v[4], high = l_words(p + 66 + (g / 4 * 4), stride);
        if (g % 4 == 2)
            high = l_right_32(high, 16);
        turn_16_bytes(p + 2 + 8 * g, stride, v);
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            const lanes signs = l_words(p + 74 + 4 * (g + h), stride);
#pragma GCC unroll 8
            for (unsigned e = 0; e < 8; e++, high = l_right_32(high, 1)) {
                lanes index = byte_of_lane(v[2 * h + e / 4], e % 4);
                index = l_pick(l_dwords(255), index, l_left_32(high, 8));
                put_entry(o, g + h, e, hk_iq3_s_grid[0], l_left_32(l_and(index, l_dwords(511)), 2),
                          signs, (int)e / 2, 15);
            }
        }
    }
}

/* Eight columns of ternary numbers times eight, plus DELTA. */
ALWAYS void put_ternary(const struct code_place *o, size_t g, size_t k, lanes index, lanes delta)
{
    const uint8_t *grid = (const uint8_t *)hk_iq1_grid;
    const lanes at = l_left_32(l_and(index, l_dwords(2047)), 3), eighths = l_bytes(0xf8);
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++) {
        lanes x = l_and(l_left(l_gather(grid + 4 * i, at), 3), eighths);
        put_codes(o, g, k + i, l_plus(x, delta));
    }
}

ALWAYS void turn_iq1_s(const uint8_t *p, size_t stride, const struct code_place *o,
                       struct turned *s)
{
    static const uint8_t top[16] = {1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9, 13, 13, 13, 13};
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g += 4) {
        lanes v[4], h[4];
        turn_16_bytes(p + 2 + 4 * g, stride, v);
        h[0] = l_words(p + 34 + 2 * g, stride);
        h[2] = l_words(p + 38 + 2 * g, stride);
        h[1] = l_right_32(h[0], 16);
        h[3] = l_right_32(h[2], 16);
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            lanes three = l_and(l_right_32(h[k], 12), l_dwords(7));
            lanes below = l_look_up(h[k], l_table(top)), bit = l_bytes(0x80);
            lanes delta = l_plus_or_minus(l_bytes(9), l_bytes(1), below, bit);
            s->scale[g + k] = odd_words(l_pick(l_dwords(0xffff), three, l_left_32(three, 16)));
#pragma GCC unroll 4
            for (unsigned e = 0; e < 4; e++, h[k] = l_right_32(h[k], 3))
                put_ternary(o, g + k, 2 * e,
                            l_pick(l_dwords(255), byte_of_lane(v[k], e), l_left_32(h[k], 8)),
                            delta);
        }
    }
}

/* Gives the half that the upper four bits of the scales' words are. */
ALWAYS lanes turn_iq1_m_scales(const uint8_t *p, size_t stride, lanes scale[8])
{
    lanes w[4] = {l_words(p + 48, stride), l_right_32(l_words(p + 48, stride), 16),
                  l_words(p + 52, stride), l_right_32(l_words(p + 52, stride), 16)};
    lanes d = l_dwords(0);
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        lanes a = w[i], b = l_right_32(w[i], 6);
        scale[2 * i] = l_pick(l_dwords(7), a, l_left_32(l_right_32(a, 3), 16));
        scale[2 * i + 1] = l_pick(l_dwords(7), b, l_left_32(l_right_32(b, 3), 16));
        scale[2 * i] = odd_words(l_and(scale[2 * i], l_dwords(0x00070007)));
        scale[2 * i + 1] = odd_words(l_and(scale[2 * i + 1], l_dwords(0x00070007)));
        d = l_pick(l_dwords(0xf000), w[i], l_right_32(d, 4));
    }
    return l_and(d, l_dwords(0xffff));
}

ALWAYS void turn_iq1_m(const uint8_t *p, size_t stride, const struct code_place *o)
{
    static const uint8_t first[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
#pragma GCC unroll 1
    for (size_t g = 0; g < 8; g += 4) {
        lanes v[4];
        turn_16_bytes(p + 4 * g, stride, v);
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            lanes h = k % 2 == 0 ? l_words(p + 32 + 2 * g + 4 * (k / 2), stride)
                                 : l_right_32(l_words(p + 32 + 2 * g + 4 * (k / 2), stride), 16);
#pragma GCC unroll 4
            for (unsigned e = 0; e < 4; e++, h = l_right_32(h, 4)) {
                lanes below = l_look_up(h, l_table(first));
                lanes delta = l_plus_or_minus(l_bytes(9), l_bytes(1), below, l_bytes(8));
                put_ternary(o, g + k, 2 * e,
                            l_pick(l_dwords(255), byte_of_lane(v[k], e), l_left_32(h, 8)), delta);
            }
        }
    }
}

/* A super-block of each row at P. */
ALWAYS void turn_grid(const uint8_t *p, size_t stride, unsigned type, const struct code_place *o,
                      struct turned *s, float *d)
{
    lanes half;
    if (type == HKK_IQ1_M)
        half = turn_iq1_m_scales(p, stride, s->scale);
    else
        half = l_words(p, stride);
    r_store(d, r_times(l_half(half), type == HKK_IQ3_S     ? 1.0f
                                     : type == HKK_IQ3_XXS ? 0.25f
                                                           : 0.125f));
    switch (type) {
    case HKK_IQ2_XXS:
        turn_iq2_xxs(p, stride, o, s);
        break;
    case HKK_IQ2_XS:
        turn_iq2_xs(p, stride, o, s);
        break;
    case HKK_IQ2_S:
        turn_iq2_s(p, stride, o, s);
        break;
    case HKK_IQ3_XXS:
        turn_iq3_xxs(p, stride, o, s);
        break;
    case HKK_IQ3_S:
        turn_iq3_s(p, stride, o, s);
        break;
    case HKK_IQ1_S:
        turn_iq1_s(p, stride, o, s);
        break;
    default:
        turn_iq1_m(p, stride, o);
    }
}

#endif
