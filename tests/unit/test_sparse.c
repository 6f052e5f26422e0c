/* hk_decoder_*: sparse payloads, those that only claim to be sparse, and those that lie. */
#include "tests/lib/box.h"

/* ---- two in four ---- */

static const uint8_t pairs_payload[] = "\xd8\0\0\0"
                                       "\0\0\xc0\x3f\0\0\x20\x40\0\0\x60\xc0\0\0\x90\x40";
static const float pairs_want[] = {1.5f, 0, 2.5f, 0, 0, -3.5f, 0, 4.5f};

static void pairs(unsigned type, unsigned sparsity, const char *what)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", type, 2, (uint64_t[]){2, 4});
    t->sparsity = (uint8_t)sparsity;
    box_data(&b, t, pairs_payload, 20);
    expect(&b, 0, pairs_want, what);
}

/* Indexes in falling order are legal; of two equal ones the second value stays. */
static void pairs_order(void)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_SPARSE_2_4, 1, (uint64_t[]){8});
    uint8_t payload[20] = {0xf1};
    memcpy(payload + 4, stored((float[]){1, 2, 3, 4}, 4), 16);
    box_data(&b, t, payload, 20);
    expect(&b, 0, (float[]){2, 1, 0, 0, 0, 0, 0, 4}, "2:4, order and repetition");
}

/* ---- bitmask ---- */

static void bitmask(unsigned type, unsigned sparsity, const char *what)
{
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", type, 2, (uint64_t[]){2, 5});
    t->sparsity = (uint8_t)sparsity;
    box_data(&b, t,
             "\x52\0\0\0"
             "\0\0\xc0\x3f\0\0\x20\xc0\0\0\x60\x40",
             16);
    expect(&b, 0, (float[]){0, 1.5f, 0, 0, -2.5f, 0, 3.5f, 0, 0, 0}, what);
}

/* Long enough for several steps of the rank index. */
static void bitmask_long(void)
{
    enum { N = 13001 };
    static float want[N], values[N];
    static uint8_t mask[(N + 31) / 32 * 4];
    size_t count = 0;
    memset(want, 0, sizeof want);
    memset(mask, 0, sizeof mask);
    for (size_t i = 0; i < N; i++)
        if (random_u32() % 3 == 0) {
            mask[i / 8] |= (uint8_t)(1 << i % 8);
            want[i] = values[count++] = (float)(i + 1);
        }
    uint8_t payload[sizeof mask + 4 * N];
    memcpy(payload, mask, sizeof mask);
    memcpy(payload + sizeof mask, stored(values, count), 4 * count);
    struct box b = {0};
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_SPARSE_F16, 1, (uint64_t[]){N});
    box_data(&b, t, payload, sizeof mask + 4 * count);
    expect(&b, 0, want, "a long bitmask");
}

static void bitmask_refused(void)
{
    struct box short_one = {0}, long_one = {0};
    struct hk_tensor *t = box_tensor(&short_one, "w", HK_TYPE_SPARSE_F16, 1, (uint64_t[]){10});
    box_data(&short_one, t,
             "\x52\0\0\0"
             "\0\0\xc0\x3f\0\0\x20\xc0",
             12);
    expect_refusal(&short_one, HK_E_FORMAT, "3 bits set", "bitmask with too few values");
    t = box_tensor(&long_one, "w", HK_TYPE_F32, 1, (uint64_t[]){10});
    t->sparsity = HK_SPARSITY_BITMASK;
    box_data(&long_one, t,
             "\x42\0\0\0"
             "\0\0\xc0\x3f\0\0\x20\xc0\0\0\x60\x40",
             16);
    expect_refusal(&long_one, HK_E_FORMAT, "2 bits set", "bitmask with too many values");
}

/* ---- block-sparse rows: 5 x 5 in blocks of 2 x 3, so one row is left over and columns overhang
 * ---- */

enum { BSR_SIZE = 12 + 4 * 3 + 4 * 3 + 4 * 3 * 6 };

static void bsr_payload(uint8_t p[BSR_SIZE])
{
    static const uint32_t numbers[] = {0, 1, 3, 1, 0, 1}; /* row pointers, columns */
    float values[18];
    put16(p, 2);
    put16(p + 2, 3);
    put32(p + 4, 3);
    put32(p + 8, 3);
    for (size_t i = 0; i < 6; i++)
        put32(p + 12 + 4 * i, numbers[i]);
    for (int i = 0; i < 18; i++)
        values[i] = (float)(i + 1);
    memcpy(p + 36, stored(values, 18), sizeof values);
}

