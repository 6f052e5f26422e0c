/* hash_list.c: lists of digests as sha256sum writes them: a line printed and read, and a list
 * checked against what is there now. Lines that follow each other and name the same file are
 * checked together, so that its tensors are read in one go. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/hash.h"

static const char base_mark[] = ":base", tensor_mark[] = ":tensor:";

/* ---- writing ---- */

static const char *hash_name_escape(uint8_t c)
{
    return c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\\' ? "\\\\" : NULL;
}

static void put_hash_name(FILE *to, struct hk_bytes b)
{
    for (size_t i = 0; i < b.n; i++) {
        const char *escape = hash_name_escape(b.p[i]);
        if (escape != NULL)
            fputs(escape, to);
        else
            putc(b.p[i], to);
    }
}

static bool needs_hash_escape(struct hk_bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        if (hash_name_escape(b.p[i]) != NULL)
            return true;
    return false;
}

void hash_print_line(const uint8_t digest[HK_SHA256_SIZE], const char *file, enum hash_kind kind,
                     struct hk_bytes tensor)
{
    static const char *const marks[] = {
        [HASH_FILE] = "", [HASH_BASE] = base_mark, [HASH_TENSOR] = tensor_mark};
    char *line;
    size_t size;
    FILE *memory = open_memstream(&line, &size);
    if (memory == NULL)
        tool_nomem();
    if (needs_hash_escape(hk_bytes_of(file)) || needs_hash_escape(tensor))
        putc('\\', memory);
    for (size_t i = 0; i < HK_SHA256_SIZE; i++)
        fprintf(memory, "%02x", digest[i]);
    fputs("  ", memory);
    put_hash_name(memory, hk_bytes_of(file));
    fputs(marks[kind], memory);
    put_hash_name(memory, tensor);
    putc('\n', memory);
    if (fclose(memory) != 0)
        tool_nomem();
    tool_print_text((struct hk_bytes){(const uint8_t *)line, size});
    free(line);
}

/* ---- reading ---- */

struct hash_line {
    uint8_t digest[HK_SHA256_SIZE];
    char *shown; /* the name as it is in the line */
    char *path;
    enum hash_kind kind;
    struct hk_bytes tensor; /* for HASH_TENSOR; inside PATH's allocation, terminated */
};

