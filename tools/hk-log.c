/* hk-log: the version history of a .hk, and the payloads of its records. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/records.h"

enum { OPT_EXTRACT, OPT_FORCE, OPT_OUTPUT, OPT_RAW, OPT_TABLE };

static const struct tool_option options[] = {
    [OPT_EXTRACT] = {"extract", 'x', "RECORD",
                     "write the payload of a record: its number, else the last of that name"},
    [OPT_FORCE] = {"force", 'f', NULL, "replace OUT if it exists"},
    [OPT_OUTPUT] = {"output", 'o', "OUT", "write the payload to OUT, not to standard output"},
    [OPT_RAW] = {"raw", 0, NULL, "write it as it is stored, compressed or not"},
    [OPT_TABLE] = {"table", 0, NULL, "print a table for people, not JSON"},
};

static const struct tool tool = {
    .name = "hk-log",
    .operands = "FILE",
    .about = "Show the version history in a .hk, or write out what a record carries.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct job {
    const char *file, *record, *out;
    bool force, raw, table;
};

static void print_json(const struct job *j, const struct hk_file *f)
{
    struct tool_json_out o;
    uint8_t hash[HK_SHA256_SIZE] = {0};
    tool_json_begin(&o, stdout);
    tool_json_put(&o, "file", tool_json_text(j->file));
    tool_json_enter(&o, "records", '[');
    for (size_t i = 0; i < hk_record_count(f) && !ferror(stdout); i++)
        record_put(&o, f, i, hash);
    tool_json_leave(&o, ']');
    tool_json_end(&o);
}

/* Number of the record that WORD means; a name is never all digits here. SIZE_MAX: there is none.
 */
static size_t find_record(const struct hk_file *f, const char *word)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(word, &end, 10);
    if (word[0] >= '0' && word[0] <= '9' && *end == '\0')
        return errno == 0 && n < hk_record_count(f) ? (size_t)n : SIZE_MAX;
    return record_named(f, word);
}

static enum hk_status write_payload(const struct job *j, const struct hk_file *f, size_t i,
                                    struct hk_out *out, struct hk_error *err)
{
    if (!j->raw)
        return hk_record_write(f, i, out, err);
    const struct hk_bytes data = hk_record_data(f, hk_record_at(f, i));
    return hk_out_write(out, data.p, data.n, err);
}

static int extract(const struct job *j, const struct hk_file *f)
{
    struct hk_out *out;
    struct hk_error err;
    const size_t i = find_record(f, j->record);
    if (i == SIZE_MAX) {
        hk_fail(&err, HK_E_MISSING, HK_NO_OFFSET, "no record '%s' among %zu", j->record,
                hk_record_count(f));
        return tool_error(j->file, &err);
    }
    if (tool_create(&out, j->out, j->file, j->force, &err) != HK_OK)
        return tool_error(j->out, &err);
    enum hk_status status = write_payload(j, f, i, out, &err);
    if (status == HK_OK)
        status = hk_out_commit(&out, &err);
    else
        hk_out_discard(&out);
    if (status == HK_OK)
        return TOOL_OK;
    return tool_error(status == HK_E_IO ? j->out : j->file, &err);
}

static int run(const struct job *j)
{
    struct hk_file *f;
    struct hk_error err;
    int status = TOOL_OK;
    if (tool_open(&f, j->file, &err) != HK_OK)
        return tool_error(j->file, &err);
    if (j->record != NULL)
        status = extract(j, f);
    else if (j->table)
        records_table(f);
    else
        print_json(j, f);
    hk_close(&f);
    return status;
}

static void take_option(struct job *j, int option, const char *value)
{
    switch (option) {
    case OPT_EXTRACT:
        j->record = value;
        break;
    case OPT_FORCE:
        j->force = true;
        break;
    case OPT_OUTPUT:
        j->out = value;
        break;
    case OPT_RAW:
        j->raw = true;
        break;
    default:
        j->table = true;
    }
}

int main(int argc, char **argv)
{
    struct job j = {.out = "-"};
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        take_option(&j, o, value);
    if (args.operand_count != 1)
        tool_usage("one FILE is needed, %d given", args.operand_count);
    if (j.record == NULL && (j.raw || j.force || strcmp(j.out, "-") != 0))
        tool_usage("--raw, --output and --force go with --extract");
    j.file = args.operands[0];
    return tool_end(run(&j));
}
