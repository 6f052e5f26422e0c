/* What llama.cpp wants otherwise than a .hk may have it: rows of queries and keys in the order that
 * it rotates for the architecture, rope scaling in its own terms (gguf/rope.c), vectors in f32, and
 * an output matrix that is the embedding again left out. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/gguf/view.h"
#include "libhkfmt/hf/hf.h"

/* ---- order of rows ---- */

static enum hk_status reorder(struct gguf_making *m, enum hk_row_order order, struct hk_error *err)
{
    uint32_t head, rotated, heads, kv_heads;
    enum hk_status status = hk_gguf_head_dims(m, &head, &rotated, err);
    if (status == HK_OK)
        status = hk_gguf_get_count(m, "attention.head_count", 0, &heads, err);
    if (status == HK_OK)
        status = hk_gguf_get_count(m, "attention.head_count_kv", heads, &kv_heads, err);
    if (status == HK_OK && rotated != head)
        status = hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                         "key %s.rope.dimension_count: rows of heads that are rotated in part are "
                         "not reordered for GGUF",
                         m->architecture);
    for (size_t i = 0; status == HK_OK && i < m->v->file->tensor_count; i++) {
        bool key;
        if (hk_hf_rotates(m->v->file->tensors[i].name, &key))
            status = hk_view_reorder(m->v, i, order, key ? kv_heads : heads, err);
    }
    return status;
}

static enum hk_status settle_order(struct gguf_making *m, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kvlist_find(&m->v->kvs, "hk.rope_style");
    struct hk_bytes style;
    if (kv == NULL)
        return HK_OK;
    enum hk_status status = hk_kv_string(kv, &style, err);
    if (status != HK_OK)
        return status;
    const struct hk_hf_family *family = hk_hf_family_of_architecture(
        (struct hk_bytes){(const uint8_t *)m->architecture, strlen(m->architecture)});
    const bool halves = hk_bytes_are(style, "neox");
    if ((!halves && !hk_bytes_are(style, "norm")) || family == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                       "key hk.rope_style: rows of style '%.*s' are not known to GGUF for "
                       "architecture '%s'",
                       HK_STR(style), m->architecture);
    hk_kvlist_remove(&m->v->kvs, "hk.rope_style");
    if (halves != family->pairs_in_gguf)
        return HK_OK;
    return reorder(m, halves ? HK_ROWS_TO_PAIRS : HK_ROWS_TO_HALVES, err);
}

/* ---- the whole ---- */

/* llama.cpp takes the embedding where there is no output matrix. */
static void drop_tied_output(struct hk_view *v)
{
    const struct hk_file *from = v->from;
    for (size_t i = 0; i < from->tensor_count; i++) {
        const struct hk_tensor *t = &from->tensors[i], *target;
        if (t->type != HK_TYPE_SHARED_REF || !hk_bytes_are(t->name, "output.weight"))
            continue;
        if (hk_tensor_resolve(from, t, &target, NULL) == HK_OK &&
            hk_bytes_are(target->name, "token_embd.weight"))
            hk_view_drop(v, i);
        return;
    }
}

/* llama.cpp multiplies and adds vectors of f32 only, as which its converter writes them. */
static enum hk_status widen_vectors(struct hk_view *v, struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < v->file->tensor_count; i++) {
        const struct hk_tensor *t = &v->file->tensors[i];
        if (t->ndim == 1 && (t->type == HK_TYPE_F16 || t->type == HK_TYPE_BF16))
            status = hk_view_decode(v, i, HK_TYPE_F32, err);
    }
    return status;
}

/* They stay in the file, but llama.cpp reads them for other architectures only. */
static void tell_betas(const struct gguf_making *m)
{
    static const struct {
        const char *suffix;
        double usual;
    } betas[] = {{"rope.scaling.yarn_beta_fast", 32}, {"rope.scaling.yarn_beta_slow", 1}};
    for (size_t i = 0; i < sizeof betas / sizeof *betas; i++) {
        const struct hk_kv *kv = hk_gguf_find(m, betas[i].suffix);
        double v = betas[i].usual;
        if (kv != NULL && hk_kv_float(kv, &v, NULL) == HK_OK && v != betas[i].usual)
            hk_lost(m->opt, "key %s.%s is %g, but llama.cpp takes %g for this architecture",
                    m->architecture, betas[i].suffix, v, betas[i].usual);
    }
}

static enum hk_status settle(struct gguf_making *m, struct hk_error *err)
{
    /* Models from elsewhere have a style; a GGUF comes back as it was. */
    const bool styled = hk_kvlist_find(&m->v->kvs, "hk.rope_style") != NULL;
    drop_tied_output(m->v);
    enum hk_status status = settle_order(m, err);
    if (status == HK_OK && styled) {
        tell_betas(m);
        status = widen_vectors(m->v, err);
    }
    if (status == HK_OK && styled)
        status = hk_gguf_pad_vocabulary(m, err);
    if (status == HK_OK)
        status = hk_gguf_settle_scaling(m, err);
    if (status == HK_OK)
        hk_gguf_tell_lost(m);
    return status == HK_OK ? hk_view_ready(m->v, err) : status;
}

/* The name of the architecture; empty where there is none, or none that a key could begin with. */
static void get_architecture(const struct hk_file *f, char *out, size_t size)
{
    const struct hk_kv *kv = hk_kv_find(f, "general.architecture");
    struct hk_bytes name = {0};
    if (kv != NULL && hk_kv_string(kv, &name, NULL) == HK_OK && name.n < size &&
        memchr(name.p, '\0', name.n) == NULL)
        snprintf(out, size, "%.*s", (int)name.n, (const char *)name.p);
}

enum hk_status hk_gguf_view(struct hk_view **out, struct hk_file *f,
                            const struct hk_convert_options *opt, struct hk_error *err)
{
    struct gguf_making m = {.opt = opt};
    *out = NULL;
    if (f->format == HK_FORMAT_GGUF || f->stream != NULL)
        return HK_OK;
    get_architecture(f, m.architecture, sizeof m.architecture);
    enum hk_status status = hk_view_new(&m.v, f, err);
    if (status == HK_OK) {
        m.v->max_output = opt->max_output;
        status = settle(&m, err);
    }
    if (status != HK_OK)
        hk_view_free(&m.v);
    *out = m.v;
    return status;
}
