/* Ternary blocks (tq1_0, tq2_0) and four-bit floats with shared scales (mxfp4, nvfp4). */
#include "libhkfmt/tensor/blocks.h"
#include "libhkfmt/tensor/dequant.h"
#include "libhkfmt/tensor/floats.h"
#include "libhkfmt/tensor/tables.h"

/* DIGITS base-3 digits of each of N bytes, most significant first: all first digits, then all
 * second ones. A byte is a fraction of 256; times three, its next digit is what carries over. */
static inline float *decode_ternary(const uint8_t *restrict q, int n, int digits, float d,
                                    float *restrict y)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    for (int k = 0; k < digits; k++)
        for (int j = 0; j < n; j++) {
            int rest = (q[j] * power[k]) & 255;
            *y++ = (float)((rest * 3 >> 8) - 1) * d;
        }
    return y;
}

void hk_decode_tq1_0(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_tq1_0 *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    y = decode_ternary(b->qs, 32, 5, d, y);
    y = decode_ternary(b->qs + 32, 16, 5, d, y);
    decode_ternary(b->qh, 4, 4, d, y);
}

void hk_decode_tq2_0(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_tq2_0 *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int g = 0; g < 8; g++, y += 32) {
        const uint8_t *q = b->qs + g / 4 * 32;
        int shift = g % 4 * 2;
        for (int j = 0; j < 32; j++)
            y[j] = (float)((q[j] >> shift & 3) - 1) * d;
    }
}

static inline void e2m1(const uint8_t *restrict qs, int n, float half_scale, float *restrict y)
{
    for (int j = 0; j < n; j++) {
        y[j] = (float)hk_e2m1_doubled[qs[j] & 15] * half_scale;
        y[j + n] = (float)hk_e2m1_doubled[qs[j] >> 4] * half_scale;
    }
}

void hk_decode_mxfp4(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_mxfp4 *b = (const void *)block;
    e2m1(b->qs, 16, hk_half_e8m0(b->e), y);
}

/* Scales are E4M3 without a sign: its bit is ignored, but for 0xff, which then is not the NaN code
 * that counts as 0. */
static inline float nvfp4_half_scale(unsigned c)
{
    return c == 0x7f ? 0.0f : c == 0xff ? 240.0f : 0.5f * hk_e4m3(c & 0x7f);
}

void hk_decode_nvfp4(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_nvfp4 *b = (const void *)block;
    for (int g = 0; g < 4; g++)
        e2m1(b->qs + 8 * g, 8, nvfp4_half_scale(b->d[g]), y + 16 * g);
}
