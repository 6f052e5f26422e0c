/* Configurations of Hugging Face models: what each field becomes, what is refused and with which
 * words, what the rope of it turns by; and the names of tensors. */
#include <math.h>
#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hkmodel.h"
#include "tests/lib/tap.h"

#include "libhkfmt/base/arena.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/file.h"

static const char base[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"max_position_embeddings\":8192,\"vocab_size\":100}";

#define MISTRAL "\"model_type\":\"mistral\",\"architectures\":[\"MistralForCausalLM\"]"
#define QWEN2 "\"model_type\":\"qwen2\",\"architectures\":[\"Qwen2ForCausalLM\"]"
#define QWEN3 "\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"]"

struct model { /* metadata made of a configuration */
    struct hk_arena arena;
    struct hk_kvlist kvs;
    struct hk_file file;
    struct hk_error err;
};

static struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

/* The base with CHANGE's fields; "-" takes one out. */
static json_t *changed(const char *change)
{
    json_t *json = json_loads(base, 0, NULL), *more = json_loads(change, JSON_ALLOW_NUL, NULL), *v;
    const char *key;
    if (json == NULL || more == NULL) {
        printf("Bail out! no JSON: %s\n", change);
        exit(2);
    }
    json_object_foreach(more, key, v)
    {
        if (json_is_string(v) && strcmp(json_string_value(v), "-") == 0)
            json_object_del(json, key);
        else
            json_object_set(json, key, v);
    }
    json_decref(more);
    return json;
}

static enum hk_status read_change(struct model *m, const char *change)
{
    *m = (struct model){.kvs.arena = &m->arena};
    struct hk_hf_config c = {.json = changed(change), .text = text("{}")};
    enum hk_status status = hk_hf_read_config(&c, &m->kvs, &m->err);
    json_decref(c.json);
    return status;
}

/* Make a file of the metadata. */
static bool finish(struct model *m)
{
    return hk_kvlist_take(&m->kvs, &m->file, &m->err) == HK_OK &&
           hk_build_indexes(&m->file, NULL, &m->err) == HK_OK;
}

static void drop(struct model *m)
{
    hk_kvlist_free(&m->kvs);
    free(m->file.kvs);
    hk_index_free(&m->file.kv_index);
    hk_index_free(&m->file.tensor_index);
    hk_arena_free(&m->arena);
}

/* ---- refusals ---- */

static const struct {
    const char *change;
    enum hk_status status;
    const char *message; /* a piece of it */
} refusals[] = {
    /* families */
    {"{\"model_type\":\"-\"}", HK_E_MISSING, "config.json: model_type is missing"},
    {"{\"model_type\":null}", HK_E_MISSING, "model_type is missing"},
    {"{\"model_type\":7}", HK_E_FORMAT, "model_type is 7: no string"},
    {"{\"model_type\":\"rwkv7\"}", HK_E_UNSUPPORTED, "model_type is \"rwkv7\": not supported"},
    {"{\"model_type\":\"llama\\u0000\"}", HK_E_UNSUPPORTED, "not supported"},
    {"{\"architectures\":\"-\"}", HK_E_MISSING, "architectures is missing"},
    {"{\"architectures\":[]}", HK_E_UNSUPPORTED, "architectures is []: not the"},
    {"{\"architectures\":\"LlamaForCausalLM\"}", HK_E_UNSUPPORTED, "architectures is"},
    {"{\"architectures\":[\"LlamaModel\"]}", HK_E_UNSUPPORTED,
     "architectures is [\"LlamaModel\"]: not the [\"LlamaForCausalLM\"] that model_type has"},
    {"{\"architectures\":[\"MistralForCausalLM\"]}", HK_E_UNSUPPORTED, "architectures is"},
    {"{\"architectures\":[\"LlamaForCausalLM\",\"X\"]}", HK_E_UNSUPPORTED, "architectures is"},
    /* sizes */
    {"{\"hidden_size\":\"-\"}", HK_E_MISSING, "hidden_size is missing"},
    {"{\"intermediate_size\":null}", HK_E_MISSING, "intermediate_size is missing"},
    {"{\"num_hidden_layers\":\"-\"}", HK_E_MISSING, "num_hidden_layers is missing"},
    {"{\"num_attention_heads\":\"-\"}", HK_E_MISSING, "num_attention_heads is missing"},
    {"{\"max_position_embeddings\":\"-\"}", HK_E_MISSING, "max_position_embeddings is missing"},
    {"{\"vocab_size\":\"-\"}", HK_E_MISSING, "vocab_size is missing"},
    {"{\"hidden_size\":\"64\"}", HK_E_FORMAT, "hidden_size is \"64\": no number"},
    {"{\"hidden_size\":[64]}", HK_E_FORMAT, "hidden_size is [64]: no number"},
    {"{\"hidden_size\":true}", HK_E_FORMAT, "hidden_size is true: no number"},
    {"{\"hidden_size\":64.5}", HK_E_RANGE, "hidden_size is 64.5: not a whole number from 1"},
    {"{\"hidden_size\":0}", HK_E_RANGE, "hidden_size is 0"},
    {"{\"hidden_size\":-64}", HK_E_RANGE, "hidden_size is -64"},
    {"{\"num_hidden_layers\":1e300}", HK_E_RANGE, "num_hidden_layers is 1"},
    {"{\"num_hidden_layers\":4294967298}", HK_E_RANGE, "num_hidden_layers is 4294967298"},
    {"{\"num_key_value_heads\":3}", HK_E_FORMAT,
     "4 num_attention_heads cannot share 3 num_key_value_heads"},
    {"{\"num_attention_heads\":6}", HK_E_FORMAT,
     "hidden_size 64 is no multiple of num_attention_heads 6, and head_dim is missing"},
    {"{\"head_dim\":0}", HK_E_RANGE, "head_dim is 0"},
    {"{\"head_dim\":15}", HK_E_FORMAT, "head_dim 15"},
    {"{\"rms_norm_eps\":0}", HK_E_RANGE, "rms_norm_eps is 0: not a number above 0"},
    {"{\"rms_norm_eps\":1e-60}", HK_E_RANGE, "rms_norm_eps is 1"},
    {"{\"rms_norm_eps\":\"1e-5\"}", HK_E_FORMAT, "rms_norm_eps"},
    {"{\"tie_word_embeddings\":1}", HK_E_FORMAT, "tie_word_embeddings is 1: neither true"},
    /* activations and attention */
    {"{\"hidden_act\":\"gelu\"}", HK_E_UNSUPPORTED, "hidden_act is \"gelu\": only silu"},
    {"{\"hidden_activation\":\"gelu_pytorch_tanh\"}", HK_E_UNSUPPORTED, "hidden_activation is"},
    {"{\"hidden_act\":3}", HK_E_FORMAT, "hidden_act is 3"},
    {"{\"attention_bias\":true}", HK_E_UNSUPPORTED, "attention_bias is true: not supported"},
    {"{" QWEN3 ",\"attention_bias\":true}", HK_E_UNSUPPORTED, "attention_bias is true"},
    {"{\"mlp_bias\":true}", HK_E_UNSUPPORTED, "mlp_bias is true: not supported"},
    {"{" MISTRAL ",\"sliding_window\":\"x\"}", HK_E_FORMAT, "sliding_window is \"x\""},
    {"{" QWEN2 ",\"use_sliding_window\":true,\"max_window_layers\":1,\"sliding_window\":1024}",
     HK_E_UNSUPPORTED, "max_window_layers is 1: windows in some layers only"},
    {"{" QWEN2 ",\"use_sliding_window\":\"yes\"}", HK_E_FORMAT, "use_sliding_window is \"yes\""},
    {"{\"layer_types\":[\"full_attention\",\"sliding_attention\"]}", HK_E_UNSUPPORTED,
     "layers without a window are not at equal distances"},
    {"{\"layer_types\":[\"full_attention\",\"chunked_attention\"]}", HK_E_UNSUPPORTED,
     "layer_types has an entry that is \"chunked_attention\""},
    {"{\"layer_types\":[\"full_attention\"]}", HK_E_FORMAT, "layer_types is"},
    {"{\"layer_types\":\"full_attention\"}", HK_E_FORMAT, "layer_types is"},
    {"{\"layer_types\":[\"full_attention\",7]}", HK_E_UNSUPPORTED, "layer_types has an entry"},
    {"{\"is_causal\":false}", HK_E_UNSUPPORTED, "is_causal is false"},
    /* what other models have */
    {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}", HK_E_UNSUPPORTED,
     "quantization_config is {\"quant_method\":\"gptq\""},
    {"{\"num_experts\":8}", HK_E_UNSUPPORTED, "num_experts is 8"},
    {"{\"num_local_experts\":8}", HK_E_UNSUPPORTED, "num_local_experts is 8"},
    {"{\"n_routed_experts\":64}", HK_E_UNSUPPORTED, "n_routed_experts is 64"},
    {"{\"attn_logit_softcapping\":50.0}", HK_E_UNSUPPORTED, "attn_logit_softcapping is 50.0"},
    {"{\"final_logit_softcapping\":30}", HK_E_UNSUPPORTED, "final_logit_softcapping is 30"},
    {"{\"residual_multiplier\":0.22}", HK_E_UNSUPPORTED, "residual_multiplier is 0.22"},
    {"{\"embedding_multiplier\":12}", HK_E_UNSUPPORTED, "embedding_multiplier is 12"},
    {"{\"attention_multiplier\":1.0}", HK_E_UNSUPPORTED, "attention_multiplier is 1.0"},
    {"{\"logits_scaling\":8}", HK_E_UNSUPPORTED, "logits_scaling is 8"},
    {"{\"logit_scale\":0.0625}", HK_E_UNSUPPORTED, "logit_scale is 0.0625"},
    {"{\"no_rope_layers\":[1,0]}", HK_E_UNSUPPORTED, "no_rope_layers is [1,0]"},
    {"{\"vision_config\":{\"hidden_size\":1}}", HK_E_UNSUPPORTED, "vision_config is"},
    {"{\"use_qk_norm\":true}", HK_E_UNSUPPORTED, "use_qk_norm is true"},
    {"{\"auto_map\":{\"AutoModelForCausalLM\":\"modeling.X\"}}", HK_E_UNSUPPORTED,
     "auto_map is \"modeling.X\""},
    /* ropes */
    {"{\"rope_theta\":0}", HK_E_RANGE, "rope_theta is 0"},
    {"{\"rope_theta\":\"1\"}", HK_E_FORMAT, "rope_theta is \"1\""},
    {"{\"rope_theta\":1,\"rope_parameters\":{\"rope_theta\":2}}", HK_E_FORMAT,
     "rope_theta is 1: another place says otherwise"},
    {"{\"partial_rotary_factor\":1.5}", HK_E_FORMAT, "partial_rotary_factor 1.5"},
    {"{\"partial_rotary_factor\":0.01}", HK_E_FORMAT, "partial_rotary_factor 0.01"},
    {"{\"partial_rotary_factor\":0.2}", HK_E_FORMAT, "partial_rotary_factor 0.2"},
    {"{\"rope_scaling\":[]}", HK_E_FORMAT, "rope_scaling is []: no object"},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{}}", HK_E_FORMAT,
     "rope_scaling is {\"type\":\"linear\",\"factor\":2}: another place"},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"yarn\",\"factor\":2}}", HK_E_FORMAT,
     "rope_type is \"yarn\": another place says otherwise"},
    {"{\"rope_scaling\":{\"type\":\"spiral\"}}", HK_E_UNSUPPORTED,
     "rope_type is \"spiral\": not supported"},
    {"{\"rope_scaling\":{\"type\":7}}", HK_E_UNSUPPORTED, "rope_type is 7: not supported"},
    {"{\"rope_scaling\":{\"type\":\"longrope\"}}", HK_E_UNSUPPORTED,
     "rope_type is \"longrope\": not of this family"},
    {"{\"rope_scaling\":{\"rope_type\":\"longrope\",\"short_factor\":[1],\"long_factor\":[1]}}",
     HK_E_UNSUPPORTED, "not of this family"},
    {"{\"rope_scaling\":{\"type\":\"su\"}}", HK_E_UNSUPPORTED, "rope_type is \"su\""},
    {"{\"rope_scaling\":{\"type\":\"mrope\"}}", HK_E_UNSUPPORTED, "several dimensions"},
    {"{\"rope_scaling\":{\"type\":\"default\",\"mrope_section\":[16,24,24]}}", HK_E_UNSUPPORTED,
     "mrope_section is [16,24,24]: not known of a rope"},
    {"{\"rope_scaling\":{\"type\":\"proportional\"}}", HK_E_UNSUPPORTED, "\"proportional\""},
    {"{\"rope_scaling\":{\"factor\":2}}", HK_E_UNSUPPORTED, "of what kind of rope is not said"},
    {"{\"rope_scaling\":{\"type\":\"linear\"}}", HK_E_MISSING, "factor is missing"},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}}", HK_E_FORMAT, "factor is \"2\""},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}", HK_E_RANGE, "factor is 0"},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}", HK_E_UNSUPPORTED, "below 1"},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":1e300}}", HK_E_RANGE, "factor is"},
    {"{\"rope_scaling\":{\"type\":\"dynamic\"}}", HK_E_MISSING, "factor is missing"},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
     "\"high_freq_factor\":4}}",
     HK_E_MISSING, "original_max_position_embeddings is missing"},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
     "\"original_max_position_embeddings\":4096}}",
     HK_E_MISSING, "high_freq_factor is missing"},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"high_freq_factor\":4,"
     "\"original_max_position_embeddings\":4096}}",
     HK_E_MISSING, "low_freq_factor is missing"},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"low_freq_factor\":1,\"high_freq_factor\":4,"
     "\"original_max_position_embeddings\":4096}}",
     HK_E_MISSING, "factor is missing"},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":4096}}",
     HK_E_FORMAT, "high_freq_factor is 4: not above low_freq_factor"},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":4096.5}}",
     HK_E_RANGE, "original_max_position_embeddings is 4096.5"},
    {"{\"rope_scaling\":{\"type\":\"yarn\"}}", HK_E_MISSING, "factor is missing"},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"truncate\":false}}", HK_E_UNSUPPORTED,
     "truncate is false: not supported"},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":0}}", HK_E_RANGE,
     "attention_factor is 0"},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":-1}}", HK_E_RANGE,
     "attention_factor is -1"},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":1,\"beta_slow\":2}}",
     HK_E_FORMAT, "beta_fast is 1: below beta_slow"},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":-10,\"mscale_all_dim\":1}}",
     HK_E_RANGE, "mscale is -10: out of range"},
    {"{\"rope_theta\":1,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}", HK_E_RANGE,
     "needs a rope_theta above 1"},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":6}}",
     HK_E_RANGE, "original_max_position_embeddings is 6: out of yarn's range"},
    {"{\"rope_theta\":2,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}}", HK_E_RANGE,
     "original_max_position_embeddings is 8192: out of yarn's range"},
    {"{\"original_max_position_embeddings\":64,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
     "\"original_max_position_embeddings\":65}}",
     HK_E_FORMAT, "original_max_position_embeddings is 64: another place"},
    {"{\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"},"
     "\"sliding_attention\":{\"rope_type\":\"default\"}}}",
     HK_E_UNSUPPORTED, "not known of a rope"},
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct model m;
        enum hk_status status = read_change(&m, refusals[i].change);
        if (!ok(status == refusals[i].status && strstr(m.err.text, refusals[i].message) != NULL,
                "refused: %s", refusals[i].change))
            printf("# %s: %s\n", hk_status_name(status), status == HK_OK ? "" : m.err.text);
        drop(&m);
    }
}

