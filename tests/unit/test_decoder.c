/* hk_decoder_*: plain, dual-mode, split and tiled tensors and references from hand-made bytes, any
 * range of them, and what is refused. */
#include "tests/lib/box.h"

/* ---- dual mode: the vectors of format-notes 4.3, and a second block ---- */

static void dq4(void)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_DQ4, 1, (uint64_t[]){4});
    box_data(&b, t, "\xa7\xf2", 2);
    box_scales(&b, t, stored((float[]){2}, 1), 4);
    expect(&b, 0, (float[]){0.0f, 0.2461123f * 2, -0.5250731f * 2, 2}, "dq4");
}

/* Blocks of two over a flattened 1x5, tail padded as the Python writer does, with residual. */
static void dq4_residual(void)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_DQ4, 2, (uint64_t[]){5, 1});
    t->block_size = 2;
    box_data(&b, t, "\xf0\x7f\x0f", 3);
    box_scales(&b, t, stored((float[]){1, 2, -4}, 3), 12);
    box_residual(&b, t, stored((float[]){0.5f, 0, 0.25f, 1, -1}, 5), 20);
    expect(&b, 0, (float[]){-0.5f, 1, 2.25f, 1, -5}, "dq4 with blocks of 2 and a residual");
}

static void dq8(void)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_DQ8, 2, (uint64_t[]){1, 5});
    t->block_size = 3;
    box_data(&b, t, "\x7f\x80\x00\xff\x02\x00", 6);
    box_scales(&b, t, stored((float[]){0.5f, -2}, 2), 8);
    expect(&b, 0, (float[]){63.5f, -64, 0, 2, -4}, "dq8");
}

static void dqt(void)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_DQT, 1, (uint64_t[]){4});
    box_data(&b, t, "\x49", 1);
    box_scales(&b, t, stored((float[]){0.65f}, 1), 4);
    expect(&b, 0, (float[]){0.65f, -0.65f, 0, 0.65f}, "dqt");
}

static void dqt_python(void)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_DQT, 1, (uint64_t[]){6});
    t->block_size = 4;
    box_data(&b, t, "\xe4\x0b", 2); /* 0 1 2 3, 3 2 */
    box_scales(&b, t, stored((float[]){1, 3}, 2), 8);
    expect(&b, 0, (float[]){0, 1, -1, -1, -3, -3}, "dqt: 2 and 3 are minus one");
}

/* ---- split forms ---- */

static void split_iq4_nl(void)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_IQ4_NL, 1, (uint64_t[]){18});
    t->block_size = 16;
    box_data(&b, t, "\x10\x32\x54\x76\x98\xba\xdc\xfe\x0f", 9);
    box_scales(&b, t, stored((float[]){1, 2}, 2), 8);
    expect(&b, 0,
           (float[]){-1, -.7903226f, -.6129032f, -.4677419f, -.3387097f, -.2258065f, -.1290323f,
                     -.0483871f, .0483871f, .1290323f, .2258065f, .3387097f, .4677419f, .6129032f,
                     .7903226f, 1, 2, -2},
           "split iq4_nl");
}

static void split_mxfp4(void)
{
    struct box b = {0};
    float want[40] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    uint8_t codes[20] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
    codes[16] = 0x72;
    want[32] = 4;
    want[33] = 24;
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_MXFP4, 1, (uint64_t[]){40});
    box_data(&b, t, codes, 20);
    box_scales(&b, t, "\x7f\x81", 2);
    expect(&b, 0, want, "split mxfp4");
}

static void split_nvfp4(void)
{
    struct box b = {0};
    float want[20] = {0,  0.5f,  1,  1.5f, 2,  3,  4,  6,   0, -0.5f,
                      -1, -1.5f, -2, -3,   -4, -6, -4, -24, 0, 0};
    want[18] = want[19] = -0.0f;
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_NVFP4, 1, (uint64_t[]){20});
    box_data(&b, t, "\x10\x32\x54\x76\x98\xba\xdc\xfe\x72\x00", 10);
    box_scales(&b, t, "\x38\xc8", 2); /* 1 and -4 */
    expect(&b, 0, want, "split nvfp4");
}

/* ---- tiles ---- */

