/* Payload bytes on their way from an open file to an output, and what is lost on it. */
#ifndef HK_COPYING_H
#define HK_COPYING_H

#include "libhkfmt/hkfmt.h"

/* One line to opt->loss. */
void hk_report_loss(const struct hk_convert_options *opt, const char *fmt, ...) HK_PRINTF(2, 3);

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

/* The payload of F's tensor I on its way: as it is stored, or as F's view says. Values that f16 has
 * no finite code for become infinities and are counted in c->overflows. */
enum hk_status hk_copy_tensor(struct hk_copying *c, size_t i, struct hk_error *err);

#endif
