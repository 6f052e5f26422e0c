/* hk-append: records for the version history of a .hk, all of a call or none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/append.h"
#include "tools/lib/threads.h"

enum {
    OPT_LORA,
    OPT_DELTA,
    OPT_LAYER,
    OPT_EVAL,
    OPT_KV_CACHE,
    OPT_TOPOLOGY,
    OPT_NAME,
    OPT_TARGET,
    OPT_GENERATION,
    OPT_LOSS,
    OPT_ACC,
    OPT_PASS,
    OPT_CUSTOM,
    OPT_INACTIVE,
    OPT_COMPRESS,
    OPT_ACTIVATE,
    OPT_DEACTIVATE,
    OPT_BIND_BASE,
    OPT_STRICT,
    OPT_NO_WAIT,
};

static const struct tool_option options[] = {
    [OPT_LORA] = {"lora", 0, "PATH", "append an adapter: a PEFT directory, its file, or a GGUF"},
    [OPT_DELTA] = {"delta", 0, "FILE", "append differences of tensors, as safetensors"},
    [OPT_LAYER] = {"layer", 0, "FILE", "append tensors to add or to replace, as safetensors"},
    [OPT_EVAL] = {"eval", 0, "FILE", "append the result of an evaluation, as JSON"},
    [OPT_KV_CACHE] = {"kv-cache", 0, "FILE", "append a KV cache, any bytes"},
    [OPT_TOPOLOGY] = {"topology", 0, "FILE", "append a description of the model, as JSON"},
    [OPT_NAME] = {"name", 0, "NAME", "name of the record (default: that of its file)"},
    [OPT_TARGET] = {"target", 0, "TARGET", "what it applies to (default: model)"},
    [OPT_GENERATION] = {"generation", 0, "N", "generation (default: the last one plus 1)"},
    [OPT_LOSS] = {"loss", 0, "X", "metric of the record"},
    [OPT_ACC] = {"acc", 0, "X", "metric of the record: accuracy, a fraction"},
    [OPT_PASS] = {"pass", 0, "X", "metric of the record: pass rate, a fraction"},
    [OPT_CUSTOM] = {"custom", 0, "X", "metric of the record, free"},
    [OPT_INACTIVE] = {"inactive", 0, NULL, "do not mark the record as active"},
    [OPT_COMPRESS] = {"compress", 'z', NULL, "store the payload compressed"},
    [OPT_ACTIVATE] = {"activate", 0, "NAME", "activate the records called NAME"},
    [OPT_DEACTIVATE] = {"deactivate", 0, "NAME", "deactivate the records called NAME"},
    [OPT_BIND_BASE] = {"bind-base", 0, NULL, "bind the first record to the base digest"},
    [OPT_STRICT] = {"strict", 0, NULL, "refuse an adapter that cannot be applied to the model"},
    [OPT_NO_WAIT] = TOOL_OPTION_NO_WAIT,
};

static const struct tool tool = {
    .name = "hk-append",
    .operands = "--lora PATH | --delta FILE | ... FILE",
    .about = "Append records to the version history of a .hk: all of a call, or none.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct item { /* a record to be */
    struct hk_new_record record;
    const char *path, *name, *target;
    const char *switched; /* what --activate or --deactivate names: PATH is NULL then */
    bool generation_given;
};

struct job {
    const char *file;
    bool bind, strict, no_wait;
    struct item common; /* what stands before the first record goes for all */
    struct item *items;
    size_t count;
};

static const enum hk_record_type types[] = {
    [OPT_LORA] = HK_RECORD_LORA_ADAPTER,      [OPT_DELTA] = HK_RECORD_DELTA_PATCH,
    [OPT_LAYER] = HK_RECORD_NEW_LAYER,        [OPT_EVAL] = HK_RECORD_CODE_EVAL,
    [OPT_KV_CACHE] = HK_RECORD_KV_CACHE_SINK, [OPT_TOPOLOGY] = HK_RECORD_TOPOLOGY_HEAD,
};

static void add_record(struct job *j, enum hk_record_type type, const char *path)
{
    struct item *items = reallocarray(j->items, j->count + 1, sizeof *items);
    if (items == NULL)
        tool_nomem();
    j->items = items;
    items[j->count] = j->common;
    items[j->count].record.type = type;
    items[j->count++].path = path;
}

static void add_switch_record(struct job *j, const char *name, uint8_t flags)
{
    add_record(j, HK_RECORD_LORA_ADAPTER, NULL); /* the type is that of what it switches */
    j->items[j->count - 1].switched = name;
    j->items[j->count - 1].record.flags = flags;
}

/* A switch has name and target of what it switches, and no payload. */
static void check_record_option(const struct item *item, int option)
{
    const bool of_payload = option == OPT_NAME || option == OPT_TARGET || option == OPT_INACTIVE ||
                            option == OPT_COMPRESS;
    if (item->switched != NULL && of_payload)
        tool_usage("--%s cannot be used with --activate or --deactivate", options[option].name);
}

