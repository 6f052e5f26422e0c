/* The families of models that are read, written and run: one row each. */
#include <string.h>

#include "libhkfmt/model/model.h"

/* What the classes of transformers have as defaults that are not the same for all is here; the
 * others are where the field is read (hf/config.c). */
/* clang-format off */
static const struct hk_family families[] = {
    {
        .model_type = "llama",
        .class_name = "LlamaForCausalLM",
        .architecture = "llama",
        .pairs_in_gguf = true,
        .factors_in_gguf = true,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "mistral",
        .class_name = "MistralForCausalLM",
        .architecture = "llama",
        .also = "mistral",
        .pairs_in_gguf = true,
        .factors_in_gguf = true,
        .slides = true,
        .window = 4096,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "qwen2",
        .class_name = "Qwen2ForCausalLM",
        .architecture = "qwen2",
        .tensors = HK_HAS_QKV_BIAS,
        .window = 4096,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "qwen3",
        .class_name = "Qwen3ForCausalLM",
        .architecture = "qwen3",
        .tensors = HK_HAS_QK_NORM,
        .window = 4096,
        .head_dim = 128,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "gemma",
        .class_name = "GemmaForCausalLM",
        .architecture = "gemma",
        .activation = HK_ACTIVATION_GELU,
        .norms_less_one = true,
        .scales_embedding = true,
        .head_dim = 256,
        .ties = true,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "gemma2",
        .class_name = "Gemma2ForCausalLM",
        .architecture = "gemma2",
        .tensors = HK_HAS_POST_NORMS,
        .slides = true,
        .window = 4096,
        .whole_every = 2,
        .activation = HK_ACTIVATION_GELU,
        .norms_less_one = true,
        .scales_embedding = true,
        .shared_scale_layers = 46,
        .config = HK_CONFIG_SOFT_CAPS | HK_CONFIG_QUERY_SCALAR,
        .head_dim = 256,
        .ties = true,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "gemma3_text",
        .class_name = "Gemma3ForCausalLM",
        .architecture = "gemma3",
        .tensors = HK_HAS_QK_NORM | HK_HAS_POST_NORMS,
        .slides = true,
        .window = 4096,
        .whole_every = 6,
        .rope_base = 1e6,
        .window_rope_base = 1e4,
        .activation = HK_ACTIVATION_GELU,
        .norms_less_one = true,
        .scales_embedding = true,
        .shared_scale_layers = 62,
        .config = HK_CONFIG_QUERY_SCALAR,
        .head_dim = 256,
        .ties = true,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "ministral3",
        .class_name = "Ministral3ForCausalLM",
        .architecture = "mistral3",
        .pairs_in_gguf = true,
        .slides = true,
        .tempers = true,
        .rope_base = 1e6,
        .head_dim = 128,
        .config_epsilon = 1e-5,
    },
    {
        .model_type = "smollm3",
        .class_name = "SmolLM3ForCausalLM",
        .architecture = "smollm3",
        .pairs_in_gguf = true,
        .rope_base = 2e6,
        .no_rope_every = 4,
        .ties = true,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "olmo2",
        .class_name = "Olmo2ForCausalLM",
        .architecture = "olmo2",
        .tensors = HK_HAS_WIDE_QK_NORM | HK_HAS_POST_NORMS | HK_HAS_NO_PRE_NORMS,
        .config_epsilon = 1e-5,
    },
    {
        .model_type = "granite",
        .class_name = "GraniteForCausalLM",
        .architecture = "granite",
        .pairs_in_gguf = true,
        .config = HK_CONFIG_MULTIPLIERS,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "starcoder2",
        .class_name = "Starcoder2ForCausalLM",
        .architecture = "starcoder2",
        .tensors = HK_HAS_QKV_BIAS | HK_HAS_ALL_BIASES | HK_HAS_NORM_BIASES | HK_HAS_NO_GATE |
                   HK_HAS_FULLY_CONNECTED,
        .slides = true,
        .norm = HK_NORM_LAYER,
        .activation = HK_ACTIVATION_GELU,
        .ties = true,
        .config_epsilon = 1e-5,
        .epsilon_field = "norm_epsilon",
    },
    {
        .model_type = "seed_oss",
        .class_name = "SeedOssForCausalLM",
        .architecture = "seed_oss",
        .tensors = HK_HAS_QKV_BIAS | HK_HAS_FFN_NORM_BY_POST,
        .head_dim = 128,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "arcee",
        .class_name = "ArceeForCausalLM",
        .architecture = "arcee",
        .tensors = HK_HAS_NO_GATE,
        .pairs_in_gguf = true,
        .activation = HK_ACTIVATION_RELU_2,
        .config_epsilon = 1e-5,
    },
    {
        .model_type = "nemotron",
        .class_name = "NemotronForCausalLM",
        .architecture = "nemotron",
        .tensors = HK_HAS_NORM_BIASES | HK_HAS_NO_GATE,
        .rope_part = 0.5,
        .norm = HK_NORM_LAYER,
        .activation = HK_ACTIVATION_RELU_2,
        .norms_less_one = true,
        .config_epsilon = 1e-5,
        .epsilon_field = "norm_eps",
    },
    {
        .model_type = "glm4",
        .class_name = "Glm4ForCausalLM",
        .architecture = "glm4",
        .tensors = HK_MAY_HAVE_QKV_BIAS | HK_HAS_LAYER_POST_NORMS | HK_HAS_FUSED_GATE,
        .pairs_in_gguf = true,
        .pairs_in_hf = true,
        .rope_part = 0.5,
        .head_dim = 128,
        .config_epsilon = 1.5625e-7,
    },
    {
        .model_type = "phi3",
        .class_name = "Phi3ForCausalLM",
        .architecture = "phi3",
        .tensors = HK_HAS_FUSED_QKV | HK_HAS_FUSED_GATE | HK_MAY_HAVE_LONGROPE,
        .slides = true,
        .config_epsilon = 1e-5,
    },
    {
        .model_type = "mixtral",
        .class_name = "MixtralForCausalLM",
        .architecture = "llama",
        .tensors = HK_HAS_EXPERTS | HK_HAS_SPARSE_MOE,
        .pairs_in_gguf = true,
        .factors_in_gguf = true,
        .slides = true,
        .experts_add_up = true,
        .config_epsilon = 1e-5,
    },
    {
        .model_type = "qwen2_moe",
        .class_name = "Qwen2MoeForCausalLM",
        .architecture = "qwen2moe",
        .tensors = HK_HAS_QKV_BIAS | HK_HAS_EXPERTS | HK_HAS_SHARED_EXPERT | HK_HAS_SHARED_GATE,
        .window = 4096,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "granitemoe",
        .class_name = "GraniteMoeForCausalLM",
        .architecture = "granitemoe",
        .tensors = HK_HAS_EXPERTS,
        .pairs_in_gguf = true,
        .config = HK_CONFIG_MULTIPLIERS,
        .experts_add_up = true,
        .only_gguf = true,
        .config_epsilon = 1e-6,
    },
    {
        .model_type = "glm4_moe",
        .class_name = "Glm4MoeForCausalLM",
        .architecture = "glm4moe",
        .tensors = HK_MAY_HAVE_QKV_BIAS | HK_MAY_HAVE_QK_NORM | HK_HAS_EXPERTS |
                   HK_HAS_SHARED_EXPERT | HK_HAS_CHOICE_BIAS | HK_HAS_FFN_NORM_BY_POST,
        .sigmoid_scores = true,
        .experts_add_up = true,
        .config_epsilon = 1e-5,
    },
    {
        .model_type = "gpt_oss",
        .class_name = "GptOssForCausalLM",
        .architecture = "gpt-oss",
        .tensors = HK_HAS_QKV_BIAS | HK_HAS_EXPERTS | HK_HAS_EXPERT_BIASES | HK_HAS_SINKS |
                   HK_HAS_FFN_NORM_BY_POST,
        .slides = true,
        .window = 128,
        .whole_every = 2,
        .activation = HK_ACTIVATION_CLAMPED_SWIGLU,
        .experts_add_up = true,
        .between_pairs = true,
        .only_gguf = true,
        .config_epsilon = 1e-5,
    },
    {
        .model_type = "qwen3_moe",
        .class_name = "Qwen3MoeForCausalLM",
        .architecture = "qwen3moe",
        .tensors = HK_HAS_QK_NORM | HK_HAS_EXPERTS,
        .window = 4096,
        .experts_add_up = true,
        .config_epsilon = 1e-6,
    },
};
/* clang-format on */