/* ---- what is taken ---- */

static const struct {
    const char *change;
    const char *key; /* that has this number; NULL: it is enough that it is read */
    double value;
} taken[] = {
    {"{}", "llama.attention.head_count_kv", 2},
    {"{}", "llama.attention.layer_norm_rms_epsilon", 9.999999974752427e-07},
    {"{}", "llama.rope.freq_base", 10000},
    {"{}", "llama.rope.dimension_count", 16},
    {"{}", "llama.context_length", 8192},
    {"{}", "llama.vocab_size", 100},
    {"{\"num_key_value_heads\":\"-\"}", "llama.attention.head_count_kv", 4},
    {"{\"num_key_value_heads\":null}", "llama.attention.head_count_kv", 4},
    {"{\"hidden_size\":40.0,\"head_dim\":null}", "llama.rope.dimension_count", 10},
    {"{\"head_dim\":32}", "llama.attention.key_length", 32},
    {"{\"head_dim\":32.0}", "llama.attention.value_length", 32},
    {"{\"num_attention_heads\":6,\"head_dim\":8}", "llama.attention.key_length", 8},
    {"{" QWEN3 "}", "qwen3.attention.key_length", 128},
    {"{" QWEN3 ",\"head_dim\":null}", "qwen3.rope.dimension_count", 16},
    {"{" QWEN2 ",\"attention_bias\":true}", "qwen2.block_count", 2},
    {"{\"partial_rotary_factor\":0.5}", "llama.rope.dimension_count", 8},
    {"{\"rope_parameters\":{\"rope_type\":\"default\",\"partial_rotary_factor\":0.25}}",
     "llama.rope.dimension_count", 4},
    {"{\"hidden_act\":\"swish\"}", NULL, 0},
    {"{\"torch_dtype\":\"bfloat16\",\"dtype\":\"float16\",\"use_cache\":true}", NULL, 0},
    {"{\"mlp_bias\":false,\"quantization_config\":null,\"num_experts\":0,\"logit_scale\":1}", NULL,
     0},
    {"{\"auto_map\":{\"AutoTokenizer\":[\"x\",null]}}", NULL, 0},
    {"{\"layer_types\":[\"full_attention\",\"full_attention\"]}", NULL, 0},
    {"{" MISTRAL ",\"sliding_window\":null}", "llama.block_count", 2},
    {"{" MISTRAL ",\"sliding_window\":8192}", NULL, 0},
    {"{" MISTRAL ",\"max_position_embeddings\":4096}", NULL, 0},
    {"{\"sliding_window\":64}", NULL, 0}, /* llama has none */
    {"{" QWEN2 ",\"sliding_window\":64,\"use_sliding_window\":false}", NULL, 0},
    {"{" QWEN2 ",\"sliding_window\":64,\"use_sliding_window\":true}", NULL, 0}, /* from layer 28 */
    {"{" QWEN2 ",\"sliding_window\":null,\"use_sliding_window\":true,\"max_window_layers\":0}",
     NULL, 0},
    {"{\"rope_scaling\":{\"rope_type\":\"default\"}}", NULL, 0},
    {"{\"rope_scaling\":{}}", NULL, 0},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":16,\"finetuned\":true}}",
     "llama.rope.scaling.original_context_length", 8192},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":24}}",
     "llama.rope.scaling.yarn_beta_fast", 24},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1.5,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":4096}}",
     "hk.rope.low_freq_factor", 1.5},
};

