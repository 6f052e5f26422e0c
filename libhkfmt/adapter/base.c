/* What adapters ask of the model that they are for. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/hkmodel.h"

/* *OTHERWISE (may be NULL) is it where the key is missing. */
static enum hk_status get_count(const struct hk_file *f, const struct hk_hf_family *family,
                                const char *suffix, const uint32_t *otherwise, uint32_t *out,
                                struct hk_error *err)
{
    char key[96];
    int64_t v = 0;
    snprintf(key, sizeof key, "%s.%s", family->architecture, suffix);
    const struct hk_kv *kv = hk_kv_find(f, key);
    if (kv == NULL && otherwise != NULL) {
        *out = *otherwise;
        return HK_OK;
    }
    enum hk_status st = kv == NULL ? HK_OK : hk_kv_int(kv, &v, err);
    if (st == HK_OK && (v < 1 || v > 1 << 20))
        st = hk_fail(err, HK_E_RANGE, kv != NULL ? kv->offset : HK_NO_OFFSET,
                     "the base needs key %s, from 1 to 2^20", key);
    if (st == HK_OK)
        *out = (uint32_t)v;
    return st;
}

static enum hk_status get_order(const struct hk_file *f, struct hk_adapter_base *b,
                                struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, "hk.rope_style");
    struct hk_bytes style;
    b->pairs = b->family->pairs_in_gguf;
    enum hk_status st = kv == NULL ? HK_OK : hk_kv_string(kv, &style, err);
    if (kv != NULL && st == HK_OK)
        b->pairs = hk_bytes_are(style, "norm");
    return st;
}

/* The head is the embedding where there is no other, or where it refers to it. */
enum hk_status hk_is_tied(const struct hk_file *f, bool *tied, struct hk_error *err)
{
    const struct hk_tensor *head = hk_tensor_find(f, "output.weight"),
                           *embedding = hk_tensor_find(f, "token_embd.weight");
    enum hk_status st = HK_OK;
    if (head != NULL && embedding != NULL) {
        st = hk_tensor_resolve(f, head, &head, err);
        if (st == HK_OK)
            st = hk_tensor_resolve(f, embedding, &embedding, err);
    }
    *tied = head == NULL || head == embedding;
    return st;
}

static enum hk_status get_family(const struct hk_file *f, const struct hk_hf_family **out,
                                 struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, "general.architecture");
    struct hk_bytes name = {0};
    enum hk_status st = kv == NULL ? HK_OK : hk_kv_string(kv, &name, err);
    if (st != HK_OK)
        return st;
    *out = kv == NULL ? NULL : hk_hf_family_of_architecture(name);
    return *out != NULL ? HK_OK
                        : hk_fail(err, HK_E_UNSUPPORTED, kv != NULL ? kv->offset : HK_NO_OFFSET,
                                  "adapters are not applied to architecture '%.*s'", HK_STR(name));
}

enum hk_status hk_adapter_base_read(const struct hk_file *f, struct hk_adapter_base *out,
                                    struct hk_error *err)
{
    struct hk_adapter_base b = {.file = f};
    enum hk_status st = get_family(f, &b.family, err);
    if (st == HK_OK)
        st = get_count(f, b.family, "block_count", NULL, &b.layers, err);
    if (st == HK_OK)
        st = get_count(f, b.family, "attention.head_count", NULL, &b.heads, err);
    if (st == HK_OK)
        st = get_count(f, b.family, "attention.head_count_kv", &b.heads, &b.kv_heads, err);
    if (st == HK_OK)
        st = get_order(f, &b, err);
    if (st == HK_OK)
        st = hk_is_tied(f, &b.tied, err);
    if (st == HK_OK)
        *out = b;
    return st;
}

enum hk_status hk_adapter_base_find(const struct hk_adapter_base *b, const char *name,
                                    const struct hk_tensor **out, enum hk_weight_use *use,
                                    struct hk_error *err)
{
    char own[HK_MAX_NAME + 1];
    enum hk_status st = hk_hf_name_from(
        b->family, b->layers, (struct hk_bytes){(const uint8_t *)name, strlen(name)}, own, err);
    if (st != HK_OK)
        return st;
    const bool head = strcmp(own, "output.weight") == 0;
    *use = head                                    ? HK_USE_HEAD
           : strcmp(own, "token_embd.weight") == 0 ? HK_USE_EMBEDDING
                                                   : HK_USE_MATRIX;
    *out = hk_tensor_find(b->file, own);
    if (*out == NULL && head)
        *out = hk_tensor_find(b->file, "token_embd.weight");
    return *out != NULL ? HK_OK
                        : hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "the base has no tensor %s (%s)",
                                  own, name);
}
