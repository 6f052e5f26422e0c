/* The dtypes of safetensors, and the form of the tensors that have one. */
#include "libhkfmt/tensor/types.h"
#include "libhkfmt/safetensors/st.h"
#include "libhkfmt/tensor/geometry.h"

const char *hk_st_dtype(unsigned type)
{
    size_t count;
    const struct hk_dtype *row = hk_dtypes(&count);
    for (size_t i = 0; i < count; i++)
        if (row[i].type == type)
            return row[i].dtype;
    return NULL;
}

bool hk_st_is_form(const struct hk_tensor *t, const struct hk_geometry *g)
{
    return g->form == HK_FORM_DENSE || (g->form == HK_FORM_OPAQUE && t->type > UINT8_MAX);
}
