/* adapters.h: what a list of adapters changes in the weights of a plan. */
#ifndef HKE_ADAPTERS_H
#define HKE_ADAPTERS_H

#include "engine/plan/plan.h"

/* Of a weight W, in this order: rows of W are replaced; y = W x; each row of y is scaled; B (A x)
 * is added. To a row of the embedding B[row] A is added. Floats of a product are in the byte order
 * of files, as weights are. */
struct hke_change {
    float *replaced; /* [replaced_count][cols] */
    uint32_t *row;   /* which rows, ascending; NULL: all */
    size_t replaced_count;
    float *row_scale; /* [rows], of a DoRA; NULL: none */
    size_t rank;      /* of all adapters together; 0: nothing is added */
    float *a;         /* [rank][cols] */
    float *b;         /* [rank][rows], with the adapters' scales */
    size_t first;     /* number of the adapter that changed W first; 0: none did */
};

struct hke_adapters {
    const struct hke_plan *plan;
    struct hke_change *product; /* one for each weight of the plan */
    size_t products;
    struct hke_change embedding; /* of rows of the embedding */
    size_t max_rank;             /* of the products */
    size_t count;                /* of adapters */
};

/* What changes the product with W, a weight of the plan; NULL: nothing. ADAPTERS may be NULL. */
const struct hke_change *hke_change_of(const struct hke_adapters *adapters,
                                       const struct hke_weight *w);
/* The row that takes the place of row ROW of a weight of COLS columns; NULL: none. */
const float *hke_replaced_row(const struct hke_change *c, size_t row, size_t cols);

#endif
