/* Adapters that are appended: brought into one form, and checked against the model that they are
 * for. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/hkmodel.h"
#include "tools/append.h"

struct taking {
    const char *path, *file;
    struct hk_file *base;
    bool strict;
};

/* The .hk that is appended to; a failure is told of it and not of the adapter. */
static enum hk_status open_base(struct taking *t, struct hk_error *err)
{
    struct hk_error why;
    enum hk_status st = hk_open_set(&t->base, t->file, &why);
    if (st != HK_OK)
        hk_fail(err, st, why.offset, "for %.128s: %s", t->file, why.text);
    return st;
}

/* Say, or with --strict fail with, WHY it cannot be applied. */
static enum hk_status cannot(const struct taking *t, enum hk_status st, const char *what,
                             const char *why, struct hk_error *err)
{
    if (t->strict)
        return hk_fail(err, st, HK_NO_OFFSET, "%s: %s", what, why);
    tool_warn(t->path, "stored, but %s: %s", what, why);
    return HK_OK;
}

/* Read the payload in FD as it will be read when it is used. */
static enum hk_status check_applies(const struct taking *t, int fd, struct hk_error *err)
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
    return st == HK_OK ? HK_OK : cannot(t, st, "it cannot be applied to this model", why.text, err);
}

/* What is at PATH in the form of hk(5), where it is an adapter that is KNOWN. */
static enum hk_status normalise(const struct taking *t, const char *path, int *fd, bool *known,
                                struct hk_error *err)
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
        st = cannot(t, HK_E_UNSUPPORTED, "it is no adapter that hk knows", found.note, err);
    else if (st == HK_OK && found.known)
        st = check_applies(t, copy, err);
    if (st == HK_OK && found.known && found.note[0] != '\0')
        tool_warn(t->path, "%s", found.note);
    if (st == HK_OK && found.known)
        *fd = copy;
    else if (copy >= 0)
        close(copy);
    return st;
}

/* A stream has to be read to its end before it is known what it is; a directory has no bytes. */
enum hk_status append_open_adapter(int *fd, const char *path, const char *file, bool strict,
                                   struct hk_error *err)
{
    struct stat status;
    struct taking t = {.path = path, .file = file, .strict = strict};
    char named[32];
    bool known = false;
    int plain = -1;
    const bool stream = strcmp(path, "-") == 0 ||
                        (stat(path, &status) == 0 && (status.st_mode & S_IFMT) == S_IFIFO);
    enum hk_status st = stream ? append_open_plain(&plain, path, err) : HK_OK;
    if (st != HK_OK)
        return st;
    snprintf(named, sizeof named, "/proc/self/fd/%d", plain);
    st = open_base(&t, err);
    if (st == HK_OK)
        st = normalise(&t, stream ? named : path, fd, &known, err);
    hk_close(&t.base);
    if (st == HK_OK && !known && stream)
        *fd = plain;
    else if (plain >= 0)
        close(plain);
    return st == HK_OK && !known && !stream ? append_open_plain(fd, path, err) : st;
}
