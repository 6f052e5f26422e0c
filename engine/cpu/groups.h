/* groups.h: the control groups that this process is in. */
#ifndef HKE_GROUPS_H
#define HKE_GROUPS_H

#include <stdbool.h>
#include <stddef.h>

/* DIR: the directory of a group; SECOND: of version 2. */
typedef void hke_group_fn(void *arg, const char *dir, bool second);

/* Call FN for each group that this process is in by CONTROLLER ("cpu", "memory"), of version 2 and
 * of version 1, from its own up to the highest that can be seen: all of them limit it. ROOT as for
 * hke_cores_find(). */
void hke_each_group(const char *root, const char *controller, hke_group_fn *fn, void *arg);

/* The beginning of a small file, such as the kernel has, as text; false where it cannot be read. */
__attribute__((format(printf, 3, 4))) bool hke_read_small_file(char *text, size_t size,
                                                               const char *path, ...);

#endif
