/* hk_geometry(): which form a tensor takes, and every fault of shape and section sizes. */
#include <string.h>

#include "libhkfmt/base/fault.h"
#include "libhkfmt/tensor/geometry.h"
#include "tests/lib/tap.h"

/* What a tensor's faults were: their codes, joined. */
struct heard {
    char codes[128];
    struct hk_fault last;
    char name[16];
};

static void hear(void *arg, const struct hk_fault *fault)
{
    struct heard *h = arg;
    size_t used = strlen(h->codes);
    snprintf(h->codes + used, sizeof h->codes - used, "%s%s", used > 0 ? " " : "", fault->code);
    snprintf(h->name, sizeof h->name, "%.*s", HK_STR(fault->name));
    h->last = *fault;
}

/* Shape, lengths and labels of a tensor, and what must come of them: a form if it can be opened,
 * else FORM is -1; FAULTS lists codes. */
struct row {
    const char *what;
    unsigned type, sparsity, layout, block;
    unsigned ndim;
    uint64_t shape[8], data, scales, residual;
    int form;
    const char *faults;
    bool mislabelled;
};

#define HUGE_DIM 0x100000000u

/* clang-format off */
static const struct row rows[] = {
    /* shapes */
    {"a scalar", HK_TYPE_F32, 0, 0, 32, 0, {0}, 4, 0, 0, HK_FORM_DENSE, "", false},
    {"an empty tensor", HK_TYPE_F32, 0, 0, 32, 2, {3, 0}, 0, 0, 0, HK_FORM_DENSE, "", false},
    {"an empty block tensor", HK_TYPE_Q4_K, 0, 0, 32, 2, {0, 256}, 0, 0, 0, HK_FORM_BLOCKS, "", false},
    {"eight dimensions", HK_TYPE_F16, 0, 0, 32, 8, {1, 1, 1, 1, 1, 1, 2, 3}, 12, 0, 0, HK_FORM_DENSE, "", false},
    {"nine dimensions", HK_TYPE_F16, 0, 0, 32, 9, {1, 1, 1, 1, 1, 1, 2, 3}, 12, 0, 0, -1, "ndim", false},
    {"product past 64 bits", HK_TYPE_F32, 0, 0, 32, 2, {HUGE_DIM, HUGE_DIM}, 0, 0, 0, -1, "shape-overflow", false},
    {"product past 60 bits", HK_TYPE_F32, 0, 0, 32, 2, {HUGE_DIM, 0x10000000}, 0, 0, 0, -1, "shape-overflow", false},
    {"product that wraps to 8", HK_TYPE_F32, 0, 0, 32, 3, {HUGE_DIM, HUGE_DIM + 1, 8}, 32, 0, 0, -1, "shape-overflow", false},
    {"overflow beside a zero", HK_TYPE_F32, 0, 0, 32, 3, {0, HUGE_DIM, HUGE_DIM}, 0, 0, 0, -1, "shape-overflow", false},
    {"zero before overflow", HK_TYPE_F32, 0, 0, 32, 3, {HUGE_DIM, HUGE_DIM, 0}, 0, 0, 0, -1, "shape-overflow", false},
    {"unknown type", 0x0f, 0, 0, 32, 1, {4}, 16, 0, 0, -1, "storage-type", false},

    /* dense */
    {"f32", HK_TYPE_F32, 0, 0, 32, 2, {2, 3}, 24, 0, 0, HK_FORM_DENSE, "", false},
    {"f32 short", HK_TYPE_F32, 0, 0, 32, 2, {2, 3}, 23, 0, 0, -1, "data-size", false},
    {"f32 long", HK_TYPE_F32, 0, 0, 32, 2, {2, 3}, 28, 0, 0, -1, "data-size", false},
    {"f32 none", HK_TYPE_F32, 0, 0, 32, 2, {2, 3}, 0, 0, 0, -1, "data-size", false},
    {"f64", HK_TYPE_F64, 0, 0, 32, 1, {3}, 24, 0, 0, HK_FORM_DENSE, "", false},
    {"bool short", HK_TYPE_BOOL, 0, 0, 32, 1, {3}, 2, 0, 0, -1, "data-size", false},
    {"f16 with scales", HK_TYPE_F16, 0, 0, 32, 1, {4}, 8, 4, 0, -1, "scale-size", false},
    {"f16 with residual", HK_TYPE_F16, 0, 0, 32, 1, {4}, 8, 0, 16, -1, "residual-size", false},
    {"all three wrong", HK_TYPE_F16, 0, 0, 32, 1, {4}, 9, 4, 16, -1, "data-size scale-size residual-size", false},
    {"physical_pruned is a label", HK_TYPE_F16, 4, 0, 32, 1, {4}, 8, 0, 0, HK_FORM_DENSE, "", false},
    {"csr on one dimension has no effect", HK_TYPE_F32, 2, 0, 32, 1, {4}, 16, 0, 0, HK_FORM_DENSE, "", false},
    {"structured_2_4 on f16 has no effect", HK_TYPE_F16, 3, 0, 32, 1, {4}, 8, 0, 0, HK_FORM_DENSE, "", false},
    {"bitmask on f16 has no effect", HK_TYPE_F16, 1, 0, 32, 1, {4}, 8, 0, 0, HK_FORM_DENSE, "", false},

    /* blocks */
    {"q4_0", HK_TYPE_Q4_0, 0, 0, 0, 2, {2, 64}, 72, 0, 0, HK_FORM_BLOCKS, "", false},
    {"q4_0 long", HK_TYPE_Q4_0, 0, 0, 0, 2, {2, 64}, 90, 0, 0, -1, "data-size", false},
    {"q4_0 with scales", HK_TYPE_Q4_0, 0, 0, 32, 2, {2, 64}, 72, 16, 0, -1, "scale-size", false},
    {"q4_0 with residual", HK_TYPE_Q4_0, 0, 0, 32, 2, {2, 64}, 72, 0, 512, -1, "residual-size", false},
    {"rows of q4_0 not whole blocks", HK_TYPE_Q4_0, 0, 0, 32, 2, {2, 48}, 54, 0, 0, -1, "row-blocks", false},
    {"a scalar q4_0", HK_TYPE_Q4_0, 0, 0, 32, 0, {0}, 18, 0, 0, -1, "row-blocks", false},
    {"rows of q4_k not whole blocks", HK_TYPE_Q4_K, 0, 0, 32, 2, {8, 32}, 144, 0, 0, -1, "row-blocks", false},
    {"nvfp4", HK_TYPE_NVFP4, 0, 0, 32, 1, {64}, 36, 0, 0, HK_FORM_BLOCKS, "", false},
    {"q1_0", HK_TYPE_Q1_0, 0, 0, 32, 1, {256}, 36, 0, 0, HK_FORM_BLOCKS, "", false},
    {"layout on q8_0 has no effect", HK_TYPE_Q8_0, 0, 2, 32, 2, {1, 32}, 34, 0, 0, HK_FORM_BLOCKS, "", false},

    /* split forms */
    {"split iq4_nl", HK_TYPE_IQ4_NL, 0, 0, 32, 1, {70}, 35, 12, 0, HK_FORM_SPLIT, "", false},
    {"split iq4_nl, padded", HK_TYPE_IQ4_NL, 0, 0, 32, 1, {70}, 48, 12, 0, HK_FORM_SPLIT, "", false},
    {"split iq4_nl, blocks of 16", HK_TYPE_IQ4_NL, 0, 0, 16, 1, {70}, 35, 20, 0, HK_FORM_SPLIT, "", false},
    {"split iq4_nl short", HK_TYPE_IQ4_NL, 0, 0, 32, 1, {70}, 34, 12, 0, -1, "data-size", false},
    {"split iq4_nl long", HK_TYPE_IQ4_NL, 0, 0, 32, 1, {70}, 49, 12, 0, -1, "data-size", false},
    {"split iq4_nl, scales short", HK_TYPE_IQ4_NL, 0, 0, 32, 1, {70}, 35, 8, 0, -1, "scale-size", false},
    {"split iq4_nl, block_size 0", HK_TYPE_IQ4_NL, 0, 0, 0, 1, {70}, 35, 12, 0, -1, "block-size", false},
    {"split iq4_nl, block_size odd", HK_TYPE_IQ4_NL, 0, 0, 33, 1, {70}, 35, 12, 0, -1, "block-size", false},
    {"split iq4_nl with residual", HK_TYPE_IQ4_NL, 0, 0, 32, 1, {70}, 35, 12, 280, -1, "residual-size", false},
    {"split mxfp4", HK_TYPE_MXFP4, 0, 0, 7, 1, {64}, 32, 2, 0, HK_FORM_SPLIT, "", false},
    {"split mxfp4, scales long", HK_TYPE_MXFP4, 0, 0, 32, 1, {64}, 32, 8, 0, -1, "scale-size", false},
    {"split nvfp4", HK_TYPE_NVFP4, 0, 0, 32, 1, {64}, 32, 4, 0, HK_FORM_SPLIT, "", false},

    /* dual mode */
    {"dq4", HK_TYPE_DQ4, 0, 0, 32, 2, {5, 7}, 18, 8, 0, HK_FORM_DUAL, "", false},
    {"dq4 with residual", HK_TYPE_DQ4, 0, 0, 32, 2, {5, 7}, 18, 8, 140, HK_FORM_DUAL, "", false},
    {"dq4, padded", HK_TYPE_DQ4, 0, 0, 32, 2, {5, 7}, 32, 8, 0, HK_FORM_DUAL, "", false},
    {"dq4 short", HK_TYPE_DQ4, 0, 0, 32, 2, {5, 7}, 17, 8, 0, -1, "data-size", false},
    {"dq4 long", HK_TYPE_DQ4, 0, 0, 32, 2, {5, 7}, 33, 8, 0, -1, "data-size", false},
    {"dq4 without scales", HK_TYPE_DQ4, 0, 0, 32, 2, {5, 7}, 18, 0, 0, -1, "scale-size", false},
    {"dq4, residual short", HK_TYPE_DQ4, 0, 0, 32, 2, {5, 7}, 18, 8, 136, -1, "residual-size", false},
    {"dq4, block_size 0", HK_TYPE_DQ4, 0, 0, 0, 2, {5, 7}, 18, 8, 0, -1, "block-size", false},
    {"dq4, block_size odd", HK_TYPE_DQ4, 0, 0, 31, 2, {5, 7}, 18, 8, 0, -1, "block-size", false},
    {"dq8", HK_TYPE_DQ8, 0, 0, 31, 2, {5, 7}, 35, 8, 0, HK_FORM_DUAL, "", false},
    {"dq8, block_size 0", HK_TYPE_DQ8, 0, 0, 0, 2, {5, 7}, 35, 8, 0, -1, "block-size", false},
    {"dq8 long", HK_TYPE_DQ8, 0, 0, 32, 2, {5, 7}, 65, 8, 0, -1, "data-size", false},
    {"dqt", HK_TYPE_DQT, 0, 0, 32, 2, {5, 7}, 9, 8, 0, HK_FORM_DUAL, "", false},
    {"dqt, block_size 0", HK_TYPE_DQT, 0, 0, 0, 2, {5, 7}, 9, 8, 0, -1, "block-size", false},
    {"dqt, block_size 30", HK_TYPE_DQT, 0, 0, 30, 2, {5, 7}, 9, 8, 0, -1, "block-size", false},
    {"dqt short", HK_TYPE_DQT, 0, 0, 32, 2, {5, 7}, 8, 8, 0, -1, "data-size", false},

    /* two in four */
    {"sparse_2_4", HK_TYPE_SPARSE_2_4, 0, 0, 32, 1, {8}, 20, 0, 0, HK_FORM_2_4, "", false},
    {"f32 structured_2_4", HK_TYPE_F32, 3, 0, 32, 1, {8}, 20, 0, 0, HK_FORM_2_4, "", false},
    {"f32 structured_2_4, in truth dense", HK_TYPE_F32, 3, 0, 32, 1, {8}, 32, 0, 0, HK_FORM_DENSE, "", true},
    {"the same, 6 elements", HK_TYPE_F32, 3, 0, 32, 1, {6}, 24, 0, 0, HK_FORM_DENSE, "", true},
    {"the same, in tiles", HK_TYPE_F32, 3, 2, 32, 2, {2, 4}, 1024, 0, 0, HK_FORM_TILED, "", true},
    {"sparse_2_4 as long as dense", HK_TYPE_SPARSE_2_4, 0, 0, 32, 1, {8}, 32, 0, 0, -1, "data-size", false},
    {"sparse_2_4 short", HK_TYPE_SPARSE_2_4, 0, 0, 32, 1, {8}, 16, 0, 0, -1, "data-size", false},
    {"sparse_2_4 of 6 elements", HK_TYPE_SPARSE_2_4, 0, 0, 32, 1, {6}, 12, 0, 0, -1, "data-size", false},
    {"sparse_2_4 with scales", HK_TYPE_SPARSE_2_4, 0, 0, 32, 1, {8}, 20, 4, 0, -1, "scale-size", false},

    /* bitmask */
    {"sparse_f16", HK_TYPE_SPARSE_F16, 0, 0, 32, 1, {10}, 16, 0, 0, HK_FORM_BITMASK, "", false},
    {"f32 bitmask", HK_TYPE_F32, 1, 0, 32, 1, {10}, 16, 0, 0, HK_FORM_BITMASK, "", false},
    {"f32 bitmask, perhaps dense", HK_TYPE_F32, 1, 0, 32, 1, {10}, 40, 0, 0, HK_FORM_BITMASK, "", true},
    {"an empty bitmask", HK_TYPE_F32, 1, 0, 32, 1, {0}, 0, 0, 0, HK_FORM_BITMASK, "", false},
    {"f32 bitmask without room for the mask", HK_TYPE_F32, 1, 0, 32, 1, {40}, 4, 0, 0, -1, "data-size", false},
    {"f32 bitmask with more values than elements", HK_TYPE_F32, 1, 0, 32, 1, {10}, 48, 0, 0, -1, "data-size", false},
    {"f32 bitmask with part of a value", HK_TYPE_F32, 1, 0, 32, 1, {10}, 18, 0, 0, -1, "data-size", false},
    {"f32 bitmask with residual", HK_TYPE_F32, 1, 0, 32, 1, {10}, 16, 0, 40, -1, "residual-size", false},

    /* block-sparse */
    {"csr", HK_TYPE_F32, 2, 0, 32, 2, {4, 4}, 40, 0, 0, HK_FORM_BSR, "", false},
    {"csr of any type", HK_TYPE_F16, 2, 0, 32, 2, {4, 4}, 40, 0, 0, HK_FORM_BSR, "", false},
    {"csr, perhaps dense", HK_TYPE_F32, 2, 0, 32, 2, {4, 4}, 64, 0, 0, HK_FORM_BSR, "", true},
    {"csr, too short to be anything but dense", HK_TYPE_F32, 2, 0, 32, 2, {1, 2}, 8, 0, 0, HK_FORM_DENSE, "", true},
    {"csr shorter than a header", HK_TYPE_F32, 2, 0, 32, 2, {4, 4}, 11, 0, 0, -1, "data-size", false},
    {"bsr", HK_TYPE_F32, 5, 0, 32, 2, {4, 4}, 64, 0, 0, HK_FORM_BSR, "", false},
    {"bsr shorter than a header", HK_TYPE_F32, 5, 0, 32, 2, {1, 2}, 8, 0, 0, -1, "data-size", false},
    {"bsr on three dimensions", HK_TYPE_F32, 5, 0, 32, 3, {1, 4, 4}, 64, 0, 0, HK_FORM_OPAQUE, "undecodable", false},

    /* tiles */
    {"16x16", HK_TYPE_F32, 0, 2, 32, 2, {17, 5}, 2048, 0, 0, HK_FORM_TILED, "", false},
    {"16x8", HK_TYPE_F32, 0, 3, 32, 2, {17, 9}, 2048, 0, 0, HK_FORM_TILED, "", false},
    {"32x16", HK_TYPE_F32, 0, 4, 32, 2, {17, 5}, 2048, 0, 0, HK_FORM_TILED, "", false},
    {"32x32", HK_TYPE_F32, 0, 6, 32, 2, {17, 5}, 4096, 0, 0, HK_FORM_TILED, "", false},
    {"64x64", HK_TYPE_F32, 0, 7, 32, 2, {17, 5}, 16384, 0, 0, HK_FORM_TILED, "", false},
    {"col_major", HK_TYPE_F32, 0, 1, 32, 2, {17, 5}, 340, 0, 0, HK_FORM_TILED, "", false},
    {"16x16, not padded: rows", HK_TYPE_F32, 0, 2, 32, 2, {16, 8}, 512, 0, 0, HK_FORM_DENSE, "", false},
    {"16x16, whole tiles", HK_TYPE_F32, 0, 2, 32, 2, {16, 16}, 1024, 0, 0, HK_FORM_TILED, "", false},
    {"16x16, neither length", HK_TYPE_F32, 0, 2, 32, 2, {16, 8}, 516, 0, 0, -1, "data-size", false},
    {"col_major, wrong length", HK_TYPE_F32, 0, 1, 32, 2, {17, 5}, 344, 0, 0, -1, "data-size", false},
    {"tiles on three dimensions: rows", HK_TYPE_F32, 0, 2, 32, 3, {1, 16, 16}, 1024, 0, 0, HK_FORM_DENSE, "", false},
    {"tiles on f16: rows", HK_TYPE_F16, 0, 2, 32, 2, {16, 16}, 512, 0, 0, HK_FORM_DENSE, "", false},
    {"block_sparse_2_4: rows", HK_TYPE_F32, 0, 5, 32, 2, {4, 4}, 64, 0, 0, HK_FORM_DENSE, "", false},
    {"tiles of a shape beyond any file", HK_TYPE_F32, 0, 7, 32, 2, {0x400000000000000, 1}, 0, 0, 0, -1, "data-size", false},

    /* f32 under another type */
    {"f16 pruned", HK_TYPE_F16, 1, 0, 32, 1, {4}, 16, 0, 0, HK_FORM_DENSE, "", true},
    {"q4_0 pruned", HK_TYPE_Q4_0, 1, 0, 32, 2, {2, 48}, 384, 0, 0, HK_FORM_DENSE, "", true},
    {"f16 as long as f32", HK_TYPE_F16, 0, 0, 32, 1, {4}, 16, 0, 0, -1, "data-size", false},
    {"q4_0 as long as f32", HK_TYPE_Q4_0, 0, 0, 32, 1, {32}, 128, 0, 0, -1, "data-size", false},
    {"int32 is as long as f32", HK_TYPE_INT32, 1, 0, 32, 1, {4}, 16, 0, 0, HK_FORM_DENSE, "", false},

    /* references and codes without a layout */
    {"null_ref", HK_TYPE_NULL_REF, 0, 0, 32, 2, {4, 4}, 0, 0, 0, HK_FORM_ZERO, "", false},
    {"null_ref with data", HK_TYPE_NULL_REF, 4, 0, 32, 1, {4}, 16, 0, 0, -1, "data-size", false},
    {"null_ref with scales", HK_TYPE_NULL_REF, 0, 0, 32, 1, {4}, 0, 4, 0, -1, "scale-size", false},
    {"null_ref with residual", HK_TYPE_NULL_REF, 0, 0, 32, 1, {4}, 0, 0, 16, -1, "residual-size", false},
    {"shared_ref", HK_TYPE_SHARED_REF, 0, 0, 32, 1, {4}, 5, 6, 7, HK_FORM_SHARED, "", false},
    {"dq6", HK_TYPE_DQ6, 0, 0, 32, 1, {4}, 5, 6, 7, HK_FORM_OPAQUE, "undecodable", false},
    {"dq12", HK_TYPE_DQ12, 0, 0, 32, 1, {4}, 5, 0, 0, HK_FORM_OPAQUE, "undecodable", false},
    {"sparse_dq8", HK_TYPE_SPARSE_DQ8, 0, 0, 32, 1, {4}, 5, 0, 0, HK_FORM_OPAQUE, "undecodable", false},
    {"sparse_dq4_2_4", HK_TYPE_SPARSE_DQ4_2_4, 0, 0, 32, 1, {4}, 5, 0, 0, HK_FORM_OPAQUE, "undecodable", false},
    {"lora_ref", HK_TYPE_LORA_REF, 0, 0, 32, 1, {4}, 0, 0, 0, HK_FORM_OPAQUE, "undecodable", false},
};
/* clang-format on */

