/* run.h: the pieces of hk-run. */
#ifndef TOOL_RUN_H
#define TOOL_RUN_H

#include "engine/engine.h"
#include "engine/sample/sampler.h"
#include "engine/sample/stop.h"
#include "tools/lib/engine_options.h"
#include "tools/lib/tool.h"

struct run_options {
    const char *path;
    char **prompt_words; /* none: standard input */
    int prompt_count;
    size_t most; /* tokens to generate */
    bool exact, json, special;
    struct engine_options engine;
    struct hke_sampling sampling;
    struct hk_bytes *stop; /* free() it; the strings are the arguments */
    size_t stops;
};

/* Exits 2 where an option, or a variable that it falls back to, is not as it should be. */
void run_parse(struct run_options *o, int argc, char **argv);

#endif
