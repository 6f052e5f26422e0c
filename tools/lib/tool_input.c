/* tool_input.c: what programs read. Regular files are opened by their names; streams (standard
 * input, FIFOs, descriptors that a shell made for <(...)) are read to memory, or copied to a file
 * without a name where they have to be read more than once. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/lib/tool.h"

/* ---- names of streams ---- */

/* The descriptor of this program that PATH names; -1 for other paths. */
static int descriptor_of_path(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0)
        return STDIN_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const size_t n = strlen(folders[i]);
        char *end;
        if (strncmp(path, folders[i], n) != 0 || path[n] < '0' || path[n] > '9')
            continue;
        const long fd = strtol(path + n, &end, 10);
        if (*end == '\0' && fd <= INT32_MAX)
            return (int)fd;
    }
    return -1;
}

bool tool_is_standard_input(const char *path)
{
    return descriptor_of_path(path) == STDIN_FILENO;
}

/* What is at PATH, or false with errno. */
static bool stat_input(const char *path, struct stat *st)
{
    const int fd = descriptor_of_path(path);
    return fd >= 0 ? fstat(fd, st) == 0 : stat(path, st) == 0;
}

bool tool_is_same_stream(const char *a, const char *b)
{
    struct stat sa, sb;
    if (tool_is_standard_input(a) && tool_is_standard_input(b))
        return true;
    return stat_input(a, &sa) && stat_input(b, &sb) && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino && (S_ISFIFO(sa.st_mode) || S_ISSOCK(sa.st_mode));
}

/* ---- uses ---- */

void tool_use_input(const char *what, const char *path)
{
    static const char *first_what, *first_path; /* of standard input */
    if (path != NULL && !tool_is_standard_input(path))
        return;
    if (first_what != NULL)
        tool_usage("%s%s%s and %s%s%s are both standard input", first_what,
                   first_path[0] != '\0' ? " " : "", first_path, what, path != NULL ? " " : "",
                   path != NULL ? path : "");
    first_what = what;
    first_path = path != NULL ? path : "";
}

void tool_check_in_place(const char *path)
{
    struct stat st;
    const char *what = NULL;
    if (tool_is_standard_input(path))
        what = "standard input";
    else if (descriptor_of_path(path) >= 0 || strcmp(path, "/dev/stdout") == 0 ||
             strcmp(path, "/dev/stderr") == 0)
        what = "a descriptor";
    else if (stat(path, &st) == 0)
        what = S_ISFIFO(st.st_mode)                         ? "a FIFO"
               : S_ISSOCK(st.st_mode)                       ? "a socket"
               : S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? "a device"
                                                            : NULL;
    if (what == NULL)
        return;
    if (tool_is_standard(path))
        tool_warn(path, "cannot be changed in place; name a file");
    else
        tool_warn(path, "%s cannot be changed in place; name a file", what);
    exit(TOOL_TROUBLE);
}

/* ---- temporary files ---- */

static const char *temporary_directory(void)
{
    const char *dir = getenv("TMPDIR");
    return dir != NULL && dir[0] != '\0' ? dir : "/var/tmp";
}

enum hk_status tool_temporary(int *out, struct hk_error *err)
{
    const char *dir = temporary_directory();
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) { /* a file system without unnamed files */
        char *name;
        if (asprintf(&name, "%s/hk-XXXXXX", dir) < 0)
            return hk_fail_nomem(err);
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0)
            unlink(name);
        free(name);
    }
    if (fd < 0)
        return hk_fail_sys(err, errno, "cannot create a temporary file in %.80s (TMPDIR)", dir);
    *out = fd;
    return HK_OK;
}

static enum hk_status fail_for_room(uint64_t copied, struct hk_error *err)
{
    char size[24];
    return hk_fail(err, HK_E_IO, HK_NO_OFFSET,
                   "no room for a temporary copy in %.60s, after %s; set TMPDIR to a directory "
                   "with more",
                   temporary_directory(), tool_human_size(copied, size));
}

