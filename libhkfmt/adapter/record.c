/* The file that a record carries: safetensors, or of adapters GGUF. */
#include <stdlib.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/base/magic.h"
#include "libhkfmt/hk/compress.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/safetensors/st.h"

/* The largest end among the data_offsets of the safetensors header TEXT; 0 where it has none. */
static uint64_t declared_end(struct hk_bytes text)
{
    struct hk_json j = {.text = text};
    uint64_t end = 0, v;
    bool offsets = false;
    for (;;) {
        enum hk_json_token token = hk_json_next(&j);
        if (token == HK_JSON_END || token == HK_JSON_ERROR)
            return end;
        if (token == HK_JSON_KEY)
            offsets = j.depth == 2 && hk_json_is(&j, "data_offsets");
        else if (token == HK_JSON_NUMBER && offsets && hk_json_u64(j.span, &v) && v > end)
            end = v;
    }
}

static enum hk_status check_inflated_header(const struct hk_file *f, const struct hk_record *r,
                                            uint64_t size, uint64_t header, struct hk_error *err)
{
    const size_t n = ST_LENGTH_SIZE + (size_t)header;
    uint8_t *start = malloc(n);
    if (start == NULL)
        return hk_fail_nomem(err);
    uint64_t end = 0;
    if (hk_inflate_start(f, r, start, n) == n)
        end = declared_end((struct hk_bytes){start + ST_LENGTH_SIZE, (size_t)header});
    free(start);
    return end == size - n ? HK_OK
                           : hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                                     "its header declares %llu bytes of data, not %llu",
                                     (unsigned long long)end, (unsigned long long)(size - n));
}

static uint64_t size_when_inflated(const struct hk_file *f, const struct hk_record *r)
{
    const struct hk_bytes data = hk_record_data(f, r);
    const bool compressed = (r->flags & HK_RECORD_COMPRESSED) != 0;
    return compressed && data.n >= sizeof(uint64_t) ? le64(data.p) : 0;
}

/* All that is inflated up to record R, since all may be in use at once. */
static bool is_inflated_too_large(const struct hk_file *f, const struct hk_record *r)
{
    const uint64_t limit = hk_output_limit(f, 0);
    uint64_t sum = size_when_inflated(f, r);
    if (sum <= limit / hk_record_count(f))
        return false;
    for (const struct hk_record *other = hk_record_at(f, 0); other < r; other++)
        if (!add_ok(sum, size_when_inflated(f, other), &sum))
            return true;
    return sum > limit;
}

/* Before compressed record R is inflated: that it is a file of a known kind, and as large as this
 * says itself. */
static enum hk_status check_inflated_size(const struct hk_file *f, const struct hk_record *r,
                                          struct hk_error *err)
{
    enum { MAGIC = 4 };
    uint8_t start[ST_LENGTH_SIZE + 1] = {0};
    const uint64_t size = size_when_inflated(f, r);
    if (is_inflated_too_large(f, r))
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "is %llu bytes when inflated, too much for a file of this size; "
                       "hk-log --extract writes it with --max-output",
                       (unsigned long long)size);
    if (hk_inflate_start(f, r, start, sizeof start) < sizeof start)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "its zlib stream is broken or too short");
    const uint64_t header = le64(start);
    if (memcmp(start, "GGUF", MAGIC) == 0)
        return HK_OK;
    if (start[ST_LENGTH_SIZE] != '{' || size < ST_LENGTH_SIZE || header > size - ST_LENGTH_SIZE ||
        header > ST_MAX_HEADER)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "is neither safetensors nor GGUF");
    return check_inflated_header(f, r, size, header, err);
}

static enum hk_status inflate_record(struct hk_file **out, const struct hk_file *f, size_t i,
                                     struct hk_error *err)
{
    struct hk_out *o = NULL;
    const struct hk_record *r = hk_record_at(f, i);
    if ((r->flags & HK_RECORD_COMPRESSED) != 0) {
        enum hk_status st = check_inflated_size(f, r, err);
        if (st != HK_OK)
            return st;
    }
    enum hk_status st = hk_out_memory(&o, err);
    if (st == HK_OK)
        st = hk_record_write(f, i, o, err);
    if (st == HK_OK)
        st = hk_out_open(&o, out, err);
    hk_out_discard(&o);
    return st;
}

