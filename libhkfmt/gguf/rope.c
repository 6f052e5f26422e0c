/* Rope scaling as llama.cpp has it: factors in a tensor where a .hk has the parameters of
 * Llama 3.1's kind. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/gguf/view.h"
#include "libhkfmt/hk/file.h"

static void remove_key(struct gguf_making *m, const char *suffix)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", m->architecture, suffix);
    hk_kvlist_remove(&m->v->kvs, key);
}

static enum hk_status get_float(const struct hk_kv *kv, double fallback, double *out,
                                struct hk_error *err)
{
    *out = fallback;
    return kv == NULL ? HK_OK : hk_kv_float(kv, out, err);
}

struct llama3 {
    double base, factor, low, high, original;
};

static enum hk_status get_llama3(const struct gguf_making *m, struct llama3 *r,
                                 struct hk_error *err)
{
    const struct hk_kvlist *l = &m->v->kvs;
    const struct hk_kv *original = hk_gguf_find(m, "rope.scaling.original_context_length");
    if (original == NULL)
        original = hk_gguf_find(m, "context_length");
    enum hk_status status = get_float(hk_gguf_find(m, "rope.freq_base"), 10000, &r->base, err);
    if (status == HK_OK)
        status = get_float(hk_gguf_find(m, "rope.scaling.factor"), 1, &r->factor, err);
    if (status == HK_OK)
        status = get_float(hk_kvlist_find(l, "hk.rope.low_freq_factor"), 1, &r->low, err);
    if (status == HK_OK)
        status = get_float(hk_kvlist_find(l, "hk.rope.high_freq_factor"), 4, &r->high, err);
    if (status == HK_OK)
        status = get_float(original, 0, &r->original, err);
    if (status == HK_OK && !(r->base > 0 && r->factor > 0 && r->high > r->low && r->original > 0))
        status =
            hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                    "keys %s.rope.scaling.*: no parameters of a llama3 scaling", m->architecture);
    return status;
}

/* What the frequency of pair I is divided by: Llama 3.1's blend of wavelengths. */
static float llama3_factor(const struct llama3 *r, uint32_t dims, uint32_t i)
{
    const double frequency = pow(r->base, -2.0 * i / dims);
    const double turns = r->original * frequency / 6.283185307179586476925286766559;
    if (turns > r->high)
        return 1;
    if (turns < r->low)
        return (float)r->factor;
    const double smooth = (turns - r->low) / (r->high - r->low);
    return (float)(1 / ((1 - smooth) / r->factor + smooth));
}

/* llama.cpp refuses models of these with such a tensor. */
static bool takes_factors(const char *architecture)
{
    return strcmp(architecture, "qwen2") != 0 && strcmp(architecture, "qwen3") != 0;
}

static enum hk_status add_factors(struct gguf_making *m, struct hk_error *err)
{
    static const char name[] = "rope_freqs.weight";
    struct llama3 r;
    uint32_t head, dims;
    if (!takes_factors(m->architecture))
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "key %s.rope.scaling.type: GGUF has no llama3 scaling for this architecture",
                       m->architecture);
    enum hk_status status = get_llama3(m, &r, err);
    if (status == HK_OK)
        status = hk_gguf_head_dims(m, &head, &dims, err);
    if (status != HK_OK)
        return status;
    const uint32_t pairs = dims / 2;
    uint8_t *bytes = hk_arena_alloc(&m->v->file->arena, 4 * (size_t)pairs + 1);
    if (bytes == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < pairs; i++) {
        const float factor = llama3_factor(&r, dims, i);
        uint32_t bits;
        memcpy(&bits, &factor, sizeof bits);
        put32(bytes + 4 * (size_t)i, bits);
    }
    const struct hk_tensor t = {.name = {(const uint8_t *)name, sizeof name - 1},
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
    static const char *const parts[] = {"type", "factor", "original_context_length"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char suffix[64], key[96];
        snprintf(suffix, sizeof suffix, "rope.scaling.%s", parts[i]);
        snprintf(key, sizeof key, "hk.rope.scaling.%s", parts[i]);
        const struct hk_kv *kv = hk_gguf_find(m, suffix);
        if (kv == NULL)
            continue;
        const struct hk_kv copy = *kv; /* the list may move */
        hk_kvlist_set(&m->v->kvs, (struct hk_bytes){(const uint8_t *)key, strlen(key)},
                      (enum hk_meta_type)copy.type, copy.value);
        remove_key(m, suffix);
    }
}

static bool has_tensor(const struct hk_file *f, const char *name)
{
    for (size_t i = 0; i < f->tensor_count; i++)
        if (hk_bytes_are(f->tensors[i].name, name))
            return true;
    return false;
}

enum hk_status hk_gguf_settle_scaling(struct gguf_making *m, struct hk_error *err)
{
    const struct hk_kv *kv = hk_gguf_find(m, "rope.scaling.type");
    struct hk_bytes type;
    enum hk_status status = kv == NULL ? HK_OK : hk_kv_string(kv, &type, err);
    if (kv == NULL || status != HK_OK)
        return status;
    const bool llama3 = hk_bytes_are(type, "llama3");
    if (!llama3 && !hk_bytes_are(type, "dynamic"))
        return HK_OK;
    if (llama3 && !has_tensor(m->v->file, "rope_freqs.weight"))
        status = add_factors(m, err);
    if (!llama3)
        hk_lost(m->opt,
                "rope scaling 'dynamic': GGUF readers do not scale beyond the original context");
    hide_scaling(m);
    return status;
}
