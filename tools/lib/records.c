/* records.c: records of a version history as JSON, as a table, and by name. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/lib/records.h"

enum { NAME_COLUMNS = HK_MAX_NAME }; /* names may have 65535 bytes */

json_t *record_type(const struct hk_record *r)
{
    const char *name = hk_record_type_name(r->type);
    return name != NULL ? json_string(name) : json_sprintf("unknown %u", r->type);
}

struct hk_record_state *record_states(const struct hk_file *f)
{
    struct hk_record_state *states = calloc(hk_record_count(f) + 1, sizeof *states);
    if (states == NULL || hk_record_states(f, states, NULL) != HK_OK)
        tool_nomem();
    return states;
}

static const char *const metric_names[] = {"loss", "acc", "pass", "custom"};

static void put_record_metrics(struct tool_json_out *o, const struct hk_record *r)
{
    tool_json_enter(o, "metrics", '{');
    for (size_t i = 0; i < 4; i++) {
        char text[32];
        tool_float_text(r->metrics[i], text);
        tool_json_put_again(o, metric_names[i], text);
    }
    tool_json_leave(o, '}');
}

/* Digest and lineage read payloads; they fail for want of memory only. */
static enum hk_lineage lineage_after(const struct hk_file *f, size_t i, const uint8_t *previous)
{
    enum hk_lineage lineage = HK_LINEAGE_OK;
    const bool follows =
        i > 0 && memcmp(hk_record_at(f, i)->parent_hash, previous, HK_SHA256_SIZE) == 0;
    if (!follows && hk_record_lineage(f, i, &lineage, NULL) != HK_OK)
        tool_nomem();
    return lineage;
}

static void put_record_json(struct tool_json_out *o, const struct hk_file *f, size_t i,
                            const struct hk_record_state *state, uint8_t hash[HK_SHA256_SIZE])
{
    const struct hk_record *r = hk_record_at(f, i);
    const enum hk_lineage lineage = lineage_after(f, i, hash);
    if (hk_record_hash(f, i, hash, NULL) != HK_OK)
        tool_nomem();
    tool_json_enter(o, NULL, '{');
    tool_json_put(o, "index", tool_json_uint(i));
    tool_json_put(o, "type", record_type(r));
    tool_json_put(o, "name", tool_json_bytes(r->name));
    tool_json_put(o, "target", tool_json_bytes(r->target));
    tool_json_put(o, "generation", tool_json_uint(r->generation));
    tool_json_put(o, "timestamp", tool_json_uint(r->timestamp));
    tool_json_put(o, "active", json_boolean(r->flags & HK_RECORD_ACTIVE));
    tool_json_put(o, "compressed", json_boolean(r->flags & HK_RECORD_COMPRESSED));
    put_record_metrics(o, r);
    tool_json_put(o, "offset", tool_json_uint(r->offset));
    tool_json_put(o, "size", tool_json_uint(r->data_size));
    tool_json_put(o, "parent_hash", tool_json_hex(r->parent_hash, sizeof r->parent_hash));
    tool_json_put(o, "hash", tool_json_hex(hash, HK_SHA256_SIZE));
    tool_json_put(o, "crc32", tool_json_uint(r->data_crc32));
    tool_json_put(o, "lineage", tool_json_text(hk_lineage_name(lineage)));
    tool_json_put(o, "crc", tool_json_text(hk_crc_name(hk_record_crc(f, i))));
    tool_json_put(o, "effective", json_boolean(state->effective));
    tool_json_put(o, "switch", json_boolean(state->is_switch));
    tool_json_leave(o, '}');
}

void records_put(struct tool_json_out *o, const char *key, const struct hk_file *f)
{
    struct hk_record_state *states = record_states(f);
    uint8_t hash[HK_SHA256_SIZE] = {0};
    tool_json_enter(o, key, '[');
    for (size_t i = 0; i < hk_record_count(f) && !ferror(stdout); i++)
        put_record_json(o, f, i, &states[i], hash);
    tool_json_leave(o, ']');
    free(states);
}

void records_put_twice(struct tool_json_out *o, const char *key, const char *old,
                       const struct hk_file *f)
{
    char *text;
    size_t size;
    struct tool_json_out whole = *o;
    whole.file = open_memstream(&text, &size);
    if (whole.file == NULL)
        tool_nomem();
    records_put(&whole, key, f);
    if (fclose(whole.file) != 0)
        tool_nomem();
    const char *list = strchr(text, '[');
    fwrite(text, 1, size, o->file);
    o->first = false;
    tool_json_put_again(o, old, list);
    free(text);
}

/* In the table: what the flag says, or what a later record has made of it. */
static const char *record_state_word(const struct hk_record *r, const struct hk_record_state *state)
{
    const bool active = (r->flags & HK_RECORD_ACTIVE) != 0;
    if (state->is_switch)
        return active ? "switch on" : "switch off";
    if (active == state->effective)
        return active ? "active" : "inactive";
    return active ? "deactivated" : "activated";
}

