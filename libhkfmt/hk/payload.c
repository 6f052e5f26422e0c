/* What is wrong inside payloads: NaN, infinities, scales that lose their block, codes that stand
 * for nothing. A first pass over a tensor only asks whether there is anything, so that sound files
 * are read at memory speed; a second one counts and finds the place. */
#include <math.h>
#include <string.h>

#include "libhkfmt/base/fault.h"
#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/verify.h"
#include "libhkfmt/tensor/decode.h"
#include "libhkfmt/tensor/types.h"

/* What is counted in a tensor, each with the offset of the first. */
enum finding { NANS, INFINITIES, ZERO_SCALES, NAN_SCALES, ODD_BOOLS, STRAY_BITS, FINDINGS };

static const struct {
    enum hk_fault_id fault;
    const char *text; /* behind the number */
} findings[FINDINGS] = {
    [NANS] = {HK_FAULT_PAYLOAD_NAN, "NaN"},
    [INFINITIES] = {HK_FAULT_PAYLOAD_INF, "infinities"},
    [ZERO_SCALES] = {HK_FAULT_PAYLOAD_SCALE, "blocks have codes but a scale of zero"},
    [NAN_SCALES] = {HK_FAULT_PAYLOAD_SCALE,
                    "scales are the code for NaN, which is read as a number"},
    [ODD_BOOLS] = {HK_FAULT_PAYLOAD_BOOL, "truth values are neither 0 nor 1"},
    [STRAY_BITS] = {HK_FAULT_PAYLOAD_MASK, "bits are set behind the last element of the mask"},
};

struct tally {
    struct {
        uint64_t count, first; /* file offset of the first */
    } of[FINDINGS];
};

static void note_finding(struct tally *t, enum finding what, uint64_t offset)
{
    if (t->of[what].count++ == 0)
        t->of[what].first = offset;
}

/* ---- floats of 1, 2, 4 and 8 bytes: exponent all ones; fp8_e4m3 has only NaN ---- */

struct float_kind {
    uint16_t type;
    uint8_t bytes;
    uint64_t exponent, mantissa; /* bit masks */
    bool only_nan; /* all ones in both masks together is NaN, and there are no infinities */
};

static const struct float_kind float_kinds[] = {
    {HK_TYPE_F32, 4, 0x7f800000, 0x007fffff, false},
    {HK_TYPE_F16, 2, 0x7c00, 0x03ff, false},
    {HK_TYPE_BF16, 2, 0x7f80, 0x007f, false},
    {HK_TYPE_FP8_E4M3, 1, 0x78, 0x07, true},
    {HK_TYPE_FP8_E5M2, 1, 0x7c, 0x03, false},
    {HK_TYPE_F64, 8, 0x7ff0000000000000, 0x000fffffffffffff, false},
};

static uint64_t load_bits(const uint8_t *p, uint8_t bytes)
{
    return bytes == 1 ? *p : bytes == 2 ? le16(p) : bytes == 4 ? le32(p) : le64(p);
}

static uint64_t special_mask(const struct float_kind *k)
{
    return k->only_nan ? k->exponent | k->mantissa : k->exponent;
}

static bool is_special(uint64_t bits, const struct float_kind *k)
{
    return (bits & special_mask(k)) == special_mask(k);
}

/* Whether any element is special, eight bytes at a time: of each element those bits of the mask are
 * kept that are not set, and an element without one does not reach its top bit when 0x7f... is
 * added. */
static bool has_special(struct hk_bytes data, const struct float_kind *k)
{
    unsigned bits = 8u * k->bytes;
    uint64_t top = UINT64_C(1) << (bits - 1), mask = special_mask(k), found = 0;
    for (unsigned at = bits; at < 64; at *= 2) {
        mask |= mask << at;
        top |= top << at;
    }
    uint64_t below = top - (top >> (bits - 1));
    size_t i = 0;
    for (; i + 8 <= data.n; i += 8)
        found |= ~((~le64(data.p + i) & mask) + below) & top;
    for (; i + k->bytes <= data.n; i += k->bytes)
        found |= is_special(load_bits(data.p + i, k->bytes), k);
    return found != 0;
}

