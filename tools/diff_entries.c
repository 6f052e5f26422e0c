/* diff_entries.c: which entry of one table is which of the other, and the two parts that are
 * compared entry by entry: keys that only one file has and values that differ; appendix records.
 * Two records are the same one where generation, type and name are; several of those belong
 * together in order. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/diff.h"
#include "tools/lib/metadata.h"

/* ---- pairing ---- */

struct place {
    struct diff_key key;
    size_t index;
};

static int compare_diff_keys(const struct diff_key *a, const struct diff_key *b)
{
    size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    int c = n > 0 ? memcmp(a->name.p, b->name.p, n) : 0;
    if (c == 0)
        c = (a->name.n > b->name.n) - (a->name.n < b->name.n);
    return c != 0 ? c : (a->number > b->number) - (a->number < b->number);
}

static int compare_diff_places(const void *pa, const void *pb)
{
    const struct place *a = pa, *b = pb;
    int c = compare_diff_keys(&a->key, &b->key);
    return c != 0 ? c : (a->index > b->index) - (a->index < b->index);
}

static void *checked_allocation(void *p)
{
    if (p == NULL)
        tool_nomem();
    return p;
}

static struct place *sort_diff_keys(const struct diff_key *keys, size_t count)
{
    struct place *places = checked_allocation(calloc(count + 1, sizeof *places));
    for (size_t i = 0; i < count; i++)
        places[i] = (struct place){keys[i], i};
    qsort(places, count, sizeof *places, compare_diff_places);
    return places;
}

/* Into PARTNERS (one for each of A) and LONELY (one for each of B). */
static void match_sorted_keys(const struct place *a, size_t a_count, const struct place *b,
                              size_t b_count, size_t *partners, bool *lonely)
{
    size_t i = 0, k = 0;
    while (i < a_count || k < b_count) {
        int c = i == a_count ? 1 : k == b_count ? -1 : compare_diff_keys(&a[i].key, &b[k].key);
        if (c <= 0)
            partners[a[i].index] = c == 0 ? b[k].index : DIFF_NONE;
        if (c > 0)
            lonely[b[k].index] = true;
        i += c <= 0;
        k += c >= 0;
    }
}

struct diff_pair *diff_join(const struct diff_key *a, size_t a_count, const struct diff_key *b,
                            size_t b_count, size_t *count)
{
    struct place *sorted_a = sort_diff_keys(a, a_count), *sorted_b = sort_diff_keys(b, b_count);
    size_t *partners = checked_allocation(calloc(a_count + 1, sizeof *partners)), n = 0;
    bool *lonely = checked_allocation(calloc(b_count + 1, sizeof *lonely));
    struct diff_pair *pairs = checked_allocation(calloc(a_count + b_count + 1, sizeof *pairs));
    match_sorted_keys(sorted_a, a_count, sorted_b, b_count, partners, lonely);
    for (size_t i = 0; i < a_count; i++)
        pairs[n++] = (struct diff_pair){i, partners[i]};
    for (size_t i = 0; i < b_count; i++)
        if (lonely[i])
            pairs[n++] = (struct diff_pair){DIFF_NONE, i};
    free(sorted_a);
    free(sorted_b);
    free(partners);
    free(lonely);
    *count = n;
    return pairs;
}

/* ---- metadata ---- */

static struct diff_key *metadata_keys(const struct hk_file *f)
{
    struct diff_key *keys = calloc(hk_kv_count(f) + 1, sizeof *keys);
    if (keys == NULL)
        tool_nomem();
    for (size_t i = 0; i < hk_kv_count(f); i++)
        keys[i].name = hk_kv_at(f, i)->key;
    return keys;
}

static bool is_ignored_key(const struct diff_options *o, struct hk_bytes key)
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
    return gguf || kv->gguf_type == NULL ? metadata_type_name(kv) : hk_meta_type_name(kv->type);
}

/* ---- arrays, element by element ---- */

static bool same_array_element(const struct hk_array *a, const struct hk_array *b, uint32_t i)
{
    if (a->kind == HK_ARRAY_STRING)
        return hk_bytes_equal(hk_array_string(a, i), hk_array_string(b, i));
    if (a->kind == HK_ARRAY_I32)
        return hk_array_i32(a, i) == hk_array_i32(b, i);
    float x = hk_array_f32(a, i), y = hk_array_f32(b, i);
    return memcmp(&x, &y, sizeof x) == 0;
}

