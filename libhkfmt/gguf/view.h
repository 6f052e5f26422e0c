/* A .hk on its way to GGUF: what the steps of hk_view_for_gguf() share. */
#ifndef HK_GGUF_VIEW_H
#define HK_GGUF_VIEW_H

#include "libhkfmt/convert/view.h"
#include "libhkfmt/model/model.h"

struct gguf_making {
    struct hk_view *v; /* its metadata is still the list V->kvs */
    const struct hk_convert_options *opt;
    struct hk_model_params model; /* family NULL: not known, or nothing is to be done for it */
};

/* ---- gguf/rope.c ---- */

/* llama3 scaling becomes the tensor rope_freqs.weight; what GGUF has no terms for moves to keys
 * that only .hk reads. */
enum hk_status hk_gguf_settle_scaling(struct gguf_making *m, struct hk_error *err);

#endif
