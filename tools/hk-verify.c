/* hk-verify: check every rule of the format; each fault to standard error, a JSON report per file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/signature.h"
#include "tools/lib/threads.h"

enum { OPT_KEY, OPT_PAYLOAD, OPT_SIGNATURE, OPT_STRICT, OPT_TEXT, OPT_THREADS };

static const struct tool_option options[] = {
    [OPT_KEY] = {"key", 'k', "KEY", "check the signature with the Ed25519 public key in file KEY"},
    [OPT_PAYLOAD] = {"payload", 0, NULL, "also check all payloads: values, digests"},
    [OPT_SIGNATURE] = {"signature", 0, "SIGNATURE",
                       "read the signature from SIGNATURE (default: FILE.sig)"},
    [OPT_STRICT] = {"strict", 0, NULL, "treat warnings as errors"},
    [OPT_TEXT] = {"text", 0, NULL, "print one line a file for people, not JSON"},
    [OPT_THREADS] = TOOL_OPTION_THREADS,
};

static const struct tool tool = {
    .name = "hk-verify",
    .operands = "FILE...",
    .about = "Check model files against every rule of the format and list what is wrong.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

/* A hostile file can have a fault in every byte; beyond this many of a kind they are counted, not
 * listed. */
enum { LISTED = 10000 };

struct check {
    const char *file;
    bool payload, strict, text;
    json_t *errors, *warnings;
    const char *key, *signature; /* files; NULL without */
    json_t *signed_by;           /* what the signature says, where there is a key */
    const struct hk_loop *loop;
};

static json_t *fault_json(const struct hk_fault *fault)
{
    static const char *const subjects[] = {
        [HK_SUBJECT_TENSOR] = "tensor", [HK_SUBJECT_KEY] = "key", [HK_SUBJECT_RECORD] = "record"};
    json_t *v = json_object();
    tool_json_set(v, "code", tool_json_text(fault->code));
    tool_json_set(v, "message", tool_json_text(fault->text));
    tool_json_set(v, "offset",
                  fault->offset == HK_NO_OFFSET ? json_null() : tool_json_uint(fault->offset));
    if (fault->subject != HK_SUBJECT_FILE) {
        tool_json_set(v, subjects[fault->subject], tool_json_bytes(fault->name));
        tool_json_set(v, "index", tool_json_uint(fault->index));
    }
    if (fault->file != NULL)
        tool_json_set(v, "file", tool_json_text(fault->file));
    return v;
}

static void report_fault(void *arg, const struct hk_fault *fault)
{
    struct check *c = arg;
    json_t *list = fault->severity == HK_ERROR ? c->errors : c->warnings;
    if (json_array_size(list) >= LISTED)
        return;
    tool_json_push(list, fault_json(fault));
    bool wrong = fault->severity == HK_ERROR || c->strict;
    struct hk_error err = {.status = HK_E_FORMAT, .offset = fault->offset};
    const char *file = fault->file != NULL ? fault->file : "";
    const bool named = *file == '\0' || strncmp(fault->text, file, strlen(file)) == 0;
    snprintf(err.text, sizeof err.text, "%s%s%s%s", wrong ? "" : "warning: ", named ? "" : file,
             named ? "" : ": ", fault->text);
    if (wrong || !tool_quiet())
        tool_error(c->file, &err);
}

static const char *lineage_word(const struct hk_verify_report *r)
{
    return r->lineage == HK_CHAIN_NONE ? "none" : r->lineage == HK_CHAIN_OK ? "ok" : "broken";
}

static json_t *checked_json(const struct hk_verify_report *r)
{
    static const char *const bases[] = {[HK_BASE_UNBOUND] = "unbound",
                                        [HK_BASE_UNCHECKED] = "unchecked",
                                        [HK_BASE_BOUND] = "bound",
                                        [HK_BASE_CHANGED] = "changed"};
    static const char *const seals[] = {[HK_SEAL_NONE] = "none",
                                        [HK_SEAL_UNCHECKED] = "unchecked",
                                        [HK_SEAL_OK] = "ok",
                                        [HK_SEAL_UNKNOWN] = "unknown"};
    json_t *v = json_object();
    tool_json_set(v, "size", tool_json_uint(r->size));
    tool_json_set(v, "tensors", tool_json_uint(r->tensors));
    tool_json_set(v, "keys", tool_json_uint(r->keys));
    tool_json_set(v, "records", tool_json_uint(r->records));
    tool_json_set(v, "payload", json_boolean(r->payload));
    tool_json_set(v, "base", json_string(bases[r->base]));
    tool_json_set(v, "seal", json_string(seals[r->seal]));
    return v;
}