static void tile(unsigned layout, unsigned rows, unsigned cols, uint64_t m, uint64_t k)
{
    char what[64];
    static float want[4096], tiled[8192];
    size_t across = rows == 0 ? 0 : (size_t)(k + cols - 1) / cols, down, size;
    down = rows == 0 ? 0 : (size_t)(m + rows - 1) / rows;
    size = rows == 0 ? (size_t)(m * k) : down * across * rows * cols;
    for (size_t i = 0; i < size; i++)
        tiled[i] = -1; /* padding, which must not be seen */
    for (size_t r = 0; r < m; r++)
        for (size_t c = 0; c < k; c++) {
            want[r * k + c] = (float)(r * 1000 + c);
            size_t at = rows == 0 ? c * m + r
                                  : (r / rows * across + c / cols) * rows * cols + r % rows * cols +
                                        c % cols;
            tiled[at] = want[r * k + c];
        }
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 2, (uint64_t[]){m, k});
    t->layout = (uint8_t)layout;
    box_data(&b, t, stored(tiled, size), 4 * size);
    snprintf(what, sizeof what, "%s of %zu x %zu", hk_layout_name(layout), (size_t)m, (size_t)k);
    expect(&b, 0, want, what);
}

static void tiles(void)
{
    tile(HK_LAYOUT_TILE_16X16, 16, 16, 33, 21);
    tile(HK_LAYOUT_TILE_16X16, 16, 16, 16, 32);
    tile(HK_LAYOUT_TILE_16X8, 16, 8, 17, 19);
    tile(HK_LAYOUT_TILE_32X16, 32, 16, 5, 40);
    tile(HK_LAYOUT_TILE_32X32, 32, 32, 40, 40);
    tile(HK_LAYOUT_TILE_64X64, 64, 64, 3, 65);
    tile(HK_LAYOUT_COL_MAJOR, 0, 0, 7, 5);
}

/* The reference's own test file: 16 x 8 under tile_16x16, not padded. */
static void tile_not_padded(void)
{
    struct box b = {0};
    float want[128];
    for (int i = 0; i < 128; i++)
        want[i] = (float)i;
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 2, (uint64_t[]){16, 8});
    t->layout = HK_LAYOUT_TILE_16X16;
    box_data(&b, t, stored(want, 128), 512);
    expect(&b, 0, want, "tile_16x16 that is not padded");
}

/* ---- references ---- */

static void null_ref(void)
{
    struct box b = {0};
    float want[12] = {0};
    box_tensor(&b, "w", HK_TYPE_NULL_REF, 2, (uint64_t[]){3, 4});
    expect(&b, 0, want, "null_ref");
}

/* The target's type, block size and all its sections count, also where offsets are the only link.
 */
static void shared_ref(bool offsets)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_DQ8, 2, (uint64_t[]){1, 4});
    t->block_size = 2;
    box_data(&b, t, "\x01\x02\x03\x04", 4);
    box_scales(&b, t, stored((float[]){1, 10}, 2), 8);
    box_residual(&b, t, stored((float[]){0.5f, 0, 0, 0}, 4), 16);
    struct hk_tensor *s = box_tensor(&b, "tied", HK_TYPE_SHARED_REF, 2,
                                     offsets ? (uint64_t[]){4, 1} : (uint64_t[]){1, 4});
    if (offsets) {
        s->data_offset = t->data_offset;
        s->data_size = t->data_size;
        s->scale_offset = t->scale_offset;
        s->scale_size = t->scale_size;
    }
    expect(&b, 1, (float[]){1.5f, 2, 30, 40},
           offsets ? "shared_ref by offset" : "shared_ref by shape");
}

static void shared_ref_refused(void)
{
    struct box b = {0};
    struct hk_tensor *s = box_tensor(&b, "tied", HK_TYPE_SHARED_REF, 1, (uint64_t[]){8});
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 1, (uint64_t[]){4});
    box_data(&b, t, stored((float[]){1, 2, 3, 4}, 4), 16);
    s->data_offset = t->data_offset;
    s->data_size = t->data_size;
    expect_refusal(&b, HK_E_FORMAT, "tied", "shared_ref to a tensor of another size");
}

/* ---- what cannot be decoded ---- */