static double number_of(const struct hk_kv *kv)
{
    double v = -1;
    return kv != NULL && hk_kv_float(kv, &v, NULL) == HK_OK ? v : -1;
}

static void test_taken(void)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct model m;
        bool good = read_change(&m, taken[i].change) == HK_OK && finish(&m);
        double v = good && taken[i].key != NULL ? number_of(hk_kv_find(&m.file, taken[i].key))
                                                : taken[i].value;
        if (!ok(good && v == taken[i].value, "taken: %s", taken[i].change))
            printf("# %s: %.17g\n", good ? "" : m.err.text, v);
        drop(&m);
    }
}

/* ---- turns ---- */

/* What tests/lib/mkhf.py turns says, which computes as transformers defines it. */
static const struct {
    const char *change;
    double stretch;
    unsigned pairs;
    double turns[8];
} ropes[] = {
    {"{\"rope_theta\":500000.0}",
     1,
     8,
     {1, 0.19392274474868576, 0.037606030930863933, 0.0072926647372171093, 0.001414213562373095,
      0.0002742481756762073, 5.3182958969449883e-05, 1.031338537721246e-05}},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}",
     1,
     8,
     {0.4, 0.12649110640673517, 0.04, 0.012649110640673516, 0.004, 0.0012649110640673518, 0.0004,
      0.00012649110640673518}},
    {"{\"max_position_embeddings\":131072,\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":"
     "\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
     "\"original_max_position_embeddings\":8192}}",
     1,
     8,
     {1, 0.19392274474868576, 0.037606030930863933, 0.0072926647372171093, 0.00052484616099295468,
      3.4281021959525912e-05, 6.6478698711812354e-06, 1.2891731721515574e-06}},
    {"{\"max_position_embeddings\":131072,\"rope_theta\":1000000.0,\"rope_scaling\":{\"rope_type\":"
     "\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":32768}}",
     1.1386294361119891,
     8,
     {1, 0.17782794100389229, 0.031622776601683791, 0.004217559938927618, 0.0005,
      4.4456985250973067e-05, 7.9056941504209488e-06, 1.4058533129758728e-06}},
    {"{\"max_position_embeddings\":131072,\"rope_parameters\":{\"rope_theta\":1000000.0,"
     "\"rope_type\":\"yarn\",\"factor\":40,\"original_max_position_embeddings\":4096,"
     "\"attention_factor\":0.75,\"beta_fast\":16,\"beta_slow\":2}}",
     0.75,
     8,
     {1, 0.17782794100389229, 0.031622776601683791, 0.002881999291600539, 2.5e-05,
      4.4456985250973064e-06, 7.905694150420949e-07, 1.4058533129758729e-07}},
    {"{\"max_position_embeddings\":163840,\"rope_parameters\":{\"rope_theta\":10000,\"rope_type\":"
     "\"yarn\",\"factor\":40,\"original_max_position_embeddings\":4096,\"mscale\":0.707,"
     "\"mscale_all_dim\":1.0}}",
     0.92104235531633993,
     8,
     {1, 0.31622776601683794, 0.1, 0.023914724805023366, 0.005125, 0.00084986212117025195, 2.5e-05,
      7.9056941504209488e-06}},
    {"{\"rope_parameters\":{\"rope_type\":\"default\",\"partial_rotary_factor\":0.5}}",
     1,
     4,
     {1, 0.1, 0.01, 0.001}},
};

