/* Codes and scales in sections of their own: dq4, dq8, dqt (format-notes 4.3) and the split forms
 * of iq4_nl, mxfp4 and nvfp4 (4.4). Blocks hold whole bytes of codes, so a code's place follows
 * from its number in the flattened tensor alone. */
#include "libhkfmt/decode.h"
#include "libhkfmt/tables.h"

static const float nf4[16] = {
    -1.0f,      -0.6961928f, -0.5250731f, -0.3949175f, -0.2844414f, -0.1847734f, -0.0910500f, 0.0f,
    0.0795803f, 0.1609302f,  0.2461123f,  0.3379152f,  0.4407098f,  0.5626170f,  0.7229568f,  1.0f,
};

/* The values of split iq4_nl, which are not those of its blocks. */
static const float split_iq4[16] = {
    -1.0f,       -0.7903226f, -0.6129032f, -0.4677419f, -0.3387097f, -0.2258065f,
    -0.1290323f, -0.0483871f, 0.0483871f,  0.1290323f,  0.2258065f,  0.3387097f,
    0.4677419f,  0.6129032f,  0.7903226f,  1.0f,
};

/* Two neighbours a byte, the even one in the low nibble. */
static unsigned nibble(const uint8_t *codes, uint64_t i)
{
    return (unsigned)codes[i / 2] >> i % 2 * 4 & 15;
}

static float value(const struct hk_dual *d, uint64_t i, float scale)
{
    switch (d->type) {
    case HK_TYPE_DQ4:
        return nf4[nibble(d->codes, i)] * scale;
    case HK_TYPE_DQ8:
        return (float)(int8_t)d->codes[i] * scale;
    case HK_TYPE_IQ4_NL:
        return split_iq4[nibble(d->codes, i)] * scale;
    case HK_TYPE_MXFP4:
    case HK_TYPE_NVFP4:
        return (float)hk_e2m1_doubled[nibble(d->codes, i)] * scale;
    default: /* dqt: minus one is 2 from native writers, 3 from Python's */
        switch (d->codes[i / 4] >> i % 4 * 2 & 3) {
        case 0:
            return 0.0f;
        case 1:
            return scale;
        default:
            return -scale;
        }
    }
}

/* Of block B; half of it where values are doubled. */
static float scale_of(const struct hk_dual *d, uint64_t b)
{
    if (d->type == HK_TYPE_MXFP4)
        return hk_half_e8m0(d->scales[b]);
    if (d->type == HK_TYPE_NVFP4)
        return 0.5f * hk_e4m3(d->scales[b]);
    return le_f32(d->scales + 4 * b);
}

void hk_dual_read(const struct hk_dual *d, uint64_t first, size_t n, float *dst)
{
    for (uint64_t i = first, end = first + n; i < end;) {
        uint64_t b = i / d->block, stop = (b + 1) * d->block;
        float scale = scale_of(d, b);
        for (; i < end && i < stop; i++)
            *dst++ = value(d, i, scale);
    }
    if (d->residual == NULL)
        return;
    dst -= n;
    for (size_t j = 0; j < n; j++)
        dst[j] += le_f32(d->residual + 4 * (first + j));
}
