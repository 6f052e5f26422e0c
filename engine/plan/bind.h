/* bind.h: a plan while it is made. */
#ifndef HKE_BIND_H
#define HKE_BIND_H

#include "engine/plan/plan.h"

struct hke_builder {
    struct hke_plan *plan;
    const struct hk_model_params *params;
    struct hk_model_tensor next; /* of the family's tensors, if there is MORE */
    size_t at;
    bool more;
    const struct hk_tensor **bound; /* tensors that have a place: COUNT of them */
    size_t count;
    uint64_t budget;                    /* elements that matrices may still have */
    int window_rope;                    /* table of the layers with a window */
    struct hke_norm pending;            /* of what the step before leaves in DELTA */
    uint32_t cache[2], cache_layers[2]; /* classes of layers without and with a window; of each so
                                           many layers are built */
    /* Of the model, and of the layer that is being built. */
    struct hke_weight *matrix[HK_TENSOR_ROLES];
    const float *vector[HK_TENSOR_ROLES];
    struct hk_error *err;
    enum hk_status st; /* of the first failure: after it nothing is bound */
};

/* Look for all tensors that the model has to have, and bind those that are in no layer. */
void hke_bind_begin(struct hke_builder *b);
/* Bind those of LAYER, the next one, in the place of the layer's before. */
void hke_bind_layer(struct hke_builder *b, uint32_t layer);
/* Every tensor of the file has a place; or it is refused. */
void hke_bind_end(struct hke_builder *b);

#endif
