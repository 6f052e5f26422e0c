/* Records that the command line names, and those that are in effect. */
#include "tools/lib/adapter_name.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hkmodel.h"
#include "tools/lib/records.h"

static struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

/* Naming a record uses it, whatever its state, which is said. */
static void warn_record_state(const struct hk_file *f, size_t i)
{
    struct hk_record_state *states = record_states(f);
    const struct hk_record *r = hk_record_at(f, i);
    if (!states[i].effective)
        tool_warn(NULL, "record %.*s is %s, and used because --adapter names it", HK_STR(r->name),
                  (r->flags & HK_RECORD_ACTIVE) != 0 ? "deactivated" : "inactive");
    free(states);
}

enum hk_status adapter_named(const struct hk_file *f, const char *word, struct hk_merge_item *out,
                             struct hk_error *err)
{
    struct hk_merge_item item = {0, 1};
    const char *equals = strrchr(word, '=');
    enum hk_status st = hk_record_find(f, text(word), &item.record, err);
    if (st == HK_E_MISSING && equals != NULL) {
        item.scale = tool_double("adapter", equals + 1, -1e6, 1e6);
        st = hk_record_find(f, (struct hk_bytes){text(word).p, (size_t)(equals - word)},
                            &item.record, err);
    }
    if (st != HK_OK)
        return st;
    warn_record_state(f, item.record);
    *out = item;
    return HK_OK;
}
