/* hk-convert: a model in one format as a file, a set of shards or a directory in another. */
#include <string.h>

#include "tools/convert.h"

enum {
    OPT_ALIGN,
    OPT_BASE,
    OPT_FORCE,
    OPT_KEEP,
    OPT_MAX_OUTPUT,
    OPT_NO_HISTORY,
    OPT_RAW,
    OPT_ROOM,
    OPT_SPLIT,
    OPT_TO,
    OPT_TYPE,
};

static const struct tool_option options[] = {
    [OPT_ALIGN] = TOOL_OPTION_ALIGN,
    [OPT_BASE] = {"base", 0, "MODEL",
                  "IN is a low-rank adapter for MODEL: write it in another form"},
    [OPT_FORCE] = TOOL_OPTION_FORCE,
    [OPT_KEEP] = {"keep-history", 0, NULL, "keep the history even if tensors change their type"},
    [OPT_MAX_OUTPUT] = TOOL_OPTION_MAX_OUTPUT,
    [OPT_NO_HISTORY] = {"no-history", 0, NULL, "drop the version history"},
    [OPT_RAW] = {"raw", 0, NULL, "keep the directory IN as it is: tensors' names and files"},
    [OPT_ROOM] = {"room", 0, "SIZE", "leave SIZE bytes of room for metadata"},
    [OPT_SPLIT] = {"split-size", 0, "SIZE", "write shards of up to SIZE bytes"},
    [OPT_TO] = {"to", 0, "FORMAT",
                "write hk, gguf, safetensors, hf or peft, whatever OUT is called"},
    [OPT_TYPE] = {"type", 0, "TYPE",
                  "what quantised tensors become in hk, safetensors and hf: f16, bf16, f32"},
};

static const struct tool tool = {
    .name = "hk-convert",
    .operands = "IN OUT",
    .about = "Convert a model between .hk, GGUF, safetensors and model directories (hf), or an\n"
             "adapter between PEFT and GGUF; - is standard input or output.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

/* ---- options ---- */

static uint64_t parse_room(const char *value)
{
    const uint64_t size = tool_size(value, 0, UINT64_C(4) << 30);
    return size == 0 ? HK_NO_ROOM : size;
}

static void set_history_choice(struct convert_job *j, enum hk_history_choice choice)
{
    if (j->options.history != HK_HISTORY_CARRY && j->options.history != choice)
        tool_usage("--no-history and --keep-history exclude each other");
    j->options.history = choice;
}

static void set_convert_option(struct convert_job *j, int option, const char *value)
{
    switch (option) {
    case OPT_ALIGN:
        j->options.alignment = tool_align(value);
        break;
    case OPT_BASE:
        j->base = value;
        break;
    case OPT_FORCE:
        j->force = true;
        break;
    case OPT_MAX_OUTPUT:
        j->options.max_output = tool_max_output(value);
        break;
    case OPT_KEEP:
        set_history_choice(j, HK_HISTORY_KEEP);
        break;
    case OPT_NO_HISTORY:
        set_history_choice(j, HK_HISTORY_DROP);
        break;
    case OPT_RAW:
        j->raw = true;
        break;
    case OPT_ROOM:
        j->options.room = parse_room(value);
        break;
    case OPT_SPLIT:
        j->options.split_size = tool_size(value, 1, INT64_MAX);
        break;
    case OPT_TO:
        j->to_given = true;
        j->to = tool_format(value, &j->peft);
        break;
    case OPT_TYPE:
        j->options.dense = tool_dense_type(value);
        j->options.decode = true;
        break;
    }
}

static void check_adapter_options(const struct convert_job *j)
{
    if (j->to == HK_FORMAT_HK)
        tool_usage("an adapter becomes gguf, safetensors or peft (--to); hk-append --lora puts it "
                   "into a .hk");
    const char *other = j->options.decode                       ? "type"
                        : j->options.split_size > 0             ? "split-size"
                        : j->options.history == HK_HISTORY_DROP ? "no-history"
                        : j->options.max_output > 0             ? "max-output"
                                                                : NULL;
    if (other != NULL)
        tool_usage("--%s is for models, not for adapters", other);
}

static void check_raw_use(const struct convert_job *j)
{
    if (j->base != NULL)
        tool_usage("--raw is for models, not for adapters");
    if (j->to != HK_FORMAT_HK)
        tool_usage("--raw is for hk: a directory made of that is as it was");
    if (j->options.decode)
        tool_usage("--raw keeps types, so --type is of no use");
}

static void check_convert_use(const struct convert_job *j)
{
    if (j->raw)
        check_raw_use(j);
    if (j->base != NULL)
        check_adapter_options(j);
    else if (j->peft)
        tool_usage("--to peft is for adapters: name the model with --base");
    const unsigned traits = hk_format_traits(j->to);
    if (j->options.decode && !(traits & HK_TRAIT_DECODED))
        tool_usage("--type is for hk, safetensors and hf: in gguf, tensors keep their types");
    if (j->options.history == HK_HISTORY_KEEP && !(traits & HK_TRAIT_RECORDS))
        tool_usage("--keep-history is for hk: %s has no history", hk_format_name(j->to));
    if (j->options.alignment != 0 && !(traits & HK_TRAIT_ALIGNED))
        tool_usage("--align is for hk and gguf: %s has no alignment", hk_format_name(j->to));
    if (j->options.room != 0 && !(traits & HK_TRAIT_RECORDS))
        tool_usage("--room is for hk: metadata of %s cannot grow in place", hk_format_name(j->to));
    if (tool_is_standard(j->out) && j->options.split_size > 0)
        tool_usage("standard output is one file, not several: name one for --split-size");
    tool_check_format(j->out, j->to);
}

/* ---- the program ---- */

static void show_converting(void *arg, uint64_t done, uint64_t all)
{
    (void)arg;
    tool_progress("converting", done, all);
}

static void show_conversion_loss(void *arg, const char *text)
{
    const struct convert_job *j = arg;
    tool_warn_lost(j->out, text);
}

static int convert_input(const struct convert_job *j)
{
    struct hk_file *f;
    struct hk_error err;
    if (j->base != NULL)
        return convert_adapter(j);
    if (convert_open(&f, j, &err) != HK_OK)
        return tool_error(j->in, &err);
    int status;
    if (convert_is_adapter(j, f)) {
        hk_fail(&err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                "is a low-rank adapter, not a model: name its model with --base");
        status = tool_error(j->in, &err);
    } else {
        convert_hint(j, f);
        tool_tell_defaults(j->in, f);
        status = convert_write(j, f);
    }
    hk_close(&f);
    return status;
}

int main(int argc, char **argv)
{
    struct convert_job j = {.options = {.size = sizeof(struct hk_convert_options),
                                        .dense = HK_TYPE_F16,
                                        .progress = show_converting,
                                        .loss = show_conversion_loss}};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        set_convert_option(&j, o, value);
    tool_check_operands(&args, "IN OUT");
    j.options.arg = &j;
    j.in = args.operands[0];
    j.out = args.operands[1];
    tool_use_input("IN", j.in);
    if (j.base != NULL)
        tool_use_input("--base", j.base);
    j.to = tool_output_format(j.out, j.to_given ? &j.to : NULL);
    check_convert_use(&j);
    const int status = convert_input(&j);
    if (status == TOOL_OK)
        tool_note_format(j.out, j.to, j.to_given);
    return tool_end(status);
}
