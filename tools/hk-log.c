/* hk-log: the version history of a .hk, and the payloads of its records. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/hkmodel.h"
#include "tools/lib/records.h"

enum { OPT_EXTRACT, OPT_FORCE, OPT_MAX_OUTPUT, OPT_OUTPUT, OPT_RAW, OPT_TABLE, OPT_TO };

static const struct tool_option options[] = {
    [OPT_EXTRACT] = {"extract", 'x', "RECORD",
                     "write the payload of a record, by number or else by name"},
    [OPT_FORCE] = TOOL_OPTION_FORCE,
    [OPT_MAX_OUTPUT] = TOOL_OPTION_MAX_OUTPUT,
    [OPT_OUTPUT] = TOOL_OPTION_OUTPUT,
    [OPT_RAW] = {"raw", 0, NULL, "write the payload as stored, compressed or not"},
    [OPT_TABLE] = TOOL_OPTION_TABLE,
    [OPT_TO] = {"to", 0, "FORM", "write an adapter as gguf, or as peft: a directory"},
};

static const struct tool tool = {
    .name = "hk-log",
    .operands = "FILE",
    .about = "Show the version history of a .hk, or write out the payload of a record.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct job {
    const char *file, *record, *out;
    uint64_t max_output;
    const char *to; /* form of an adapter, or NULL */
    bool force, raw, table;
};

static void print_log_json(const struct job *j, const struct hk_file *f)
{
    struct tool_json_out o;
    tool_json_begin(&o, stdout);
    tool_json_put(&o, "file", tool_json_text(j->file));
    records_put(&o, "records", f);
    tool_json_end(&o);
}

/* Number of the record that WORD means; a name is never all digits here. */
static enum hk_status find_record_of_word(const struct hk_file *f, const char *word, size_t *out,
                                          struct hk_error *err)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end != '\0')
        return record_find(f, hk_bytes_of(word), out, err);
    if (errno != 0 || n >= hk_record_count(f))
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %s among %zu", word,
                       hk_record_count(f));
    *out = (size_t)n;
    return HK_OK;
}

static enum hk_status write_record_payload(const struct job *j, const struct hk_file *f, size_t i,
                                           struct hk_out *out, struct hk_error *err)
{
    if (!j->raw)
        return hk_record_write(f, i, out, err);
    const struct hk_bytes data = hk_record_data(f, hk_record_at(f, i));
    return hk_out_write(out, data.p, data.n, err);
}

/* ---- an adapter in another form: FILE is its base ---- */

static void show_extraction_loss(void *arg, const char *text)
{
    const struct job *j = arg;
    tool_warn_lost(j->out, text);
}

static enum hk_status open_record_adapter(const struct job *j, struct hk_file **out,
                                          const struct hk_file *f, size_t i, struct hk_error *err)
{
    struct hk_out *o = NULL;
    if (hk_record_at(f, i)->type != HK_RECORD_LORA_ADAPTER)
        return hk_fail(err, HK_E_UNSUPPORTED, hk_record_at(f, i)->offset,
                       "record %zu is not an adapter", i);
    enum hk_status st = hk_out_memory(&o, err);
    if (st == HK_OK) {
        hk_out_limit(o, hk_output_limit(f, j->max_output));
        st = hk_record_write(f, i, o, err);
    }
    if (st == HK_OK)
        st = hk_out_open(&o, out, err);
    if (st == HK_E_FORMAT)
        st = hk_fail(err, HK_E_UNSUPPORTED, hk_record_at(f, i)->offset,
                     "record %zu is not an adapter of a known form; --raw writes its bytes", i);
    hk_out_discard(&o);
    return st;
}

