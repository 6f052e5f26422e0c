/* inspect.h: the pieces of hk-inspect. */
#ifndef HK_INSPECT_H
#define HK_INSPECT_H

#include "tools/lib/tool.h"

enum {
    INSPECT_HEADER = 1,
    INSPECT_METADATA = 2,
    INSPECT_TENSORS = 4,
    INSPECT_APPENDIX = 8,
    INSPECT_ALL = 15,
};

/* The format's version as text, "1.0" or a GGUF's "3", in a BUFFER of 24. */
void inspect_version(const struct hk_file *f, char *buffer);

/* Print the metadata as member "metadata" (inspect_value.c); FULL: nothing is summarised. */
void inspect_metadata(const struct hk_file *f, bool full, struct tool_json_out *o);
/* Pair I's key as the name of a member that occurs once; the caller's to free. */
char *inspect_key(const struct hk_file *f, size_t i);
/* The value of KV as JSON. */
json_t *inspect_value(const struct hk_kv *kv, bool full);
/* Element I, which must be below count. */
json_t *inspect_element(const struct hk_array *a, uint32_t i);

/* Print the chosen SECTIONS as tables (inspect_table.c). */
void inspect_tables(const struct hk_file *f, const char *name, unsigned sections, bool full);

#endif
