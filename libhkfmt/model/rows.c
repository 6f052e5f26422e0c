/* In which of two orders a file has the rows of queries and keys that rotary position embedding
 * turns together, and which row of one order is which of the other. */
#include <stdio.h>

#include "libhkfmt/convert/view.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hkmodel.h"

static const struct hk_hf_family *family_of(const struct hk_file *f)
{
    const struct hk_kv *kv = hk_kv_find(f, "general.architecture");
    struct hk_bytes name;
    if (kv == NULL || hk_kv_string(kv, &name, NULL) != HK_OK)
        return NULL;
    return hk_hf_family_of_architecture(name);
}

enum hk_rotation hk_file_rotation(const struct hk_file *f)
{
    const struct hk_hf_family *family = family_of(f);
    const struct hk_kv *kv = hk_kv_find(f, "hk.rope_style");
    struct hk_bytes style;
    if (family == NULL)
        return HK_ROTATION_UNKNOWN;
    if (kv == NULL)
        return family->pairs_in_gguf ? HK_ROTATION_PAIRS : HK_ROTATION_HALVES;
    if (hk_kv_string(kv, &style, NULL) != HK_OK)
        return HK_ROTATION_UNKNOWN;
    return hk_bytes_are(style, "norm")   ? HK_ROTATION_PAIRS
           : hk_bytes_are(style, "neox") ? HK_ROTATION_HALVES
                                         : HK_ROTATION_UNKNOWN;
}

/* A count under the architecture's key SUFFIX; FALLBACK where there is none, 0 where it is none. */
static uint64_t count_of(const struct hk_file *f, const struct hk_hf_family *family,
                         const char *suffix, uint64_t fallback)
{
    char key[96];
    int64_t v;
    snprintf(key, sizeof key, "%s.%s", family->architecture, suffix);
    const struct hk_kv *kv = hk_kv_find(f, key);
    if (kv == NULL)
        return fallback;
    return hk_kv_int(kv, &v, NULL) == HK_OK && v > 0 ? (uint64_t)v : 0;
}

uint64_t hk_tensor_head_rows(const struct hk_file *f, const struct hk_tensor *t)
{
    const struct hk_hf_family *family = family_of(f);
    bool key;
    if (family == NULL || t->ndim == 0 || !hk_hf_rotates(t->name, &key))
        return 0;
    const uint64_t rows = t->ndim == 1 ? t->shape[0] : hk_tensor_rows(t);
    uint64_t heads = count_of(f, family, "attention.head_count", 0);
    if (key)
        heads = count_of(f, family, "attention.head_count_kv", heads);
    if (heads == 0 || rows % heads != 0)
        return 0;
    const uint64_t head = rows / heads;
    const bool whole = count_of(f, family, "rope.dimension_count", head) == head;
    return whole && head % 2 == 0 ? head : 0;
}

uint64_t hk_rotated_row(uint64_t head_rows, enum hk_rotation from, enum hk_rotation to,
                        uint64_t row)
{
    if (head_rows == 0 || from == to || from == HK_ROTATION_UNKNOWN || to == HK_ROTATION_UNKNOWN)
        return row;
    return hk_row_source(to == HK_ROTATION_HALVES ? HK_ROWS_TO_HALVES : HK_ROWS_TO_PAIRS, head_rows,
                         row);
}