/* Keys are f32. */
static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-7 * fabs(b);
}

/* What M's keys mean. */
static bool read_params(struct model *m, struct hk_model_params *out)
{
    m->file.tensor_count = 64; /* layers are no more */
    bool good = hk_model_params_read(out, &m->file, &m->err) == HK_OK;
    m->file.tensor_count = 0;
    return good;
}

static void test_turns(void)
{
    for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++) {
        struct model m;
        struct hk_model_params params;
        double turns[8];
        bool good =
            read_change(&m, ropes[i].change) == HK_OK && finish(&m) && read_params(&m, &params);
        if (!good)
            printf("# %s\n", m.err.text);
        good = good && params.halves && params.rope_dims == 2 * ropes[i].pairs &&
               near(params.rope.magnitude, ropes[i].stretch);
        if (good)
            hk_rope_frequencies(&params.rope, params.rope_dims, NULL, turns);
        for (unsigned k = 0; good && k < ropes[i].pairs; k++)
            if (!near(turns[k], ropes[i].turns[k])) {
                printf("# pair %u: %.17g\n", k, turns[k]);
                good = false;
            }
        ok(good, "turns as transformers has them: %s", ropes[i].change);
        drop(&m);
    }
}

/* ---- names ---- */

static const struct hk_family *family_of(const char *type)
{
    return hk_family_of_type(text(type));
}

