/* Dense types to f32, and which decoder serves a storage type. */
#include "libhkfmt/tensor/dequant.h"

#include "libhkfmt/hkfmt.h"
#include "libhkfmt/tensor/floats.h"

/* ---- dense types ----
 * Loops run in steps of a fixed length over pointers that do not alias, which is what lets both
 * compilers turn them into vector code at -O2. */

enum { STEP = 16 };

void hk_decode_f32(const uint8_t *restrict src, size_t n, float *restrict dst)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        if (n > 0)
            memcpy(dst, src, n * sizeof *dst);
        return;
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = le_f32(src + 4 * i);
}

/* NAME decodes one element of SIZE bytes at p as EXPRESSION. */
#define DENSE(name, size, expression)                                                              \
    static void decode_##name(const uint8_t *restrict src, size_t n, float *restrict dst)          \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + STEP <= n; i += STEP)                                                           \
            for (size_t j = 0; j < STEP; j++) {                                                    \
                const uint8_t *p = src + (size) * (i + j);                                         \
                dst[i + j] = (expression);                                                         \
            }                                                                                      \
        for (; i < n; i++) {                                                                       \
            const uint8_t *p = src + (size)*i;                                                     \
            dst[i] = (expression);                                                                 \
        }                                                                                          \
    }

static void decode_f32(const uint8_t *restrict src, size_t n, float *restrict dst)
{
    hk_decode_f32(src, n, dst);
}

DENSE(f16, 2, hk_f16(le16(p)))
DENSE(bf16, 2, hk_bits_f32((uint32_t)le16(p) << 16))
DENSE(fp8_e4m3, 1, hk_e4m3(*p))
/* E5M2 is the upper byte of a half. */
DENSE(fp8_e5m2, 1, hk_f16((uint32_t)*p << 8))
/* 2^(e-127); the least is subnormal, 255 is NaN. */
DENSE(fp8_e8m0, 1, hk_bits_f32(*p == 0 ? 0x00400000 : *p == 255 ? 0x7fc00000 : (uint32_t)*p << 23))
DENSE(int8, 1, (float)(int8_t)*p)
DENSE(uint8, 1, (float)*p)
DENSE(bool, 1, *p != 0 ? 1.0f : 0.0f)
DENSE(int16, 2, (float)(int16_t)le16(p))
DENSE(uint16, 2, (float)le16(p))
DENSE(int32, 4, (float)(int32_t)le32(p))
DENSE(uint32, 4, (float)le32(p))
DENSE(int64, 8, (float)(int64_t)le64(p))
DENSE(uint64, 8, (float)le64(p))
DENSE(f64, 8, (float)le_f64(p))

#undef DENSE

/* ---- the decoder of a type ---- */

hk_dense_fn *hk_dense_decoder(unsigned type)
{
#define DENSE(SYMBOL, name, ...) [HK_TYPE_##SYMBOL] = decode_##name,
    static hk_dense_fn *const decoders[HK_TYPE_CODES] = {HK_DENSE_TYPES(DENSE)};
#undef DENSE
    return type < HK_TYPE_CODES ? decoders[type] : NULL;
}

hk_block_fn *hk_block_decoder(unsigned type)
{
#define BLOCK(SYMBOL, name, ...) [HK_TYPE_##SYMBOL] = hk_decode_##name,
    static hk_block_fn *const decoders[HK_TYPE_CODES] = {HK_BLOCK_TYPES(BLOCK)};
#undef BLOCK
    return type < HK_TYPE_CODES ? decoders[type] : NULL;
}

bool hk_dequantize(unsigned type, const void *src, size_t n, float *dst)
{
    hk_dense_fn *dense = hk_dense_decoder(type);
    if (dense != NULL) {
        dense(src, n, dst);
        return true;
    }
    hk_block_fn *block = hk_block_decoder(type);
    const struct hk_type_info *info = hk_type_info(type);
    if (block == NULL || info == NULL || n % info->block_elems != 0)
        return false;
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i += info->block_elems, p += info->block_bytes)
        block(p, dst + i);
    return true;
}
