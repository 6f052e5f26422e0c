/* A .hk as llama.cpp wants it: rows of queries and keys in the order that it rotates for the
 * architecture, rope scaling in its own terms, vectors in f32, a token for each row of the
 * embedding, no output matrix that is the embedding again; and a line on each key that it does not
 * read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/copying.h"
#include "libhkfmt/convert/view.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/model/model.h"
#include "libhkfmt/model/pre_patterns.h"
#include "libhkfmt/model/vocabulary.h"

struct gguf_making {
    struct hk_view *v; /* its metadata is still the list V->kvs */
    const struct hk_convert_options *opt;
    struct hk_model_params model; /* family NULL: not known, or nothing is to be done for it */
};

/* ---- order of rows ---- */

static enum hk_status reorder_rotated_rows(struct gguf_making *m, enum hk_row_order order,
                                           struct hk_error *err)
{
    const struct hk_model_params *p = &m->model;
    enum hk_status st = hk_params_need(p, HK_KEY_HEAD_COUNT, p->heads, err);
    if (st == HK_OK)
        st = hk_params_need(p, HK_KEY_EMBEDDING_LENGTH, p->key_dim, err);
    if (st == HK_OK && p->rope_dims != p->key_dim)
        st = hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                     "key %s: rows of heads that are rotated in part are not reordered for GGUF",
                     hk_key_text(p->architecture, HK_KEY_ROPE_DIMENSION_COUNT).s);
    for (size_t i = 0; st == HK_OK && i < m->v->file->tensor_count; i++) {
        const uint32_t heads = hk_rotating_heads(p, m->v->file->tensors[i].name);
        if (heads > 0)
            st = hk_view_reorder(m->v, i, order, heads, err);
    }
    return st;
}

static enum hk_status settle_row_order(struct gguf_making *m, struct hk_error *err)
{
    const bool halves = m->model.halves;
    hk_kvlist_remove(&m->v->kvs, hk_key_text("", HK_KEY_ROPE_STYLE).s);
    if (halves != m->model.family->pairs_in_gguf)
        return HK_OK;
    return reorder_rotated_rows(m, halves ? HK_ROWS_TO_PAIRS : HK_ROWS_TO_HALVES, err);
}

/* ---- the vocabulary ----
 * llama.cpp needs a token for each row of the embedding. Rows beyond the vocabulary, which many
 * models have for the sake of their sizes, get names that no text gives, as its own converter makes
 * them. */

enum { MOST_TOKENS = 1 << 24 };

/* What a list of the vocabulary is filled up with. */
static const float no_score = -10000;

static const struct hk_tensor *find_embedding(const struct hk_file *f)
{
    for (size_t i = 0; i < f->tensor_count; i++)
        if (hk_bytes_are(f->tensors[i].name, hk_tensor_role_name(HK_ROLE_EMBEDDING)))
            return &f->tensors[i];
    return NULL;
}

/* The array of KIND under KEY; false where there is none. */
static bool find_array_of_kind(const struct gguf_making *m, enum hk_vocab_key key,
                               enum hk_array_kind kind, struct hk_array *out)
{
    const struct hk_kv *kv = hk_kvlist_find(&m->v->kvs, hk_vocab_key(key));
    return kv != NULL && kv->type == HK_META_BYTES && hk_array_from_blob(kv->value, out) &&
           out->kind == kind;
}

static enum hk_status pad_token_names(struct gguf_making *m, const struct hk_array *tokens,
                                      uint32_t all, struct hk_error *err)
{
    struct hk_bytes *names = calloc(all, sizeof *names);
    char *made = calloc(all - tokens->count, HK_VOCAB_PADDING_SIZE);
    if (names == NULL || made == NULL) {
        free(names);
        free(made);
        return hk_fail_nomem(err);
    }
    for (uint32_t i = 0; i < all; i++) {
        if (i < tokens->count) {
            names[i] = hk_array_string(tokens, i);
            continue;
        }
        char *name = made + (size_t)(i - tokens->count) * HK_VOCAB_PADDING_SIZE;
        hk_vocab_put_padding(i, name);
        names[i] = hk_bytes_of(name);
    }
    hk_kvlist_strings(&m->v->kvs, hk_vocab_key(HK_VOCAB_TOKENS), names, all);
    free(names);
    free(made);
    return HK_OK;
}

