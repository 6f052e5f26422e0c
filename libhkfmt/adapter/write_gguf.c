/* An adapter's payload as llama.cpp keeps adapters: blk.3.attn_q.weight.lora_a and .lora_b, rows of
 * queries and keys in the order of its architecture, and one alpha for all modules. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/convert/copying.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hk/file.h"

struct lora_module { /* of one tensor of the view */
    bool scaled;     /* it is a B */
    uint32_t rank;
    double scale;  /* as the adapter has it */
    double factor; /* that its B is multiplied by */
    bool overflow; /* it has become infinite */
};

struct gguf_lora {
    struct hk_view *v;
    const struct hk_convert_options *opt;
    struct hk_adapter_base base;
    struct hk_adapter_config config;
    struct lora_module *modules;
    float alpha;
};

/* ---- one alpha for all ---- */

/* The alpha that gives module M its scale. */
static float alpha_of(const struct lora_module *m)
{
    return (float)(m->scale * m->rank);
}

static int compare_alphas(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The one of N sorted values that occurs most often and can be an alpha; 0 if none can: llama.cpp
 * takes an alpha of 0 for a scale of 1. */
static float most_frequent(const float *values, size_t n)
{
    float best = 0;
    size_t most = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compare_alphas(&values[i], &values[end]) == 0; end++)
            ;
        if (end - i > most && isfinite(values[i]) && fpclassify(values[i]) != FP_ZERO) {
            best = values[i];
            most = end - i;
        }
    }
    return best;
}

static enum hk_status choose_alpha(struct gguf_lora *g, struct hk_error *err)
{
    const size_t tensors = g->v->file->tensor_count;
    float *alphas = malloc((tensors + 1) * sizeof *alphas);
    size_t n = 0, ones = 0;
    if (alphas == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < tensors; i++) {
        const struct lora_module *m = &g->modules[i];
        if (!m->scaled)
            continue;
        alphas[n++] = alpha_of(m);
        ones += !(m->scale < 1) && !(m->scale > 1);
    }
    qsort(alphas, n, sizeof *alphas, compare_alphas);
    const bool same = n > 0 && compare_alphas(&alphas[0], &alphas[n - 1]) == 0;
    g->alpha = !same && ones == n ? 0 : most_frequent(alphas, n);
    if (fpclassify(g->alpha) == FP_ZERO && ones < n)
        g->alpha = 1;
    free(alphas);
    return HK_OK;
}

/* What B of M is multiplied by so that its scale is right under the common alpha. */
static double factor_of(const struct gguf_lora *g, const struct lora_module *m)
{
    const float own = alpha_of(m);
    if (fpclassify(g->alpha) == FP_ZERO)
        return 1;
    return compare_alphas(&own, &g->alpha) == 0 ? 1 : m->scale * m->rank / (double)g->alpha;
}

static void scale_row(void *arg, uint64_t row, uint64_t cols, float *values)
{
    struct lora_module *m = arg;
    (void)row;
    for (uint64_t i = 0; i < cols; i++) {
        const float v = (float)((double)values[i] * m->factor);
        m->overflow = m->overflow || (isinf(v) && !isinf(values[i]));
        values[i] = v;
    }
}

/* The alpha is one of f32: what that rounds is said. */
static void report_rounded_alpha(const struct gguf_lora *g)
{
    for (size_t i = 0; i < g->v->file->tensor_count; i++) {
        const struct lora_module *m = &g->modules[i];
        const double exact = m->scale * m->rank;
        if (!m->scaled || m->factor < 1 || m->factor > 1 || fpclassify(g->alpha) == FP_ZERO ||
            fabs(exact - (double)g->alpha) <= 1e-12 * fabs(exact))
            continue;
        hk_report_loss(g->opt, "the alpha %.17g is rounded to %.9g, as GGUF has one of f32", exact,
                       (double)g->alpha);
        return;
    }
}

static enum hk_status fold_scales(struct gguf_lora *g, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    size_t folded = 0, first = 0;
    for (size_t i = 0; st == HK_OK && i < g->v->file->tensor_count; i++) {
        struct lora_module *m = &g->modules[i];
        if (!m->scaled)
            continue;
        m->factor = factor_of(g, m);
        if (!(m->factor < 1) && !(m->factor > 1))
            continue;
        first = folded++ == 0 ? i : first;
        st = hk_view_change(g->v, i, HK_TYPE_F32, scale_row, m, err);
    }
    if (st == HK_OK && folded > 0)
        hk_report_loss(
            g->opt,
            "scales of %zu module%s: GGUF has one alpha, so the rest is multiplied into lora_b "
            "in f32 (tensor %.*s)",
            folded, folded == 1 ? "" : "s", HK_STR(g->v->file->tensors[first].name));
    if (st == HK_OK)
        report_rounded_alpha(g);
    return st;
}