/* Whether a tensor of FAMILY has the name that ROW has in transformers. */
static bool has_that_name(const struct hk_family *family, const struct hk_tensor_row *row)
{
    const struct hk_tensor_row *other;
    for (size_t i = 0; (other = hk_tensor_row(i)) != NULL; i++)
        if (hk_tensor_row_is_of(other, family) && other->hf != NULL &&
            strcmp(other->hf, row->hf) == 0)
            return true;
    return false;
}

static void test_names(void)
{
    static const char *const types[] = {"llama",  "mistral", "qwen2",   "qwen3",     "gemma",
                                        "gemma2", "olmo2",   "granite", "starcoder2"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct hk_family *family = family_of(types[i]);
        const struct hk_tensor_row *row;
        bool good = true;
        for (size_t k = 0; (row = hk_tensor_row(k)) != NULL; k++) {
            char hf[HK_MAX_NAME + 1], gguf[HK_MAX_NAME + 1], out[HK_MAX_NAME + 1];
            if (row->hf == NULL ||
                (!hk_tensor_row_is_of(row, family) && has_that_name(family, row)))
                continue;
            hk_tensor_row_name(row, 11, false, hf);
            hk_tensor_row_name(row, 11, true, gguf);
            bool has = hk_tensor_row_is_of(row, family);
            enum hk_status want = has ? HK_OK : HK_E_UNSUPPORTED;
            good = good && hk_name_from_hf(family, 12, text(hf), out, NULL) == want &&
                   (!has || strcmp(out, gguf) == 0) &&
                   (!has || (hk_name_to_hf(family, 12, text(gguf), out, NULL) == HK_OK &&
                             strcmp(out, hf) == 0));
        }
        ok(good, "names of %s, there and back", types[i]);
    }
}