/* Whether N more bytes fit, with some left for others. */
static bool has_room(int fd, size_t n)
{
    enum { LEFT = 16 << 20, PART = 64 };
    struct statvfs v;
    if (fstatvfs(fd, &v) != 0 || v.f_blocks == 0) /* not every file system knows */
        return true;
    const uint64_t unit = v.f_frsize != 0 ? v.f_frsize : v.f_bsize;
    const uint64_t part = v.f_blocks / PART < LEFT / unit ? v.f_blocks / PART : LEFT / unit;
    return v.f_bavail >= part + n / unit + 1;
}

/* ---- streams that are read more than once ---- */

struct spool {
    struct spool *next;
    dev_t dev; /* which stream it is */
    ino_t ino;
    int source, copy; /* COPY -1: none yet */
    uint64_t copied;
    bool ended;
    char path[32]; /* of the copy */
};

static struct spool *spools; /* until the program ends */

static struct spool *find_spool(const struct stat *st)
{
    struct spool *s = spools;
    while (s != NULL && (s->dev != st->st_dev || s->ino != st->st_ino))
        s = s->next;
    return s;
}

/* Copy up to N more bytes, fewer at the end. */
static enum hk_status copy_stream_part(struct spool *s, char *buffer, size_t n,
                                       struct hk_error *err)
{
    size_t got = 0;
    while (got < n && !s->ended) {
        const ssize_t some = tool_read(s->source, buffer + got, n - got);
        if (some < 0)
            return hk_fail_sys(err, errno, "cannot read");
        s->ended = some == 0;
        got += (size_t)some;
        tool_progress("reading", s->copied + got, 0);
    }
    if (!has_room(s->copy, got))
        return fail_for_room(s->copied, err);
    /* Who reads the copy may have moved its position. */
    if (lseek(s->copy, (off_t)s->copied, SEEK_SET) < 0 || !tool_write(s->copy, buffer, got))
        return errno == ENOSPC || errno == EDQUOT
                   ? fail_for_room(s->copied, err)
                   : hk_fail_sys(err, errno, "cannot write a temporary copy");
    s->copied += got;
    return HK_OK;
}

static bool begins_as_model(const struct spool *s)
{
    char start[16];
    enum hk_format format;
    const ssize_t n = pread(s->copy, start, sizeof start, 0);
    return n > 0 && hk_format_by_start(start, (size_t)n, &format);
}

/* What does not begin as a model is copied no further than it takes to say what it is, unless any
 * bytes will do: it may be without end. */
static enum hk_status copy_stream(struct spool *s, enum tool_need need, struct hk_error *err)
{
    enum { CHUNK = 1 << 18 };
    char *buffer = malloc(CHUNK);
    enum hk_status st = buffer != NULL ? HK_OK : hk_fail_nomem(err);
    while (st == HK_OK && !s->ended) {
        st = copy_stream_part(s, buffer, CHUNK, err);
        if (need == TOOL_NEED_MODEL && !begins_as_model(s))
            break;
    }
    tool_progress_end();
    free(buffer);
    return st;
}

static enum hk_status fill_spool(struct spool *s, enum tool_need need, struct hk_error *err)
{
    enum hk_status st = s->copy < 0 ? tool_temporary(&s->copy, err) : HK_OK;
    if (st == HK_OK && !s->ended)
        st = copy_stream(s, need, err);
    if (st == HK_OK)
        snprintf(s->path, sizeof s->path, "/proc/self/fd/%d", s->copy);
    return st;
}

/* The stream at PATH, which ST describes. A FIFO is opened once, and waits for its writer. */
static enum hk_status take_stream(struct spool **out, const char *path, const struct stat *st,
                                  struct hk_error *err)
{
    struct spool *s = find_spool(st);
    if (s == NULL) {
        int fd = descriptor_of_path(path);
        if (fd < 0)
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
            return hk_fail_sys(err, errno, "cannot open");
        s = malloc(sizeof *s);
        if (s == NULL)
            tool_nomem();
        *s = (struct spool){
            .next = spools, .dev = st->st_dev, .ino = st->st_ino, .source = fd, .copy = -1};
        spools = s;
    }
    *out = s;
    return HK_OK;
}

