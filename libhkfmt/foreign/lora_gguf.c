/* llama.cpp's adapters: blk.3.attn_q.weight.lora_a and .lora_b, one alpha, and rows of queries and
 * keys in the order that llama.cpp has them in. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/foreign/hf.h"
#include "libhkfmt/foreign/lora.h"

struct making {
    struct hk_view *v;
    const struct hk_file *base;
    const struct hk_hf_family *family;
    uint32_t layers, heads, kv_heads;
    json_t *ranks; /* rank_pattern */
};

static bool key_is(const struct hk_file *f, const char *key, const char *text)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    struct hk_bytes value;
    return kv != NULL && hk_kv_string(kv, &value, NULL) == HK_OK && hk_bytes_are(value, text);
}

static enum hk_status base_count(const struct making *m, const char *suffix, uint32_t *out,
                                 struct hk_error *err)
{
    char key[96];
    int64_t v = 0;
    snprintf(key, sizeof key, "%s.%s", m->family->architecture, suffix);
    const struct hk_kv *kv = hk_kv_find(m->base, key);
    enum hk_status status = kv == NULL ? HK_OK : hk_kv_int(kv, &v, err);
    if (status == HK_OK && (v < 1 || v > 1 << 20))
        status =
            hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "the base needs key '%s', from 1 to 2^20", key);
    if (status == HK_OK)
        *out = (uint32_t)v;
    return status;
}

static enum hk_status read_base(struct making *m, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(m->base, "general.architecture");
    struct hk_bytes name = {0};
    enum hk_status status = kv == NULL ? HK_OK : hk_kv_string(kv, &name, err);
    if (status != HK_OK)
        return status;
    m->family = kv == NULL ? NULL : hk_hf_family_of_architecture(name);
    if (m->family == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "adapters are not known for the base's architecture '%.*s'", HK_STR(name));
    status = base_count(m, "block_count", &m->layers, err);
    if (status == HK_OK)
        status = base_count(m, "attention.head_count", &m->heads, err);
    if (status == HK_OK && base_count(m, "attention.head_count_kv", &m->kv_heads, NULL) != HK_OK)
        m->kv_heads = m->heads;
    return status;
}

/* NAME without SUFFIX, if it ends in that. */
static bool strip(struct hk_bytes name, const char *suffix, struct hk_bytes *out)
{
    const size_t n = strlen(suffix);
    if (name.n <= n || memcmp(name.p + name.n - n, suffix, n) != 0)
        return false;
    *out = (struct hk_bytes){name.p, name.n - n};
    return true;
}

/* "model.layers.3.self_attn.q_proj" of BASE's tensor name. */
static enum hk_status module_of(const struct making *m, struct hk_bytes base, char *module,
                                struct hk_error *err)
{
    enum hk_status status = hk_hf_name_to(m->family, m->layers, base, module, err);
    if (status != HK_OK)
        return status;
    char *dot = strrchr(module, '.');
    if (dot == NULL || strcmp(dot, ".weight") != 0)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tensor '%.*s' is no matrix",
                       HK_STR(base));
    *dot = '\0';
    return HK_OK;
}

static enum hk_status note_rank(struct making *m, const char *module, uint64_t rank,
                                struct hk_error *err)
{
    return json_object_set_new(m->ranks, module, json_integer((json_int_t)rank)) == 0
               ? HK_OK
               : hk_fail_nomem(err);
}

static enum hk_status take_tensor(struct making *m, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = &m->v->file->tensors[i];
    char module[HK_MAX_NAME + 1], name[2 * HK_MAX_NAME];
    struct hk_bytes base;
    bool key;
    const bool a = strip(t->name, ".lora_a", &base);
    if (!a && !strip(t->name, ".lora_b", &base))
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor '%.*s' is neither lora_a nor lora_b", HK_STR(t->name));
    enum hk_status status = module_of(m, base, module, err);
    if (status == HK_OK && a)
        status = note_rank(m, module, t->shape[0], err);
    if (status == HK_OK && !a && m->family->pairs_in_gguf && hk_hf_rotates(base, &key))
        status = hk_view_reorder(m->v, i, HK_ROWS_TO_HALVES, key ? m->kv_heads : m->heads, err);
    if (status != HK_OK)
        return status;
    snprintf(name, sizeof name, "base_model.model.%s.lora_%c.weight", module, a ? 'A' : 'B');
    return hk_view_rename(m->v, i, name, err);
}

static enum hk_status make_config(const struct making *m, const struct hk_file *f, json_t **out,
                                  struct hk_error *err)
{
    double alpha;
    const struct hk_kv *kv = hk_kv_find(f, "adapter.lora.alpha");
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "the adapter has no key adapter.lora.alpha");
    enum hk_status status = hk_kv_float(kv, &alpha, err);
    if (status != HK_OK)
        return status;
    *out = json_pack("{s:s, s:s, s:i, s:f, s:O}", "peft_type", "LORA", "bias", "none", "r", 1,
                     "lora_alpha", alpha, "rank_pattern", m->ranks);
    return *out != NULL ? HK_OK : hk_fail_nomem(err);
}

static enum hk_status make(struct making *m, struct hk_file *f, struct hk_out *out,
                           struct hk_error *err)
{
    json_t *config = NULL;
    enum hk_status status = read_base(m, err);
    for (size_t i = 0; status == HK_OK && i < m->v->file->tensor_count; i++)
        status = take_tensor(m, i, err);
    if (status == HK_OK)
        status = make_config(m, f, &config, err);
    m->v->kvs.count = 0; /* all of it is in the config */
    if (status == HK_OK)
        status = hk_lora_write(m->v, config, out, err);
    json_decref(config);
    return status;
}

enum hk_status hk_lora_from_gguf(struct hk_file *f, const struct hk_file *base, struct hk_out *out,
                                 bool *known, struct hk_error *err)
{
    struct making m = {.base = base, .ranks = json_object()};
    enum hk_status status = HK_OK;
    *known = key_is(f, "general.type", "adapter") && key_is(f, "adapter.type", "lora");
    if (*known && m.ranks == NULL)
        status = hk_fail_nomem(err);
    else if (*known)
        status = hk_view_new(&m.v, f, err);
    if (*known && status == HK_OK)
        status = make(&m, f, out, err);
    hk_view_free(&m.v);
    json_decref(m.ranks);
    return status;
}
