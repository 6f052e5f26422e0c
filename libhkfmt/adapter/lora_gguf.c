/* llama.cpp's adapters: blk.3.attn_q.weight.lora_a and .lora_b, one alpha, and rows of queries and
 * keys in the order that llama.cpp has them in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/hk/file.h"

struct bringing {
    struct hk_lora_gguf *g;
    struct hk_adapter_base base;
    json_t *ranks; /* rank_pattern */
    double alpha;
};

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
static enum hk_status module_of(const struct bringing *m, struct hk_bytes base, char *module,
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
static enum hk_status note_rank(struct bringing *m, const char *module, uint64_t rank,
                                struct hk_error *err)
{
    return json_object_set_new(m->ranks, module, json_integer((json_int_t)rank)) == 0
               ? HK_OK
               : hk_fail_nomem(err);
}

static enum hk_status take_half(struct bringing *m, size_t i, struct hk_bytes base, bool a,
                                struct hk_error *err)
{
    const struct hk_tensor *t = &m->g->view->file->tensors[i];
    const bool embedding = hk_bytes_are(base, hk_tensor_role_name(HK_ROLE_EMBEDDING));
    char module[HK_MAX_NAME + 1], name[2 * HK_MAX_NAME];
    const uint32_t heads = hk_rotating_heads(&m->base.model, base);
    enum hk_status st = module_of(m, base, module, err);
    if (st == HK_OK && t->ndim != 2)
        st = hk_adapter_misfit(t, "it is no matrix", err);
    if (st == HK_OK && a)
        st = note_rank(m, module, t->shape[embedding ? 1 : 0], err);
    if (st == HK_OK && a && embedding)
        st = hk_view_transpose(m->g->view, i, err);
    if (st == HK_OK && !a && m->base.model.family->pairs_in_gguf && heads > 0)
        st = hk_view_reorder(m->g->view, i, HK_ROWS_TO_HALVES, heads, err);
    if (st != HK_OK)
        return st;
    snprintf(name, sizeof name, "base_model.model.%s.lora_%s%c%s", module,
             embedding ? "embedding_" : "", a ? 'A' : 'B', embedding ? "" : ".weight");
    return hk_view_rename(m->g->view, i, name, err);
}

/* A norm under its own name was trained whole. */
static enum hk_status take_norm(struct bringing *m, size_t i, struct hk_error *err)
{
    char own[HK_MAX_NAME + 1], name[2 * HK_MAX_NAME];
    const struct hk_tensor *t = &m->g->view->file->tensors[i];
    struct hk_bytes rest;
    if (!strip(t->name, "norm.weight", &rest))
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor %.*s is neither lora_a nor lora_b", HK_STR(t->name));
    enum hk_status st =
        hk_name_to_hf(m->base.model.family, m->base.model.layers, t->name, own, err);
    if (st != HK_OK)
        return st;
    snprintf(name, sizeof name, "base_model.model.%s", own);
    return hk_view_rename(m->g->view, i, name, err);
}

static enum hk_status take_tensor(struct bringing *m, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = &m->g->view->file->tensors[i];
    struct hk_bytes base;
    enum hk_status st = HK_OK;
    if (t->type > HK_TYPE_BF16) /* safetensors has no such type */
        st = hk_view_decode(m->g->view, i, HK_TYPE_F32, err);
    if (st != HK_OK)
        return st;
    const bool a = strip(t->name, ".lora_a", &base);
    if (a || strip(t->name, ".lora_b", &base))
        return take_half(m, i, base, a, err);
    return take_norm(m, i, err);
}

static enum hk_status get_alpha(struct bringing *m, const struct hk_file *f, struct hk_error *err)
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

static enum hk_status make_config(struct bringing *m, const struct hk_file *f, struct hk_error *err)
{
    m->g->config = json_pack("{s:s, s:s, s:i, s:f, s:O, s:o}", "peft_type", "LORA", "bias", "none",
                             "r", 1, "lora_alpha", m->alpha, "rank_pattern", m->ranks,
                             "base_model_name_or_path", hk_lora_base_name(f));
    if (m->g->config == NULL)
        return hk_fail_nomem(err);
    return m->g->alpha_is_zero && json_object_set(m->g->config, "alpha_pattern", m->ranks) != 0
               ? hk_fail_nomem(err)
               : HK_OK;
}

static enum hk_status bring(struct bringing *m, struct hk_file *f, const struct hk_file *base,
                            struct hk_error *err)
{
    enum hk_status st = hk_lora_check_keys(f, base, err);
    if (st == HK_OK)
        st = hk_adapter_base_read(base, &m->base, err);
    if (st == HK_OK)
        st = get_alpha(m, f, err);
    if (st == HK_OK)
        st = hk_view_new(&m->g->view, f, err);
    for (size_t i = 0; st == HK_OK && i < m->g->view->file->tensor_count; i++)
        st = take_tensor(m, i, err);
    if (st != HK_OK)
        return st;
    m->g->view->kvs.count = 0; /* all of it is in the config */
    return make_config(m, f, err);
}

enum hk_status hk_lora_from_gguf(struct hk_lora_gguf *out, struct hk_file *f,
                                 const struct hk_file *base, struct hk_error *err)
{
    *out = (struct hk_lora_gguf){0};
    struct bringing m = {.g = out, .ranks = json_object()};
    enum hk_status st = m.ranks == NULL ? hk_fail_nomem(err) : bring(&m, f, base, err);
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
