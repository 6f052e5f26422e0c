/* The files that a model was read from: whatever an output is called, it must be none of them. */
#include <stdlib.h>
#include <sys/stat.h>

#include "libhkfmt/hk/file.h"
#include "libhkfmt/set/save.h"

static int compare(const void *pa, const void *pb)
{
    const struct hk_identity *a = pa, *b = pb;
    int c = (a->dev > b->dev) - (a->dev < b->dev);
    return c != 0 ? c : (a->ino > b->ino) - (a->ino < b->ino);
}

enum hk_status hk_identities_of(const struct hk_file *f, struct hk_identities *out,
                                struct hk_error *err)
{
    out->list = calloc(f->part_count + 1, sizeof *out->list);
    if (out->list == NULL)
        return hk_fail_nomem(err);
    out->count = f->part_count;
    for (size_t i = 0; i < f->part_count; i++)
        out->list[i] = (struct hk_identity){f->parts[i].dev, f->parts[i].ino};
    qsort(out->list, out->count, sizeof *out->list, compare);
    return HK_OK;
}

enum hk_status hk_check_not_input(const struct hk_identities *input, const char *path,
                                  struct hk_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return HK_OK;
    const struct hk_identity is = {(uint64_t)st.st_dev, (uint64_t)st.st_ino};
    if (bsearch(&is, input->list, input->count, sizeof is, compare) == NULL)
        return HK_OK;
    return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the output is the input file");
}

void hk_identities_free(struct hk_identities *x)
{
    free(x->list);
    *x = (struct hk_identities){0};
}
