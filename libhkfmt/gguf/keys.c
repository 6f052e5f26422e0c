/* The keys by which a .hk remembers the GGUF it was made from: hk.source.format,
 * hk.source.gguf_version, and hk.gguf.types for the value types that the .hk value alone does not
 * tell. */
#include "libhkfmt/gguf/keys.h"
#include "libhkfmt/base/json_tree.h"

#include <stdlib.h>

#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/hkmodel.h"

static const struct hk_bytes types_key = {(const uint8_t *)"hk.gguf.types", 13};

enum hk_status hk_gguf_refuse_keys(const struct hk_file *f, struct hk_error *err)
{
    static const char *const reserved[] = {"hk.source.format", "hk.source.gguf_version",
                                           "hk.gguf.types", "hk.alignment"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        const struct hk_kv *kv = hk_kv_find(f, reserved[i]);
        if (kv != NULL)
            return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                           "key %s has a meaning of its own in a .hk and cannot be carried over",
                           reserved[i]);
    }
    const struct hk_kv *split = hk_kv_find(f, "split.count");
    int64_t count;
    if (f->part_count == 1 && split != NULL && hk_kv_int(split, &count, NULL) == HK_OK && count > 1)
        return hk_fail(err, HK_E_UNSUPPORTED, split->offset,
                       "one of %lld shards (key split.count), which are converted together",
                       (long long)count);
    return HK_OK;
}

static enum hk_status record_source_type(json_t *types, const struct hk_kv *kv,
                                         struct hk_error *err)
{
    const char *usual = hk_gguf_default_type(kv);
    if (kv->gguf_type == NULL) /* not of the GGUF */
        return HK_OK;
    if (usual != NULL && strcmp(usual, kv->gguf_type) == 0)
        return HK_OK;
    if (!hk_utf8_valid(kv->key) || memchr(kv->key.p, '\0', kv->key.n) != NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                       "key %.*s of type %s is no UTF-8 text, so its type cannot be recorded",
                       HK_STR(kv->key), kv->gguf_type);
    char *key = strndup((const char *)kv->key.p, kv->key.n);
    bool good = key != NULL && json_object_set_new(types, key, json_string(kv->gguf_type)) == 0;
    free(key);
    return good ? HK_OK : hk_fail_nomem(err);
}

enum hk_status hk_gguf_types_text(const struct hk_file *f, char **out, struct hk_error *err)
{
    json_t *types = json_object();
    enum hk_status st = types == NULL ? hk_fail_nomem(err) : HK_OK;
    for (size_t i = 0; st == HK_OK && i < f->kv_count; i++)
        if (!hk_is_shard_key(f, &f->kvs[i]))
            st = record_source_type(types, &f->kvs[i], err);
    char *text = NULL;
    if (st == HK_OK && json_object_size(types) > 0 &&
        (text = json_dumps(types, JSON_COMPACT)) == NULL)
        st = hk_fail_nomem(err);
    json_decref(types);
    if (st == HK_OK)
        *out = text;
    return st;
}

enum hk_status hk_gguf_note_source(const struct hk_file *f, struct hk_writer *w,
                                   struct hk_error *err)
{
    char *types = NULL;
    enum hk_status st = hk_gguf_types_text(f, &types, err);
    uint8_t version[8];
    put64(version, f->header.version_major);
    if (st == HK_OK)
        st = hk_writer_set(w, hk_bytes_of("hk.source.format"), HK_META_STRING, hk_bytes_of("gguf"),
                           err);
    if (st == HK_OK)
        st = hk_writer_set(w, hk_bytes_of("hk.source.gguf_version"), HK_META_INT64,
                           (struct hk_bytes){version, sizeof version}, err);
    if (st == HK_OK && types != NULL)
        st = hk_writer_set(w, types_key, HK_META_JSON, hk_bytes_of(types), err);
    free(types);
    return st;
}

enum hk_status hk_gguf_types_read(const struct hk_file *f, json_t **out, struct hk_error *err)
{
    *out = NULL;
    const struct hk_kv *kv = hk_kv_find(f, "hk.gguf.types");
    if (f->format == HK_FORMAT_GGUF || kv == NULL)
        return HK_OK;
    json_t *types = NULL;
    if (kv->type == HK_META_JSON || kv->type == HK_META_STRING)
        types = hk_json_load(kv->value, 0, NULL);
    if (!json_is_object(types)) {
        json_decref(types);
        return hk_fail(err, HK_E_FORMAT, kv->offset,
                       "key hk.gguf.types is no JSON object of type names");
    }
    *out = types;
    return HK_OK;
}

enum hk_status hk_gguf_recorded_type(const json_t *types, struct hk_bytes key, const char **out,
                                     struct hk_error *err)
{
    *out = NULL;
    /* A key that is no C string cannot be in the object. */
    if (types == NULL || memchr(key.p, '\0', key.n) != NULL)
        return HK_OK;
    char *name = strndup((const char *)key.p, key.n);
    if (name == NULL)
        return hk_fail_nomem(err);
    const json_t *type = json_object_get(types, name);
    free(name);
    if (type != NULL && !json_is_string(type))
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                       "key hk.gguf.types: the type of key %.*s is no string", HK_STR(key));
    *out = json_string_value(type);
    return HK_OK;
}
