/* Adapters: the tensors of a payload brought together by module and tied to those of the base. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"

/* ---- modules ---- */

static bool is_matrix_of(const struct hk_tensor *t, uint64_t rows, uint64_t cols)
{
    return t != NULL && t->ndim == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

/* The tensor of MODULE that has PART, or NULL. */
static const struct hk_tensor *find_part(const struct hk_adapter_reading *r, const char *module,
                                         enum hk_adapter_part part)
{
    char name[512];
    for (size_t i = 0; hk_adapter_part_name(module, part, i, name); i++) {
        const struct hk_tensor *t = hk_tensor_find(r->payload, name);
        if (t != NULL)
            return t;
    }
    return NULL;
}

/* A tied weight that the adapter changes in one of its uses is not to stay tied. */
static enum hk_status check_weight_tying(const struct hk_adapter_reading *r, const char *name,
                                         enum hk_weight_use use, struct hk_error *err)
{
    return r->config.ties && r->base.tied && use != HK_USE_MATRIX
               ? hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                         "adapter_config.json: key ensure_weight_tying is not supported for %s",
                         name)
               : HK_OK;
}

/* The base's weight of MODULE, which T is a part of the adapter of. */
static enum hk_status find_base_weight(const struct hk_adapter_reading *r,
                                       const struct hk_tensor *t, const char *module,
                                       const struct hk_tensor **base, enum hk_weight_use *use,
                                       struct hk_error *err)
{
    char name[300];
    snprintf(name, sizeof name, "%s.weight", module);
    enum hk_status st = hk_adapter_base_find(&r->base, name, base, use, err);
    if (st == HK_OK && (*base)->ndim != 2)
        st = hk_adapter_misfit(t, "its module's weight is no matrix", err);
    return st == HK_OK ? check_weight_tying(r, name, *use, err) : st;
}

/* ---- what is changed how, so that nothing is changed in two ways that exclude each other ---- */

enum { BY_PAIR = 1, BY_WHOLE = 2, BY_ROWS = 4 };

static unsigned *marks_of_base(struct hk_adapter_reading *r, const struct hk_tensor *base)
{
    return &r->marks[base - r->base.file->tensors];
}

/* Note that T changes USE of BASE, which nothing of WITHOUT may do too. */
static enum hk_status mark_change(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                  const struct hk_tensor *base, enum hk_weight_use use,
                                  unsigned how, unsigned without, struct hk_error *err)
{
    enum { BITS = 3 };
    unsigned *marks = marks_of_base(r, base), uses = 1u << use;
    if (use == HK_USE_BOTH)
        uses = 1u << HK_USE_EMBEDDING | 1u << HK_USE_HEAD;
    for (unsigned i = 0; i < HK_USE_BOTH; i++) {
        if ((uses >> i & 1) == 0)
            continue;
        if ((*marks >> (BITS * i) & without) != 0)
            return hk_adapter_misfit(t,
                                     "the adapter has another change of the same weight, and "
                                     "the two exclude each other",
                                     err);
        *marks |= how << (BITS * i);
    }
    return HK_OK;
}

/* ---- pairs ---- */

static enum hk_status add_magnitude(struct hk_adapter_reading *r, const char *module,
                                    struct hk_low_rank *p, struct hk_error *err)
{
    const struct hk_tensor *m = find_part(r, module, HK_ADAPTER_MAGNITUDE);
    float *values;
    if (m == NULL && !r->config.dora)
        return HK_OK;
    if (m == NULL || !r->config.dora)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "module %s has %s", module,
                       m == NULL ? "no magnitude, but key use_dora is true"
                                 : "a magnitude, but key use_dora is not true");
    if (p->use == HK_USE_EMBEDDING)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "module %s: DoRA of an embedding is not supported", module);
    if (hk_tensor_elems(m) != p->base->shape[0])
        return hk_adapter_misfit(m, "it has not one value for each row of the base", err);
    enum hk_status st = hk_adapter_decode_rows(r, m, p->base, &values, err);
    if (st == HK_OK)
        p->magnitude = values;
    return st;
}