static enum hk_status check_overflow(const struct gguf_lora *g, struct hk_error *err)
{
    for (size_t i = 0; i < g->v->file->tensor_count; i++)
        if (g->modules[i].overflow)
            return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                           "tensor %.*s: multiplied by %g for the scale of its module, it is "
                           "outside of f32",
                           HK_STR(g->v->file->tensors[i].name), g->modules[i].factor);
    return HK_OK;
}

/* ---- tensors ---- */

/* Other types than these are read by nobody. */
static enum hk_status widen_tensor(struct gguf_lora *g, size_t i, struct hk_error *err)
{
    const struct hk_tensor *t = &g->v->file->tensors[i];
    const unsigned type = t->type;
    if (type <= HK_TYPE_BF16)
        return HK_OK;
    if (type == HK_TYPE_F64)
        hk_report_loss(g->opt, "tensor %.*s: rounded from f64 to f32", HK_STR(t->name));
    return hk_view_decode(g->v, i, HK_TYPE_F32, err);
}

static enum hk_status order_rows_of_b(struct gguf_lora *g, size_t i, const char *base,
                                      struct hk_error *err)
{
    const struct hk_bytes name = hk_bytes_of(base);
    const uint32_t heads = hk_rotating_heads(&g->base.model, name);
    const struct hk_family *family = g->base.model.family;
    if (!family->pairs_in_gguf || family->pairs_in_hf || heads == 0)
        return HK_OK;
    return hk_view_reorder(g->v, i, HK_ROWS_TO_PAIRS, heads, err);
}

/* llama.cpp looks for the pair of the tensor that it multiplies with, which is the embedding where
 * there is no other head. */
static void report_tied_pair(const struct gguf_lora *g, const char *base, bool b)
{
    const bool head = strcmp(base, hk_tensor_role_name(HK_ROLE_OUTPUT)) == 0;
    if (b && g->base.tied && (head || strcmp(base, hk_tensor_role_name(HK_ROLE_EMBEDDING)) == 0))
        hk_report_loss(g->opt,
                       "%s: llama.cpp cannot use a pair of the %s where one matrix is embedding "
                       "and output head",
                       base, head ? "head" : "embedding");
}

/* Tensor I, A or B of MODULE. */
static enum hk_status take_peft_half(struct gguf_lora *g, size_t i, const char *module, bool b,
                                     bool embedding, struct hk_error *err)
{
    struct lora_module *m = &g->modules[i];
    char weight[HK_MAX_NAME + 1], base[HK_MAX_NAME + 1], name[HK_MAX_NAME + 16];
    const int n = snprintf(weight, sizeof weight, "%s.weight", module);
    if (n < 0 || (size_t)n >= sizeof weight)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "module %s: the name is too long", module);
    enum hk_status st =
        hk_name_from_hf(g->base.model.family, g->base.model.layers, hk_bytes_of(weight), base, err);
    if (st == HK_OK)
        st = widen_tensor(g, i, err);
    if (st == HK_OK && embedding && !b) /* its rows are looked up */
        st = hk_view_transpose(g->v, i, err);
    if (st == HK_OK && b) {
        m->scaled = true;
        st = hk_adapter_module(&g->config, module, &m->rank, &m->scale, err);
    }
    if (st == HK_OK && b)
        st = order_rows_of_b(g, i, base, err);
    if (st != HK_OK)
        return st;
    report_tied_pair(g, base, b);
    snprintf(name, sizeof name, "%s.lora_%c", base, b ? 'b' : 'a');
    return hk_view_rename(g->v, i, name, err);
}

