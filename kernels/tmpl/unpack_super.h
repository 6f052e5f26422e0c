/* Super-blocks of 256 as int8 values with an integer scale, and perhaps an integer minimum, for
 * each 16. Portable. Layouts: libhkfmt/tensor/blocks.h; values: the decoders of libhkfmt.
 *
 * Bounds of one super-block's sum of scale * v * q over 256 elements with |q| <= 127, all below
 * 2^31: largest |scale| * |v| is q2_k 15*3, q3_k 32*4, q4_k 63*15, q5_k 63*31, q6_k 128*32 (sum
 * 133169152), iq2 31*43, iq3_xxs 31*62, iq3_s 31*15, iq1 15*9, iq4_xs 32*127 (sum 132128768),
 * ternary 2. Sums of minimums: 63 * 32512. */
#ifndef HKK_UNPACK_SUPER_H
#define HKK_UNPACK_SUPER_H

#include "kernels/bits.h"
#include "kernels/tmpl/unpack_small.h"
#include "libhkfmt/tensor/blocks.h"
#include "libhkfmt/tensor/tables.h"

/* Weight i is d * scale[i / 16] * v[i] - dmin * min[i / 16]. */
struct super {
    float d, dmin;
    int16_t scale[16], min[16];
    int8_t v[256];
};

/* Elements 16g.. of two-bit planes: bits 2k.. of 16 of the 32 bytes that hold 128 elements. */
static inline int plane_bits(const uint8_t *qs, int i)
{
    return qs[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
}

static inline void unpack_q2_k(const uint8_t *block, struct super *s)
{
    const struct hk_q2_k *b = (const void *)block;
    s->d = le_half(b->d);
    s->dmin = le_half(b->dmin);
    for (int g = 0; g < 16; g++) {
        s->scale[g] = b->scales[g] & 15;
        s->min[g] = b->scales[g] >> 4;
    }
    for (int i = 0; i < 256; i++)
        s->v[i] = (int8_t)plane_bits(b->qs, i);
}

/* Sixteen 6-bit scales, offset by 32: nibbles, then two bits each. */
static inline int16_t q3_k_scale(const uint8_t *s, int g)
{
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    return (int16_t)((low | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32);
}

static inline void unpack_q3_k(const uint8_t *block, struct super *s)
{
    const struct hk_q3_k *b = (const void *)block;
    s->d = le_half(b->d);
    for (int g = 0; g < 16; g++)
        s->scale[g] = q3_k_scale(b->scales, g);
    for (int i = 0; i < 256; i++)
        s->v[i] = (int8_t)(plane_bits(b->qs, i) + (b->qh[i % 32] >> i / 32 & 1) * 4 - 4);
}

/* Eight scales and eight minimums of six bits in twelve bytes; each is for 32 elements. */
static inline void unpack_k_scales(const uint8_t *b, struct super *s)
{
    for (int g = 0; g < 16; g++) {
        int j = g / 2;
        s->scale[g] = (int16_t)(j < 4 ? b[j] & 63 : (b[j + 4] & 15) | b[j - 4] >> 6 << 4);
        s->min[g] = (int16_t)(j < 4 ? b[j + 4] & 63 : b[j + 4] >> 4 | b[j] >> 6 << 4);
    }
}

/* Four rows of 32 bytes: low nibbles, then high ones. */
static inline int row_nibble(const uint8_t *qs, int i)
{
    return qs[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
}

static inline void unpack_q4_k(const uint8_t *block, struct super *s)
{
    const struct hk_q4_k *b = (const void *)block;
    s->d = le_half(b->d);
    s->dmin = le_half(b->dmin);
    unpack_k_scales(b->scales, s);
    for (int i = 0; i < 256; i++)
        s->v[i] = (int8_t)row_nibble(b->qs, i);
}

static inline void unpack_q5_k(const uint8_t *block, struct super *s)
{
    const struct hk_q5_k *b = (const void *)block;
    s->d = le_half(b->d);
    s->dmin = le_half(b->dmin);
    unpack_k_scales(b->scales, s);
    for (int i = 0; i < 256; i++)
        s->v[i] = (int8_t)(row_nibble(b->qs, i) + (b->qh[i % 32] >> i / 32 & 1) * 16);
}

static inline void unpack_q6_k(const uint8_t *block, struct super *s)
{
    const struct hk_q6_k *b = (const void *)block;
    s->d = le_half(b->d);
    for (int g = 0; g < 16; g++)
        s->scale[g] = b->scales[g];
    for (int i = 0; i < 256; i++) {
        int low = b->ql[i / 128 * 64 + i % 64] >> i / 64 % 2 * 4 & 15;
        s->v[i] = (int8_t)((low | plane_bits(b->qh, i) << 4) - 32);
    }
}

static inline void unpack_iq4_xs(const uint8_t *block, struct super *s)
{
    const struct hk_iq4_xs *b = (const void *)block;
    unsigned high = load_le16(b->scales_h);
    s->d = le_half(b->d);
    for (int g = 0; g < 8; g++) {
        unsigned low = (unsigned)b->scales_l[g / 2] >> g % 2 * 4 & 15;
        s->scale[2 * g] = s->scale[2 * g + 1] =
            (int16_t)((int)(low | (high >> 2 * g & 3) << 4) - 32);
        nibble_values(s->v + 32 * g, b->qs + 16 * g, 16, hk_iq4_nl_values);
    }
}

/* DIGITS base-3 digits of each of N bytes, less one, most significant first: all first digits, then
 * all second ones. A byte is a fraction of 256; times three, its next digit is what carries over.
 */
static inline int8_t *unpack_ternary(int8_t *v, const uint8_t *q, int n, int digits)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    for (int k = 0; k < digits; k++)
        for (int j = 0; j < n; j++)
            *v++ = (int8_t)(((q[j] * power[k] & 255) * 3 >> 8) - 1);
    return v;
}

static inline void unit_scales(struct super *s)
{
    for (int g = 0; g < 16; g++)
        s->scale[g] = 1;
}

static inline void unpack_tq1_0(const uint8_t *block, struct super *s)
{
    const struct hk_tq1_0 *b = (const void *)block;
    s->d = le_half(b->d);
    unit_scales(s);
    int8_t *v = unpack_ternary(s->v, b->qs, 32, 5);
    v = unpack_ternary(v, b->qs + 32, 16, 5);
    unpack_ternary(v, b->qh, 4, 4);
}

static inline void unpack_tq2_0(const uint8_t *block, struct super *s)
{
    const struct hk_tq2_0 *b = (const void *)block;
    s->d = le_half(b->d);
    unit_scales(s);
    for (int i = 0; i < 256; i++)
        s->v[i] = (int8_t)(plane_bits(b->qs, i) - 1);
}

#endif
