/* Adapters that a model is run with. */
#include "tools/lib/adapters.h"

#include <stdlib.h>

#include "libhkfmt/hkmodel.h"
#include "tools/lib/adapter_name.h"

void adapters_add(struct adapters *a, const char *word)
{
    const char **names = reallocarray(a->names, a->count + 1, sizeof *names);
    if (names == NULL)
        tool_nomem();
    a->names = names;
    names[a->count++] = word;
}

static enum hk_status apply_named_adapter(const char *word, const struct hk_file *f,
                                          struct hke_model *m, struct hk_error *err)
{
    struct hk_merge_item item;
    struct hk_adapter *a;
    enum hk_status status = adapter_named(f, word, &item, err);
    if (status == HK_OK && hk_record_at(f, item.record)->type != HK_RECORD_LORA_ADAPTER)
        status = hk_fail(err, HK_E_UNSUPPORTED, hk_record_at(f, item.record)->offset,
                         "record '%s' is no adapter", word);
    if (status == HK_OK)
        status = hk_adapter_open(&a, f, item.record, err);
    if (status != HK_OK)
        return status;
    status = hke_model_adapt(m, a, item.scale, err);
    hk_adapter_free(&a);
    return status;
}

enum hk_status adapters_apply(const struct adapters *a, const struct hk_file *f,
                              struct hke_model *m, struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < a->count; i++)
        status = apply_named_adapter(a->names[i], f, m, err);
    return status;
}

void adapters_free(struct adapters *a)
{
    free(a->names);
    *a = (struct adapters){0};
}
