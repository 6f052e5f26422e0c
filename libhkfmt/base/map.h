/* Read-only mappings of regular files. */
#ifndef HK_MAP_H
#define HK_MAP_H

#include "libhkfmt/hk/file.h"

/* Map all of a regular file; *OUT is released with hk_unmap(). The descriptor stays the caller's.
 * An empty file has no mapping. */
enum hk_status hk_map_fd(struct hk_part *out, int fd, struct hk_error *err);
enum hk_status hk_map_path(struct hk_part *out, const char *path, struct hk_error *err);
void hk_unmap(struct hk_part *part);

#endif
