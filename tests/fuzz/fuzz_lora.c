/* Adapters between PEFT's form and GGUF: what was converted is an adapter, and converted back and
 * again it is the same file. The input is that of fuzz_adapter.c. */
#include "libhkfmt/hkmodel.h"
#include "tests/fuzz/fuzz.h"

static int convert(int payload, const struct hk_file *base, enum hk_format to)
{
    const struct hk_convert_options options = {.size = sizeof options, .dense = HK_TYPE_F32};
    struct hk_file *f;
    struct hk_out *out;
    struct hk_error err;
    int fd = fuzz_file((struct hk_bytes){0});
    if (!fuzz_may(hk_open_fd(&f, payload, &err), &err)) {
        close(fd);
        return -1;
    }
    fuzz_must(hk_out_fd(&out, fd, &err), &err, "an output");
    enum hk_status st = hk_adapter_convert(f, base, to, &options, out, &err);
    hk_close(&f);
    if (fuzz_may(st, &err)) {
        fuzz_must(hk_out_commit(&out, &err), &err, "an output is committed");
        return fd;
    }
    hk_out_discard(&out);
    close(fd);
    return -1;
}

/* PAYLOAD as the directory NAME, and as a payload again. */
static void save(int payload, const struct hk_file *base)
{
    const struct hk_convert_options options = {.size = sizeof options, .dense = HK_TYPE_F32};
    const struct fuzz_path path = fuzz_path("peft");
    struct hk_file *f;
    struct hk_error err;
    fuzz_must(hk_open_fd(&f, payload, &err), &err, "a payload that was converted opens");
    if (fuzz_may(hk_adapter_save(f, base, path.text, &options, &err), &err)) {
        int fd = fuzz_payload(path.text, base);
        fuzz_require(fd >= 0, "a directory that was written is an adapter");
        close(fd);
    }
    hk_close(&f);
}

static void there_and_back(int payload, const struct hk_file *base)
{
    int gguf = convert(payload, base, HK_FORMAT_GGUF);
    if (gguf < 0)
        return;
    int back = fuzz_payload(fuzz_fd_path(gguf).text, base);
    fuzz_require(back >= 0, "a GGUF that was written is an adapter");
    int again = convert(back, base, HK_FORMAT_GGUF);
    fuzz_require(again >= 0, "and is converted again");
    fuzz_require(fuzz_same_content(gguf, again), "into the same file");
    save(back, base);
    close(gguf);
    close(back);
    close(again);
}

void fuzz_one(struct hk_bytes input)
{
    struct hk_file *f;
    struct hk_error err;
    const struct fuzz_path base = fuzz_put_llama(), adapter = fuzz_put_adapter(input);
    fuzz_must(hk_open(&f, base.text, &err), &err, "the base opens");
    int payload = fuzz_payload(adapter.text, f);
    if (payload >= 0) {
        there_and_back(payload, f);
        close(payload);
    }
    hk_close(&f);
}