/* Another one differs, at I of as many as both have. */
static void note_differing_element(struct diff_kv *d, uint64_t i)
{
    if (d->differing++ == 0)
        d->first = i;
}

static void set_array_counts(struct diff_kv *d, uint64_t a, uint64_t b)
{
    d->array = true;
    d->count_a = a;
    d->count_b = b;
}

/* What only the longer one has differs too. */
static void note_longer_rest(struct diff_kv *d)
{
    uint64_t less = d->count_a < d->count_b ? d->count_a : d->count_b;
    uint64_t more = d->count_a < d->count_b ? d->count_b : d->count_a;
    if (more > less && d->differing == 0)
        d->first = less;
    d->differing += more - less;
}

static void compare_array_blobs(struct diff_kv *d)
{
    struct hk_array a, b;
    if (!hk_array_from_blob(d->a->value, &a) || !hk_array_from_blob(d->b->value, &b) ||
        a.kind != b.kind)
        return;
    set_array_counts(d, a.count, b.count);
    for (uint32_t i = 0; i < a.count && i < b.count; i++)
        if (!same_array_element(&a, &b, i))
            note_differing_element(d, i);
    note_longer_rest(d);
    d->first_a = d->first < a.count ? metadata_element(&a, (uint32_t)d->first) : json_null();
    d->first_b = d->first < b.count ? metadata_element(&b, (uint32_t)d->first) : json_null();
}

static json_t *json_element_or_null(const json_t *list, uint64_t i)
{
    json_t *v = json_array_get(list, (size_t)i);
    return v != NULL ? json_incref(v) : json_null();
}

static void compare_json_lists(struct diff_kv *d, const json_t *a, const json_t *b)
{
    set_array_counts(d, json_array_size(a), json_array_size(b));
    for (size_t i = 0; i < d->count_a && i < d->count_b; i++)
        if (!json_equal(json_array_get(a, i), json_array_get(b, i)))
            note_differing_element(d, i);
    note_longer_rest(d);
    d->first_a = json_element_or_null(a, d->first);
    d->first_b = json_element_or_null(b, d->first);
}

/* Whether two texts say the same; spaces and the order of members say nothing. */
static bool same_json_value(struct diff_kv *d)
{
    json_t *a = tool_json_any(d->a->value), *b = tool_json_any(d->b->value);
    bool same = a != NULL && b != NULL && json_equal(a, b);
    if (!same && json_is_array(a) && json_is_array(b))
        compare_json_lists(d, a, b);
    json_decref(a);
    json_decref(b);
    return same;
}

/* ---- pairs ---- */

/* GGUF has no json: there it is a string. */
static bool is_json_and_string(const struct hk_kv *json, const struct hk_kv *string)
{
    return json->type == HK_META_JSON && string->type == HK_META_STRING &&
           string->gguf_type != NULL;
}

static bool same_metadata_value(struct diff_kv *d)
{
    const char *gguf_a = d->a->gguf_type, *gguf_b = d->b->gguf_type;
    if (is_json_and_string(d->a, d->b) || is_json_and_string(d->b, d->a))
        return hk_bytes_equal(d->a->value, d->b->value) || same_json_value(d);
    if (d->a->type != d->b->type ||
        (gguf_a != NULL && gguf_b != NULL && strcmp(gguf_a, gguf_b) != 0))
        return false;
    if (hk_bytes_equal(d->a->value, d->b->value))
        return true;
    if (d->a->type == HK_META_JSON)
        return same_json_value(d);
    if (d->a->type == HK_META_BYTES)
        compare_array_blobs(d);
    return false;
}

bool diff_orders_known(const struct diff *d)
{
    return d->rotation_a != HK_ROTATION_UNKNOWN && d->rotation_b != HK_ROTATION_UNKNOWN;
}

