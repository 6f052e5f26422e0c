/* hash_check.c: hk-hash --check: every line of a list against what is there now. Lines that follow
 * each other and name the same file are checked together, so that its tensors are read in one go.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/hash.h"

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

static void keep(struct group *g, const struct hash_line *line)
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

static bool has(const struct group *g, enum hash_kind kind)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->lines[i].kind == kind)
            return true;
    return false;
}

static void compare(struct group *g, size_t i, const uint8_t digest[HK_SHA256_SIZE])
{
    bool same = memcmp(g->lines[i].digest, digest, HK_SHA256_SIZE) == 0;
    g->verdicts[i] = same ? GOOD : DIFFERENT;
}

static void compare_all(struct group *g, enum hash_kind kind, const uint8_t digest[HK_SHA256_SIZE])
{
    for (size_t i = 0; i < g->count; i++)
        if (g->lines[i].kind == kind)
            compare(g, i, digest);
}

static int standard_bytes(struct hk_error *err)
{
    int fd;
    if (tool_stdin(&fd, err) != HK_OK)
        return -1;
    fd = lseek(fd, 0, SEEK_SET) == 0 ? dup(fd) : -1;
    if (fd < 0)
        (void)hk_fail_sys(err, errno, "cannot read");
    return fd;
}

static int open_bytes(const char *path, struct hk_error *err)
{
    if (strcmp(path, "-") == 0)
        return standard_bytes(err);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        (void)hk_fail_sys(err, errno, "cannot open");
    return fd;
}

/* A line that names a file is about its bytes, model or not, as sha256sum's is. */
static void check_bytes(struct check *c)
{
    struct group *g = &c->group;
    const char *path = g->lines[0].path;
    struct hk_error err;
    uint8_t digest[HK_SHA256_SIZE];
    int fd = open_bytes(path, &err);
    if (fd >= 0 && hk_hash_fd(fd, digest, &err) == HK_OK)
        compare_all(g, HASH_FILE, digest);
    else
        c->status = tool_worse(c->status, tool_error(path, &err));
    if (fd >= 0)
        close(fd);
}

/* Number of the tensor that LINE names; SIZE_MAX where there is none. */
static size_t tensor_of(const struct hk_file *f, const struct hash_line *line)
{
    const struct hk_tensor *t = hk_tensor_find(f, (const char *)line->tensor.p);
    return t != NULL && t->name.n == line->tensor.n ? (size_t)(t - hk_tensor_at(f, 0)) : SIZE_MAX;
}

struct wanted {
    struct hk_hashes hashes;
    uint8_t base[HK_SHA256_SIZE], file[1][HK_SHA256_SIZE];
    bool *chosen;
};

static void choose(struct wanted *w, const struct check *c, const struct hk_file *f)
{
    const struct group *g = &c->group;
    *w = (struct wanted){.hashes = {.work = {.loop = c->what->loop, .progress = hash_progress}}};
    if (has(g, HASH_BASE))
        w->hashes.base = w->base;
    if (has(g, HASH_FILE) && hk_file_parts(f) == 1)
        w->hashes.files = w->file;
    if (!has(g, HASH_TENSOR))
        return;
    w->chosen = calloc(hk_tensor_count(f) + 1, sizeof *w->chosen);
    w->hashes.tensors = calloc(hk_tensor_count(f) + 1, HK_SHA256_SIZE);
    if (w->chosen == NULL || w->hashes.tensors == NULL)
        tool_nomem();
    w->hashes.chosen = w->chosen;
    for (size_t i = 0; i < g->count; i++) {
        size_t t = g->lines[i].kind == HASH_TENSOR ? tensor_of(f, &g->lines[i]) : SIZE_MAX;
        if (t != SIZE_MAX)
            w->chosen[t] = true;
    }
}

static void compare_tensors(struct group *g, const struct hk_file *f, const struct wanted *w)
{
    for (size_t i = 0; i < g->count; i++) {
        if (g->lines[i].kind != HASH_TENSOR)
            continue;
        size_t t = tensor_of(f, &g->lines[i]);
        if (t == SIZE_MAX)
            g->verdicts[i] = ABSENT;
        else
            compare(g, i, w->hashes.tensors[t]);
    }
}

