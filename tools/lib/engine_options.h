/* engine_options.h: what programs that run a model take from the command line and the environment,
 * and how they open it. */
#ifndef TOOL_ENGINE_OPTIONS_H
#define TOOL_ENGINE_OPTIONS_H

#include "engine/engine.h"
#include "kernels/kernels.h"
#include "tools/lib/threads.h"
#include "tools/lib/tool.h"

struct engine_options {
    struct hke_context_options context;
    bool mlock;
    unsigned keep;         /* what of the file while it is opened (hk_file_keep()) */
    const char **adapters; /* NAME or NAME=SCALE each; the words are the arguments' */
    size_t adapter_count;
    struct hke_adapters *opened; /* those; NULL before the model is open, or where there are none */
};

/* --activations, --batch, --huge-pages, --mlock and --threads, for a struct engine_options: a
 * program that lists this group has them. */
extern const struct tool_group engine_options_group;
/* The option of engine_options_add_adapter(), for programs whose model has a history. */
#define ENGINE_OPTION_ADAPTER                                                                      \
    {                                                                                              \
        "adapter", 'a', "NAME[=SCALE]",                                                            \
            "run with an adapter of the file's history; may be given several times"                \
    }
void engine_options_add_adapter(struct engine_options *o, const char *word);
/* What was not given comes from HK_THREADS and HK_KERNELS, else it is the best for this machine.
 * Exits 2 where one of them is not as it should be. */
void engine_options_settle(struct engine_options *o);
void engine_options_free(struct engine_options *o);

/* The level of kernels that HK_KERNELS names, or the best one that runs. Exits 2 where the one
 * named does not run here. */
const struct hkk_table *engine_options_kernels(void);

/* Open the model at PATH, and the adapters of O for O->context, its weights locked in memory if O
 * says so. What was opened is the caller's to free in any case; adapters are freed with O. */
HK_MUST enum hk_status engine_options_open(struct engine_options *o, const char *path,
                                           struct hk_file **file, struct hke_model **model,
                                           struct hk_error *err);

#endif
