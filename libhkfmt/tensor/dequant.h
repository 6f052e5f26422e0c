/* Decoders of dense elements and of blocks, one for each storage type that has them. */
#ifndef HK_DEQUANT_H
#define HK_DEQUANT_H

#include <stddef.h>
#include <stdint.h>

#include "libhkfmt/tensor/type_list.h"

/* N elements of a dense type. */
typedef void hk_dense_fn(const uint8_t *src, size_t n, float *dst);
/* One block of a ggml type, at any address. */
typedef void hk_block_fn(const uint8_t *block, float *dst);

enum { HK_MAX_BLOCK = 256 }; /* elements in the largest block */

/* The decoder of storage type TYPE; NULL if that is of another class. */
hk_dense_fn *hk_dense_decoder(unsigned type);
hk_block_fn *hk_block_decoder(unsigned type);

hk_dense_fn hk_decode_f32;

/* dequant_legacy.c, dequant_k.c, dequant_iq.c, dequant_micro.c */
#define BLOCK(SYMBOL, name, ...) hk_block_fn hk_decode_##name;
HK_BLOCK_TYPES(BLOCK)
#undef BLOCK

#endif
