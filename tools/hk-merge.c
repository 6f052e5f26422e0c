/* hk-merge: fold adapters and deltas of the version history into the tensors of a new model. */
#include <stdlib.h>

#include "libhkfmt/hkmodel.h"
#include "tools/lib/records.h"

enum { OPT_ADAPTER, OPT_ALIGN, OPT_FORCE, OPT_MAX_OUTPUT, OPT_TO, OPT_TYPE };

static const struct tool_option options[] = {
    [OPT_ADAPTER] = {"adapter", 'a', "NAME[=SCALE]",
                     "merge the last record called NAME, SCALE times (default: all active ones)"},
    [OPT_ALIGN] = TOOL_OPTION_ALIGN,
    [OPT_FORCE] = TOOL_OPTION_FORCE,
    [OPT_MAX_OUTPUT] = TOOL_OPTION_MAX_OUTPUT,
    [OPT_TO] = {"to", 0, "FORMAT", "write hk, gguf, safetensors or hf, whatever OUT is called"},
    [OPT_TYPE] = {"type", 0, "TYPE", "store changed tensors as f32, f16 (default) or bf16"},
};

static const struct tool tool = {
    .name = "hk-merge",
    .operands = "FILE OUT",
    .about = "Fold adapters and deltas of the version history into the tensors of a new model.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct job {
    const char *in, *out;
    const char **names; /* of --adapter, NAME or NAME=SCALE */
    size_t name_count;
    enum hk_type type;
    enum hk_format to;
    bool to_given, force, writing; /* writing: what fails is the output */
    struct hk_convert_options convert;
    struct hk_merge_item *items;
    size_t count;
};

static void add_merge_item(struct job *j, size_t record, double scale)
{
    struct hk_merge_item *items = reallocarray(j->items, j->count + 1, sizeof *items);
    if (items == NULL)
        tool_nomem();
    j->items = items;
    items[j->count++] = (struct hk_merge_item){record, scale};
}

/* Adapters and deltas in effect, in the order in which they were appended; *OTHERS is how many are
 * not. */
static void add_active_records(struct job *j, const struct hk_file *f, size_t *others)
{
    struct hk_record_state *states = record_states(f);
    *others = 0;
    for (size_t i = 0; i < hk_record_count(f); i++) {
        const struct hk_record *r = hk_record_at(f, i);
        const bool kind = r->type == HK_RECORD_LORA_ADAPTER || r->type == HK_RECORD_DELTA_PATCH;
        if (!kind || states[i].is_switch)
            continue;
        if (states[i].effective)
            add_merge_item(j, i, 1);
        else
            ++*others;
    }
    free(states);
}

static enum hk_status no_active_error(const struct hk_file *f, size_t others, struct hk_error *err)
{
    if (others > 0)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "no active adapter or delta to merge, %zu inactive: --adapter NAME merges "
                       "one, hk-append --activate NAME activates it",
                       others);
    if (hk_record_count(f) == 0)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "no active adapter or delta to merge: the file has no records, hk-append "
                       "adds them");
    return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                   "no active adapter or delta to merge among %zu record%s; hk-convert "
                   "--no-history writes the base alone",
                   hk_record_count(f), hk_record_count(f) == 1 ? "" : "s");
}

static enum hk_status choose_merged_records(struct job *j, const struct hk_file *f,
                                            struct hk_error *err)
{
    enum hk_status status = HK_OK;
    size_t others = 0;
    if (j->name_count == 0)
        add_active_records(j, f, &others);
    for (size_t i = 0; status == HK_OK && i < j->name_count; i++) {
        struct hk_merge_item item;
        status = record_named(f, j->names[i], &item, err);
        if (status == HK_OK)
            add_merge_item(j, item.record, item.scale);
    }
    return status == HK_OK && j->count == 0 ? no_active_error(f, others, err) : status;
}

static enum hk_status write_merged_file(struct job *j, struct hk_file *merged, struct hk_error *err)
{
    struct hk_out *out;
    j->writing = true;
    enum hk_status st = tool_create(&out, j->out, j->in, j->force, err);
    if (st != HK_OK)
        return st;
    st = hk_convert(merged, j->to, &j->convert, out, err);
    j->writing = st == HK_OK || st == HK_E_IO;
    if (st == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return st;
}

static enum hk_status save_merged_directory(struct job *j, struct hk_file *merged,
                                            struct hk_error *err)
{
    j->convert.replace = j->force;
    j->convert.stop = tool_catch_stop();
    const enum hk_status st = hk_save(merged, j->out, j->to, &j->convert, err);
    tool_die_if_stopped();
    j->writing = st == HK_E_IO || st == HK_E_USE;
    return st;
}

static enum hk_status write_merged(void *arg, struct hk_file *merged, struct hk_error *err)
{
    struct job *j = arg;
    return hk_format_traits(j->to) & HK_TRAIT_DIRECTORY ? save_merged_directory(j, merged, err)
                                                        : write_merged_file(j, merged, err);
}

static int merge_records(struct job *j, struct hk_file *f)
{
    struct hk_error err;
    if (choose_merged_records(j, f, &err) == HK_OK &&
        hk_merge(f, j->items, j->count, j->type, j->convert.max_output, write_merged, j, &err) ==
            HK_OK)
        return TOOL_OK;
    return tool_error(j->writing ? tool_output_name(j->out) : j->in, &err);
}

static int merge_model(struct job *j)
{
    struct hk_file *f;
    struct hk_error err;
    if (tool_open(&f, j->in, &err) != HK_OK)
        return tool_error(j->in, &err);
    int status = merge_records(j, f);
    free(j->items);
    hk_close(&f);
    return status;
}

static void show_merging(void *arg, uint64_t done, uint64_t all)
{
    (void)arg;
    tool_progress("merging", done, all);
}

static void show_merge_loss(void *arg, const char *text)
{
    const struct job *j = arg;
    tool_warn_lost(j->out, text);
}

static void set_merge_option(struct job *j, int option, const char *value)
{
    switch (option) {
    case OPT_ADAPTER:
        j->names[j->name_count++] = value;
        break;
    case OPT_ALIGN:
        j->convert.alignment = tool_align(value);
        break;
    case OPT_FORCE:
        j->force = true;
        break;
    case OPT_MAX_OUTPUT:
        j->convert.max_output = tool_max_output(value);
        break;
    case OPT_TO:
        j->to_given = true;
        j->to = tool_format(value, NULL);
        break;
    default:
        j->type = tool_dense_type(value);
    }
}

static void settle_merge_output(struct job *j)
{
    j->to = tool_output_format(j->out, j->to_given ? &j->to : NULL);
    tool_check_format(j->out, j->to);
    if (j->convert.alignment != 0 && !(hk_format_traits(j->to) & HK_TRAIT_ALIGNED))
        tool_usage("--align is for hk and gguf: %s has no alignment", hk_format_name(j->to));
}

int main(int argc, char **argv)
{
    struct job j = {.type = HK_TYPE_F16,
                    .convert = {.size = sizeof(struct hk_convert_options),
                                .progress = show_merging,
                                .loss = show_merge_loss,
                                .arg = &j}};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    j.names = calloc((size_t)argc + 1, sizeof *j.names);
    if (j.names == NULL)
        tool_nomem();
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        set_merge_option(&j, o, value);
    tool_check_operands(&args, "FILE OUT");
    j.in = args.operands[0];
    j.out = args.operands[1];
    settle_merge_output(&j);
    const int status = merge_model(&j);
    if (status == TOOL_OK)
        tool_note_format(j.out, j.to, j.to_given);
    free(j.names);
    return tool_end(status);
}