static void unsupported(void)
{
    static const unsigned types[] = {HK_TYPE_DQ6, HK_TYPE_DQ12, HK_TYPE_SPARSE_DQ8,
                                     HK_TYPE_SPARSE_DQ4_2_4, HK_TYPE_LORA_REF};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct box b = {0};
        const char *name = hk_type_info(types[i])->name;
        struct hk_tensor *t = box_tensor(&b, "w", types[i], 1, (uint64_t[]){4});
        box_data(&b, t, "12345678", 8);
        expect_refusal(&b, HK_E_UNSUPPORTED, name, name);
    }
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 1, (uint64_t[]){2});
    t->sparsity = HK_SPARSITY_BSR;
    box_data(&b, t, "12345678", 8);
    expect_refusal(&b, HK_E_UNSUPPORTED, "bsr", "bsr on one dimension");
}

/* A file of hk_open_stream(), whose bytes are not there; a length that hk_open() would refuse. */
static void no_bytes(void)
{
    struct box b = {0}, c = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 1, (uint64_t[]){4});
    t->data_offset = 4096;
    t->data_size = 16;
    b.file.stream = (void *)&b;
    expect_refusal(&b, HK_E_USE, "not mapped", "a tensor of a stream");
    t = box_tensor(&c, "w", HK_TYPE_F32, 1, (uint64_t[]){4});
    box_data(&c, t, "12345678", 8);
    expect_refusal(&c, HK_E_FORMAT, "data_size 8", "data of the wrong length");
}

static void empty(void)
{
    static const struct {
        unsigned type, sparsity, layout;
    } rows[] = {
        {HK_TYPE_F32, 0, 0},      {HK_TYPE_F32, 0, 2},        {HK_TYPE_F32, 0, 1},
        {HK_TYPE_F32, 1, 0},      {HK_TYPE_F32, 3, 0},        {HK_TYPE_F32, 2, 0},
        {HK_TYPE_Q4_K, 0, 0},     {HK_TYPE_DQ4, 0, 0},        {HK_TYPE_SPARSE_2_4, 0, 0},
        {HK_TYPE_NULL_REF, 0, 0}, {HK_TYPE_SPARSE_F16, 0, 0}, {HK_TYPE_IQ4_NL, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct box b = {0};
        char what[64];
        struct hk_tensor *t = box_tensor(&b, "w", rows[i].type, 2,
                                         i % 2 == 0 ? (uint64_t[]){0, 3} : (uint64_t[]){3, 0});
        if (rows[i].type == HK_TYPE_Q4_K)
            t->shape[1] = 256;
        t->sparsity = (uint8_t)rows[i].sparsity;
        t->layout = (uint8_t)rows[i].layout;
        snprintf(what, sizeof what, "empty %s, sparsity %u, layout %u",
                 hk_type_info(rows[i].type)->name, rows[i].sparsity, rows[i].layout);
        expect(&b, 0, NULL, what);
    }
}

/* ---- every plain type: a decoder reads what hk_dequantize() gives, in any pieces ---- */

static void plain_type(const struct hk_type_info *info)
{
    enum { BLOCKS = 7 };
    size_t n = (size_t)info->block_elems * BLOCKS, size = (size_t)info->block_bytes * BLOCKS;
    uint8_t src[BLOCKS * 300];
    float want[BLOCKS * 256];
    struct box b = {0};
    for (size_t i = 0; i < size; i++)
        src[i] = (uint8_t)(random_u32() >> 8);
    ok(hk_dequantize(info->type, src, n, want), "%s", info->name);
    struct hk_tensor *t = box_tensor(&b, "w", info->type, 1, (uint64_t[]){n});
    box_data(&b, t, src, size);
    expect(&b, 0, want, info->name);
}

int main(void)
{
    dq4();
    dq4_residual();
    dq8();
    dqt();
    dqt_python();
    split_iq4_nl();
    split_mxfp4();
    split_nvfp4();
    tiles();
    tile_not_padded();
    null_ref();
    shared_ref(true);
    shared_ref(false);
    shared_ref_refused();
    unsupported();
    no_bytes();
    empty();
    for (unsigned type = 0; type < 0x140; type++)
        if (hk_type_info(type) != NULL && hk_type_info(type)->block_elems > 0)
            plain_type(hk_type_info(type));
    return tap_done();
}