/* The two halves of P, A [rank][in] and B [out][rank] of a matrix. */
static enum hk_status read_pair_halves(struct hk_adapter_reading *r, const struct hk_tensor *a,
                                       const struct hk_tensor *b, struct hk_low_rank *p,
                                       struct hk_error *err)
{
    float *av, *bv;
    if (p->use == HK_USE_EMBEDDING)
        return hk_adapter_misfit(a, "an embedding has lora_embedding_A and lora_embedding_B", err);
    if (!is_matrix_of(a, p->rank, p->base->shape[1]))
        return hk_adapter_misfit(a, "it is not [rank][columns of the base]", err);
    if (b == NULL)
        return hk_adapter_misfit(a, "its lora_B is missing", err);
    if (!is_matrix_of(b, p->base->shape[0], p->rank))
        return hk_adapter_misfit(b, "it is not [rows of the base][rank]", err);
    enum hk_status st = hk_adapter_decode(r, a, &av, err);
    if (st == HK_OK)
        st = hk_adapter_decode_rows(r, b, p->base, &bv, err);
    if (st != HK_OK)
        return st;
    p->a = av;
    p->b = bv;
    return HK_OK;
}

/* Those of an embedding, A [rank][vocabulary] and B [hidden size][rank]. */
static enum hk_status read_embedding_halves(struct hk_adapter_reading *r, const struct hk_tensor *a,
                                            const struct hk_tensor *b, struct hk_low_rank *p,
                                            struct hk_error *err)
{
    float *av, *bv;
    if (p->use != HK_USE_EMBEDDING)
        return hk_adapter_misfit(a, "its module is no embedding", err);
    if (!is_matrix_of(a, p->rank, p->base->shape[0]))
        return hk_adapter_misfit(a, "it is not [rank][rows of the base]", err);
    if (b == NULL)
        return hk_adapter_misfit(a, "its lora_embedding_B is missing", err);
    if (!is_matrix_of(b, p->base->shape[1], p->rank))
        return hk_adapter_misfit(b, "it is not [columns of the base][rank]", err);
    enum hk_status st = hk_adapter_decode_transposed(r, a, &bv, err);
    if (st == HK_OK)
        st = hk_adapter_decode_transposed(r, b, &av, err);
    if (st != HK_OK)
        return st;
    p->a = av;
    p->b = bv;
    return HK_OK;
}

static enum hk_status add_low_rank(struct hk_adapter_reading *r, const char *module,
                                   const struct hk_tensor *a, bool embedding, struct hk_error *err)
{
    struct hk_low_rank p = {0};
    enum hk_status st = find_base_weight(r, a, module, &p.base, &p.use, err);
    if (st == HK_OK)
        st = hk_adapter_module(&r->config, module, &p.rank, &p.scale, err);
    if (st == HK_OK)
        st = mark_change(r, a, p.base, p.use, BY_PAIR, BY_PAIR | BY_ROWS, err);
    if (st == HK_OK && embedding)
        st = read_embedding_halves(r, a, find_part(r, module, HK_ADAPTER_EMBEDDING_B), &p, err);
    else if (st == HK_OK)
        st = read_pair_halves(r, a, find_part(r, module, HK_ADAPTER_B), &p, err);
    if (st == HK_OK)
        st = add_magnitude(r, module, &p, err);
    if (st == HK_OK)
        r->a->pairs[r->a->pair_count++] = p;
    return st;
}

/* ---- tensors and rows that take the place of the base's ---- */

