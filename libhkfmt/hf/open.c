/* A Hugging Face model directory as an open file: the safetensors in it, with tensors under the
 * names and metadata under the keys that a .hk made from it has.
 *
 * What the files' __metadata__ holds is kept, but for "format". A key that config.json or the
 * tokenizer set as well has to say the same there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hf/tokenizer/tokenizer.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"

struct opening {
    const char *dir;
    struct hk_file *f; /* the weights */
    struct hk_arena arena;
    struct hk_kvlist kvs;
    struct hk_hf_config c;
    uint8_t *text, *generation_text;
    json_t *json, *generation;
    struct hk_error *err;
};

/* ---- config ---- */

static enum hk_status read_json(const struct opening *o, const char *name, uint8_t **text,
                                struct hk_bytes *bytes, json_t **json)
{
    size_t n = 0;
    enum hk_status status = hk_hf_read(o->dir, name, HK_HF_MAX_CONFIG, text, &n, o->err);
    if (status != HK_OK || *text == NULL)
        return status;
    *bytes = (struct hk_bytes){*text, n};
    return hk_hf_parse(name, *bytes, json, o->err);
}

static enum hk_status read_config(struct opening *o)
{
    static const char config[] = "config.json", generation[] = "generation_config.json";
    struct hk_hf_config *c = &o->c;
    enum hk_status status = read_json(o, config, &o->text, &c->text, &o->json);
    if (status == HK_OK && o->json == NULL)
        return hk_fail(o->err, HK_E_MISSING, HK_NO_OFFSET, "no %s", config);
    if (status == HK_OK)
        status = read_json(o, generation, &o->generation_text, &c->generation_text, &o->generation);
    if (status != HK_OK)
        return status;
    c->json = o->json;
    c->generation = o->generation;
    return hk_hf_read_config(c, &o->kvs, o->err);
}

/* ---- weights ---- */

/* Every file named like a part of the weights is one. Both lists are in order of names. */
static enum hk_status check_named(const struct opening *o, const struct hk_hf_weights *w)
{
    const struct hk_file *f = o->f;
    size_t part = 0;
    for (size_t i = 0; w->index && i < w->count; i++) {
        while (part < f->part_count && strcmp(f->parts[part].name, w->names[i]) < 0)
            part++;
        if (part == f->part_count || strcmp(f->parts[part].name, w->names[i]) != 0)
            return hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET,
                           "'%s' is there, but model.safetensors.index.json does not name it: it "
                           "is open which weights are meant",
                           w->names[i]);
    }
    return HK_OK;
}

static enum hk_status open_weights(struct opening *o)
{
    struct hk_hf_weights w;
    enum hk_status status = hk_hf_list(o->dir, &w, o->err);
    if (status != HK_OK)
        return status;
    const char *name = w.index ? "model.safetensors.index.json" : "model.safetensors";
    char *path = hk_hf_path(o->dir, name);
    if (path == NULL)
        status = hk_fail_nomem(o->err);
    else
        status = hk_hf_about(name, hk_open_set(&o->f, path, o->err), o->err);
    free(path);
    if (status == HK_OK && o->f->format != HK_FORMAT_SAFETENSORS)
        status = hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET, "%s: no safetensors but %s", name,
                         hk_format_name(o->f->format));
    if (status == HK_OK)
        status = check_named(o, &w);
    if (status == HK_OK && o->f->parts[0].name == NULL &&
        (o->f->parts[0].name = strdup(name)) == NULL)
        status = hk_fail_nomem(o->err);
    hk_hf_list_free(&w);
    return status;
}

/* ---- tensors ---- */

/* Frequencies of the rope that old versions of the library saved; they follow from the config. */
static bool is_recomputed(struct hk_bytes name)
{
    static const char end[] = ".rotary_emb.inv_freq";
    const size_t n = sizeof end - 1;
    return name.n > n && memcmp(name.p + name.n - n, end, n) == 0;
}

static enum hk_status rename_tensor(const struct opening *o, struct hk_tensor *t)
{
    char name[HK_MAX_NAME + 1];
    enum hk_status status = hk_name_from_hf(o->c.family, o->c.model.layers, t->name, name, o->err);
    if (status != HK_OK)
        return status;
    const size_t n = strlen(name);
    uint8_t *p = hk_arena_alloc(&o->f->arena, n);
    if (p == NULL)
        return hk_fail_nomem(o->err);
    memcpy(p, name, n);
    t->name = (struct hk_bytes){p, n};
    return HK_OK;
}

