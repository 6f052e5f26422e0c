/* Adapters written as files of their own: what the forms have in common. */
#include "libhkfmt/adapter.h"
#include "libhkfmt/foreign/lora.h"
#include "libhkfmt/foreign/st.h"

bool hk_is_adapter(const struct hk_file *f)
{
    char module[256];
    enum hk_adapter_part part;
    if (f->format == HK_FORMAT_GGUF)
        return hk_lora_is_gguf(f);
    if (f->format != HK_FORMAT_SAFETENSORS)
        return false;
    if (hk_kv_find(f, "adapter_config") != NULL)
        return true;
    for (size_t i = 0; i < f->tensor_count; i++)
        if (hk_adapter_name(f->tensors[i].name, module, &part))
            return true;
    return false;
}

enum hk_status hk_adapter_convert(struct hk_file *payload, const struct hk_file *base,
                                  enum hk_format to, const struct hk_convert_options *opt,
                                  struct hk_out *out, struct hk_error *err)
{
    if (to == HK_FORMAT_GGUF)
        return hk_lora_to_gguf(payload, base, opt, out, err);
    if (to == HK_FORMAT_SAFETENSORS)
        return hk_convert_to_safetensors(payload, opt, out, err);
    return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "an adapter is not written as one file of %s",
                   hk_format_name(to));
}

enum hk_status hk_adapter_save(struct hk_file *payload, const struct hk_file *base,
                               const char *path, const struct hk_convert_options *opt,
                               struct hk_error *err)
{
    struct hk_identities input = {0};
    enum hk_status st = hk_identities_of(base, &input, err);
    if (st == HK_OK)
        st = hk_lora_save_peft(payload, base, path, opt, &input, err);
    hk_identities_free(&input);
    return st;
}
