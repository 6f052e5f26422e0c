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
#include "libhkfmt/set/set.h"

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

static enum hk_status read_config_file(const struct opening *o, const char *name, uint8_t **text,
                                       struct hk_bytes *bytes, json_t **json)
{
    size_t n = 0;
    enum hk_status st = hk_hf_read(o->dir, name, HK_HF_MAX_CONFIG, text, &n, o->err);
    if (st != HK_OK || *text == NULL)
        return st;
    *bytes = (struct hk_bytes){*text, n};
    return hk_hf_parse(name, *bytes, json, o->err);
}

static enum hk_status read_configs(struct opening *o)
{
    static const char config[] = "config.json", generation[] = "generation_config.json";
    struct hk_hf_config *c = &o->c;
    enum hk_status st = read_config_file(o, config, &o->text, &c->text, &o->json);
    if (st == HK_OK && o->json == NULL)
        return hk_fail(o->err, HK_E_MISSING, HK_NO_OFFSET, "no %s", config);
    if (st == HK_OK)
        st = read_config_file(o, generation, &o->generation_text, &c->generation_text,
                              &o->generation);
    if (st != HK_OK)
        return st;
    c->json = o->json;
    c->generation = o->generation;
    return hk_hf_read_config(c, &o->kvs, o->err);
}

/* ---- weights ---- */

/* Every file named like a part of the weights is one. Both lists are in order of names. */
static enum hk_status check_weight_names(const struct hk_file *f, const struct hk_hf_weights *w,
                                         struct hk_error *err)
{
    size_t part = 0;
    for (size_t i = 0; w->index && i < w->count; i++) {
        while (part < f->part_count && strcmp(f->parts[part].name, w->names[i]) < 0)
            part++;
        if (part == f->part_count || strcmp(f->parts[part].name, w->names[i]) != 0)
            return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                           "ambiguous weights: '%s' is there, but model.safetensors.index.json "
                           "does not name it",
                           w->names[i]);
    }
    return HK_OK;
}

enum hk_status hk_hf_open_weights(struct hk_file **out, const char *dir, struct hk_error *err)
{
    struct hk_hf_weights w;
    struct hk_file *f = NULL;
    enum hk_status st = hk_hf_list(dir, &w, err);
    if (st != HK_OK)
        return st;
    const char *name = w.index ? "model.safetensors.index.json" : "model.safetensors";
    char *path = hk_hf_path(dir, name);
    if (path == NULL)
        st = hk_fail_nomem(err);
    else
        st = hk_hf_about(name, hk_open_files(&f, path, err), err);
    free(path);
    if (st == HK_OK && f->format != HK_FORMAT_SAFETENSORS)
        st = hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "%s: no safetensors but %s", name,
                     hk_format_name(f->format));
    if (st == HK_OK)
        st = check_weight_names(f, &w, err);
    if (st == HK_OK && f->parts[0].name == NULL && (f->parts[0].name = strdup(name)) == NULL)
        st = hk_fail_nomem(err);
    hk_hf_list_free(&w);
    if (st == HK_OK)
        *out = f;
    else
        hk_close(&f);
    return st;
}

/* ---- tensors ---- */

enum hk_status hk_hf_rebuild_indexes(struct hk_file *f, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    struct hk_index *const all[] = {&f->kv_index, &f->tensor_index, &f->by_bytes, &f->by_shape};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        hk_index_free(all[i]);
    f->header.tensor_count = f->tensor_count;
    enum hk_status st = hk_build_targets(f, err);
    if (st == HK_OK)
        st = hk_build_indexes(f, &reporter, err);
    return st != HK_OK ? st : capture.status;
}

/* A head that is absent is the embedding, whatever the config says; one that is there is itself,
 * unless the config says that it is the embedding: then it has to be, and is not stored twice. */