enum { FAMILIES = sizeof families / sizeof *families };

const struct hk_family *hk_family_of_type(struct hk_bytes model_type)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (hk_bytes_are(model_type, families[i].model_type))
            return &families[i];
    return NULL;
}

const struct hk_family *hk_family_of_architecture(struct hk_bytes architecture, const char **name)
{
    for (size_t i = 0; i < 2 * FAMILIES; i++) {
        const struct hk_family *family = &families[i % FAMILIES];
        const char *own = i < FAMILIES ? family->architecture : family->also;
        if (own != NULL && hk_bytes_are(architecture, own)) {
            *name = own;
            return family;
        }
    }
    return NULL;
}

const struct hk_family *hk_family_with_experts(const struct hk_family *f)
{
    for (size_t i = 0; i < FAMILIES && (f->tensors & HK_HAS_EXPERTS) == 0; i++)
        if ((families[i].tensors & HK_HAS_EXPERTS) != 0 &&
            strcmp(families[i].architecture, f->architecture) == 0)
            return &families[i];
    return f;
}

/* Names that several rows have count once. */
const char *hk_architecture(size_t i)
{
    for (size_t k = 0; k < 2 * FAMILIES; k++) {
        const struct hk_family *family = &families[k % FAMILIES], *first;
        const char *own = k < FAMILIES ? family->architecture : family->also, *name;
        if (own == NULL)
            continue;
        first = hk_family_of_architecture(hk_bytes_of(own), &name);
        if (first == family && i-- == 0)
            return name;
    }
    return NULL;
}
