/* Blocks with one scale of their own: q4_0 to q8_1, q1_0, q2_0. */
#include "libhkfmt/tensor/blocks.h"
#include "libhkfmt/tensor/dequant.h"
#include "libhkfmt/tensor/floats.h"

/* Byte j of sixteen holds element j in its low nibble and element j + 16 in its high one. */
static inline void split_nibbles(const uint8_t *restrict qs, int *restrict code)
{
    for (int j = 0; j < 16; j++) {
        code[j] = qs[j] & 15;
        code[j + 16] = qs[j] >> 4;
    }
}

/* Bit i of QH is bit 4 of element i. */
static inline void set_fifth_bits(uint32_t qh, int *restrict code)
{
    for (int j = 0; j < 32; j++)
        code[j] |= (int)(qh >> j & 1) << 4;
}

void hk_decode_q4_0(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q4_0 *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((b->qs[j] & 15) - 8) * d;
        y[j + 16] = (float)((b->qs[j] >> 4) - 8) * d;
    }
}

void hk_decode_q4_1(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q4_1 *b = (const void *)block;
    float d = hk_f16(le16(b->d)), m = hk_f16(le16(b->m));
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(b->qs[j] & 15) * d + m;
        y[j + 16] = (float)(b->qs[j] >> 4) * d + m;
    }
}

void hk_decode_q5_0(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q5_0 *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    int code[32];
    split_nibbles(b->qs, code);
    set_fifth_bits(le32(b->qh), code);
    for (int j = 0; j < 32; j++)
        y[j] = (float)(code[j] - 16) * d;
}

void hk_decode_q5_1(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q5_1 *b = (const void *)block;
    float d = hk_f16(le16(b->d)), m = hk_f16(le16(b->m));
    int code[32];
    split_nibbles(b->qs, code);
    set_fifth_bits(le32(b->qh), code);
    for (int j = 0; j < 32; j++)
        y[j] = (float)code[j] * d + m;
}

static inline void bytes_times(const int8_t *restrict qs, float d, float *restrict y)
{
    for (int j = 0; j < 32; j++)
        y[j] = (float)qs[j] * d;
}

void hk_decode_q8_0(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q8_0 *b = (const void *)block;
    bytes_times(b->qs, hk_f16(le16(b->d)), y);
}

void hk_decode_q8_1(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q8_1 *b = (const void *)block;
    bytes_times(b->qs, hk_f16(le16(b->d)), y);
}

void hk_decode_q1_0(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q1_0 *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int i = 0; i < 128; i++)
        y[i] = b->bits[i / 8] >> i % 8 & 1 ? d : -d;
}

void hk_decode_q2_0(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_q2_0 *b = (const void *)block;
    float d = hk_f16(le16(b->d));
    for (int i = 0; i < 64; i++)
        y[i] = (float)((b->qs[i / 4] >> 2 * (i % 4) & 3) - 1) * d;
}
