/* What the types are made of, and where activations lie in memory. */
#include "kernels/kernels.h"
#include "libhkfmt/tensor/blocks.h"

struct type_info {
    uint8_t kind;
    uint16_t elems, bytes; /* of a block */
};

#define SMALL(name)                                                                                \
    {                                                                                              \
        HKK_KIND_Q8_32, 32, sizeof(struct hk_##name)                                               \
    }
#define SUPER(name)                                                                                \
    {                                                                                              \
        HKK_KIND_Q8_256, 256, sizeof(struct hk_##name)                                             \
    }

static const struct type_info types[HKK_TYPES] = {
    [HKK_F32] = {HKK_KIND_F32, 1, 4},
    [HKK_F16] = {HKK_KIND_F32, 1, 2},
    [HKK_BF16] = {HKK_KIND_F32, 1, 2},
    [HKK_Q4_0] = SMALL(q4_0),
    [HKK_Q4_1] = SMALL(q4_1),
    [HKK_Q5_0] = SMALL(q5_0),
    [HKK_Q5_1] = SMALL(q5_1),
    [HKK_Q8_0] = SMALL(q8_0),
    [HKK_IQ4_NL] = SMALL(iq4_nl),
    [HKK_MXFP4] = SMALL(mxfp4),
    [HKK_NVFP4] = {HKK_KIND_Q8_32, 64, sizeof(struct hk_nvfp4)},
    [HKK_Q2_K] = SUPER(q2_k),
    [HKK_Q3_K] = SUPER(q3_k),
    [HKK_Q4_K] = SUPER(q4_k),
    [HKK_Q5_K] = SUPER(q5_k),
    [HKK_Q6_K] = SUPER(q6_k),
    [HKK_IQ1_S] = SUPER(iq1_s),
    [HKK_IQ1_M] = SUPER(iq1_m),
    [HKK_IQ2_XXS] = SUPER(iq2_xxs),
    [HKK_IQ2_XS] = SUPER(iq2_xs),
    [HKK_IQ2_S] = SUPER(iq2_s),
    [HKK_IQ3_XXS] = SUPER(iq3_xxs),
    [HKK_IQ3_S] = SUPER(iq3_s),
    [HKK_IQ4_XS] = SUPER(iq4_xs),
    [HKK_TQ1_0] = SUPER(tq1_0),
    [HKK_TQ2_0] = SUPER(tq2_0),
};

enum hkk_kind hkk_kind_of(unsigned type)
{
    return type < HKK_TYPES ? (enum hkk_kind)types[type].kind : HKK_KIND_NONE;
}

size_t hkk_block_elems(unsigned type)
{
    return type < HKK_TYPES ? types[type].elems : 0;
}

size_t hkk_row_bytes(unsigned type, size_t cols)
{
    return hkk_kind_of(type) == HKK_KIND_NONE ? 0 : cols / types[type].elems * types[type].bytes;
}

static size_t aligned(size_t bytes)
{
    return (bytes + HKK_ALIGN - 1) / HKK_ALIGN * HKK_ALIGN;
}

/* The counts of KIND, and no arrays. */
static struct hkk_acts shape(enum hkk_kind kind, size_t n, size_t cols)
{
    struct hkk_acts a = {.kind = kind, .n = n, .cols = cols};
    if (kind == HKK_KIND_Q8_32)
        a.blocks = a.sums = cols / 32;
    if (kind == HKK_KIND_Q8_256) {
        a.blocks = cols / 256;
        a.sums = cols / 16;
    }
    return a;
}

size_t hkk_acts_bytes(enum hkk_kind kind, size_t n, size_t cols)
{
    struct hkk_acts a = shape(kind, n, cols);
    if (a.blocks == 0)
        return 0;
    return aligned(n * cols) + aligned(n * a.blocks * sizeof *a.d) +
           aligned(n * a.sums * sizeof *a.sum);
}

void hkk_acts_place(struct hkk_acts *a, enum hkk_kind kind, const float *x, size_t n, size_t cols,
                    void *memory)
{
    *a = shape(kind, n, cols);
    a->x = x;
    if (a->blocks == 0)
        return;
    char *at = memory;
    a->q = (int8_t *)at;
    at += aligned(n * cols);
    a->d = (void *)at;
    at += aligned(n * a->blocks * sizeof *a->d);
    a->sum = (void *)at;
}

/* Scores of HKK_QUERIES queries, the sum of one that is not there, and keys or values of four tiles
 * in f32, of a value at least the 8192 numbers that are widened together. */
size_t hkk_attend_scratch_bytes(size_t key_dim, size_t value_dim)
{
    size_t dims = (value_dim + HKK_TILE - 1) / HKK_TILE * HKK_TILE, wide = 4 * HKK_TILE * key_dim;
    wide = wide > 8192 ? wide : 8192;
    return aligned(((size_t)HKK_QUERIES * HKK_SEGMENT + dims + wide) * sizeof(float));
}
