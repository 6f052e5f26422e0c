/* diff_metadata.c: keys that only one file has, and values that differ. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"
#include "tools/inspect.h"

static struct diff_key *keys_of(const struct hk_file *f)
{
    struct diff_key *keys = calloc(hk_kv_count(f) + 1, sizeof *keys);
    if (keys == NULL)
        tool_nomem();
    for (size_t i = 0; i < hk_kv_count(f); i++)
        keys[i].name = hk_kv_at(f, i)->key;
    return keys;
}

static bool is_ignored(const struct diff_options *o, struct hk_bytes key)
{
    if (o->ignored_count == 0)
        return false;
    char *name = strndup((const char *)key.p, key.n);
    if (name == NULL)
        tool_nomem();
    bool found = false;
    for (size_t i = 0; i < o->ignored_count && !found; i++)
        found = fnmatch(o->ignored[i], name, 0) == 0;
    free(name);
    return found;
}

const char *diff_kv_type(const struct diff_kv *d, const struct hk_kv *kv)
{
    bool gguf = d->a != NULL && d->b != NULL ? d->a->gguf_type != NULL && d->b->gguf_type != NULL
                                             : kv->gguf_type != NULL;
    return gguf ? kv->gguf_type : hk_meta_type_name(kv->type);
}

/* ---- arrays, element by element ---- */

static bool same_bytes(struct hk_bytes a, struct hk_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static bool same_element(const struct hk_array *a, const struct hk_array *b, uint32_t i)
{
    if (a->kind == HK_ARRAY_STRING)
        return same_bytes(hk_array_string(a, i), hk_array_string(b, i));
    if (a->kind == HK_ARRAY_I32)
        return hk_array_i32(a, i) == hk_array_i32(b, i);
    float x = hk_array_f32(a, i), y = hk_array_f32(b, i);
    return memcmp(&x, &y, sizeof x) == 0;
}

/* Another one differs, at I of as many as both have. */
static void note(struct diff_kv *d, uint64_t i)
{
    if (d->differing++ == 0)
        d->first = i;
}

static void set_counts(struct diff_kv *d, uint64_t a, uint64_t b)
{
    d->array = true;
    d->count_a = a;
    d->count_b = b;
}

/* What only the longer one has differs too. */
static void note_rest(struct diff_kv *d)
{
    uint64_t less = d->count_a < d->count_b ? d->count_a : d->count_b;
    uint64_t more = d->count_a < d->count_b ? d->count_b : d->count_a;
    if (more > less && d->differing == 0)
        d->first = less;
    d->differing += more - less;
}

static void compare_blobs(struct diff_kv *d)
{
    struct hk_array a, b;
    if (!hk_array_from_blob(d->a->value, &a) || !hk_array_from_blob(d->b->value, &b) ||
        a.kind != b.kind)
        return;
    set_counts(d, a.count, b.count);
    for (uint32_t i = 0; i < a.count && i < b.count; i++)
        if (!same_element(&a, &b, i))
            note(d, i);
    note_rest(d);
    d->first_a = d->first < a.count ? inspect_element(&a, (uint32_t)d->first) : json_null();
    d->first_b = d->first < b.count ? inspect_element(&b, (uint32_t)d->first) : json_null();
}

static json_t *parse(struct hk_bytes text)
{
    return tool_json_load(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
}

static json_t *element(const json_t *list, uint64_t i)
{
    json_t *v = json_array_get(list, (size_t)i);
    return v != NULL ? json_incref(v) : json_null();
}

static void compare_lists(struct diff_kv *d, const json_t *a, const json_t *b)
{
    set_counts(d, json_array_size(a), json_array_size(b));
    for (size_t i = 0; i < d->count_a && i < d->count_b; i++)
        if (!json_equal(json_array_get(a, i), json_array_get(b, i)))
            note(d, i);
    note_rest(d);
    d->first_a = element(a, d->first);
    d->first_b = element(b, d->first);
}

/* Whether two texts say the same; spaces and the order of members say nothing. */
static bool same_json(struct diff_kv *d)
{
    json_t *a = parse(d->a->value), *b = parse(d->b->value);
    bool same = a != NULL && b != NULL && json_equal(a, b);
    if (!same && json_is_array(a) && json_is_array(b))
        compare_lists(d, a, b);
    json_decref(a);
    json_decref(b);
    return same;
}

/* ---- pairs ---- */

/* GGUF has no json: there it is a string. */
static bool is_json_string(const struct hk_kv *json, const struct hk_kv *string)
{
    return json->type == HK_META_JSON && string->type == HK_META_STRING &&
           string->gguf_type != NULL;
}

static bool same_kv(struct diff_kv *d)
{
    const char *gguf_a = d->a->gguf_type, *gguf_b = d->b->gguf_type;
    if (is_json_string(d->a, d->b) || is_json_string(d->b, d->a))
        return same_bytes(d->a->value, d->b->value) || same_json(d);
    if (d->a->type != d->b->type ||
        (gguf_a != NULL && gguf_b != NULL && strcmp(gguf_a, gguf_b) != 0))
        return false;
    if (same_bytes(d->a->value, d->b->value))
        return true;
    if (d->a->type == HK_META_JSON)
        return same_json(d);
    if (d->a->type == HK_META_BYTES)
        compare_blobs(d);
    return false;
}

static void take_pair(struct diff *d, const struct diff_pair *p)
{
    struct diff_kv kv = {.a = p->a != DIFF_NONE ? hk_kv_at(d->a, p->a) : NULL,
                         .b = p->b != DIFF_NONE ? hk_kv_at(d->b, p->b) : NULL};
    bool both = kv.a != NULL && kv.b != NULL;
    /* Tensors are compared in one order of rows, so which of them a file has is no difference. */
    if (diff_orders_known(d) && hk_bytes_are(kv.a != NULL ? kv.a->key : kv.b->key, "hk.rope_style"))
        return;
    bool ignored = is_ignored(d->options, kv.a != NULL ? kv.a->key : kv.b->key);
    if (both && same_kv(&kv))
        return;
    if (!ignored) {
        d->kvs[d->kv_count++] = kv;
        return;
    }
    d->ignored++;
    json_decref(kv.first_a);
    json_decref(kv.first_b);
}

void diff_metadata(struct diff *d)
{
    size_t count;
    struct diff_key *a = keys_of(d->a), *b = keys_of(d->b);
    struct diff_pair *pairs = diff_join(a, hk_kv_count(d->a), b, hk_kv_count(d->b), &count);
    d->kvs = calloc(count + 1, sizeof *d->kvs);
    if (d->kvs == NULL)
        tool_nomem();
    for (size_t i = 0; i < count; i++)
        take_pair(d, &pairs[i]);
    d->differ = d->differ || d->kv_count > 0;
    free(a);
    free(b);
    free(pairs);
}