static void set_record_metric(struct item *item, int option, const char *value)
{
    item->record.metrics[option - OPT_LOSS] = (float)tool_double(value, -3e38, 3e38);
}

static void set_record_generation(struct item *item, const char *value)
{
    item->record.generation = (uint32_t)tool_uint(value, 1, UINT32_MAX);
    item->generation_given = true;
}

static void take_append_option(struct job *j, int option, const char *value)
{
    struct item *item = j->count > 0 ? &j->items[j->count - 1] : &j->common;
    check_record_option(item, option);
    switch (option) {
    case OPT_ACTIVATE:
        add_switch_record(j, value, HK_RECORD_ACTIVE);
        break;
    case OPT_DEACTIVATE:
        add_switch_record(j, value, 0);
        break;
    case OPT_NAME:
        item->name = value;
        break;
    case OPT_TARGET:
        item->target = value;
        break;
    case OPT_GENERATION:
        set_record_generation(item, value);
        break;
    case OPT_INACTIVE:
        item->record.flags &= (uint8_t)~HK_RECORD_ACTIVE;
        break;
    case OPT_COMPRESS:
        item->record.flags |= HK_RECORD_COMPRESSED;
        break;
    case OPT_BIND_BASE:
        j->bind = true;
        break;
    case OPT_NO_WAIT:
        j->no_wait = true;
        break;
    case OPT_STRICT:
        j->strict = true;
        break;
    default:
        if (option <= OPT_TOPOLOGY)
            add_record(j, types[option], value);
        else
            set_record_metric(item, option, value);
    }
}

/* Now, or what whoever wants the same bytes again has set. */
static uint64_t timestamp_now(void)
{
    const char *given = getenv("SOURCE_DATE_EPOCH");
    tool_value_begin("SOURCE_DATE_EPOCH");
    return given != NULL ? tool_uint(given, 0, INT64_MAX) : (uint64_t)time(NULL);
}

