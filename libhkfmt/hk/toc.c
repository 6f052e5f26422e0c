/* The tensor table (format section 4): entries of variable length, back to back, and what a
 * shared_ref of it shares. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/cursor.h"
#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/scan.h"
#include "libhkfmt/hk/wire.h"
#include "libhkfmt/tensor/geometry.h"

/* ---- what a shared_ref shares. The format stores its target's offsets but neither its index nor
 * its type, and the reference's C and Python savers store no offsets at all, only the shape
 * (format-notes section 3). Targets are kept sorted, so that a table made of references costs no
 * more than any other. ---- */

static bool is_reference(const struct hk_tensor *t)
{
    return t->type == HK_TYPE_SHARED_REF || t->type == HK_TYPE_NULL_REF;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_sections(const struct hk_tensor *a, const struct hk_tensor *b)
{
    int c = compare_numbers(a->part, b->part);
    c = c != 0 ? c : compare_numbers(a->data_offset, b->data_offset);
    return c != 0 ? c : compare_numbers(a->data_size, b->data_size);
}

static int compare_shape(const struct hk_tensor *a, const struct hk_tensor *b)
{
    int c = compare_numbers(a->part, b->part);
    c = c != 0 ? c : compare_numbers(a->ndim, b->ndim);
    for (unsigned i = 0; c == 0 && i < a->ndim; i++)
        c = compare_numbers(a->shape[i], b->shape[i]);
    return c;
}

typedef int compare_fn(const struct hk_tensor *, const struct hk_tensor *);

struct sorting {
    const struct hk_tensor *tensors;
    compare_fn *compare;
};

static int compare_targets(const void *pa, const void *pb, void *arg)
{
    const struct sorting *s = arg;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    int c = s->compare(&s->tensors[a], &s->tensors[b]);
    return c != 0 ? c : compare_numbers(a, b);
}

static bool build_target_index(struct hk_file *f, struct hk_index *x, compare_fn *compare)
{
    struct sorting s = {f->tensors, compare};
    x->order = malloc((f->tensor_count + 1) * sizeof *x->order);
    if (x->order == NULL)
        return false;
    for (size_t i = 0; i < f->tensor_count; i++)
        if (!is_reference(&f->tensors[i]))
            x->order[x->count++] = (uint32_t)i;
    qsort_r(x->order, x->count, sizeof *x->order, compare_targets, &s);
    return true;
}

enum hk_status hk_build_targets(struct hk_file *f, struct hk_error *err)
{
    size_t shared = 0;
    for (size_t i = 0; i < f->tensor_count; i++)
        shared += f->tensors[i].type == HK_TYPE_SHARED_REF;
    if (shared == 0)
        return HK_OK;
    bool good = f->tensor_count < UINT32_MAX &&
                build_target_index(f, &f->by_bytes, compare_sections) &&
                build_target_index(f, &f->by_shape, compare_shape);
    return good ? HK_OK : hk_fail_nomem(err);
}

/* Position of the first entry of X that is not below T. */
static size_t find_lower_bound(const struct hk_file *f, const struct hk_index *x,
                               const struct hk_tensor *t, compare_fn *compare)
{
    size_t low = 0, high = x->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&f->tensors[x->order[middle]], t) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entry at position AT if it is equal to T by COMPARE, else NULL. */
static const struct hk_tensor *target_at(const struct hk_file *f, const struct hk_index *x,
                                         size_t at, const struct hk_tensor *t, compare_fn *compare)
{
    const struct hk_tensor *found = at < x->count ? &f->tensors[x->order[at]] : NULL;
    return found != NULL && compare(found, t) == 0 ? found : NULL;
}

static enum hk_status refuse_reference(const struct hk_tensor *t, const char *why,
                                       struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, t->entry_offset, "tensor %.*s: shared_ref %s", HK_STR(t->name),
                   why);
}

/* Scales are the target's or not noted, and so is a residual, which the reference never notes. */
static bool has_same_extras(const struct hk_tensor *t, const struct hk_tensor *target)
{
    bool scales = t->scale_offset == target->scale_offset && t->scale_size == target->scale_size;
    bool residual =
        t->residual_offset == target->residual_offset && t->residual_size == target->residual_size;
    return (scales || t->scale_size == 0) && (residual || t->residual_size == 0);
}

/* Offsets name the target; any position in the table will do, since only one tensor can own the
 * bytes. */
