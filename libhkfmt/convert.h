/* What the two directions of hk_convert() share: payload bytes on their way from a file to an
 * output. */
#ifndef HK_CONVERT_H
#define HK_CONVERT_H

#include "libhkfmt/internal.h"

struct hk_copying {
    struct hk_file *from;
    const struct hk_convert_options *opt;
    struct hk_writer *writer; /* to .hk, or NULL */
    struct hk_out *out;       /* where there is no writer */
    uint64_t done, all;       /* payload bytes, for the progress */
    uint64_t overflows;       /* values that became infinities */
    uint8_t *chunk;           /* for streams */
};

/* Add up the payload of FROM and, for a stream, check that its tensors can be taken in table order.
 * Released with hk_copying_end(). */
enum hk_status hk_copying_begin(struct hk_copying *c, struct hk_error *err);
/* SIZE bytes at OFFSET of file PART. */
enum hk_status hk_copy_bytes(struct hk_copying *c, uint32_t part, uint64_t offset, uint64_t size,
                             struct hk_error *err);
/* After the last payload: a stream has to hold the padding behind its last tensor too. */
enum hk_status hk_copying_finish(struct hk_copying *c, struct hk_error *err);
void hk_copying_end(struct hk_copying *c);

/* Bytes of appendix records in part PART of a .hk. */
struct hk_bytes hk_appendix_bytes(const struct hk_file *f, size_t part);
/* KV belongs to one file of a sharded set that becomes a whole (format-notes 1.2). */
bool hk_is_shard_key(const struct hk_file *f, const struct hk_kv *kv);

/* foreign/gguf_write.c */
enum hk_status hk_convert_to_gguf(struct hk_file *f, const struct hk_convert_options *opt,
                                  struct hk_out *out, struct hk_error *err);
/* foreign/gguf_keys.c: the metadata that a .hk made from GGUF F has beyond F's own. */
enum hk_status hk_gguf_refuse_keys(const struct hk_file *f, struct hk_error *err);
enum hk_status hk_gguf_note_source(const struct hk_file *f, struct hk_writer *w,
                                   struct hk_error *err);

#endif