static struct hk_tensor tensor_of(const struct row *r)
{
    struct hk_tensor t = {
        .name = {(const uint8_t *)"the.name", 8},
        .type = (uint16_t)r->type,
        .layout = (uint8_t)r->layout,
        .sparsity = (uint8_t)r->sparsity,
        .ndim = (uint8_t)r->ndim,
        .data_size = r->data,
        .scale_size = r->scales,
        .residual_size = r->residual,
        .block_size = (uint16_t)r->block,
        .entry_offset = 4711,
    };
    memcpy(t.shape, r->shape, sizeof t.shape);
    return t;
}

static void check_row(const struct row *r)
{
    struct hk_tensor t = tensor_of(r);
    struct heard h = {{0}, {0}, ""};
    struct hk_reporter reporter = {hear, &h};
    struct hk_geometry g, silent;
    bool good = hk_geometry(&t, 9, &reporter, &g);
    bool right = good ? r->form == (int)g.form && g.mislabelled == r->mislabelled : r->form == -1;
    ok(right && strcmp(h.codes, r->faults) == 0, "%s: %s %s", r->what, good ? "opens" : "refused",
       h.codes[0] != '\0' ? h.last.text : "");
    if (h.codes[0] != '\0')
        ok(h.last.offset == 4711 && h.last.index == 9 && h.last.subject == HK_SUBJECT_TENSOR &&
               strcmp(h.name, "the.name") == 0 && strstr(h.last.text, "the.name") != NULL,
           "%s: the fault says where", r->what);
    ok(hk_geometry(&t, 9, NULL, &silent) == good, "%s: the same without a reporter", r->what);
}

