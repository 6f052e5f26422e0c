/* A file that ends too early, such as a download that broke off: as much of its head as there is,
 * for showing it. */
#include "libhkfmt/base/le.h"
#include "libhkfmt/convert/formats.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"

/* All sections end below 2^63, or it is not known where. */
static void count_section(struct hk_cut *cut, uint64_t offset, uint64_t size, bool *missing)
{
    if (size == 0)
        return;
    *missing = *missing || !range_ok(offset, size, cut->size);
    if (offset != HK_NO_OFFSET && offset + size > cut->needed)
        cut->needed = offset + size;
}

/* What of the tensors of F is missing. (GGUF pads the last one too.) */
static void count_missing_tensors(const struct hk_file *f, struct hk_cut *cut)
{
    cut->needed = f->header.appendix_offset;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        uint64_t size = t->data_size;
        bool missing = false;
        if (f->format == HK_FORMAT_GGUF && !align_ok(size, f->header.alignment, &size))
            size = t->data_size;
        count_section(cut, t->data_offset, size, &missing);
        count_section(cut, t->scale_offset, t->scale_size, &missing);
        count_section(cut, t->residual_offset, t->residual_size, &missing);
        if (missing && cut->tensors++ == 0)
            cut->first = t->name;
    }
}

static enum hk_status parse_head_of_cut(struct hk_file *f, struct hk_cut *cut, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    enum hk_format format;
    bool whole = false;
    if (f->parts[0].size == 0 || !hk_format_by_start(f->parts[0].map, f->parts[0].size, &format))
        return hk_fail(err, HK_E_FORMAT, 0, "no known magic");
    enum hk_status st = hk_format_row(format)->parse_cut(f, &whole, err);
    if (st == HK_OK)
        st = hk_build_indexes(f, &reporter, err);
    if (st != HK_OK || capture.status != HK_OK)
        return st != HK_OK ? st : capture.status;
    f->cut = true;
    *cut = (struct hk_cut){.size = f->parts[0].size};
    count_missing_tensors(f, cut);
    if (!whole)
        cut->needed = 0;
    else if (cut->needed <= cut->size)
        return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "it does not end too early");
    return HK_OK;
}

enum hk_status hk_open_cut(struct hk_file **out, const char *path, struct hk_cut *cut,
                           struct hk_error *err)
{
    struct hk_part part;
    enum hk_status st = hk_map_path(&part, path, err);
    if (st != HK_OK)
        return st;
    struct hk_file *f = hk_file_of(&part);
    if (f == NULL)
        return hk_fail_nomem(err);
    st = parse_head_of_cut(f, cut, err);
    if (st != HK_OK)
        hk_close(&f);
    else
        *out = f;
    return st;
}
