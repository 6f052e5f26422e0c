/* What the types are made of, and where activations lie in memory. */
#include "kernels/kernels.h"
#include "libhkfmt/tensor/blocks.h"

struct type_info {
    uint8_t kind;
    uint16_t elems, bytes; /* of a block */
};

/* The activations of a form of product (type_list.h). */
enum {
    ACTS_NONE = HKK_KIND_NONE,
    ACTS_FLOAT = HKK_KIND_F32,
    ACTS_SMALL = HKK_KIND_Q8_32,
    ACTS_SMALL_MIN = HKK_KIND_Q8_32,
    ACTS_SMALL_16 = HKK_KIND_Q8_32,
    ACTS_SUPER = HKK_KIND_Q8_256,
    ACTS_SUPER_MIN = HKK_KIND_Q8_256,
};

#define DENSE(SYMBOL, name, code, gguf, dtype, bytes, KERNEL)                                      \
    [HKK_##SYMBOL] = {ACTS_##KERNEL, 1, bytes},
#define BLOCK(SYMBOL, name, code, gguf, elems, KERNEL, ...)                                        \
    [HKK_##SYMBOL] = {ACTS_##KERNEL, elems, sizeof(struct hk_##name)},

static const struct type_info types[HKK_TYPES] = {HK_DENSE_TYPES(DENSE) HK_BLOCK_TYPES(BLOCK)};

#undef DENSE
#undef BLOCK

enum hkk_kind hkk_kind_of(unsigned type)
{
    return type < HKK_TYPES ? (enum hkk_kind)types[type].kind : HKK_KIND_NONE;
}

size_t hkk_block_elems(unsigned type)
{
    return hkk_kind_of(type) == HKK_KIND_NONE ? 0 : types[type].elems;
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