static enum hk_status rename_tensors(const struct opening *o)
{
    struct hk_file *f = o->f;
    size_t kept = 0;
    enum hk_status status = HK_OK;
    for (size_t i = 0; i < f->tensor_count && status == HK_OK; i++) {
        if (is_recomputed(f->tensors[i].name))
            continue;
        status = rename_tensor(o, &f->tensors[i]);
        f->tensors[kept++] = f->tensors[i];
    }
    if (status == HK_OK)
        f->tensor_count = kept;
    return status;
}

/* The indexes of F after a change of names. */
static enum hk_status index_again(struct hk_file *f, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    struct hk_index *const all[] = {&f->kv_index, &f->tensor_index, &f->by_bytes, &f->by_shape};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        hk_index_free(all[i]);
    f->header.tensor_count = f->tensor_count;
    enum hk_status status = hk_build_targets(f, err);
    if (status == HK_OK)
        status = hk_build_indexes(f, &reporter, err);
    return status != HK_OK ? status : capture.status;
}

/* A head that is absent is the embedding, whatever the config says; one that is there is itself,
 * unless the config says that it is the embedding: then it has to be, and is not stored twice. */
static enum hk_status check_head(const struct opening *o)
{
    struct hk_file *f = o->f;
    const struct hk_tensor *head = hk_tensor_find(f, hk_tensor_role_name(HK_ROLE_OUTPUT)),
                           *embedding = hk_tensor_find(f, hk_tensor_role_name(HK_ROLE_EMBEDDING));
    if (head == NULL || embedding == NULL || !o->c.tied)
        return HK_OK;
    if (!hk_tensors_are_equal(f, head, embedding))
        return hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "%s is not %s, though config.json has tie_word_embeddings",
                       hk_tensor_role_name_in_hf(HK_ROLE_OUTPUT),
                       hk_tensor_role_name_in_hf(HK_ROLE_EMBEDDING));
    const size_t at = (size_t)(head - f->tensors);
    f->tensor_count--;
    memmove(&f->tensors[at], &f->tensors[at + 1], (f->tensor_count - at) * sizeof *f->tensors);
    return index_again(f, o->err);
}

/* ---- shapes ---- */

static void shape_text(const struct hk_tensor *t, char out[96])
{
    size_t at = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < t->ndim && at < 72; i++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%" PRIu64, i > 0 ? " x " : "", t->shape[i]);
}

static enum hk_status check_shape(const struct opening *o, const struct hk_model_tensor *wanted,
                                  const struct hk_tensor *t, const char *name)
{
    char is[96], rows[64] = "";
    if (hk_has_shape_of(t, wanted))
        return HK_OK;
    shape_text(t, is);
    if (wanted->rows > 0)
        snprintf(rows, sizeof rows, "%" PRIu64 " x ", wanted->rows);
    return hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET,
                   "tensor %s is %s, but by config.json %s%" PRIu64, name, is, rows, wanted->cols);
}

static enum hk_status check_tensor(const struct opening *o, const struct hk_model_tensor *wanted)
{
    char hf[HK_MAX_NAME + 1];
    const struct hk_tensor *t = hk_tensor_find(o->f, wanted->name);
    if (t == NULL && wanted->optional)
        return HK_OK;
    enum hk_status st = hk_name_to_hf(
        o->c.family, o->c.model.layers,
        (struct hk_bytes){(const uint8_t *)wanted->name, strlen(wanted->name)}, hf, o->err);
    if (st != HK_OK)
        return st;
    return t != NULL ? check_shape(o, wanted, t, hf)
                     : hk_fail(o->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", hf);
}

static enum hk_status check_tensors(const struct opening *o)
{
    enum hk_status status = HK_OK;
    struct hk_model_tensor wanted;
    for (size_t at = 0; status == HK_OK && hk_model_tensor_next(&o->c.model, &at, &wanted);)
        status = check_tensor(o, &wanted);
    return status;
}

static enum hk_status read_tensors(const struct opening *o)
{
    enum hk_status status = rename_tensors(o);
    if (status == HK_OK)
        status = index_again(o->f, o->err);
    if (status == HK_OK)
        status = check_tensors(o);
    return status == HK_OK ? check_head(o) : status;
}

/* ---- metadata ---- */

static enum hk_status check_vocabulary(const struct opening *o)
{
    const struct hk_kv *kv = hk_kvlist_find(&o->kvs, hk_vocab_key(HK_VOCAB_TOKENS));
    struct hk_array tokens;
    if (kv == NULL)
        return HK_OK;
    enum hk_status status = hk_kv_array(kv, HK_ARRAY_STRING, &tokens, o->err);
    if (status != HK_OK)
        return status;
    const uint32_t count = tokens.count;
    hk_array_free(&tokens);
    if (count <= o->c.model.vocab)
        return HK_OK;
    return hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET, "the tokenizer has %u tokens, %s %u rows",
                   count, hk_tensor_role_name_in_hf(HK_ROLE_EMBEDDING), o->c.model.vocab);
}

