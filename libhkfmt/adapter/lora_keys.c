/* The keys of a GGUF adapter: each is known, or the base's own. */
#include <string.h>

#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/base/bytes.h"
#include "libhkfmt/model/model.h"

bool hk_lora_is_gguf(const struct hk_file *f)
{
    const struct hk_kv *type = hk_kv_find(f, "general.type");
    struct hk_bytes value;
    if (type != NULL && hk_kv_string(type, &value, NULL) == HK_OK && hk_bytes_are(value, "adapter"))
        return true;
    for (size_t i = 0; i < hk_kv_count(f); i++)
        if (hk_bytes_begin_with(hk_kv_at(f, i)->key, "adapter."))
            return true;
    return false;
}

/* Key NAME of F is the text WANTED. */
static enum hk_status need_text(const struct hk_file *f, const char *name, struct hk_bytes wanted,
                                struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, name);
    struct hk_bytes value;
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "the adapter has no key %s", name);
    enum hk_status st = hk_kv_string(kv, &value, err);
    if (st != HK_OK || (value.n == wanted.n && memcmp(value.p, wanted.p, wanted.n) == 0))
        return st;
    return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "key %s is '%.*s', not '%.*s'", name,
                   HK_STR(value), HK_STR(wanted));
}

static enum hk_status need(const struct hk_file *f, const char *name, const char *wanted,
                           struct hk_error *err)
{
    return need_text(f, name, hk_bytes_of(wanted), err);
}

/* The base's own, or what the base's family is called in GGUF. */
static enum hk_status need_architecture(const struct hk_file *f, const struct hk_file *base,
                                        struct hk_error *err)
{
    const struct hk_key_text key = hk_key_text("", HK_KEY_ARCHITECTURE);
    const struct hk_key_source keys = hk_keys_of_file(base);
    const struct hk_family *family;
    const char *architecture;
    enum hk_status st = hk_family_read(&keys, &family, &architecture, err);
    if (st == HK_OK && need(f, key.s, family->architecture, NULL) != HK_OK)
        st = need(f, key.s, architecture, err);
    return st;
}

static bool is_empty_array(const struct hk_kv *kv)
{
    struct hk_array a;
    for (int element = HK_ARRAY_STRING; element <= HK_ARRAY_I32; element++)
        if (hk_kv_array(kv, (enum hk_array_kind)element, &a, NULL) == HK_OK) {
            const bool empty = a.count == 0;
            hk_array_free(&a);
            return empty;
        }
    return false;
}

/* llama.cpp's names; what else begins with "adapter." is not known. */
static enum hk_status check_own(const struct hk_kv *kv, struct hk_error *err)
{
    static const char *const known[] = {"adapter.type", "adapter.lora.alpha",
                                        "adapter.lora.task_name", "adapter.lora.prompt_prefix"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (hk_bytes_are(kv->key, known[i]))
            return HK_OK;
    if (hk_bytes_are(kv->key, "adapter.alora.invocation_tokens"))
        return is_empty_array(kv)
                   ? HK_OK
                   : hk_fail(
                         err, HK_E_UNSUPPORTED, kv->offset,
                         "key %.*s: an adapter that begins to count at a token is not supported",
                         HK_STR(kv->key));
    return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                   "key %.*s is not known, so it may change the result", HK_STR(kv->key));
}

static enum hk_status check_base(const struct hk_kv *kv, const struct hk_file *base,
                                 struct hk_error *err)
{
    char name[HK_MAX_NAME + 1];
    snprintf(name, sizeof name, "%.*s", HK_STR(kv->key));
    const struct hk_kv *own = strlen(name) == kv->key.n ? hk_kv_find(base, name) : NULL;
    if (own != NULL && own->type == kv->type && own->value.n == kv->value.n &&
        memcmp(own->value.p, kv->value.p, kv->value.n) == 0)
        return HK_OK;
    return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "key %.*s is not as the base has it",
                   HK_STR(kv->key));
}

enum hk_status hk_lora_check_keys(const struct hk_file *f, const struct hk_file *base,
                                  struct hk_error *err)
{
    enum hk_status st = need(f, "general.type", "adapter", err);
    if (st == HK_OK)
        st = need(f, "adapter.type", "lora", err);
    if (st == HK_OK)
        st = need_architecture(f, base, err);
    for (size_t i = 0; st == HK_OK && i < hk_kv_count(f); i++) {
        const struct hk_kv *kv = hk_kv_at(f, i);
        if (hk_bytes_begin_with(kv->key, "adapter."))
            st = check_own(kv, err);
        else if (!hk_bytes_begin_with(kv->key, "general.") &&
                 !hk_bytes_begin_with(kv->key, "hk.gguf."))
            st = check_base(kv, base, err);
    }
    return st;
}