static enum hk_status add_whole(struct hk_adapter_reading *r, const char *name,
                                const struct hk_tensor *t, struct hk_error *err)
{
    struct hk_replacement w = {0};
    float *values;
    enum hk_status st = hk_adapter_base_find(&r->base, name, &w.base, &w.use, err);
    if (st == HK_OK)
        st = check_weight_tying(r, name, w.use, err);
    if (st != HK_OK)
        return st;
    if (t->ndim != w.base->ndim || memcmp(t->shape, w.base->shape, sizeof t->shape) != 0)
        return hk_adapter_misfit(t, "it has not the shape of the base's tensor", err);
    st = mark_change(r, t, w.base, w.use, BY_WHOLE, BY_WHOLE | BY_ROWS, err);
    if (st == HK_OK)
        st = hk_adapter_decode_rows(r, t, w.base, &values, err);
    if (st != HK_OK)
        return st;
    w.values = values;
    r->a->whole[r->a->whole_count++] = w;
    return HK_OK;
}

struct trained_row {
    uint32_t id, at; /* row of the embedding, row of the adapter's tensor */
};

static int compare_trained_rows(const void *a, const void *b)
{
    const uint32_t x = ((const struct trained_row *)a)->id, y = ((const struct trained_row *)b)->id;
    return (x > y) - (x < y);
}

/* The N rows that trainable_token_indices' LIST names, ascending, each one of COUNT and once. */
static bool read_token_ids(const json_t *list, uint64_t count, struct trained_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        const int64_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || (uint64_t)id >= count || id > UINT32_MAX)
            return false;
        rows[i] = (struct trained_row){(uint32_t)id, (uint32_t)i};
    }
    qsort(rows, n, sizeof *rows, compare_trained_rows);
    for (size_t i = 1; i < n; i++)
        if (rows[i].id == rows[i - 1].id)
            return false;
    return true;
}

/* The values of T, a row for each of the N of LIST, into W in ascending order of the rows. */
static enum hk_status read_trained_rows(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                        const json_t *list, size_t n, struct hk_replacement *w,
                                        struct hk_error *err)
{
    const size_t cols = (size_t)t->shape[1];
    struct trained_row *rows = hk_arena_alloc(&r->a->arena, (n + 1) * sizeof *rows);
    uint32_t *ids = hk_arena_alloc(&r->a->arena, (n + 1) * sizeof *ids);
    float *values, *sorted = hk_arena_alloc(&r->a->arena, n * cols * sizeof *sorted + 1);
    if (rows == NULL || ids == NULL || sorted == NULL)
        return hk_fail_nomem(err);
    if (!read_token_ids(list, w->base->shape[0], rows, n))
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "adapter_config.json: key trainable_token_indices has a number twice or "
                       "one that is no row of the embedding");
    enum hk_status st = hk_adapter_decode(r, t, &values, err);
    for (size_t i = 0; st == HK_OK && i < n; i++) {
        ids[i] = rows[i].id;
        memcpy(sorted + i * cols, values + rows[i].at * cols, cols * sizeof *sorted);
    }
    w->rows = ids;
    w->row_count = n;
    w->values = sorted;
    return st;
}

/* Trained rows of a tied embedding are the head's too. */
static enum hk_status add_trained_rows(struct hk_adapter_reading *r, const char *module,
                                       const struct hk_tensor *t, struct hk_error *err)
{
    struct hk_replacement w = {0};
    char name[300];
    snprintf(name, sizeof name, "%s.weight", module);
    enum hk_status st = hk_adapter_base_find(&r->base, name, &w.base, &w.use, err);
    if (st != HK_OK)
        return st;
    if (w.base->ndim != 2 || w.use == HK_USE_MATRIX || (r->base.tied && w.use == HK_USE_HEAD))
        return hk_adapter_misfit(t, "trained tokens of this module are not supported", err);
    if (r->base.tied)
        w.use = HK_USE_BOTH;
    const json_t *list = hk_adapter_token_ids(&r->config, module);
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0 || !is_matrix_of(t, n, w.base->shape[1]))
        return hk_adapter_misfit(
            t, "it has not a row for each number of key trainable_token_indices", err);
    st = mark_change(r, t, w.base, w.use, BY_ROWS, BY_PAIR | BY_WHOLE | BY_ROWS, err);
    if (st == HK_OK)
        st = read_trained_rows(r, t, list, n, &w, err);
    if (st == HK_OK)
        r->a->whole[r->a->whole_count++] = w;
    return st;
}