static void check_opened(struct check *c, const struct hk_file *f)
{
    struct group *g = &c->group;
    struct wanted w;
    struct hk_error err;
    choose(&w, c, f);
    if (hk_hash(f, &w.hashes, &err) == HK_OK) {
        compare_tensors(g, f, &w);
        if (w.hashes.base != NULL)
            compare_all(g, HASH_BASE, w.base);
        if (w.hashes.files != NULL)
            compare_all(g, HASH_FILE, w.file[0]);
    } else {
        c->status = tool_worse(c->status, tool_error(g->lines[0].path, &err));
    }
    free(w.hashes.tensors);
    free(w.chosen);
    if (w.hashes.files == NULL && has(g, HASH_FILE))
        check_bytes(c);
}

static void check_model(struct check *c)
{
    struct group *g = &c->group;
    struct hk_file *f;
    struct hk_error err;
    const char *path = g->lines[0].path;
    const unsigned keep = HK_KEEP_RECORDS | (has(g, HASH_FILE) ? HK_KEEP_FILE : 0);
    if (tool_open_kept(&f, path, keep, &err) == HK_OK) {
        check_opened(c, f);
        hk_close(&f);
        return;
    }
    c->status = tool_worse(c->status, tool_error(path, &err));
    if (has(g, HASH_FILE))
        check_bytes(c);
}

static void say(struct check *c, const struct hash_line *line, enum verdict v)
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

static void check_group(struct check *c)
{
    struct group *g = &c->group;
    if (g->count == 0)
        return;
    if (strcmp(g->lines[0].path, "-") == 0 && strcmp(c->what->list, "-") == 0) {
        tool_warn("-", "is the list");
        c->status = TOOL_TROUBLE;
    } else if (has(g, HASH_BASE) || has(g, HASH_TENSOR))
        check_model(c);
    else
        check_bytes(c);
    for (size_t i = 0; i < g->count; i++) {
        say(c, &g->lines[i], g->verdicts[i]);
        hash_line_free(&g->lines[i]);
    }
    g->count = 0;
}

/* ---- the list ---- */

/* The next line into BUFFER (MOST_LINE bytes) without its end; bytes beyond are dropped, which
 * makes it no line of digests. False at the end. */
static bool next_line(FILE *list, char *buffer, size_t *n)
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

static void take_line(struct check *c, const char *text, size_t n, uint64_t number)
{
    struct hash_line line;
    if (n == 0 || text[0] == '#')
        return;
    if (n == MOST_LINE || !hash_read_line(text, n, &line)) {
        c->malformed++;
        c->status = tool_worse(c->status, TOOL_CONTENT);
        if (!c->what->status)
            tool_warn(c->what->list, "line %llu is no digest and name", (unsigned long long)number);
        return;
    }
    if (c->group.count > 0 && strcmp(c->group.lines[0].path, line.path) != 0)
        check_group(c);
    keep(&c->group, &line);
}

static void read_list(struct check *c, FILE *list)
{
    size_t n;
    char *buffer = malloc(MOST_LINE);
    if (buffer == NULL)
        tool_nomem();
    for (uint64_t number = 1; next_line(list, buffer, &n) && !ferror(stdout); number++)
        take_line(c, buffer, n, number);
    check_group(c);
    free(buffer);
    if (ferror(list) != 0) {
        tool_warn(c->what->list, "cannot read: %s", strerror(errno));
        c->status = TOOL_TROUBLE;
    }
}

static void sum_up(struct check *c)
{
    if (c->good + c->different + c->unreadable == 0 && c->malformed == 0) {
        tool_warn(c->what->list, "no digests in it");
        c->status = tool_worse(c->status, TOOL_CONTENT);
    }
    if (c->different > 0 && !c->what->status)
        tool_warn(c->what->list, "%llu of %llu do not match", (unsigned long long)c->different,
                  (unsigned long long)(c->good + c->different + c->unreadable));
}

int hash_check(const struct hash_checking *what)
{
    struct check c = {.what = what};
    bool standard = strcmp(what->list, "-") == 0;
    FILE *list = standard ? stdin : fopen(what->list, "re");
    if (list == NULL) {
        tool_warn(what->list, "cannot open: %s", strerror(errno));
        return TOOL_TROUBLE;
    }
    read_list(&c, list);
    if (!standard)
        fclose(list);
    sum_up(&c);
    free(c.group.lines);
    free(c.group.verdicts);
    return c.status;
}