/* Whether what ST describes is to be taken as a stream and not by its name: devices only where a
 * descriptor leads to them or any bytes will do, and standard input from where it stands. */
static bool is_stream(const char *path, const struct stat *st, enum tool_need need)
{
    const int fd = descriptor_of_path(path);
    if (fd == STDIN_FILENO)
        return !S_ISREG(st->st_mode) || lseek(fd, 0, SEEK_CUR) > 0;
    return S_ISFIFO(st->st_mode) || (need == TOOL_NEED_BYTES && S_ISCHR(st->st_mode)) ||
           (fd >= 0 && !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode));
}

enum hk_status tool_input(struct tool_input *out, const char *name, enum tool_need need,
                          struct hk_error *err)
{
    struct stat st;
    struct spool *s;
    *out = (struct tool_input){.path = name, .fd = -1};
    if (!stat_input(name, &st) || !is_stream(name, &st, need)) {
        if (tool_is_standard_input(name))
            *out = (struct tool_input){"/proc/self/fd/0", STDIN_FILENO};
        return HK_OK;
    }
    const int fd = descriptor_of_path(name);
    if (need == TOOL_NEED_MODEL && fd >= 0 && isatty(fd))
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "is a terminal, not a model");
    enum hk_status status = take_stream(&s, name, &st, err);
    if (status == HK_OK)
        status = fill_spool(s, need, err);
    if (status == HK_OK)
        *out = (struct tool_input){s->path, s->copy};
    return status;
}

enum hk_status tool_input_pipe(int *fd, const char *name, struct hk_error *err)
{
    struct stat st;
    struct spool *s;
    *fd = -1;
    if (!stat_input(name, &st) || !S_ISFIFO(st.st_mode))
        return HK_OK;
    enum hk_status status = take_stream(&s, name, &st, err);
    if (status == HK_OK && s->copy < 0)
        *fd = s->source;
    return status;
}

/* ---- what is read once ---- */

enum hk_status tool_open_once(int *out, const char *name, struct hk_error *err)
{
    const int named = descriptor_of_path(name);
    int fd = named == STDIN_FILENO ? -1 : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && named >= 0) /* a socket is not opened by its name */
        fd = fcntl(named, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return hk_fail_sys(err, errno, "cannot open");
    *out = fd;
    return HK_OK;
}

struct buffer {
    uint8_t *p;
    size_t n, room;
};

static bool grow_input(struct buffer *b)
{
    size_t room = b->room == 0 ? 1 << 16 : b->room * 2;
    uint8_t *p = realloc(b->p, room);
    if (p == NULL)
        return false;
    b->p = p;
    b->room = room;
    return true;
}

static enum hk_status read_to_end(int fd, struct buffer *b, size_t most, struct hk_error *err)
{
    for (;;) {
        if (b->n == b->room && !grow_input(b))
            return hk_fail_nomem(err);
        const ssize_t got = tool_read(fd, b->p + b->n, b->room - b->n);
        if (got < 0)
            return hk_fail_sys(err, errno, "cannot read");
        if (got == 0)
            return HK_OK;
        b->n += (size_t)got;
        if (b->n > most)
            return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "more than %zu bytes", most);
    }
}

enum hk_status tool_read_all(const char *name, uint8_t **out, size_t *n, size_t most,
                             struct hk_error *err)
{
    struct buffer b = {0};
    int fd;
    enum hk_status st = tool_open_once(&fd, name, err);
    if (st != HK_OK)
        return st;
    st = read_to_end(fd, &b, most, err);
    close(fd);
    if (st != HK_OK) {
        free(b.p);
        return st;
    }
    *out = b.p;
    *n = b.n;
    return HK_OK;
}
