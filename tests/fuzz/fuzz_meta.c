/* Values of metadata as hk-meta reads them from texts and JSON and exports them: an import of what
 * was exported gives the same bytes. The input is a byte that says what the rest is. */
#include "tests/fuzz/fuzz.h"
#include "tools/meta.h"

static const char key[] = "test.key";

/* Whether a .hk may have such a value. */
static bool is_sound(const struct hk_kv *kv)
{
    return kv->type == HK_META_BOOL                                   ? kv->value.n == 1
           : kv->type == HK_META_INT64 || kv->type == HK_META_FLOAT64 ? kv->value.n == 8
                                                                      : true;
}

static void round_trip(const struct hk_kv *kv)
{
    struct hk_error err;
    struct meta_value back;
    json_t *v = meta_json(kv);
    char *text = json_dumps(v, JSON_COMPACT);
    json_decref(v);
    fuzz_require(text != NULL, "an export is JSON");
    v = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    fuzz_require(v != NULL, "an export is read again");
    fuzz_must(meta_parse_json(&back, v, key, &err), &err, "an export is imported");
    fuzz_require(back.type == (enum hk_meta_type)kv->type && back.n == kv->value.n &&
                     memcmp(back.bytes, kv->value.p, back.n) == 0,
                 "an import of an export gives the same value");
    json_decref(v);
    free(text);
    free(back.bytes);
}

static struct hk_kv pair_of(enum hk_meta_type type, struct hk_bytes value)
{
    return (struct hk_kv){
        .key = {(const uint8_t *)key, sizeof key - 1}, .value = value, .type = (uint8_t)type};
}

static void check(struct meta_value *v)
{
    struct hk_kv kv = pair_of(v->type, (struct hk_bytes){v->bytes, v->n});
    if (is_sound(&kv)) /* bytes given as base64 need not be; an edit refuses them */
        round_trip(&kv);
    free(v->bytes);
}

static void import(struct hk_bytes text)
{
    struct hk_error err;
    struct meta_value value;
    json_t *v =
        json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (v != NULL && fuzz_may(meta_parse_json(&value, v, key, &err), &err))
        check(&value);
    json_decref(v);
}

void fuzz_one(struct hk_bytes input)
{
    enum { IMPORT = META_TYPES, RAW, KINDS = RAW + HK_META_BYTES };
    struct hk_error err;
    struct meta_value value;
    unsigned kind = fuzz_byte(&input) % KINDS;
    if (kind == META_NONE || kind == IMPORT) {
        import(input);
    } else if (kind < IMPORT) {
        if (fuzz_may(meta_parse(&value, (enum meta_type)kind, input, key, &err), &err))
            check(&value);
    } else {
        struct hk_kv kv = pair_of((enum hk_meta_type)(kind - RAW + HK_META_STRING), input);
        if (is_sound(&kv))
            round_trip(&kv);
    }
}
