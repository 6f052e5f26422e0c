/* llama.cpp's adapters: blk.3.attn_q.weight.lora_a and .lora_b, one alpha, and rows of queries and
 * keys in the order that llama.cpp has them in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter.h"
#include "libhkfmt/foreign/lora.h"

struct making {
    struct hk_view *v;
    struct hk_adapter_base base;
    json_t *ranks; /* rank_pattern */
};

static bool key_is(const struct hk_file *f, const char *key, const char *text)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    struct hk_bytes value;
    return kv != NULL && hk_kv_string(kv, &value, NULL) == HK_OK && hk_bytes_are(value, text);
}

bool hk_lora_is_gguf(const struct hk_file *f)
{
    return key_is(f, "general.type", "adapter") && key_is(f, "adapter.type", "lora");
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
    enum hk_status status = hk_hf_name_to(m->base.family, m->base.layers, base, module, err);
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
    if (status == HK_OK && !a && m->base.family->pairs_in_gguf && hk_hf_rotates(base, &key))
        status = hk_view_reorder(m->v, i, HK_ROWS_TO_HALVES, key ? m->base.kv_heads : m->base.heads,
                                 err);
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
    if (status == HK_OK && !isfinite(alpha))
        status = hk_fail(err, HK_E_RANGE, kv->offset, "key 'adapter.lora.alpha' is no number");
    if (status != HK_OK)
        return status;
    *out = json_pack("{s:s, s:s, s:i, s:f, s:O, s:o}", "peft_type", "LORA", "bias", "none", "r", 1,
                     "lora_alpha", alpha, "rank_pattern", m->ranks, "base_model_name_or_path",
                     hk_lora_base_name(f));
    return *out != NULL ? HK_OK : hk_fail_nomem(err);
}

static enum hk_status make(struct making *m, struct hk_file *f, const struct hk_file *base,
                           struct hk_out *out, struct hk_error *err)
{
    json_t *config = NULL;
    enum hk_status status = hk_adapter_base_read(base, &m->base, err);
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
    struct making m = {.ranks = json_object()};
    enum hk_status status = HK_OK;
    *known = hk_lora_is_gguf(f);
    if (*known && m.ranks == NULL)
        status = hk_fail_nomem(err);
    else if (*known)
        status = hk_view_new(&m.v, f, err);
    if (*known && status == HK_OK)
        status = make(&m, f, base, out, err);
    hk_view_free(&m.v);
    json_decref(m.ranks);
    return status;
}