enum hk_status hk_record_open(struct hk_file **out, const struct hk_file *f, size_t i,
                              struct hk_error *err)
{
    const struct hk_record *r = hk_record_at(f, i);
    if (r == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %zu", i);
    const bool compressed = (r->flags & HK_RECORD_COMPRESSED) != 0;
    const struct hk_bytes data = hk_record_data(f, r);
    if (!compressed && hk_format_of(data.p, data.n) != HK_FORMAT_SAFETENSORS)
        return hk_fail(err, HK_E_UNSUPPORTED, r->data_offset,
                       "record '%.*s': its payload is no safetensors file", HK_STR(r->name));
    struct hk_error why = {0};
    struct hk_file *payload = NULL;
    enum hk_status status =
        compressed ? inflate_record(&payload, f, i, &why) : hk_open_bytes(&payload, data, &why);
    if (status == HK_OK && payload->format != HK_FORMAT_SAFETENSORS) {
        hk_close(&payload);
        status =
            hk_fail(&why, HK_E_UNSUPPORTED, HK_NO_OFFSET, "its payload is no safetensors file");
    }
    if (status != HK_OK)
        return hk_fail(err, status, r->data_offset, "record '%.*s': %s", HK_STR(r->name), why.text);
    *out = payload;
    return HK_OK;
}

/* A GGUF has to be mapped from its beginning. */
static enum hk_status open_gguf(struct hk_file **out, const struct hk_file *f, size_t i,
                                bool *is_gguf, struct hk_error *err)
{
    const struct hk_record *r = hk_record_at(f, i);
    const struct hk_bytes data = hk_record_data(f, r);
    struct hk_file *copy = NULL;
    *is_gguf = false;
    const bool compressed = (r->flags & HK_RECORD_COMPRESSED) != 0;
    if (!compressed && (data.n < 4 || memcmp(data.p, "GGUF", 4) != 0))
        return HK_OK;
    enum hk_status st = inflate_record(&copy, f, i, err);
    if (st != HK_OK)
        return compressed ? HK_OK : st;
    *is_gguf = copy->format == HK_FORMAT_GGUF;
    if (*is_gguf)
        *out = copy;
    else
        hk_close(&copy);
    return HK_OK;
}

enum hk_status hk_adapter_record_open(struct hk_file **out, const struct hk_file *f, size_t i,
                                      struct hk_error *err)
{
    struct hk_error why = {0};
    const struct hk_record *r = hk_record_at(f, i);
    bool is_gguf = false;
    if (r == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %zu", i);
    enum hk_status st = open_gguf(out, f, i, &is_gguf, &why);
    if (st != HK_OK)
        return hk_fail(err, st, r->data_offset, "record '%.*s': %s", HK_STR(r->name), why.text);
    return is_gguf ? HK_OK : hk_record_open(out, f, i, err);
}

enum hk_status hk_adapter_in_peft_form(struct hk_file **out, struct hk_file *payload,
                                       const struct hk_file *base, struct hk_error *err)
{
    struct hk_lora_gguf g;
    struct hk_out *o = NULL;
    *out = NULL;
    if (payload->format == HK_FORMAT_SAFETENSORS)
        return HK_OK;
    if (payload->format != HK_FORMAT_GGUF || !hk_lora_is_gguf(payload))
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "its payload is no adapter");
    enum hk_status st = hk_lora_from_gguf(&g, payload, base, err);
    if (st != HK_OK)
        return st;
    st = hk_out_memory(&o, err);
    if (st == HK_OK)
        st = hk_lora_write_payload(g.view, g.config, o, err);
    if (st == HK_OK)
        st = hk_out_open(&o, out, err);
    hk_out_discard(&o);
    hk_lora_gguf_free(&g);
    return st;
}
