/* safetensors: an u64 length, a JSON object of that many bytes, then the tensors' bytes without
 * holes.
 */
#ifndef HK_ST_H
#define HK_ST_H

#include "libhkfmt/convert.h"

enum {
    ST_LENGTH_SIZE = 8,
    ST_MAX_HEADER = 100 * 1000 * 1000, /* as the reference reader has it */
};

/* The dtype of storage type TYPE ("F32", "F8_E4M3", ...), NULL where safetensors has none. */
const char *hk_st_dtype(unsigned type);

enum { HK_TYPE_CODES = 0x200 }; /* above every enum hk_type */

/* Decode what safetensors has no dtype or form for to opt->dense, and tell opt->loss how many
 * tensors of which types. foreign/st_view.c */
struct hk_view;
enum hk_status hk_st_decode(struct hk_view *v, const struct hk_convert_options *opt,
                            struct hk_error *err);

/* Whether KEY:VALUE of __metadata__ come from a .hk and how its types are noted is the matter of
 * st_meta.c: strings stand as they are, "hk.types" is a JSON object that names the type of every
 * other key: int64, float64, bool, json (text as such), array<string>, array<f32>, array<i32> (JSON
 * arrays), bytes (base64). */

/* F (perhaps a view) as one safetensors file; F's tensors must all have a dtype.
 * foreign/st_write.c */
enum hk_status hk_convert_to_safetensors(struct hk_file *f, const struct hk_convert_options *opt,
                                         struct hk_out *out, struct hk_error *err);
/* Bytes of the whole file that it would write. */
enum hk_status hk_safetensors_size(const struct hk_file *f, uint64_t *size, struct hk_error *err);

#endif
