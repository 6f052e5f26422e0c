/* hk-meta: the metadata of a model file, listed, read, and edited in place. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/hkmodel.h"
#include "tools/lib/metadata.h"
#include "tools/meta.h"

enum { OPT_FROM_FILE, OPT_FULL, OPT_JSON, OPT_NO_WAIT, OPT_TABLE, OPT_TYPE, OPT_TYPED };

static const struct tool_option options[] = {
    [OPT_FROM_FILE] = {"from-file", 0, "PATH", "set: read the value from PATH, byte for byte"},
    [OPT_FULL] = {"full", 0, NULL, "list: show long arrays and opaque bytes whole"},
    [OPT_JSON] = {"json", 0, NULL, "get: print the value as JSON"},
    [OPT_NO_WAIT] = {"no-wait", 0, NULL, "set, delete, import: " TOOL_NO_WAIT_HELP},
    [OPT_TABLE] = {"table", 0, NULL, "list: print a table for people, not JSON"},
    [OPT_TYPE] = {"type", 0, "TYPE",
                  "set: string, int64, float64, bool, json, bytes, array<string>..."},
    [OPT_TYPED] = {"typed", 0, NULL, "list, get: print JSON with the types of values"},
};

static const struct tool tool = {
    .name = "hk-meta",
    .operands = "list|get|set|delete|import|export FILE [ARGUMENT]...",
    .about = "Show the metadata of a model file, or edit those of a .hk in place.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct job {
    const char *path;
    char **words; /* operands behind the file */
    int count;
    bool full, json, table, typed, no_wait;
    enum meta_type type;   /* META_NONE: not given */
    const char *from_file; /* likewise NULL */
};

/* ---- reading ---- */

static void list_metadata_json(const struct hk_file *f, const struct job *j)
{
    struct tool_json_out o;
    tool_json_begin(&o, stdout);
    tool_json_put(&o, "file", tool_json_text(j->path));
    metadata_put(f, j->full, j->typed, &o);
    tool_json_end(&o);
}

static void print_metadata_table(const struct hk_file *f, const struct job *j)
{
    metadata_heading(f, j->path);
    putchar('\n');
    metadata_table(f, j->full);
}

static int list_metadata(const struct hk_file *f, const struct job *j)
{
    if (j->table)
        print_metadata_table(f, j);
    else
        list_metadata_json(f, j);
    return TOOL_OK;
}

/* A text as it is; on a terminal without what would disturb it, its lines kept. */
static void print_meta_text(struct hk_bytes text)
{
    if (isatty(STDOUT_FILENO) == 0) {
        fwrite(text.p, 1, text.n, stdout);
        return;
    }
    while (text.n > 0) {
        const uint8_t *end = memchr(text.p, '\n', text.n);
        size_t n = end != NULL ? (size_t)(end - text.p) : text.n;
        tool_escape(stdout, (struct hk_bytes){text.p, n});
        putchar('\n');
        n += end != NULL;
        text.p += n;
        text.n -= n;
    }
}

static enum hk_status fail_no_key(const struct hk_file *f, const char *key, struct hk_error *err)
{
    struct tool_nearest s;
    tool_nearest_begin(&s, hk_bytes_of(key));
    for (size_t i = 0; i < hk_kv_count(f); i++)
        tool_nearest_try(&s, hk_kv_at(f, i)->key);
    return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no key %.128s%s", key,
                   tool_nearest_hint(&s, ""));
}

