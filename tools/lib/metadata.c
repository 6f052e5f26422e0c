/* metadata.c: metadata as JSON and as a table. Long arrays and opaque bytes are summarised unless
 * all is asked for, so that a vocabulary does not drown the rest. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hkmodel.h"
#include "tools/lib/metadata.h"

enum {
    LONG = 16,      /* a longer array is summarised */
    FIRST = 8,      /* elements shown of it */
    HEX_BYTES = 32, /* bytes shown of an opaque value */
};

/* ---- JSON ---- */

json_t *metadata_element(const struct hk_array *a, uint32_t i)
{
    switch (a->kind) {
    case HK_ARRAY_STRING:
        return tool_json_bytes(hk_array_string(a, i));
    case HK_ARRAY_F32:
        return tool_json_float(hk_array_f32(a, i));
    case HK_ARRAY_I32:
        return json_integer(hk_array_i32(a, i));
    }
    return json_null();
}

/* {"array":KIND,"count":N,"first":[...]}, taking over FIRST. */
static json_t *summarise_array(const char *kind, uint64_t count, json_t *first)
{
    json_t *v = json_object();
    tool_json_set(v, "array", json_string(kind));
    tool_json_set(v, "count", tool_json_uint(count));
    tool_json_set(v, "first", first);
    return v;
}

static json_t *metadata_array_json(const struct hk_array *a, bool full)
{
    static const char *const kinds[] = {
        [HK_ARRAY_STRING] = "string", [HK_ARRAY_F32] = "f32", [HK_ARRAY_I32] = "i32"};
    bool whole = full || a->count <= LONG;
    uint32_t shown = whole ? a->count : FIRST;
    json_t *list = json_array();
    for (uint32_t i = 0; i < shown; i++)
        tool_json_push(list, metadata_element(a, i));
    return whole ? list : summarise_array(kinds[a->kind], a->count, list);
}

static json_t *metadata_bytes_json(struct hk_bytes b, bool full)
{
    struct hk_array a;
    if (hk_array_from_blob(b, &a))
        return metadata_array_json(&a, full);
    json_t *v = json_object();
    tool_json_set(v, "bytes", tool_json_uint(b.n));
    tool_json_set(v, "hex", tool_json_hex(b.p, full || b.n < HEX_BYTES ? b.n : HEX_BYTES));
    return v;
}

/* Embedded where it parses without loss: jansson refuses duplicate keys and integers beyond 64
 * bits, and such a text is shown as the string it is. */
static json_t *metadata_json_text(struct hk_bytes text, bool full)
{
    json_t *v = tool_json_any(text);
    if (v == NULL)
        return tool_json_bytes(text);
    size_t count = json_array_size(v);
    if (full || count <= LONG)
        return v;
    json_t *first = json_array();
    for (size_t i = 0; i < FIRST; i++)
        tool_json_push(first, json_incref(json_array_get(v, i)));
    json_decref(v);
    return summarise_array("json", count, first);
}

/* An f32 of a GGUF was widened, by the reader or when it became a .hk; as a float it has fewer
 * digits. */
static json_t *metadata_float_json(const struct hk_kv *kv)
{
    double v;
    if (hk_kv_float(kv, &v, NULL) != HK_OK)
        return json_null();
    bool narrow = kv->gguf_type != NULL ? strcmp(kv->gguf_type, "f32") == 0
                                        : fabs(v) <= (double)FLT_MAX && (double)(float)v == v;
    return narrow ? tool_json_float((float)v) : tool_json_double(v);
}

json_t *metadata_value(const struct hk_kv *kv, bool full)
{
    int64_t number;
    bool truth;
    switch (kv->type) {
    case HK_META_STRING:
        return tool_json_bytes(kv->value);
    case HK_META_INT64:
        return hk_kv_int(kv, &number, NULL) == HK_OK ? json_integer(number) : json_null();
    case HK_META_FLOAT64:
        return metadata_float_json(kv);
    case HK_META_BOOL:
        return hk_kv_bool(kv, &truth, NULL) == HK_OK ? json_boolean(truth) : json_null();
    case HK_META_JSON:
        return metadata_json_text(kv->value, full);
    default:
        return metadata_bytes_json(kv->value, full);
    }
}

/* A key that is not UTF-8 gets "~" and its number, as often as needed: two keys that differ only in
 * bad bytes, or a key that is spelt like the result, would give one member twice. */
