/* Tensor names: those of transformers and those of GGUF, which a .hk has too. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/hf/hf.h"

/* clang-format off */
static const struct hk_hf_part parts[] = {
    /* transformers                      GGUF                  needs            rows         cols        layer  optional */
    {"model.embed_tokens.weight",       "token_embd.weight",  0,               HK_HF_VOCAB, HK_HF_WIDTH, false, false},
    {"model.norm.weight",               "output_norm.weight", 0,               HK_HF_ONE,   HK_HF_WIDTH, false, false},
    {"lm_head.weight",                  "output.weight",      0,               HK_HF_VOCAB, HK_HF_WIDTH, false, true},
    {"input_layernorm.weight",          "attn_norm.weight",   0,               HK_HF_ONE,   HK_HF_WIDTH, true,  false},
    {"self_attn.q_proj.weight",         "attn_q.weight",      0,               HK_HF_Q,     HK_HF_WIDTH, true,  false},
    {"self_attn.k_proj.weight",         "attn_k.weight",      0,               HK_HF_KV,    HK_HF_WIDTH, true,  false},
    {"self_attn.v_proj.weight",         "attn_v.weight",      0,               HK_HF_KV,    HK_HF_WIDTH, true,  false},
    {"self_attn.o_proj.weight",         "attn_output.weight", 0,               HK_HF_WIDTH, HK_HF_Q,     true,  false},
    {"self_attn.q_proj.bias",           "attn_q.bias",        HK_HF_QKV_BIAS,  HK_HF_ONE,   HK_HF_Q,     true,  false},
    {"self_attn.k_proj.bias",           "attn_k.bias",        HK_HF_QKV_BIAS,  HK_HF_ONE,   HK_HF_KV,    true,  false},
    {"self_attn.v_proj.bias",           "attn_v.bias",        HK_HF_QKV_BIAS,  HK_HF_ONE,   HK_HF_KV,    true,  false},
    {"self_attn.q_norm.weight",         "attn_q_norm.weight", HK_HF_QK_NORM,   HK_HF_ONE,   HK_HF_HEAD,  true,  false},
    {"self_attn.k_norm.weight",         "attn_k_norm.weight", HK_HF_QK_NORM,   HK_HF_ONE,   HK_HF_HEAD,  true,  false},
    {"post_attention_layernorm.weight", "ffn_norm.weight",    0,               HK_HF_ONE,   HK_HF_WIDTH, true,  false},
    {"mlp.gate_proj.weight",            "ffn_gate.weight",    0,               HK_HF_FFN,   HK_HF_WIDTH, true,  false},
    {"mlp.up_proj.weight",              "ffn_up.weight",      0,               HK_HF_FFN,   HK_HF_WIDTH, true,  false},
    {"mlp.down_proj.weight",            "ffn_down.weight",    0,               HK_HF_WIDTH, HK_HF_FFN,   true,  false},
};
/* clang-format on */

enum { PARTS = sizeof parts / sizeof *parts };

const struct hk_hf_part *hk_hf_part(size_t i)
{
    return i < PARTS ? &parts[i] : NULL;
}

/* "PREFIX12.REST" becomes REST and 12. One spelling a number: no zeros in front. */
static bool take_layer(struct hk_bytes *name, const char *prefix, uint32_t *layer)
{
    size_t at = strlen(prefix);
    if (name->n <= at || memcmp(name->p, prefix, at) != 0)
        return false;
    const size_t first = at;
    uint32_t n = 0;
    for (; at < name->n && at - first < 9 && name->p[at] >= '0' && name->p[at] <= '9'; at++)
        n = n * 10 + (uint32_t)(name->p[at] - '0');
    if (at == first || at == name->n || name->p[at] != '.' ||
        (name->p[first] == '0' && at > first + 1))
        return false;
    *layer = n;
    *name = (struct hk_bytes){name->p + at + 1, name->n - at - 1};
    return true;
}

static const char *prefix_of(bool gguf)
{
    return gguf ? "blk." : "model.layers.";
}

void hk_hf_part_name(const struct hk_hf_part *part, uint32_t layer, bool gguf, char *out)
{
    const char *name = gguf ? part->gguf : part->hf;
    if (part->layer)
        snprintf(out, HK_MAX_NAME + 1, "%s%u.%s", prefix_of(gguf), layer, name);
    else
        snprintf(out, HK_MAX_NAME + 1, "%s", name);
}

/* The other name of NAME, which is one of GGUF or one of transformers. */
static enum hk_status translate(const struct hk_hf_family *family, uint32_t layers,
                                struct hk_bytes name, bool gguf, char *out, struct hk_error *err)
{
    struct hk_bytes rest = name;
    uint32_t layer = 0;
    const bool inner = take_layer(&rest, prefix_of(gguf), &layer);
    for (size_t i = 0; i < PARTS && layer < layers; i++) {
        const struct hk_hf_part *part = &parts[i];
        if (part->layer == inner && (part->needs & ~family->tensors) == 0 &&
            hk_bytes_are(rest, gguf ? part->gguf : part->hf)) {
            hk_hf_part_name(part, layer, !gguf, out);
            return HK_OK;
        }
    }
    return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "tensor %.*s has no place in a %s model of %u layers", HK_STR(name),
                   family->model_type, layers);
}

enum hk_status hk_hf_name_from(const struct hk_hf_family *family, uint32_t layers,
                               struct hk_bytes hf, char *out, struct hk_error *err)
{
    return translate(family, layers, hf, false, out, err);
}

enum hk_status hk_hf_name_to(const struct hk_hf_family *family, uint32_t layers,
                             struct hk_bytes gguf, char *out, struct hk_error *err)
{
    return translate(family, layers, gguf, true, out, err);
}

bool hk_hf_rotates(struct hk_bytes gguf, bool *key)
{
    uint32_t layer;
    if (!take_layer(&gguf, prefix_of(true), &layer))
        return false;
    *key = hk_bytes_are(gguf, "attn_k.weight") || hk_bytes_are(gguf, "attn_k.bias");
    return *key || hk_bytes_are(gguf, "attn_q.weight") || hk_bytes_are(gguf, "attn_q.bias");
}