static void texts(void)
{
    struct row r = {"", HK_TYPE_F16, 0, 0, 32, 1, {4}, 16, 0, 0, 0, "", false};
    struct hk_tensor t = tensor_of(&r);
    struct heard h = {{0}, {0}, ""};
    struct hk_reporter reporter = {hear, &h};
    struct hk_geometry g;
    ok(!hk_geometry(&t, 0, &reporter, &g) &&
           strstr(h.last.text, "f32 bytes under the wrong type, f16") != NULL,
       "a suspicion is named: %s", h.last.text);
    t.type = HK_TYPE_SPARSE_DQ8;
    hk_geometry(&t, 0, &reporter, &g);
    ok(strstr(h.last.text, "sparse_dq8") != NULL && h.last.severity == HK_WARNING,
       "a type without a layout is named: %s", h.last.text);
}

static void sizes(void)
{
    struct hk_tensor t = {.ndim = 3, .shape = {2, 3, 4}};
    struct hk_geometry g;
    ok(hk_tensor_elems(&t) == 24 && hk_tensor_cols(&t) == 4 && hk_tensor_rows(&t) == 6,
       "elements, columns and rows of 2x3x4");
    t.data_size = 96;
    ok(hk_geometry(&t, 0, NULL, &g) && g.elems == 24 && g.cols == 4 && g.rows == 6 &&
           g.block_elems == 1 && g.block_bytes == 4,
       "the geometry has the same");
    t.ndim = 0;
    ok(hk_tensor_elems(&t) == 1 && hk_tensor_cols(&t) == 1 && hk_tensor_rows(&t) == 1, "scalar");
    struct hk_tensor empty = {.ndim = 2, .shape = {5, 0}};
    ok(hk_tensor_elems(&empty) == 0 && hk_tensor_cols(&empty) == 0 && hk_tensor_rows(&empty) == 5,
       "five empty rows");
    struct hk_tensor big = {.ndim = 2, .shape = {HUGE_DIM, HUGE_DIM}};
    ok(hk_tensor_elems(&big) == UINT64_MAX && hk_tensor_rows(&big) == UINT64_MAX,
       "a product that overflows is as large as can be");
}

int main(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i]);
    texts();
    sizes();
    return tap_done();
}
