/* append_payload.c: what a record is to carry: read, checked for its type, and an adapter brought
 * into one form and checked against the model that it is for. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/hkmodel.h"
#include "tools/append.h"

/* ---- plain files ---- */

/* A pipe's end is not known before it is there, and the size of a payload comes first. */
static enum hk_status open_plain_payload(int *out, const char *path, struct hk_error *err)
{
    struct tool_input in;
    struct stat st;
    enum hk_status status = tool_input(&in, path, TOOL_NEED_BYTES, err);
    if (status != HK_OK)
        return status;
    const int fd =
        in.fd < 0 ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : fcntl(in.fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0 || fstat(fd, &st) != 0)
        status = hk_fail_sys(err, errno, "cannot open");
    else if (!S_ISREG(st.st_mode))
        status = hk_fail_sys(err, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "cannot read");
    if (status == HK_OK)
        *out = fd;
    else if (fd >= 0)
        close(fd);
    return status;
}

/* ---- adapters ---- */

struct taking {
    const char *path, *file;
    struct hk_file *base;
    bool strict;
};

/* The .hk that is appended to; a failure is told of it and not of the adapter. */
static enum hk_status open_adapter_base(struct taking *t, struct hk_error *err)
{
    struct hk_error why;
    enum hk_status st = hk_open_set(&t->base, t->file, &why);
    if (st != HK_OK)
        hk_fail(err, st, why.offset, "for %.128s: %s", t->file, why.text);
    return st;
}

/* Say, or with --strict fail with, WHY it cannot be applied. */
static enum hk_status warn_or_refuse(const struct taking *t, enum hk_status st, const char *what,
                                     const char *why, struct hk_error *err)
{
    if (t->strict)
        return hk_fail(err, st, HK_NO_OFFSET, "%s: %s", what, why);
    tool_note(t->path, "stored, but %s: %s", what, why);
    return HK_OK;
}

/* Read the payload in FD as it will be read when it is used. */
static enum hk_status check_adapter_applies(const struct taking *t, int fd, struct hk_error *err)
{
    struct hk_adapter *a = NULL;
    struct hk_file *payload = NULL;
    struct hk_error why;
    enum hk_status st = hk_open_fd(&payload, fd, &why);
    if (st == HK_OK)
        st = hk_adapter_read(&a, payload, t->base, &why);
    hk_adapter_free(&a);
    hk_close(&payload);
    if (st == HK_E_IO || st == HK_E_NOMEM) {
        *err = why;
        return st;
    }
    return st == HK_OK ? HK_OK
                       : warn_or_refuse(t, st, "it cannot be applied to this model", why.text, err);
}

/* What is at PATH in the form of hk(5), where it is an adapter that is KNOWN. */
static enum hk_status write_adapter_payload(const struct taking *t, const char *path, int *fd,
                                            bool *known, struct hk_error *err)
{
    struct hk_out *out;
    struct hk_adapter_found found = {0};
    int copy = -1;
    enum hk_status st = tool_temporary(&copy, err);
    if (st == HK_OK && (st = hk_out_fd(&out, copy, err)) == HK_OK) {
        st = hk_adapter_payload(path, t->base, out, &found, err);
        if (st == HK_OK)
            st = hk_out_commit(&out, err);
        else
            hk_out_discard(&out);
    }
    *known = found.known;
    if (st == HK_OK && !found.known && found.note[0] != '\0') /* a directory is none either */
        st = warn_or_refuse(t, HK_E_UNSUPPORTED, "it is not an adapter that hk knows", found.note,
                            err);
    else if (st == HK_OK && found.known)
        st = check_adapter_applies(t, copy, err);
    if (st == HK_OK && found.known && found.note[0] != '\0')
        tool_note(t->path, "%s", found.note);
    if (st == HK_OK && found.known)
        *fd = copy;
    else if (copy >= 0)
        close(copy);
    return st;
}

/* A stream has to be read to its end before it is known what it is; a directory has no bytes. */
static enum hk_status open_adapter_payload(int *fd, const char *path, const char *file, bool strict,
                                           struct hk_error *err)
{
    struct taking t = {.path = path, .file = file, .strict = strict};
    struct tool_input in;
    bool known = false;
    enum hk_status st = tool_input(&in, path, TOOL_NEED_BYTES, err);
    if (st == HK_OK)
        st = open_adapter_base(&t, err);
    if (st == HK_OK)
        st = write_adapter_payload(&t, in.path, fd, &known, err);
    hk_close(&t.base);
    return st == HK_OK && !known ? open_plain_payload(fd, path, err) : st;
}

/* ---- payloads ---- */

static enum hk_status check_json_payload(int fd, struct hk_error *err)
{
    json_error_t why;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return hk_fail_sys(err, errno, "cannot read");
    void *map = NULL;
    if (st.st_size > 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return hk_fail_sys(err, errno, "cannot read");
    json_t *v =
        tool_json_load((struct hk_bytes){map, (size_t)st.st_size}, JSON_REJECT_DUPLICATES, &why);
    if (st.st_size > 0)
        munmap(map, (size_t)st.st_size);
    if (v == NULL)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "not a JSON object or array: %s, line %d",
                       why.text, why.line);
    json_decref(v);
    return HK_OK;
}

static enum hk_status check_safetensors_payload(int fd, struct hk_error *err)
{
    struct hk_file *f;
    enum hk_status status = hk_open_fd(&f, fd, err);
    if (status != HK_OK)
        return status;
    if (hk_file_format(f) != HK_FORMAT_SAFETENSORS)
        status = hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "is %s, not safetensors",
                         hk_format_name(hk_file_format(f)));
    hk_close(&f);
    return status;
}

static enum hk_status check_payload_type(enum hk_record_type type, int fd, struct hk_error *err)
{
    switch (type) {
    case HK_RECORD_DELTA_PATCH:
    case HK_RECORD_NEW_LAYER:
        return check_safetensors_payload(fd, err);
    case HK_RECORD_CODE_EVAL:
    case HK_RECORD_TOPOLOGY_HEAD:
        return check_json_payload(fd, err);
    default:
        return HK_OK;
    }
}

enum hk_status append_payload(struct payload *out, enum hk_record_type type, const char *path,
                              const char *file, bool strict, struct hk_error *err)
{
    struct stat st;
    int fd = -1;
    enum hk_status status = type == HK_RECORD_LORA_ADAPTER
                                ? open_adapter_payload(&fd, path, file, strict, err)
                                : open_plain_payload(&fd, path, err);
    if (status == HK_OK)
        status = check_payload_type(type, fd, err);
    if (status == HK_OK && fstat(fd, &st) != 0)
        status = hk_fail_sys(err, errno, "cannot read");
    if (status == HK_OK)
        *out = (struct payload){fd, (uint64_t)st.st_size};
    else if (fd >= 0)
        close(fd);
    return status;
}