static void tally_floats(struct hk_bytes data, uint64_t offset, const struct float_kind *k,
                         struct tally *t)
{
    if (!has_special(data, k))
        return;
    for (size_t i = 0; i + k->bytes <= data.n; i += k->bytes) {
        uint64_t bits = load_bits(data.p + i, k->bytes);
        if (!is_special(bits, k))
            continue;
        bool nan = k->only_nan || (bits & k->mantissa) != 0;
        note_finding(t, nan ? NANS : INFINITIES, offset + i);
    }
}

static void tally_f32(struct hk_bytes data, uint64_t offset, struct tally *t)
{
    tally_floats(data, offset, &float_kinds[0], t);
}

/* The code for NaN of types that have one byte and one such code; -1 of all others. */
static int nan_code(unsigned type)
{
    return type == HK_TYPE_FP8_E8M0                                       ? 0xff
           : type == HK_TYPE_FP8_E4M3FNUZ || type == HK_TYPE_FP8_E5M2FNUZ ? 0x80
                                                                          : -1;
}

static void tally_nan_codes(struct hk_bytes data, uint64_t offset, int code, struct tally *t)
{
    for (size_t i = 0; i < data.n; i++)
        if (data.p[i] == code)
            note_finding(t, NANS, offset + i);
}

static void tally_bools(struct hk_bytes data, uint64_t offset, struct tally *t)
{
    for (size_t i = 0; i < data.n; i++)
        if (data.p[i] > 1)
            note_finding(t, ODD_BOOLS, offset + i);
}

/* ---- block scales ---- */

static bool is_uniform(const uint8_t *p, size_t n)
{
    return n < 2 || memcmp(p, p + 1, n - 1) == 0;
}

static void tally_scale(const uint8_t *p, uint64_t offset, struct tally *t)
{
    uint16_t bits = le16(p);
    if ((bits & 0x7c00) == 0x7c00)
        note_finding(t, (bits & 0x03ff) != 0 ? NANS : INFINITIES, offset);
}

/* A zero scale is what a quantiser writes for a block of zeros, whose codes are then one byte
 * repeated; other codes under a zero scale are values that got lost. */
static void tally_blocks(struct hk_bytes data, uint64_t offset, size_t block_bytes,
                         const struct hk_block_scales *k, struct tally *t)
{
    for (size_t i = 0; i + block_bytes <= data.n; i += block_bytes) {
        const uint8_t *block = data.p + i;
        const uint8_t *scale = block + k->scale;
        tally_scale(scale, offset + i + k->scale, t);
        if (k->halves > 1)
            tally_scale(block + k->minimum, offset + i + k->minimum, t);
        if ((le16(scale) & 0x7fff) == 0 && !is_uniform(block + k->codes, k->code_bytes))
            note_finding(t, ZERO_SCALES, offset + i);
    }
}

/* The two whose scale is not an f16 in one place: an f32, and the high nibbles of four u16. */
static void tally_odd_blocks(struct hk_bytes data, uint64_t offset, unsigned type, struct tally *t)
{
    size_t block_bytes = hk_type_info(type)->block_bytes;
    for (size_t i = 0; i + block_bytes <= data.n; i += block_bytes) {
        const uint8_t *p = data.p + i, *nibbles = p + 48;
        uint8_t scale[2];
        if (type == HK_TYPE_Q8_K) {
            tally_f32((struct hk_bytes){p, 4}, offset + i, t);
            continue;
        }
        scale[0] = (uint8_t)(nibbles[1] >> 4 | (nibbles[3] & 0xf0));
        scale[1] = (uint8_t)(nibbles[5] >> 4 | (nibbles[7] & 0xf0));
        tally_scale(scale, offset + i + 48, t);
    }
}

/* Scales of one byte. OCP's E8M0 and E4M3 have a code for NaN that ggml reads as 2^128 and as 0,
 * and so does hk. A scale of nvfp4 belongs to 8 bytes of codes. */
static bool is_nan_scale(unsigned type, uint8_t scale)
{
    return type == HK_TYPE_MXFP4 ? scale == 0xff : (scale & 0x7f) == 0x7f;
}

