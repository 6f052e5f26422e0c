/* engine_options.c: what programs that run a model take from the command line and the environment,
 * and how they open it. */
#include "tools/lib/engine_options.h"

#include <stdlib.h>
#include <string.h>

#include "tools/lib/records.h"

/* ---- options ---- */

enum engine_option {
    OPT_ACTIVATIONS,
    OPT_BATCH,
    OPT_HUGE_PAGES,
    OPT_MEMORY,
    OPT_MLOCK,
    OPT_THREADS
};

static const struct tool_option options[] = {
    [OPT_ACTIVATIONS] = {"activations", 0, "TYPE",
                         "round activations to q8 (default), or not: f32"},
    [OPT_BATCH] = {"batch", 0, "N", "evaluate N tokens together (default 512)"},
    [OPT_HUGE_PAGES] = {"huge-pages", 0, NULL, "ask for huge pages for buffers and KV cache"},
    [OPT_MEMORY] = {"memory", 0, "SIZE", "keep at most SIZE of the weights in memory"},
    [OPT_MLOCK] = {"mlock", 0, NULL, "lock the weights in memory"},
    [OPT_THREADS] = TOOL_OPTION_THREADS,
};

static enum hke_activations parse_activations(const char *value)
{
    static const char *const names[] = {"q8", "f32"};
    return tool_choice(value, names, 2) == 0 ? HKE_ACTIVATIONS_Q8 : HKE_ACTIVATIONS_F32;
}

static void set_engine_option(void *to, int option, const char *value)
{
    struct engine_options *o = to;
    switch ((enum engine_option)option) {
    case OPT_ACTIVATIONS:
        o->context.activations = parse_activations(value);
        break;
    case OPT_BATCH:
        o->context.batch = tool_uint(value, 1, HKE_MAX_BATCH);
        break;
    case OPT_HUGE_PAGES:
        o->context.huge_pages = true;
        break;
    case OPT_MEMORY:
        o->context.weights_memory = tool_size(value, 1, UINT64_MAX);
        break;
    case OPT_MLOCK:
        o->mlock = true;
        break;
    case OPT_THREADS:
        o->context.threads = tool_threads_option(value);
        break;
    }
}

const struct tool_group engine_options_group = {
    .options = options,
    .count = sizeof options / sizeof *options,
    .set = set_engine_option,
};

void engine_options_add_adapter(struct engine_options *o, const char *word)
{
    const char **longer = reallocarray(o->adapters, o->adapter_count + 1, sizeof *longer);
    if (longer == NULL)
        tool_nomem();
    longer[o->adapter_count++] = word;
    o->adapters = longer;
}

/* A variable set to nothing counts as not set. */
const struct hkk_table *engine_options_kernels(void)
{
    const struct hkk_table *table = NULL;
    const char *name = getenv("HK_KERNELS");
    if (name != NULL && *name == '\0')
        name = NULL;
    const char *why_not = hkk_select(name, &table);
    if (why_not == NULL)
        return table;
    struct hkk_level levels[HKK_MAX_LEVELS];
    struct tool_nearest s;
    tool_nearest_begin(&s, hk_bytes_of(name != NULL ? name : ""));
    for (size_t n = hkk_levels(levels); n-- > 0;)
        if (levels[n].why_not == NULL)
            tool_nearest_try(&s, hk_bytes_of(levels[n].name));
    const char *hint = tool_nearest_hint(&s, "");
    tool_warn(NULL, "HK_KERNELS: %s: %s%s", name != NULL ? name : "no level", why_not,
              *hint != '\0' ? hint : "; hk-hardware-profile lists them");
    exit(TOOL_TROUBLE);
}

void engine_options_settle(struct engine_options *o)
{
    if (o->mlock && o->context.weights_memory > 0)
        tool_usage("--memory and --mlock exclude each other");
    if (o->mlock)
        o->context.weights_memory = UINT64_MAX;
    if (o->context.kernels == NULL)
        o->context.kernels = engine_options_kernels();
    if (o->context.threads == 0)
        o->context.threads = tool_threads();
}

void engine_options_free(struct engine_options *o)
{
    free(o->adapters);
    hke_adapters_free(&o->opened);
    *o = (struct engine_options){0};
}

/* ---- opening ---- */

static enum hk_status apply_named_adapter(const char *word, const struct hk_file *f,
                                          struct hke_adapters *to, struct hk_error *err)
{
    struct hk_merge_item item;
    struct hk_adapter *a;
    enum hk_status st = record_named(f, word, &item, err);
    if (st == HK_OK && hk_record_at(f, item.record)->type != HK_RECORD_LORA_ADAPTER)
        st = hk_fail(err, HK_E_UNSUPPORTED, hk_record_at(f, item.record)->offset,
                     "record '%s' is not an adapter", word);
    if (st == HK_OK)
        st = hk_adapter_open(&a, f, item.record, err);
    if (st != HK_OK)
        return st;
    st = hke_adapters_add(to, a, item.scale, err);
    hk_adapter_free(&a);
    return st;
}

static enum hk_status apply_named_adapters(struct engine_options *o, const struct hk_file *f,
                                           const struct hke_model *m, struct hk_error *err)
{
    if (o->adapter_count == 0)
        return HK_OK;
    enum hk_status st = hke_adapters_new(&o->opened, m, err);
    for (size_t i = 0; st == HK_OK && i < o->adapter_count; i++)
        st = apply_named_adapter(o->adapters[i], f, o->opened, err);
    o->context.adapters = o->opened;
    return st;
}

enum hk_status engine_options_open(struct engine_options *o, const char *path,
                                   struct hk_file **file, struct hke_model **model,
                                   struct hk_error *err)
{
    enum hk_status st = tool_open_kept(file, path, o->keep, err);
    if (st == HK_OK && hk_is_adapter(*file))
        st = hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                     "is a low-rank adapter, not a model: hk-append --lora adds it to its model, "
                     "--adapter runs it there");
    if (st == HK_OK)
        st = hke_model_new(model, *file, err);
    if (st == HK_OK)
        st = apply_named_adapters(o, *file, *model, err);
    hk_file_release(*file); /* adapters are copies */
    if (st == HK_OK && o->mlock)
        st = hke_lock_weights(*file, err);
    return st;
}