static enum hk_status find_target_by_bytes(const struct hk_file *f, const struct hk_tensor *t,
                                           const struct hk_tensor **out, struct hk_error *err)
{
    size_t at = find_lower_bound(f, &f->by_bytes, t, compare_sections);
    const struct hk_tensor *target = target_at(f, &f->by_bytes, at, t, compare_sections);
    if (target == NULL)
        return refuse_reference(t, "points at no tensor", err);
    if (hk_tensor_elems(target) != hk_tensor_elems(t))
        return refuse_reference(t, "has another number of elements than its target", err);
    *out = target;
    return HK_OK;
}

/* Entries of one shape are in table order, so the first two decide. */
static enum hk_status find_target_by_shape(const struct hk_file *f, const struct hk_tensor *t,
                                           const struct hk_tensor **out, struct hk_error *err)
{
    size_t at = find_lower_bound(f, &f->by_shape, t, compare_shape);
    const struct hk_tensor *first = target_at(f, &f->by_shape, at, t, compare_shape);
    const struct hk_tensor *second = target_at(f, &f->by_shape, at + 1, t, compare_shape);
    if (first == NULL || first > t)
        return refuse_reference(t, "without bytes fits no earlier tensor", err);
    if (second != NULL && second < t)
        return refuse_reference(t, "without bytes fits more than one earlier tensor", err);
    *out = first;
    return HK_OK;
}

enum hk_status hk_tensor_resolve(const struct hk_file *f, const struct hk_tensor *t,
                                 const struct hk_tensor **out, struct hk_error *err)
{
    const struct hk_tensor *target = t;
    enum hk_status st = t->type != HK_TYPE_SHARED_REF ? HK_OK
                        : t->data_size > 0            ? find_target_by_bytes(f, t, &target, err)
                                                      : find_target_by_shape(f, t, &target, err);
    if (st == HK_OK && target != t && !has_same_extras(t, target))
        st = refuse_reference(t, "has other scales or another residual than its target", err);
    if (st == HK_OK)
        *out = target;
    return st;
}

/* ---- entries ---- */

static struct hk_where place_of_tensor(const struct hk_tensor *t, uint64_t index, uint64_t offset)
{
    return (struct hk_where){offset, HK_SUBJECT_TENSOR, t->name, index};
}

/* Positions inside an entry, from its start: messages point at the field. */
static uint64_t offset_of_codes(const struct hk_tensor *t)
{
    return t->entry_offset + 2 + t->name.n;
}

static uint64_t offset_of_sections(const struct hk_tensor *t)
{
    return offset_of_codes(t) + 4 + 8 * (uint64_t)t->ndim;
}

static bool take_tensor_name(struct cursor *c, struct hk_tensor *t)
{
    t->entry_offset = c->at;
    const uint8_t *p = cursor_take(c, 2);
    if (p == NULL)
        return false;
    t->name.n = le16(p);
    t->name.p = cursor_take(c, t->name.n);
    return t->name.p != NULL;
}

static bool take_tensor_sections(struct cursor *c, struct hk_tensor *t)
{
    const uint8_t *p = cursor_take(c, 54);
    if (p == NULL)
        return false;
    t->data_offset = le64(p);
    t->data_size = le64(p + 8);
    t->residual_offset = le64(p + 16);
    t->residual_size = le64(p + 24);
    t->scale_offset = le64(p + 32);
    t->scale_size = le64(p + 40);
    t->block_size = le16(p + 48);
    t->sparsity_ratio = le_f32(p + 50);
    return true;
}

enum taken { TAKEN, TAKEN_SHORT, TAKEN_NDIM };

static enum taken take_tensor_entry(struct cursor *c, struct hk_tensor *t)
{
    const uint8_t *p = take_tensor_name(c, t) ? cursor_take(c, 4) : NULL;
    if (p == NULL)
        return TAKEN_SHORT;
    t->type = p[0];
    t->layout = p[1];
    t->sparsity = p[2];
    t->ndim = p[3];
    if (t->ndim > HK_MAX_DIMS)
        return TAKEN_NDIM;
    p = cursor_take(c, 8 * (uint64_t)t->ndim);
    if (p == NULL)
        return TAKEN_SHORT;
    for (unsigned i = 0; i < t->ndim; i++)
        t->shape[i] = le64(p + 8 * i);
    return take_tensor_sections(c, t) ? TAKEN : TAKEN_SHORT;
}

