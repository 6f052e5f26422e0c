/* hk.gguf.types in step with what an edit sets and deletes: the way back to GGUF gives a key the
 * type that it had there for as long as its value is one of that type. */
#include <jansson.h>
#include <stdlib.h>

#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/gguf/keys.h"
#include "libhkfmt/hk/edit.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"

static const struct hk_bytes types_key = {(const uint8_t *)"hk.gguf.types", 13};

/* Whether KV can be written as a GGUF's TYPE; running out of memory counts as no. */
static bool fits_gguf_type(const struct hk_kv *kv, const char *type)
{
    struct hk_buf b = {0};
    bool good = hk_gguf_put_value(&b, kv, type, NULL) == HK_OK;
    hk_buf_free(&b);
    return good;
}

/* The GGUF type that OLD, a pair of the file, has so far; NULL: none. */
static enum hk_status gguf_type_before(const json_t *types, const struct hk_kv *old,
                                       const char **out, struct hk_error *err)
{
    enum hk_status st = hk_gguf_recorded_type(types, old->key, out, err);
    if (st == HK_OK && *out == NULL)
        *out = hk_gguf_default_type(old);
    return st;
}

/* A key of the object, terminated; NULL where KEY cannot be one. */
static char *member_name(struct hk_bytes key, struct hk_error *err, enum hk_status *status)
{
    if (!hk_utf8_valid(key) || memchr(key.p, '\0', key.n) != NULL)
        return NULL;
    char *name = strndup((const char *)key.p, key.n);
    if (name == NULL)
        *status = hk_fail_nomem(err);
    return name;
}

/* Record TYPE for NAME, or with TYPE NULL nothing; *CHANGED where that is new. */
static bool note_gguf_type(json_t *types, const char *name, const char *type, bool *changed)
{
    const char *has = json_string_value(json_object_get(types, name));
    if (type == NULL ? has == NULL : has != NULL && strcmp(has, type) == 0)
        return true;
    *changed = true;
    if (type == NULL)
        return json_object_del(types, name) == 0;
    return json_object_set_new(types, name, json_string(type)) == 0;
}

/* What is to be recorded for the pair NOW, which was OLD (NULL: a new key). */
static enum hk_status settle_pair_type(json_t *types, const struct hk_kv *old,
                                       const struct hk_kv *now, bool *changed, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    const char *type = NULL;
    char *name = member_name(now->key, err, &st);
    if (name == NULL)
        return st;
    if (now->type != 0 && old != NULL && old->type == now->type)
        st = gguf_type_before(types, old, &type, err);
    const char *usual = now->type != 0 ? hk_gguf_default_type(now) : NULL;
    bool needed =
        type != NULL && (usual == NULL || strcmp(usual, type) != 0) && fits_gguf_type(now, type);
    /* TYPE may be the object's own string, which setting it anew would free. */
    char *copy = needed ? strdup(type) : NULL;
    if (st == HK_OK && ((needed && copy == NULL) || !note_gguf_type(types, name, copy, changed)))
        st = hk_fail_nomem(err);
    free(copy);
    free(name);
    return st;
}

static bool is_new_value(const struct hk_kv *old, const struct hk_kv *now)
{
    return old == NULL || old->type != now->type || !hk_bytes_equal(old->value, now->value);
}

static enum hk_status settle_pair_types(const struct hk_changes *c, const struct hk_file *f,
                                        json_t *types, bool *changed, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < c->count; i++) {
        const struct hk_change *change = &c->list[i];
        const struct hk_kv *old = i < c->old ? &f->kvs[i] : NULL;
        if (change->touched && !change->merged && is_new_value(old, &change->kv))
            st = settle_pair_type(types, old, &change->kv, changed, err);
    }
    return st;
}

/* *OUT: the pair that records TYPES, or without any the deletion of it. */
static enum hk_status make_types_pair(const json_t *types, struct hk_arena *arena,
                                      struct hk_kv *out, struct hk_error *err)
{
    struct hk_kv kv = {.key = types_key};
    if (json_object_size(types) > 0) {
        char *text = json_dumps(types, JSON_COMPACT);
        size_t n = text != NULL ? strlen(text) : 0;
        uint8_t *p = hk_arena_alloc(arena, n);
        if (text == NULL || p == NULL) {
            free(text);
            return hk_fail_nomem(err);
        }
        memcpy(p, text, n);
        free(text);
        kv.type = HK_META_JSON;
        kv.value = (struct hk_bytes){p, n};
    }
    *out = kv;
    return HK_OK;
}

/* Whoever changes the record in the same edit knows what it is to be. */
static bool is_key_touched(const struct hk_changes *c, struct hk_bytes key)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].touched && hk_bytes_equal(c->list[i].kv.key, key))
            return true;
    return false;
}

enum hk_status hk_settle_types(const struct hk_changes *c, const struct hk_file *f,
                               struct hk_arena *arena, struct hk_kv *out, bool *changed,
                               struct hk_error *err)
{
    json_t *types;
    *changed = false;
    if (is_key_touched(c, types_key))
        return HK_OK;
    enum hk_status st = hk_gguf_types_read(f, &types, err);
    if (st != HK_OK)
        return st;
    if (types == NULL && (types = json_object()) == NULL)
        return hk_fail_nomem(err);
    st = settle_pair_types(c, f, types, changed, err);
    if (st == HK_OK && *changed)
        st = make_types_pair(types, arena, out, err);
    json_decref(types);
    return st;
}
