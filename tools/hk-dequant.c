/* hk-dequant: tensors as f32: raw, .npy, JSON or text; one tensor, rows of it, or all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/hkmodel.h"
#include "tools/dequant.h"

enum { OPT_ALL, OPT_FORCE, OPT_JSON, OPT_MAX_OUTPUT, OPT_NPY, OPT_OUTPUT, OPT_ROWS, OPT_TEXT };

static const struct tool_option options[] = {
    [OPT_ALL] = {"all", 0, "DIR", "write every tensor to a file in DIR"},
    [OPT_FORCE] = TOOL_OPTION_FORCE,
    [OPT_JSON] = {"json", 0, NULL, "write JSON: name, type, shape and data"},
    [OPT_MAX_OUTPUT] = TOOL_OPTION_MAX_OUTPUT,
    [OPT_NPY] = {"npy", 0, NULL, "write a .npy file, as NumPy loads it"},
    [OPT_OUTPUT] = TOOL_OPTION_OUTPUT,
    [OPT_ROWS] = {"rows", 0, "A:B", "only rows A up to but not including B"},
    [OPT_TEXT] = {"text", 0, NULL, "write decimals, a row on each line"},
};

static const struct tool tool = {
    .name = "hk-dequant",
    .operands = "FILE TENSOR | --all DIR FILE",
    .about = "Decode a tensor of a model to little-endian f32.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct job {
    const char *input, *output, *dir;
    enum dequant_form form;
    bool force, rows;
    uint64_t from, to; /* rows, TO not included; UINT64_MAX is the end */
    uint64_t done, all;
    uint64_t max_output,
        work; /* of all tensors so far: bytes written or read, whichever are more */
};

static void count_decoded(void *arg, uint64_t elements)
{
    struct job *j = arg;
    j->done += elements;
    tool_progress("decoding", j->done, j->all);
}

/* ---- one tensor ---- */

/* Which rows of T; HK_E_RANGE where the tensor has not so many. */
static enum hk_status choose_piece_rows(const struct job *j, struct dequant_piece *p,
                                        struct hk_error *err)
{
    uint64_t rows = hk_tensor_rows(p->tensor);
    p->cols = hk_tensor_cols(p->tensor);
    p->rows = rows;
    p->whole = !j->rows;
    if (!j->rows)
        return HK_OK;
    uint64_t to = j->to == UINT64_MAX ? rows : j->to;
    if (j->from > to || to > rows)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "tensor %.*s has %llu row%s: %llu:%llu is out of range",
                       HK_STR(p->tensor->name), (unsigned long long)rows, rows == 1 ? "" : "s",
                       (unsigned long long)j->from, (unsigned long long)to);
    p->first = j->from;
    p->rows = to - j->from;
    return HK_OK;
}

/* Text counts as the values that it is of. */
static enum hk_status check_dequant_size(struct job *j, const struct hk_file *f,
                                         const struct dequant_piece *p, struct hk_error *err)
{
    const struct hk_tensor *t = p->tensor;
    uint64_t values = p->rows * p->cols * sizeof(float), stored = t->data_size;
    if (hk_tensor_resolve(f, t, &t, NULL) == HK_OK)
        stored = t->data_size;
    uint64_t more = values > stored ? values : stored;
    j->work = more < UINT64_MAX - j->work ? j->work + more : UINT64_MAX;
    return hk_check_output(j->work, hk_output_limit(f, j->max_output), err);
}

static bool is_binary_form(enum dequant_form form)
{
    return form == DEQUANT_RAW || form == DEQUANT_NPY;
}

static enum hk_status create_dequant_output(struct hk_out **out, const struct job *j,
                                            const char *path, struct hk_error *err)
{
    if (!is_binary_form(j->form) && tool_is_standard(path))
        return hk_out_fd(out, STDOUT_FILENO, err);
    return tool_create(out, path, j->input, j->force, err);
}

