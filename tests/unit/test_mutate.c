/* A valid .hk cut at every length and with every byte of its head changed: refused, or read as
 * another valid file. Run under the sanitizers this is the crash test of the parser. */
#include "tests/lib/sample.h"

/* Faults that leave a file readable: hk_open() does not refuse them. */
static bool tolerated(const char *code)
{
    static const char *const codes[] = {"section-alignment", "reference",     "appendix-offset",
                                        "record-type",       "record-torn",   "trailing-bytes",
                                        "lineage-broken",    "lineage-zero",  "crc",
                                        "base-changed",      "payload-index", "name-length"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return false;
}

struct tally {
    unsigned hard, errors;
    char first[300];
};

static void note(void *arg, const struct hk_fault *fault)
{
    struct tally *t = arg;
    if (fault->severity != HK_ERROR)
        return;
    t->errors++;
    if (tolerated(fault->code))
        return;
    if (t->hard++ == 0)
        snprintf(t->first, sizeof t->first, "%s: %s", fault->code, fault->text);
}

static void read_everything(const struct hk_file *f)
{
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        const struct hk_tensor *t = hk_tensor_at(f, i);
        struct hk_decoder *d;
        float values[64];
        if (hk_decoder_new(&d, f, t, NULL) != HK_OK)
            continue;
        uint64_t n = hk_tensor_elems(t);
        for (uint64_t at = 0; at < n && at < 4096; at += 64)
            hk_decoder_read(d, at, n - at < 64 ? (size_t)(n - at) : 64, values);
        hk_decoder_free(&d);
    }
    for (size_t i = 0; i < hk_kv_count(f); i++) {
        struct hk_array a;
        if (hk_kv_array(hk_kv_at(f, i), HK_ARRAY_STRING, &a, NULL) != HK_OK)
            continue;
        for (uint32_t j = 0; j < a.count; j++)
            (void)hk_array_string(&a, j);
        hk_array_free(&a);
    }
}

/* True if opening and verifying agree. */
static bool agree(const struct image *image, const char *what, size_t at)
{
    struct hk_file *f = NULL;
    struct hk_error err = {0}, verify_err = {0};
    struct tally t = {0};
    struct hk_verify_report report;
    enum hk_status status = open_image(image, &f, &err);
    must(verify_image(image, HK_VERIFY_PAYLOAD, note, &t, &report, &verify_err), &verify_err, what);
    bool good = status == HK_OK ? t.hard == 0 : t.errors > 0 && err.text[0] != '\0';
    if (!good)
        printf("# %s at %zu: hk_open() %s (%s), hk_verify() %u errors (%s)\n", what, at,
               hk_status_name(status), err.text, t.errors, t.first);
    if (status == HK_OK)
        read_everything(f);
    hk_close(&f);
    return good;
}

static void change_bytes(struct image *image)
{
    static const uint8_t masks[] = {0x01, 0x02, 0x10, 0x80, 0xff};
    struct hk_file *f;
    struct hk_error err;
    must(open_image(image, &f, &err), &err, "sample");
    size_t head = (size_t)hk_file_header(f)->tensor_data_offset;
    size_t disagreements = 0;
    hk_close(&f);
    for (size_t at = 0; at < head; at++)
        for (size_t m = 0; m < sizeof masks; m++) {
            image->p[at] ^= masks[m];
            disagreements += !agree(image, "byte changed", at);
            image->p[at] ^= masks[m];
        }
    ok(disagreements == 0, "every byte of a head of %zu changed in %zu ways", head, sizeof masks);
}

static void change_appendix(struct image *image, size_t start)
{
    size_t disagreements = 0;
    for (size_t at = start; at < image->n; at++) {
        image->p[at] ^= 0xff;
        disagreements += !agree(image, "appendix byte changed", at);
        image->p[at] ^= 0xff;
    }
    ok(disagreements == 0, "every byte of an appendix of %zu changed", image->n - start);
}

static void cut(const struct image *image)
{
    size_t opened = 0;
    for (size_t n = 0; n < image->n; n++) {
        const struct image shorter = {image->p, n};
        struct hk_file *f = NULL;
        struct hk_error err;
        if (open_image(&shorter, &f, &err) == HK_OK && opened++ == 0)
            printf("# opens when cut at %zu of %zu\n", n, image->n);
        hk_close(&f);
    }
    ok(opened == 0, "cut at each of %zu lengths: refused", image->n);
}

static void cut_appendix(const struct image *image, size_t start)
{
    size_t disagreements = 0;
    for (size_t n = start; n < image->n; n++)
        disagreements += !agree(&(struct image){image->p, n}, "cut in the appendix", n);
    ok(disagreements == 0, "cut inside the appendix: the base stays readable");
}

int main(void)
{
    static const uint32_t alignments[] = {1, 64, 128};
    for (size_t i = 0; i < 3; i++) {
        struct image plain = sample(alignments[i], 0);
        cut(&plain);
        change_bytes(&plain);
        free(plain.p);
    }
    struct image with = sample(128, 3), without = sample(128, 0);
    change_bytes(&with);
    change_appendix(&with, without.n);
    cut_appendix(&with, without.n);
    free(with.p);
    free(without.p);
    return tap_done();
}
