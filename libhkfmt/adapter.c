/* Adapters: the tensors of a payload brought together by module and tied to those of the base. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter.h"

struct hk_adapter {
    struct hk_low_rank *pairs;
    size_t pair_count;
    struct hk_replacement *whole;
    size_t whole_count;
    struct hk_arena arena; /* values */
};

struct reading {
    struct hk_adapter *a;
    const struct hk_file *f, *payload;
    struct hk_adapter_config config;
    struct hk_adapter_base base;
    bool pairs; /* rows of queries and keys are in neighbouring pairs in the base */
};

/* ---- the base ---- */

static enum hk_status base_order(struct reading *r, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(r->f, "hk.rope_style");
    struct hk_bytes style;
    r->pairs = r->base.family->pairs_in_gguf;
    if (kv == NULL)
        return HK_OK;
    enum hk_status status = hk_kv_string(kv, &style, err);
    if (status == HK_OK)
        r->pairs = hk_bytes_are(style, "norm");
    return status;
}

static enum hk_status read_base(struct reading *r, struct hk_error *err)
{
    enum hk_status status = hk_adapter_base_read(r->f, &r->base, err);
    return status == HK_OK ? base_order(r, err) : status;
}

/* The base's tensor that PEFT calls NAME. */
static enum hk_status find_base(const struct reading *r, const char *name,
                                const struct hk_tensor **out, struct hk_error *err)
{
    char own[HK_MAX_NAME + 1];
    enum hk_status status =
        hk_hf_name_from(r->base.family, r->base.layers,
                        (struct hk_bytes){(const uint8_t *)name, strlen(name)}, own, err);
    if (status != HK_OK)
        return status;
    *out = hk_tensor_find(r->f, own);
    if (*out == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "the base has no tensor '%s' (%s)", own,
                       name);
    return HK_OK;
}

/* ---- values ---- */

static enum hk_status decode(struct reading *r, const struct hk_tensor *t, float **out,
                             struct hk_error *err)
{
    const uint64_t n = hk_tensor_elems(t);
    struct hk_decoder *d;
    float *v =
        n <= SIZE_MAX / sizeof *v ? hk_arena_alloc(&r->a->arena, (size_t)n * sizeof *v + 1) : NULL;
    if (v == NULL)
        return hk_fail_nomem(err);
    enum hk_status status = hk_decoder_new(&d, r->payload, t, err);
    if (status != HK_OK)
        return status;
    hk_decoder_read(d, 0, (size_t)n, v);
    hk_decoder_free(&d);
    *out = v;
    return HK_OK;
}

/* ROWS rows of COLS values, halves of each head, into neighbouring pairs. */
static enum hk_status into_pairs(struct reading *r, float **values, uint64_t rows, uint64_t cols,
                                 uint32_t heads, struct hk_error *err)
{
    const uint64_t length = rows / heads;
    if (rows % heads != 0 || length % 2 != 0)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%llu rows are no %u heads of even length",
                       (unsigned long long)rows, heads);
    float *v = hk_arena_alloc(&r->a->arena, (size_t)(rows * cols) * sizeof *v + 1);
    if (v == NULL)
        return hk_fail_nomem(err);
    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t from = hk_row_source(HK_ROWS_TO_PAIRS, length, i);
        memcpy(v + i * cols, *values + from * cols, (size_t)cols * sizeof *v);
    }
    *values = v;
    return HK_OK;
}

/* Values of T, whose rows are those of BASE, in BASE's order. */
static enum hk_status decode_rows(struct reading *r, const struct hk_tensor *t,
                                  const struct hk_tensor *base, float **out, struct hk_error *err)
{
    bool key;
    enum hk_status status = decode(r, t, out, err);
    if (status != HK_OK || !r->pairs || !hk_hf_rotates(base->name, &key))
        return status;
    const uint64_t rows = t->ndim == 1 ? t->shape[0] : hk_tensor_rows(t);
    return into_pairs(r, out, rows, rows > 0 ? hk_tensor_elems(t) / rows : 0,
                      key ? r->base.kv_heads : r->base.heads, err);
}

/* ---- modules ---- */

static enum hk_status misfit(const struct hk_tensor *t, const char *why, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, t->entry_offset, "tensor '%.*s': %s", HK_STR(t->name), why);
}

static bool is_matrix(const struct hk_tensor *t, uint64_t rows, uint64_t cols)
{
    return t != NULL && t->ndim == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

/* The tensor of MODULE that has PART, or NULL. */
static const struct hk_tensor *part_of(const struct reading *r, const char *module,
                                       enum hk_adapter_part part)
{
    static const char *const names[][3] = {
        [HK_ADAPTER_A] = {".lora_A.weight", ".lora_A.default.weight", NULL},
        [HK_ADAPTER_B] = {".lora_B.weight", ".lora_B.default.weight", NULL},
        [HK_ADAPTER_MAGNITUDE] = {".lora_magnitude_vector", ".lora_magnitude_vector.weight",
                                  ".lora_magnitude_vector.default.weight"},
    };
    for (size_t i = 0; i < 3 && names[part][i] != NULL; i++) {
        char name[400];
        snprintf(name, sizeof name, "base_model.model.%s%s", module, names[part][i]);
        const struct hk_tensor *t = hk_tensor_find(r->payload, name);
        if (t != NULL)
            return t;
    }
    return NULL;
}

static enum hk_status add_magnitude(struct reading *r, const char *module, struct hk_low_rank *p,
                                    struct hk_error *err)
{
    const struct hk_tensor *m = part_of(r, module, HK_ADAPTER_MAGNITUDE);
    float *values;
    if (m == NULL && !r->config.dora)
        return HK_OK;
    if (m == NULL || !r->config.dora)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "module '%s' has %s", module,
                       m == NULL ? "no magnitude, but the adapter is a DoRA"
                                 : "a magnitude, but the adapter is no DoRA");
    if (hk_tensor_elems(m) != p->base->shape[0])
        return misfit(m, "it has not one value for each row of the base", err);
    enum hk_status status = decode_rows(r, m, p->base, &values, err);
    if (status == HK_OK)
        p->magnitude = values;
    return status;
}

