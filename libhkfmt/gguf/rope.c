/* Rope scaling as llama.cpp has it: factors in a tensor where a .hk has the parameters of
 * Llama 3.1's kind. */
#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/copying.h"
#include "libhkfmt/gguf/view.h"
#include "libhkfmt/hk/file.h"

static enum hk_status add_rope_factors(struct gguf_making *m, struct hk_error *err)
{
    const char *name = hk_tensor_role_name(HK_ROLE_ROPE_FACTORS);
    const struct hk_model_params *p = &m->model;
    if (!p->family->factors_in_gguf)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "key %s: GGUF has no llama3 scaling for this architecture",
                       hk_key_text(p->architecture, HK_KEY_SCALING_TYPE).s);
    enum hk_status st = hk_params_need(p, HK_KEY_ROPE_DIMENSION_COUNT, p->rope_dims, err);
    if (st != HK_OK)
        return st;
    const uint32_t pairs = p->rope_dims / 2;
    uint8_t *bytes = hk_arena_alloc(&m->v->file->arena, 4 * (size_t)pairs + 1);
    if (bytes == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < pairs; i++) {
        const float factor = hk_rope_factor(&p->rope, p->rope_dims, i);
        uint32_t bits;
        memcpy(&bits, &factor, sizeof bits);
        put32(bytes + 4 * (size_t)i, bits);
    }
    const struct hk_tensor t = {.name = {(const uint8_t *)name, strlen(name)},
                                .type = HK_TYPE_F32,
                                .ndim = 1,
                                .shape = {pairs},
                                .data_size = 4 * (uint64_t)pairs,
                                .entry_offset = HK_NO_OFFSET};
    return hk_view_add(m->v, &t, bytes, err);
}

/* A scaling that GGUF has no keys for, under names that only .hk reads: llama.cpp would take a
 * factor of no known type for a linear one. */
static void hide_scaling(struct gguf_making *m)
{
    for (unsigned key = 0; key < HK_MODEL_KEYS; key++) {
        const struct hk_key_text own = hk_key_text(m->model.architecture, key),
                                 hidden = hk_hidden_key_text(key);
        const struct hk_kv *kv = hk_kvlist_find(&m->v->kvs, own.s);
        if ((hk_key_flags(key) & HK_KEY_HIDEABLE) == 0 || kv == NULL)
            continue;
        const struct hk_kv copy = *kv; /* the list may move */
        hk_kvlist_set(&m->v->kvs, (struct hk_bytes){(const uint8_t *)hidden.s, strlen(hidden.s)},
                      (enum hk_meta_type)copy.type, copy.value);
        hk_kvlist_remove(&m->v->kvs, own.s);
    }
}

static bool view_has_tensor(const struct hk_file *f, const char *name)
{
    for (size_t i = 0; i < f->tensor_count; i++)
        if (hk_bytes_are(f->tensors[i].name, name))
            return true;
    return false;
}

enum hk_status hk_gguf_settle_scaling(struct gguf_making *m, struct hk_error *err)
{
    const enum hk_rope_kind kind = m->model.rope.kind;
    enum hk_status st = HK_OK;
    if (m->model.family == NULL || (kind != HK_ROPE_LLAMA3 && kind != HK_ROPE_DYNAMIC) ||
        hk_kvlist_find(&m->v->kvs, hk_key_text(m->model.architecture, HK_KEY_SCALING_TYPE).s) ==
            NULL)
        return HK_OK; /* or hidden already */
    if (kind == HK_ROPE_DYNAMIC)
        hk_report_loss(
            m->opt,
            "rope scaling 'dynamic': GGUF readers do not scale beyond the original context");
    else if (!view_has_tensor(m->v->file, hk_tensor_role_name(HK_ROLE_ROPE_FACTORS)))
        st = add_rope_factors(m, err);
    hide_scaling(m);
    return st;
}
