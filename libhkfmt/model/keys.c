/* Keys of metadata that describe a model, and looking them up. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/model/model.h"

enum {
    OWN = HK_KEY_IN_CONFIG,
    SIZE = HK_KEY_PREFIXED | HK_KEY_IN_CONFIG,
    SCALING = HK_KEY_PREFIXED | HK_KEY_IN_CONFIG | HK_KEY_HIDEABLE,
    READ = HK_KEY_PREFIXED,
};

static const struct {
    const char *name;
    unsigned flags;
} keys[HK_MODEL_KEYS] = {
#define X(key, name, flags) [HK_KEY_##key] = {name, flags},
    HK_MODEL_KEY_LIST(X)
#undef X
};

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
