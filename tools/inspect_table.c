/* inspect_table.c: what hk-inspect --table prints. */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect.h"
#include "tools/lib/records.h"

/* Cells of a hostile file must not widen every row: names may have 65535 bytes there. */
enum { VALUE_COLUMNS = 72, NAME_COLUMNS = HK_MAX_NAME };

static struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

static void head(struct tool_table *t, const char *const *titles)
{
    for (size_t i = 0; i < t->columns; i++)
        tool_cell(t, "%s", titles[i]);
}

static void row(struct tool_table *t, const char *name, uint64_t value)
{
    tool_cell(t, "%s", name);
    tool_cell(t, "%llu", (unsigned long long)value);
}

static void flags_row(struct tool_table *t, uint32_t flags)
{
    char line[512] = ""; /* ten names below 24 letters and 22 of the form bitNN */
    size_t n = 0;
    for (unsigned bit = 0; bit < 32; bit++) {
        const char *name = hk_flag_name(bit);
        if ((flags >> bit & 1) == 0)
            continue;
        int made = name != NULL ? snprintf(line + n, sizeof line - n, " %s", name)
                                : snprintf(line + n, sizeof line - n, " bit%u", bit);
        n += (size_t)made;
    }
    tool_cell(t, "flags");
    tool_cell(t, "%s", n > 0 ? line + 1 : "none");
}

static void header_table(const struct hk_file *f)
{
    const struct hk_header *h = hk_file_header(f);
    struct tool_table t = {.columns = 2, .right = "ll"};
    char version[24];
    inspect_version(f, version);
    tool_cell(&t, "version");
    tool_cell(&t, "%s", version);
    flags_row(&t, h->flags);
    row(&t, "alignment", h->alignment);
    tool_cell(&t, "split");
    tool_cell(&t, "%u of %u", h->split_index, h->split_count);
    row(&t, "tensors", h->tensor_count);
    row(&t, "metadata pairs", h->metadata_kv_count);
    row(&t, "metadata offset", h->metadata_offset);
    row(&t, "metadata size", h->metadata_size);
    row(&t, "tensor table offset", h->tensor_toc_offset);
    row(&t, "tensor table size", h->tensor_toc_size);
    row(&t, "tensor data offset", h->tensor_data_offset);
    row(&t, "appendix offset", h->appendix_offset);
    row(&t, "checksum", h->checksum);
    tool_table_print(&t, stdout);
}

/* Strings as they are, everything else as in the JSON. */
static void value_cell(struct tool_table *t, const struct hk_kv *kv, bool full)
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
    tool_json_print(inspect_value(kv, full), memory);
    if (fclose(memory) != 0)
        tool_nomem();
    tool_cell_bytes(t, (struct hk_bytes){(const uint8_t *)line, size - 1}, most);
    free(line);
}

static void metadata_table(const struct hk_file *f, bool full)
{
    static const char *const titles[] = {"KEY", "TYPE", "VALUE"};
    struct tool_table t = {.columns = 3, .right = "lll"};
    head(&t, titles);
    for (size_t i = 0; i < hk_kv_count(f); i++) {
        const struct hk_kv *kv = hk_kv_at(f, i);
        tool_cell_bytes(&t, kv->key, NAME_COLUMNS);
        tool_cell(&t, "%s", kv->gguf_type != NULL ? kv->gguf_type : hk_meta_type_name(kv->type));
        value_cell(&t, kv, full);
    }
    tool_table_print(&t, stdout);
}

static void shape_cell(struct tool_table *t, const struct hk_tensor *tensor)
{
    char line[HK_MAX_DIMS * 24] = "scalar";
    size_t n = 0;
    for (size_t d = 0; d < tensor->ndim; d++)
        n += (size_t)snprintf(line + n, sizeof line - n, "%s%llu", d > 0 ? " x " : "",
                              (unsigned long long)tensor->shape[d]);
    tool_cell(t, "%s", line);
}

/* Layout and sparsity where they are not the usual ones. */
static void form_cell(struct tool_table *t, const struct hk_tensor *tensor)
{
    bool tiled = tensor->layout != HK_LAYOUT_ROW_MAJOR;
    bool sparse = tensor->sparsity != HK_SPARSITY_NONE;
    tool_cell(t, "%s%s%s", tiled ? hk_layout_name(tensor->layout) : "", tiled && sparse ? " " : "",
              sparse ? hk_sparsity_name(tensor->sparsity) : "");
}

static void tensor_table(const struct hk_file *f)
{
    static const char *const titles[] = {"TENSOR", "TYPE", "SHAPE", "SIZE", "OFFSET", "FORM"};
    struct tool_table t = {.columns = 6, .right = "lllrrl"};
    char size[24];
    head(&t, titles);
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *tensor = hk_tensor_at(f, i);
        uint64_t bytes = tensor->data_size + tensor->scale_size + tensor->residual_size;
        tool_cell_bytes(&t, tensor->name, NAME_COLUMNS);
        tool_cell(&t, "%s", hk_type_info(tensor->type)->name);
        shape_cell(&t, tensor);
        tool_cell(&t, "%s", tool_human_size(bytes, size));
        tool_cell(&t, "%llu", (unsigned long long)tensor->data_offset);
        form_cell(&t, tensor);
    }
    tool_table_print(&t, stdout);
}

void inspect_tables(const struct hk_file *f, const char *name, unsigned sections, bool full)
{
    char size[24];
    tool_escape(stdout, text(name));
    printf(": %s, %s\n", hk_format_name(hk_file_format(f)), tool_human_size(hk_file_size(f), size));
    if (sections & INSPECT_HEADER) {
        putchar('\n');
        header_table(f);
    }
    if (sections & INSPECT_METADATA) {
        putchar('\n');
        metadata_table(f, full);
    }
    if (sections & INSPECT_TENSORS) {
        putchar('\n');
        tensor_table(f);
    }
    if (sections & INSPECT_APPENDIX && hk_record_count(f) > 0) {
        putchar('\n');
        records_table(f);
    }
}
