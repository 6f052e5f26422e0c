/* hk-inspect: header, metadata, tensors and appendix of model files as JSON, or as a table. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect.h"
#include "tools/lib/metadata.h"
#include "tools/lib/records.h"

enum {
    OPT_APPENDIX,
    OPT_FULL,
    OPT_HEADER,
    OPT_JSON,
    OPT_METADATA,
    OPT_SUMMARY,
    OPT_TABLE,
    OPT_TENSORS,
    OPT_TYPED,
};

static const struct tool_option options[] = {
    [OPT_APPENDIX] = {"appendix", 0, NULL, "show the appendix"},
    [OPT_FULL] = {"full", 0, NULL, "show long arrays and opaque bytes whole"},
    [OPT_HEADER] = {"header", 0, NULL, "show the file header"},
    [OPT_JSON] = TOOL_OPTION_JSON,
    [OPT_METADATA] = {"metadata", 0, NULL, "show the metadata"},
    [OPT_SUMMARY] = {"summary", 0, NULL, "show what the model is, in some lines"},
    [OPT_TABLE] = TOOL_OPTION_TABLE,
    [OPT_TENSORS] = {"tensors", 0, NULL, "show the tensor table"},
    [OPT_TYPED] = {"typed", 0, NULL, "show values of metadata with their types"},
};

static const struct tool tool = {
    .name = "hk-inspect",
    .operands = "FILE...",
    .about = "Show what is in models: on a terminal a summary, else all of it as JSON.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

enum {
    INSPECT_HEADER = 1,
    INSPECT_METADATA = 2,
    INSPECT_TENSORS = 4,
    INSPECT_APPENDIX = 8,
    INSPECT_SUMMARY = 16,
    INSPECT_ALL = 31,
};

struct choice {
    unsigned sections;
    bool full, json, table, typed;
};

/* The format's version as text, "1.0" or a GGUF's "3", in a BUFFER of 24. */
static void format_version(const struct hk_file *f, char *buffer)
{
    const struct hk_header *h = hk_file_header(f);
    if (hk_file_format(f) == HK_FORMAT_HK)
        snprintf(buffer, 24, "%u.%u", h->version_major, h->version_minor);
    else
        snprintf(buffer, 24, "%u", h->version_major);
}

/* ---- JSON ---- */

static json_t *flag_names_json(uint32_t flags)
{
    json_t *names = json_array();
    for (unsigned bit = 0; bit < 32; bit++) {
        if ((flags >> bit & 1) == 0)
            continue;
        char number[16];
        snprintf(number, sizeof number, "bit%u", bit);
        const char *name = hk_flag_name(bit);
        tool_json_push(names, json_string(name != NULL ? name : number));
    }
    return names;
}

static json_t *header_json(const struct hk_file *f)
{
    const struct hk_header *h = hk_file_header(f);
    char version[24];
    format_version(f, version);
    json_t *v = json_object();
    tool_json_set(v, "version", json_string(version));
    tool_json_set(v, "flags", flag_names_json(h->flags));
    tool_json_set(v, "alignment", tool_json_uint(h->alignment));
    tool_json_set(v, "split_index", tool_json_uint(h->split_index));
    tool_json_set(v, "split_count", tool_json_uint(h->split_count));
    tool_json_set(v, "tensor_count", tool_json_uint(h->tensor_count));
    tool_json_set(v, "metadata_kv_count", tool_json_uint(h->metadata_kv_count));
    tool_json_set(v, "metadata_offset", tool_json_uint(h->metadata_offset));
    tool_json_set(v, "metadata_size", tool_json_uint(h->metadata_size));
    tool_json_set(v, "tensor_toc_offset", tool_json_uint(h->tensor_toc_offset));
    tool_json_set(v, "tensor_toc_size", tool_json_uint(h->tensor_toc_size));
    tool_json_set(v, "tensor_data_offset", tool_json_uint(h->tensor_data_offset));
    tool_json_set(v, "appendix_offset", tool_json_uint(h->appendix_offset));
    tool_json_set(v, "checksum", tool_json_uint(h->checksum));
    return v;
}

static json_t *inspected_tensor_json(const struct hk_file *f, const struct hk_tensor *t)
{
    json_t *v = json_object();
    tool_json_set(v, "name", tool_json_bytes(t->name));
    tool_json_set(v, "type", tool_json_text(hk_type_info(t->type)->name));
    tool_json_set(v, "shape", tool_json_uints(t->shape, t->ndim));
    tool_json_set(v, "layout", tool_json_text(hk_layout_name(t->layout)));
    tool_json_set(v, "sparsity", tool_json_text(hk_sparsity_name(t->sparsity)));
    tool_json_set(v, "offset",
                  t->data_offset != HK_NO_OFFSET ? tool_json_uint(t->data_offset) : json_null());
    tool_json_set(v, "size", tool_json_uint(t->data_size));
    tool_json_set(v, "scale_offset", tool_json_uint(t->scale_offset));
    tool_json_set(v, "scale_size", tool_json_uint(t->scale_size));
    tool_json_set(v, "residual_offset", tool_json_uint(t->residual_offset));
    tool_json_set(v, "residual_size", tool_json_uint(t->residual_size));
    tool_json_set(v, "block_size", tool_json_uint(t->block_size));
    tool_json_set(v, "sparsity_ratio", tool_json_float(t->sparsity_ratio));
    if (hk_file_parts(f) > 1)
        tool_json_set(v, "part", tool_json_uint(t->part));
    return v;
}

