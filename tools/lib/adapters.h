/* adapters.h: --adapter of the programs that run a model. */
#ifndef HK_ADAPTERS_H
#define HK_ADAPTERS_H

#include "engine/engine.h"
#include "tools/lib/tool.h"

struct adapters { /* NAME or NAME=SCALE each; the words are the arguments' */
    const char **names;
    size_t count;
};

/* Remember another one; exits 2 when out of memory. */
void adapters_add(struct adapters *a, const char *word);
/* Add them all, in order, to M, the model of F. */
enum hk_status adapters_apply(const struct adapters *a, const struct hk_file *f,
                              struct hke_model *m, struct hk_error *err);
void adapters_free(struct adapters *a);

#endif
