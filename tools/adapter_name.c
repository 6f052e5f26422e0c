/* Records that the command line names. */
#include "tools/adapter_name.h"

#include <stdlib.h>
#include <string.h>

#include "tools/records.h"

enum hk_status adapter_named(const struct hk_file *f, const char *word, struct hk_merge_item *out,
                             struct hk_error *err)
{
    struct hk_merge_item item = {record_named(f, word), 1};
    const char *equals = strrchr(word, '=');
    if (item.record == SIZE_MAX && equals != NULL) {
        char *name = strndup(word, (size_t)(equals - word));
        if (name == NULL)
            tool_nomem();
        item.scale = tool_double("adapter", equals + 1, -1e6, 1e6);
        item.record = record_named(f, name);
        free(name);
    }
    if (item.record == SIZE_MAX)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record '%s'", word);
    *out = item;
    return HK_OK;
}