static bool is_valid_report(const struct check *c, const struct hk_verify_report *r)
{
    return r->errors == 0 && !(c->strict && r->warnings > 0);
}

static void print_verify_report(const struct check *c, const struct hk_verify_report *r)
{
    if (c->text) {
        tool_escape(stdout, (struct hk_bytes){(const uint8_t *)c->file, strlen(c->file)});
        printf(": %s, %llu errors, %llu warnings, lineage %s\n",
               is_valid_report(c, r) ? "valid" : "invalid", (unsigned long long)r->errors,
               (unsigned long long)r->warnings, lineage_word(r));
        return;
    }
    json_t *v = json_object();
    tool_json_set(v, "file", tool_json_text(c->file));
    tool_json_set(v, "valid", json_boolean(is_valid_report(c, r)));
    tool_json_set(v, "errors", json_incref(c->errors));
    tool_json_set(v, "warnings", json_incref(c->warnings));
    tool_json_set(v, "lineage", json_string(lineage_word(r)));
    if (c->signed_by != NULL)
        tool_json_set(v, "signature", json_incref(c->signed_by));
    tool_json_set(v, "checked", checked_json(r));
    if (r->errors > json_array_size(c->errors) || r->warnings > json_array_size(c->warnings)) {
        tool_json_set(v, "truncated", json_true());
        tool_json_set(v, "error_count", tool_json_uint(r->errors));
        tool_json_set(v, "warning_count", tool_json_uint(r->warnings));
    }
    tool_json_print(v, stdout);
}

/* Which of the three the signature was not made for. A digest that is as signed says nothing where
 * the signature itself is not the key's. */
static json_t *changed_digests_json(const struct hk_digests *is, const struct hk_digests *was)
{
    json_t *v = json_array();
    if (memcmp(is->base, was->base, HK_SHA256_SIZE) != 0)
        tool_json_push(v, json_string("base"));
    if (memcmp(is->metadata, was->metadata, HK_SHA256_SIZE) != 0)
        tool_json_push(v, json_string("metadata"));
    if (memcmp(is->history, was->history, HK_SHA256_SIZE) != 0)
        tool_json_push(v, json_string("history"));
    return v;
}

/* An error of code "signature", as hk_verify() would give it. */
static void report_signature_fault(struct check *c, struct hk_verify_report *r, const char *text)
{
    struct hk_fault fault = {.severity = HK_ERROR, .code = "signature", .offset = HK_NO_OFFSET};
    snprintf(fault.text, sizeof fault.text, "%.200s", text);
    r->errors++;
    report_fault(c, &fault);
}

static void judge_signature(struct check *c, struct hk_verify_report *r,
                            const struct hk_digests *is, const struct signature *s,
                            struct hk_bytes key, struct hk_error *err)
{
    json_t *changed = changed_digests_json(is, &s->digests);
    const bool genuine = hk_sign_check(&s->digests, key, s->bytes, err) == HK_OK;
    c->signed_by = json_object();
    tool_json_set(c->signed_by, "genuine", json_boolean(genuine));
    tool_json_set(c->signed_by, "changed", json_incref(changed));
    if (!genuine)
        report_signature_fault(c, r, err->text);
    for (size_t i = 0; i < json_array_size(changed); i++) {
        char text[64];
        snprintf(text, sizeof text, "the %s is not what was signed",
                 json_string_value(json_array_get(changed, i)));
        report_signature_fault(c, r, text);
    }
    json_decref(changed);
}

/* The check itself failed, of file ABOUT. */
static void report_unchecked_signature(struct check *c, struct hk_verify_report *r,
                                       const char *about, const struct hk_error *err)
{
    char text[200];
    snprintf(text, sizeof text, "%.60s: %.130s", about, err->text);
    report_signature_fault(c, r, text);
}

/* What signature and key say of the file goes into the report. *ABOUT: the file that a failure lies
 * in. */
