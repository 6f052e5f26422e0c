/* The names of a set's files. */
#include "libhkfmt/internal.h"

const char *hk_file_part_name(const struct hk_file *f, size_t part)
{
    return part < f->part_count ? f->parts[part].name : NULL;
}
