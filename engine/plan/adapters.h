/* adapters.h: what low-rank adapters add to the weights of a plan: y = W x + B (A x), the scale in
 * B; to a row of the embedding B[token] A. */
#ifndef HKE_ADAPTERS_H
#define HKE_ADAPTERS_H

#include "engine/plan/plan.h"

struct hke_low_rank {
    size_t rank; /* of all adapters together; 0: nothing is added */
    float *a;    /* [rank][cols]; of a product in the byte order of files, as weights are */
    float *b;    /* [rows][rank] */
};

struct hke_adapters {
    const struct hke_plan *plan;
    struct hke_low_rank *product; /* one for each weight of the plan */
    size_t products;
    struct hke_low_rank embedding; /* to rows of the embedding */
    size_t max_rank;               /* of the products */
};

/* What is added to the product with W, a weight of the plan; NULL: nothing. ADAPTERS may be NULL.
 */
const struct hke_low_rank *hke_low_rank_of(const struct hke_adapters *adapters,
                                           const struct hke_weight *w);

#endif
