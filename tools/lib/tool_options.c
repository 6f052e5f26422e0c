/* tool_options.c: the options of a program, in one row: its own, those of its group, those that all
 * have. */
#include "tools/lib/tool.h"

/* What every program has. -v is for those with statistics. */
static const struct tool_option common[] = {
    {"help", 'h', NULL, "print this help and exit"},
    {"quiet", 'q', NULL, "print only errors: no warnings, statistics or progress"},
    {"version", 0, NULL, "print the version and exit"},
    {"verbose", 'v', NULL, "print statistics even if standard error is no terminal"},
};

size_t tool_group_count(const struct tool *t)
{
    return t->group != NULL ? t->group->count : 0;
}

static size_t common_count(const struct tool *t)
{
    return sizeof common / sizeof *common - !t->statistics;
}

const struct tool_option *tool_option_at(const struct tool *t, size_t number)
{
    if (number < t->option_count)
        return &t->options[number];
    number -= t->option_count;
    if (number < tool_group_count(t))
        return &t->group->options[number];
    number -= tool_group_count(t);
    return number < common_count(t) ? &common[number] : NULL;
}