static int get_key(const struct hk_file *f, const struct job *j)
{
    struct hk_error err;
    const struct hk_kv *kv = hk_kv_find(f, j->words[0]);
    if (kv == NULL) {
        fail_no_key(f, j->words[0], &err);
        return tool_error(j->path, &err);
    }
    enum meta_type type = meta_type_of(kv);
    if (j->typed)
        tool_json_print(metadata_typed_value(kv, true), stdout);
    else if (j->json)
        tool_json_print(metadata_value(kv, true), stdout);
    else if (type == META_STRING || type == META_JSON)
        print_meta_text(kv->value);
    else if (type != META_BYTES)
        tool_json_print(metadata_value(kv, true), stdout);
    else if (isatty(STDOUT_FILENO) != 0) {
        tool_warn(j->path,
                  "key %s: binary data is not written to a terminal: redirect it or use --json",
                  j->words[0]);
        return TOOL_TROUBLE;
    } else
        fwrite(kv->value.p, 1, kv->value.n, stdout);
    return TOOL_OK;
}

static bool is_member_name(struct hk_bytes key)
{
    return hk_utf8_valid(key) && memchr(key.p, '\0', key.n) == NULL;
}

static int export_metadata(const struct hk_file *f, const struct job *j)
{
    for (size_t i = 0; i < hk_kv_count(f); i++)
        if (!is_member_name(hk_kv_at(f, i)->key)) {
            tool_warn(j->path, "key %.*s: not UTF-8, which a name in JSON must be",
                      HK_STR(hk_kv_at(f, i)->key));
            return TOOL_CONTENT;
        }
    struct tool_json_out o;
    tool_json_begin(&o, stdout);
    for (size_t i = 0; i < hk_kv_count(f) && !ferror(stdout); i++)
        tool_json_put_bytes(&o, hk_kv_at(f, i)->key, meta_json(hk_kv_at(f, i)));
    tool_json_end(&o);
    return TOOL_OK;
}

/* ---- editing ---- */

struct given { /* an edit that was asked for */
    const char *key;
    bool remove, lenient;    /* lenient: a key that is not there need not go */
    struct meta_value value; /* without bytes: still a text, whose type the file knows */
};

static bool float_of_kv(const struct hk_kv *kv, double *out)
{
    return kv->type == HK_META_FLOAT64 && hk_kv_float(kv, out, NULL) == HK_OK;
}

/* What a converter made of a model has 32-bit floats, as GGUF has, and keeps them: another number
 * there would become an f64 in a GGUF, which llama.cpp does not take. */
static bool is_narrow_float(const struct hk_file *f, const struct hk_kv *kv)
{
    double d;
    return hk_kv_find(f, "hk.source.format") != NULL && float_of_kv(kv, &d) &&
           (double)(float)d == d;
}

/* TEXT as a value of the type that KEY has, a string where it is new. */
static enum hk_status parse_as_stored(const struct hk_file *f, const char *key,
                                      struct hk_bytes text, struct meta_value *out,
                                      struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    enum meta_type type = kv != NULL ? meta_type_of(kv) : META_STRING;
    enum hk_status status = meta_parse(out, type, text, key, err);
    if (status == HK_OK && kv != NULL && is_narrow_float(f, kv) && !meta_narrow(out)) {
        free(out->bytes);
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET,
                       "key %.*s: not a number that a 32-bit float can hold", HK_STR(kv->key));
    }
    return status;
}

static enum hk_status apply_edit(struct hk_edit *e, const struct given *g, struct hk_error *err)
{
    struct hk_bytes key = hk_bytes_of(g->key), value = {g->value.bytes, g->value.n};
    if (!g->remove)
        return hk_edit_set(e, key, g->value.type, value, err);
    if (hk_kv_find(hk_edit_file(e), g->key) == NULL)
        return g->lenient ? HK_OK : fail_no_key(hk_edit_file(e), g->key, err);
    return hk_edit_delete(e, key, err);
}

