/* What a model is, for people: names, sizes, storage types. Nothing is refused: what a file does
 * not say, or says wrongly, is left out. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/model/model.h"

/* ---- storage types ---- */

/* Names of the numbers in general.file_type, those of GGUF files (llama_ftype; NULL: withdrawn). */
static const char *const file_types[] = {
    "f32",    "f16",    "q4_0",  "q4_1",    NULL,     NULL,     NULL,     "q8_0",
    "q5_0",   "q5_1",   "q2_k",  "q3_k_s",  "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m",
    "q5_k_s", "q5_k_m", "q6_k",  "iq2_xxs", "iq2_xs", "q2_k_s", "iq3_xs", "iq3_xxs",
    "iq1_s",  "iq4_nl", "iq3_s", "iq3_m",   "iq2_s",  "iq2_m",  "iq4_xs", "iq1_m",
    "bf16",   NULL,     NULL,    NULL,      "tq1_0",  "tq2_0",  "mxfp4",  "nvfp4",
};

static const char *stored_file_type(const struct hk_file *f)
{
    int64_t v;
    const struct hk_kv *kv = hk_kv_find(f, HK_FILE_TYPE_KEY);
    if (kv == NULL || hk_kv_int(kv, &v, NULL) != HK_OK || v < 0 ||
        (uint64_t)v >= sizeof file_types / sizeof *file_types)
        return NULL;
    return file_types[v];
}

/* A file type names the kind of its layers, "q4" in "q4_k_m", and a mix within it. Files made with
 * a type of one's own choice still carry the number of another kind. */
static bool same_quant_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, "_");
    return n == strcspn(b, "_") && memcmp(a, b, n) == 0;
}

static bool is_layer_tensor(const struct hk_tensor *t)
{
    return t->name.n > 4 && memcmp(t->name.p, "blk.", 4) == 0;
}

static struct hk_type_share *share_of_type(struct hk_model_facts *m, unsigned type)
{
    for (size_t i = 0; i < m->shares; i++)
        if (m->share[i].type == type)
            return &m->share[i];
    if (m->shares == HK_FACTS_TYPES)
        return NULL;
    m->share[m->shares].type = type;
    return &m->share[m->shares++];
}

static int compare_shares(const void *a, const void *b)
{
    const struct hk_type_share *x = a, *y = b;
    return x->params != y->params ? (x->params < y->params) - (x->params > y->params)
                                  : (x->type > y->type) - (x->type < y->type);
}

/* Add the tensors of F to M, all or those in layers. */
static void add_tensors(struct hk_model_facts *m, const struct hk_file *f, bool layers)
{
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        if (t->type == HK_TYPE_SHARED_REF || t->type == HK_TYPE_NULL_REF ||
            (layers && !is_layer_tensor(t)))
            continue;
        const uint64_t params = hk_tensor_elems(t);
        const uint64_t bytes = t->data_size + t->scale_size + t->residual_size;
        struct hk_type_share *share = share_of_type(m, t->type);
        m->params += params;
        m->bytes += bytes;
        if (share != NULL) {
            share->params += params;
            share->bytes += bytes;
        }
    }
    qsort(m->share, m->shares, sizeof *m->share, compare_shares);
}

static const char *name_main_type(const struct hk_file *f, const struct hk_model_facts *all)
{
    struct hk_model_facts layers = {0};
    add_tensors(&layers, f, true);
    const struct hk_model_facts *m = layers.params > 0 ? &layers : all;
    if (m->shares == 0)
        return NULL;
    const struct hk_type_info *info = hk_type_info(m->share[0].type);
    const char *name = info != NULL ? info->name : "unknown", *named = stored_file_type(f);
    return named != NULL && same_quant_kind(named, name) ? named : name;
}

/* ---- metadata ---- */

static struct hk_bytes text_fact(const struct hk_file *f, const char *key)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    struct hk_bytes text = {0};
    return kv != NULL && hk_kv_string(kv, &text, NULL) == HK_OK ? text : (struct hk_bytes){0};
}

static int64_t size_fact(const struct hk_file *f, const char *architecture, enum hk_model_key key)
{
    const struct hk_kv *kv = hk_kv_find(f, hk_key_text(architecture, key).s);
    int64_t v = 0;
    return kv != NULL && hk_kv_int(kv, &v, NULL) == HK_OK && v > 0 ? v : 0;
}

static int64_t count_tokens(const struct hk_file *f)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_TOKENS);
    struct hk_array tokens = {0};
    if (kv == NULL || hk_kv_array(kv, HK_ARRAY_STRING, &tokens, NULL) != HK_OK)
        return 0;
    const int64_t n = tokens.count;
    hk_array_free(&tokens);
    return n;
}

void hk_model_facts(const struct hk_file *f, struct hk_model_facts *out)
{
    char architecture[64];
    *out = (struct hk_model_facts){.name = text_fact(f, HK_FILE_NAME_KEY),
                                   .architecture =
                                       text_fact(f, hk_key_text(NULL, HK_KEY_ARCHITECTURE).s)};
    add_tensors(out, f, false);
    out->type = name_main_type(f, out);
    out->vocab = count_tokens(f);
    if (out->architecture.n == 0 || out->architecture.n >= sizeof architecture)
        return;
    memcpy(architecture, out->architecture.p, out->architecture.n);
    architecture[out->architecture.n] = '\0';
    out->context = size_fact(f, architecture, HK_KEY_CONTEXT_LENGTH);
    out->hidden = size_fact(f, architecture, HK_KEY_EMBEDDING_LENGTH);
    out->layers = size_fact(f, architecture, HK_KEY_BLOCK_COUNT);
}
