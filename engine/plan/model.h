/* model.h: what a loaded model consists of. */
#ifndef HKE_MODEL_H
#define HKE_MODEL_H

#include "engine/plan/plan.h"

struct hke_model {
    struct hk_model_params params;
    uint32_t tokens; /* that the vocabulary names */
    struct hke_plan *plan;
};

#endif
