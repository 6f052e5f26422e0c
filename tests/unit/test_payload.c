/* hk_verify() with payloads finds a NaN or an infinity of every float type at every place, and
 * takes the largest finite values for what they are. */
#include "tests/lib/sample.h"

struct kind {
    enum hk_type type;
    size_t bytes;
    uint64_t nan, inf, largest; /* inf 0: the type has none */
};

static const struct kind kinds[] = {
    {HK_TYPE_F32, 4, 0xffc00001, 0xff800000, 0x7f7fffff},
    {HK_TYPE_F16, 2, 0x7e01, 0xfc00, 0xfbff},
    {HK_TYPE_BF16, 2, 0xffc1, 0x7f80, 0x7f7f},
    {HK_TYPE_FP8_E4M3, 1, 0xff, 0, 0xfe},
    {HK_TYPE_FP8_E5M2, 1, 0x7d, 0xfc, 0xfb},
    {HK_TYPE_F64, 8, 0x7ff0000000000001, 0xfff0000000000000, 0xffefffffffffffff},
};

enum { ELEMS = 21 };

static void put(uint8_t *p, size_t bytes, uint64_t bits)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(bits >> 8 * i);
}

struct found {
    unsigned nan, inf, others;
    uint64_t offset;
};

static void note(void *arg, const struct hk_fault *fault)
{
    struct found *f = arg;
    f->nan += strcmp(fault->code, "payload-nan") == 0;
    f->inf += strcmp(fault->code, "payload-inf") == 0;
    f->others += strncmp(fault->code, "payload", 7) != 0;
    f->offset = fault->offset;
}

/* What is found in ELEMS of the largest values with BITS at place AT; offsets count from the data.
 */
static struct found check(const struct kind *k, size_t at, uint64_t bits)
{
    struct hk_error err;
    struct hk_writer *w;
    struct hk_out *out;
    struct found found = {0};
    struct hk_verify_report report;
    uint8_t data[ELEMS * 8];
    struct hk_tensor t = {
        .name = text("t"), .type = (uint16_t)k->type, .ndim = 1, .shape = {ELEMS}};
    t.data_size = ELEMS * k->bytes;
    for (size_t i = 0; i < ELEMS; i++)
        put(data + i * k->bytes, k->bytes, i == at ? bits : k->largest);
    int fd = memfd_create("payload", MFD_CLOEXEC);
    must(hk_writer_new(&w, NULL, &err), &err, "new");
    must(hk_writer_add(w, &t, 0, &err), &err, "add");
    must(hk_out_fd(&out, fd, &err), &err, "out");
    must(hk_writer_begin(w, out, &err), &err, "begin");
    uint64_t start = hk_out_offset(out);
    must(hk_writer_put(w, data, t.data_size, &err), &err, "put");
    must(hk_out_commit(&out, &err), &err, "commit");
    hk_writer_free(&w);
    struct image image = read_back(fd);
    close(fd);
    must(verify_image(&image, HK_VERIFY_PAYLOAD, note, &found, &report, &err), &err, "verify");
    found.offset -= start;
    free(image.p);
    return found;
}

static void test_kind(const struct kind *k)
{
    const char *name = hk_type_info(k->type)->name;
    struct found none = check(k, ELEMS, 0);
    ok(none.nan + none.inf + none.others == 0, "%s: the largest values are finite", name);
    bool nan = true, inf = true;
    for (size_t at = 0; at < ELEMS; at++) {
        struct found f = check(k, at, k->nan);
        nan = nan && f.nan == 1 && f.inf + f.others == 0 && f.offset == at * k->bytes;
        if (k->inf == 0)
            continue;
        f = check(k, at, k->inf);
        inf = inf && f.inf == 1 && f.nan + f.others == 0 && f.offset == at * k->bytes;
    }
    ok(nan, "%s: a NaN is found at every place", name);
    ok(inf, "%s: an infinity is found at every place", name);
}

int main(void)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        test_kind(&kinds[i]);
    return tap_done();
}
