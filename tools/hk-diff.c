/* hk-diff: what differs between two models: metadata, tensors and their values, the appendix. */
#include <stdlib.h>

#include "libhkfmt/hkmodel.h"
#include "tools/diff.h"
#include "tools/lib/threads.h"

enum {
    OPT_APPENDIX,
    OPT_BRIEF,
    OPT_COSINE,
    OPT_IGNORE_KEY,
    OPT_JSON,
    OPT_MAX_OUTPUT,
    OPT_METADATA,
    OPT_TENSORS,
    OPT_THREADS,
    OPT_TOLERANCE
};

static const struct tool_option options[] = {
    [OPT_APPENDIX] = {"appendix", 0, NULL, "compare the appendix"},
    [OPT_BRIEF] = {"brief", 'b', NULL, "print only the names of what differs"},
    [OPT_COSINE] = {"cosine", 0, "X", "tensors whose cosine is X or more count as same"},
    [OPT_IGNORE_KEY] = {"ignore-key", 0, "PATTERN", "ignore keys that match, such as hk.source.*"},
    [OPT_JSON] = TOOL_OPTION_JSON,
    [OPT_MAX_OUTPUT] = {"max-output", 0, "SIZE",
                        "compare up to SIZE bytes of values (default: 64M, or 16 times A and B)"},
    [OPT_METADATA] = {"metadata", 0, NULL, "compare the metadata"},
    [OPT_TENSORS] = {"tensors", 0, NULL, "compare the tensors"},
    [OPT_THREADS] = TOOL_OPTION_THREADS,
    [OPT_TOLERANCE] = {"tolerance", 0, "X", "tensors with no error above X count as same"},
};

static const struct tool tool = {
    .name = "hk-diff",
    .operands = "A B",
    .about = "Print what differs between two models, whatever their formats.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

static void print_diff(struct diff *d)
{
    if (d->options->parts & DIFF_METADATA)
        diff_metadata(d);
    if (d->options->parts & DIFF_TENSORS)
        diff_tensors(d);
    if (d->options->parts & DIFF_APPENDIX)
        diff_appendix(d);
    if (d->options->json)
        diff_print_json(d);
    else
        diff_print_text(d);
}

static void free_diff(struct diff *d)
{
    for (size_t i = 0; i < d->kv_count; i++) {
        json_decref(d->kvs[i].first_a);
        json_decref(d->kvs[i].first_b);
    }
    for (size_t i = 0; i < d->tensor_count; i++)
        free(d->tensors[i].why);
    free(d->kvs);
    free(d->tensors);
    free(d->records);
    hk_close(&d->a);
    hk_close(&d->b);
}

/* A file that cannot be compared is trouble: 1 says that there are differences. */
static bool open_compared_model(struct hk_file **out, const char *name)
{
    struct hk_error err;
    if (tool_open(out, name, &err) == HK_OK)
        return true;
    tool_error(name, &err);
    return false;
}

static int diff_models(struct diff *d, struct diff_options *o, unsigned threads)
{
    struct hk_loop loop;
    struct hk_error err;
    int status = TOOL_TROUBLE;
    if (tool_loop_new(&loop, threads, &err) != HK_OK)
        return tool_error(NULL, &err);
    o->loop = &loop;
    if (open_compared_model(&d->a, d->name_a) && open_compared_model(&d->b, d->name_b)) {
        d->rotation_a = hk_file_rotation(d->a);
        d->rotation_b = hk_file_rotation(d->b);
        print_diff(d);
        status = d->differ ? TOOL_CONTENT : TOOL_OK;
    }
    free_diff(d);
    tool_loop_free(&loop);
    return status;
}

static void ignore_keys(struct diff_options *o, const char *pattern)
{
    const char **longer = reallocarray(o->ignored, o->ignored_count + 1, sizeof *longer);
    if (longer == NULL)
        tool_nomem();
    longer[o->ignored_count++] = pattern;
    o->ignored = longer;
}

static void set_diff_option(struct diff_options *o, int option, const char *value)
{
    switch (option) {
    case OPT_APPENDIX:
        o->parts |= DIFF_APPENDIX;
        break;
    case OPT_BRIEF:
        o->brief = true;
        break;
    case OPT_COSINE:
        o->cosine = tool_double(value, -1, 1);
        break;
    case OPT_IGNORE_KEY:
        ignore_keys(o, value);
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_MAX_OUTPUT:
        o->max_output = tool_max_output(value);
        break;
    case OPT_METADATA:
        o->parts |= DIFF_METADATA;
        break;
    case OPT_TENSORS:
        o->parts |= DIFF_TENSORS;
        break;
    default:
        o->tolerance = tool_double(value, 0, 1e300);
    }
}

int main(int argc, char **argv)
{
    struct diff_options o = {.tolerance = (double)NAN, .cosine = (double)NAN};
    struct diff d = {.options = &o};
    struct tool_args args;
    const char *value;
    unsigned threads = 0;
    tool_begin(&args, &tool, argc, argv);
    for (int option; (option = tool_next(&args, &value)) >= 0;) {
        if (option == OPT_THREADS)
            threads = tool_threads_option(value);
        else
            set_diff_option(&o, option, value);
    }
    tool_check_operands(&args, "A B");
    if (o.brief && o.json)
        tool_usage("--brief and --json exclude each other");
    if (o.parts == 0)
        o.parts = DIFF_ALL;
    d.name_a = args.operands[0];
    d.name_b = args.operands[1];
    tool_use_input("A", d.name_a);
    tool_use_input("B", d.name_b);
    int status = diff_models(&d, &o, threads);
    free(o.ignored);
    return tool_end(status);
}
