/* inspect_summary.c: a model at first sight, as some lines and as JSON. */
#include <stdlib.h>

#include "tools/inspect.h"
#include "tools/lib/records.h"

enum { NAME_COLUMNS = 60, TYPES_SHOWN = 3, ADAPTERS_SHOWN = 4 };

static double bits_of_weight(const struct hk_model_facts *m)
{
    return m->params > 0 ? 8.0 * (double)m->bytes / (double)m->params : 0;
}

/* ---- lines ---- */

static void text_line(struct tool_table *t, const char *what, struct hk_bytes text)
{
    if (text.n == 0)
        return;
    tool_cell(t, "%s", what);
    tool_cell_bytes(t, text, NAME_COLUMNS);
}

static void count_line(struct tool_table *t, const char *what, int64_t n)
{
    if (n == 0)
        return;
    tool_cell(t, "%s", what);
    tool_cell(t, "%lld", (long long)n);
}

static void params_line(struct tool_table *t, uint64_t params)
{
    static const char *const units[] = {"", " thousand", " million", " billion", " trillion"};
    double n = (double)params;
    size_t unit = 0;
    for (; n >= 999.995 && unit + 1 < sizeof units / sizeof *units; unit++)
        n /= 1000;
    tool_cell(t, "parameters");
    tool_cell(t, unit == 0 ? "%.0f%s" : "%.2f%s", n, units[unit]);
}

static const char *share_name(const struct hk_type_share *s)
{
    const struct hk_type_info *info = hk_type_info(s->type);
    return info != NULL ? info->name : "unknown";
}

/* "q4_k_m: q4_k 64.3 %, q6_k 35.7 %, f32 0.01 %", and "f32" where there is nothing but it. */
static void type_line(struct tool_table *t, const struct hk_model_facts *m)
{
    char line[160];
    int n = snprintf(line, sizeof line, "%s", m->type);
    for (size_t i = 0; m->shares > 1 && i < m->shares && i < TYPES_SHOWN; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s%s %.3g %%", i == 0 ? ": " : ", ",
                      share_name(&m->share[i]),
                      100 * (double)m->share[i].params / (double)m->params);
    tool_cell(t, "type");
    tool_cell(t, "%s%s", line, m->shares > TYPES_SHOWN ? ", ..." : "");
    tool_cell(t, "bits a weight");
    tool_cell(t, "%.2f", bits_of_weight(m));
}

static void layers_line(struct tool_table *t, const struct hk_model_facts *m)
{
    if (m->layers == 0)
        return;
    tool_cell(t, "layers");
    if (m->hidden > 0)
        tool_cell(t, "%lld, hidden size %lld", (long long)m->layers, (long long)m->hidden);
    else
        tool_cell(t, "%lld", (long long)m->layers);
}

/* Those in effect, by name. */
static void history_line(struct tool_table *t, const struct hk_file *f)
{
    const size_t n = hk_record_count(f);
    if (n == 0)
        return;
    struct hk_record_state *states = record_states(f);
    char *line;
    size_t size, adapters = 0;
    FILE *out = open_memstream(&line, &size);
    if (out == NULL)
        tool_nomem();
    fprintf(out, "%zu record%s", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++) {
        const struct hk_record *r = hk_record_at(f, i);
        if (r->type != HK_RECORD_LORA_ADAPTER || !states[i].effective || states[i].is_switch)
            continue;
        if (adapters < ADAPTERS_SHOWN)
            fprintf(out, "%s%.*s", adapters == 0 ? ", adapters: " : ", ", HK_STR(r->name));
        adapters++;
    }
    if (adapters > ADAPTERS_SHOWN)
        fprintf(out, " and %zu more", adapters - ADAPTERS_SHOWN);
    if (fclose(out) != 0)
        tool_nomem();
    tool_cell(t, "history");
    tool_cell_bytes(t, (struct hk_bytes){(const uint8_t *)line, size}, 0);
    free(line);
    free(states);
}

static void size_line(struct tool_table *t, const struct hk_file *f, uint64_t bytes)
{
    char size[24];
    const char *format = hk_format_name(hk_file_format(f));
    tool_cell(t, "size");
    if (hk_file_parts(f) > 1)
        tool_cell(t, "%s, %s in %zu files", tool_human_size(bytes, size), format, hk_file_parts(f));
    else
        tool_cell(t, "%s, %s", tool_human_size(bytes, size), format);
}

