/* The two halves of hk_convert(), and what becomes of the version history. */
#ifndef HK_CONVERT_H
#define HK_CONVERT_H

#include "libhkfmt/hkfmt.h"

/* Make of F what is written as TO: *OUT is a view of it in which everything has a form that TO
 * knows, or NULL where F goes as it is. What is lost goes to opt->loss. Not for HK_FORMAT_HF
 * (hf/hf.h). */
struct hk_view;
enum hk_status hk_prepare(struct hk_view **out, struct hk_file *f, enum hk_format to,
                          const struct hk_convert_options *opt, struct hk_error *err);
/* F, which hk_prepare() had nothing to change in or made, to OUT. */
enum hk_status hk_write_as(struct hk_file *f, enum hk_format to,
                           const struct hk_convert_options *opt, struct hk_out *out,
                           struct hk_error *err);
/* Whether F, as it is or as a view, can be written as TO with its records, or OPT says that they
 * are left out. HK_E_UNSUPPORTED names the options; that a bound base no longer holds goes to
 * opt->loss. */
enum hk_status hk_check_history(const struct hk_file *f, enum hk_format to,
                                const struct hk_convert_options *opt, struct hk_error *err);

#endif
