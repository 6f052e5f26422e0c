/* What adapters ask of the model that they are for. */
#include <stdio.h>

#include "libhkfmt/adapter.h"

static enum hk_status get_count(const struct hk_file *f, const struct hk_hf_family *family,
                                const char *suffix, uint32_t *out, struct hk_error *err)
{
    char key[96];
    int64_t v = 0;
    snprintf(key, sizeof key, "%s.%s", family->architecture, suffix);
    const struct hk_kv *kv = hk_kv_find(f, key);
    enum hk_status status = kv == NULL ? HK_OK : hk_kv_int(kv, &v, err);
    if (status == HK_OK && (v < 1 || v > 1 << 20))
        status = hk_fail(err, HK_E_RANGE, kv != NULL ? kv->offset : HK_NO_OFFSET,
                         "the base needs key '%s', from 1 to 2^20", key);
    if (status == HK_OK)
        *out = (uint32_t)v;
    return status;
}

enum hk_status hk_adapter_base_read(const struct hk_file *f, struct hk_adapter_base *out,
                                    struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, "general.architecture");
    struct hk_bytes name = {0};
    struct hk_adapter_base b = {0};
    enum hk_status status = kv == NULL ? HK_OK : hk_kv_string(kv, &name, err);
    if (status != HK_OK)
        return status;
    b.family = kv == NULL ? NULL : hk_hf_family_of_architecture(name);
    if (b.family == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, kv != NULL ? kv->offset : HK_NO_OFFSET,
                       "adapters are not applied to architecture '%.*s'", HK_STR(name));
    status = get_count(f, b.family, "block_count", &b.layers, err);
    if (status == HK_OK)
        status = get_count(f, b.family, "attention.head_count", &b.heads, err);
    if (status != HK_OK)
        return status;
    if (get_count(f, b.family, "attention.head_count_kv", &b.kv_heads, NULL) != HK_OK)
        b.kv_heads = b.heads;
    *out = b;
    return HK_OK;
}
