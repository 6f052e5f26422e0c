/* Trees of JSON text that files bring. */
#ifndef HK_JSON_TREE_H
#define HK_JSON_TREE_H

#include <jansson.h>

#include "libhkfmt/hkfmt.h"

/* json_loadb(), but NULL where !hk_json_fits(TEXT). WHY may be NULL. */
json_t *hk_json_load(struct hk_bytes text, size_t flags, json_error_t *why);

#endif
