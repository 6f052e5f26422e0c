/* Opening files, of which a .hk may be changed by others. */
#ifndef HK_OPEN_H
#define HK_OPEN_H

#include "libhkfmt/base/source.h"

/* PATH for reading, as a descriptor of the caller's own. */
enum hk_status hk_open_path(int *out, const char *path, struct hk_error *err);
/* What FD has open for reading, as a descriptor of the caller's own. Locks belong to what was
 * opened, of which FD may have duplicates in other processes: it is opened anew, if that is
 * possible. */
enum hk_status hk_reopen_fd(int *out, int fd, struct hk_error *err);
/* What FD is by its first bytes; HK_FORMAT_HK also if it is none of all, or cannot be read. */
enum hk_format hk_format_of_fd(int fd);

/* Called for each attempt, with a file that holds its one part and nothing else. */
typedef enum hk_status hk_copy_fn(void *arg, struct hk_file *f, const struct hk_source *src,
                                  struct hk_error *err);
/* Map FD, a descriptor of which nobody else has a duplicate, and let COPY take what it wants of its
 * head while no writer changes it. Where there are no locks COPY is called again until the head was
 * the same before and after. The locks that KEEP says (bits of enum hk_keep) stay until the file is
 * closed. */
enum hk_status hk_open_hk(struct hk_file **out, int fd, unsigned keep, hk_copy_fn *copy, void *arg,
                          struct hk_error *err);

#endif