static void take_metadata_pair(struct diff *d, const struct diff_pair *p)
{
    struct diff_kv kv = {.a = p->a != DIFF_NONE ? hk_kv_at(d->a, p->a) : NULL,
                         .b = p->b != DIFF_NONE ? hk_kv_at(d->b, p->b) : NULL};
    bool both = kv.a != NULL && kv.b != NULL;
    /* Tensors are compared in one order of rows, so which of them a file has is no difference. */
    if (diff_orders_known(d) && hk_is_rotation_key(kv.a != NULL ? kv.a->key : kv.b->key))
        return;
    bool ignored = is_ignored_key(d->options, kv.a != NULL ? kv.a->key : kv.b->key);
    if (both && same_metadata_value(&kv))
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
    struct diff_key *a = metadata_keys(d->a), *b = metadata_keys(d->b);
    struct diff_pair *pairs = diff_join(a, hk_kv_count(d->a), b, hk_kv_count(d->b), &count);
    d->kvs = calloc(count + 1, sizeof *d->kvs);
    if (d->kvs == NULL)
        tool_nomem();
    for (size_t i = 0; i < count; i++)
        take_metadata_pair(d, &pairs[i]);
    d->differ = d->differ || d->kv_count > 0;
    free(a);
    free(b);
    free(pairs);
}

/* ---- appendix ---- */

enum { TARGET, TIMESTAMP, FLAGS, METRICS, PARENT_HASH, CRC32, SIZE, PAYLOAD };
const char *const diff_fields[DIFF_FIELDS] = {
    [TARGET] = "target",   [TIMESTAMP] = "timestamp",     [FLAGS] = "flags",
    [METRICS] = "metrics", [PARENT_HASH] = "parent_hash", [CRC32] = "crc32",
    [SIZE] = "size",       [PAYLOAD] = "payload",
};

static struct diff_key *record_keys(const struct hk_file *f)
{
    struct diff_key *keys = calloc(hk_record_count(f) + 1, sizeof *keys);
    if (keys == NULL)
        tool_nomem();
    for (size_t i = 0; i < hk_record_count(f); i++) {
        const struct hk_record *r = hk_record_at(f, i);
        keys[i] = (struct diff_key){r->name, (uint64_t)r->generation << 8 | r->type};
    }
    return keys;
}

static unsigned compare_record_fields(const struct diff *d, const struct hk_record *a,
                                      const struct hk_record *b)
{
    const bool differs[DIFF_FIELDS] = {
        [TARGET] = !hk_bytes_equal(a->target, b->target),
        [TIMESTAMP] = a->timestamp != b->timestamp,
        [FLAGS] = a->flags != b->flags,
        [METRICS] = memcmp(a->metrics, b->metrics, sizeof a->metrics) != 0,
        [PARENT_HASH] = memcmp(a->parent_hash, b->parent_hash, sizeof a->parent_hash) != 0,
        [CRC32] = a->data_crc32 != b->data_crc32,
        [SIZE] = a->data_size != b->data_size,
        [PAYLOAD] = !hk_bytes_equal(hk_record_data(d->a, a), hk_record_data(d->b, b)),
    };
    unsigned bits = 0;
    for (unsigned i = 0; i < DIFF_FIELDS; i++)
        bits |= (unsigned)differs[i] << i;
    return bits;
}

static void take_record_pair(struct diff *d, const struct diff_pair *p)
{
    struct diff_record r = {.a = p->a != DIFF_NONE ? hk_record_at(d->a, p->a) : NULL,
                            .b = p->b != DIFF_NONE ? hk_record_at(d->b, p->b) : NULL};
    bool both = r.a != NULL && r.b != NULL;
    r.differs = both ? compare_record_fields(d, r.a, r.b) : 0;
    if (!both || r.differs != 0)
        d->records[d->record_count++] = r;
}

void diff_appendix(struct diff *d)
{
    size_t count;
    struct diff_key *a = record_keys(d->a), *b = record_keys(d->b);
    struct diff_pair *pairs = diff_join(a, hk_record_count(d->a), b, hk_record_count(d->b), &count);
    d->records = calloc(count + 1, sizeof *d->records);
    if (d->records == NULL)
        tool_nomem();
    for (size_t i = 0; i < count; i++)
        take_record_pair(d, &pairs[i]);
    d->differ = d->differ || d->record_count > 0;
    free(a);
    free(b);
    free(pairs);
}
