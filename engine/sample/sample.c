/* Choosing from logits. */
#include <math.h>

#include "engine/engine.h"

static enum hk_status refuse_logit(size_t i, float v, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                   "the model computes no sound result: logit %zu is %s", i,
                   isnan(v) ? "not a number" : "infinite");
}

enum hk_status hke_argmax(const float *logits, size_t n, uint32_t *out, struct hk_error *err)
{
    size_t best = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return refuse_logit(i, logits[i], err);
        if (logits[i] > logits[best])
            best = i;
    }
    *out = (uint32_t)best;
    return HK_OK;
}

/* log(sum of e^(logit - max)) - (logit - max), in double. */
enum hk_status hke_nll(const float *logits, size_t n, uint32_t id, double *out,
                       struct hk_error *err)
{
    uint32_t best;
    enum hk_status st = hke_argmax(logits, n, &best, err);
    if (st != HK_OK)
        return st;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)logits[best]);
    *out = log(sum) - ((double)logits[id] - (double)logits[best]);
    return HK_OK;
}