static enum hk_status pad_token_types(struct gguf_making *m, uint32_t had, uint32_t all,
                                      struct hk_error *err)
{
    struct hk_array types;
    if (!find_array_of_kind(m, HK_VOCAB_TYPES, HK_ARRAY_I32, &types) || types.count != had)
        return HK_OK;
    int32_t *v = calloc(all, sizeof *v);
    if (v == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < all; i++)
        v[i] = i < had ? hk_array_i32(&types, i) : HK_TOKEN_UNUSED;
    hk_kvlist_i32s(&m->v->kvs, hk_vocab_key(HK_VOCAB_TYPES), v, all);
    free(v);
    return HK_OK;
}

static enum hk_status pad_token_scores(struct gguf_making *m, uint32_t had, uint32_t all,
                                       struct hk_error *err)
{
    struct hk_array scores;
    if (!find_array_of_kind(m, HK_VOCAB_SCORES, HK_ARRAY_F32, &scores) || scores.count != had)
        return HK_OK;
    float *v = calloc(all, sizeof *v);
    if (v == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < all; i++)
        v[i] = i < had ? hk_array_f32(&scores, i) : no_score;
    hk_kvlist_f32s(&m->v->kvs, hk_vocab_key(HK_VOCAB_SCORES), v, all);
    free(v);
    return HK_OK;
}

static enum hk_status pad_vocabulary(struct gguf_making *m, struct hk_error *err)
{
    struct hk_array tokens;
    const struct hk_tensor *t = find_embedding(m->v->file);
    if (t == NULL || t->ndim != 2 || t->shape[0] > MOST_TOKENS ||
        !find_array_of_kind(m, HK_VOCAB_TOKENS, HK_ARRAY_STRING, &tokens) ||
        tokens.count >= t->shape[0])
        return HK_OK;
    const uint32_t had = tokens.count, all = (uint32_t)t->shape[0];
    enum hk_status st = pad_token_names(m, &tokens, all, err);
    if (st == HK_OK)
        st = pad_token_types(m, had, all, err);
    return st == HK_OK ? pad_token_scores(m, had, all, err) : st;
}

/* ---- what llama.cpp does not read ---- */

static const struct hk_kv *find_view_key(const struct gguf_making *m, enum hk_vocab_key key)
{
    return hk_kvlist_find(&m->v->kvs, hk_vocab_key(key));
}

static struct hk_bytes text_of_kv(const struct hk_kv *kv)
{
    struct hk_bytes text = {0};
    if (kv != NULL && hk_kv_string(kv, &text, NULL) != HK_OK)
        text = (struct hk_bytes){0};
    return text;
}

/* ---- split patterns ---- */

static void report_whole_words(const struct gguf_making *m, const struct hk_pre_tokenizer *row)
{
    const struct hk_kv *kv = find_view_key(m, HK_VOCAB_IGNORE_MERGES);
    bool whole = false;
    if (kv != NULL && hk_kv_bool(kv, &whole, NULL) == HK_OK && whole != row->whole_words)
        hk_report_loss(m->opt, "key %s is %s, but where '%s' is '%s', llama.cpp %s",
                       hk_vocab_key(HK_VOCAB_IGNORE_MERGES), whole ? "true" : "false",
                       hk_vocab_key(HK_VOCAB_PRE), row->name,
                       whole ? "makes every word by merging" : "takes words that are tokens whole");
}