/* ---- tensors that adapter_config.json promises: modules trained whole and trained tokens ---- */

/* Whether PART is one of the names between the dots of NAME. */
static bool name_has_part(const char *name, const char *part)
{
    const size_t n = strlen(part);
    for (const char *at = strstr(name, part); n > 0 && at != NULL; at = strstr(at + 1, part))
        if ((at == name || at[-1] == '.') && (at[n] == '\0' || at[n] == '.'))
            return true;
    return false;
}

/* Whether the payload has a tensor of PART in the module that the settings call NAME. */
static bool payload_has_part(const struct hk_file *payload, const char *name,
                             enum hk_adapter_part wanted)
{
    char module[256];
    enum hk_adapter_part part;
    for (size_t i = 0; i < hk_tensor_count(payload); i++)
        if (hk_adapter_name(hk_tensor_at(payload, i)->name, module, &part) && part == wanted &&
            name_has_part(module, name))
            return true;
    return false;
}

static enum hk_status need_promised_tensor(const struct hk_adapter_reading *r, const char *key,
                                           const char *name, enum hk_adapter_part part,
                                           struct hk_error *err)
{
    return payload_has_part(r->payload, name, part)
               ? HK_OK
               : hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                         "adapter_config.json: key %s names %.60s, of which the adapter has no "
                         "tensor",
                         key, name);
}

static enum hk_status check_saved_modules(const struct hk_adapter_reading *r, struct hk_error *err)
{
    enum { MAX_MODULES = 64 }; /* each is looked for in all tensors */
    static const char key[] = "modules_to_save";
    const json_t *list = json_object_get(r->config.json, key);
    enum hk_status st = HK_OK;
    if (json_array_size(list) > MAX_MODULES)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "adapter_config.json: key %s names more than %d modules", key, MAX_MODULES);
    for (size_t i = 0; st == HK_OK && i < json_array_size(list); i++)
        st = need_promised_tensor(r, key, json_string_value(json_array_get(list, i)),
                                  HK_ADAPTER_WHOLE, err);
    return st;
}

/* A list of rows is of the embedding; else each module has its own. */
static enum hk_status check_trained_tokens(const struct hk_adapter_reading *r, struct hk_error *err)
{
    enum { MAX_LISTS = 8 };
    static const char key[] = "trainable_token_indices";
    json_t *all = json_object_get(r->config.json, key), *list;
    const char *name;
    enum hk_status st = HK_OK;
    if (json_array_size(all) > 0)
        return need_promised_tensor(r, key, "embed_tokens", HK_ADAPTER_TOKENS, err);
    if (json_object_size(all) > MAX_LISTS)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "adapter_config.json: key %s names more than %d modules", key, MAX_LISTS);
    json_object_foreach(all, name, list)
    {
        if (st == HK_OK)
            st = need_promised_tensor(r, key, name, HK_ADAPTER_TOKENS, err);
    }
    return st;
}

static enum hk_status check_promised(const struct hk_adapter_reading *r, struct hk_error *err)
{
    enum hk_status st = check_saved_modules(r, err);
    return st == HK_OK ? check_trained_tokens(r, err) : st;
}

/* ---- the whole ---- */

/* A pair is taken with its A; a B or a magnitude without one is an error, and so is a second one,
 * of which nobody knows whether it counts. */