/* Make COUNT edits at once; those for which TEXT is to be read have the type of their key. */
static int edit_metadata(const struct job *j, struct given *list, size_t count,
                         const struct hk_bytes *text)
{
    const struct hk_wait wait = tool_wait(j->path, j->no_wait);
    struct hk_edit *e = NULL;
    struct hk_error err;
    char *path;
    if (hk_first_file(&path, j->path, &err) != HK_OK)
        return tool_error(j->path, &err);
    enum hk_status status = hk_edit_begin(&e, path, &wait, &err);
    free(path);
    for (size_t i = 0; status == HK_OK && i < count; i++) {
        struct given *g = &list[i];
        if (!g->remove && g->value.bytes == NULL)
            status = parse_as_stored(hk_edit_file(e), g->key, *text, &g->value, &err);
        if (status == HK_OK)
            status = apply_edit(e, g, &err);
    }
    if (status == HK_OK)
        status = hk_edit_commit(&e, &err);
    hk_edit_discard(&e);
    return status == HK_OK ? TOOL_OK : tool_error(j->path, &err);
}

static int set_key_text(const struct job *j, struct hk_bytes text)
{
    struct hk_error err;
    struct given g = {.key = j->words[0]};
    if (j->type != META_NONE && meta_parse(&g.value, j->type, text, g.key, &err) != HK_OK)
        return tool_error(j->path, &err);
    int status = edit_metadata(j, &g, 1, &text);
    free(g.value.bytes);
    return status;
}

static int set_key(const struct job *j)
{
    if ((j->from_file != NULL) == (j->count == 2))
        tool_usage("set takes KEY and either VALUE or --from-file");
    const char *path = j->from_file != NULL ? j->from_file : j->words[1];
    if (j->from_file == NULL && !tool_is_standard(path))
        return set_key_text(j, hk_bytes_of(path));
    uint8_t *p;
    size_t n;
    struct hk_error err;
    if (tool_read_all(path, &p, &n, UINT32_MAX, &err) != HK_OK)
        return tool_error(path, &err);
    int status = set_key_text(j, (struct hk_bytes){p, n});
    free(p);
    return status;
}

static int delete_keys(const struct job *j)
{
    struct given *list = calloc((size_t)j->count, sizeof *list);
    if (list == NULL)
        tool_nomem();
    for (int i = 0; i < j->count; i++)
        list[i] = (struct given){.key = j->words[i], .remove = true};
    int status = edit_metadata(j, list, (size_t)j->count, NULL);
    free(list);
    return status;
}

static int import_keys(const struct job *j, json_t *object, const char *source)
{
    size_t count = 0, n = json_object_size(object);
    struct given *list = calloc(n + 1, sizeof *list);
    struct hk_error err;
    enum hk_status status = HK_OK;
    const char *key;
    json_t *v;
    if (list == NULL)
        tool_nomem();
    json_object_foreach(object, key, v)
    {
        struct given *g = &list[count++];
        /* Lenient, so that an import can be repeated. */
        *g = (struct given){.key = key, .remove = json_is_null(v), .lenient = true};
        if (!g->remove && (status = meta_parse_json(&g->value, v, key, &err)) != HK_OK)
            break;
    }
    int result = status == HK_OK ? edit_metadata(j, list, count, NULL) : tool_error(source, &err);
    for (size_t i = 0; i < count; i++)
        free(list[i].value.bytes);
    free(list);
    return result;
}