/* llama.cpp knows patterns by the name that tokenizer.ggml.pre has, and no others. */
static void settle_split_patterns(struct gguf_making *m, const struct hk_bytes *pattern, size_t n)
{
    const struct hk_kv *kv = find_view_key(m, HK_VOCAB_IGNORE_MERGES),
                       *pre = find_view_key(m, HK_VOCAB_PRE);
    bool whole = false;
    if (kv != NULL && hk_kv_bool(kv, &whole, NULL) != HK_OK)
        whole = false;
    const struct hk_pre_tokenizer *row = hk_pre_tokenizer_for(pattern, n, whole), *named = NULL;
    if (row != NULL && pre == NULL)
        hk_kvlist_text(&m->v->kvs, hk_vocab_key(HK_VOCAB_PRE), row->name);
    named = pre != NULL ? hk_pre_tokenizer(text_of_kv(pre)) : row;
    if (row == NULL && pre == NULL)
        hk_report_loss(
            m->opt,
            "key %s: llama.cpp has no name for these split patterns and will split texts otherwise",
            hk_vocab_key(HK_VOCAB_SPLITS));
    else if (named == NULL || row == NULL || !hk_pre_same(named, row))
        hk_report_loss(
            m->opt,
            "key %s: llama.cpp goes by '%s', which is '%.*s', and will split texts otherwise",
            hk_vocab_key(HK_VOCAB_SPLITS), hk_vocab_key(HK_VOCAB_PRE), HK_STR(text_of_kv(pre)));
    else
        report_whole_words(m, named);
}

static void settle_pre_tokenizer(struct gguf_making *m)
{
    const struct hk_kv *own = find_view_key(m, HK_VOCAB_SPLITS);
    struct hk_array a;
    struct hk_bytes pattern[HK_PRE_MAX_PATTERNS];
    if (own == NULL || hk_kv_array(own, HK_ARRAY_STRING, &a, NULL) != HK_OK)
        return;
    const size_t n = a.count < HK_PRE_MAX_PATTERNS ? a.count : HK_PRE_MAX_PATTERNS;
    for (uint32_t i = 0; i < n; i++)
        pattern[i] = hk_array_string(&a, i);
    settle_split_patterns(m, pattern, n);
    hk_array_free(&a);
}

/* ---- the tokenizer's other steps ---- */

static void report_text_steps(const struct gguf_making *m)
{
    const struct hk_kv *form = find_view_key(m, HK_VOCAB_NORMALIZER),
                       *prefix = find_view_key(m, HK_VOCAB_PREFIX_SCHEME);
    if (form != NULL)
        hk_report_loss(m->opt, "key %s is '%.*s': llama.cpp does not normalise texts",
                       hk_vocab_key(HK_VOCAB_NORMALIZER), HK_STR(text_of_kv(form)));
    if (prefix != NULL)
        hk_report_loss(
            m->opt,
            "key %s is '%.*s': llama.cpp puts a space before a text and behind each special "
            "token, also where one is there",
            hk_vocab_key(HK_VOCAB_PREFIX_SCHEME), HK_STR(text_of_kv(prefix)));
}

/* Pairs of id and flags. */
static void report_token_flags(const struct gguf_making *m)
{
    const struct hk_kv *kv = find_view_key(m, HK_VOCAB_ADDED_FLAGS);
    struct hk_array a;
    uint32_t count = 0;
    if (kv == NULL || hk_kv_array(kv, HK_ARRAY_I32, &a, NULL) != HK_OK)
        return;
    for (uint32_t i = 1; i < a.count; i += 2)
        count +=
            (hk_array_i32(&a, i) & (HK_ADDED_LSTRIP | HK_ADDED_RSTRIP | HK_ADDED_SINGLE_WORD)) != 0;
    hk_array_free(&a);
    if (count > 0)
        hk_report_loss(
            m->opt,
            "key %s: llama.cpp does not know lstrip, rstrip and single_word, which %u added "
            "token%s",
            hk_vocab_key(HK_VOCAB_ADDED_FLAGS), count, count == 1 ? " has" : "s have");
}

/* ---- end tokens ---- */

/* Spellings by which llama.cpp takes a token for an end of texts. */
static bool is_end_token_name(struct hk_bytes piece)
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

static bool is_end_token_id(const struct gguf_making *m, int64_t id)
{
    static const enum hk_vocab_key keys[] = {HK_VOCAB_EOS, HK_VOCAB_EOT, HK_VOCAB_EOM};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct hk_kv *kv = find_view_key(m, keys[i]);
        int64_t v;
        if (kv != NULL && hk_kv_int(kv, &v, NULL) == HK_OK && v == id)
            return true;
    }
    return false;
}

