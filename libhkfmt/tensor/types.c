/* The codes of the format and what is known of each. */
#include <string.h>

#include "libhkfmt/hkfmt.h"

#define NAME_OF(table, i) ((i) < sizeof(table) / sizeof *(table) ? (table)[i] : NULL)

/* clang-format off */
static const struct hk_type_info types[] = {
    /* type                  class            ggml  name            elems bytes */
    {HK_TYPE_F32,            HK_CLASS_DENSE,    0, "f32",             1,   4},
    {HK_TYPE_F16,            HK_CLASS_DENSE,    1, "f16",             1,   2},
    {HK_TYPE_BF16,           HK_CLASS_DENSE,   30, "bf16",            1,   2},
    {HK_TYPE_FP8_E4M3,       HK_CLASS_DENSE,   -1, "fp8_e4m3",        1,   1},
    {HK_TYPE_FP8_E5M2,       HK_CLASS_DENSE,   -1, "fp8_e5m2",        1,   1},
    {HK_TYPE_INT8,           HK_CLASS_DENSE,   24, "int8",            1,   1},
    {HK_TYPE_INT32,          HK_CLASS_DENSE,   26, "int32",           1,   4},
    {HK_TYPE_INT64,          HK_CLASS_DENSE,   27, "int64",           1,   8},
    {HK_TYPE_UINT8,          HK_CLASS_DENSE,   -1, "uint8",           1,   1},
    {HK_TYPE_BOOL,           HK_CLASS_DENSE,   -1, "bool",            1,   1},
    {HK_TYPE_INT16,          HK_CLASS_DENSE,   25, "int16",           1,   2},
    {HK_TYPE_UINT16,         HK_CLASS_DENSE,   -1, "uint16",          1,   2},
    {HK_TYPE_UINT32,         HK_CLASS_DENSE,   -1, "uint32",          1,   4},
    {HK_TYPE_UINT64,         HK_CLASS_DENSE,   -1, "uint64",          1,   8},
    {HK_TYPE_F64,            HK_CLASS_DENSE,   28, "f64",             1,   8},
    {HK_TYPE_DQ4,            HK_CLASS_DUAL,    -1, "dq4",             0,   0},
    {HK_TYPE_DQ8,            HK_CLASS_DUAL,    -1, "dq8",             0,   0},
    {HK_TYPE_DQ6,            HK_CLASS_OPAQUE,  -1, "dq6",             0,   0},
    {HK_TYPE_DQ12,           HK_CLASS_OPAQUE,  -1, "dq12",            0,   0},
    {HK_TYPE_DQT,            HK_CLASS_DUAL,    -1, "dqt",             0,   0},
    {HK_TYPE_Q4_0,           HK_CLASS_BLOCK,    2, "q4_0",           32,  18},
    {HK_TYPE_Q8_0,           HK_CLASS_BLOCK,    8, "q8_0",           32,  34},
    {HK_TYPE_Q4_1,           HK_CLASS_BLOCK,    3, "q4_1",           32,  20},
    {HK_TYPE_Q5_0,           HK_CLASS_BLOCK,    6, "q5_0",           32,  22},
    {HK_TYPE_Q5_1,           HK_CLASS_BLOCK,    7, "q5_1",           32,  24},
    {HK_TYPE_Q8_1,           HK_CLASS_BLOCK,    9, "q8_1",           32,  36},
    {HK_TYPE_SPARSE_F16,     HK_CLASS_SPARSE,  -1, "sparse_f16",      0,   0},
    {HK_TYPE_SPARSE_DQ8,     HK_CLASS_OPAQUE,  -1, "sparse_dq8",      0,   0},
    {HK_TYPE_SPARSE_2_4,     HK_CLASS_SPARSE,  -1, "sparse_2_4",      0,   0},
    {HK_TYPE_SPARSE_DQ4_2_4, HK_CLASS_OPAQUE,  -1, "sparse_dq4_2_4",  0,   0},
    {HK_TYPE_NULL_REF,       HK_CLASS_REF,     -1, "null_ref",        0,   0},
    {HK_TYPE_SHARED_REF,     HK_CLASS_REF,     -1, "shared_ref",      0,   0},
    {HK_TYPE_LORA_REF,       HK_CLASS_OPAQUE,  -1, "lora_ref",        0,   0},
    {HK_TYPE_Q2_K,           HK_CLASS_BLOCK,   10, "q2_k",          256,  84},
    {HK_TYPE_Q3_K,           HK_CLASS_BLOCK,   11, "q3_k",          256, 110},
    {HK_TYPE_Q4_K,           HK_CLASS_BLOCK,   12, "q4_k",          256, 144},
    {HK_TYPE_Q5_K,           HK_CLASS_BLOCK,   13, "q5_k",          256, 176},
    {HK_TYPE_Q6_K,           HK_CLASS_BLOCK,   14, "q6_k",          256, 210},
    {HK_TYPE_Q8_K,           HK_CLASS_BLOCK,   15, "q8_k",          256, 292},
    {HK_TYPE_IQ1_S,          HK_CLASS_BLOCK,   19, "iq1_s",         256,  50},
    {HK_TYPE_IQ1_M,          HK_CLASS_BLOCK,   29, "iq1_m",         256,  56},
    {HK_TYPE_IQ2_XXS,        HK_CLASS_BLOCK,   16, "iq2_xxs",       256,  66},
    {HK_TYPE_IQ2_XS,         HK_CLASS_BLOCK,   17, "iq2_xs",        256,  74},
    {HK_TYPE_IQ3_XXS,        HK_CLASS_BLOCK,   18, "iq3_xxs",       256,  98},
    {HK_TYPE_IQ4_NL,         HK_CLASS_BLOCK,   20, "iq4_nl",         32,  18},
    {HK_TYPE_IQ4_XS,         HK_CLASS_BLOCK,   23, "iq4_xs",        256, 136},
    {HK_TYPE_IQ2_S,          HK_CLASS_BLOCK,   22, "iq2_s",         256,  82},
    {HK_TYPE_IQ3_S,          HK_CLASS_BLOCK,   21, "iq3_s",         256, 110},
    {HK_TYPE_TQ1_0,          HK_CLASS_BLOCK,   34, "tq1_0",         256,  54},
    {HK_TYPE_TQ2_0,          HK_CLASS_BLOCK,   35, "tq2_0",         256,  66},
    {HK_TYPE_MXFP4,          HK_CLASS_BLOCK,   39, "mxfp4",          32,  17},
    {HK_TYPE_NVFP4,          HK_CLASS_BLOCK,   40, "nvfp4",          64,  36},
    {HK_TYPE_Q1_0,           HK_CLASS_BLOCK,   41, "q1_0",          128,  18},
    {HK_TYPE_Q2_0,           HK_CLASS_BLOCK,   42, "q2_0",           64,  18},
    {HK_TYPE_FP8_E8M0,       HK_CLASS_DENSE,   -1, "fp8_e8m0",        1,   1},
    {HK_TYPE_FP8_E4M3FNUZ,   HK_CLASS_OPAQUE,  -1, "fp8_e4m3fnuz",    1,   1},
    {HK_TYPE_FP8_E5M2FNUZ,   HK_CLASS_OPAQUE,  -1, "fp8_e5m2fnuz",    1,   1},
    {HK_TYPE_FP6_E2M3,       HK_CLASS_OPAQUE,  -1, "fp6_e2m3",        4,   3},
    {HK_TYPE_FP6_E3M2,       HK_CLASS_OPAQUE,  -1, "fp6_e3m2",        4,   3},
    {HK_TYPE_FP4_E2M1,       HK_CLASS_OPAQUE,  -1, "fp4_e2m1",        2,   1},
    {HK_TYPE_COMPLEX64,      HK_CLASS_OPAQUE,  -1, "complex64",       1,   8},
};
/* clang-format on */