/* Standard input and <(...), whose names say nothing. */
static bool is_unnamed_stream(const char *path)
{
    return tool_is_standard_input(path) || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

/* The last part of PATH without its extension. */
static struct hk_bytes default_record_name(const char *path, enum hk_record_type type)
{
    struct hk_bytes b = hk_bytes_of(path);
    if (is_unnamed_stream(path))
        return hk_bytes_of(hk_record_type_name(type));
    while (b.n > 1 && b.p[b.n - 1] == '/')
        b.n--;
    for (size_t i = b.n; i-- > 0;)
        if (b.p[i] == '/' && i + 1 < b.n) {
            b = (struct hk_bytes){b.p + i + 1, b.n - i - 1};
            break;
        }
    const uint8_t *dot = memrchr(b.p, '.', b.n);
    if (dot != NULL && dot > b.p)
        b.n = (size_t)(dot - b.p);
    return b;
}

/* ---- appending ---- */

/* Another record may be of the same bytes: the position of the descriptor may be anywhere. */
static enum hk_status copy_payload_bytes(struct hk_appender *a, const struct payload *p,
                                         struct hk_error *err)
{
    enum { CHUNK = 1 << 20 };
    uint8_t *buffer = malloc(CHUNK);
    enum hk_status status = buffer == NULL ? hk_fail_nomem(err) : HK_OK;
    for (uint64_t at = 0; status == HK_OK && at < p->size;) {
        const uint64_t left = p->size - at;
        const ssize_t n = pread(p->fd, buffer, left < CHUNK ? (size_t)left : CHUNK, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            status =
                n < 0 ? hk_fail_sys(err, errno, "cannot read")
                      : hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "became shorter while it was read");
        else
            status = hk_append_write(a, buffer, (size_t)n, err);
        at += n > 0 ? (uint64_t)n : 0;
        tool_progress("appending", at, p->size);
    }
    free(buffer);
    return status;
}

static enum hk_status append_payload_record(struct hk_appender *a, const struct item *item,
                                            const struct payload *p, bool *reading,
                                            struct hk_error *err)
{
    struct hk_new_record r = item->record;
    r.name = item->name != NULL ? hk_bytes_of(item->name) : default_record_name(item->path, r.type);
    r.target = hk_bytes_of(item->target != NULL ? item->target : "model");
    r.plain_size = p->size;
    enum hk_status st = hk_append_record(a, &r, err);
    if (st != HK_OK)
        return st;
    st = copy_payload_bytes(a, p, err);
    *reading = st != HK_OK && strncmp(err->text, "cannot write", 12) != 0;
    return st;
}

/* A failure is told here: it lies in the record's file or in the .hk. */
static int append_one_record(struct hk_appender *a, const struct job *j, struct item *item,
                             const struct payload *p, uint32_t generation)
{
    struct hk_error err;
    struct hk_new_record *r = &item->record;
    enum hk_status st;
    bool reading = false;
    r->timestamp = timestamp_now();
    if (!item->generation_given) { /* one before it may have been given a later one */
        const uint32_t last = hk_append_generation(a);
        r->generation = generation > last ? generation : last;
    }
    if (item->switched != NULL) {
        r->name = hk_bytes_of(item->switched);
        st = hk_append_switch(a, r, &err);
    } else {
        st = append_payload_record(a, item, p, &reading, &err);
    }
    return st == HK_OK ? TOOL_OK : tool_error(reading ? item->path : j->file, &err);
}

static enum hk_status bind_appender_base(const struct job *j, struct hk_appender *a,
                                         const struct hk_file *whole, struct hk_error *err)
{
    struct hk_loop loop;
    const struct hk_work work = {
        .size = sizeof work, .loop = &loop, .progress = tool_progress_hashing};
    enum hk_status st = j->bind ? tool_loop_new(&loop, 0, err) : HK_OK;
    if (st != HK_OK || !j->bind)
        return st;
    st = hk_append_bind(a, whole, &work, err);
    tool_loop_free(&loop);
    return st;
}

/* Records are appended to the first file of a set, and bound to all of it. */
static enum hk_status open_appender(const struct job *j, struct hk_appender **out,
                                    struct hk_error *err)
{
    const struct hk_wait wait = tool_wait(j->file, j->no_wait);
    struct hk_file *whole = NULL;
    char *first = NULL;
    enum hk_status st = hk_first_file(&first, j->file, err);
    if (st == HK_OK && j->bind)
        st = hk_open_set(&whole, j->file, err);
    if (st == HK_OK)
        st = hk_append_open(out, first, 0, &wait, err);
    if (st == HK_OK && (st = bind_appender_base(j, *out, whole, err)) != HK_OK)
        hk_append_discard(out);
    hk_close(&whole);
    free(first);
    return st;
}

static int append_all_records(struct job *j, const struct payload *payloads)
{
    struct hk_appender *a;
    struct hk_error err;
    if (open_appender(j, &a, &err) != HK_OK)
        return tool_error(j->file, &err);
    const uint32_t last = hk_append_generation(a), next = last < UINT32_MAX ? last + 1 : last;
    int status = TOOL_OK;
    for (size_t i = 0; status == TOOL_OK && i < j->count; i++)
        status = append_one_record(a, j, &j->items[i], &payloads[i], next);
    if (status != TOOL_OK) {
        hk_append_discard(&a);
        return status;
    }
    return hk_append_commit(&a, &err) == HK_OK ? TOOL_OK : tool_error(j->file, &err);
}

/* Everything is looked at before the file is touched. */
static int append_records(struct job *j)
{
    struct hk_error err;
    int status = TOOL_OK;
    size_t opened = 0;
    struct payload *payloads = calloc(j->count, sizeof *payloads);
    if (payloads == NULL)
        tool_nomem();
    for (; status == TOOL_OK && opened < j->count; opened++) {
        const struct item *item = &j->items[opened];
        payloads[opened].fd = -1;
        if (item->switched == NULL && append_payload(&payloads[opened], item->record.type,
                                                     item->path, j->file, j->strict, &err) != HK_OK)
            status = tool_error(item->path, &err);
    }
    if (status == TOOL_OK)
        status = append_all_records(j, payloads);
    while (opened-- > 0)
        if (payloads[opened].fd >= 0)
            close(payloads[opened].fd);
    free(payloads);
    return status;
}

/* "--lora" and so on. */
static const char *payload_option(enum hk_record_type type)
{
    static char name[32];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i] == type)
            snprintf(name, sizeof name, "--%s", options[i].name);
    return name;
}

static void check_new_records(const struct job *j)
{
    for (size_t i = 0; i < j->count; i++) {
        const struct item *item = &j->items[i];
        if (item->path != NULL)
            tool_use_input(payload_option(item->record.type), item->path);
        if ((item->name != NULL && strlen(item->name) > UINT16_MAX) ||
            (item->target != NULL && strlen(item->target) > UINT16_MAX))
            tool_usage("--name and --target take 65535 bytes at most");
    }
    if (j->count == 0)
        tool_usage("nothing to append: --lora, --delta, --layer, --eval, --kv-cache, --topology, "
                   "--activate or --deactivate");
}

int main(int argc, char **argv)
{
    struct job j = {
        .common.record = {.size = sizeof(struct hk_new_record), .flags = HK_RECORD_ACTIVE}};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        take_append_option(&j, o, value);
    if (args.operand_count > 0)
        check_new_records(&j);
    tool_check_operands(&args, "FILE");
    j.file = args.operands[0];
    tool_check_in_place(j.file);
    const int status = append_records(&j);
    free(j.items);
    return tool_end(status);
}