static void test_no_names(void)
{
    static const char *const names[] = {
        "",
        "model.",
        "model.layers.",
        "model.layers.0",
        "model.layers.0.",
        "model.layers..input_layernorm.weight",
        "model.layers.-1.input_layernorm.weight",
        "model.layers.00.input_layernorm.weight",
        "model.layers.2.input_layernorm.weight",
        "model.layers.4294967296.input_layernorm.weight",
        "model.layers.99999999999999999999.input_layernorm.weight",
        "model.layers.0.input_layernorm.weight.",
        "model.layers.0.input_layernorm.bias",
        "model.layers.0.model.norm.weight",
        "input_layernorm.weight",
        "layers.0.input_layernorm.weight",
        "lm_head.weight ",
        "blk.0.attn_q.weight",
        "token_embd.weight",
    };
    char out[HK_MAX_NAME + 1];
    struct hk_error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ok(hk_name_from_hf(family_of("llama"), 2, text(names[i]), out, &err) == HK_E_UNSUPPORTED &&
               strstr(err.text, "has no place in a llama model of 2 layers") != NULL,
           "no name of a tensor: '%s'", names[i]);
}

static void test_rotates(void)
{
    const struct hk_model_params p = {.heads = 4, .kv_heads = 2};
    ok(hk_rotating_heads(&p, text("blk.3.attn_q.weight")) == 4, "queries rotate");
    ok(hk_rotating_heads(&p, text("blk.3.attn_k.bias")) == 2, "keys rotate");
    ok(hk_rotating_heads(&p, text("blk.3.attn_v.weight")) == 0 &&
           hk_rotating_heads(&p, text("blk.3.attn_q_norm.weight")) == 0 &&
           hk_rotating_heads(&p, text("attn_q.weight")) == 0,
       "others do not");
}

