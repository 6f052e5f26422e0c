/* hk_dequantize() against the golden vectors: every type, bit for bit. */
#include <string.h>

#include "libhkfmt/base/sha256.h"
#include "tests/lib/tap.h"

static const char *fixtures(void)
{
    const char *dir = getenv("HK_FIXTURES");
    return dir != NULL ? dir : "tests/fixtures";
}

/* The whole of DIR/quant/NAME.SUFFIX, or NULL. */
static uint8_t *slurp(const char *dir, const char *name, const char *suffix, size_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/quant/%s%s", dir, name, suffix);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    size_t room = 1 << 20;
    uint8_t *p = malloc(room);
    *n = p != NULL ? fread(p, 1, room, f) : 0;
    fclose(f);
    return p;
}

/* Every 16-bit code in order: the blocks of f16 and bf16. */
static uint8_t *all_codes(size_t *n)
{
    uint8_t *p = malloc(*n = 131072);
    for (unsigned i = 0; p != NULL && i < 65536; i++) {
        p[2 * i] = (uint8_t)i;
        p[2 * i + 1] = (uint8_t)(i >> 8);
    }
    return p;
}

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return f != f ? 0x7fc00000 : u;
}

/* Hex SHA-256 of N floats as little-endian bytes, any NaN as one. */
static void digest(const float *y, size_t n, char hex[65])
{
    struct hk_sha256 *h;
    uint8_t sum[HK_SHA256_SIZE] = {0};
    bool good = hk_sha256_new(&h, NULL) == HK_OK;
    for (size_t i = 0; good && i < n; i++) {
        uint32_t u = bits(y[i]);
        uint8_t b[4] = {(uint8_t)u, (uint8_t)(u >> 8), (uint8_t)(u >> 16), (uint8_t)(u >> 24)};
        good = hk_sha256_add(h, b, 4, NULL) == HK_OK;
    }
    good = good && hk_sha256_done(&h, sum, NULL) == HK_OK;
    for (size_t i = 0; i < HK_SHA256_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

static void compare_shared(const char *type, const char *golden, const float *y, size_t n)
{
    const char *shared = getenv("HK_SHARED");
    char dir[4096];
    size_t size = 0, differ = 0;
    snprintf(dir, sizeof dir, "%s/fixtures", shared != NULL ? shared : "");
    uint8_t *want = shared != NULL ? slurp(dir, golden, ".f32", &size) : NULL;
    if (want == NULL) {
        tap_skip(type, "HK_SHARED has no golden values");
        return;
    }
    for (size_t i = 0; i < n && size == 4 * n; i++) {
        const uint8_t *p = want + 4 * i;
        uint32_t u =
            (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        float f;
        memcpy(&f, &u, sizeof f);
        differ += bits(f) != bits(y[i]);
    }
    ok(size == 4 * n && differ == 0, "%s: %zu of %zu values differ from the shared ones", type,
       differ, n);
    free(want);
}

/* Decoding again from an odd address, a block at a time, gives the same bits. */
static bool same_piecewise(const struct hk_type_info *t, const uint8_t *src, size_t n,
                           const float *whole)
{
    float y[256];
    uint8_t odd[1 + 300];
    for (size_t i = 0; i < n; i += t->block_elems) {
        memcpy(odd + 1, src + i / t->block_elems * t->block_bytes, t->block_bytes);
        if (!hk_dequantize(t->type, odd + 1, t->block_elems, y) ||
            memcmp(y, whole + i, t->block_elems * sizeof *y) != 0)
            return false;
    }
    return true;
}

static void golden(const char *type, const char *file, size_t n, const char *sum)
{
    const struct hk_type_info *t = hk_type_by_name(type);
    size_t size = 0;
    bool codes = t != NULL && (t->type == HK_TYPE_F16 || t->type == HK_TYPE_BF16);
    uint8_t *src = codes ? all_codes(&size) : slurp(fixtures(), type, ".blocks", &size);
    float *y = calloc(n, sizeof *y);
    char hex[65] = "";
    if (ok(t != NULL && src != NULL && y != NULL && size == n / t->block_elems * t->block_bytes,
           "%s: blocks are there", type)) {
        bool done = hk_dequantize(t->type, src, n, y);
        digest(y, n, hex);
        ok(done && strcmp(hex, sum) == 0, "%s: %zu values are those of the golden vector", type, n);
        ok(same_piecewise(t, src, n, y), "%s: block by block at odd addresses", type);
        compare_shared(type, file, y, n);
        ok(t->block_elems == 1 || !hk_dequantize(t->type, src, (size_t)t->block_elems - 1, y),
           "%s: part of a block is refused", type);
    }
    free(src);
    free(y);
}

static void golden_vectors(void)
{
    char path[4096], line[256], type[32], file[32], sum[65];
    unsigned long n;
    int seen = 0;
    snprintf(path, sizeof path, "%s/quant/sums.txt", fixtures());
    FILE *f = fopen(path, "r");
    if (!ok(f != NULL, "%s opens", path))
        return;
    while (fgets(line, sizeof line, f) != NULL)
        if (line[0] != '#' && sscanf(line, "%31s %31s %lu %64s", type, file, &n, sum) == 4) {
            golden(type, file, n, sum);
            seen++;
        }
    fclose(f);
    ok(seen == 31, "31 types have golden vectors, %d seen", seen);
}

static void integers(void)
{
    static const struct {
        enum hk_type type;
        uint8_t bytes[8];
        float want;
    } rows[] = {
        {HK_TYPE_F32, {0, 0, 0xc0, 0x3f}, 1.5f},
        {HK_TYPE_INT8, {0x80}, -128},
        {HK_TYPE_UINT8, {0xff}, 255},
        {HK_TYPE_BOOL, {0}, 0},
        {HK_TYPE_BOOL, {1}, 1},
        {HK_TYPE_BOOL, {0x80}, 1},
        {HK_TYPE_INT16, {0xfe, 0xff}, -2},
        {HK_TYPE_UINT16, {0xfe, 0xff}, 65534},
        {HK_TYPE_INT32, {0xff, 0xff, 0xff, 0xff}, -1},
        {HK_TYPE_INT32, {1, 0, 0, 1}, 16777216}, /* a tie, to even */
        {HK_TYPE_INT32, {3, 0, 0, 1}, 16777220},
        {HK_TYPE_UINT32, {0xff, 0xff, 0xff, 0xff}, 4294967296.0f},
        {HK_TYPE_INT64, {0, 0, 0, 0, 0, 0, 0, 0x80}, -0x1p63f},
        {HK_TYPE_UINT64, {0, 0, 0, 0, 0, 0, 0, 0x80}, 0x1p63f},
        {HK_TYPE_F64, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 1.5f},
        {HK_TYPE_F64,
         {1, 0, 0, 0x10, 0, 0, 0xf0, 0x3f},
         0x1.000002p0f}, /* just above half an ulp */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size = hk_type_info(rows[i].type)->block_bytes;
        uint8_t many[8 * 33];
        float y[33];
        bool good = true;
        for (size_t j = 0; j < 33; j++)
            memcpy(many + size * j, rows[i].bytes, size);
        good = hk_dequantize(rows[i].type, many, 33, y);
        for (size_t j = 0; j < 33; j++)
            good = good && bits(y[j]) == bits(rows[i].want);
        ok(good, "%s, row %zu", hk_type_info(rows[i].type)->name, i);
    }
}

static void refusals(void)
{
    static const unsigned types[] = {HK_TYPE_DQ4,
                                     HK_TYPE_DQ6,
                                     HK_TYPE_SPARSE_F16,
                                     HK_TYPE_SHARED_REF,
                                     HK_TYPE_NULL_REF,
                                     0x0f,
                                     0xff,
                                     0x100,
                                     0x10000};
    uint8_t src[512] = {0};
    float y[256];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        ok(!hk_dequantize(types[i], src, 256, y), "type 0x%x has no plain decoder", types[i]);
    ok(hk_dequantize(HK_TYPE_F32, NULL, 0, NULL) && hk_dequantize(HK_TYPE_Q4_K, NULL, 0, NULL),
       "nothing decodes to nothing");
}

int main(void)
{
    golden_vectors();
    integers();
    refusals();
    return tap_done();
}
