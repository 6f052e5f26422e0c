/* The storage types, one row each. Every table of types in libhkfmt, kernels and their tests is
 * made of these rows; types.c checks them against enum hk_type of hkfmt.h. kernels/README.md says
 * what else a new type needs.
 *
 * Columns: SYMBOL as in HK_TYPE_SYMBOL; the type's name, which is also part of the names of its
 * struct in blocks.h (hk_q4_0), its decoder (hk_decode_q4_0) and its unpacker (unpack_q4_0); its
 * code in a .hk, above 0xff for types that a .hk cannot hold; its number in GGUF, -1 for none; its
 * dtype in safetensors, NULL for none.
 *
 * KERNEL is the form of a type's product (kernels/generic/matmul.h):
 *   NONE       no kernels
 *   FLOAT      elements are floats, multiplied by activations in f32
 *   SMALL      blocks of 32 with one scale, by int8 activations in blocks of 32
 *   SMALL_MIN  the same with a minimum
 *   SMALL_16   the same with a scale for each 16
 *   SUPER      blocks of 256 with scales for groups of 16, by int8 activations in blocks of 256
 *   SUPER_MIN  the same with minimums
 */
#ifndef HK_TYPE_LIST_H
#define HK_TYPE_LIST_H

enum { HK_TYPE_CODES = 0x200 }; /* above every code */

/* clang-format off */

/* Elements one after the other: X(SYMBOL, name, code, gguf, dtype, bytes, KERNEL) */
#define HK_DENSE_TYPES(X)                                      \
    X(F32,      f32,      0x00,  0, "F32",     4, FLOAT)       \
    X(F16,      f16,      0x01,  1, "F16",     2, FLOAT)       \
    X(BF16,     bf16,     0x02, 30, "BF16",    2, FLOAT)       \
    X(FP8_E4M3, fp8_e4m3, 0x03, -1, "F8_E4M3", 1, NONE)        \
    X(FP8_E5M2, fp8_e5m2, 0x04, -1, "F8_E5M2", 1, NONE)        \
    X(INT8,     int8,     0x05, 24, "I8",      1, NONE)        \
    X(INT32,    int32,    0x06, 26, "I32",     4, NONE)        \
    X(INT64,    int64,    0x07, 27, "I64",     8, NONE)        \
    X(UINT8,    uint8,    0x08, -1, "U8",      1, NONE)        \
    X(BOOL,     bool,     0x09, -1, "BOOL",    1, NONE)        \
    X(INT16,    int16,    0x0a, 25, "I16",     2, NONE)        \
    X(UINT16,   uint16,   0x0b, -1, "U16",     2, NONE)        \
    X(UINT32,   uint32,   0x0c, -1, "U32",     4, NONE)        \
    X(UINT64,   uint64,   0x0d, -1, "U64",     8, NONE)        \
    X(F64,      f64,      0x0e, 28, "F64",     8, NONE)        \
    X(FP8_E8M0, fp8_e8m0, 0x180, -1, "F8_E8M0", 1, NONE)

/* Blocks of a struct in blocks.h, which has their bytes:
 * X(SYMBOL, name, code, gguf, elements, KERNEL, halves, scale, minimum, codes)
 * HALVES is how many f16 a block has: 1 is its field SCALE, 2 also MINIMUM, 0 that its scale is
 * stored in another way. CODES is the field with the codes, or their lower bits. */
