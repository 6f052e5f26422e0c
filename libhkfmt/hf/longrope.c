/* Ropes whose pairs are slowed down by factors of their own: one list for texts within the original
 * context, one for longer ones. In config.json they are lists, everywhere else two tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hk/file.h"

static const struct {
    const char *field;
    enum hk_tensor_role role;
} lists[] = {{"short_factor", HK_ROLE_ROPE_SHORT}, {"long_factor", HK_ROLE_ROPE_LONG}};

enum { LISTS = sizeof lists / sizeof *lists };

void hk_hf_check_longrope(struct hk_hf_in *in, const json_t *o, uint32_t pairs)
{
    for (size_t i = 0; i < LISTS; i++) {
        const json_t *list = hk_hf_field(o, lists[i].field);
        hk_hf_need(in, o, lists[i].field);
        bool good = json_array_size(list) == pairs;
        for (size_t k = 0; good && k < pairs; k++) {
            const double v = json_number_value(json_array_get(list, k));
            good = (float)v > 0 && isfinite((float)v);
        }
        if (!good)
            hk_hf_refuse(in, HK_E_FORMAT, lists[i].field, list,
                         "not a number above 0 for each pair that rotates");
    }
}

/* The object in config.json with such lists; NULL: there is none. */
static const json_t *find_longrope(const json_t *json)
{
    static const char *const places[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (hk_hf_field(hk_hf_field(json, places[i]), lists[0].field) != NULL)
            return hk_hf_field(json, places[i]);
    return NULL;
}

static float factor_at(const json_t *list, size_t i)
{
    return (float)json_number_value(json_array_get(list, i));
}

/* LIST as the tensor ROLE at the end of F, of bytes MADE in its last part. */
static void add_factor_tensor(struct hk_file *f, const json_t *list, enum hk_tensor_role role,
                              uint8_t *made)
{
    const char *name = hk_tensor_role_name(role);
    const size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const float v = factor_at(list, i);
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        put32(made + 4 * i, bits);
    }
    f->tensors[f->tensor_count] =
        (struct hk_tensor){.name = {(const uint8_t *)name, strlen(name)},
                           .type = HK_TYPE_F32,
                           .ndim = 1,
                           .shape = {n},
                           .part = (uint32_t)f->part_count,
                           .data_offset = (uint64_t)(made - f->parts[f->part_count].map),
                           .data_size = 4 * n,
                           .entry_offset = HK_NO_OFFSET};
    if (f->how != NULL)
        f->how[f->tensor_count] = (struct hk_how){.made = made};
    f->tensor_count++;
}

enum hk_status hk_hf_make_longrope(struct hk_file *f, const json_t *json, struct hk_error *err)
{
    const json_t *o = find_longrope(json);
    const size_t n = json_array_size(hk_hf_field(o, lists[0].field));
    if (o == NULL)
        return HK_OK;
    struct hk_tensor *tensors = reallocarray(f->tensors, f->tensor_count + LISTS, sizeof *tensors);
    f->tensors = tensors != NULL ? tensors : f->tensors;
    struct hk_how *how = f->how;
    if (how != NULL)
        how = reallocarray(f->how, f->tensor_count + LISTS, sizeof *how);
    const bool good = tensors != NULL && (f->how == NULL || how != NULL);
    f->how = how != NULL ? how : f->how;
    uint8_t *made = good ? hk_file_make_part(f, LISTS * 4 * n) : NULL;
    if (made == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; i < LISTS; i++)
        add_factor_tensor(f, hk_hf_field(o, lists[i].field), lists[i].role, made + 4 * n * i);
    return HK_OK;
}

static enum hk_status compare_factors(const struct hk_file *f, const struct hk_tensor *t,
                                      const json_t *list, struct hk_error *err)
{
    const size_t n = (size_t)hk_tensor_elems(t);
    struct hk_decoder *d;
    enum hk_status st = hk_decoder_new(&d, f, t, err);
    if (st != HK_OK)
        return st;
    float *v = calloc(n + 1, sizeof *v);
    bool same = json_array_size(list) == n;
    if (v != NULL)
        hk_decoder_read(d, 0, n, v);
    for (size_t i = 0; v != NULL && same && i < n; i++)
        same = v[i] == factor_at(list, i);
    hk_decoder_free(&d);
    free(v);
    if (v == NULL)
        return hk_fail_nomem(err);
    return same ? HK_OK
                : hk_fail(err, HK_E_UNSUPPORTED, t->entry_offset,
                          "tensor %.*s holds other factors than the config.json that is stored",
                          HK_STR(t->name));
}

enum hk_status hk_hf_refuse_longrope(const struct hk_file *f, const json_t *stored,
                                     struct hk_error *err)
{
    const json_t *o = find_longrope(stored);
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < LISTS && st == HK_OK; i++) {
        const struct hk_tensor *t = hk_tensor_find(f, hk_tensor_role_name(lists[i].role));
        if (t != NULL)
            st = compare_factors(f, t, hk_hf_field(o, lists[i].field), err);
        else if (o != NULL)
            st = hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no tensor %s",
                         hk_tensor_role_name(lists[i].role));
    }
    return st;
}