static void report_end_tokens(const struct gguf_making *m)
{
    const struct hk_kv *kv = find_view_key(m, HK_VOCAB_END_IDS),
                       *tokens = find_view_key(m, HK_VOCAB_TOKENS);
    struct hk_array ids, pieces = {0};
    if (kv == NULL || hk_kv_array(kv, HK_ARRAY_I32, &ids, NULL) != HK_OK)
        return;
    if (tokens != NULL && hk_kv_array(tokens, HK_ARRAY_STRING, &pieces, NULL) != HK_OK)
        pieces = (struct hk_array){0};
    for (uint32_t i = 0; i < ids.count; i++) {
        const int32_t id = hk_array_i32(&ids, i);
        if (is_end_token_id(m, id) || id < 0 || (uint32_t)id >= pieces.count ||
            is_end_token_name(hk_array_string(&pieces, (uint32_t)id)))
            continue;
        hk_report_loss(m->opt, "key %s: llama.cpp does not know that token %d ('%.*s') ends a text",
                       hk_vocab_key(HK_VOCAB_END_IDS), id,
                       HK_STR(hk_array_string(&pieces, (uint32_t)id)));
    }
    hk_array_free(&pieces);
    hk_array_free(&ids);
}

/* ---- settings ---- */

/* How transformers would choose tokens. */
static void report_generation_settings(const struct gguf_making *m)
{
    static const char *const fields[] = {
        "temperature",    "top_k",           "top_p",
        "min_p",          "typical_p",       "repetition_penalty",
        "epsilon_cutoff", "suppress_tokens", "no_repeat_ngram_size",
    };
    const struct hk_kv *kv =
        hk_kvlist_find(&m->v->kvs, hk_key_text("", HK_KEY_GENERATION_CONFIG).s);
    const struct hk_bytes text = text_of_kv(kv);
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
        hk_report_loss(m->opt, "key %s: llama.cpp does not see %s",
                       hk_key_text("", HK_KEY_GENERATION_CONFIG).s, names);
}

static void report_unread_keys(struct gguf_making *m)
{
    settle_pre_tokenizer(m);
    report_text_steps(m);
    report_token_flags(m);
    report_end_tokens(m);
    report_generation_settings(m);
}

/* ---- rope scaling ---- */

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

/* llama3 scaling becomes the tensor rope_freqs.weight; what GGUF has no terms for moves to keys
 * that only .hk reads. */
static enum hk_status settle_rope_scaling(struct gguf_making *m, struct hk_error *err)
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

/* ---- the whole ---- */

/* llama.cpp takes the embedding where there is no output matrix. */
static void drop_tied_output(struct hk_view *v)
{
    const struct hk_tensor *t = hk_tensor_find(v->from, hk_tensor_role_name(HK_ROLE_OUTPUT));
    bool tied;
    if (t != NULL && hk_output_is_tied(v->from, false, &tied, NULL) == HK_OK && tied)
        hk_view_drop(v, (size_t)(t - v->from->tensors));
}

/* llama.cpp needs 1-D tensors in f32, and the router's. */
static enum hk_status widen_vectors(struct hk_view *v, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < v->file->tensor_count; i++) {
        const struct hk_tensor *t = &v->file->tensors[i];
        if ((t->ndim == 1 || hk_tensor_is_wide_in_gguf(t->name)) &&
            (t->type == HK_TYPE_F16 || t->type == HK_TYPE_BF16))
            st = hk_view_decode(v, i, HK_TYPE_F32, err);
    }
    return st;
}

/* They stay in the file, but llama.cpp reads them for other architectures only. */
static void report_yarn_betas(const struct gguf_making *m)
{
    static const struct {
        enum hk_model_key key;
        double usual;
    } betas[] = {{HK_KEY_YARN_BETA_FAST, 32}, {HK_KEY_YARN_BETA_SLOW, 1}};
    for (size_t i = 0; i < sizeof betas / sizeof *betas; i++) {
        const struct hk_key_text key = hk_key_text(m->model.architecture, betas[i].key);
        const struct hk_kv *kv = hk_kvlist_find(&m->v->kvs, key.s);
        double v = betas[i].usual;
        if (kv != NULL && hk_kv_float(kv, &v, NULL) == HK_OK && v != betas[i].usual)
            hk_report_loss(m->opt, "key %s is %g, but llama.cpp takes %g for this architecture",
                           key.s, v, betas[i].usual);
    }
}

