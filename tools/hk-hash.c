/* hk-hash: SHA-256 of a model's files, of its base and of each tensor; and whether those of a list
 * still hold. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/hash.h"
#include "tools/lib/threads.h"

enum { OPT_BASE, OPT_CHECK, OPT_FILE, OPT_JSON, OPT_STATUS, OPT_TENSORS, OPT_THREADS };

static const struct tool_option options[] = {
    [OPT_BASE] = {"base", 0, NULL, "print the base digest"},
    [OPT_CHECK] = {"check", 'c', "LIST", "check the digests in LIST"},
    [OPT_FILE] = {"file", 0, NULL, "print the digest of the file, or of each file of a set"},
    [OPT_JSON] = TOOL_OPTION_JSON,
    [OPT_STATUS] = {"status", 0, NULL, "with --check, print nothing"},
    [OPT_TENSORS] = {"tensors", 0, NULL, "print the digest of each tensor"},
    [OPT_THREADS] = TOOL_OPTION_THREADS,
};

static const struct tool tool = {
    .name = "hk-hash",
    .operands = "FILE... | --check LIST",
    .about = "Print SHA-256 digests of model files, their tensors and their base, or check them.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct job {
    bool file, base, tensors, json;
    unsigned threads;
    struct hash_checking check;
};

struct made { /* digests of one model */
    const char *name;
    const struct hk_file *f;
    struct hk_hashes hashes;
    uint8_t base[HK_SHA256_SIZE];
};

/* ---- output ---- */

/* Path of file PART of the model NAME: in that directory, beside that file, or the file itself. The
 * caller's to free. */
static char *part_file_path(const char *name, const struct hk_file *f, size_t part)
{
    struct stat st;
    const char *own = hk_file_part_name(f, part), *slash = strrchr(name, '/');
    char *path;
    int n;
    if (own == NULL)
        n = asprintf(&path, "%s", name);
    else if (stat(name, &st) == 0 && S_ISDIR(st.st_mode))
        n = asprintf(&path, "%s%s%s", name, slash != NULL && slash[1] == '\0' ? "" : "/", own);
    else
        n = asprintf(&path, "%.*s%s", slash != NULL ? (int)(slash + 1 - name) : 0, name, own);
    if (n < 0)
        tool_nomem();
    return path;
}

static void print_hash_lines(const struct made *m)
{
    static const struct hk_bytes none = {0};
    for (size_t i = 0; m->hashes.files != NULL && i < hk_file_parts(m->f); i++) {
        char *path = part_file_path(m->name, m->f, i);
        hash_print_line(m->hashes.files[i], path, HASH_FILE, none);
        free(path);
    }
    if (m->hashes.base != NULL)
        hash_print_line(m->base, m->name, HASH_BASE, none);
    for (size_t i = 0; m->hashes.tensors != NULL && i < hk_tensor_count(m->f); i++)
        hash_print_line(m->hashes.tensors[i], m->name, HASH_TENSOR, hk_tensor_at(m->f, i)->name);
}

static json_t *digest_json(const uint8_t digest[HK_SHA256_SIZE])
{
    return tool_json_hex(digest, HK_SHA256_SIZE);
}

static json_t *hashed_part_json(const struct made *m, size_t i)
{
    json_t *v = json_object();
    char *path = part_file_path(m->name, m->f, i);
    tool_json_set(v, "file", tool_json_text(path));
    tool_json_set(v, "sha256", digest_json(m->hashes.files[i]));
    free(path);
    return v;
}

static json_t *hashed_tensor_json(const struct made *m, size_t i)
{
    const struct hk_tensor *t = hk_tensor_at(m->f, i);
    json_t *v = json_object();
    tool_json_set(v, "name", tool_json_bytes(t->name));
    tool_json_set(v, "type", tool_json_text(hk_type_info(t->type)->name));
    tool_json_set(v, "size", tool_json_uint(t->data_size + t->scale_size + t->residual_size));
    tool_json_set(v, "sha256", digest_json(m->hashes.tensors[i]));
    return v;
}

static void put_file_hashes(const struct made *m, struct tool_json_out *o)
{
    if (hk_file_parts(m->f) == 1) {
        tool_json_put(o, "sha256", digest_json(m->hashes.files[0]));
        return;
    }
    tool_json_put(o, "sha256", json_null());
    tool_json_enter(o, "parts", '[');
    for (size_t i = 0; i < hk_file_parts(m->f); i++)
        tool_json_put(o, NULL, hashed_part_json(m, i));
    tool_json_leave(o, ']');
}

