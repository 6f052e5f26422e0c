/* What a record is to carry: read, and checked for its type. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/append.h"

enum { CHUNK = 1 << 18 };

static enum hk_status copy_all(int from, int to, struct hk_error *err)
{
    struct hk_out *out;
    char *buffer = malloc(CHUNK);
    enum hk_status status = buffer == NULL ? hk_fail_nomem(err) : hk_out_fd(&out, to, err);
    if (status != HK_OK) {
        free(buffer);
        return status;
    }
    ssize_t n;
    while (status == HK_OK && (n = read(from, buffer, CHUNK)) != 0) {
        if (n > 0)
            status = hk_out_write(out, buffer, (size_t)n, err);
        else if (errno != EINTR)
            status = hk_fail_sys(err, errno, "cannot read");
    }
    free(buffer);
    if (status == HK_OK)
        return hk_out_commit(&out, err);
    hk_out_discard(&out);
    return status;
}

/* A pipe's end is not known before it is there, and the size of a payload comes first. */
static enum hk_status spool(int from, int *to, struct hk_error *err)
{
    enum hk_status status = tool_temporary(to, err);
    return status == HK_OK ? copy_all(from, *to, err) : status;
}

enum hk_status append_open_plain(int *fd, const char *path, struct hk_error *err)
{
    struct stat st;
    const bool standard = strcmp(path, "-") == 0;
    int from = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (from < 0 || fstat(from, &st) != 0) {
        enum hk_status failed = hk_fail_sys(err, errno, "cannot open");
        if (from >= 0)
            close(from);
        return failed;
    }
    if (S_ISREG(st.st_mode) && lseek(from, 0, SEEK_CUR) == 0) {
        *fd = from;
        return HK_OK;
    }
    int copy = -1;
    enum hk_status status =
        S_ISDIR(st.st_mode) ? hk_fail_sys(err, EISDIR, "cannot read") : spool(from, &copy, err);
    close(from);
    if (status != HK_OK && copy >= 0)
        close(copy);
    if (status == HK_OK)
        *fd = copy;
    return status;
}

static enum hk_status check_json(int fd, struct hk_error *err)
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
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "no JSON object or array: %s, line %d",
                       why.text, why.line);
    json_decref(v);
    return HK_OK;
}

static enum hk_status check_safetensors(int fd, struct hk_error *err)
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

static enum hk_status check(enum hk_record_type type, int fd, struct hk_error *err)
{
    switch (type) {
    case HK_RECORD_DELTA_PATCH:
    case HK_RECORD_NEW_LAYER:
        return check_safetensors(fd, err);
    case HK_RECORD_CODE_EVAL:
    case HK_RECORD_TOPOLOGY_HEAD:
        return check_json(fd, err);
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
                                ? append_open_adapter(&fd, path, file, strict, err)
                                : append_open_plain(&fd, path, err);
    if (status == HK_OK)
        status = check(type, fd, err);
    if (status == HK_OK && (fstat(fd, &st) != 0 || lseek(fd, 0, SEEK_SET) != 0))
        status = hk_fail_sys(err, errno, "cannot read");
    if (status == HK_OK)
        *out = (struct payload){fd, (uint64_t)st.st_size};
    else if (fd >= 0)
        close(fd);
    return status;
}
