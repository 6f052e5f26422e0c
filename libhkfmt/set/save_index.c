/* The index that stands beside a set: which file each tensor is in, in the order of the files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/json_scan.h"
#include "libhkfmt/base/utf8.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/set/save.h"

enum hk_status hk_check_index_names(const struct hk_saving *s, struct hk_error *err)
{
    const struct hk_file *f = s->whole;
    const struct hk_bytes stem = {(const uint8_t *)s->stem, s->stem_size};
    if (!hk_utf8_valid(stem))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "shards of the name '%.*s', which is not UTF-8, cannot stand in an index",
                       HK_STR(stem));
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if (!hk_utf8_valid(t->name) || memchr(t->name.p, '\0', t->name.n) != NULL)
            return hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                           "tensor %.*s: its name is no text that an index can have",
                           HK_STR(t->name));
    }
    return HK_OK;
}

char *hk_saved_name(const struct hk_saving *s, size_t number)
{
    char *name = NULL;
    if (s->plan.count > 1)
        return hk_shard_name_make(s->stem, s->stem_size, (unsigned)number + 1,
                                  (unsigned)s->plan.count, s->suffix);
    return asprintf(&name, "%.*s%s", (int)s->stem_size, s->stem, s->suffix) < 0 ? NULL : name;
}

static void put_number(struct hk_buf *b, const char *key, uint64_t v)
{
    char text[64];
    snprintf(text, sizeof text, "    \"%s\": %" PRIu64, key, v);
    hk_buf_text(b, text);
}

static void put_metadata(struct hk_buf *b, const struct hk_saving *s)
{
    hk_buf_text(b, "{\n  \"metadata\": {\n");
    put_number(b, "total_size", hk_payload_size(s->whole));
    if (s->to == HK_FORMAT_HK) {
        hk_buf_text(b, ",\n");
        put_number(b, "total_tensors", s->whole->tensor_count);
        hk_buf_text(b, ",\n");
        put_number(b, "split_count", s->plan.count);
        hk_buf_text(b, ",\n    \"format\": \"hk\",\n    \"version\": \"1.0.0\"");
    }
    hk_buf_text(b, "\n  },\n  \"weight_map\": {");
}

static void put_tensors(struct hk_buf *b, const struct hk_saving *s, size_t shard, const char *file)
{
    const struct hk_bytes name = {(const uint8_t *)file, strlen(file)};
    for (size_t i = s->plan.first[shard]; i < s->plan.first[shard + 1]; i++) {
        hk_buf_text(b, i > 0 ? ",\n    " : "\n    ");
        hk_json_quote(b, s->whole->tensors[i].name);
        hk_buf_text(b, ": ");
        hk_json_quote(b, name);
    }
}

enum hk_status hk_put_index(struct hk_buf *b, const struct hk_saving *s, struct hk_error *err)
{
    put_metadata(b, s);
    for (size_t i = 0; i < s->plan.count; i++) {
        char *file = hk_saved_name(s, i);
        if (file == NULL)
            return hk_fail_nomem(err);
        put_tensors(b, s, i, file);
        free(file);
    }
    hk_buf_text(b, "\n  }\n}\n");
    return b->failed ? hk_fail_nomem(err) : HK_OK;
}