static const float bsr_want[25] = {
    0,  0,  0,  1,  2,  /* block 0 at column 3, its third column past the end */
    0,  0,  0,  4,  5,  /**/
    7,  8,  9,  13, 14, /* blocks 1 and 2 */
    10, 11, 12, 16, 17, /**/
    0,  0,  0,  0,  0,  /* below the last whole row of blocks */
};

static void bsr(unsigned type, unsigned sparsity, const char *what)
{
    struct box b = {0};
    uint8_t p[BSR_SIZE];
    bsr_payload(p);
    struct hk_tensor *t = box_tensor(&b, "w", type, 2, (uint64_t[]){5, 5});
    t->sparsity = (uint8_t)sparsity;
    box_data(&b, t, p, sizeof p);
    expect(&b, 0, bsr_want, what);
}

/* With a pointer for the last, partial row of blocks too: three blocks of 2 x 5, of which two show.
 * MIDDLE is the third pointer. */
static struct box bsr_partial(uint32_t middle)
{
    struct box b = {0};
    const uint32_t numbers[] = {0, 1, middle, 3, 0, 0, 0}; /* row pointers, columns */
    uint8_t p[12 + 28 + 4 * 30];
    float values[30];
    put16(p, 2);
    put16(p + 2, 5);
    put32(p + 4, 4);
    put32(p + 8, 3);
    for (size_t i = 0; i < 7; i++)
        put32(p + 12 + 4 * i, numbers[i]);
    for (int i = 0; i < 30; i++)
        values[i] = (float)(i + 1);
    memcpy(p + 40, stored(values, 30), sizeof values);
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 2, (uint64_t[]){5, 5});
    t->sparsity = HK_SPARSITY_CSR;
    box_data(&b, t, p, sizeof p);
    return b;
}

static void bsr_last_row(void)
{
    float want[25] = {0};
    for (int i = 0; i < 20; i++)
        want[i] = (float)(i + 1);
    struct box good = bsr_partial(2), bad = bsr_partial(0);
    expect(&good, 0, want, "csr, a last row of blocks that is not whole");
    expect_refusal(&bad, HK_E_FORMAT, "row pointer", "csr, row pointers that fall");
}

/* One field of the payload changed: refused, and why. */
static void bsr_refused(void)
{
    static const struct {
        size_t at, width;
        uint32_t value;
        const char *text;
    } rows[] = {
        {0, 2, 0, "blocks without elements"},
        {2, 2, 0, "blocks without elements"},
        {0, 2, 6, "row pointers does not fit"},
        {2, 2, 4, "number of blocks does not fit"},
        {0, 4, 0xffffffff, "row pointers does not fit"},
        {4, 4, 2, "row pointers does not fit"},
        {4, 4, 4, "number of blocks does not fit"},
        {4, 4, 0xffffffff, "row pointers does not fit"},
        {8, 4, 2, "number of blocks does not fit"},
        {8, 4, 0xffffffff, "number of blocks does not fit"},
        {12, 4, 1, "row pointer"},
        {16, 4, 4, "row pointer"},
        {20, 4, 2, "row pointer"},
        {20, 4, 0, "row pointer"},
        {24, 4, 2, "column index"},
        {32, 4, 0xffffffff, "column index"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct box b = {0};
        char what[64];
        uint8_t p[BSR_SIZE];
        bsr_payload(p);
        for (size_t j = 0; j < rows[i].width; j++)
            p[rows[i].at + j] = (uint8_t)(rows[i].value >> 8 * j);
        struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 2, (uint64_t[]){5, 5});
        t->sparsity = HK_SPARSITY_CSR;
        box_data(&b, t, p, sizeof p);
        snprintf(what, sizeof what, "csr, 0x%x at %zu", rows[i].value, rows[i].at);
        expect_refusal(&b, HK_E_FORMAT, rows[i].text, what);
    }
}

/* Any one byte changed, and any length: refused, or all of it can be read. */
static void bsr_mangled(void)
{
    int opened = 0;
    for (int i = 0; i < 4000; i++) {
        struct box b = {0};
        uint8_t p[BSR_SIZE];
        float y[25];
        bsr_payload(p);
        p[random_u32() % 36] = (uint8_t)random_u32();
        struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 2, (uint64_t[]){5, 5});
        t->sparsity = HK_SPARSITY_BSR;
        box_data(&b, t, p, i % 2 == 0 ? sizeof p : 12 + random_u32() % (sizeof p - 12));
        struct hk_decoder *d;
        if (hk_decoder_new(&d, box_file(&b), t, NULL) == HK_OK) {
            hk_decoder_read(d, 0, 25, y);
            hk_decoder_free(&d);
            opened++;
        }
        box_free(&b);
    }
    ok(opened > 0 && opened < 4000, "mangled block-sparse payloads: %d of 4000 open", opened);
}