static enum hk_status check_signature(struct check *c, const char *path, struct hk_verify_report *r,
                                      const char **about, struct hk_error *err)
{
    struct signature s;
    struct hk_bytes key;
    struct hk_digests digests;
    *about = c->signature;
    enum hk_status status = signature_read(&s, c->signature, err);
    if (status != HK_OK)
        return status;
    *about = c->key;
    status = signature_key(&key, c->key, err);
    if (status != HK_OK)
        return status;
    if (hk_sign_check(&s.digests, key, s.bytes, err) == HK_E_FORMAT)
        status = HK_E_FORMAT;
    *about = c->file;
    if (status == HK_E_FORMAT)
        *about = c->key;
    else
        status = signature_digests(path, c->loop, &digests, err);
    if (status == HK_OK)
        judge_signature(c, r, &digests, &s, key, err);
    free((void *)(uintptr_t)key.p);
    return status;
}

/* The signature beside the file, unless one was named. A signature or a key that cannot be read is
 * trouble; one that is none is a fault: no file is valid by it. */
static int verify_signature(struct check *c, const char *path, struct hk_verify_report *r)
{
    struct hk_error err;
    const char *about, *named = c->signature;
    char *beside = NULL;
    if (c->key == NULL)
        return TOOL_OK;
    int status = TOOL_OK;
    enum hk_status failed = HK_OK;
    about = c->file;
    if (named == NULL)
        failed = signature_beside(&beside, c->file, &err);
    c->signature = named != NULL ? named : beside;
    if (failed == HK_OK)
        failed = check_signature(c, path, r, &about, &err);
    if (failed == HK_E_IO && err.sys == ENOENT && named == NULL && about == beside)
        failed = hk_fail(&err, HK_E_IO, HK_NO_OFFSET, "is not there; --signature names another");
    if (failed == HK_E_IO || failed == HK_E_NOMEM)
        status = tool_error(about, &err);
    else if (failed != HK_OK)
        report_unchecked_signature(c, r, about, &err);
    c->signature = named;
    free(beside);
    return status;
}

static int verify_model_file(struct check *c)
{
    struct hk_verify_report r;
    struct hk_error err;
    struct tool_input in;
    enum hk_status status = tool_input(&in, c->file, TOOL_NEED_MODEL, &err);
    const struct hk_work work = signature_work(c->loop);
    if (status == HK_OK)
        status = hk_verify_set(in.path, c->payload ? HK_VERIFY_PAYLOAD : 0, &work, report_fault, c,
                               &r, &err);
    if (status != HK_OK)
        return tool_error(c->file, &err);
    const int trouble = verify_signature(c, in.path, &r);
    if (trouble != TOOL_OK)
        return trouble;
    print_verify_report(c, &r);
    struct hk_file *f = NULL;
    if (is_valid_report(c, &r) && hk_open_set(&f, in.path, NULL) == HK_OK)
        tool_tell_defaults(c->file, f);
    hk_close(&f);
    return is_valid_report(c, &r) ? TOOL_OK : TOOL_CONTENT;
}

static int verify_models(struct check *c, const struct tool_args *args, unsigned threads)
{
    struct hk_loop loop;
    struct hk_error err;
    int status = TOOL_OK;
    if (tool_loop_new(&loop, threads, &err) != HK_OK)
        return tool_error(NULL, &err);
    c->loop = &loop;
    for (int i = 0; i < args->operand_count && !ferror(stdout); i++) {
        c->file = args->operands[i];
        c->errors = json_array();
        c->warnings = json_array();
        status = tool_worse(status, verify_model_file(c));
        json_decref(c->errors);
        json_decref(c->warnings);
        json_decref(c->signed_by);
        c->signed_by = NULL;
    }
    tool_loop_free(&loop);
    return status;
}

int main(int argc, char **argv)
{
    struct check c = {0};
    struct tool_args args;
    const char *value;
    unsigned threads = 0;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;) {
        bool *switches[] = {
            [OPT_PAYLOAD] = &c.payload, [OPT_STRICT] = &c.strict, [OPT_TEXT] = &c.text};
        if (o == OPT_KEY)
            c.key = value;
        else if (o == OPT_SIGNATURE)
            c.signature = value;
        else if (o == OPT_THREADS)
            threads = tool_threads_option(value);
        else
            *switches[o] = true;
    }
    if (args.operand_count == 0)
        tool_usage("need a FILE");
    if (c.signature != NULL && (c.key == NULL || args.operand_count > 1))
        tool_usage("--signature needs --key and exactly one FILE");
    for (int i = 0; i < args.operand_count; i++)
        tool_use_input("FILE", args.operands[i]);
    if (c.key != NULL)
        tool_use_input("--key", c.key);
    if (c.signature != NULL)
        tool_use_input("--signature", c.signature);
    return tool_end(verify_models(&c, &args, threads));
}