static void print_hash_json(const struct made *m)
{
    struct tool_json_out o;
    tool_json_begin(&o, stdout);
    tool_json_put(&o, "file", tool_json_text(m->name));
    if (m->hashes.files != NULL)
        put_file_hashes(m, &o);
    if (m->hashes.base != NULL)
        tool_json_put(&o, "base", digest_json(m->base));
    if (m->hashes.tensors != NULL) {
        tool_json_enter(&o, "tensors", '[');
        for (size_t i = 0; i < hk_tensor_count(m->f) && !ferror(stdout); i++)
            tool_json_put(&o, NULL, hashed_tensor_json(m, i));
        tool_json_leave(&o, ']');
    }
    tool_json_end(&o);
}

/* ---- the program ---- */

static void *alloc_digests(size_t count)
{
    void *p = calloc(count + 1, HK_SHA256_SIZE);
    if (p == NULL)
        tool_nomem();
    return p;
}

static int hash_opened_model(const struct job *j, const struct hk_loop *loop, struct made *m)
{
    struct hk_error err;
    int status = TOOL_OK;
    const struct hk_work work = {
        .size = sizeof work, .loop = loop, .progress = tool_progress_hashing};
    m->hashes = (struct hk_hashes){.size = sizeof(struct hk_hashes), .work = &work};
    if (j->file)
        m->hashes.files = alloc_digests(hk_file_parts(m->f));
    if (j->base)
        m->hashes.base = m->base;
    if (j->tensors)
        m->hashes.tensors = alloc_digests(hk_tensor_count(m->f));
    if (hk_hash(m->f, &m->hashes, &err) != HK_OK)
        status = tool_error(m->name, &err);
    else if (j->json)
        print_hash_json(m);
    else
        print_hash_lines(m);
    free(m->hashes.files);
    free(m->hashes.tensors);
    return status;
}

static int hash_model(const struct job *j, const struct hk_loop *loop, const char *path)
{
    struct hk_file *f;
    struct hk_error err;
    const unsigned keep = HK_KEEP_RECORDS | (j->file ? HK_KEEP_FILE : 0);
    if (tool_open_kept(&f, path, keep, &err) != HK_OK)
        return tool_error(path, &err);
    struct made m = {.name = path, .f = f};
    int status = hash_opened_model(j, loop, &m);
    hk_close(&f);
    return status;
}

static int hash_or_check(struct job *j, const struct tool_args *args)
{
    struct hk_loop loop;
    struct hk_error err;
    int status = TOOL_OK;
    if (tool_loop_new(&loop, j->threads, &err) != HK_OK)
        return tool_error(NULL, &err);
    j->check.loop = &loop;
    if (j->check.list != NULL)
        status = hash_check(&j->check);
    for (int i = 0; i < args->operand_count && !ferror(stdout); i++)
        status = tool_worse(status, hash_model(j, &loop, args->operands[i]));
    tool_loop_free(&loop);
    return status;
}

static void check_hash_options(struct job *j, const struct tool_args *args)
{
    bool checking = j->check.list != NULL, chosen = j->file || j->base || j->tensors;
    if (checking && (chosen || j->json))
        tool_usage("--check can be used with --quiet, --status and --threads only");
    if (checking && args->operand_count > 0)
        tool_usage("--check takes the files from LIST: no FILE can be given");
    if (!checking && j->check.status)
        tool_usage("--status needs --check");
    if (!checking && args->operand_count == 0)
        tool_usage("need a FILE");
    if (!chosen)
        j->file = j->base = j->tensors = true;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;) {
        bool *switches[] = {[OPT_BASE] = &j.base,
                            [OPT_FILE] = &j.file,
                            [OPT_JSON] = &j.json,
                            [OPT_STATUS] = &j.check.status,
                            [OPT_TENSORS] = &j.tensors};
        if (o == OPT_CHECK)
            j.check.list = value;
        else if (o == OPT_THREADS)
            j.threads = tool_threads_option(value);
        else
            *switches[o] = true;
    }
    j.check.quiet = tool_quiet();
    check_hash_options(&j, &args);
    for (int i = 0; i < args.operand_count; i++)
        tool_use_input("FILE", args.operands[i]);
    return tool_end(hash_or_check(&j, &args));
}
