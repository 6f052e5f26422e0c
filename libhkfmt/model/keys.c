/* Keys of metadata that describe a model, each spelled here and nowhere else. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/model/model.h"

/* clang-format off */
enum {
    OWN = HK_KEY_IN_CONFIG,
    SIZE = HK_KEY_PREFIXED | HK_KEY_IN_CONFIG,
    SCALING = HK_KEY_PREFIXED | HK_KEY_IN_CONFIG | HK_KEY_HIDEABLE,
    OTHER = HK_KEY_PREFIXED, /* read, but config.json has no field for it */
};

static const struct {
    const char *name;
    unsigned flags;
} keys[HK_MODEL_KEYS] = {
    [HK_KEY_ARCHITECTURE]         = {"general.architecture", OWN},
    [HK_KEY_ROPE_STYLE]           = {"hk.rope_style", OWN},
    [HK_KEY_LOW_FREQ_FACTOR]      = {"hk.rope.low_freq_factor", OWN},
    [HK_KEY_HIGH_FREQ_FACTOR]     = {"hk.rope.high_freq_factor", OWN},
    [HK_KEY_BETA_FAST]            = {"hk.rope.beta_fast", OWN},
    [HK_KEY_BETA_SLOW]            = {"hk.rope.beta_slow", OWN},
    [HK_KEY_CONFIG]               = {"hk.hf.config", OWN},
    [HK_KEY_GENERATION_CONFIG]    = {"hk.hf.generation_config", OWN},
    [HK_KEY_BLOCK_COUNT]          = {"block_count", SIZE},
    [HK_KEY_CONTEXT_LENGTH]       = {"context_length", SIZE},
    [HK_KEY_EMBEDDING_LENGTH]     = {"embedding_length", SIZE},
    [HK_KEY_FEED_FORWARD_LENGTH]  = {"feed_forward_length", SIZE},
    [HK_KEY_VOCAB_SIZE]           = {"vocab_size", SIZE},
    [HK_KEY_EXPERT_COUNT]         = {"expert_count", OTHER},
    [HK_KEY_HEAD_COUNT]           = {"attention.head_count", SIZE},
    [HK_KEY_HEAD_COUNT_KV]        = {"attention.head_count_kv", SIZE},
    [HK_KEY_KEY_LENGTH]           = {"attention.key_length", SIZE},
    [HK_KEY_VALUE_LENGTH]         = {"attention.value_length", SIZE},
    [HK_KEY_NORM_EPSILON]         = {"attention.layer_norm_rms_epsilon", SIZE},
    [HK_KEY_CAUSAL]               = {"attention.causal", OTHER},
    [HK_KEY_SLIDING_WINDOW]       = {"attention.sliding_window", OTHER},
    [HK_KEY_ROPE_DIMENSION_COUNT] = {"rope.dimension_count", SIZE},
    [HK_KEY_ROPE_FREQ_BASE]       = {"rope.freq_base", SIZE},
    [HK_KEY_ROPE_SCALE_LINEAR]    = {"rope.scale_linear", SIZE},
    [HK_KEY_SCALING_TYPE]         = {"rope.scaling.type", SCALING},
    [HK_KEY_SCALING_FACTOR]       = {"rope.scaling.factor", SCALING},
    [HK_KEY_SCALING_ORIGINAL]     = {"rope.scaling.original_context_length", SCALING},
    [HK_KEY_SCALING_ATTN_FACTOR]  = {"rope.scaling.attn_factor", SIZE},
    [HK_KEY_YARN_BETA_FAST]       = {"rope.scaling.yarn_beta_fast", SIZE},
    [HK_KEY_YARN_BETA_SLOW]       = {"rope.scaling.yarn_beta_slow", SIZE},
    [HK_KEY_YARN_ATTN_FACTOR]     = {"rope.scaling.yarn_attn_factor", OTHER},
    [HK_KEY_YARN_EXT_FACTOR]      = {"rope.scaling.yarn_ext_factor", OTHER},
    [HK_KEY_YARN_LOG_MULTIPLIER]  = {"rope.scaling.yarn_log_multiplier", OTHER},
};
/* clang-format on */

unsigned hk_key_flags(enum hk_model_key key)
{
    return keys[key].flags;
}

struct hk_key_text hk_key_text(const char *architecture, enum hk_model_key key)
{
    struct hk_key_text text;
    const bool prefixed = (keys[key].flags & HK_KEY_PREFIXED) != 0;
    snprintf(text.s, sizeof text.s, "%s%s%s", prefixed ? architecture : "", prefixed ? "." : "",
             keys[key].name);
    return text;
}

struct hk_key_text hk_hidden_key_text(enum hk_model_key key)
{
    struct hk_key_text text;
    snprintf(text.s, sizeof text.s, "hk.%s", keys[key].name);
    return text;
}

enum hk_model_key hk_key_of_text(const char *architecture, struct hk_bytes text)
{
    unsigned key = 0;
    while (key < HK_MODEL_KEYS && !hk_bytes_are(text, hk_key_text(architecture, key).s) &&
           !((keys[key].flags & HK_KEY_HIDEABLE) != 0 &&
             hk_bytes_are(text, hk_hidden_key_text(key).s)))
        key++;
    return key;
}

/* ---- looking them up ---- */

static const struct hk_kv *find_in_file(const void *from, const char *key)
{
    return hk_kv_find(from, key);
}

static const struct hk_kv *find_in_list(const void *from, const char *key)
{
    return hk_kvlist_find(from, key);
}

struct hk_key_source hk_keys_of_file(const struct hk_file *f)
{
    return (struct hk_key_source){find_in_file, f, hk_tensor_count(f)};
}

struct hk_key_source hk_keys_of_list(const struct hk_kvlist *l)
{
    return (struct hk_key_source){find_in_list, l, SIZE_MAX};
}

const struct hk_kv *hk_key_find(const struct hk_key_source *s, const char *architecture,
                                enum hk_model_key key)
{
    const struct hk_kv *kv = s->find(s->from, hk_key_text(architecture, key).s);
    if (kv == NULL && (keys[key].flags & HK_KEY_HIDEABLE) != 0)
        kv = s->find(s->from, hk_hidden_key_text(key).s);
    return kv;
}
