/* The formats' functions, of the rows of base/format_list.h. What they are made of is below this
 * file; who opens, converts or saves a model looks them up here. */
#include "libhkfmt/convert/formats.h"

#include "libhkfmt/base/format_list.h"
#include "libhkfmt/convert/write_hk.h"
#include "libhkfmt/gguf/gguf.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/safetensors/st.h"

static const struct hk_shard_rules hk_shards = {
    .max = UINT16_MAX, /* header fields */
    .number_key = "split_index",
    .count_key = "split_count",
    .total_key = "total_tensors",
    .in_header = true,
    .indexed = true,
    .index_totals = true,
    .index_key = "index_file",
};

/* What llama.cpp's own tool writes, in its types. */
static const struct hk_shard_rules gguf_shards = {
    .max = UINT16_MAX, /* of the keys' types */
    .number_key = "split.no",
    .count_key = "split.count",
    .total_key = "split.tensors.count",
    .types = {"u16", "u16", "i32"},
};

static const struct hk_shard_rules safetensors_shards = {
    .max = HK_MAX_SHARDS,
    .indexed = true,
    .usual_index = "model.safetensors.index.json",
    .kept_key = "format", /* transformers wants it of every file */
};

static const struct hk_format_row rows[] = {
#define X(symbol, name, extension, traits, begins, parse, parse_start, parse_cut, view, write,     \
          shards)                                                                                  \
    [HK_FORMAT_##symbol] = {parse, parse_start, parse_cut, view, write, shards},
    HK_FORMATS(X)
#undef X
};

const struct hk_format_row *hk_format_row(enum hk_format f)
{
    return (size_t)f < sizeof rows / sizeof *rows ? &rows[f] : NULL;
}
