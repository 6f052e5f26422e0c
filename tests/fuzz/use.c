/* What programs do with a model file, whatever is in it. */
#include "tests/fuzz/fuzz.h"

/* ---- reading ---- */

enum { PIECE = 1000 }; /* elements: no multiple of a block */

static void decode(const struct hk_file *f, const struct hk_tensor *t)
{
    static float values[PIECE];
    struct hk_decoder *d;
    struct hk_error err;
    if (!fuzz_may(hk_decoder_new(&d, f, t, &err), &err))
        return;
    uint64_t n = hk_tensor_elems(t);
    for (uint64_t at = 0; at < n && at < 4 * PIECE; at += PIECE)
        hk_decoder_read(d, at, n - at < PIECE ? (size_t)(n - at) : PIECE, values);
    if (n > PIECE)
        hk_decoder_read(d, n - PIECE, PIECE, values);
    hk_decoder_free(&d);
}

static void read_value(const struct hk_kv *kv)
{
    int64_t integer;
    double real;
    bool truth;
    struct hk_bytes text;
    struct hk_error err;
    volatile uint64_t sum = 0; /* so that the bytes are read */
    if (hk_kv_int(kv, &integer, &err) != HK_OK || hk_kv_float(kv, &real, &err) != HK_OK)
        sum++;
    if (hk_kv_bool(kv, &truth, &err) != HK_OK || hk_kv_string(kv, &text, &err) != HK_OK)
        sum++;
    for (int kind = HK_ARRAY_STRING; kind <= HK_ARRAY_I32; kind++) {
        struct hk_array a;
        if (hk_kv_array(kv, (enum hk_array_kind)kind, &a, &err) != HK_OK)
            continue;
        for (uint32_t i = 0; i < a.count; i++) {
            if (kind == HK_ARRAY_STRING)
                sum += hk_array_string(&a, i).n;
            else if (kind == HK_ARRAY_F32)
                sum += hk_array_f32(&a, i) > 0;
            else
                sum += hk_array_i32(&a, i) > 0;
        }
        hk_array_free(&a);
    }
}

void fuzz_read(const struct hk_file *f)
{
    struct hk_error err;
    for (size_t i = 0; i < hk_kv_count(f); i++)
        read_value(hk_kv_at(f, i));
    for (size_t i = 0; i < hk_tensor_count(f) && i < 100; i++)
        decode(f, hk_tensor_at(f, i));
    for (size_t i = 0; i < hk_record_count(f); i++) {
        enum hk_lineage lineage;
        uint8_t hash[HK_SHA256_SIZE];
        fuzz_must(hk_record_hash(f, i, hash, &err), &err, "a record is hashed");
        fuzz_must(hk_record_lineage(f, i, &lineage, &err), &err, "a record has a lineage");
    }
}

/* ---- converting ---- */

int fuzz_convert(struct hk_file *f, enum hk_format to)
{
    const struct hk_convert_options options = {.size = sizeof options,
                                               .alignment = to == HK_FORMAT_SAFETENSORS ? 0 : 32,
                                               .max_output = 4 << 20};
    struct hk_out *out;
    struct hk_error err;
    int fd = fuzz_file((struct hk_bytes){0});
    fuzz_must(hk_out_fd(&out, fd, &err), &err, "an output is opened");
    if (fuzz_may(hk_convert(f, to, &options, out, &err), &err)) {
        fuzz_must(hk_out_commit(&out, &err), &err, "an output is committed");
        return fd;
    }
    hk_out_discard(&out);
    close(fd);
    return -1;
}

/* What is in FD as format TO; FD is closed. */
static int convert_again(int fd, enum hk_format to)
{
    struct hk_file *f;
    struct hk_error err;
    if (fd < 0)
        return -1;
    fuzz_must(hk_open_fd(&f, fd, &err), &err, "what was written opens");
    int result = fuzz_convert(f, to);
    hk_close(&f);
    return result;
}

void fuzz_fixed_point(struct hk_file *f, enum hk_format to)
{
    enum { STEPS = 5 };
    int fd[STEPS] = {fuzz_convert(f, to)};
    for (int i = 1; i < STEPS; i++)
        fd[i] = convert_again(fd[i - 1], i % 2 == 1 ? HK_FORMAT_HK : to);
    for (int i = 3; i < STEPS; i++)
        if (fd[i] >= 0)
            fuzz_require(fuzz_same_content(fd[i], fd[i - 2]), "a conversion is a fixed point");
        else
            fuzz_require(fd[i - 1] < 0 || fd[i - 2] < 0, "what was converted once converts again");
    for (int i = 0; i < STEPS; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

/* ---- verdicts ---- */

static void note(void *arg, const struct hk_fault *fault)
{
    bool *prevents = arg;
    *prevents |= fault->status != HK_OK;
    fuzz_require(strlen(fault->text) > 0 && strchr(fault->text, '\n') == NULL,
                 "a fault is told in one line");
}

bool fuzz_refused(const char *path, uint64_t *errors)
{
    struct hk_verify_report report;
    struct hk_error err;
    bool prevents = false;
    fuzz_must(hk_verify(path, HK_VERIFY_PAYLOAD, note, &prevents, &report, &err), &err,
              "a file is verified");
    if (errors != NULL)
        *errors = report.errors;
    return prevents;
}
