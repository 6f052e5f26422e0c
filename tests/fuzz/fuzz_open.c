/* Whatever the bytes of a file are: opening, verifying, decoding and converting it end with an
 * answer, and opening agrees with verifying. */
#include "libhkfmt/hkmodel.h"
#include "tests/fuzz/fuzz.h"

static void convert(struct hk_file *f, enum hk_format to)
{
    int fd = fuzz_convert(f, to);
    if (fd >= 0)
        close(fd);
}

static void stream(int fd)
{
    struct hk_file *f;
    struct hk_error err;
    fuzz_require(lseek(fd, 0, SEEK_SET) == 0, "a file is rewound");
    if (!fuzz_may(hk_open_stream(&f, fd, &err), &err))
        return;
    convert(f, HK_FORMAT_HK);
    hk_close(&f);
}

void fuzz_one(struct hk_bytes input)
{
    struct hk_file *f;
    struct hk_error err;
    struct hk_cut cut;
    int fd = fuzz_file(input);
    bool opened = fuzz_may(hk_open_fd(&f, fd, &err), &err);
    if (opened) {
        fuzz_read(f);
        convert(f, HK_FORMAT_HK);
        convert(f, HK_FORMAT_GGUF);
        convert(f, HK_FORMAT_SAFETENSORS);
        hk_close(&f);
    } else if (fuzz_may(hk_open_cut(&f, fuzz_fd_path(fd).text, &cut, &err), &err)) {
        fuzz_require(cut.needed == 0 || cut.needed > cut.size, "a file that is cut lacks bytes");
        fuzz_read(f);
        convert(f, HK_FORMAT_HK);
        hk_close(&f);
    }
    fuzz_require(fuzz_refused(fuzz_fd_path(fd).text, NULL) != opened,
                 "a file opens if and only if verifying finds nothing against it");
    stream(fd);
    close(fd);
}
