/* safetensors: an u64 length, a JSON object of that many bytes, then the tensors' bytes without
 * holes.
 */
#ifndef HK_ST_H
#define HK_ST_H

#include "libhkfmt/base/buf.h"
#include "libhkfmt/tensor/geometry.h"

enum {
    ST_LENGTH_SIZE = 8,
    ST_MAX_HEADER = 100 * 1000 * 1000, /* as the reference reader has it */
};

/* ---- metadata ----
 * Strings stand in __metadata__ as they are, "hk.types" is a JSON object that names the type of
 * every other key: int64, float64, bool, json (text as such), array<string>, array<f32>, array<i32>
 * (JSON arrays), bytes (base64), and string<base64>, json<base64> for what is not UTF-8. A file
 * that is not made from a .hk has strings only. */

/* Give the pairs of F, so far strings, the types that TEXT, the value of "hk.types" which stands at
 * OFFSET, names (safetensors/metadata.c). */
enum hk_status hk_apply_metadata_types(struct hk_file *f, struct hk_bytes text, uint64_t offset,
                                       struct hk_error *err);
/* Append F's metadata as the member "__metadata__" with a comma, or nothing where there is none
 * (safetensors/metadata.c). */
enum hk_status hk_put_safetensors_metadata(struct hk_buf *b, const struct hk_file *f,
                                           struct hk_error *err);

/* Decode what safetensors has no dtype or form for to opt->dense, and tell opt->loss how many
 * tensors of which types. */
struct hk_view;
enum hk_status hk_decode_for_safetensors(struct hk_view *v, const struct hk_convert_options *opt,
                                         struct hk_error *err);

/* ---- writing (safetensors/write.c) ---- */

/* A view of F in which every tensor has a dtype; NULL where F is such a file itself. */
enum hk_status hk_view_for_safetensors(struct hk_view **out, struct hk_file *f,
                                       const struct hk_convert_options *opt, struct hk_error *err);

/* F (perhaps a view) as one safetensors file; F's tensors must all have a dtype. */
enum hk_status hk_write_safetensors(struct hk_file *f, const struct hk_convert_options *opt,
                                    struct hk_out *out, struct hk_error *err);
/* Bytes of the whole file that it would write. */
enum hk_status hk_safetensors_size(const struct hk_file *f, uint64_t *size, struct hk_error *err);

/* Parse the safetensors of F's only part into F (safetensors/read.c): tensors in order of their
 * bytes, metadata of __metadata__ as safetensors/st.h says. */
enum hk_status hk_parse_safetensors(struct hk_file *f, struct hk_error *err);
/* The same of a file that ends too early, as far as it goes. *WHOLE: its header is. */
enum hk_status hk_parse_safetensors_cut(struct hk_file *f, bool *whole, struct hk_error *err);

#endif
