/* JSON as a tree of jansson's, where that is no more than a small multiple of the text: an empty
 * object takes two bytes in a text and two hundred in memory. */
#include <stdio.h>

#include "libhkfmt/base/json_tree.h"
#include "libhkfmt/hkmodel.h"

/* More than jansson and malloc() take for each. */
enum { OBJECT = 240, LIST = 144, STRING = 96, OTHER = 56 };
enum { TIMES = 32, ALWAYS = 64 << 20 };

bool hk_json_fits(struct hk_bytes text)
{
    uint64_t size = OTHER + (uint64_t)text.n;
    bool quoted = false;
    for (size_t i = 0; i < text.n; i++) {
        uint8_t c = text.p[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            size += (quoted = !quoted) ? STRING : 0;
        else if (!quoted)
            size += c == '{' ? OBJECT : c == '[' ? LIST : c == ',' ? OTHER : 0;
    }
    return size <= ALWAYS || size / TIMES <= text.n;
}

json_t *hk_json_load(struct hk_bytes text, size_t flags, json_error_t *why)
{
    if (hk_json_fits(text))
        return json_loadb(text.n > 0 ? (const char *)text.p : "", text.n, flags, why);
    if (why != NULL) {
        *why = (json_error_t){.line = -1, .column = -1};
        snprintf(why->text, sizeof why->text, "more values than its length allows");
    }
    return NULL;
}
