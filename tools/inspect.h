/* inspect.h: the pieces of hk-inspect. */
#ifndef TOOL_INSPECT_H
#define TOOL_INSPECT_H

#include "libhkfmt/hkmodel.h"
#include "tools/lib/tool.h"

/* About ten lines for people. CUT is what hk_open_cut() says of F; NULL: it is whole. */
void inspect_print_summary(const struct hk_file *f, const char *name, const struct hk_cut *cut);
/* The same as member "summary" of O. */
void inspect_put_summary(struct tool_json_out *o, const struct hk_file *f,
                         const struct hk_cut *cut);

#endif
