/* Blocks of 32 to signed bytes of a panel's row. */
#ifndef HKK_ARM_CODES_SMALL_H
#define HKK_ARM_CODES_SMALL_H

#include "kernels/arm/panel.h"
#include "kernels/bits.h"
#include "libhkfmt/tensor/blocks.h"
#include "libhkfmt/tensor/tables.h"

ALWAYS float half_at(const uint8_t *p)
{
    uint16x4_t bits = vdup_n_u16((uint16_t)load_le16(p));
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(bits)), 0);
}

ALWAYS uint8x16_t low_nibbles(uint8x16_t x)
{
    return vandq_u8(x, vdupq_n_u8(15));
}

ALWAYS int8x16_t less_offset(uint8x16_t code, int offset)
{
    return vsubq_s8(vreinterpretq_s8_u8(code), vdupq_n_s8((int8_t)offset));
}

/* Sixteen bytes: low nibbles, then high ones. */
ALWAYS void put_nibbles(int8_t *to, const uint8_t *qs, int offset)
{
    uint8x16_t x = vld1q_u8(qs);
    put_16(to, 0, less_offset(low_nibbles(x), offset));
    put_16(to, 1, less_offset(vshrq_n_u8(x, 4), offset));
}

/* Nibbles that index a table. */
ALWAYS void put_table_values(int8_t *to, const uint8_t *qs, const int8_t *table)
{
    int8x16_t values = vld1q_s8(table);
    uint8x16_t x = vld1q_u8(qs);
    put_16(to, 0, vqtbl1q_s8(values, low_nibbles(x)));
    put_16(to, 1, vqtbl1q_s8(values, vshrq_n_u8(x, 4)));
}

/* All ones in byte i where bit i of two bytes is set. */
ALWAYS uint8x16_t bit_masks_neon(unsigned first, unsigned second)
{
    static const uint8_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    uint8x8_t b = vld1_u8(bit);
    return vcombine_u8(vtst_u8(vdup_n_u8((uint8_t)first), b),
                       vtst_u8(vdup_n_u8((uint8_t)second), b));
}

ALWAYS void put_five_bits(int8_t *to, const uint8_t *qs, const uint8_t *qh, int offset)
{
    const uint8x16_t sixteen = vdupq_n_u8(16);
    uint8x16_t x = vld1q_u8(qs);
    uint8x16_t low = vandq_u8(bit_masks_neon(qh[0], qh[1]), sixteen);
    uint8x16_t high = vandq_u8(bit_masks_neon(qh[2], qh[3]), sixteen);
    put_16(to, 0, less_offset(vorrq_u8(low_nibbles(x), low), offset));
    put_16(to, 1, less_offset(vorrq_u8(vshrq_n_u8(x, 4), high), offset));
}

ALWAYS void values_q4_0(const uint8_t *block, int8_t *to)
{
    put_nibbles(to, ((const struct hk_q4_0 *)(const void *)block)->qs, 8);
}

ALWAYS void values_q4_1(const uint8_t *block, int8_t *to)
{
    put_nibbles(to, ((const struct hk_q4_1 *)(const void *)block)->qs, 0);
}

ALWAYS void values_q5_0(const uint8_t *block, int8_t *to)
{
    const struct hk_q5_0 *b = (const void *)block;
    put_five_bits(to, b->qs, b->qh, 16);
}

ALWAYS void values_q5_1(const uint8_t *block, int8_t *to)
{
    const struct hk_q5_1 *b = (const void *)block;
    put_five_bits(to, b->qs, b->qh, 0);
}

ALWAYS void values_q8_0(const uint8_t *block, int8_t *to)
{
    const struct hk_q8_0 *b = (const void *)block;
    put_16(to, 0, vld1q_s8(b->qs));
    put_16(to, 1, vld1q_s8(b->qs + 16));
}

ALWAYS void values_iq4_nl(const uint8_t *block, int8_t *to)
{
    put_table_values(to, ((const struct hk_iq4_nl *)(const void *)block)->qs, hk_iq4_nl_values);
}

ALWAYS void values_mxfp4(const uint8_t *block, int8_t *to)
{
    put_table_values(to, ((const struct hk_mxfp4 *)(const void *)block)->qs, hk_e2m1_doubled);
}

/* BLOCK is a block of nvfp4 moved on by 16 for the second 32 elements. Eight bytes have the low and
 * the high nibbles of 16 elements. */
ALWAYS void values_nvfp4(const uint8_t *block, int8_t *to)
{
    int8x16_t values = vld1q_s8(hk_e2m1_doubled);
    uint8x16_t x = vld1q_u8(((const struct hk_nvfp4 *)(const void *)block)->qs);
    uint8x16_t low = low_nibbles(x), high = vshrq_n_u8(x, 4);
    uint8x16_t first = vcombine_u8(vget_low_u8(low), vget_low_u8(high));
    uint8x16_t second = vcombine_u8(vget_high_u8(low), vget_high_u8(high));
    put_16(to, 0, vqtbl1q_s8(values, first));
    put_16(to, 1, vqtbl1q_s8(values, second));
}

#endif
