/* What the two directions of hk_convert() share: payload bytes on their way from a file to an
 * output. */
#ifndef HK_CONVERT_H
#define HK_CONVERT_H

#include "libhkfmt/hkfmt.h"

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
/* N bytes at P that were made for the output. */
enum hk_status hk_copy_made(struct hk_copying *c, const uint8_t *p, size_t n, struct hk_error *err);
/* After the last payload: what became infinite is told, and a stream has to hold the padding behind
 * its last tensor too. */
enum hk_status hk_copying_finish(struct hk_copying *c, struct hk_error *err);
void hk_copying_end(struct hk_copying *c);

/* Make of F what is written as TO: *OUT is a view of it in which everything has a form that TO
 * knows, or NULL where F goes as it is. What is lost goes to opt->loss. Not for HK_FORMAT_HF
 * (hf/hf.h). */
struct hk_view;
enum hk_status hk_prepare(struct hk_view **out, struct hk_file *f, enum hk_format to,
                          const struct hk_convert_options *opt, struct hk_error *err);
/* F, which hk_prepare() had nothing to change in or made, to OUT. SPLIT (NULL for a whole file)
 * says which shard of .hk it is: its split_index and split_count are taken. */
enum hk_status hk_write_as(struct hk_file *f, enum hk_format to,
                           const struct hk_convert_options *opt,
                           const struct hk_writer_options *split, struct hk_out *out,
                           struct hk_error *err);
/* gguf/view.c, safetensors/view.c: that of hk_prepare() for one format. */
enum hk_status hk_gguf_view(struct hk_view **out, struct hk_file *f,
                            const struct hk_convert_options *opt, struct hk_error *err);
enum hk_status hk_st_view(struct hk_view **out, struct hk_file *f,
                          const struct hk_convert_options *opt, struct hk_error *err);
/* One line to opt->loss. */
void hk_lost(const struct hk_convert_options *opt, const char *fmt, ...) HK_PRINTF(2, 3);

/* Bytes of appendix records in part PART of a .hk, or of the .hk that view F was made from, unless
 * it leaves them behind (carry.c). */
struct hk_bytes hk_appendix_bytes(const struct hk_file *f, size_t part);
/* Whether F, as it is or as a view, can be written as TO with its records, or OPT says that they
 * are left out. HK_E_UNSUPPORTED names the options; that a bound base no longer holds goes to
 * opt->loss. */
enum hk_status hk_check_history(const struct hk_file *f, enum hk_format to,
                                const struct hk_convert_options *opt, struct hk_error *err);
/* KV belongs to one file of a sharded set that becomes a whole (format-notes 1.2). */
bool hk_is_shard_key(const struct hk_file *f, const struct hk_kv *kv);

/* gguf/write.c */
enum hk_status hk_convert_to_gguf(struct hk_file *f, const struct hk_convert_options *opt,
                                  struct hk_out *out, struct hk_error *err);
/* gguf/keys.c: the metadata that a .hk made from GGUF F has beyond F's own. */
enum hk_status hk_gguf_refuse_keys(const struct hk_file *f, struct hk_error *err);
enum hk_status hk_gguf_note_source(const struct hk_file *f, struct hk_writer *w,
                                   struct hk_error *err);

#endif