#define HK_BLOCK_TYPES(X)                                                     \
    X(Q4_0,    q4_0,    0x15,       2,  32, SMALL,     1, d, d, qs)           \
    X(Q8_0,    q8_0,    0x16,       8,  32, SMALL,     1, d, d, qs)           \
    X(Q4_1,    q4_1,    0x17,       3,  32, SMALL_MIN, 2, d, m, qs)           \
    X(Q5_0,    q5_0,    0x18,       6,  32, SMALL,     1, d, d, qs)           \
    X(Q5_1,    q5_1,    0x19,       7,  32, SMALL_MIN, 2, d, m, qs)           \
    X(Q8_1,    q8_1,    0x1a,       9,  32, NONE,      2, d, s, qs)           \
    X(Q2_K,    q2_k,    0x40,      10, 256, SUPER_MIN, 2, d, dmin, qs)        \
    X(Q3_K,    q3_k,    0x41,      11, 256, SUPER,     1, d, d, qs)           \
    X(Q4_K,    q4_k,    0x42,      12, 256, SUPER_MIN, 2, d, dmin, qs)        \
    X(Q5_K,    q5_k,    0x43,      13, 256, SUPER_MIN, 2, d, dmin, qs)        \
    X(Q6_K,    q6_k,    0x44,      14, 256, SUPER,     1, d, d, ql)           \
    X(Q8_K,    q8_k,    0x45,      15, 256, NONE,      0, d, d, qs)           \
    X(IQ1_S,   iq1_s,   0x50,      19, 256, SUPER,     1, d, d, qs)           \
    X(IQ1_M,   iq1_m,   0x51,      29, 256, SUPER,     0, scales, scales, qs) \
    X(IQ2_XXS, iq2_xxs, 0x52,      16, 256, SUPER,     1, d, d, group)        \
    X(IQ2_XS,  iq2_xs,  0x53,      17, 256, SUPER,     1, d, d, qs)           \
    X(IQ3_XXS, iq3_xxs, 0x54,      18, 256, SUPER,     1, d, d, qs)           \
    X(IQ4_NL,  iq4_nl,  0x55,      20,  32, SMALL,     1, d, d, qs)           \
    X(IQ4_XS,  iq4_xs,  0x56,      23, 256, SUPER,     1, d, d, qs)           \
    X(IQ2_S,   iq2_s,   0x57,      22, 256, SUPER,     1, d, d, qs)           \
    X(IQ3_S,   iq3_s,   0x58,      21, 256, SUPER,     1, d, d, qs)           \
    X(TQ1_0,   tq1_0,   0x60,      34, 256, SUPER,     1, d, d, qs)           \
    X(TQ2_0,   tq2_0,   0x61,      35, 256, SUPER,     1, d, d, qs)           \
    X(MXFP4,   mxfp4,   0x62,      39,  32, SMALL,     0, e, e, qs)           \
    X(NVFP4,   nvfp4,   0x63,      40,  64, SMALL_16,  0, d, d, qs)           \
    X(Q1_0,    q1_0,    0x100 + 41, 41, 128, NONE,     1, d, d, bits)         \
    X(Q2_0,    q2_0,    0x100 + 42, 42,  64, NONE,     1, d, d, qs)

/* Forms of their own, and types that are not decoded:
 * X(SYMBOL, name, code, CLASS, dtype, elements, bytes), the last two 0 where they are not fixed. */
#define HK_OTHER_TYPES(X)                                                     \
    X(DQ4,            dq4,            0x10,  DUAL,   NULL,          0, 0)     \
    X(DQ8,            dq8,            0x11,  DUAL,   NULL,          0, 0)     \
    X(DQ6,            dq6,            0x12,  OPAQUE, NULL,          0, 0)     \
    X(DQ12,           dq12,           0x13,  OPAQUE, NULL,          0, 0)     \
    X(DQT,            dqt,            0x14,  DUAL,   NULL,          0, 0)     \
    X(SPARSE_F16,     sparse_f16,     0x20,  SPARSE, NULL,          0, 0)     \
    X(SPARSE_DQ8,     sparse_dq8,     0x21,  OPAQUE, NULL,          0, 0)     \
    X(SPARSE_2_4,     sparse_2_4,     0x22,  SPARSE, NULL,          0, 0)     \
    X(SPARSE_DQ4_2_4, sparse_dq4_2_4, 0x23,  OPAQUE, NULL,          0, 0)     \
    X(NULL_REF,       null_ref,       0x30,  REF,    NULL,          0, 0)     \
    X(SHARED_REF,     shared_ref,     0x31,  REF,    NULL,          0, 0)     \
    X(LORA_REF,       lora_ref,       0x32,  OPAQUE, NULL,          0, 0)     \
    X(FP8_E4M3FNUZ,   fp8_e4m3fnuz,   0x181, OPAQUE, "F8_E4M3FNUZ", 1, 1)     \
    X(FP8_E5M2FNUZ,   fp8_e5m2fnuz,   0x182, OPAQUE, "F8_E5M2FNUZ", 1, 1)     \
    X(FP6_E2M3,       fp6_e2m3,       0x183, OPAQUE, "F6_E2M3",     4, 3)     \
    X(FP6_E3M2,       fp6_e3m2,       0x184, OPAQUE, "F6_E3M2",     4, 3)     \
    X(FP4_E2M1,       fp4_e2m1,       0x185, OPAQUE, "F4",          2, 1)     \
    X(COMPLEX64,      complex64,      0x186, OPAQUE, "C64",         1, 8)

/* clang-format on */

#endif
