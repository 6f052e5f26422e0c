/* The dtypes of safetensors. Those without a storage type in .hk have one above 0xff. */
#include "libhkfmt/safetensors/st.h"

static const struct {
    const char *dtype;
    enum hk_type type;
} dtypes[] = {
    {"F64", HK_TYPE_F64},
    {"F32", HK_TYPE_F32},
    {"F16", HK_TYPE_F16},
    {"BF16", HK_TYPE_BF16},
    {"F8_E4M3", HK_TYPE_FP8_E4M3},
    {"F8_E5M2", HK_TYPE_FP8_E5M2},
    {"I64", HK_TYPE_INT64},
    {"I32", HK_TYPE_INT32},
    {"I16", HK_TYPE_INT16},
    {"I8", HK_TYPE_INT8},
    {"U64", HK_TYPE_UINT64},
    {"U32", HK_TYPE_UINT32},
    {"U16", HK_TYPE_UINT16},
    {"U8", HK_TYPE_UINT8},
    {"BOOL", HK_TYPE_BOOL},
    {"F8_E8M0", HK_TYPE_FP8_E8M0},
    {"F8_E4M3FNUZ", HK_TYPE_FP8_E4M3FNUZ},
    {"F8_E5M2FNUZ", HK_TYPE_FP8_E5M2FNUZ},
    {"F6_E2M3", HK_TYPE_FP6_E2M3},
    {"F6_E3M2", HK_TYPE_FP6_E3M2},
    {"F4", HK_TYPE_FP4_E2M1},
    {"C64", HK_TYPE_COMPLEX64},
};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *hk_st_dtype(unsigned type)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].type == type)
            return dtypes[i].dtype;
    return NULL;
}

unsigned hk_st_type(size_t i, const char **dtype)
{
    *dtype = i < DTYPES ? dtypes[i].dtype : NULL;
    return i < DTYPES ? dtypes[i].type : 0;
}

bool hk_st_is_form(const struct hk_tensor *t, const struct hk_geometry *g)
{
    return g->form == HK_FORM_DENSE || (g->form == HK_FORM_OPAQUE && t->type > UINT8_MAX);
}
