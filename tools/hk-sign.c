/* hk-sign: a signature over base, metadata and history of a .hk, in a file of its own. */
#include <stdlib.h>
#include <string.h>

#include "tools/lib/signature.h"
#include "tools/lib/threads.h"

enum { OPT_FORCE, OPT_KEY, OPT_OUTPUT, OPT_THREADS };

static const struct tool_option options[] = {
    [OPT_FORCE] = TOOL_OPTION_FORCE,
    [OPT_KEY] = {"key", 'k', "KEY", "sign with the Ed25519 private key in file KEY (PEM)"},
    [OPT_OUTPUT] = {"output", 'o', "OUT", "write the signature to OUT (default: FILE.sig)"},
    [OPT_THREADS] = TOOL_OPTION_THREADS,
};

static const struct tool tool = {
    .name = "hk-sign",
    .operands = "--key KEY FILE",
    .about = "Sign the base, the metadata and the history of a .hk; hk-verify checks signatures.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct job {
    const char *file, *key, *out;
    unsigned threads;
    bool force;
};

static enum hk_status digest_signed_model(const struct job *j, struct hk_digests *out,
                                          struct hk_error *err)
{
    struct hk_loop loop;
    enum hk_status st = tool_loop_new(&loop, j->threads, err);
    if (st != HK_OK)
        return st;
    st = signature_digests(j->file, &loop, out, err);
    tool_loop_free(&loop);
    return st;
}

static enum hk_status make_signature(const struct job *j, struct signature *s, const char **about,
                                     struct hk_error *err)
{
    struct hk_bytes pem;
    *about = j->key;
    enum hk_status status = signature_key(&pem, j->key, err);
    if (status != HK_OK)
        return status;
    *about = j->file;
    status = digest_signed_model(j, &s->digests, err);
    if (status == HK_OK) {
        *about = j->key;
        status = hk_sign(&s->digests, pem, s->bytes, err);
    }
    free((void *)(uintptr_t)pem.p);
    return status;
}

static enum hk_status write_signature(const struct job *j, const struct signature *s,
                                      const char *path, struct hk_error *err)
{
    struct hk_out *out;
    enum hk_status status = tool_create(&out, path, j->file, j->force, err);
    if (status != HK_OK)
        return status;
    json_t *v = signature_json(s);
    char *text = json_dumps(v, JSON_INDENT(2));
    json_decref(v);
    if (text == NULL)
        tool_nomem();
    status = hk_out_write(out, text, strlen(text), err);
    if (status == HK_OK)
        status = hk_out_write(out, "\n", 1, err);
    free(text);
    if (status == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return status;
}

static int sign_model(const struct job *j)
{
    struct hk_error err;
    struct signature s;
    const char *about;
    char *path = NULL;
    if (make_signature(j, &s, &about, &err) != HK_OK)
        return tool_error(about, &err);
    if (j->out == NULL && signature_beside(&path, j->file, &err) != HK_OK)
        return tool_error(j->file, &err);
    about = j->out != NULL ? j->out : path;
    int status = TOOL_OK;
    if (write_signature(j, &s, about, &err) != HK_OK)
        status = tool_error(tool_output_name(about), &err);
    free(path);
    return status;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;) {
        if (o == OPT_FORCE)
            j.force = true;
        else if (o == OPT_THREADS)
            j.threads = tool_threads_option(value);
        else
            *(o == OPT_KEY ? &j.key : &j.out) = value;
    }
    tool_check_operands(&args, "FILE");
    if (j.key == NULL)
        tool_usage("need --key: openssl genpkey -algorithm ed25519 makes a key");
    j.file = args.operands[0];
    tool_use_input("FILE", j.file);
    tool_use_input("--key", j.key);
    if (j.out == NULL && tool_is_standard_input(j.file))
        tool_usage("--output is needed: standard input has no name to put the signature beside");
    return tool_end(sign_model(&j));
}