static enum hk_status add_module_part(struct hk_adapter_reading *r, const char *module,
                                      enum hk_adapter_part part, const struct hk_tensor *t,
                                      struct hk_error *err)
{
    const struct hk_tensor *a = find_part(r, module, HK_ADAPTER_A),
                           *embedding = find_part(r, module, HK_ADAPTER_EMBEDDING_A);
    if (find_part(r, module, part) != t)
        return hk_adapter_misfit(t, "its module has another one under another name", err);
    switch (part) {
    case HK_ADAPTER_A:
    case HK_ADAPTER_EMBEDDING_A:
        return add_low_rank(r, module, t, part == HK_ADAPTER_EMBEDDING_A, err);
    case HK_ADAPTER_B:
        return a != NULL ? HK_OK : hk_adapter_misfit(t, "its lora_A is missing", err);
    case HK_ADAPTER_EMBEDDING_B:
        return embedding != NULL ? HK_OK
                                 : hk_adapter_misfit(t, "its lora_embedding_A is missing", err);
    case HK_ADAPTER_MAGNITUDE:
        return a != NULL || embedding != NULL ? HK_OK
                                              : hk_adapter_misfit(t, "its lora_A is missing", err);
    default:
        return add_trained_rows(r, module, t, err);
    }
}

static enum hk_status add_adapter_tensor(struct hk_adapter_reading *r, const struct hk_tensor *t,
                                         struct hk_error *err)
{
    char module[256];
    enum hk_adapter_part part;
    enum hk_status st = hk_adapter_part_of(&r->config, t, module, &part, err);
    if (st != HK_OK)
        return st;
    if (part == HK_ADAPTER_WHOLE)
        return add_whole(r, module, t, err);
    if (part == HK_ADAPTER_COPY)
        return hk_adapter_check_copy(r, t, module, err);
    return add_module_part(r, module, part, t, err);
}

static enum hk_status read_adapter_tensors(struct hk_adapter_reading *r, struct hk_error *err)
{
    const size_t n = hk_tensor_count(r->payload);
    if (n == 0)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "the adapter has no tensors");
    r->a->pairs = calloc(n, sizeof *r->a->pairs);
    r->a->whole = calloc(n, sizeof *r->a->whole);
    r->marks = calloc(hk_tensor_count(r->base.file) + 1, sizeof *r->marks);
    if (r->a->pairs == NULL || r->a->whole == NULL || r->marks == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < n; i++)
        st = add_adapter_tensor(r, hk_tensor_at(r->payload, i), err);
    if (st == HK_OK)
        st = check_promised(r, err);
    if (st == HK_OK && r->a->pair_count == 0 && r->a->whole_count == 0)
        st = hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                     "no tensor of the adapter changes the model: all are copies of the base's");
    return st;
}

/* Of PAYLOAD, which has PEFT's form. */
static enum hk_status read_peft_payload(struct hk_adapter_reading *r, const struct hk_file *base,
                                        struct hk_error *err)
{
    enum hk_status st = hk_adapter_config_read(&r->config, r->payload, err);
    if (st == HK_OK)
        st = hk_adapter_base_read(base, &r->base, err);
    return st == HK_OK ? read_adapter_tensors(r, err) : st;
}

enum hk_status hk_adapter_read(struct hk_adapter **out, struct hk_file *payload,
                               const struct hk_file *base, struct hk_error *err)
{
    struct hk_file *made = NULL;
    enum hk_status st = hk_adapter_in_peft_form(&made, payload, base, err);
    if (st != HK_OK)
        return st;
    struct hk_adapter_reading r = {.a = calloc(1, sizeof *r.a),
                                   .payload = made != NULL ? made : payload};
    st = r.a == NULL ? hk_fail_nomem(err) : read_peft_payload(&r, base, err);
    hk_adapter_config_free(&r.config);
    free(r.marks);
    hk_close(&made);
    if (st == HK_OK)
        *out = r.a;
    else
        hk_adapter_free(&r.a);
    return st;
}

enum hk_status hk_adapter_open(struct hk_adapter **out, const struct hk_file *f, size_t record,
                               struct hk_error *err)
{
    struct hk_file *payload;
    struct hk_error why = {0};
    enum hk_status st = hk_adapter_record_open(&payload, f, record, err);
    if (st != HK_OK)
        return st;
    st = hk_adapter_read(out, payload, f, &why);
    hk_close(&payload);
    return st == HK_OK ? HK_OK
                       : hk_fail(err, st, hk_record_at(f, record)->offset, "record '%.*s': %s",
                                 HK_STR(hk_record_at(f, record)->name), why.text);
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
