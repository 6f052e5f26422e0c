/* Adapters written as files of their own: what the forms have in common. */
#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/safetensors/st.h"

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

/* PAYLOAD in PEFT's form, *MADE if that is another file: all of it can be applied to BASE, as what
 * cannot is not to be passed on as if it could. */
static enum hk_status applicable(struct hk_file **payload, struct hk_file **made,
                                 const struct hk_file *base, struct hk_error *err)
{
    struct hk_adapter *a;
    enum hk_status st = hk_adapter_in_peft_form(made, *payload, base, err);
    if (st != HK_OK)
        return st;
    if (*made != NULL)
        *payload = *made;
    st = hk_adapter_read(&a, *payload, base, err);
    if (st == HK_OK)
        hk_adapter_free(&a);
    return st;
}

enum hk_status hk_adapter_convert(struct hk_file *payload, const struct hk_file *base,
                                  enum hk_format to, const struct hk_convert_options *given,
                                  struct hk_out *out, struct hk_error *err)
{
    struct hk_file *made = NULL;
    struct hk_convert_options opt;
    enum hk_status st = hk_read_options(&opt, sizeof opt, given, err);
    if (st == HK_OK)
        st = applicable(&payload, &made, base, err);
    if (st == HK_OK && to == HK_FORMAT_GGUF)
        st = hk_lora_to_gguf(payload, base, &opt, out, err);
    else if (st == HK_OK && to == HK_FORMAT_SAFETENSORS)
        st = hk_write_safetensors(payload, &opt, out, err);
    else if (st == HK_OK)
        st = hk_fail(err, HK_E_USE, HK_NO_OFFSET, "an adapter is not written as one file of %s",
                     hk_format_name(to));
    hk_close(&made);
    return st;
}

enum hk_status hk_adapter_save(struct hk_file *payload, const struct hk_file *base,
                               const char *path, const struct hk_convert_options *given,
                               struct hk_error *err)
{
    struct hk_identities input = {0};
    struct hk_file *made = NULL;
    struct hk_convert_options opt;
    enum hk_status st = hk_read_options(&opt, sizeof opt, given, err);
    if (st == HK_OK)
        st = applicable(&payload, &made, base, err);
    if (st == HK_OK)
        st = hk_identities_of(base, &input, err);
    if (st == HK_OK)
        st = hk_lora_save_peft(payload, base, path, &opt, &input, err);
    hk_identities_free(&input);
    hk_close(&made);
    return st;
}
