/* The tables that builds may contain, each defined by its level's file. */
#ifndef HKK_LEVELS_H
#define HKK_LEVELS_H

#include "kernels/kernels.h"

extern const struct hkk_table hkk_generic, hkk_avx2, hkk_avx2vnni, hkk_avx512, hkk_amx;
extern const struct hkk_table hkk_neon, hkk_dotprod, hkk_i8mm;

/* HKK_IF_KERNEL(...) is its arguments where a row of type_list.h has a kernel. */
#define HKK_IF_NONE(...)
#define HKK_IF_FLOAT(...) __VA_ARGS__
#define HKK_IF_SMALL(...) __VA_ARGS__
#define HKK_IF_SMALL_MIN(...) __VA_ARGS__
#define HKK_IF_SMALL_16(...) __VA_ARGS__
#define HKK_IF_SUPER(...) __VA_ARGS__
#define HKK_IF_SUPER_MIN(...) __VA_ARGS__

/* EACH(SYMBOL, name) for every type that has a kernel; EACH is to be defined where this is used. */
#define HKK_DENSE_EACH(SYMBOL, name, code, gguf, dtype, bytes, KERNEL)                             \
    HKK_IF_##KERNEL(EACH(SYMBOL, name))
#define HKK_BLOCK_EACH(SYMBOL, name, code, gguf, elems, KERNEL, ...)                               \
    HKK_IF_##KERNEL(EACH(SYMBOL, name))
#define HKK_EACH_TYPE HK_DENSE_TYPES(HKK_DENSE_EACH) HK_BLOCK_TYPES(HKK_BLOCK_EACH)

/* The products of the generic level, which other levels take for types that they have none for. */
#define EACH(SYMBOL, name) hkk_matmul_fn hkk_matmul_##name##_generic;
HKK_EACH_TYPE
#undef EACH

#endif
