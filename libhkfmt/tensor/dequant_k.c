/* K-quants: 256 elements in groups of 16 or 32 that have small integer scales of their own. */
#include "libhkfmt/tensor/blocks.h"
#include "libhkfmt/tensor/dequant.h"
#include "libhkfmt/tensor/floats.h"

enum { GROUP = 16 };

/* Scales and minimums of q4_k and q5_k, six bits each in twelve bytes: the first four of both in
 * the low six bits of bytes 0..3 and 4..7, the others a nibble each in bytes 8..11 below the two
 * bits left over. */
static inline void read_k_scales(const uint8_t *s, uint8_t scale[8], uint8_t min[8])
{
    for (int j = 0; j < 4; j++) {
        scale[j] = s[j] & 63;
        min[j] = s[j + 4] & 63;
        scale[j + 4] = (uint8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
        min[j + 4] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

/* Elements 16g.. of two-bit planes: bits 2k.. of 16 of the 32 bytes that hold 128 elements. */
static inline const uint8_t *plane(const uint8_t *qs, int g, int *shift)
{
    *shift = g / 2 % 4 * 2;
    return qs + g / 8 * 32 + g % 2 * 16;
}

void hk_decode_q2_k(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q2_k *b = (const void *)block;
    float d = hk_f16(le16(b->d)), dmin = hk_f16(le16(b->dmin));
    for (int g = 0; g < 16; g++, y += GROUP) {
        int shift;
        const uint8_t *q = plane(b->qs, g, &shift);
        float scale = d * (float)(b->scales[g] & 15), min = dmin * (float)(b->scales[g] >> 4);
        for (int l = 0; l < GROUP; l++)
            y[l] = scale * (float)(q[l] >> shift & 3) - min;
    }
}

/* Number G of the sixteen 6-bit scales of q3_k, which are offset by 32. */
static inline int q3_scale(const uint8_t *s, int g)
{
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    return (low | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32;
}

void hk_decode_q3_k(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q3_k *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int g = 0; g < 16; g++, y += GROUP) {
        int shift;
        const uint8_t *q = plane(b->qs, g, &shift), *h = b->qh + g % 2 * 16;
        float scale = d * (float)q3_scale(b->scales, g);
        for (int l = 0; l < GROUP; l++)
            y[l] = scale * (float)((q[l] >> shift & 3) + (h[l] >> g / 2 & 1) * 4 - 4);
    }
}

void hk_decode_q4_k(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q4_k *b = (const void *)block;
    float d = hk_f16(le16(b->d)), dmin = hk_f16(le16(b->dmin));
    uint8_t scale[8], min[8];
    read_k_scales(b->scales, scale, min);
    for (int r = 0; r < 4; r++, y += 64) {
        const uint8_t *q = b->qs + 32 * r;
        float d0 = d * (float)scale[2 * r], m0 = dmin * (float)min[2 * r];
        float d1 = d * (float)scale[2 * r + 1], m1 = dmin * (float)min[2 * r + 1];
        for (int l = 0; l < 32; l++) {
            y[l] = d0 * (float)(q[l] & 15) - m0;
            y[l + 32] = d1 * (float)(q[l] >> 4) - m1;
        }
    }
}

void hk_decode_q5_k(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q5_k *b = (const void *)block;
    float d = hk_f16(le16(b->d)), dmin = hk_f16(le16(b->dmin));
    uint8_t scale[8], min[8];
    read_k_scales(b->scales, scale, min);
    for (int r = 0; r < 4; r++, y += 64) {
        const uint8_t *q = b->qs + 32 * r;
        float d0 = d * (float)scale[2 * r], m0 = dmin * (float)min[2 * r];
        float d1 = d * (float)scale[2 * r + 1], m1 = dmin * (float)min[2 * r + 1];
        for (int l = 0; l < 32; l++) {
            int h = b->qh[l] >> 2 * r;
            y[l] = d0 * (float)((q[l] & 15) | (h & 1) << 4) - m0;
            y[l + 32] = d1 * (float)(q[l] >> 4 | (h & 2) << 3) - m1;
        }
    }
}

void hk_decode_q6_k(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q6_k *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int g = 0; g < 16; g++, y += GROUP) {
        int shift;
        const uint8_t *h = plane(b->qh, g, &shift), *q = b->ql + g / 8 * 64 + g % 4 * 16;
        int nibble = g / 4 % 2 * 4;
        float scale = d * (float)b->scales[g];
        for (int l = 0; l < GROUP; l++)
            y[l] = scale * (float)(((q[l] >> nibble & 15) | (h[l] >> shift & 3) << 4) - 32);
    }
}

void hk_decode_q8_k(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q8_k *b = (const void *)block;
    float d = le_f32(b->d);
    for (int i = 0; i < 256; i++)
        y[i] = d * (float)b->qs[i];
}
