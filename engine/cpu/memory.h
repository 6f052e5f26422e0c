/* memory.h: how much memory there is for weights. */
#ifndef HKE_MEMORY_H
#define HKE_MEMORY_H

#include <stdint.h>

/* Bytes that this process may still come to use, what caches of files hold counting as free: of the
 * system, and of its control groups. UINT64_MAX where nothing limits it. ROOT as for
 * hke_cores_find(). */
uint64_t hke_memory_available(const char *root);

#endif
