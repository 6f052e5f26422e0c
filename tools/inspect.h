/* inspect.h: the pieces of hk-inspect. */
#ifndef TOOL_INSPECT_H
#define TOOL_INSPECT_H

#include "tools/lib/tool.h"

/* What is missing of a file that is shorter than its tables say. */
struct inspect_cut {
    uint64_t size, needed; /* bytes that are there, and that there would be */
    size_t tensors;        /* that are not whole */
    struct hk_bytes first; /* name of one, the first in the table */
};

/* Open the file at PATH, of which hk_open() says that it is not whole, as if nothing were missing:
 * header, metadata and tables can be read, payloads not. What CUT has is borrowed from *OUT.
 * Anything but HK_OK: it cannot be read even so. */
HK_MUST enum hk_status inspect_open_cut(struct hk_file **out, const char *path,
                                        struct inspect_cut *cut);

/* About ten lines for people. CUT may be NULL. */
void inspect_print_summary(const struct hk_file *f, const char *name,
                           const struct inspect_cut *cut);
/* The same as member "summary" of O. */
void inspect_put_summary(struct tool_json_out *o, const struct hk_file *f);

#endif
