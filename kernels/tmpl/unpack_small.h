/* Blocks of 32 with one scale, and a pair of 16s with a scale each (nvfp4), as int8 values.
 * Portable. Layouts: libhkfmt/tensor/blocks.h; values: the decoders of libhkfmt. */
#ifndef HKK_UNPACK_SMALL_H
#define HKK_UNPACK_SMALL_H

#include "kernels/bits.h"
#include "libhkfmt/tensor/blocks.h"
#include "libhkfmt/tensor/tables.h"

/* Weight i is d * v[i] + m; of nvfp4, d * v[i] for the first 16 and m * v[i] for the others. */
struct small {
    float d, m;
    int8_t v[32];
};

/* Byte j of sixteen holds element j in its low nibble and element j + 16 in its high one. */
static inline void unpack_nibbles(int8_t v[32], const uint8_t *qs, int offset)
{
    for (int j = 0; j < 16; j++) {
        v[j] = (int8_t)((qs[j] & 15) - offset);
        v[j + 16] = (int8_t)((qs[j] >> 4) - offset);
    }
}

static inline void unpack_fifth_bits(int8_t v[32], uint32_t qh)
{
    for (int j = 0; j < 32; j++)
        v[j] = (int8_t)(v[j] + (int)(qh >> j & 1) * 16);
}

static inline void unpack_q4_0(const uint8_t *block, struct small *s)
{
    const struct hk_q4_0 *b = (const void *)block;
    s->d = le_half(b->d);
    unpack_nibbles(s->v, b->qs, 8);
}

static inline void unpack_q4_1(const uint8_t *block, struct small *s)
{
    const struct hk_q4_1 *b = (const void *)block;
    s->d = le_half(b->d);
    s->m = le_half(b->m);
    unpack_nibbles(s->v, b->qs, 0);
}

static inline void unpack_q5_0(const uint8_t *block, struct small *s)
{
    const struct hk_q5_0 *b = (const void *)block;
    s->d = le_half(b->d);
    unpack_nibbles(s->v, b->qs, 16);
    unpack_fifth_bits(s->v, load_le32(b->qh));
}

static inline void unpack_q5_1(const uint8_t *block, struct small *s)
{
    const struct hk_q5_1 *b = (const void *)block;
    s->d = le_half(b->d);
    s->m = le_half(b->m);
    unpack_nibbles(s->v, b->qs, 0);
    unpack_fifth_bits(s->v, load_le32(b->qh));
}

static inline void unpack_q8_0(const uint8_t *block, struct small *s)
{
    const struct hk_q8_0 *b = (const void *)block;
    s->d = le_half(b->d);
    memcpy(s->v, b->qs, sizeof b->qs);
}

/* N bytes whose nibbles index VALUES: the low ones are elements 0..N-1, the high ones the next. */
static inline void nibble_values(int8_t *v, const uint8_t *qs, int n, const int8_t values[16])
{
    for (int j = 0; j < n; j++) {
        v[j] = values[qs[j] & 15];
        v[j + n] = values[qs[j] >> 4];
    }
}

static inline void unpack_iq4_nl(const uint8_t *block, struct small *s)
{
    const struct hk_iq4_nl *b = (const void *)block;
    s->d = le_half(b->d);
    nibble_values(s->v, b->qs, 16, hk_iq4_nl_values);
}

static inline void unpack_mxfp4(const uint8_t *block, struct small *s)
{
    const struct hk_mxfp4 *b = (const void *)block;
    s->d = half_e8m0(b->e);
    nibble_values(s->v, b->qs, 16, hk_e2m1_doubled);
}

/* One block of 64 is two of S. */
static inline void unpack_nvfp4(const uint8_t *block, struct small *s)
{
    const struct hk_nvfp4 *b = (const void *)block;
    for (int h = 0; h < 2; h++) {
        s[h].d = half_e4m3(b->d[2 * h]);
        s[h].m = half_e4m3(b->d[2 * h + 1]);
        nibble_values(s[h].v, b->qs + 16 * h, 8, hk_e2m1_doubled);
        nibble_values(s[h].v + 16, b->qs + 16 * h + 8, 8, hk_e2m1_doubled);
    }
}

#endif