static char *numbered_metadata_key(const struct hk_file *f, struct hk_bytes key, size_t number)
{
    json_t *text = tool_json_bytes(key);
    if (text == NULL)
        tool_nomem();
    char *name = strndup(json_string_value(text), json_string_length(text));
    json_decref(text);
    do {
        char *longer;
        if (name == NULL || asprintf(&longer, "%s~%zu", name, number) < 0)
            tool_nomem();
        free(name);
        name = longer;
    } while (hk_kv_find(f, name) != NULL);
    return name;
}

char *metadata_key(const struct hk_file *f, size_t i)
{
    struct hk_bytes key = hk_kv_at(f, i)->key;
    if (!hk_utf8_valid(key) || memchr(key.p, '\0', key.n) != NULL)
        return numbered_metadata_key(f, key, i);
    char *name = strndup((const char *)key.p, key.n);
    if (name == NULL)
        tool_nomem();
    return name;
}

const char *metadata_type_name(const struct hk_kv *kv)
{
    static const char *const arrays[] = {[HK_ARRAY_STRING] = "array<string>",
                                         [HK_ARRAY_F32] = "array<f32>",
                                         [HK_ARRAY_I32] = "array<i32>"};
    struct hk_array a;
    if (kv->gguf_type != NULL)
        return kv->gguf_type;
    if (kv->type == HK_META_BYTES && hk_array_from_blob(kv->value, &a))
        return arrays[a.kind];
    return hk_meta_type_name(kv->type);
}

json_t *metadata_typed_value(const struct hk_kv *kv, bool full)
{
    json_t *v = json_object();
    tool_json_set(v, "type", json_string(metadata_type_name(kv)));
    tool_json_set(v, "value", metadata_value(kv, full));
    return v;
}

static json_t *metadata_member(const struct hk_kv *kv, bool full, bool typed)
{
    return typed ? metadata_typed_value(kv, full) : metadata_value(kv, full);
}

void metadata_put(const struct hk_file *f, bool full, bool typed, struct tool_json_out *o)
{
    tool_json_enter(o, "metadata", '{');
    for (size_t i = 0; i < hk_kv_count(f) && !ferror(o->file); i++) {
        const struct hk_kv *kv = hk_kv_at(f, i);
        if (hk_utf8_valid(kv->key)) {
            tool_json_put_bytes(o, kv->key, metadata_member(kv, full, typed));
            continue;
        }
        char *name = numbered_metadata_key(f, kv->key, i);
        tool_json_put(o, name, metadata_member(kv, full, typed));
        free(name);
    }
    tool_json_leave(o, '}');
}

/* ---- tables ---- */

/* Cells of a hostile file must not widen every row: names may have 65535 bytes there. */
enum { VALUE_COLUMNS = 72, NAME_COLUMNS = HK_MAX_NAME };

void metadata_heading(const struct hk_file *f, const char *name)
{
    char size[24];
    tool_escape(stdout, hk_bytes_of(name));
    printf(": %s, %s\n", hk_format_name(hk_file_format(f)), tool_human_size(hk_file_size(f), size));
}

/* Strings as they are, everything else as in the JSON. */
static void metadata_value_cell(struct tool_table *t, const struct hk_kv *kv, bool full)
{
    size_t most = full ? 0 : VALUE_COLUMNS;
    if (kv->type == HK_META_STRING) {
        tool_cell_bytes(t, kv->value, most);
        return;
    }
    char *line;
    size_t size;
    FILE *memory = open_memstream(&line, &size);
    if (memory == NULL)
        tool_nomem();
    tool_json_print(metadata_value(kv, full), memory);
    if (fclose(memory) != 0)
        tool_nomem();
    tool_cell_bytes(t, (struct hk_bytes){(const uint8_t *)line, size - 1}, most);
    free(line);
}

void metadata_table(const struct hk_file *f, bool full)
{
    static const char *const titles[] = {"KEY", "TYPE", "VALUE"};
    struct tool_table t = {.columns = 3, .right = "lll"};
    tool_cell_titles(&t, titles);
    for (size_t i = 0; i < hk_kv_count(f); i++) {
        const struct hk_kv *kv = hk_kv_at(f, i);
        tool_cell_bytes(&t, kv->key, NAME_COLUMNS);
        tool_cell(&t, "%s", metadata_type_name(kv));
        metadata_value_cell(&t, kv, full);
    }
    tool_table_print(&t, stdout);
}