static json_t *files_json(const struct hk_file *f)
{
    json_t *v = json_array();
    for (size_t i = 0; i < hk_file_parts(f); i++)
        tool_json_push(v, tool_json_text(hk_file_part_name(f, i)));
    return v;
}

static json_t *cut_json(const struct hk_cut *cut)
{
    json_t *v = json_object();
    tool_json_set(v, "size", tool_json_uint(cut->size));
    tool_json_set(v, "needed", tool_json_known(cut->needed));
    tool_json_set(v, "tensors", tool_json_uint(cut->tensors));
    tool_json_set(v, "first", cut->tensors > 0 ? tool_json_bytes(cut->first) : json_null());
    return v;
}

/* Member by member: a tree of a million tensors would take gigabytes. CUT may be NULL. */
static void print_model_json(const struct hk_file *f, const char *name, const struct hk_cut *cut,
                             const struct choice *c)
{
    struct tool_json_out o;
    tool_json_begin(&o, stdout);
    tool_json_put(&o, "file", tool_json_text(name));
    tool_json_put(&o, "format", json_string(hk_format_name(hk_file_format(f))));
    tool_json_put(&o, "size", tool_json_uint(cut != NULL ? cut->size : hk_file_size(f)));
    if (hk_file_parts(f) > 1)
        tool_json_put(&o, "parts", tool_json_uint(hk_file_parts(f)));
    if (hk_file_part_name(f, 0) != NULL)
        tool_json_put(&o, "files", files_json(f));
    if (cut != NULL)
        tool_json_put(&o, "cut", cut_json(cut));
    if (c->sections & INSPECT_SUMMARY)
        inspect_put_summary(&o, f, cut);
    if (c->sections & INSPECT_HEADER)
        tool_json_put(&o, "header", header_json(f));
    if (c->sections & INSPECT_METADATA)
        metadata_put(f, c->full, c->typed, &o);
    if (c->sections & INSPECT_TENSORS) {
        tool_json_enter(&o, "tensors", '[');
        for (size_t i = 0; i < hk_tensor_count(f) && !ferror(stdout); i++)
            tool_json_put(&o, NULL, inspected_tensor_json(f, hk_tensor_at(f, i)));
        tool_json_leave(&o, ']');
    }
    if (c->sections & INSPECT_APPENDIX)
        records_put_twice(&o, "records", "appendix", f); /* the name before */
    tool_json_end(&o);
}

/* ---- tables ---- */

/* Cells of a hostile file must not widen every row: names may have 65535 bytes there. */
enum { NAME_COLUMNS = HK_MAX_NAME };

static void uint_cells(struct tool_table *t, const char *name, uint64_t value)
{
    tool_cell(t, "%s", name);
    tool_cell(t, "%llu", (unsigned long long)value);
}

static void header_flags_row(struct tool_table *t, uint32_t flags)
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

static void print_header_table(const struct hk_file *f)
{
    const struct hk_header *h = hk_file_header(f);
    struct tool_table t = {.columns = 2, .right = "ll"};
    char version[24];
    format_version(f, version);
    tool_cell(&t, "version");
    tool_cell(&t, "%s", version);
    header_flags_row(&t, h->flags);
    uint_cells(&t, "alignment", h->alignment);
    tool_cell(&t, "split");
    tool_cell(&t, "%u of %u", h->split_index, h->split_count);
    uint_cells(&t, "tensors", h->tensor_count);
    uint_cells(&t, "metadata pairs", h->metadata_kv_count);
    uint_cells(&t, "metadata offset", h->metadata_offset);
    uint_cells(&t, "metadata size", h->metadata_size);
    uint_cells(&t, "tensor table offset", h->tensor_toc_offset);
    uint_cells(&t, "tensor table size", h->tensor_toc_size);
    uint_cells(&t, "tensor data offset", h->tensor_data_offset);
    uint_cells(&t, "appendix offset", h->appendix_offset);
    uint_cells(&t, "checksum", h->checksum);
    tool_table_print(&t, stdout);
}

static void tensor_shape_cell(struct tool_table *t, const struct hk_tensor *tensor)
{
    char line[HK_MAX_DIMS * 24] = "scalar";
    size_t n = 0;
    for (size_t d = 0; d < tensor->ndim; d++)
        n += (size_t)snprintf(line + n, sizeof line - n, "%s%llu", d > 0 ? " x " : "",
                              (unsigned long long)tensor->shape[d]);
    tool_cell(t, "%s", line);
}

