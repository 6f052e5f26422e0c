/* How much may be made of a file: a few bytes can stand for any number of zeros, be read again for
 * each of many references, or ask for vast alignment. */
#include "libhkfmt/base/le.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"

enum { TIMES = 16 };
static const uint64_t always = UINT64_C(64) << 20;

uint64_t hk_output_limit(const struct hk_file *f, uint64_t most)
{
    uint64_t limit;
    if (most > 0)
        return most;
    if (f->stream != NULL || !mul_ok(hk_file_size(f), TIMES, &limit))
        return UINT64_MAX; /* GGUF has no form that grows */
    return limit > always ? limit : always;
}

enum hk_status hk_check_output(uint64_t size, uint64_t limit, struct hk_error *err)
{
    if (size <= limit)
        return HK_OK;
    return hk_fail(
        err, HK_E_RANGE, HK_NO_OFFSET,
        "would write more than %llu bytes, the limit for this input; --max-output raises it",
        (unsigned long long)limit);
}