static void cut_line(struct tool_table *t, const struct hk_file *f, const struct hk_cut *cut)
{
    const struct hk_header *h = hk_file_header(f);
    char line[320];
    int n = snprintf(line, sizeof line, "ends after %llu", (unsigned long long)cut->size);
    if (cut->needed == 0 && hk_file_format(f) == HK_FORMAT_SAFETENSORS) /* which has no counts */
        n += snprintf(line + n, sizeof line - (size_t)n,
                      " bytes, within its tables: %zu keys and %zu tensors are there",
                      hk_kv_count(f), hk_tensor_count(f));
    else if (cut->needed == 0)
        n += snprintf(
            line + n, sizeof line - (size_t)n,
            " bytes, within its tables: %zu of %llu keys and %zu of %llu tensors are there",
            hk_kv_count(f), (unsigned long long)h->metadata_kv_count, hk_tensor_count(f),
            (unsigned long long)h->tensor_count);
    else
        n += snprintf(line + n, sizeof line - (size_t)n, " of %s%llu bytes",
                      cut->needed == h->appendix_offset ? "more than " : "",
                      (unsigned long long)cut->needed);
    if (cut->needed > 0 && cut->tensors > 0)
        n += snprintf(line + n, sizeof line - (size_t)n, "; %zu tensor%s not whole, from %.*s on",
                      cut->tensors, cut->tensors == 1 ? " is" : "s are", HK_STR(cut->first));
    tool_cell(t, "cut");
    tool_cell_bytes(t, (struct hk_bytes){(const uint8_t *)line, (size_t)n}, 0);
}

/* What F says of its model. Of tables that are cut the sums of all tensors are not known. */
static void read_facts(const struct hk_file *f, const struct hk_cut *cut, struct hk_model_facts *m)
{
    hk_model_facts(f, m);
    if (cut == NULL || cut->needed > 0)
        return;
    m->params = m->bytes = 0;
    m->shares = 0;
    m->type = NULL;
}

void inspect_print_summary(const struct hk_file *f, const char *name, const struct hk_cut *cut)
{
    struct tool_table t = {.columns = 2, .right = "ll"};
    struct hk_model_facts m;
    read_facts(f, cut, &m);
    text_line(&t, "file", hk_bytes_of(name));
    text_line(&t, "name", m.name);
    text_line(&t, "family", m.architecture);
    if (cut == NULL || cut->needed > 0)
        params_line(&t, m.params);
    if (m.type != NULL)
        type_line(&t, &m);
    layers_line(&t, &m);
    count_line(&t, "context", m.context);
    count_line(&t, "vocabulary", m.vocab);
    history_line(&t, f);
    size_line(&t, f, cut != NULL ? cut->size : hk_file_size(f));
    if (cut != NULL)
        cut_line(&t, f, cut);
    tool_table_print(&t, stdout);
}

/* ---- JSON ---- */

static json_t *shares_json(const struct hk_model_facts *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->shares; i++) {
        json_t *v = json_object();
        tool_json_set(v, "type", json_string(share_name(&m->share[i])));
        tool_json_set(v, "params", tool_json_uint(m->share[i].params));
        tool_json_set(v, "size", tool_json_uint(m->share[i].bytes));
        tool_json_push(list, v);
    }
    return list;
}

static json_t *effective_adapters_json(const struct hk_file *f)
{
    struct hk_record_state *states = record_states(f);
    json_t *list = json_array();
    for (size_t i = 0; i < hk_record_count(f); i++)
        if (hk_record_at(f, i)->type == HK_RECORD_LORA_ADAPTER && states[i].effective &&
            !states[i].is_switch)
            tool_json_push(list, tool_json_bytes(hk_record_at(f, i)->name));
    free(states);
    return list;
}

static json_t *text_or_null(struct hk_bytes text)
{
    return text.n > 0 ? tool_json_bytes(text) : json_null();
}

void inspect_put_summary(struct tool_json_out *o, const struct hk_file *f, const struct hk_cut *cut)
{
    const bool known = cut == NULL || cut->needed > 0;
    struct hk_model_facts m;
    read_facts(f, cut, &m);
    tool_json_enter(o, "summary", '{');
    tool_json_put(o, "name", text_or_null(m.name));
    tool_json_put(o, "family", text_or_null(m.architecture));
    tool_json_put(o, "params", known ? tool_json_uint(m.params) : json_null());
    tool_json_put(o, "size", known ? tool_json_uint(m.bytes) : json_null());
    tool_json_put(o, "bits_per_weight",
                  m.params > 0 ? tool_json_double(bits_of_weight(&m)) : json_null());
    tool_json_put(o, "type", tool_json_text(m.type));
    tool_json_put(o, "types", shares_json(&m));
    tool_json_put(o, "layers", tool_json_known((uint64_t)m.layers));
    tool_json_put(o, "hidden", tool_json_known((uint64_t)m.hidden));
    tool_json_put(o, "context", tool_json_known((uint64_t)m.context));
    tool_json_put(o, "vocab", tool_json_known((uint64_t)m.vocab));
    tool_json_put(o, "records", tool_json_uint(hk_record_count(f)));
    tool_json_put(o, "adapters", effective_adapters_json(f));
    tool_json_leave(o, '}');
}