/* ---- JSON ---- */

static void test_json(void)
{
    static const char nul[] = "{\"a\":\"x\\u0000y\"}";
    json_t *json = NULL;
    struct hk_error err;
    ok(hk_hf_parse("f",
                   text("{\"a\":-12345678901234567890123,\"b\":123456789012345678,\"c\":"
                        "\"1234567890123456789012\\\"1234567890123456789012\"}"),
                   &json, &err) == HK_OK &&
           json_real_value(json_object_get(json, "a")) == -12345678901234567890123.0 &&
           json_integer_value(json_object_get(json, "b")) == 123456789012345678 &&
           strlen(json_string_value(json_object_get(json, "c"))) == 45,
       "integers of any length, and strings that look like them");
    json_decref(json);
    ok(hk_hf_parse("f", text(nul), &json, &err) == HK_OK &&
           json_string_length(json_object_get(json, "a")) == 3,
       "NUL in a string");
    json_decref(json);
    ok(hk_hf_parse("f.json", (struct hk_bytes){(const uint8_t *)"{}\0", 3}, &json, &err) ==
               HK_E_FORMAT &&
           strncmp(err.text, "f.json: no JSON: line 1", 23) == 0,
       "NUL behind the text");
    ok(hk_hf_parse("f", (struct hk_bytes){NULL, 0}, &json, &err) == HK_E_FORMAT, "no text");
}

int main(void)
{
    test_refusals();
    test_taken();
    test_turns();
    test_names();
    test_no_names();
    test_rotates();
    test_json();
    return tap_done();
}
