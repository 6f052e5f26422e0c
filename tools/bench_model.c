/* What a model is made of: how it is quantised, its parameters, its bytes. */
#include <string.h>

#include "tools/bench.h"

/* Names of the numbers in general.file_type, those of GGUF files (llama_ftype; NULL: withdrawn). */
static const char *const file_types[] = {
    "f32",    "f16",    "q4_0",  "q4_1",    NULL,     NULL,     NULL,     "q8_0",
    "q5_0",   "q5_1",   "q2_k",  "q3_k_s",  "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m",
    "q5_k_s", "q5_k_m", "q6_k",  "iq2_xxs", "iq2_xs", "q2_k_s", "iq3_xs", "iq3_xxs",
    "iq1_s",  "iq4_nl", "iq3_s", "iq3_m",   "iq2_s",  "iq2_m",  "iq4_xs", "iq1_m",
    "bf16",   NULL,     NULL,    NULL,      "tq1_0",  "tq2_0",  "mxfp4",  "nvfp4",
};

static const char *file_type(const struct hk_file *f)
{
    int64_t v;
    const struct hk_kv *kv = hk_kv_find(f, "general.file_type");
    if (kv == NULL || hk_kv_int(kv, &v, NULL) != HK_OK || v < 0 ||
        (uint64_t)v >= sizeof file_types / sizeof *file_types)
        return NULL;
    return file_types[v];
}

/* A file type names the kind of its layers, "q4" in "q4_k_m", and a mix within it. Files made with
 * a type of one's own choice still carry the number of another kind. */
static bool same_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, "_");
    return n == strcspn(b, "_") && memcmp(a, b, n) == 0;
}

static bool in_layer(const struct hk_tensor *t)
{
    return t->name.n > 4 && memcmp(t->name.p, "blk.", 4) == 0;
}

enum { TYPES = 0x200 }; /* all known codes are below */

static unsigned most_of(const uint64_t *sum)
{
    unsigned best = 0;
    for (unsigned type = 1; type < TYPES; type++)
        if (sum[type] > sum[best])
            best = type;
    return best;
}

/* The storage type of most elements in layers; of a file without layers, in all tensors. */
static unsigned main_type(const struct hk_file *f)
{
    uint64_t all[TYPES] = {0}, layers[TYPES] = {0};
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        if (t->type >= TYPES)
            continue;
        all[t->type] += hk_tensor_elems(t);
        if (in_layer(t))
            layers[t->type] += hk_tensor_elems(t);
    }
    unsigned best = most_of(layers);
    return layers[best] > 0 ? best : most_of(all);
}

void bench_describe(const struct hk_file *f, struct bench_model *out)
{
    const struct hk_type_info *info = hk_type_info(main_type(f));
    const char *name = info != NULL ? info->name : "unknown", *named = file_type(f);
    if (named != NULL && same_kind(named, name))
        name = named;
    *out = (struct bench_model){0};
    snprintf(out->type, sizeof out->type, "%s", name);
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        if (t->type == HK_TYPE_SHARED_REF || t->type == HK_TYPE_NULL_REF)
            continue;
        out->params += hk_tensor_elems(t);
        out->size += t->data_size + t->scale_size + t->residual_size;
    }
}
