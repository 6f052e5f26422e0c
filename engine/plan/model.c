/* A model: refused or complete. */
#include <stdlib.h>

#include "engine/model.h"

/* In this order, so that what is not run is never reported as broken. */
static enum hk_status load(struct hke_model *m, struct hk_error *err)
{
    enum hk_status st = hk_model_params_read(&m->params, m->file, err);
    if (st == HK_OK)
        st = hke_check_types(m->file, err);
    if (st == HK_OK)
        st = hke_bind_weights(m, err);
    if (st == HK_OK)
        st = hke_rope_prepare(m, err);
    return st;
}

enum hk_status hke_model_new(struct hke_model **out, const struct hk_file *f, struct hk_error *err)
{
    struct hke_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return hk_fail_nomem(err);
    m->file = f;
    enum hk_status st = load(m, err);
    if (st != HK_OK)
        hke_model_free(&m);
    else
        *out = m;
    return st;
}

void hke_model_free(struct hke_model **m)
{
    if (*m == NULL)
        return;
    hke_free_weights(*m);
    free(*m);
    *m = NULL;
}

const struct hk_model_params *hke_model_params(const struct hke_model *m)
{
    return &m->params;
}

uint32_t hke_model_tokens(const struct hke_model *m)
{
    return m->tokens;
}
