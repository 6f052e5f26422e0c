/* llama.cpp wants a token for each row of the embedding. Rows beyond the vocabulary, which many
 * models have for the sake of their sizes, get names that no text gives, as its own converter makes
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/gguf/view.h"

enum { UNUSED = 5, MOST_TOKENS = 1 << 24, NAME_SIZE = 16 };

/* What a list of the vocabulary is filled up with. */
static const float no_score = -10000;

static const struct hk_tensor *embedding(const struct hk_file *f)
{
    for (size_t i = 0; i < f->tensor_count; i++)
        if (hk_bytes_are(f->tensors[i].name, "token_embd.weight"))
            return &f->tensors[i];
    return NULL;
}

/* The array of KIND under KEY; false where there is none. */
static bool list_of(const struct gguf_making *m, const char *key, enum hk_array_kind kind,
                    struct hk_array *out)
{
    const struct hk_kv *kv = hk_kvlist_find(&m->v->kvs, key);
    return kv != NULL && kv->type == HK_META_BYTES && hk_array_from_blob(kv->value, out) &&
           out->kind == kind;
}

static enum hk_status pad_names(struct gguf_making *m, const struct hk_array *tokens, uint32_t all,
                                struct hk_error *err)
{
    struct hk_bytes *names = calloc(all, sizeof *names);
    char *made = calloc(all - tokens->count, NAME_SIZE);
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
        char *name = made + (size_t)(i - tokens->count) * NAME_SIZE;
        const int n = snprintf(name, NAME_SIZE, "[PAD%u]", i);
        names[i] = (struct hk_bytes){(const uint8_t *)name, (size_t)n};
    }
    hk_kvlist_strings(&m->v->kvs, "tokenizer.ggml.tokens", names, all);
    free(names);
    free(made);
    return HK_OK;
}

static enum hk_status pad_types(struct gguf_making *m, uint32_t had, uint32_t all,
                                struct hk_error *err)
{
    struct hk_array types;
    if (!list_of(m, "tokenizer.ggml.token_type", HK_ARRAY_I32, &types) || types.count != had)
        return HK_OK;
    int32_t *v = calloc(all, sizeof *v);
    if (v == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < all; i++)
        v[i] = i < had ? hk_array_i32(&types, i) : UNUSED;
    hk_kvlist_i32s(&m->v->kvs, "tokenizer.ggml.token_type", v, all);
    free(v);
    return HK_OK;
}

static enum hk_status pad_scores(struct gguf_making *m, uint32_t had, uint32_t all,
                                 struct hk_error *err)
{
    struct hk_array scores;
    if (!list_of(m, "tokenizer.ggml.scores", HK_ARRAY_F32, &scores) || scores.count != had)
        return HK_OK;
    float *v = calloc(all, sizeof *v);
    if (v == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < all; i++)
        v[i] = i < had ? hk_array_f32(&scores, i) : no_score;
    hk_kvlist_f32s(&m->v->kvs, "tokenizer.ggml.scores", v, all);
    free(v);
    return HK_OK;
}

enum hk_status hk_gguf_pad_vocabulary(struct gguf_making *m, struct hk_error *err)
{
    struct hk_array tokens;
    const struct hk_tensor *t = embedding(m->v->file);
    if (t == NULL || t->ndim != 2 || t->shape[0] > MOST_TOKENS ||
        !list_of(m, "tokenizer.ggml.tokens", HK_ARRAY_STRING, &tokens) ||
        tokens.count >= t->shape[0])
        return HK_OK;
    const uint32_t had = tokens.count, all = (uint32_t)t->shape[0];
    enum hk_status status = pad_names(m, &tokens, all, err);
    if (status == HK_OK)
        status = pad_types(m, had, all, err);
    return status == HK_OK ? pad_scores(m, had, all, err) : status;
}
