/* A file that opens, converted to each format and back and again: every result opens, and the
 * second and third are equal. */
#include "tests/fuzz/fuzz.h"

void fuzz_one(struct hk_bytes input)
{
    struct hk_file *f;
    struct hk_error err;
    int fd = fuzz_file(input);
    if (fuzz_may(hk_open_fd(&f, fd, &err), &err)) {
        for (enum hk_format to = HK_FORMAT_HK; to <= HK_FORMAT_SAFETENSORS; to++)
            fuzz_fixed_point(f, to);
        hk_close(&f);
    }
    close(fd);
}
