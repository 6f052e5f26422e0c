/* The value types of GGUF metadata: numbers, names and sizes. */
#include "libhkfmt/gguf/gguf.h"

/* clang-format off */
static const struct {
    const char *name, *array;
    size_t size;
} types[GGUF_TYPE_COUNT] = {
    [GGUF_U8]     = {"u8",     "array<u8>",     1},
    [GGUF_I8]     = {"i8",     "array<i8>",     1},
    [GGUF_U16]    = {"u16",    "array<u16>",    2},
    [GGUF_I16]    = {"i16",    "array<i16>",    2},
    [GGUF_U32]    = {"u32",    "array<u32>",    4},
    [GGUF_I32]    = {"i32",    "array<i32>",    4},
    [GGUF_F32]    = {"f32",    "array<f32>",    4},
    [GGUF_BOOL]   = {"bool",   "array<bool>",   1},
    [GGUF_STRING] = {"string", "array<string>", 0},
    [GGUF_ARRAY]  = {"array",  "array<array>",  0},
    [GGUF_U64]    = {"u64",    "array<u64>",    8},
    [GGUF_I64]    = {"i64",    "array<i64>",    8},
    [GGUF_F64]    = {"f64",    "array<f64>",    8},
};
/* clang-format on */

size_t hk_gguf_type_size(unsigned type)
{
    return type < GGUF_TYPE_COUNT ? types[type].size : 0;
}

const char *hk_gguf_type_name(unsigned type)
{
    return type < GGUF_TYPE_COUNT ? types[type].name : NULL;
}

const char *hk_gguf_array_name(unsigned type)
{
    return type < GGUF_TYPE_COUNT ? types[type].array : NULL;
}

unsigned hk_gguf_type_parse(const char **name)
{
    for (unsigned type = 0; type < GGUF_TYPE_COUNT; type++) {
        size_t n = strlen(types[type].name);
        if (strncmp(*name, types[type].name, n) == 0) {
            *name += n;
            return type;
        }
    }
    return GGUF_TYPE_COUNT;
}
