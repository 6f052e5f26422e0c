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
static bool fits(const struct hk_kv *kv, const char *type)
{
    struct hk_buf b = {0};
    bool good = hk_gguf_put_value(&b, kv, type, NULL) == HK_OK;
    hk_buf_free(&b);
    return good;
}

/* The GGUF type that OLD, a pair of the file, has so far; NULL: none. */
static enum hk_status type_before(const json_t *types, const struct hk_kv *old, const char **out,
                                  struct hk_error *err)
{
    enum hk_status status = hk_gguf_recorded_type(types, old->key, out, err);
    if (status == HK_OK && *out == NULL)
        *out = hk_gguf_default_type(old);
    return status;
}

/* A key of the object, terminated; NULL where KEY cannot be one. */
static char *member(struct hk_bytes key, struct hk_error *err, enum hk_status *status)
{
    if (!hk_utf8_valid(key) || memchr(key.p, '\0', key.n) != NULL)
        return NULL;
    char *name = strndup((const char *)key.p, key.n);
    if (name == NULL)
        *status = hk_fail_nomem(err);
    return name;
}

/* Record TYPE for NAME, or with TYPE NULL nothing; *CHANGED where that is new. */
static bool record(json_t *types, const char *name, const char *type, bool *changed)
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
static enum hk_status settle(json_t *types, const struct hk_kv *old, const struct hk_kv *now,
                             bool *changed, struct hk_error *err)
{
    enum hk_status status = HK_OK;
    const char *type = NULL;
    char *name = member(now->key, err, &status);
    if (name == NULL)
        return status;
    if (now->type != 0 && old != NULL && old->type == now->type)
        status = type_before(types, old, &type, err);
    const char *usual = now->type != 0 ? hk_gguf_default_type(now) : NULL;
    bool needed = type != NULL && (usual == NULL || strcmp(usual, type) != 0) && fits(now, type);
    /* TYPE may be the object's own string, which setting it anew would free. */
    char *copy = needed ? strdup(type) : NULL;
    if (status == HK_OK && ((needed && copy == NULL) || !record(types, name, copy, changed)))
        status = hk_fail_nomem(err);
    free(copy);
    free(name);
    return status;
}

static bool is_new(const struct hk_kv *old, const struct hk_kv *now)
{
    return old == NULL || old->type != now->type || !hk_bytes_equal(old->value, now->value);
}

static enum hk_status settle_all(const struct hk_changes *c, const struct hk_file *f, json_t *types,
                                 bool *changed, struct hk_error *err)
{
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < c->count; i++) {
        const struct hk_change *change = &c->list[i];
        const struct hk_kv *old = i < c->old ? &f->kvs[i] : NULL;
        if (change->touched && !change->merged && is_new(old, &change->kv))
            status = settle(types, old, &change->kv, changed, err);
    }
    return status;
}

static enum hk_status change_record(struct hk_changes *c, const json_t *types,
                                    struct hk_arena *arena, struct hk_error *err)
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
    return hk_add_change(c, &kv, err);
}

/* Whoever changes the record in the same edit knows what it is to be. */
static bool is_touched(const struct hk_changes *c, struct hk_bytes key)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].touched && hk_bytes_equal(c->list[i].kv.key, key))
            return true;
    return false;
}

enum hk_status hk_settle_types(struct hk_changes *c, const struct hk_file *f,
                               struct hk_arena *arena, struct hk_error *err)
{
    if (is_touched(c, types_key))
        return HK_OK;
    json_t *types;
    bool changed = false;
    enum hk_status status = hk_gguf_types_read(f, &types, err);
    if (status != HK_OK)
        return status;
    if (types == NULL && (types = json_object()) == NULL)
        return hk_fail_nomem(err);
    status = settle_all(c, f, types, &changed, err);
    if (status == HK_OK && changed)
        status = change_record(c, types, arena, err);
    json_decref(types);
    return status;
}
