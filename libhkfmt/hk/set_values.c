/* Metadata values made of C types, for a writer and for an edit. */

#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/kvlist.h"

/* What a value is for: one of the two. */
struct target {
    struct hk_writer *writer;
    struct hk_edit *edit;
};

static enum hk_status set_bytes(struct target to, const char *key, enum hk_meta_type type,
                                struct hk_bytes value, struct hk_error *err)
{
    const struct hk_bytes name = hk_bytes_of(key);
    return to.writer != NULL ? hk_writer_set(to.writer, name, type, value, err)
                             : hk_edit_set(to.edit, name, type, value, err);
}

static enum hk_status set_int(struct target to, const char *key, int64_t value,
                              struct hk_error *err)
{
    uint8_t p[8];
    put64(p, (uint64_t)value);
    return set_bytes(to, key, HK_META_INT64, (struct hk_bytes){p, sizeof p}, err);
}

static enum hk_status set_float(struct target to, const char *key, double value,
                                struct hk_error *err)
{
    uint8_t p[8];
    put_f64(p, value);
    return set_bytes(to, key, HK_META_FLOAT64, (struct hk_bytes){p, sizeof p}, err);
}

static enum hk_status set_bool(struct target to, const char *key, bool value, struct hk_error *err)
{
    const uint8_t p = value;
    return set_bytes(to, key, HK_META_BOOL, (struct hk_bytes){&p, 1}, err);
}

/* The one value of LIST, an array blob under any name, and the list's end. */
static enum hk_status set_array(struct target to, const char *key, struct hk_kvlist *list,
                                struct hk_error *err)
{
    enum hk_status st = list->status;
    if (st == HK_E_NOMEM)
        st = hk_fail_nomem(err);
    else if (st != HK_OK)
        st = hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "key %s: an array too long for .hk", key);
    else
        st = set_bytes(to, key, HK_META_BYTES, list->kvs[0].value, err);
    hk_kvlist_free(list);
    hk_arena_free(list->arena);
    return st;
}

static enum hk_status set_string_array(struct target to, const char *key,
                                       const struct hk_bytes *values, uint32_t count,
                                       struct hk_error *err)
{
    struct hk_arena arena = {0};
    struct hk_kvlist list = {.arena = &arena};
    hk_kvlist_strings(&list, "array", values, count);
    return set_array(to, key, &list, err);
}

static enum hk_status set_f32_array(struct target to, const char *key, const float *values,
                                    uint32_t count, struct hk_error *err)
{
    struct hk_arena arena = {0};
    struct hk_kvlist list = {.arena = &arena};
    hk_kvlist_f32s(&list, "array", values, count);
    return set_array(to, key, &list, err);
}

static enum hk_status set_i32_array(struct target to, const char *key, const int32_t *values,
                                    uint32_t count, struct hk_error *err)
{
    struct hk_arena arena = {0};
    struct hk_kvlist list = {.arena = &arena};
    hk_kvlist_i32s(&list, "array", values, count);
    return set_array(to, key, &list, err);
}

/* ---- a writer ---- */

enum hk_status hk_writer_set_string(struct hk_writer *w, const char *key, const char *value,
                                    struct hk_error *err)
{
    return set_bytes((struct target){.writer = w}, key, HK_META_STRING, hk_bytes_of(value), err);
}

enum hk_status hk_writer_set_int(struct hk_writer *w, const char *key, int64_t value,
                                 struct hk_error *err)
{
    return set_int((struct target){.writer = w}, key, value, err);
}

enum hk_status hk_writer_set_float(struct hk_writer *w, const char *key, double value,
                                   struct hk_error *err)
{
    return set_float((struct target){.writer = w}, key, value, err);
}

enum hk_status hk_writer_set_bool(struct hk_writer *w, const char *key, bool value,
                                  struct hk_error *err)
{
    return set_bool((struct target){.writer = w}, key, value, err);
}

enum hk_status hk_writer_set_json(struct hk_writer *w, const char *key, const char *text,
                                  struct hk_error *err)
{
    return set_bytes((struct target){.writer = w}, key, HK_META_JSON, hk_bytes_of(text), err);
}

enum hk_status hk_writer_set_bytes(struct hk_writer *w, const char *key, struct hk_bytes value,
                                   struct hk_error *err)
{
    return set_bytes((struct target){.writer = w}, key, HK_META_BYTES, value, err);
}

enum hk_status hk_writer_set_string_array(struct hk_writer *w, const char *key,
                                          const struct hk_bytes *values, uint32_t count,
                                          struct hk_error *err)
{
    return set_string_array((struct target){.writer = w}, key, values, count, err);
}

enum hk_status hk_writer_set_f32_array(struct hk_writer *w, const char *key, const float *values,
                                       uint32_t count, struct hk_error *err)
{
    return set_f32_array((struct target){.writer = w}, key, values, count, err);
}

enum hk_status hk_writer_set_i32_array(struct hk_writer *w, const char *key, const int32_t *values,
                                       uint32_t count, struct hk_error *err)
{
    return set_i32_array((struct target){.writer = w}, key, values, count, err);
}

/* ---- an edit ---- */

enum hk_status hk_edit_set_string(struct hk_edit *e, const char *key, const char *value,
                                  struct hk_error *err)
{
    return set_bytes((struct target){.edit = e}, key, HK_META_STRING, hk_bytes_of(value), err);
}

enum hk_status hk_edit_set_int(struct hk_edit *e, const char *key, int64_t value,
                               struct hk_error *err)
{
    return set_int((struct target){.edit = e}, key, value, err);
}

enum hk_status hk_edit_set_float(struct hk_edit *e, const char *key, double value,
                                 struct hk_error *err)
{
    return set_float((struct target){.edit = e}, key, value, err);
}

enum hk_status hk_edit_set_bool(struct hk_edit *e, const char *key, bool value,
                                struct hk_error *err)
{
    return set_bool((struct target){.edit = e}, key, value, err);
}

enum hk_status hk_edit_set_json(struct hk_edit *e, const char *key, const char *text,
                                struct hk_error *err)
{
    return set_bytes((struct target){.edit = e}, key, HK_META_JSON, hk_bytes_of(text), err);
}

enum hk_status hk_edit_set_bytes(struct hk_edit *e, const char *key, struct hk_bytes value,
                                 struct hk_error *err)
{
    return set_bytes((struct target){.edit = e}, key, HK_META_BYTES, value, err);
}

enum hk_status hk_edit_set_string_array(struct hk_edit *e, const char *key,
                                        const struct hk_bytes *values, uint32_t count,
                                        struct hk_error *err)
{
    return set_string_array((struct target){.edit = e}, key, values, count, err);
}

enum hk_status hk_edit_set_f32_array(struct hk_edit *e, const char *key, const float *values,
                                     uint32_t count, struct hk_error *err)
{
    return set_f32_array((struct target){.edit = e}, key, values, count, err);
}

enum hk_status hk_edit_set_i32_array(struct hk_edit *e, const char *key, const int32_t *values,
                                     uint32_t count, struct hk_error *err)
{
    return set_i32_array((struct target){.edit = e}, key, values, count, err);
}
