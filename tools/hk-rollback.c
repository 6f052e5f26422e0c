/* hk-rollback: cut the version history of a .hk back, or a torn tail off it. */
#include <stdlib.h>
#include <string.h>

#include "tools/lib/tool.h"

enum { OPT_DRY_RUN, OPT_REPAIR, OPT_NO_WAIT };

static const struct tool_option options[] = {
    [OPT_DRY_RUN] = {"dry-run", 'n', NULL, "report what would be done, change nothing"},
    [OPT_REPAIR] = {"repair", 0, NULL, "remove what an interrupted append left, and nothing else"},
    [OPT_NO_WAIT] = TOOL_OPTION_NO_WAIT,
};

static const struct tool tool = {
    .name = "hk-rollback",
    .operands = "FILE GENERATION",
    .about = "Remove the records after GENERATION (0: all) from the version history of a .hk.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

static void print_rollback_report(const char *file, const struct hk_rollback_report *r, bool dry)
{
    json_t *v = json_object();
    tool_json_set(v, "file", tool_json_text(file));
    tool_json_set(v, "kept", tool_json_uint(r->kept));
    tool_json_set(v, "removed", tool_json_uint(r->removed));
    tool_json_set(v, "size_before", tool_json_uint(r->size_before));
    tool_json_set(v, "size_after", tool_json_uint(r->size_after));
    tool_json_set(v, "dry_run", json_boolean(dry));
    tool_json_print(v, stdout);
}

/* The history of a set is in its first file. */
static enum hk_status roll_back(const char *path, uint32_t generation, unsigned how, bool no_wait,
                                struct hk_rollback_report *report, struct hk_error *err)
{
    const struct hk_wait wait = tool_wait(path, no_wait);
    char *first;
    enum hk_status st = hk_first_file(&first, path, err);
    if (st != HK_OK)
        return st;
    st = hk_rollback(first, generation, how, &wait, report, err);
    free(first);
    return st;
}

int main(int argc, char **argv)
{
    unsigned how = 0;
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    bool no_wait = false;
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        if (o == OPT_NO_WAIT)
            no_wait = true;
        else
            how |= o == OPT_REPAIR ? HK_ROLLBACK_REPAIR : HK_ROLLBACK_DRY_RUN;
    const int wanted = (how & HK_ROLLBACK_REPAIR) != 0 ? 1 : 2;
    if (wanted == 1 && args.operand_count == 2)
        tool_usage("--repair takes one FILE and no GENERATION");
    tool_check_operands(&args, wanted == 1 ? "FILE" : "FILE GENERATION");
    const char *file = args.operands[0];
    tool_check_in_place(file);
    uint32_t generation = 0;
    tool_value_begin("GENERATION");
    if (wanted == 2)
        generation = (uint32_t)tool_uint(args.operands[1], 0, UINT32_MAX);
    struct hk_rollback_report report;
    struct hk_error err;
    if (roll_back(file, generation, how, no_wait, &report, &err) != HK_OK)
        return tool_end(tool_error(file, &err));
    print_rollback_report(file, &report, how & HK_ROLLBACK_DRY_RUN);
    return tool_end(TOOL_OK);
}