/* Take tensor I; or take it out, and *NEXT is I again. All of them are known to fit the base. */
static enum hk_status take_peft_part(struct gguf_lora *g, size_t i, size_t *next,
                                     struct hk_error *err)
{
    const struct hk_tensor *t = &g->v->file->tensors[i];
    const char *what = "tensors that were trained whole";
    char module[256];
    enum hk_adapter_part part;
    enum hk_status st = hk_adapter_part_of(&g->config, t, module, &part, err);
    if (st != HK_OK)
        return st;
    *next = i + 1;
    switch (part) {
    case HK_ADAPTER_A:
    case HK_ADAPTER_B:
        return take_peft_half(g, i, module, part == HK_ADAPTER_B, false, err);
    case HK_ADAPTER_EMBEDDING_A:
    case HK_ADAPTER_EMBEDDING_B:
        return take_peft_half(g, i, module, part == HK_ADAPTER_EMBEDDING_B, true, err);
    case HK_ADAPTER_COPY:
        hk_view_drop(g->v, i);
        *next = i;
        return HK_OK;
    case HK_ADAPTER_MAGNITUDE:
        what = "the magnitudes of a DoRA";
        break;
    case HK_ADAPTER_TOKENS:
        what = "trained tokens";
        break;
    case HK_ADAPTER_WHOLE:
        break;
    }
    return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                   "tensor %.*s: a GGUF adapter has low-rank pairs only, not %s", HK_STR(t->name),
                   what);
}

/* ---- metadata ---- */

static bool is_hub_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

/* Whether NAME is ORGANISATION/MODEL, as the hub's are, and no path; *SLASH lies between. */
static bool is_hub_name(const char *name, const char **slash)
{
    *slash = strchr(name, '/');
    if (*slash == NULL || *slash == name || (*slash)[1] == '\0' || name[0] == '.' ||
        (*slash)[1] == '.')
        return false;
    for (const char *p = name; *p != '\0'; p++)
        if (p != *slash && !is_hub_character(*p))
            return false;
    return true;
}

static void put_base_name(struct hk_kvlist *kvs, const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "base_model_name_or_path"));
    const char *slash;
    char url[400];
    if (name == NULL || name[0] == '\0')
        return;
    hk_kvlist_int(kvs, "general.base_model.count", 1);
    if (!is_hub_name(name, &slash) || strlen(name) + sizeof HK_LORA_HUB > sizeof url) {
        hk_kvlist_text(kvs, "general.base_model.0.name", name);
        return;
    }
    hk_kvlist_text(kvs, "general.base_model.0.name", slash + 1);
    hk_kvlist_string(kvs, "general.base_model.0.organization",
                     (struct hk_bytes){(const uint8_t *)name, (size_t)(slash - name)});
    snprintf(url, sizeof url, "%s%s", HK_LORA_HUB, name);
    hk_kvlist_text(kvs, "general.base_model.0.repo_url", url);
}

static void put_adapter_keys(struct gguf_lora *g)
{
    struct hk_kvlist *kvs = &g->v->kvs;
    kvs->count = 0; /* what the payload has is said below, or was training's */
    hk_kvlist_text(kvs, hk_key_text("", HK_KEY_ARCHITECTURE).s, g->base.model.family->architecture);
    hk_kvlist_text(kvs, "general.type", "adapter");
    hk_kvlist_text(kvs, "adapter.type", "lora");
    put_base_name(kvs, g->config.json);
    hk_kvlist_float(kvs, "adapter.lora.alpha", (double)g->alpha);
}

static enum hk_status make_gguf(struct gguf_lora *g, struct hk_file *payload,
                                const struct hk_file *base, struct hk_error *err)
{
    enum hk_status st = hk_adapter_config_read(&g->config, payload, err);
    if (st == HK_OK)
        st = hk_adapter_base_read(base, &g->base, err);
    if (st == HK_OK)
        st = hk_view_new(&g->v, payload, err);
    if (st == HK_OK &&
        (g->modules = calloc(g->v->file->tensor_count + 1, sizeof *g->modules)) == NULL)
        st = hk_fail_nomem(err);
    for (size_t i = 0; st == HK_OK && i < g->v->file->tensor_count;)
        st = take_peft_part(g, i, &i, err);
    if (st == HK_OK)
        st = choose_alpha(g, err);
    if (st == HK_OK)
        st = fold_scales(g, err);
    if (st != HK_OK)
        return st;
    put_adapter_keys(g);
    return hk_view_ready(g->v, err);
}

enum hk_status hk_lora_to_gguf(struct hk_file *payload, const struct hk_file *base,
                               const struct hk_convert_options *opt, struct hk_out *out,
                               struct hk_error *err)
{
    struct gguf_lora g = {.opt = opt};
    enum hk_status st = make_gguf(&g, payload, base, err);
    if (st == HK_OK)
        st = hk_write_gguf(g.v->file, opt, out, err);
    if (st == HK_OK)
        st = check_overflow(&g, err);
    hk_view_free(&g.v);
    hk_adapter_config_free(&g.config);
    free(g.modules);
    return st;
}
