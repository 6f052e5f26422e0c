/* A safetensors file made of a header, which is the input, and the data that it asks for. */
#include "tests/fuzz/fuzz.h"

void fuzz_one(struct hk_bytes input)
{
    struct hk_file *f;
    struct hk_error err;
    struct hk_bytes content;
    fuzz_safetensors(input, &content);
    int fd = fuzz_file(content);
    bool opened = fuzz_may(hk_open_fd(&f, fd, &err), &err);
    if (opened) {
        fuzz_read(f);
        fuzz_fixed_point(f, HK_FORMAT_SAFETENSORS);
        hk_close(&f);
    }
    fuzz_require(fuzz_refused(fuzz_fd_path(fd).text, NULL) != opened,
                 "a file opens if and only if verifying finds nothing against it");
    close(fd);
    free((void *)(uintptr_t)content.p);
}
