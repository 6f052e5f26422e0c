/* hash_line.c: a digest and a name on a line, as sha256sum writes and reads it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/hash.h"
#include "tools/lib/output.h"

static const char base_mark[] = ":base", tensor_mark[] = ":tensor:";

/* ---- writing ---- */

static const char *escape_of(uint8_t c)
{
    return c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\\' ? "\\\\" : NULL;
}

static void put_escaped(FILE *to, struct hk_bytes b)
{
    for (size_t i = 0; i < b.n; i++) {
        const char *escape = escape_of(b.p[i]);
        if (escape != NULL)
            fputs(escape, to);
        else
            putc(b.p[i], to);
    }
}

static bool needs_escape(struct hk_bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        if (escape_of(b.p[i]) != NULL)
            return true;
    return false;
}

static struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
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
    if (needs_escape(text(file)) || needs_escape(tensor))
        putc('\\', memory);
    for (size_t i = 0; i < HK_SHA256_SIZE; i++)
        fprintf(memory, "%02x", digest[i]);
    fputs("  ", memory);
    put_escaped(memory, text(file));
    fputs(marks[kind], memory);
    put_escaped(memory, tensor);
    putc('\n', memory);
    if (fclose(memory) != 0)
        tool_nomem();
    tool_print_text((struct hk_bytes){(const uint8_t *)line, size});
    free(line);
}

/* ---- reading ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool read_digest(const char *s, uint8_t out[HK_SHA256_SIZE])
{
    for (size_t i = 0; i < HK_SHA256_SIZE; i++) {
        int high = hex_digit(s[2 * i]), low = hex_digit(s[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* In place; false where a backslash stands before anything else than it may. */
static bool unescape(char *s, size_t *n)
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

static bool exists(const char *path)
{
    struct stat st;
    return strcmp(path, "-") == 0 || stat(path, &st) == 0;
}

/* Whether there is a file of the name's first AT bytes, which then is all of PATH; else PATH is as
 * it was. */
static bool cut_where_file(char *path, size_t at)
{
    char kept = path[at];
    path[at] = '\0';
    if (at > 0 && exists(path))
        return true;
    path[at] = kept;
    return false;
}

/* Name of N bytes in line->path: decide what is the file's. A name that fits none is the file's as
 * a whole unless a mark says otherwise: what is missing then is said of the right file. */
static void split_name(struct hash_line *line, size_t n)
{
    char *path = line->path, *first = NULL;
    const size_t mark = sizeof tensor_mark - 1, end = sizeof base_mark - 1;
    bool base = n > end && strcmp(path + n - end, base_mark) == 0;
    line->kind = HASH_FILE;
    if (memchr(path, '\0', n) == NULL && exists(path))
        return;
    line->kind = HASH_BASE;
    if (base && cut_where_file(path, n - end))
        return;
    line->kind = HASH_TENSOR;
    char *at = path;
    while ((at = memmem(at, n - (size_t)(at - path), tensor_mark, mark)) != NULL) {
        first = first == NULL ? at : first;
        line->tensor =
            (struct hk_bytes){(const uint8_t *)at + mark, n - (size_t)(at - path) - mark};
        if (cut_where_file(path, (size_t)(at - path)))
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
static char *copy(const char *s, size_t n)
{
    char *p = malloc(n + 1);
    if (p == NULL)
        tool_nomem();
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

bool hash_read_line(const char *line, size_t n, struct hash_line *out)
{
    enum { HEX = 2 * HK_SHA256_SIZE };
    const size_t escaped = n > 0 && line[0] == '\\';
    const char *hex = line + escaped, *name = hex + HEX + 2;
    struct hash_line made = {0};
    if (n < escaped + HEX + 3 || !read_digest(hex, made.digest) || hex[HEX] != ' ' ||
        (hex[HEX + 1] != ' ' && hex[HEX + 1] != '*'))
        return false;
    size_t length = n - escaped - HEX - 2;
    made.path = copy(name, length);
    if (escaped && !unescape(made.path, &length)) {
        free(made.path);
        return false;
    }
    made.shown = copy(name, n - escaped - HEX - 2);
    split_name(&made, length);
    *out = made;
    return true;
}

void hash_line_free(struct hash_line *line)
{
    free(line->shown);
    free(line->path);
    *line = (struct hash_line){0};
}
