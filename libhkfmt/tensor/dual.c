/* Codes and scales in sections of their own: dq4, dq8, dqt (format-notes 4.3) and the split forms
 * of iq4_nl, mxfp4 and nvfp4 (4.4). Blocks hold whole bytes of codes, so a code's place follows
 * from its number in the flattened tensor alone. */
#include "libhkfmt/tensor/decode.h"
#include "libhkfmt/tensor/tables.h"

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

/* Of block B; half of it where values are doubled. */
static float scale_of(const struct hk_dual *d, uint64_t b)
{
    if (d->type == HK_TYPE_MXFP4)
        return hk_half_e8m0(d->scales[b]);
    if (d->type == HK_TYPE_NVFP4)
        return 0.5f * hk_e4m3(d->scales[b]);
    return le_f32(d->scales + 4 * b);
}

/* What each code stands for under SCALE. */
static void levels(unsigned type, float scale, float level[16])
{
    if (type == HK_TYPE_DQT) { /* minus one is 2 from native writers, 3 from Python's */
        level[0] = 0.0f;
        level[1] = scale;
        level[2] = level[3] = -scale;
        return;
    }
    for (int i = 0; i < 16; i++) {
        float v = type == HK_TYPE_DQ4      ? nf4[i]
                  : type == HK_TYPE_IQ4_NL ? split_iq4[i]
                                           : (float)hk_e2m1_doubled[i];
        level[i] = v * scale;
    }
}

/* Elements I .. I+N-1, all of one block. Lower elements lie in lower bits of a byte. */
static void read_block(const struct hk_dual *d, uint64_t i, size_t n, float scale,
                       float *restrict dst)
{
    const uint8_t *codes = d->codes;
    float level[16];
    if (d->type == HK_TYPE_DQ8) {
        for (size_t j = 0; j < n; j++)
            dst[j] = (float)(int8_t)codes[i + j] * scale;
        return;
    }
    levels(d->type, scale, level);
    if (d->type == HK_TYPE_DQT)
        for (size_t j = 0; j < n; j++, i++)
            dst[j] = level[codes[i / 4] >> i % 4 * 2 & 3];
    else
        for (size_t j = 0; j < n; j++, i++)
            dst[j] = level[codes[i / 2] >> i % 2 * 4 & 15];
}

void hk_dual_read(const struct hk_dual *d, uint64_t first, size_t n, float *dst)
{
    for (size_t done = 0, run; done < n; done += run) {
        uint64_t i = first + done, rest = d->block - i % d->block;
        run = rest < n - done ? (size_t)rest : n - done;
        read_block(d, i, run, scale_of(d, i / d->block), dst + done);
    }
    if (d->residual == NULL)
        return;
    for (size_t j = 0; j < n; j++)
        dst[j] += le_f32(d->residual + 4 * (first + j));
}