static void tally_micro_blocks(struct hk_bytes data, uint64_t offset, unsigned type,
                               struct tally *t)
{
    const size_t block_bytes = hk_type_info(type)->block_bytes;
    const size_t scales = type == HK_TYPE_NVFP4 ? 4 : 1;
    for (size_t i = 0; i + block_bytes <= data.n; i += block_bytes)
        for (size_t k = 0; k < scales; k++) {
            const uint8_t *scale = data.p + i + k;
            if (is_nan_scale(type, *scale))
                note_finding(t, NAN_SCALES, offset + i + k);
            else if (type == HK_TYPE_NVFP4 && (*scale & 0x7f) == 0 &&
                     !is_uniform(data.p + i + scales + 8 * k, 8))
                note_finding(t, ZERO_SCALES, offset + i + k);
        }
}

/* Of the split forms, whose scales have a section of their own. */
static void tally_split_scales(const struct hk_file *f, const struct hk_tensor *tensor,
                               struct tally *t)
{
    const struct hk_bytes scales = hk_tensor_scales(f, tensor);
    if (tensor->type != HK_TYPE_MXFP4 && tensor->type != HK_TYPE_NVFP4)
        return;
    for (size_t i = 0; i < scales.n; i++)
        if (is_nan_scale(tensor->type, scales.p[i]))
            note_finding(t, NAN_SCALES, tensor->scale_offset + i);
}

/* The incompatible encoding that the reference's own quantiser stores as q4_k has all sub-block
 * scales 1. */
static bool looks_like_legacy_q4_k(struct hk_bytes data)
{
    static const uint8_t ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i + 144 <= data.n; i += 144)
        if (memcmp(data.p + i + 4, ones, sizeof ones) != 0)
            return false;
    return data.n >= 144;
}

/* ---- tensors ---- */

static struct hk_where tensor_place(const struct hk_file *f, const struct hk_tensor *t,
                                    uint64_t offset)
{
    return (struct hk_where){offset, HK_SUBJECT_TENSOR, t->name, (uint64_t)(t - f->tensors)};
}

static void tally_blocks_of(const struct hk_file *f, const struct hk_tensor *t, struct tally *tally,
                            const struct hk_reporter *r)
{
    struct hk_bytes data = hk_tensor_data(f, t);
    const struct hk_block_scales *scales = hk_block_scales_of(t->type);
    if (scales != NULL && scales->halves > 0)
        tally_blocks(data, t->data_offset, hk_type_info(t->type)->block_bytes, scales, tally);
    if (t->type == HK_TYPE_Q8_K || t->type == HK_TYPE_IQ1_M)
        tally_odd_blocks(data, t->data_offset, t->type, tally);
    if (t->type == HK_TYPE_MXFP4 || t->type == HK_TYPE_NVFP4)
        tally_micro_blocks(data, t->data_offset, t->type, tally);
    struct hk_where w = tensor_place(f, t, t->data_offset);
    if (t->type == HK_TYPE_Q4_K && looks_like_legacy_q4_k(data))
        hk_report(
            r, HK_FAULT_DEFECT, &w,
            "tensor %.*s: all sub-block scales are 1: perhaps the reference's own q4_k encoding, "
            "which no other program reads",
            HK_STR(t->name));
}

/* Bits of the mask's last bytes that stand for no element; no reader counts them. */
static void tally_stray_bits(struct hk_bytes data, uint64_t offset, uint64_t elems, struct tally *t)
{
    for (uint64_t i = elems; i < (elems + 31) / 32 * 32; i++)
        if (data.p[i / 8] >> i % 8 & 1)
            note_finding(t, STRAY_BITS, offset + i / 8);
}

/* Of a sparse tensor only the stored values: its shape may be vast where they are few. */
static enum hk_status tally_sparse(const struct hk_file *f, const struct hk_tensor *t,
                                   struct tally *tally, struct hk_error *err)
{
    struct hk_bytes data = hk_tensor_data(f, t);
    struct hk_decoder *d;
    enum hk_status st = hk_decoder_new(&d, f, t, err);
    if (st != HK_OK)
        return st;
    const uint8_t *values = hk_decoder_values(d);
    if (values != NULL) {
        size_t skip = (size_t)(values - data.p);
        tally_f32((struct hk_bytes){values, data.n - skip}, t->data_offset + skip, tally);
    }
    if (hk_decoder_form(d) == HK_FORM_BITMASK)
        tally_stray_bits(data, t->data_offset, hk_tensor_elems(t), tally);
    hk_decoder_free(&d);
    return HK_OK;
}

