/* What adapters ask of the model that they are for. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/hkmodel.h"

enum hk_status hk_adapter_base_read(const struct hk_file *f, struct hk_adapter_base *out,
                                    struct hk_error *err)
{
    const struct hk_key_source keys = hk_keys_of_file(f);
    struct hk_adapter_base b = {.file = f};
    enum hk_status st = hk_params_read(&keys, HK_PARAMS_TO_KNOW, &b.model, err);
    if (st == HK_OK)
        st = hk_params_need(&b.model, HK_KEY_BLOCK_COUNT, b.model.layers, err);
    if (st == HK_OK)
        st = hk_params_need(&b.model, HK_KEY_HEAD_COUNT, b.model.heads, err);
    if (st == HK_OK)
        st = hk_output_is_tied(f, false, &b.tied, err);
    if (st == HK_OK)
        *out = b;
    return st;
}

enum hk_status hk_adapter_base_find(const struct hk_adapter_base *b, const char *name,
                                    const struct hk_tensor **out, enum hk_weight_use *use,
                                    struct hk_error *err)
{
    char own[HK_MAX_NAME + 1];
    const char *output = hk_tensor_role_name(HK_ROLE_OUTPUT),
               *embedding = hk_tensor_role_name(HK_ROLE_EMBEDDING);
    enum hk_status st =
        hk_name_from_hf(b->model.family, b->model.layers, hk_bytes_of(name), own, err);
    if (st != HK_OK)
        return st;
    const bool head = strcmp(own, output) == 0;
    *use = head ? HK_USE_HEAD : strcmp(own, embedding) == 0 ? HK_USE_EMBEDDING : HK_USE_MATRIX;
    *out = hk_tensor_find(b->file, own);
    if (*out == NULL && head)
        *out = hk_tensor_find(b->file, embedding);
    return *out != NULL ? HK_OK
                        : hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "the base has no tensor %s (%s)",
                                  own, name);
}
