/* llama.cpp's adapters: blk.3.attn_q.weight.lora_a and .lora_b, one alpha, and rows of queries and
 * keys in the order that llama.cpp has them in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/base/bytes.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/model/model.h"

/* ---- keys: each is known, or the base's own ---- */

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
static enum hk_status need_bytes_key(const struct hk_file *f, const char *name,
                                     struct hk_bytes wanted, struct hk_error *err)
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

static enum hk_status need_text_key(const struct hk_file *f, const char *name, const char *wanted,
                                    struct hk_error *err)
{
    return need_bytes_key(f, name, hk_bytes_of(wanted), err);
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
    if (st == HK_OK && need_text_key(f, key.s, family->architecture, NULL) != HK_OK)
        st = need_text_key(f, key.s, architecture, err);
    return st;
}

static bool is_empty_array_key(const struct hk_kv *kv)
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
static enum hk_status check_adapter_key(const struct hk_kv *kv, struct hk_error *err)
{
    static const char *const known[] = {"adapter.type", "adapter.lora.alpha",
                                        "adapter.lora.task_name", "adapter.lora.prompt_prefix"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (hk_bytes_are(kv->key, known[i]))
            return HK_OK;
    if (hk_bytes_are(kv->key, "adapter.alora.invocation_tokens"))
        return is_empty_array_key(kv)
                   ? HK_OK
                   : hk_fail(
                         err, HK_E_UNSUPPORTED, kv->offset,
                         "key %.*s: an adapter that begins to count at a token is not supported",
                         HK_STR(kv->key));
    return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                   "key %.*s is not known, so it may change the result", HK_STR(kv->key));
}

static enum hk_status check_key_of_base(const struct hk_kv *kv, const struct hk_file *base,
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

static enum hk_status check_gguf_keys(const struct hk_file *f, const struct hk_file *base,
                                      struct hk_error *err)
{
    enum hk_status st = need_text_key(f, "general.type", "adapter", err);
    if (st == HK_OK)
        st = need_text_key(f, "adapter.type", "lora", err);
    if (st == HK_OK)
        st = need_architecture(f, base, err);
    for (size_t i = 0; st == HK_OK && i < hk_kv_count(f); i++) {
        const struct hk_kv *kv = hk_kv_at(f, i);
        if (hk_bytes_begin_with(kv->key, "adapter."))
            st = check_adapter_key(kv, err);
        else if (!hk_bytes_begin_with(kv->key, "general.") &&
                 !hk_bytes_begin_with(kv->key, "hk.gguf."))
            st = check_key_of_base(kv, base, err);
    }
    return st;
}

/* ---- the model that it was made for: general.base_model.0.* ---- */

static bool get_text_key(const struct hk_file *f, const char *key, struct hk_bytes *out)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    return kv != NULL && hk_kv_string(kv, out, NULL) == HK_OK && out->n > 0 && hk_utf8_valid(*out);
}

static json_t *read_base_name(const struct hk_file *f)
{
    const size_t skip = sizeof HK_LORA_HUB - 1;
    struct hk_bytes text;
    if (get_text_key(f, "general.base_model.0.repo_url", &text) && text.n > skip &&
        memcmp(text.p, HK_LORA_HUB, skip) == 0)
        text = (struct hk_bytes){text.p + skip, text.n - skip};
    else if (!get_text_key(f, "general.base_model.0.name", &text))
        return json_null();
    return json_stringn((const char *)text.p, text.n);
}

/* ---- tensors ---- */

struct to_peft {
    struct hk_lora_gguf *g;
    struct hk_adapter_base base;
    json_t *ranks; /* rank_pattern */
    double alpha;
};

/* NAME without SUFFIX, if it ends in that. */
static bool strip_suffix(struct hk_bytes name, const char *suffix, struct hk_bytes *out)
{
    const size_t n = strlen(suffix);
    if (name.n <= n || memcmp(name.p + name.n - n, suffix, n) != 0)
        return false;
    *out = (struct hk_bytes){name.p, name.n - n};
    return true;
}

/* "model.layers.3.self_attn.q_proj" of BASE's tensor name. */
static enum hk_status find_module_name(const struct to_peft *m, struct hk_bytes base, char *module,
                                       struct hk_error *err)
{
    enum hk_status st =
        hk_name_to_hf(m->base.model.family, m->base.model.layers, base, module, err);
    if (st != HK_OK)
        return st;
    char *dot = strrchr(module, '.');
    if (dot == NULL || strcmp(dot, ".weight") != 0)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tensor %.*s is no matrix",
                       HK_STR(base));
    *dot = '\0';
    return HK_OK;
}

/* Where alpha is 0 each module has its rank as alpha, so that its scale is 1. */
static enum hk_status note_rank(struct to_peft *m, const char *module, uint64_t rank,
                                struct hk_error *err)
{
    return json_object_set_new(m->ranks, module, json_integer((json_int_t)rank)) == 0
               ? HK_OK
               : hk_fail_nomem(err);
}

