/* SHA-256 over libcrypto. */
#ifndef HK_SHA256_H
#define HK_SHA256_H

#include "libhkfmt/hkfmt.h"

struct hk_sha256; /* a running digest */
enum hk_status hk_sha256_new(struct hk_sha256 **out, struct hk_error *err);
enum hk_status hk_sha256_add(struct hk_sha256 *h, const void *p, size_t n, struct hk_error *err);
/* N as u64, then the N bytes. */
enum hk_status hk_sha256_field(struct hk_sha256 *h, const void *p, size_t n, struct hk_error *err);
/* Also frees *H. */
enum hk_status hk_sha256_done(struct hk_sha256 **h, uint8_t out[HK_SHA256_SIZE],
                              struct hk_error *err);
void hk_sha256_free(struct hk_sha256 **h);
/* SHA-256 of pieces put together. */
enum hk_status hk_sha256_of(const struct hk_bytes *pieces, size_t count,
                            uint8_t out[HK_SHA256_SIZE], struct hk_error *err);

#endif