static void record_time_cell(struct tool_table *t, uint64_t seconds)
{
    char line[32];
    struct tm tm;
    time_t when = (time_t)seconds;
    bool sane = seconds < UINT64_C(253402300800); /* the year 10000 */
    if (sane && gmtime_r(&when, &tm) != NULL &&
        strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
        tool_cell(t, "%s", line);
    else
        tool_cell(t, "%llu", (unsigned long long)seconds);
}

/* Those that were given. */
static void record_metrics_cell(struct tool_table *t, const struct hk_record *r)
{
    char line[160] = "", number[32];
    int n = 0;
    for (size_t i = 0; i < 4; i++) {
        if (r->metrics[i] == 0)
            continue;
        tool_float_text(r->metrics[i], number);
        n += snprintf(line + n, sizeof line - (size_t)n, "%s%s %s", n > 0 ? ", " : "",
                      metric_names[i], number);
    }
    tool_cell(t, "%s", line);
}

static void record_table_row(struct tool_table *t, const struct hk_file *f, size_t i,
                             const struct hk_record_state *state)
{
    const struct hk_record *r = hk_record_at(f, i);
    enum hk_lineage lineage;
    if (hk_record_lineage(f, i, &lineage, NULL) != HK_OK)
        tool_nomem();
    json_t *type = record_type(r);
    char size[24];
    tool_cell(t, "%zu", i);
    tool_cell(t, "%u", r->generation);
    tool_cell(t, "%s", json_string_value(type));
    tool_cell_bytes(t, r->name, NAME_COLUMNS);
    tool_cell_bytes(t, r->target, NAME_COLUMNS);
    tool_cell(t, "%s", tool_human_size(r->data_size, size));
    record_time_cell(t, r->timestamp);
    tool_cell(t, "%s", hk_lineage_name(lineage));
    tool_cell(t, "%s", hk_crc_name(hk_record_crc(f, i)));
    tool_cell(t, "%s", record_state_word(r, state));
    record_metrics_cell(t, r);
    json_decref(type);
}

void records_table(const struct hk_file *f)
{
    static const char *const titles[] = {"RECORD", "GENERATION", "TYPE", "NAME",  "TARGET", "SIZE",
                                         "TIME",   "LINEAGE",    "CRC",  "STATE", "METRICS"};
    struct tool_table t = {.columns = 11, .right = "rrlllrlllll"};
    struct hk_record_state *states = record_states(f);
    tool_cell_titles(&t, titles);
    for (size_t i = 0; i < hk_record_count(f); i++)
        record_table_row(&t, f, i, &states[i]);
    tool_table_print(&t, stdout);
    free(states);
}

/* ---- records that the command line names ---- */

/* Naming a record uses it, whatever its state, which is said. */
static void warn_record_state(const struct hk_file *f, size_t i)
{
    struct hk_record_state *states = record_states(f);
    const struct hk_record *r = hk_record_at(f, i);
    if (!states[i].effective)
        tool_note(NULL, "record %.*s is %s, and used because --adapter names it", HK_STR(r->name),
                  (r->flags & HK_RECORD_ACTIVE) != 0 ? "deactivated" : "inactive");
    free(states);
}

enum hk_status record_find(const struct hk_file *f, struct hk_bytes name, size_t *out,
                           struct hk_error *err)
{
    struct tool_nearest s;
    enum hk_status st = hk_record_find(f, name, out, err);
    if (st != HK_E_MISSING)
        return st;
    tool_nearest_begin(&s, name);
    for (size_t i = 0; i < hk_record_count(f); i++)
        tool_nearest_try(&s, hk_record_at(f, i)->name);
    const char *hint = tool_nearest_hint(&s, "");
    return *hint == '\0' ? st
                         : hk_fail(err, st, HK_NO_OFFSET, "no record %.*s%s", HK_STR(name), hint);
}

enum hk_status record_named(const struct hk_file *f, const char *word, struct hk_merge_item *out,
                            struct hk_error *err)
{
    struct hk_merge_item item = {0, 1};
    const char *equals = strrchr(word, '=');
    enum hk_status st = record_find(f, hk_bytes_of(word), &item.record, err);
    if (st == HK_E_MISSING && equals != NULL) {
        tool_value_begin("adapter %.*s", (int)(equals - word), word);
        item.scale = tool_double(equals + 1, -1e6, 1e6);
        st = record_find(f, (struct hk_bytes){(const uint8_t *)word, (size_t)(equals - word)},
                         &item.record, err);
    }
    if (st != HK_OK)
        return st;
    warn_record_state(f, item.record);
    *out = item;
    return HK_OK;
}