static enum hk_status take_gguf_half(struct to_peft *m, size_t i, struct hk_bytes base, bool a,
                                     struct hk_error *err)
{
    const struct hk_tensor *t = &m->g->view->file->tensors[i];
    const bool embedding = hk_bytes_are(base, hk_tensor_role_name(HK_ROLE_EMBEDDING));
    char module[HK_MAX_NAME + 1], name[2 * HK_MAX_NAME];
    const uint32_t heads = hk_rotating_heads(&m->base.model, base);
    enum hk_status st = find_module_name(m, base, module, err);
    if (st == HK_OK && t->ndim != 2)
        st = hk_adapter_misfit(t, "it is no matrix", err);
    if (st == HK_OK && a)
        st = note_rank(m, module, t->shape[embedding ? 1 : 0], err);
    if (st == HK_OK && a && embedding)
        st = hk_view_transpose(m->g->view, i, err);
    const struct hk_family *family = m->base.model.family;
    if (st == HK_OK && !a && family->pairs_in_gguf && !family->pairs_in_hf && heads > 0)
        st = hk_view_reorder(m->g->view, i, HK_ROWS_TO_HALVES, heads, err);
    if (st != HK_OK)
        return st;
    snprintf(name, sizeof name, "base_model.model.%s.lora_%s%c%s", module,
             embedding ? "embedding_" : "", a ? 'A' : 'B', embedding ? "" : ".weight");
    return hk_view_rename(m->g->view, i, name, err);
}

/* A norm under its own name was trained whole. */
static enum hk_status take_gguf_norm(struct to_peft *m, size_t i, struct hk_error *err)
{
    char own[HK_MAX_NAME + 1], name[2 * HK_MAX_NAME];
    const struct hk_tensor *t = &m->g->view->file->tensors[i];
    struct hk_bytes rest;
    if (!strip_suffix(t->name, "norm.weight", &rest))
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor %.*s is neither lora_a nor lora_b", HK_STR(t->name));
    enum hk_status st =
        hk_name_to_hf(m->base.model.family, m->base.model.layers, t->name, own, err);
    if (st != HK_OK)
        return st;
    snprintf(name, sizeof name, "base_model.model.%s", own);
    return hk_view_rename(m->g->view, i, name, err);
}

static enum hk_status take_gguf_tensor(struct to_peft *m, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = &m->g->view->file->tensors[i];
    struct hk_bytes base;
    enum hk_status st = HK_OK;
    if (t->type > HK_TYPE_BF16) /* safetensors has no such type */
        st = hk_view_decode(m->g->view, i, HK_TYPE_F32, err);
    if (st != HK_OK)
        return st;
    const bool a = strip_suffix(t->name, ".lora_a", &base);
    if (a || strip_suffix(t->name, ".lora_b", &base))
        return take_gguf_half(m, i, base, a, err);
    return take_gguf_norm(m, i, err);
}

static enum hk_status get_gguf_alpha(struct to_peft *m, const struct hk_file *f,
                                     struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, "adapter.lora.alpha");
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "the adapter has no key adapter.lora.alpha");
    enum hk_status st = hk_kv_float(kv, &m->alpha, err);
    if (st == HK_OK && !isfinite(m->alpha))
        st = hk_fail(err, HK_E_RANGE, kv->offset, "key adapter.lora.alpha is not finite");
    m->g->alpha_is_zero = st == HK_OK && fpclassify(m->alpha) == FP_ZERO;
    return st;
}

static enum hk_status make_peft_config(struct to_peft *m, const struct hk_file *f,
                                       struct hk_error *err)
{
    m->g->config = json_pack("{s:s, s:s, s:i, s:f, s:O, s:o}", "peft_type", "LORA", "bias", "none",
                             "r", 1, "lora_alpha", m->alpha, "rank_pattern", m->ranks,
                             "base_model_name_or_path", read_base_name(f));
    if (m->g->config == NULL)
        return hk_fail_nomem(err);
    return m->g->alpha_is_zero && json_object_set(m->g->config, "alpha_pattern", m->ranks) != 0
               ? hk_fail_nomem(err)
               : HK_OK;
}

static enum hk_status bring_to_peft_form(struct to_peft *m, struct hk_file *f,
                                         const struct hk_file *base, struct hk_error *err)
{
    enum hk_status st = check_gguf_keys(f, base, err);
    if (st == HK_OK)
        st = hk_adapter_base_read(base, &m->base, err);
    if (st == HK_OK)
        st = get_gguf_alpha(m, f, err);
    if (st == HK_OK)
        st = hk_view_new(&m->g->view, f, err);
    for (size_t i = 0; st == HK_OK && i < m->g->view->file->tensor_count; i++)
        st = take_gguf_tensor(m, i, err);
    if (st != HK_OK)
        return st;
    m->g->view->kvs.count = 0; /* all of it is in the config */
    return make_peft_config(m, f, err);
}

enum hk_status hk_lora_from_gguf(struct hk_lora_gguf *out, struct hk_file *f,
                                 const struct hk_file *base, struct hk_error *err)
{
    *out = (struct hk_lora_gguf){0};
    struct to_peft m = {.g = out, .ranks = json_object()};
    enum hk_status st = m.ranks == NULL ? hk_fail_nomem(err) : bring_to_peft_form(&m, f, base, err);
    json_decref(m.ranks);
    if (st != HK_OK)
        hk_lora_gguf_free(out);
    return st;
}

void hk_lora_gguf_free(struct hk_lora_gguf *g)
{
    hk_view_free(&g->view);
    json_decref(g->config);
    *g = (struct hk_lora_gguf){0};
}
