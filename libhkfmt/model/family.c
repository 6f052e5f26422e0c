/* The families of Hugging Face models that are read and written: one row each. */
#include "libhkfmt/hf/hf.h"

/* What class defaults of the library are not the same for all, and matter, is here; the others are
 * where the field is read (hf/config.c). */
/* clang-format off */
static const struct hk_hf_family families[] = {
    /* type      class                 architecture  layers also have  pairs  slides  head_dim */
    {"llama",   "LlamaForCausalLM",   "llama",      0,                true,  false,  0},
    {"mistral", "MistralForCausalLM", "llama",      0,                true,  true,   0},
    {"qwen2",   "Qwen2ForCausalLM",   "qwen2",      HK_HF_QKV_BIAS,   false, false,  0},
    {"qwen3",   "Qwen3ForCausalLM",   "qwen3",      HK_HF_QK_NORM,    false, false,  128},
};
/* clang-format on */

enum { FAMILIES = sizeof families / sizeof *families };

const struct hk_hf_family *hk_hf_family_of_type(struct hk_bytes model_type)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (hk_bytes_are(model_type, families[i].model_type))
            return &families[i];
    return NULL;
}

const struct hk_hf_family *hk_hf_family_of_architecture(struct hk_bytes architecture)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (hk_bytes_are(architecture, families[i].architecture))
            return &families[i];
    return NULL;
}