static int hex_digit_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool read_hex_digest(const char *s, uint8_t out[HK_SHA256_SIZE])
{
    for (size_t i = 0; i < HK_SHA256_SIZE; i++) {
        int high = hex_digit_value(s[2 * i]), low = hex_digit_value(s[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* In place; false where a backslash stands before anything else than it may. */
static bool unescape_hash_name(char *s, size_t *n)
{
    size_t to = 0;
    for (size_t i = 0; i < *n; i++) {
        char c = s[i];
        if (c == '\\') {
            char next = ++i < *n ? s[i] : '\0';
            c = next == 'n' ? '\n' : next == 'r' ? '\r' : next;
            if (next != 'n' && next != 'r' && next != '\\')
                return false;
        }
        s[to++] = c;
    }
    s[ *n = to] = '\0';
    return true;
}

static bool is_existing_path(const char *path)
{
    struct stat st;
    return tool_is_standard_input(path) || stat(path, &st) == 0;
}

/* Whether there is a file of the name's first AT bytes, which then is all of PATH; else PATH is as
 * it was. */
static bool cut_at_file(char *path, size_t at)
{
    char kept = path[at];
    path[at] = '\0';
    if (at > 0 && is_existing_path(path))
        return true;
    path[at] = kept;
    return false;
}

/* Name of N bytes in line->path: decide what is the file's. A name that fits none is the file's as
 * a whole unless a mark says otherwise: what is missing then is said of the right file. */
static void split_hash_name(struct hash_line *line, size_t n)
{
    char *path = line->path, *first = NULL;
    const size_t mark = sizeof tensor_mark - 1, end = sizeof base_mark - 1;
    bool base = n > end && strcmp(path + n - end, base_mark) == 0;
    line->kind = HASH_FILE;
    if (memchr(path, '\0', n) == NULL && is_existing_path(path))
        return;
    line->kind = HASH_BASE;
    if (base && cut_at_file(path, n - end))
        return;
    line->kind = HASH_TENSOR;
    char *at = path;
    while ((at = memmem(at, n - (size_t)(at - path), tensor_mark, mark)) != NULL) {
        first = first == NULL ? at : first;
        line->tensor =
            (struct hk_bytes){(const uint8_t *)at + mark, n - (size_t)(at - path) - mark};
        if (cut_at_file(path, (size_t)(at - path)))
            return;
        at += mark;
    }
    if (first != NULL && first != path) {
        *first = '\0';
        line->tensor =
            (struct hk_bytes){(const uint8_t *)first + mark, n - (size_t)(first - path) - mark};
        return;
    }
    line->kind = base ? HASH_BASE : HASH_FILE;
    if (base)
        path[n - end] = '\0';
}

/* N bytes at S, terminated. */
static char *copy_name_bytes(const char *s, size_t n)
{
    char *p = malloc(n + 1);
    if (p == NULL)
        tool_nomem();
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

/* Read a line of N bytes without its end. False: it is none of these; nothing is to be freed. A
 * name that can be read in several ways is the one whose file exists. */
static bool read_hash_line(const char *line, size_t n, struct hash_line *out)
{
    enum { HEX = 2 * HK_SHA256_SIZE };
    const size_t escaped = n > 0 && line[0] == '\\';
    const char *hex = line + escaped, *name = hex + HEX + 2;
    struct hash_line made = {0};
    if (n < escaped + HEX + 3 || !read_hex_digest(hex, made.digest) || hex[HEX] != ' ' ||
        (hex[HEX + 1] != ' ' && hex[HEX + 1] != '*'))
        return false;
    size_t length = n - escaped - HEX - 2;
    made.path = copy_name_bytes(name, length);
    if (escaped && !unescape_hash_name(made.path, &length)) {
        free(made.path);
        return false;
    }
    made.shown = copy_name_bytes(name, n - escaped - HEX - 2);
    split_hash_name(&made, length);
    *out = made;
    return true;
}

static void free_hash_line(struct hash_line *line)
{
    free(line->shown);
    free(line->path);
    *line = (struct hash_line){0};
}

/* ---- checking ---- */

enum {
    MOST_LINE = 1 << 20, /* a longer one is none */
};

enum verdict { GOOD, DIFFERENT, ABSENT, UNREADABLE };

struct group { /* lines of one path */
    struct hash_line *lines;
    enum verdict *verdicts;
    size_t count, room;
};

struct check {
    const struct hash_checking *what;
    struct group group;
    uint64_t good, different, unreadable, malformed;
    int status;
};

static void add_to_group(struct group *g, const struct hash_line *line)
{
    if (g->count == g->room) {
        g->room = g->room == 0 ? 64 : 2 * g->room;
        g->lines = reallocarray(g->lines, g->room, sizeof *g->lines);
        g->verdicts = reallocarray(g->verdicts, g->room, sizeof *g->verdicts);
        if (g->lines == NULL || g->verdicts == NULL)
            tool_nomem();
    }
    g->verdicts[g->count] = UNREADABLE;
    g->lines[g->count++] = *line;
}

/* ---- one group ---- */

static bool group_has_kind(const struct group *g, enum hash_kind kind)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->lines[i].kind == kind)
            return true;
    return false;
}

static void judge_line(struct group *g, size_t i, const uint8_t digest[HK_SHA256_SIZE])
{
    bool same = memcmp(g->lines[i].digest, digest, HK_SHA256_SIZE) == 0;
    g->verdicts[i] = same ? GOOD : DIFFERENT;
}

static void judge_lines_of_kind(struct group *g, enum hash_kind kind,
                                const uint8_t digest[HK_SHA256_SIZE])
{
    for (size_t i = 0; i < g->count; i++)
        if (g->lines[i].kind == kind)
            judge_line(g, i, digest);
}

static int open_hashed_file(const char *path, struct hk_error *err)
{
    struct tool_input in;
    if (tool_input(&in, path, TOOL_NEED_BYTES, err) != HK_OK)
        return -1;
    const int fd = in.fd < 0                        ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
                   : lseek(in.fd, 0, SEEK_SET) == 0 ? dup(in.fd)
                                                    : -1;
    if (fd < 0)
        (void)hk_fail_sys(err, errno, "cannot open");
    return fd;
}

/* A line that names a file is about its bytes, model or not, as sha256sum's is. */
static void check_file_lines(struct check *c)
{
    struct group *g = &c->group;
    const char *path = g->lines[0].path;
    struct hk_error err;
    uint8_t digest[HK_SHA256_SIZE];
    int fd = open_hashed_file(path, &err);
    if (fd >= 0 && hk_hash_fd(fd, digest, &err) == HK_OK)
        judge_lines_of_kind(g, HASH_FILE, digest);
    else
        c->status = tool_worse(c->status, tool_error(path, &err));
    if (fd >= 0)
        close(fd);
}

/* Number of the tensor that LINE names; SIZE_MAX where there is none. */
static size_t tensor_of_line(const struct hk_file *f, const struct hash_line *line)
{
    const struct hk_tensor *t = hk_tensor_find(f, (const char *)line->tensor.p);
    return t != NULL && t->name.n == line->tensor.n ? (size_t)(t - hk_tensor_at(f, 0)) : SIZE_MAX;
}

struct wanted {
    struct hk_work work;
    struct hk_hashes hashes;
    uint8_t base[HK_SHA256_SIZE], file[1][HK_SHA256_SIZE];
    bool *chosen;
};

static void choose_hashes(struct wanted *w, const struct check *c, const struct hk_file *f)
{
    const struct group *g = &c->group;
    *w = (struct wanted){
        .work = {.size = sizeof w->work, .loop = c->what->loop, .progress = tool_progress_hashing},
        .hashes = {.size = sizeof w->hashes, .work = &w->work}};
    if (group_has_kind(g, HASH_BASE))
        w->hashes.base = w->base;
    if (group_has_kind(g, HASH_FILE) && hk_file_parts(f) == 1)
        w->hashes.files = w->file;
    if (!group_has_kind(g, HASH_TENSOR))
        return;
    w->chosen = calloc(hk_tensor_count(f) + 1, sizeof *w->chosen);
    w->hashes.tensors = calloc(hk_tensor_count(f) + 1, HK_SHA256_SIZE);
    if (w->chosen == NULL || w->hashes.tensors == NULL)
        tool_nomem();
    w->hashes.chosen = w->chosen;
    for (size_t i = 0; i < g->count; i++) {
        size_t t = g->lines[i].kind == HASH_TENSOR ? tensor_of_line(f, &g->lines[i]) : SIZE_MAX;
        if (t != SIZE_MAX)
            w->chosen[t] = true;
    }
}

static void judge_tensor_lines(struct group *g, const struct hk_file *f, const struct wanted *w)
{
    for (size_t i = 0; i < g->count; i++) {
        if (g->lines[i].kind != HASH_TENSOR)
            continue;
        size_t t = tensor_of_line(f, &g->lines[i]);
        if (t == SIZE_MAX)
            g->verdicts[i] = ABSENT;
        else
            judge_line(g, i, w->hashes.tensors[t]);
    }
}

static void check_opened_model(struct check *c, const struct hk_file *f)
{
    struct group *g = &c->group;
    struct wanted w;
    struct hk_error err;
    choose_hashes(&w, c, f);
    if (hk_hash(f, &w.hashes, &err) == HK_OK) {
        judge_tensor_lines(g, f, &w);
        if (w.hashes.base != NULL)
            judge_lines_of_kind(g, HASH_BASE, w.base);
        if (w.hashes.files != NULL)
            judge_lines_of_kind(g, HASH_FILE, w.file[0]);
    } else {
        c->status = tool_worse(c->status, tool_error(g->lines[0].path, &err));
    }
    free(w.hashes.tensors);
    free(w.chosen);
    if (w.hashes.files == NULL && group_has_kind(g, HASH_FILE))
        check_file_lines(c);
}

static void check_model_lines(struct check *c)
{
    struct group *g = &c->group;
    struct hk_file *f;
    struct hk_error err;
    const char *path = g->lines[0].path;
    const unsigned keep = HK_KEEP_RECORDS | (group_has_kind(g, HASH_FILE) ? HK_KEEP_FILE : 0);
    if (tool_open_kept(&f, path, keep, &err) == HK_OK) {
        check_opened_model(c, f);
        hk_close(&f);
        return;
    }
    c->status = tool_worse(c->status, tool_error(path, &err));
    if (group_has_kind(g, HASH_FILE))
        check_file_lines(c);
}

static void report_line(struct check *c, const struct hash_line *line, enum verdict v)
{
    static const char *const words[] = {[GOOD] = "OK",
                                        [DIFFERENT] = "FAILED",
                                        [ABSENT] = "FAILED no such tensor",
                                        [UNREADABLE] = "FAILED open or read"};
    c->good += v == GOOD;
    c->different += v == DIFFERENT || v == ABSENT;
    c->unreadable += v == UNREADABLE;
    if (v != GOOD)
        c->status = tool_worse(c->status, TOOL_CONTENT);
    if (c->what->status || (c->what->quiet && v == GOOD))
        return;
    tool_escape(stdout, (struct hk_bytes){(const uint8_t *)line->shown, strlen(line->shown)});
    printf(": %s\n", words[v]);
}

static void check_line_group(struct check *c)
{
    struct group *g = &c->group;
    if (g->count == 0)
        return;
    if (tool_is_same_stream(g->lines[0].path, c->what->list)) {
        tool_warn(g->lines[0].path, "is the list itself");
        c->status = TOOL_TROUBLE;
    } else if (group_has_kind(g, HASH_BASE) || group_has_kind(g, HASH_TENSOR))
        check_model_lines(c);
    else
        check_file_lines(c);
    for (size_t i = 0; i < g->count; i++) {
        report_line(c, &g->lines[i], g->verdicts[i]);
        free_hash_line(&g->lines[i]);
    }
    g->count = 0;
}

/* ---- the list ---- */

/* The next line into BUFFER (MOST_LINE bytes) without its end; bytes beyond are dropped, which
 * makes it no line of digests. False at the end. */
static bool read_list_line(FILE *list, char *buffer, size_t *n)
{
    int c;
    bool any = false;
    *n = 0;
    while ((c = getc_unlocked(list)) != EOF) {
        any = true;
        if (c == '\n')
            return true;
        if (*n < MOST_LINE)
            buffer[(*n)++] = (char)c;
    }
    return any;
}

static void take_list_line(struct check *c, const char *text, size_t n, uint64_t number)
{
    struct hash_line line;
    if (n == 0 || text[0] == '#')
        return;
    if (n == MOST_LINE || !read_hash_line(text, n, &line)) {
        c->malformed++;
        c->status = tool_worse(c->status, TOOL_CONTENT);
        if (!c->what->status)
            tool_warn(c->what->list, "line %llu: not a digest and a name",
                      (unsigned long long)number);
        return;
    }
    if (c->group.count > 0 && strcmp(c->group.lines[0].path, line.path) != 0)
        check_line_group(c);
    add_to_group(&c->group, &line);
}

static void read_hash_list(struct check *c, FILE *list)
{
    size_t n;
    char *buffer = malloc(MOST_LINE);
    if (buffer == NULL)
        tool_nomem();
    for (uint64_t number = 1; read_list_line(list, buffer, &n) && !ferror(stdout); number++)
        take_list_line(c, buffer, n, number);
    check_line_group(c);
    free(buffer);
    if (ferror(list) != 0) {
        tool_warn(c->what->list, "cannot read: %s", strerror(errno));
        c->status = TOOL_TROUBLE;
    }
}

static void report_hash_totals(struct check *c)
{
    if (c->good + c->different + c->unreadable == 0 && c->malformed == 0) {
        tool_warn(c->what->list, "contains no digests");
        c->status = tool_worse(c->status, TOOL_CONTENT);
    }
    if (c->different > 0 && !c->what->status)
        tool_warn(c->what->list, "%llu of %llu do not match", (unsigned long long)c->different,
                  (unsigned long long)(c->good + c->different + c->unreadable));
}

/* stdio's own stream fails where FD does not block. */
static ssize_t read_list_bytes(void *fd, char *p, size_t n)
{
    return tool_read(*(const int *)fd, p, n);
}

int hash_check(const struct hash_checking *what)
{
    struct check c = {.what = what};
    struct hk_error err;
    int fd;
    FILE *list = NULL;
    if (tool_open_once(&fd, what->list, &err) != HK_OK)
        return tool_error(what->list, &err);
    list = fopencookie(&fd, "r", (cookie_io_functions_t){.read = read_list_bytes});
    if (list == NULL)
        tool_nomem();
    read_hash_list(&c, list);
    fclose(list);
    close(fd);
    report_hash_totals(&c);
    free(c.group.lines);
    free(c.group.verdicts);
    return c.status;
}