static enum hk_status check_tied_output(const struct opening *o)
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
    const size_t at = (size_t)(head - f->tensors), behind = --f->tensor_count - at;
    memmove(&f->tensors[at], &f->tensors[at + 1], behind * sizeof *f->tensors);
    if (f->how != NULL)
        memmove(&f->how[at], &f->how[at + 1], behind * sizeof *f->how);
    return hk_hf_rebuild_indexes(f, o->err);
}

/* ---- shapes ---- */

static void describe_shape(const struct hk_tensor *t, char out[96])
{
    size_t at = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < t->ndim && at < 72; i++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%" PRIu64, i > 0 ? " x " : "", t->shape[i]);
}

static enum hk_status check_config_shape(const struct opening *o,
                                         const struct hk_model_tensor *wanted,
                                         const struct hk_tensor *t, const char *name)
{
    char is[96], rows[64] = "";
    if (hk_has_shape_of(t, wanted))
        return HK_OK;
    describe_shape(t, is);
    if (wanted->experts > 0)
        snprintf(rows, sizeof rows, "%" PRIu64 " x %" PRIu64 " x ", wanted->experts, wanted->rows);
    else if (wanted->rows > 0)
        snprintf(rows, sizeof rows, "%" PRIu64 " x ", wanted->rows);
    return hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET,
                   "tensor %s is %s, but by config.json %s%" PRIu64, name, is, rows, wanted->cols);
}

static enum hk_status check_config_tensor(const struct opening *o,
                                          const struct hk_model_tensor *wanted)
{
    char hf[HK_MAX_NAME + 1];
    struct hk_tensor_place place;
    const struct hk_tensor *t = hk_tensor_find(o->f, wanted->name);
    if (t == NULL && wanted->optional)
        return HK_OK;
    enum hk_status st = hk_tensor_place_find(o->c.family, o->c.model.layers,
                                             hk_bytes_of(wanted->name), true, &place, o->err);
    if (st != HK_OK)
        return st;
    hk_tensor_place_name(&place, false, hf);
    return t != NULL ? check_config_shape(o, wanted, t, hf)
                     : hk_fail(o->err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s", hf);
}

static enum hk_status check_config_tensors(const struct opening *o)
{
    enum hk_status st = HK_OK;
    struct hk_model_tensor wanted;
    for (size_t at = 0; st == HK_OK && hk_model_tensor_next(&o->c.model, &at, &wanted);)
        st = check_config_tensor(o, &wanted);
    return st;
}

static enum hk_status read_weight_tensors(const struct opening *o)
{
    enum hk_status st = hk_hf_gather(o->f, &o->c, o->err);
    if (st == HK_OK)
        st = hk_hf_rebuild_indexes(o->f, o->err);
    if (st == HK_OK)
        st = check_config_tensors(o);
    if (st == HK_OK)
        st = hk_hf_make_norms(o->f, o->c.family, o->err);
    if (st == HK_OK)
        st = hk_hf_make_longrope(o->f, o->json, o->err);
    if (st == HK_OK)
        st = hk_hf_rebuild_indexes(o->f, o->err);
    return st == HK_OK ? check_tied_output(o) : st;
}

/* ---- metadata ---- */

static enum hk_status check_vocabulary_size(const struct opening *o)
{
    const struct hk_kv *kv = hk_kvlist_find(&o->kvs, hk_vocab_key(HK_VOCAB_TOKENS));
    struct hk_array tokens;
    if (kv == NULL)
        return HK_OK;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_STRING, &tokens, o->err);
    if (st != HK_OK)
        return st;
    const uint32_t count = tokens.count;
    hk_array_free(&tokens);
    if (count <= o->c.model.vocab)
        return HK_OK;
    return hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET, "the tokenizer has %u tokens, %s %u rows",
                   count, hk_tensor_role_name_in_hf(HK_ROLE_EMBEDDING), o->c.model.vocab);
}

static struct hk_kv *find_kv_in(struct hk_kv *kvs, size_t count, struct hk_bytes key)
{
    for (size_t i = 0; i < count; i++)
        if (hk_bytes_equal(kvs[i].key, key))
            return &kvs[i];
    return NULL;
}

