/* Compressed payloads: the plain size as u64, then one zlib stream. */
#ifndef HK_COMPRESS_H
#define HK_COMPRESS_H

#include "libhkfmt/hkfmt.h"

/* Takes stored bytes as they come. */
typedef enum hk_status hk_sink_fn(void *arg, const uint8_t *p, size_t n, struct hk_error *err);

/* The first N plain bytes of compressed record R of F to TO; fewer, or none, where its stream is
 * broken. Their number. */
size_t hk_inflate_start(const struct hk_file *f, const struct hk_record *r, uint8_t *to, size_t n);

struct hk_deflater;
/* Begin a payload of SIZE plain bytes; its stored form goes to SINK. */
enum hk_status hk_deflater_new(struct hk_deflater **out, uint64_t size, hk_sink_fn *sink, void *arg,
                               struct hk_error *err);
enum hk_status hk_deflater_write(struct hk_deflater *d, const void *p, size_t n,
                                 struct hk_error *err);
/* HK_E_USE: more or fewer than SIZE bytes were given. Frees *D. */
enum hk_status hk_deflater_end(struct hk_deflater **d, struct hk_error *err);
void hk_deflater_free(struct hk_deflater **d);

#endif
