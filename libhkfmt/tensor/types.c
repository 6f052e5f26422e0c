/* The codes of the format and what is known of each. */
#include "libhkfmt/tensor/types.h"

#include <string.h>

#include "libhkfmt/tensor/blocks.h"

/* ---- storage types ---- */

#define DENSE(SYMBOL, name, code, gguf, dtype, bytes, kernel)                                      \
    {HK_TYPE_##SYMBOL, HK_CLASS_DENSE, gguf, #name, 1, bytes},
#define BLOCK(SYMBOL, name, code, gguf, elems, ...)                                                \
    {HK_TYPE_##SYMBOL, HK_CLASS_BLOCK, gguf, #name, elems, sizeof(struct hk_##name)},
#define OTHER(SYMBOL, name, code, class, dtype, elems, bytes)                                      \
    {HK_TYPE_##SYMBOL, HK_CLASS_##class, -1, #name, elems, bytes},

static const struct hk_type_info types[] = {HK_DENSE_TYPES(DENSE) HK_BLOCK_TYPES(BLOCK)
                                                HK_OTHER_TYPES(OTHER)};

#undef DENSE
#undef BLOCK
#undef OTHER

/* The public enum is written out for its readers. */
#define SAME_CODE(SYMBOL, name, code, ...)                                                         \
    _Static_assert(HK_TYPE_##SYMBOL == (code) && (code) < HK_TYPE_CODES, #name);
HK_DENSE_TYPES(SAME_CODE)
HK_BLOCK_TYPES(SAME_CODE)
HK_OTHER_TYPES(SAME_CODE)
#undef SAME_CODE

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

const struct hk_block_scales *hk_block_scales_of(unsigned type)
{
#define BLOCK(SYMBOL, name, code, gguf, elems, kernel, halves, scale, minimum, codes)              \
    {HK_TYPE_##SYMBOL,                                                                             \
     halves,                                                                                       \
     offsetof(struct hk_##name, scale),                                                            \
     offsetof(struct hk_##name, minimum),                                                          \
     offsetof(struct hk_##name, codes),                                                            \
     sizeof((struct hk_##name *)NULL)->codes},
    static const struct hk_block_scales rows[] = {HK_BLOCK_TYPES(BLOCK)};
#undef BLOCK
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

const struct hk_dtype *hk_dtypes(size_t *count)
{
#define DENSE(SYMBOL, name, code, gguf, dtype, ...) {dtype, HK_TYPE_##SYMBOL},
#define OTHER(SYMBOL, name, code, class, dtype, ...) {dtype, HK_TYPE_##SYMBOL},
    static const struct hk_dtype rows[] = {HK_DENSE_TYPES(DENSE) HK_OTHER_TYPES(OTHER)};
#undef DENSE
#undef OTHER
    *count = sizeof rows / sizeof *rows;
    return rows;
}

/* ---- names of other codes ---- */

#define NAME_OF(table, i) ((i) < sizeof(table) / sizeof *(table) ? (table)[i] : NULL)

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