static int import_metadata(const struct job *j)
{
    const char *source = j->count > 0 ? j->words[0] : "-";
    uint8_t *p;
    size_t n;
    struct hk_error err;
    json_error_t where;
    if (tool_read_all(source, &p, &n, UINT32_MAX, &err) != HK_OK)
        return tool_error(source, &err);
    json_t *v =
        tool_json_load((struct hk_bytes){p, n}, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    free(p);
    if (!json_is_object(v)) {
        if (v == NULL)
            tool_warn(source, "not JSON: %s, line %d", where.text, where.line);
        else
            tool_warn(source, "not a JSON object of keys");
        json_decref(v);
        return TOOL_TROUBLE;
    }
    int status = import_keys(j, v, source);
    json_decref(v);
    return status;
}

/* ---- the program ---- */

typedef int read_fn(const struct hk_file *f, const struct job *j);
typedef int edit_fn(const struct job *j);

static const struct command {
    const char *name;
    read_fn *read; /* one of the two */
    edit_fn *edit;
    int least, most;  /* operands behind the file */
    unsigned options; /* that it takes, a bit each */
    const char *operands;
} commands[] = {
    {"list", list_metadata, NULL, 0, 0, 1 << OPT_FULL | 1 << OPT_TABLE | 1 << OPT_TYPED, "FILE"},
    {"get", get_key, NULL, 1, 1, 1 << OPT_JSON | 1 << OPT_TYPED, "FILE KEY"},
    {"set", NULL, set_key, 1, 2, 1 << OPT_TYPE | 1 << OPT_FROM_FILE | 1 << OPT_NO_WAIT,
     "FILE KEY VALUE"},
    {"delete", NULL, delete_keys, 1, INT32_MAX, 1 << OPT_NO_WAIT, "FILE KEY..."},
    {"import", NULL, import_metadata, 0, 1, 1 << OPT_NO_WAIT, "FILE [JSON]"},
    {"export", export_metadata, NULL, 0, 0, 0, "FILE"},
};

static const struct command *find_command(const struct tool_args *a)
{
    if (a->operand_count == 0)
        tool_usage("need a command: list, get, set, delete, import or export");
    struct tool_nearest s;
    tool_nearest_begin(&s, hk_bytes_of(a->operands[0]));
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, a->operands[0]) == 0)
            return &commands[i];
        tool_nearest_try(&s, hk_bytes_of(commands[i].name));
    }
    if (access(a->operands[0], F_OK) == 0)
        tool_usage("need a command before %s: list, get, set, delete, import or export",
                   a->operands[0]);
    tool_usage("no command %s%s", a->operands[0], tool_nearest_hint(&s, ""));
}

static enum meta_type parse_meta_type_name(const char *value)
{
    const char *names[META_TYPES - META_STRING];
    if (meta_type_of_name(value) != META_NONE)
        return meta_type_of_name(value);
    for (unsigned i = META_STRING; i < META_TYPES; i++)
        names[i - META_STRING] = meta_type_name((enum meta_type)i);
    return META_STRING + (enum meta_type)tool_choice(value, names, META_TYPES - META_STRING);
}

static void check_command_use(const struct command *c, const struct job *j, unsigned given)
{
    for (size_t o = 0; o < tool.option_count; o++)
        if ((given & ~c->options) >> o & 1)
            tool_usage("--%s is not for %s", options[o].name, c->name);
    if (j->path == NULL || j->count < c->least || j->count > c->most)
        tool_usage("%s takes %s", c->name, c->operands);
    if (c->edit != NULL)
        tool_check_in_place(j->path);
}

static int run_command(const struct command *c, const struct job *j)
{
    if (c->edit != NULL)
        return c->edit(j);
    struct hk_file *f;
    struct hk_error err;
    if (tool_open(&f, j->path, &err) != HK_OK)
        return tool_error(j->path, &err);
    int status = c->read(f, j);
    hk_close(&f);
    return status;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    struct tool_args args;
    unsigned given = 0;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0; given |= 1u << o) {
        if (o == OPT_FULL)
            j.full = true;
        else if (o == OPT_JSON)
            j.json = true;
        else if (o == OPT_NO_WAIT)
            j.no_wait = true;
        else if (o == OPT_TYPED)
            j.typed = true;
        else if (o == OPT_TABLE)
            j.table = true;
        else if (o == OPT_FROM_FILE)
            j.from_file = value;
        else
            j.type = parse_meta_type_name(value);
    }
    const struct command *c = find_command(&args);
    j.path = args.operand_count > 1 ? args.operands[1] : NULL;
    j.words = args.operands + 2;
    j.count = args.operand_count > 2 ? args.operand_count - 2 : 0;
    check_command_use(c, &j, given);
    return tool_end(run_command(c, &j));
}