/* What GGUF calls the family, where a .hk has another name for it. */
static enum hk_status rename_gguf_architecture(struct gguf_making *m, struct hk_error *err)
{
    const char *from = m->model.architecture, *to = m->model.family->architecture;
    const size_t n = strlen(from);
    struct hk_kvlist *l = &m->v->kvs;
    if (strcmp(from, to) == 0)
        return HK_OK;
    for (size_t i = 0; i < l->count; i++) {
        struct hk_bytes *key = &l->kvs[i].key;
        if (key->n <= n || memcmp(key->p, from, n) != 0 || key->p[n] != '.')
            continue;
        const size_t rest = key->n - n, size = strlen(to) + rest;
        uint8_t *p = hk_arena_alloc(l->arena, size);
        if (p == NULL)
            return hk_fail_nomem(err);
        memcpy(p, to, size - rest);
        memcpy(p + size - rest, key->p + n, rest);
        *key = (struct hk_bytes){p, size};
    }
    hk_kvlist_text(l, hk_key_text("", HK_KEY_ARCHITECTURE).s, to);
    m->model.architecture = to;
    return HK_OK;
}

/* Models from elsewhere have a style of rows; a GGUF comes back as it was. */
static enum hk_status settle_styled(struct gguf_making *m, struct hk_error *err)
{
    enum hk_status st = settle_row_order(m, err);
    if (st == HK_OK) {
        report_yarn_betas(m);
        st = widen_vectors(m->v, err);
    }
    if (st == HK_OK)
        st = pad_vocabulary(m, err);
    return st == HK_OK ? rename_gguf_architecture(m, err) : st;
}

/* Whether the model's scaling is one that GGUF has otherwise. */
static bool scales_otherwise(const struct hk_key_source *keys, const char *architecture)
{
    const struct hk_kv *kv = hk_key_find(keys, architecture, HK_KEY_SCALING_TYPE);
    struct hk_bytes name;
    enum hk_rope_kind kind;
    return kv != NULL && hk_kv_string(kv, &name, NULL) == HK_OK && hk_rope_kind_of(name, &kind) &&
           (kind == HK_ROPE_LLAMA3 || kind == HK_ROPE_DYNAMIC);
}

/* A model that nothing is to be done for need not be one that is known. */
static enum hk_status read_gguf_model(struct gguf_making *m, bool styled, struct hk_error *err)
{
    const struct hk_key_source keys = hk_keys_of_list(&m->v->kvs);
    const struct hk_family *family;
    const char *architecture;
    const bool known = hk_family_read(&keys, &family, &architecture, NULL) == HK_OK;
    if (styled || (known && scales_otherwise(&keys, architecture)))
        return hk_params_read(&keys, HK_PARAMS_TO_KNOW, &m->model, err);
    return HK_OK;
}

static enum hk_status settle_gguf_view(struct gguf_making *m, struct hk_error *err)
{
    const bool styled = hk_kvlist_find(&m->v->kvs, hk_key_text("", HK_KEY_ROPE_STYLE).s) != NULL;
    drop_tied_output(m->v);
    enum hk_status st = read_gguf_model(m, styled, err);
    if (st == HK_OK && styled)
        st = settle_styled(m, err);
    if (st == HK_OK)
        st = settle_rope_scaling(m, err);
    if (st == HK_OK)
        report_unread_keys(m);
    return st == HK_OK ? hk_view_ready(m->v, err) : st;
}

enum hk_status hk_view_for_gguf(struct hk_view **out, struct hk_file *f,
                                const struct hk_convert_options *opt, struct hk_error *err)
{
    struct gguf_making m = {.opt = opt};
    *out = NULL;
    if (f->format == HK_FORMAT_GGUF || f->stream != NULL)
        return HK_OK;
    enum hk_status st = hk_view_new(&m.v, f, err);
    if (st == HK_OK) {
        m.v->max_output = opt->max_output;
        st = settle_gguf_view(&m, err);
    }
    if (st != HK_OK)
        hk_view_free(&m.v);
    *out = m.v;
    return st;
}