/* Report ERR, which is about the output only where writing failed. */
static int report_dequant(const struct job *j, const char *path, const struct hk_error *err)
{
    bool output = err->status == HK_E_IO || err->status == HK_E_USE;
    return tool_error(output ? tool_output_name(path) : j->input, err);
}

static int dequant_tensor(struct job *j, const struct hk_file *f, const struct hk_tensor *t,
                          const char *path)
{
    struct hk_error err;
    struct hk_decoder *decoder = NULL;
    struct hk_out *out = NULL;
    struct dequant_piece p = {.tensor = t, .progress = count_decoded, .arg = j};
    p.pretty = tool_is_standard(path) && isatty(STDOUT_FILENO);
    if (hk_decoder_new(&decoder, f, t, &err) != HK_OK)
        return tool_error(j->input, &err);
    p.decoder = decoder;
    if (j->dir == NULL)
        j->all = hk_tensor_elems(t);
    enum hk_status status = choose_piece_rows(j, &p, &err);
    if (status == HK_OK)
        status = check_dequant_size(j, f, &p, &err);
    if (status == HK_OK)
        status = create_dequant_output(&out, j, path, &err);
    if (status == HK_OK)
        status = dequant_write(&p, j->form, out, &err);
    if (status == HK_OK)
        status = hk_out_commit(&out, &err);
    hk_out_discard(&out);
    hk_decoder_free(&decoder);
    return status == HK_OK ? TOOL_OK : report_dequant(j, path, &err);
}

static int dequant_named(struct job *j, const struct hk_file *f, const char *name)
{
    const struct hk_tensor *t = hk_tensor_find(f, name);
    if (t != NULL)
        return dequant_tensor(j, f, t, j->output);
    struct tool_nearest s;
    tool_nearest_begin(&s, hk_bytes_of(name));
    for (size_t i = 0; i < hk_tensor_count(f); i++)
        tool_nearest_try(&s, hk_tensor_at(f, i)->name);
    tool_warn(j->input, "no tensor %s%s", name, tool_nearest_hint(&s, ""));
    return TOOL_CONTENT;
}

/* ---- all tensors ---- */

static bool is_file_name_byte(uint8_t c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || c == '_' || c == '-' || (c == '.' && !first);
}

/* DIR/NAME.EXT with every byte of NAME that is not plain as %XX, so that different names give
 * different files and none leaves DIR. What is too long for a file system is cut and gets "~" and
 * the tensor's NUMBER. NULL when out of memory. */
static char *tensor_file_path(const struct job *j, const struct hk_tensor *t, size_t number)
{
    enum { LONGEST = 220 };
    static const char *const extensions[] = {[DEQUANT_RAW] = "f32",
                                             [DEQUANT_NPY] = "npy",
                                             [DEQUANT_JSON] = "json",
                                             [DEQUANT_TEXT] = "txt"};
    char name[LONGEST + 32], *path;
    size_t at = 0, i = 0;
    for (; i < t->name.n && at + 3 <= LONGEST; i++) {
        uint8_t c = t->name.p[i];
        at += (size_t)snprintf(name + at, 4, is_file_name_byte(c, i == 0) ? "%c" : "%%%02X", c);
    }
    if (i < t->name.n)
        snprintf(name + at, sizeof name - at, "~%zu", number);
    if (asprintf(&path, "%s/%s.%s", j->dir, name, extensions[j->form]) < 0)
        return NULL;
    return path;
}

static uint64_t count_all_elements(const struct hk_file *f)
{
    uint64_t all = 0;
    for (size_t i = 0; i < hk_tensor_count(f); i++)
        all += hk_tensor_elems(hk_tensor_at(f, i));
    return all;
}

/* A tensor that cannot be decoded does not keep the others from it; trouble with writing does. */
static int dequant_all(struct job *j, const struct hk_file *f)
{
    if (mkdir(j->dir, 0777) != 0 && errno != EEXIST) {
        tool_warn(j->dir, "cannot create: %s", strerror(errno));
        return TOOL_TROUBLE;
    }
    j->all = count_all_elements(f);
    int status = TOOL_OK;
    for (size_t i = 0; i < hk_tensor_count(f) && status != TOOL_TROUBLE; i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        char *path = tensor_file_path(j, t, i);
        if (path == NULL)
            tool_nomem();
        status = tool_worse(status, dequant_tensor(j, f, t, path));
        free(path);
    }
    return status;
}