static void check_tensor_name(const struct hk_scan *s, const struct hk_tensor *t, uint64_t i)
{
    struct hk_where w = place_of_tensor(t, i, t->entry_offset);
    if (t->name.n == 0)
        hk_report(s->r, HK_FAULT_NAME_EMPTY, &w, "tensor %llu has an empty name",
                  (unsigned long long)i);
    if (t->name.n > HK_MAX_NAME)
        hk_report(s->r, HK_FAULT_NAME_LENGTH, &w, "tensor %llu: name of %zu bytes, the limit is %d",
                  (unsigned long long)i, t->name.n, HK_MAX_NAME);
}

/* True if all three codes are known, so that sizes can be judged. */
static bool check_tensor_codes(const struct hk_scan *s, const struct hk_tensor *t, uint64_t i)
{
    struct hk_where w = place_of_tensor(t, i, offset_of_codes(t));
    bool type = hk_type_info(t->type) != NULL;
    bool layout = hk_layout_name(t->layout) != NULL;
    bool sparsity = hk_sparsity_name(t->sparsity) != NULL;
    if (!type)
        hk_report(s->r, HK_FAULT_STORAGE_TYPE, &w, "tensor %.*s: unknown storage type 0x%02x",
                  HK_STR(t->name), t->type);
    w.offset++;
    if (!layout)
        hk_report(s->r, HK_FAULT_TILE_LAYOUT, &w, "tensor %.*s: unknown tile layout 0x%02x",
                  HK_STR(t->name), t->layout);
    w.offset++;
    if (!sparsity)
        hk_report(s->r, HK_FAULT_SPARSITY_TYPE, &w, "tensor %.*s: unknown sparsity type 0x%02x",
                  HK_STR(t->name), t->sparsity);
    return type && layout && sparsity;
}

static void check_tensor_section(const struct hk_scan *s, const struct hk_tensor *t, uint64_t i,
                                 const char *what, uint64_t field, uint64_t offset, uint64_t size)
{
    struct hk_where w = place_of_tensor(t, i, field);
    const struct hk_header *h = &s->f->header;
    uint64_t alignment = h->alignment;
    if (size == 0) /* the reference notes where bytes would be, perhaps past the end of the file */
        return;
    if (!range_ok(offset, size, s->size)) {
        hk_report(s->r, HK_FAULT_SECTION_RANGE, &w,
                  "tensor %.*s: %s at %llu of %llu bytes ends past the file of %llu",
                  HK_STR(t->name), what, (unsigned long long)offset, (unsigned long long)size,
                  (unsigned long long)s->size);
        return;
    }
    if (offset < h->tensor_data_offset)
        hk_report(s->r, HK_FAULT_SECTION_RANGE, &w,
                  "tensor %.*s: %s at %llu lies before tensor_data_offset %llu", HK_STR(t->name),
                  what, (unsigned long long)offset, (unsigned long long)h->tensor_data_offset);
    bool power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (power_of_two && offset % alignment != 0)
        hk_report(s->r, HK_FAULT_SECTION_ALIGNMENT, &w,
                  "tensor %.*s: %s at %llu is not aligned to %llu", HK_STR(t->name), what,
                  (unsigned long long)offset, (unsigned long long)alignment);
}

static void check_tensor_sections(const struct hk_scan *s, const struct hk_tensor *t, uint64_t i)
{
    uint64_t at = offset_of_sections(t);
    check_tensor_section(s, t, i, "data", at, t->data_offset, t->data_size);
    check_tensor_section(s, t, i, "residual", at + 16, t->residual_offset, t->residual_size);
    check_tensor_section(s, t, i, "scales", at + 32, t->scale_offset, t->scale_size);
    struct hk_where w = place_of_tensor(t, i, at + 16);
    if ((t->residual_size == 0 && t->residual_offset != 0) ||
        (t->scale_size == 0 && t->scale_offset != 0))
        hk_report(s->r, HK_FAULT_SECTION_RANGE, &w,
                  "tensor %.*s: a section of no bytes has an offset", HK_STR(t->name));
}

static void check_tensor_entry(const struct hk_scan *s, const struct hk_tensor *t, uint64_t i)
{
    check_tensor_name(s, t, i);
    bool known = check_tensor_codes(s, t, i);
    check_tensor_sections(s, t, i);
    struct hk_geometry g;
    if (known && hk_geometry(t, i, s->r, &g) && g.mislabelled) {
        struct hk_where w = place_of_tensor(t, i, offset_of_codes(t));
        bool surely = g.form == HK_FORM_DENSE || g.form == HK_FORM_TILED;
        hk_report(s->r, HK_FAULT_MISLABELLED, &w, "tensor %.*s: %sdense f32 under the label %s, %s",
                  HK_STR(t->name), surely ? "" : "perhaps ", hk_type_info(t->type)->name,
                  hk_sparsity_name(t->sparsity));
    }
}