/* What no part of a block tells is judged by what it decodes to. */
static enum hk_status tally_decoded(const struct hk_file *f, const struct hk_tensor *t,
                                    struct tally *tally, struct hk_error *err)
{
    enum { CHUNK = 4096 };
    float values[CHUNK];
    struct hk_decoder *d;
    enum hk_status st = hk_decoder_new(&d, f, t, err);
    if (st != HK_OK)
        return st;
    uint64_t elems = hk_tensor_elems(t);
    for (uint64_t at = 0; at < elems; at += CHUNK) {
        size_t n = elems - at < CHUNK ? (size_t)(elems - at) : CHUNK;
        hk_decoder_read(d, at, n, values);
        for (size_t i = 0; i < n; i++)
            if (!isfinite(values[i]))
                note_finding(tally, isnan(values[i]) ? NANS : INFINITIES, t->data_offset);
    }
    hk_decoder_free(&d);
    return HK_OK;
}

static void report_tally(const struct hk_file *f, const struct hk_tensor *t,
                         const struct tally *tally, const struct hk_reporter *r)
{
    for (size_t i = 0; i < FINDINGS; i++) {
        const struct hk_where w = tensor_place(f, t, tally->of[i].first);
        if (tally->of[i].count > 0)
            hk_report(r, findings[i].fault, &w, "tensor %.*s: %llu %s", HK_STR(t->name),
                      (unsigned long long)tally->of[i].count, findings[i].text);
    }
}

static enum hk_status tally_tensor(const struct hk_file *f, const struct hk_tensor *t,
                                   const struct hk_geometry *g, struct tally *tally,
                                   const struct hk_reporter *r, struct hk_error *err)
{
    if (nan_code(t->type) >= 0)
        tally_nan_codes(hk_tensor_data(f, t), t->data_offset, nan_code(t->type), tally);
    if (t->type == HK_TYPE_COMPLEX64) /* two f32 */
        tally_f32(hk_tensor_data(f, t), t->data_offset, tally);
    switch (g->form) {
    case HK_FORM_DENSE:
    case HK_FORM_TILED: {
        unsigned type = g->mislabelled ? HK_TYPE_F32 : t->type;
        for (size_t i = 0; i < sizeof float_kinds / sizeof *float_kinds; i++)
            if (float_kinds[i].type == type)
                tally_floats(hk_tensor_data(f, t), t->data_offset, &float_kinds[i], tally);
        if (type == HK_TYPE_BOOL)
            tally_bools(hk_tensor_data(f, t), t->data_offset, tally);
        return HK_OK;
    }
    case HK_FORM_BLOCKS:
        tally_blocks_of(f, t, tally, r);
        return HK_OK;
    case HK_FORM_DUAL:
        tally_f32(hk_tensor_scales(f, t), t->scale_offset, tally);
        tally_f32(hk_tensor_residual(f, t), t->residual_offset, tally);
        return HK_OK;
    case HK_FORM_2_4:
    case HK_FORM_BITMASK:
    case HK_FORM_BSR:
        return tally_sparse(f, t, tally, err);
    case HK_FORM_SPLIT:
        tally_split_scales(f, t, tally);
        return tally_decoded(f, t, tally, err);
    case HK_FORM_ZERO:
    case HK_FORM_SHARED:
    case HK_FORM_OPAQUE:
        break;
    }
    return HK_OK;
}

enum hk_status hk_check_payloads(const struct hk_file *f, const struct hk_reporter *r,
                                 struct hk_error *err)
{
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        struct hk_geometry g;
        struct tally tally = {0};
        struct hk_error why = {0};
        if (!hk_geometry(t, i, NULL, &g))
            continue;
        enum hk_status st = tally_tensor(f, t, &g, &tally, r, &why);
        struct hk_where w = tensor_place(f, t, t->data_offset);
        if (st == HK_E_FORMAT || st == HK_E_RANGE)
            hk_report(r, HK_FAULT_PAYLOAD_INDEX, &w, "%s", why.text);
        else if (st != HK_OK)
            return hk_fail(err, st, why.offset, "%s", why.text);
        report_tally(f, t, &tally, r);
    }
    return HK_OK;
}
