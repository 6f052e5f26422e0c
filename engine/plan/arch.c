/* The architectures that are run, as a table: one row a family. */
#include "engine/model.h"

/* All have: token embedding, layers of {norm, attention, norm, gated feed-forward with silu}, a
 * final norm, and an output matrix of their own or the embedding again. */
/* clang-format off */
static const struct hke_arch archs[] = {
    /* name      layers also have   halves turned */
    {"llama",    0,                 false},
    {"mistral",  0,                 false},
    {"qwen2",    HKE_QKV_BIAS,      true},
    {"qwen3",    HKE_QK_NORM,       true},
};
/* clang-format on */

enum { ARCHS = sizeof archs / sizeof *archs };

const char *hke_architecture(size_t i)
{
    return i < ARCHS ? archs[i].name : NULL;
}

enum hk_status hke_arch_of(const struct hk_file *f, const struct hke_arch **out,
                           struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, "general.architecture");
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "no key general.architecture: not a model that can be run");
    struct hk_bytes name;
    enum hk_status st = hk_kv_string(kv, &name, err);
    if (st != HK_OK)
        return st;
    for (size_t i = 0; i < ARCHS; i++)
        if (hk_bytes_are(name, archs[i].name)) {
            *out = &archs[i];
            return HK_OK;
        }
    return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "architecture '%.*s' is not supported",
                   HK_STR(name));
}