static enum hk_status add_pair(struct reading *r, const char *module, const struct hk_tensor *a,
                               struct hk_error *err)
{
    struct hk_low_rank p = {0};
    char name[300];
    float *av, *bv;
    snprintf(name, sizeof name, "%s.weight", module);
    enum hk_status status = find_base(r, name, &p.base, err);
    if (status == HK_OK)
        status = hk_adapter_module(&r->config, module, &p.rank, &p.scale, err);
    if (status != HK_OK)
        return status;
    const struct hk_tensor *b = part_of(r, module, HK_ADAPTER_B);
    if (p.base->ndim != 2 || !is_matrix(a, p.rank, p.base->shape[1]))
        return misfit(a, "it is not [rank][columns of the base]", err);
    if (!is_matrix(b, p.base->shape[0], p.rank))
        return misfit(b != NULL ? b : a,
                      b != NULL ? "it is not [rows of the base][rank]" : "its lora_B is missing",
                      err);
    status = decode(r, a, &av, err);
    if (status == HK_OK)
        status = decode_rows(r, b, p.base, &bv, err);
    if (status == HK_OK)
        status = add_magnitude(r, module, &p, err);
    if (status != HK_OK)
        return status;
    p.a = av;
    p.b = bv;
    r->a->pairs[r->a->pair_count++] = p;
    return HK_OK;
}

static enum hk_status add_whole(struct reading *r, const char *name, const struct hk_tensor *t,
                                struct hk_error *err)
{
    struct hk_replacement w = {0};
    float *values;
    enum hk_status status = find_base(r, name, &w.base, err);
    if (status != HK_OK)
        return status;
    if (t->ndim != w.base->ndim || memcmp(t->shape, w.base->shape, sizeof t->shape) != 0)
        return misfit(t, "it has not the shape of the base's tensor", err);
    status = decode_rows(r, t, w.base, &values, err);
    if (status != HK_OK)
        return status;
    w.values = values;
    r->a->whole[r->a->whole_count++] = w;
    return HK_OK;
}

/* A module is taken with its A; a B or a magnitude without one is an error, and so is a second one,
 * of which nobody knows whether it counts. */
static enum hk_status add_tensor(struct reading *r, const struct hk_tensor *t, struct hk_error *err)
{
    char module[256];
    enum hk_adapter_part part;
    if (!hk_adapter_name(t->name, module, &part))
        return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                       "tensor '%.*s' is none of an adapter that can be applied", HK_STR(t->name));
    if (part == HK_ADAPTER_WHOLE)
        return add_whole(r, module, t, err);
    if (part_of(r, module, part) != t)
        return misfit(t, "its module has another one under another name", err);
    if (part == HK_ADAPTER_A)
        return add_pair(r, module, t, err);
    return part_of(r, module, HK_ADAPTER_A) != NULL ? HK_OK
                                                    : misfit(t, "its lora_A is missing", err);
}

static enum hk_status read_all(struct reading *r, struct hk_error *err)
{
    const size_t n = hk_tensor_count(r->payload);
    r->a->pairs = calloc(n + 1, sizeof *r->a->pairs);
    r->a->whole = calloc(n + 1, sizeof *r->a->whole);
    if (r->a->pairs == NULL || r->a->whole == NULL)
        return hk_fail_nomem(err);
    enum hk_status status = hk_adapter_config_read(&r->config, r->payload, err);
    if (status == HK_OK)
        status = read_base(r, err);
    for (size_t i = 0; status == HK_OK && i < n; i++)
        status = add_tensor(r, hk_tensor_at(r->payload, i), err);
    return status;
}

enum hk_status hk_adapter_open(struct hk_adapter **out, const struct hk_file *f, size_t record,
                               struct hk_error *err)
{
    struct hk_file *payload;
    enum hk_status status = hk_record_open(&payload, f, record, err);
    if (status != HK_OK)
        return status;
    struct reading r = {.a = calloc(1, sizeof *r.a), .f = f, .payload = payload};
    struct hk_error why = {0};
    status = r.a == NULL ? hk_fail_nomem(&why) : read_all(&r, &why);
    hk_adapter_config_free(&r.config);
    hk_close(&payload);
    if (status != HK_OK) {
        hk_adapter_free(&r.a);
        return hk_fail(err, status, hk_record_at(f, record)->offset, "record '%.*s': %s",
                       HK_STR(hk_record_at(f, record)->name), why.text);
    }
    *out = r.a;
    return HK_OK;
}

void hk_adapter_free(struct hk_adapter **adapter)
{
    struct hk_adapter *a = *adapter;
    if (a == NULL)
        return;
    hk_arena_free(&a->arena);
    free(a->pairs);
    free(a->whole);
    free(a);
    *adapter = NULL;
}

size_t hk_adapter_count(const struct hk_adapter *a)
{
    return a->pair_count;
}

const struct hk_low_rank *hk_adapter_at(const struct hk_adapter *a, size_t i)
{
    return i < a->pair_count ? &a->pairs[i] : NULL;
}

size_t hk_adapter_replacements(const struct hk_adapter *a)
{
    return a->whole_count;
}

const struct hk_replacement *hk_adapter_replacement(const struct hk_adapter *a, size_t i)
{
    return i < a->whole_count ? &a->whole[i] : NULL;
}