static struct hk_kv *find_kv(struct hk_kv *kvs, size_t count, struct hk_bytes key)
{
    for (size_t i = 0; i < count; i++)
        if (hk_bytes_equal(kvs[i].key, key))
            return &kvs[i];
    return NULL;
}

static bool same_value(const struct hk_kv *a, const struct hk_kv *b)
{
    return a->type == b->type && hk_bytes_equal(a->value, b->value);
}

/* What __metadata__ says of a key that is settled already: nothing more, or, of where the model
 * came from first, something better. */
static enum hk_status settle(const struct opening *o, const struct hk_kv *kv, struct hk_kv *settled)
{
    if (hk_bytes_are(kv->key, "hk.source.format"))
        *settled = *kv;
    if (same_value(kv, settled))
        return HK_OK;
    return hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET,
                   "key %.*s of the weights' __metadata__ says otherwise than config.json or the "
                   "tokenizer",
                   HK_STR(kv->key));
}

/* Those of the COUNT pairs KVS that F, whose own COUNT pairs are settled, has not. Theirs differ
 * from each other, and F's are few. */
static enum hk_status add_metadata(const struct opening *o, const struct hk_kv *kvs, size_t count)
{
    struct hk_file *f = o->f;
    const size_t settled = f->kv_count;
    struct hk_kv *all = reallocarray(f->kvs, settled + count + 1, sizeof *all);
    if (all == NULL)
        return hk_fail_nomem(o->err);
    f->kvs = all;
    enum hk_status status = HK_OK;
    for (size_t i = 0; i < count && status == HK_OK; i++) {
        struct hk_kv *known = find_kv(all, settled, kvs[i].key);
        if (known != NULL)
            status = settle(o, &kvs[i], known);
        else if (!hk_bytes_are(kvs[i].key, "format"))
            all[f->kv_count++] = kvs[i];
    }
    f->header.metadata_kv_count = f->kv_count;
    return status;
}

static enum hk_status read_metadata(struct opening *o)
{
    struct hk_file *f = o->f;
    struct hk_kv *const kvs = f->kvs;
    const size_t count = f->kv_count;
    hk_kvlist_text(&o->kvs, "hk.source.format", "safetensors");
    f->kvs = NULL;
    f->kv_count = 0;
    enum hk_status status = hk_kvlist_take(&o->kvs, f, o->err);
    if (status == HK_OK)
        status = add_metadata(o, kvs, count);
    free(kvs);
    return status;
}

/* ---- all ---- */

static enum hk_status read_model(struct opening *o)
{
    enum hk_status status = read_config(o);
    if (status == HK_OK)
        status = open_weights(o);
    if (status == HK_OK)
        status = hk_hf_import_tokenizer(o->dir, &o->c, &o->kvs, o->err);
    if (status == HK_OK)
        status = check_vocabulary(o);
    if (status == HK_OK)
        status = read_tensors(o);
    if (status == HK_OK)
        status = read_metadata(o);
    if (status != HK_OK)
        return status;
    hk_arena_adopt(&o->f->arena, &o->arena);
    o->f->format = HK_FORMAT_HF;
    return index_again(o->f, o->err);
}

enum hk_status hk_open_hf(struct hk_file **out, const char *path, struct hk_error *err)
{
    struct opening o = {.dir = path, .err = err};
    o.kvs.arena = &o.arena;
    enum hk_status status = read_model(&o);
    hk_kvlist_free(&o.kvs);
    hk_arena_free(&o.arena);
    json_decref(o.json);
    json_decref(o.generation);
    free(o.text);
    free(o.generation_text);
    if (status == HK_OK)
        *out = o.f;
    else
        hk_close(&o.f);
    return status;
}
