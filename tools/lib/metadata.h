/* metadata.h: metadata as hk-inspect, hk-meta and hk-diff show them. */
#ifndef TOOL_METADATA_H
#define TOOL_METADATA_H

#include "tools/lib/tool.h"

/* The value of KV as JSON. FULL: nothing is summarised. */
json_t *metadata_value(const struct hk_kv *kv, bool full);
/* The same as {"type","value"}. */
json_t *metadata_typed_value(const struct hk_kv *kv, bool full);
/* Element I, which must be below count. */
json_t *metadata_element(const struct hk_array *a, uint32_t i);
/* Pair I's key as the name of a member that occurs once; the caller's to free. */
char *metadata_key(const struct hk_file *f, size_t i);
/* The type of KV's value: in a GGUF its own, else "int64", "array<f32>", ... */
const char *metadata_type_name(const struct hk_kv *kv);
/* Print the metadata as member "metadata". TYPED: each value as {"type","value"}. */
void metadata_put(const struct hk_file *f, bool full, bool typed, struct tool_json_out *o);

/* Print what precedes the tables of the model NAME: its format and size. */
void metadata_heading(const struct hk_file *f, const char *name);
/* Print the metadata as a table. */
void metadata_table(const struct hk_file *f, bool full);

#endif
