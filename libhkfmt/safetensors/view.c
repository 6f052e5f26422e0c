/* What safetensors has no form for, decoded: quantised, sparse and tiled tensors. */
#include "libhkfmt/convert/view.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/safetensors/st.h"
#include "libhkfmt/tensor/geometry.h"
#include "libhkfmt/tensor/types.h"

/* Whether T's bytes are what safetensors means by its dtype. */
static bool is_plain(const struct hk_tensor *t, size_t i)
{
    struct hk_geometry g;
    return hk_st_dtype(t->type) != NULL && hk_geometry(t, i, NULL, &g) && !g.mislabelled &&
           hk_st_is_form(t, &g);
}

/* Floats that are sparse or in tiles stay what they are. */
static enum hk_type dense_type(unsigned type, enum hk_type wanted)
{
    const bool floats =
        type == HK_TYPE_F32 || type == HK_TYPE_SPARSE_F16 || type == HK_TYPE_SPARSE_2_4;
    return floats ? HK_TYPE_F32 : wanted;
}

/* f32 holds what a decoder gives. */
static void tell(const struct hk_convert_options *opt, const size_t *decoded)
{
    for (unsigned type = 0; type < HK_TYPE_CODES; type++) {
        const struct hk_type_info *info = hk_type_info(type);
        if (decoded[type] > 0 && info != NULL)
            hk_lost(opt, "%zu tensor%s of type %s: %s %s", decoded[type],
                    decoded[type] == 1 ? "" : "s", info->name,
                    dense_type(type, opt->dense) == HK_TYPE_F32 ? "decoded to"
                                                                : "decoded and rounded to",
                    hk_type_info(dense_type(type, opt->dense))->name);
    }
}

/* What a GGUF says of its quantisation is not true of decoded tensors. */
static void drop_outdated(struct hk_view *v, const struct hk_convert_options *opt)
{
    static const char *const keys[] = {"general.file_type", "general.quantization_version"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (hk_kvlist_find(&v->kvs, keys[i]) == NULL)
            continue;
        hk_lost(opt, "key %s: left out, as tensors are no longer quantised", keys[i]);
        hk_kvlist_remove(&v->kvs, keys[i]);
    }
}

enum hk_status hk_st_decode(struct hk_view *v, const struct hk_convert_options *opt,
                            struct hk_error *err)
{
    size_t decoded[HK_TYPE_CODES] = {0};
    bool any = false;
    enum hk_status status = HK_OK;
    v->max_output = opt->max_output;
    for (size_t i = 0; status == HK_OK && i < v->file->tensor_count; i++) {
        const struct hk_tensor *t = &v->file->tensors[i];
        const unsigned type = t->type;
        if (v->file->how[i].made != NULL || is_plain(t, i))
            continue;
        status = hk_view_decode(v, i, dense_type(type, opt->dense), err);
        any = true;
        if (type < HK_TYPE_CODES)
            decoded[type]++;
    }
    if (status == HK_OK && any) {
        tell(opt, decoded);
        drop_outdated(v, opt);
    }
    return status;
}

enum hk_status hk_st_view(struct hk_view **out, struct hk_file *f,
                          const struct hk_convert_options *opt, struct hk_error *err)
{
    struct hk_view *v = NULL;
    *out = NULL;
    if (f->format == HK_FORMAT_SAFETENSORS && f->part_count == 1)
        return HK_OK;
    enum hk_status status = hk_view_new(&v, f, err);
    if (status == HK_OK)
        status = hk_st_decode(v, opt, err);
    if (status == HK_OK)
        status = hk_view_ready(v, err);
    if (status != HK_OK)
        hk_view_free(&v);
    *out = v;
    return status;
}
