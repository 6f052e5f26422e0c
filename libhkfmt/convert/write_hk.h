/* An open file as .hk. */
#ifndef HK_WRITE_HK_H
#define HK_WRITE_HK_H

#include "libhkfmt/hkfmt.h"

/* The open file that view F was made from; F itself where it is none. */
const struct hk_file *hk_origin_of(const struct hk_file *f);
/* Bytes of appendix records in part PART of a .hk, or of the .hk that view F was made from, unless
 * it leaves them behind. */
struct hk_bytes hk_appendix_bytes(const struct hk_file *f, size_t part);
/* A view of F in which every tensor has a dense form, where OPT wants that; else NULL. */
struct hk_view;
enum hk_status hk_view_for_hk(struct hk_view **out, struct hk_file *f,
                              const struct hk_convert_options *opt, struct hk_error *err);
/* All of F to OUT; a view is the shard that its header says. */
enum hk_status hk_write_hk(struct hk_file *f, const struct hk_convert_options *opt,
                           struct hk_out *out, struct hk_error *err);

#endif
