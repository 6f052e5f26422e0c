/* machine.h: what programs with the engine take from the environment, and options of theirs. */
#ifndef TOOL_MACHINE_H
#define TOOL_MACHINE_H

#include "engine/engine.h"
#include "kernels/kernels.h"
#include "tools/lib/threads.h"

/* The level of kernels that HK_KERNELS names, or the best one that runs. Exits 2 where the one
 * named does not run here. */
const struct hkk_table *tool_kernels(void);

/* The value of --activations: q8 or f32; exits 2 for another. */
enum hke_activations tool_activations(const char *value);

#endif