/* ---- the program ---- */

static void parse_row_range(struct job *j, const char *value)
{
    char first[24];
    const char *colon = strchr(value, ':');
    if (colon == NULL || colon - value >= (ptrdiff_t)sizeof first)
        tool_refuse_value("not of the form A:B: %s", value);
    snprintf(first, sizeof first, "%.*s", (int)(colon - value), value);
    j->rows = true;
    j->from = first[0] != '\0' ? tool_uint(first, 0, UINT64_MAX - 1) : 0;
    j->to = colon[1] != '\0' ? tool_uint(colon + 1, 0, UINT64_MAX - 1) : UINT64_MAX;
    if (j->from > j->to)
        tool_refuse_value("%s ends before it begins", value);
}

static void set_dequant_form(struct job *j, enum dequant_form form)
{
    if (j->form != DEQUANT_RAW && j->form != form)
        tool_usage("--json, --npy and --text exclude each other");
    j->form = form;
}

static void set_dequant_option(struct job *j, int option, const char *value)
{
    switch (option) {
    case OPT_ALL:
        j->dir = value;
        break;
    case OPT_FORCE:
        j->force = true;
        break;
    case OPT_JSON:
        set_dequant_form(j, DEQUANT_JSON);
        break;
    case OPT_MAX_OUTPUT:
        j->max_output = tool_max_output(value);
        break;
    case OPT_NPY:
        set_dequant_form(j, DEQUANT_NPY);
        break;
    case OPT_OUTPUT:
        j->output = value;
        break;
    case OPT_ROWS:
        parse_row_range(j, value);
        break;
    case OPT_TEXT:
        set_dequant_form(j, DEQUANT_TEXT);
        break;
    }
}

/* Of a file called PATH; raw where the name says nothing. */
static enum dequant_form form_of_path(const char *path)
{
    static const struct {
        const char *extension;
        enum dequant_form form;
    } forms[] = {{".json", DEQUANT_JSON}, {".npy", DEQUANT_NPY}, {".txt", DEQUANT_TEXT}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof forms / sizeof *forms; i++)
        if (strcmp(dot, forms[i].extension) == 0)
            return forms[i].form;
    return DEQUANT_RAW;
}

static int dequant_one(struct job *j, const struct hk_file *f, const char *name)
{
    const enum dequant_form named = form_of_path(j->output);
    if (j->form == DEQUANT_RAW)
        j->form = named;
    const int status = dequant_named(j, f, name);
    if (status == TOOL_OK && named != DEQUANT_RAW && named != j->form)
        tool_note(j->output, "not written as its extension says");
    return status;
}

static void check_dequant_operands(const struct job *j, const struct tool_args *args)
{
    if (j->dir != NULL && args->operand_count == 0)
        tool_usage("need a FILE");
    if (j->dir != NULL && (j->rows || j->output != NULL || args->operand_count > 1))
        tool_usage("--all takes one FILE, and no TENSOR, --rows or --output");
    if (j->dir == NULL)
        tool_check_operands(args, "FILE TENSOR");
}

int main(int argc, char **argv)
{
    struct job j = {0};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        set_dequant_option(&j, o, value);
    check_dequant_operands(&j, &args);
    j.input = args.operands[0];
    j.output = j.output != NULL ? j.output : "-";
    struct hk_file *f;
    struct hk_error err;
    if (tool_open(&f, j.input, &err) != HK_OK)
        return tool_end(tool_error(j.input, &err));
    int status = j.dir != NULL ? dequant_all(&j, f) : dequant_one(&j, f, args.operands[1]);
    hk_close(&f);
    return tool_end(status);
}
