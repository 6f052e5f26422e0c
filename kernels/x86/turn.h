/* Packed blocks to codes with rows in lanes, four consecutive columns to a lane. What is packed is
 * turned, and then unpacked in lanes: there is less of it than of codes. Codes are unsigned, the
 * value plus the offset of the type's form; of q8_0, iq4_nl and iq4_xs plus 128. */
#ifndef HKK_X86_TURN_H
#define HKK_X86_TURN_H

#include "kernels/x86/few.h"

/* Where codes go: four columns' are EACH bytes behind the four columns' before, those of a group of
 * 32 columns GROUP bytes behind the group's before. */
struct code_place {
    uint8_t *to;
    size_t each, group;
    bool planes; /* the lower four bits; the upper ones behind them */
    int less;    /* taken off */
};

ALWAYS void put_codes(const struct code_place *o, size_t g, size_t k, lanes x)
{
    uint8_t *to = o->to + g * o->group + k * o->each;
    if (o->less != 0)
        x = l_minus(x, l_bytes(o->less));
    if (!o->planes) {
        l_store(to, x);
        return;
    }
    l_store(to, l_and(x, l_bytes(15)));
    l_store(to + 8 * o->each, l_and(l_right(x, 4), l_bytes(15)));
}

/* Scales and minimums of a super-block: lanes have words of the groups of 16 2j and 2j + 1. */
struct turned {
    lanes scale[8], min[8];
};

enum { MOST_APART = INT32_MAX / 16 }; /* bytes from row to row: lanes have 32-bit offsets */

/* Fewer rows than there are lanes: as many of a row's bytes as 256 columns of any type have. */
struct some_rows {
    uint8_t bytes[LANES][320];
};

/* COUNT rows at W, APART from each other, of which BYTES bytes are wanted; if they are fewer than
 * LANES, a copy at TO of as many, with zeros for those that are not there. */
static inline const uint8_t *all_lanes(struct some_rows *to, const uint8_t *w, size_t *apart,
                                       size_t bytes, size_t count)
{
    if (count >= LANES)
        return w;
    memset(to, 0, sizeof *to);
    for (size_t r = 0; r < count; r++)
        memcpy(to->bytes[r], w + r * *apart, bytes);
    *apart = sizeof to->bytes[0];
    return to->bytes[0];
}

/* Bytes N and N + MORE of each lane as words: their lower halves, or the UPPER ones. */
ALWAYS lanes two_words(lanes x, int n, int more, bool upper)
{
    static const uint8_t lower_at[16] = {0, 128, 0, 128, 4,  128, 4,  128,
                                         8, 128, 8, 128, 12, 128, 12, 128},
                         upper_at[16] = {128, 0, 128, 0, 128, 4,  128, 4,
                                         128, 8, 128, 8, 128, 12, 128, 12};
    const uint32_t byte = upper ? (uint32_t)(n + more) << 24 | (uint32_t)n << 8
                                : (uint32_t)(n + more) << 16 | (uint32_t)n;
    const lanes at = l_table(upper ? upper_at : lower_at);
    return l_look_up(x, l_pick(l_bytes(3), l_dwords(byte), at));
}

/* ---- blocks of 32 ---- */

/* Sixteen bytes of nibbles at P: the lower ones are sixteen columns of group A, from KA times four
 * on, the upper ones of group B, from KB times four on. With TABLE they index codes. */
ALWAYS void turn_nibbles(const uint8_t *p, size_t stride, const void *table,
                         const struct code_place *o, size_t a, size_t ka, size_t b, size_t kb)
{
    const lanes low = l_bytes(15);
    lanes v[4];
    turn_16_bytes(p, stride, v);
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++) {
        lanes x = l_and(v[k], low), y = l_and(l_right(v[k], 4), low);
        put_codes(o, a, ka + k, table != NULL ? l_look_up(l_table(table), x) : x);
        put_codes(o, b, kb + k, table != NULL ? l_look_up(l_table(table), y) : y);
    }
}

/* Fifth bits are in a word at BITS. */
ALWAYS void turn_five_bits(const uint8_t *p, const uint8_t *bits, size_t stride,
                           const struct code_place *o, size_t g)
{
    const lanes low = l_bytes(15), words = l_words(bits, stride);
    const lanes even = l_dwords(0x08040201), odd = l_dwords(0x80402010);
    static const uint8_t first[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    lanes v[4];
    turn_16_bytes(p, stride, v);
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++) {
        const lanes at = l_minus(l_table(first), l_bytes(-(int)(k / 2)));
        const lanes upper = l_minus(at, l_bytes(-2)), bit = k % 2 == 0 ? even : odd;
        lanes x = l_and(v[k], low), y = l_and(l_right(v[k], 4), low);
        put_codes(o, g, k, l_sixteen_where(x, l_look_up(words, at), bit));
        put_codes(o, g, 4 + k, l_sixteen_where(y, l_look_up(words, upper), bit));
    }
}

/* The block of 32 of each row at P as group G; its scales to D, its minimums to M. */
ALWAYS void turn_small(const uint8_t *p, size_t stride, unsigned type, const struct code_place *o,
                       size_t g, float *d, float *m)
{
    const lanes word = l_words(p, stride);
    r_store(d, type == HKK_MXFP4 ? l_e8m0(word) : l_half(word));
    if (type == HKK_Q4_1 || type == HKK_Q5_1)
        r_store(m, l_half(l_right_32(word, 16)));
    switch (type) {
    case HKK_Q4_0:
    case HKK_Q4_1:
        turn_nibbles(p + (type == HKK_Q4_1 ? 4 : 2), stride, NULL, o, g, 0, g, 4);
        break;
    case HKK_IQ4_NL:
        turn_nibbles(p + 2, stride, iq4_nl_codes, o, g, 0, g, 4);
        break;
    case HKK_MXFP4:
        turn_nibbles(p + 1, stride, e2m1_codes, o, g, 0, g, 4);
        break;
    case HKK_Q5_0:
        turn_five_bits(p + 6, p + 2, stride, o, g);
        break;
    case HKK_Q5_1:
        turn_five_bits(p + 8, p + 4, stride, o, g);
        break;
    default: /* q8_0 */
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            lanes v[4];
            turn_16_bytes(p + 2 + 16 * h, stride, v);
#pragma GCC unroll 4
            for (size_t k = 0; k < 4; k++)
                put_codes(o, g, 4 * h + k, l_minus(v[k], l_bytes(-128)));
        }
    }
}

/* Two groups of 16 of each row's block of nvfp4 at P, the first two or with HALF the others, of
 * which eight bytes have low and high nibbles: groups G and G + 1, whose scales go to D and E. */
ALWAYS void turn_nvfp4(const uint8_t *p, size_t stride, size_t half, const struct code_place *o,
                       size_t g, float *d, float *e)
{
    const lanes low = l_bytes(15), table = l_table(e2m1_codes);
    const lanes scales = l_words(p, stride);
    lanes v[4];
    r_store(d, l_e4m3(half == 0 ? scales : l_right_32(scales, 16)));
    r_store(e, l_e4m3(l_right_32(scales, half == 0 ? 8 : 24)));
    turn_16_bytes(p + 4 + 16 * half, stride, v);
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++) {
        put_codes(o, g + k / 2, k % 2, l_look_up(table, l_and(v[k], low)));
        put_codes(o, g + k / 2, 2 + k % 2, l_look_up(table, l_and(l_right(v[k], 4), low)));
    }
}

#endif
