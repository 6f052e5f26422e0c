/* tool_table.c: aligned columns for people. */
#include "tools/lib/tool.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct tool_cell {
    char *text;
    size_t width;
};

static void add_table_cell(struct tool_table *t, char *text, size_t width)
{
    if (t->count == t->room) {
        size_t room = t->room == 0 ? 64 : t->room * 2;
        struct tool_cell *cells = reallocarray(t->cells, room, sizeof *cells);
        if (cells == NULL)
            tool_nomem();
        t->cells = cells;
        t->room = room;
    }
    t->cells[t->count++] = (struct tool_cell){text, width};
}

/* The longest prefix of B that shows in at most MOST columns; an escape takes four a byte. */
static size_t fitting_prefix(struct hk_bytes b, size_t most)
{
    size_t columns = 0, i = 0;
    while (i < b.n) {
        uint32_t code = 0;
        size_t n = tool_utf8(b.p + i, b.n - i, &code);
        columns += n > 0 && !tool_disturbs(code) ? 1 : 4 * (n > 0 ? n : 1);
        if (columns > most)
            break;
        i += n > 0 ? n : 1;
    }
    return i;
}

void tool_cell_bytes(struct tool_table *t, struct hk_bytes b, size_t most)
{
    static const char dots[] = "...";
    char *text;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        tool_nomem();
    size_t shown = most == 0 ? b.n : fitting_prefix(b, most);
    size_t width = tool_escape(memory, (struct hk_bytes){b.p, shown});
    if (shown < b.n)
        width += (size_t)fprintf(memory, "%s", dots);
    if (fclose(memory) != 0)
        tool_nomem();
    add_table_cell(t, text, width);
}

void tool_cell(struct tool_table *t, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        tool_nomem();
    add_table_cell(t, text, (size_t)n);
}

void tool_cell_titles(struct tool_table *t, const char *const *titles)
{
    for (size_t i = 0; i < t->columns; i++)
        tool_cell(t, "%s", titles[i]);
}

void tool_row_size(struct tool_table *t, const char *name, uint64_t size)
{
    char text[24];
    tool_cell(t, "%s", name);
    tool_cell(t, "%s", size > 0 ? tool_human_size(size, text) : "unknown");
}

static size_t column_width(const struct tool_table *t, size_t column)
{
    size_t width = 0;
    for (size_t i = column; i < t->count; i += t->columns)
        width = t->cells[i].width > width ? t->cells[i].width : width;
    return width;
}

/* Empty cells at the end of a row leave no blanks behind. */
static void print_table_row(const struct tool_table *t, size_t row, const size_t *width, FILE *file)
{
    const struct tool_cell *cells = &t->cells[row * t->columns];
    size_t used = t->columns;
    while (used > 0 && cells[used - 1].width == 0)
        used--;
    for (size_t c = 0; c < used; c++) {
        int blanks = (int)(width[c] - cells[c].width);
        bool right = t->right[c] == 'r';
        bool last = c + 1 == used;
        fprintf(file, "%s%*s%s%*s", c > 0 ? "  " : "", right ? blanks : 0, "", cells[c].text,
                right || last ? 0 : blanks, "");
    }
    putc('\n', file);
}

void tool_table_print(struct tool_table *t, FILE *file)
{
    size_t *width = calloc(t->columns, sizeof *width);
    if (width == NULL)
        tool_nomem();
    for (size_t c = 0; c < t->columns; c++)
        width[c] = column_width(t, c);
    for (size_t row = 0; row < t->count / t->columns; row++)
        print_table_row(t, row, width, file);
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i].text);
    free(t->cells);
    free(width);
    t->cells = NULL;
    t->count = t->room = 0;
}

const char *tool_human_size(uint64_t n, char *buffer)
{
    static const char units[] = "KMGTPE";
    size_t unit = 0;
    double v = (double)n / 1024;
    if (n < 1024) {
        snprintf(buffer, 24, "%u B", (unsigned)n);
        return buffer;
    }
    for (; v >= 1024 && unit + 2 < sizeof units; unit++)
        v /= 1024;
    snprintf(buffer, 24, "%.1f %ciB", v, units[unit]);
    return buffer;
}