static enum hk_status write_adapter_gguf(const struct job *j, struct hk_file *payload,
                                         const struct hk_file *f,
                                         const struct hk_convert_options *opt, struct hk_error *err)
{
    struct hk_out *out;
    enum hk_status st = tool_create(&out, j->out, j->file, j->force, err);
    if (st != HK_OK)
        return st;
    st = hk_adapter_convert(payload, f, HK_FORMAT_GGUF, opt, out, err);
    if (st == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return st;
}

static int extract_adapter(const struct job *j, const struct hk_file *f, size_t i)
{
    struct hk_convert_options opt = {.size = sizeof opt,
                                     .loss = show_extraction_loss,
                                     .arg = (void *)(uintptr_t)j,
                                     .replace = j->force};
    struct hk_file *payload;
    struct hk_error err;
    enum hk_status st = open_record_adapter(j, &payload, f, i, &err);
    if (st != HK_OK)
        return tool_error(j->file, &err);
    if (strcmp(j->to, "gguf") == 0) {
        st = write_adapter_gguf(j, payload, f, &opt, &err);
    } else {
        opt.stop = tool_catch_stop();
        st = hk_adapter_save(payload, f, j->out, &opt, &err);
        tool_die_if_stopped();
    }
    hk_close(&payload);
    if (st == HK_OK) {
        tool_note_format(j->out, strcmp(j->to, "gguf") == 0 ? HK_FORMAT_GGUF : HK_FORMAT_HF, true);
        return TOOL_OK;
    }
    return tool_error(st == HK_E_IO || st == HK_E_USE ? tool_output_name(j->out) : j->file, &err);
}

static int extract_payload(const struct job *j, const struct hk_file *f, size_t i)
{
    struct hk_out *out;
    struct hk_error err;
    if (tool_create(&out, j->out, j->file, j->force, &err) != HK_OK)
        return tool_error(tool_output_name(j->out), &err);
    hk_out_limit(out, hk_output_limit(f, j->max_output));
    enum hk_status status = write_record_payload(j, f, i, out, &err);
    if (status == HK_OK)
        status = hk_out_commit(&out, &err);
    else
        hk_out_discard(&out);
    if (status == HK_OK)
        return TOOL_OK;
    return tool_error(status == HK_E_IO ? tool_output_name(j->out) : j->file, &err);
}

/* An adapter whose output is called so is written so; other records are what they are. */
static const char *form_of_output(const struct job *j, const struct hk_record *r)
{
    if (j->to != NULL || j->raw || r->type != HK_RECORD_LORA_ADAPTER)
        return j->to;
    const enum hk_format format = tool_output_format(j->out, NULL);
    return format == HK_FORMAT_GGUF ? "gguf" : format == HK_FORMAT_HF ? "peft" : NULL;
}

static int extract_record(struct job *j, const struct hk_file *f)
{
    struct hk_error err;
    size_t i;
    if (find_record_of_word(f, j->record, &i, &err) != HK_OK)
        return tool_error(j->file, &err);
    j->to = form_of_output(j, hk_record_at(f, i));
    return j->to != NULL ? extract_adapter(j, f, i) : extract_payload(j, f, i);
}

static int show_or_extract(struct job *j)
{
    struct hk_file *f;
    struct hk_error err;
    int status = TOOL_OK;
    if (tool_open(&f, j->file, &err) != HK_OK)
        return tool_error(j->file, &err);
    if (j->record != NULL)
        status = extract_record(j, f);
    else if (j->table)
        records_table(f);
    else
        print_log_json(j, f);
    hk_close(&f);
    return status;
}

static void set_log_option(struct job *j, int option, const char *value)
{
    static const char *const forms[] = {"gguf", "peft"};
    switch (option) {
    case OPT_EXTRACT:
        j->record = value;
        break;
    case OPT_FORCE:
        j->force = true;
        break;
    case OPT_MAX_OUTPUT:
        j->max_output = tool_max_output(value);
        break;
    case OPT_OUTPUT:
        j->out = value;
        break;
    case OPT_RAW:
        j->raw = true;
        break;
    case OPT_TO:
        j->to = forms[tool_choice(value, forms, sizeof forms / sizeof *forms)];
        break;
    default:
        j->table = true;
    }
}

int main(int argc, char **argv)
{
    struct job j = {.out = "-"};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        set_log_option(&j, o, value);
    tool_check_operands(&args, "FILE");
    if (j.record == NULL && (j.raw || j.force || j.to != NULL || !tool_is_standard(j.out)))
        tool_usage("--raw, --to, --output and --force need --extract");
    if (j.raw && j.to != NULL)
        tool_usage("--raw and --to exclude each other");
    if (j.to != NULL && strcmp(j.to, "peft") == 0 && tool_is_standard(j.out))
        tool_usage("--to peft writes a directory: name it with --output");
    j.file = args.operands[0];
    return tool_end(show_or_extract(&j));
}