/* ---- mislabelled files of the reference ---- */

/* Dense f32, of SHAPE, under the labels given. */
static void mislabelled(unsigned type, unsigned sparsity, uint64_t rows, uint64_t cols,
                        const char *what)
{
    struct box b = {0};
    float want[256];
    for (size_t i = 0; i < rows * cols; i++)
        want[i] = i % 3 == 0 ? 0.0f : (float)i - 40.5f;
    struct hk_tensor *t = box_tensor(&b, "w", type, 2, (uint64_t[]){rows, cols});
    t->sparsity = (uint8_t)sparsity;
    box_data(&b, t, stored(want, (size_t)(rows * cols)), (size_t)(4 * rows * cols));
    expect(&b, 0, want, what);
}

/* Retiled, with the old sparsity label. */
static void mislabelled_tiles(unsigned sparsity, const char *what)
{
    struct box b = {0};
    float want[16], tiled[256];
    for (int i = 0; i < 256; i++)
        tiled[i] = i % 16 < 4 && i < 64 ? (float)i : 0.0f;
    for (int i = 0; i < 16; i++)
        want[i] = (float)(i / 4 * 16 + i % 4);
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 2, (uint64_t[]){4, 4});
    t->sparsity = (uint8_t)sparsity;
    t->layout = HK_LAYOUT_TILE_16X16;
    box_data(&b, t, stored(tiled, 256), 1024);
    expect(&b, 0, want, what);
}

/* A mask form that happens to be as long as dense f32 is still a mask form: 33 elements, 31 set. */
static void bitmask_as_long_as_dense(void)
{
    struct box b = {0};
    float want[33] = {0}, values[31];
    uint8_t payload[8 + 124] = {0xfe, 0xff, 0xff, 0xff};
    for (int i = 0; i < 31; i++)
        want[i + 1] = values[i] = (float)(i + 1);
    memcpy(payload + 8, stored(values, 31), 124);
    struct hk_tensor *t = box_tensor(&b, "w", HK_TYPE_F32, 1, (uint64_t[]){33});
    t->sparsity = HK_SPARSITY_BITMASK;
    box_data(&b, t, payload, sizeof payload);
    expect(&b, 0, want, "a bitmask as long as dense f32");
}

static void all_mislabelled(void)
{
    mislabelled(HK_TYPE_F32, HK_SPARSITY_BITMASK, 8, 16, "dense f32 under bitmask");
    mislabelled(HK_TYPE_F32, HK_SPARSITY_STRUCTURED_2_4, 8, 16, "dense f32 under structured_2_4");
    mislabelled(HK_TYPE_F32, HK_SPARSITY_CSR, 8, 16, "dense f32 under csr");
    mislabelled(HK_TYPE_F32, HK_SPARSITY_CSR, 1, 2, "dense f32 under csr, two elements");
    mislabelled(HK_TYPE_F32, HK_SPARSITY_PHYSICAL_PRUNED, 8, 16, "physically pruned f32");
    mislabelled(HK_TYPE_F16, HK_SPARSITY_BITMASK, 8, 16, "f32 under f16 and bitmask");
    mislabelled(HK_TYPE_Q4_0, HK_SPARSITY_BITMASK, 2, 32, "f32 under q4_0 and bitmask");
    mislabelled_tiles(HK_SPARSITY_BITMASK, "retiled f32 under bitmask");
    mislabelled_tiles(HK_SPARSITY_STRUCTURED_2_4, "retiled f32 under structured_2_4");
    mislabelled_tiles(HK_SPARSITY_CSR, "retiled f32 under csr");
    bitmask_as_long_as_dense();
}

int main(void)
{
    pairs(HK_TYPE_SPARSE_2_4, 0, "sparse_2_4");
    pairs(HK_TYPE_F32, HK_SPARSITY_STRUCTURED_2_4, "f32 structured_2_4");
    pairs_order();
    bitmask(HK_TYPE_SPARSE_F16, 0, "sparse_f16");
    bitmask(HK_TYPE_F32, HK_SPARSITY_BITMASK, "f32 bitmask");
    bitmask_long();
    bitmask_refused();
    bsr(HK_TYPE_F32, HK_SPARSITY_CSR, "csr");
    bsr(HK_TYPE_BF16, HK_SPARSITY_CSR, "csr under bf16");
    bsr(HK_TYPE_F32, HK_SPARSITY_BSR, "bsr");
    bsr_last_row();
    bsr_refused();
    bsr_mangled();
    all_mislabelled();
    return tap_done();
}
