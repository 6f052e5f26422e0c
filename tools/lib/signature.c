/* Signature files: one JSON object, the three digests and the signature in hexadecimal digits. */
#include "tools/lib/signature.h"

#include <stdlib.h>
#include <string.h>

json_t *signature_json(const struct signature *s)
{
    json_t *v = json_object();
    tool_json_set(v, "hk_signature", json_integer(1));
    tool_json_set(v, "algorithm", json_string("ed25519"));
    tool_json_set(v, "base", tool_json_hex(s->digests.base, HK_SHA256_SIZE));
    tool_json_set(v, "metadata", tool_json_hex(s->digests.metadata, HK_SHA256_SIZE));
    tool_json_set(v, "history", tool_json_hex(s->digests.history, HK_SHA256_SIZE));
    tool_json_set(v, "signature", tool_json_hex(s->bytes, HK_SIGNATURE_SIZE));
    return v;
}

static int lower_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex_member(const json_t *v, const char *name, uint8_t *out, size_t n)
{
    const char *s = json_string_value(json_object_get(v, name));
    if (s == NULL || strlen(s) != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const int high = lower_hex_digit(s[2 * i]), low = lower_hex_digit(s[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

struct hk_work signature_work(const struct hk_loop *loop)
{
    return (struct hk_work){
        .size = sizeof(struct hk_work), .loop = loop, .progress = tool_progress_hashing};
}

enum hk_status signature_digests(const char *path, const struct hk_loop *loop,
                                 struct hk_digests *out, struct hk_error *err)
{
    struct hk_file *f;
    const struct hk_work work = signature_work(loop);
    enum hk_status st = tool_open(&f, path, err);
    if (st != HK_OK)
        return st;
    if (hk_file_format(f) != HK_FORMAT_HK)
        st = hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                     "is %s: only a .hk can be signed, hk-convert makes one",
                     hk_format_name(hk_file_format(f)));
    if (st == HK_OK)
        st = hk_file_digests(f, &work, out, err);
    hk_close(&f);
    return st;
}

enum hk_status signature_beside(char **out, const char *path, struct hk_error *err)
{
    char *first;
    enum hk_status st = hk_first_file(&first, path, err);
    if (st != HK_OK)
        return st;
    if (asprintf(out, "%s.sig", first) < 0)
        tool_nomem();
    free(first);
    return HK_OK;
}

enum hk_status signature_key(struct hk_bytes *out, const char *path, struct hk_error *err)
{
    enum { MOST = 64 * 1024 };
    uint8_t *p = NULL;
    enum hk_status st = tool_read_all(path, &p, &out->n, MOST, err);
    if (st == HK_E_RANGE)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "too large for a key or signature");
    out->p = p;
    return st;
}

enum hk_status signature_read(struct signature *out, const char *path, struct hk_error *err)
{
    struct hk_bytes text;
    struct signature s;
    enum hk_status status = signature_key(&text, path, err);
    if (status != HK_OK)
        return status;
    json_t *v = tool_json_load(text, JSON_REJECT_DUPLICATES, NULL);
    const char *algorithm = json_string_value(json_object_get(v, "algorithm"));
    if (json_integer_value(json_object_get(v, "hk_signature")) != 1 || algorithm == NULL ||
        strcmp(algorithm, "ed25519") != 0 ||
        !read_hex_member(v, "base", s.digests.base, HK_SHA256_SIZE) ||
        !read_hex_member(v, "metadata", s.digests.metadata, HK_SHA256_SIZE) ||
        !read_hex_member(v, "history", s.digests.history, HK_SHA256_SIZE) ||
        !read_hex_member(v, "signature", s.bytes, HK_SIGNATURE_SIZE))
        status = hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "not a signature made by hk-sign");
    else
        *out = s;
    json_decref(v);
    free((void *)(uintptr_t)text.p);
    return status;
}
