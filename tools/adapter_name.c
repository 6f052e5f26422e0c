/* Records that the command line names. */
#include "tools/adapter_name.h"

#include <stdlib.h>
#include <string.h>

static size_t find_record(const struct hk_file *f, const char *name)
{
    for (size_t i = hk_record_count(f); i-- > 0;)
        if (hk_bytes_are(hk_record_at(f, i)->name, name))
            return i;
    return SIZE_MAX;
}

enum hk_status adapter_named(const struct hk_file *f, const char *word, struct hk_merge_item *out,
                             struct hk_error *err)
{
    struct hk_merge_item item = {find_record(f, word), 1};
    const char *equals = strrchr(word, '=');
    if (item.record == SIZE_MAX && equals != NULL) {
        char *name = strndup(word, (size_t)(equals - word));
        if (name == NULL)
            tool_nomem();
        item.scale = tool_double("adapter", equals + 1, -1e6, 1e6);
        item.record = find_record(f, name);
        free(name);
    }
    if (item.record == SIZE_MAX)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record '%s'", word);
    *out = item;
    return HK_OK;
}