static void check_references(const struct hk_scan *s)
{
    for (size_t i = 0; i < s->f->tensor_count; i++) {
        const struct hk_tensor *t = &s->f->tensors[i], *target;
        struct hk_error why;
        if (t->type != HK_TYPE_SHARED_REF || hk_tensor_resolve(s->f, t, &target, &why) == HK_OK)
            continue;
        struct hk_where w = place_of_tensor(t, i, offset_of_sections(t));
        hk_report(s->r, HK_FAULT_REFERENCE, &w, "%s", why.text);
    }
}

/* Where no tensor has a byte nothing has to begin there. */
static void check_data_offset(const struct hk_scan *s)
{
    const struct hk_header *h = &s->f->header;
    bool any = false;
    for (size_t i = 0; !any && i < s->f->tensor_count; i++) {
        const struct hk_tensor *t = &s->f->tensors[i];
        any = t->data_size > 0 || t->scale_size > 0 || t->residual_size > 0;
    }
    if (any && h->tensor_data_offset > s->size)
        hk_report(s->r, HK_FAULT_DATA_RANGE, hk_at(HK_AT_DATA_OFFSET),
                  "tensor_data_offset %llu is past the end of the file of %llu",
                  (unsigned long long)h->tensor_data_offset, (unsigned long long)s->size);
}

static enum hk_status take_tensor_entries(struct hk_scan *s, size_t count, struct cursor *c,
                                          struct hk_error *err)
{
    const bool ends_early = s->cut && s->f->table.n < s->f->header.tensor_toc_size;
    const size_t most = s->f->table.n / HK_ENTRY_FIXED;
    s->f->tensors = calloc((count < most ? count : most) + 1, sizeof *s->f->tensors);
    if (s->f->tensors == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < count; i++) {
        struct hk_tensor *t = &s->f->tensors[i];
        enum taken taken = take_tensor_entry(c, t);
        if (taken == TAKEN_NDIM) {
            struct hk_where w = place_of_tensor(t, i, offset_of_codes(t) + 3);
            hk_report(s->r, HK_FAULT_NDIM, &w, "tensor %.*s: %u dimensions, the limit is %d",
                      HK_STR(t->name), t->ndim, HK_MAX_DIMS);
            return HK_OK; /* where the next entry starts is not known */
        }
        if (taken == TAKEN_SHORT && ends_early)
            return HK_OK;
        if (taken == TAKEN_SHORT) {
            hk_report(s->r, HK_FAULT_TOC_COUNT, hk_at(t->entry_offset),
                      "tensor entry %zu of %zu ends past the tensor table", i, count);
            return HK_OK;
        }
        s->f->tensor_count = i + 1;
        check_tensor_entry(s, t, i);
    }
    if (cursor_left(c) > 0)
        hk_report(s->r, HK_FAULT_TOC_TRAILING, hk_at(c->at),
                  "%llu bytes of the tensor table follow its last entry",
                  (unsigned long long)cursor_left(c));
    return HK_OK;
}

enum hk_status hk_scan_toc(struct hk_scan *s, struct hk_error *err)
{
    const struct hk_header *h = &s->f->header;
    if (h->tensor_toc_size > 0 && !range_ok(h->tensor_toc_offset, h->tensor_toc_size, s->size))
        return HK_OK; /* reported with the header */
    if (h->tensor_count > h->tensor_toc_size / HK_ENTRY_FIXED) {
        hk_report(s->r, HK_FAULT_TOC_COUNT, hk_at(HK_AT_TENSOR_COUNT),
                  "tensor_count %llu does not fit a table of %llu bytes",
                  (unsigned long long)h->tensor_count, (unsigned long long)h->tensor_toc_size);
        return HK_OK;
    }
    enum hk_status st = hk_source_copy(s->src, &s->f->arena, &s->f->table, h->tensor_toc_offset,
                                       h->tensor_toc_size, err);
    struct cursor c = {.base = s->f->table.p,
                       .at = h->tensor_toc_offset,
                       .end = h->tensor_toc_offset + s->f->table.n,
                       .start = h->tensor_toc_offset};
    if (st == HK_OK)
        st = take_tensor_entries(s, (size_t)h->tensor_count, &c, err);
    if (st == HK_OK)
        st = hk_build_targets(s->f, err);
    if (st == HK_OK) {
        check_data_offset(s);
        check_references(s);
    }
    return st;
}
