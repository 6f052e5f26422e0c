/* What llama.cpp does not read of a model that did not come from a GGUF: told key by key; and the
 * name that it has for the split patterns, which it cannot be given otherwise. */
#include <stdio.h>
#include <string.h>

#include "libhkfmt/gguf/view.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/model/pre_patterns.h"

static const struct hk_kv *key_of(const struct gguf_making *m, const char *key)
{
    return hk_kvlist_find(&m->v->kvs, key);
}

static struct hk_bytes text_of(const struct hk_kv *kv)
{
    struct hk_bytes text = {0};
    if (kv != NULL && hk_kv_string(kv, &text, NULL) != HK_OK)
        text = (struct hk_bytes){0};
    return text;
}

/* ---- split patterns ---- */

static void tell_whole_words(const struct gguf_making *m, const struct hk_pre_tokenizer *row)
{
    const struct hk_kv *kv = key_of(m, "tokenizer.ggml.ignore_merges");
    bool whole = false;
    if (kv != NULL && hk_kv_bool(kv, &whole, NULL) == HK_OK && whole != row->whole_words)
        hk_lost(m->opt,
                "key tokenizer.ggml.ignore_merges is %s, but where 'tokenizer.ggml.pre' is '%s', "
                "llama.cpp %s",
                whole ? "true" : "false", row->name,
                whole ? "makes every word by merging" : "takes words that are tokens whole");
}

/* llama.cpp knows patterns by the name that tokenizer.ggml.pre has, and no others. */
static void settle_patterns(struct gguf_making *m, const struct hk_bytes *pattern, size_t n)
{
    const struct hk_kv *kv = key_of(m, "tokenizer.ggml.ignore_merges"),
                       *pre = key_of(m, "tokenizer.ggml.pre");
    bool whole = false;
    if (kv != NULL && hk_kv_bool(kv, &whole, NULL) != HK_OK)
        whole = false;
    const struct hk_pre_tokenizer *row = hk_pre_tokenizer_for(pattern, n, whole), *named = NULL;
    if (row != NULL && pre == NULL)
        hk_kvlist_text(&m->v->kvs, "tokenizer.ggml.pre", row->name);
    named = pre != NULL ? hk_pre_tokenizer(text_of(pre)) : row;
    if (row == NULL && pre == NULL)
        hk_lost(m->opt, "key tokenizer.hk.pre_regex: llama.cpp has no name for these split "
                        "patterns and will split texts otherwise");
    else if (named == NULL || row == NULL || !hk_pre_same(named, row))
        hk_lost(m->opt,
                "key tokenizer.hk.pre_regex: llama.cpp goes by 'tokenizer.ggml.pre', which is "
                "'%.*s', and will split texts otherwise",
                HK_STR(text_of(pre)));
    else
        tell_whole_words(m, named);
}

static void settle_split(struct gguf_making *m)
{
    enum { MOST = 16 }; /* that the engine takes */
    const struct hk_kv *own = key_of(m, "tokenizer.hk.pre_regex");
    struct hk_array a;
    struct hk_bytes pattern[MOST];
    if (own == NULL || hk_kv_array(own, HK_ARRAY_STRING, &a, NULL) != HK_OK)
        return;
    const size_t n = a.count < MOST ? a.count : MOST;
    for (uint32_t i = 0; i < n; i++)
        pattern[i] = hk_array_string(&a, i);
    settle_patterns(m, pattern, n);
    hk_array_free(&a);
}

/* ---- the tokenizer's other steps ---- */

static void tell_texts(const struct gguf_making *m)
{
    const struct hk_kv *form = key_of(m, "tokenizer.hk.normalizer"),
                       *prefix = key_of(m, "tokenizer.hk.space_prefix");
    if (form != NULL)
        hk_lost(m->opt, "key tokenizer.hk.normalizer is '%.*s': llama.cpp does not normalise texts",
                HK_STR(text_of(form)));
    if (prefix != NULL)
        hk_lost(m->opt,
                "key tokenizer.hk.space_prefix is '%.*s': llama.cpp puts a blank before a text "
                "and behind each special token, also where one is there",
                HK_STR(text_of(prefix)));
}