/* Layout and sparsity where they are not the usual ones. */
static void tensor_form_cell(struct tool_table *t, const struct hk_tensor *tensor)
{
    bool tiled = tensor->layout != HK_LAYOUT_ROW_MAJOR;
    bool sparse = tensor->sparsity != HK_SPARSITY_NONE;
    tool_cell(t, "%s%s%s", tiled ? hk_layout_name(tensor->layout) : "", tiled && sparse ? " " : "",
              sparse ? hk_sparsity_name(tensor->sparsity) : "");
}

static void print_tensor_table(const struct hk_file *f)
{
    static const char *const titles[] = {"TENSOR", "TYPE", "SHAPE", "SIZE", "OFFSET", "FORM"};
    struct tool_table t = {.columns = 6, .right = "lllrrl"};
    char size[24];
    tool_cell_titles(&t, titles);
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *tensor = hk_tensor_at(f, i);
        uint64_t bytes = tensor->data_size + tensor->scale_size + tensor->residual_size;
        tool_cell_bytes(&t, tensor->name, NAME_COLUMNS);
        tool_cell(&t, "%s", hk_type_info(tensor->type)->name);
        tensor_shape_cell(&t, tensor);
        tool_cell(&t, "%s", tool_human_size(bytes, size));
        if (tensor->data_offset != HK_NO_OFFSET)
            tool_cell(&t, "%llu", (unsigned long long)tensor->data_offset);
        else
            tool_cell(&t, "unknown");
        tensor_form_cell(&t, tensor);
    }
    tool_table_print(&t, stdout);
}

/* CUT may be NULL. */
static void print_tables(const struct hk_file *f, const char *name, const struct hk_cut *cut,
                         const struct choice *c)
{
    if (c->sections & INSPECT_SUMMARY)
        inspect_print_summary(f, name, cut);
    else
        metadata_heading(f, name);
    if (c->sections & INSPECT_HEADER) {
        putchar('\n');
        print_header_table(f);
    }
    if (c->sections & INSPECT_METADATA) {
        putchar('\n');
        metadata_table(f, c->full);
    }
    if (c->sections & INSPECT_TENSORS) {
        putchar('\n');
        print_tensor_table(f);
    }
    if (c->sections & INSPECT_APPENDIX && hk_record_count(f) > 0) {
        putchar('\n');
        records_table(f);
    }
}

/* ---- the program ---- */

static void print_model(const struct hk_file *f, const char *path, const struct hk_cut *cut,
                        const struct choice *c)
{
    if (c->table)
        print_tables(f, path, cut, c);
    else
        print_model_json(f, path, cut, c);
}

static int inspect_model(const char *path, const struct choice *c)
{
    struct hk_file *f;
    struct hk_error err;
    struct hk_cut cut;
    struct tool_input in;
    if (tool_open(&f, path, &err) == HK_OK) {
        if (c->sections & INSPECT_METADATA)
            tool_tell_defaults(path, f);
        print_model(f, path, NULL, c);
        hk_close(&f);
        return TOOL_OK;
    }
    if (tool_input(&in, path, TOOL_NEED_MODEL, NULL) == HK_OK &&
        hk_open_cut(&f, in.path, &cut, NULL) == HK_OK) {
        print_model(f, path, &cut, c);
        hk_close(&f);
    }
    return tool_error(path, &err);
}

/* A terminal gets a summary, unless something else is asked for; a pipe all. */
static void settle_choice(struct choice *c)
{
    if (c->sections == 0 && !c->json && !c->table && isatty(STDOUT_FILENO) != 0)
        c->sections = INSPECT_SUMMARY;
    if (c->sections == INSPECT_SUMMARY && !c->json)
        c->table = true;
    if (c->sections == 0)
        c->sections = INSPECT_ALL;
}

int main(int argc, char **argv)
{
    static const unsigned section_of[] = {
        [OPT_APPENDIX] = INSPECT_APPENDIX, [OPT_HEADER] = INSPECT_HEADER,
        [OPT_METADATA] = INSPECT_METADATA, [OPT_SUMMARY] = INSPECT_SUMMARY,
        [OPT_TENSORS] = INSPECT_TENSORS,
    };
    struct choice c = {0};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;) {
        if (o == OPT_FULL)
            c.full = true;
        else if (o == OPT_JSON)
            c.json = true;
        else if (o == OPT_TABLE)
            c.table = true;
        else if (o == OPT_TYPED)
            c.typed = true;
        else
            c.sections |= section_of[o];
    }
    if (args.operand_count == 0)
        tool_usage("need a FILE");
    if (c.json && c.table)
        tool_usage("--json and --table exclude each other");
    settle_choice(&c);
    for (int i = 0; i < args.operand_count; i++)
        tool_use_input("FILE", args.operands[i]);
    int status = TOOL_OK;
    for (int i = 0; i < args.operand_count && !ferror(stdout); i++) {
        if (i > 0 && c.table)
            putchar('\n');
        status = tool_worse(status, inspect_model(args.operands[i], &c));
    }
    return tool_end(status);
}
