/* In which of two orders a file has the rows of queries and keys that rotary position embedding
 * turns together, and which row of one order is which of the other. */
#include "libhkfmt/model/rows.h"
#include "libhkfmt/model/model.h"

static bool read_params_of(const struct hk_file *f, struct hk_model_params *p)
{
    const struct hk_key_source keys = hk_keys_of_file(f);
    return hk_params_read(&keys, HK_PARAMS_TO_KNOW, p, NULL) == HK_OK;
}

enum hk_rotation hk_file_rotation(const struct hk_file *f)
{
    struct hk_model_params p;
    if (!read_params_of(f, &p))
        return HK_ROTATION_UNKNOWN;
    return p.halves ? HK_ROTATION_HALVES : HK_ROTATION_PAIRS;
}

bool hk_is_rotation_key(struct hk_bytes key)
{
    return hk_bytes_are(key, hk_key_text("", HK_KEY_ROPE_STYLE).s);
}

uint64_t hk_tensor_head_rows(const struct hk_file *f, const struct hk_tensor *t)
{
    struct hk_model_params p;
    if (t->ndim == 0 || !read_params_of(f, &p))
        return 0;
    const uint32_t heads = hk_rotating_heads(&p, t->name);
    const uint64_t rows = t->ndim == 1 ? t->shape[0] : hk_tensor_rows(t);
    if (heads == 0 || rows % heads != 0)
        return 0;
    const uint64_t head = rows / heads;
    const bool whole = p.rope_dims == 0 || p.rope_dims == head;
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