/* Pairs of id and flags. */
static void tell_flags(const struct gguf_making *m)
{
    enum { LSTRIP = 1, RSTRIP = 2, SINGLE_WORD = 8 };
    const struct hk_kv *kv = key_of(m, "tokenizer.hk.added_flags");
    struct hk_array a;
    uint32_t count = 0;
    if (kv == NULL || hk_kv_array(kv, HK_ARRAY_I32, &a, NULL) != HK_OK)
        return;
    for (uint32_t i = 1; i < a.count; i += 2)
        count += (hk_array_i32(&a, i) & (LSTRIP | RSTRIP | SINGLE_WORD)) != 0;
    hk_array_free(&a);
    if (count > 0)
        hk_lost(m->opt,
                "key tokenizer.hk.added_flags: llama.cpp does not know lstrip, rstrip and "
                "single_word, which %u added token%s",
                count, count == 1 ? " has" : "s have");
}

/* ---- end tokens ---- */

/* Spellings by which llama.cpp takes a token for an end of texts. */
static bool ends_by_name(struct hk_bytes piece)
{
    static const char *const names[] = {
        "<|eot_id|>", "<|im_end|>",      "<|end|>",
        "<|return|>", "<|call|>",        "<|flush|>",
        "<|calls|>",  "<end_of_turn>",   "<|endoftext|>",
        "<|eom_id|>", "<EOT>",           "_<EOT>",
        "</s>",       "<eos>",           "[EOT]",
        "[EOS]",      "<|end_of_text|>", "<end_of_utterance>",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (hk_bytes_are(piece, names[i]))
            return true;
    return false;
}

static bool is_end_key(const struct gguf_making *m, int64_t id)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct hk_kv *kv = key_of(m, keys[i]);
        int64_t v;
        if (kv != NULL && hk_kv_int(kv, &v, NULL) == HK_OK && v == id)
            return true;
    }
    return false;
}

static void tell_ends(const struct gguf_making *m)
{
    const struct hk_kv *kv = key_of(m, "tokenizer.hk.eog_ids"),
                       *tokens = key_of(m, "tokenizer.ggml.tokens");
    struct hk_array ids, pieces = {0};
    if (kv == NULL || hk_kv_array(kv, HK_ARRAY_I32, &ids, NULL) != HK_OK)
        return;
    if (tokens != NULL && hk_kv_array(tokens, HK_ARRAY_STRING, &pieces, NULL) != HK_OK)
        pieces = (struct hk_array){0};
    for (uint32_t i = 0; i < ids.count; i++) {
        const int32_t id = hk_array_i32(&ids, i);
        if (is_end_key(m, id) || id < 0 || (uint32_t)id >= pieces.count ||
            ends_by_name(hk_array_string(&pieces, (uint32_t)id)))
            continue;
        hk_lost(m->opt,
                "key tokenizer.hk.eog_ids: llama.cpp does not know that token %d ('%.*s') ends a "
                "text",
                id, HK_STR(hk_array_string(&pieces, (uint32_t)id)));
    }
    hk_array_free(&pieces);
    hk_array_free(&ids);
}

/* ---- settings ---- */

/* How transformers would choose tokens. */
static void tell_generation(const struct gguf_making *m)
{
    static const char *const fields[] = {
        "temperature",    "top_k",           "top_p",
        "min_p",          "typical_p",       "repetition_penalty",
        "epsilon_cutoff", "suppress_tokens", "no_repeat_ngram_size",
    };
    const struct hk_kv *kv = key_of(m, "hk.hf.generation_config");
    const struct hk_bytes text = text_of(kv);
    json_t *json = NULL;
    char names[160] = "";
    size_t n = 0;
    if (kv == NULL || hk_hf_parse("", text, &json, NULL) != HK_OK)
        return;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (hk_hf_field(json, fields[i]) != NULL)
            n +=
                (size_t)snprintf(names + n, sizeof names - n, "%s%s", n > 0 ? ", " : "", fields[i]);
    json_decref(json);
    if (n > 0)
        hk_lost(m->opt, "key hk.hf.generation_config: llama.cpp does not see %s", names);
}

void hk_gguf_tell_lost(struct gguf_making *m)
{
    settle_split(m);
    tell_texts(m);
    tell_flags(m);
    tell_ends(m);
    tell_generation(m);
}