enum { TYPE_COUNT = sizeof types / sizeof *types };

const struct hk_type_info *hk_type_info(unsigned type)
{
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

const struct hk_type_info *hk_type_by_name(const char *name)
{
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const struct hk_type_info *hk_type_by_gguf(uint32_t ggml_type)
{
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (types[i].gguf >= 0 && (uint32_t)types[i].gguf == ggml_type)
            return &types[i];
    return NULL;
}

const char *hk_format_name(enum hk_format f)
{
    static const char *const names[] = {"hk", "gguf", "safetensors", "hf"};
    return NAME_OF(names, (size_t)f);
}

const char *hk_flag_name(unsigned bit)
{
    static const char *const names[] = {
        "little_endian",          "has_appendix",        "has_quant_table", "sparsity_2_4",
        "tile_aligned",           "flexible_alignment",  "is_sharded",      "raw_weight_storage",
        "universal_page_aligned", "has_sha256_checksum",
    };
    return NAME_OF(names, bit);
}

const char *hk_meta_type_name(unsigned type)
{
    static const char *const names[] = {NULL,   "string", "int64", "float64",
                                        "bool", "json",   "bytes"};
    return NAME_OF(names, type);
}

const char *hk_layout_name(unsigned layout)
{
    static const char *const names[] = {"row_major",  "col_major",  "tile_16x16",
                                        "tile_16x8",  "tile_32x16", "block_sparse_2_4",
                                        "tile_32x32", "tile_64x64"};
    return NAME_OF(names, layout);
}

const char *hk_sparsity_name(unsigned sparsity)
{
    static const char *const names[] = {"none",           "bitmask",         "csr",
                                        "structured_2_4", "physical_pruned", "bsr"};
    return NAME_OF(names, sparsity);
}

const char *hk_record_type_name(unsigned type)
{
    static const char *const names[] = {NULL,        "lora_adapter",  "delta_patch",  "new_layer",
                                        "code_eval", "kv_cache_sink", "topology_head"};
    return NAME_OF(names, type);
}

const char *hk_lineage_name(enum hk_lineage l)
{
    static const char *const names[] = {"first", "ok", "legacy", "zero", "broken"};
    return NAME_OF(names, (size_t)l);
}

const char *hk_crc_name(enum hk_crc c)
{
    static const char *const names[] = {"absent", "ok", "bad"};
    return NAME_OF(names, (size_t)c);
}
