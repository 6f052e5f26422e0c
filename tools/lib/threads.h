/* threads.h: how many threads a program has, and a parallel loop of so many for the library. */
#ifndef TOOL_THREADS_H
#define TOOL_THREADS_H

#include "libhkfmt/hkfmt.h"

/* As many threads as HK_THREADS says, or as many as the machine is good for. Exits 2 where it is
 * not a number of threads. A variable set to nothing counts as not set. */
unsigned tool_threads(void);

/* The value of --threads; exits 2 for another. */
unsigned tool_threads_option(const char *value);

/* A loop of THREADS threads (0: tool_threads()), which live until tool_loop_free(). */
HK_MUST enum hk_status tool_loop_new(struct hk_loop *out, unsigned threads, struct hk_error *err);
void tool_loop_free(struct hk_loop *loop);

#endif