static bool same_kv_value(const struct hk_kv *a, const struct hk_kv *b)
{
    return a->type == b->type && hk_bytes_equal(a->value, b->value);
}

/* What __metadata__ says of a key that is settled already: nothing more, or, of where the model
 * came from first, something better. */
static enum hk_status settle_weights_key(const struct opening *o, const struct hk_kv *kv,
                                         struct hk_kv *settled)
{
    if (hk_bytes_are(kv->key, "hk.source.format"))
        *settled = *kv;
    if (same_kv_value(kv, settled))
        return HK_OK;
    return hk_fail(o->err, HK_E_FORMAT, HK_NO_OFFSET,
                   "key %.*s of the weights' __metadata__ says otherwise than config.json or the "
                   "tokenizer",
                   HK_STR(kv->key));
}

/* Those of the COUNT pairs KVS that F, whose own COUNT pairs are settled, has not. Theirs differ
 * from each other, and F's are few. */
static enum hk_status add_weights_metadata(const struct opening *o, const struct hk_kv *kvs,
                                           size_t count)
{
    struct hk_file *f = o->f;
    const size_t settled = f->kv_count;
    struct hk_kv *all = reallocarray(f->kvs, settled + count + 1, sizeof *all);
    if (all == NULL)
        return hk_fail_nomem(o->err);
    f->kvs = all;
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < count && st == HK_OK; i++) {
        struct hk_kv *known = find_kv_in(all, settled, kvs[i].key);
        if (known != NULL)
            st = settle_weights_key(o, &kvs[i], known);
        else if (!hk_bytes_are(kvs[i].key, "format"))
            all[f->kv_count++] = kvs[i];
    }
    f->header.metadata_kv_count = f->kv_count;
    return st;
}

static enum hk_status merge_weights_metadata(struct opening *o)
{
    struct hk_file *f = o->f;
    struct hk_kv *const kvs = f->kvs;
    const size_t count = f->kv_count;
    hk_kvlist_text(&o->kvs, "hk.source.format", "safetensors");
    f->kvs = NULL;
    f->kv_count = 0;
    enum hk_status st = hk_kvlist_take(&o->kvs, f, o->err);
    if (st == HK_OK)
        st = add_weights_metadata(o, kvs, count);
    free(kvs);
    return st;
}

/* ---- all ---- */

static enum hk_status read_hf_directory(struct opening *o)
{
    enum hk_status st = read_configs(o);
    if (st == HK_OK)
        st = hk_hf_open_weights(&o->f, o->dir, o->err);
    if (st == HK_OK)
        st = hk_hf_import_tokenizer(o->dir, &o->c, &o->kvs, o->err);
    if (st == HK_OK)
        st = check_vocabulary_size(o);
    if (st == HK_OK)
        st = read_weight_tensors(o);
    if (st == HK_OK)
        st = merge_weights_metadata(o);
    if (st != HK_OK)
        return st;
    hk_arena_adopt(&o->f->arena, &o->arena);
    o->f->format = HK_FORMAT_HF;
    return hk_hf_rebuild_indexes(o->f, o->err);
}

enum hk_status hk_open_hf(struct hk_file **out, const char *path, struct hk_error *err)
{
    struct opening o = {.dir = path, .err = err};
    o.kvs.arena = &o.arena;
    enum hk_status st = read_hf_directory(&o);
    hk_kvlist_free(&o.kvs);
    hk_arena_free(&o.arena);
    json_decref(o.json);
    json_decref(o.generation);
    free(o.text);
    free(o.generation_text);
    if (st == HK_E_UNSUPPORTED && err != NULL) {
        struct hk_error was = *err;
        hk_fail(err, st, was.offset, "%s (hk-convert --raw keeps it as it is)", was.text);
    }
    if (st == HK_OK)
        *out = o.f;
    else
        hk_close(&o.f);
    return st;
}
