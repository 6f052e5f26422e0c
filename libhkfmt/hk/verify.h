/* The parts of hk_verify() that read a whole file. */
#ifndef HK_VERIFY_H
#define HK_VERIFY_H

#include "libhkfmt/base/fault.h"

struct hk_verify_how {
    bool payload;
    bool part;                  /* one of several files: the base is not all there */
    const struct hk_work *work; /* may be NULL */
};
/* What hk_verify() does. */
enum hk_status hk_verify_path(const char *path, const struct hk_verify_how *how, hk_fault_fn *fn,
                              void *arg, struct hk_verify_report *report, struct hk_error *err);
/* Whether the first record of F binds the base and, if payloads are read, whether the base is still
 * that one. */
enum hk_status hk_check_base(const struct hk_file *f, const struct hk_reporter *r,
                             const struct hk_verify_how *how, struct hk_verify_report *report,
                             struct hk_error *err);

/* NaN, infinities and zero scales in the payloads of F, whose table is free of errors: one warning
 * for each tensor and kind. Linear in the payloads. */
enum hk_status hk_check_payloads(const struct hk_file *f, const struct hk_reporter *r,
                                 struct hk_error *err);

#endif
