/* What a file is by its first bytes. */
#include "libhkfmt/base/magic.h"

#include <string.h>

#include "libhkfmt/base/le.h"

static const struct {
    const char *magic;
    size_t n;
    const char *what;
} kinds[] = {
    {"version https://git-lfs", 23, "a Git LFS pointer: fetch the real file first"},
    {"<!DOCTYPE", 9, "an HTML page"},
    {"<!doctype", 9, "an HTML page"},
    {"<html", 5, "an HTML page"},
    {"PK\x03\x04", 4, "a zip archive (perhaps a PyTorch checkpoint)"},
    {"FUGG", 4, "a big-endian or byte-swapped GGUF file"},
    {"TNKH", 4, "a byte-swapped .hk file"},
    {"lmgg", 4, "an old GGML file"},
    {"ggml", 4, "an old GGML file"},
    {"fmgg", 4, "an old GGMF file"},
    {"tjgg", 4, "an old GGJT file"},
    {"\x1f\x8b", 2, "gzip data"},
    {"\x28\xb5\x2f\xfd", 4, "Zstandard data"},
    {"\x89HDF", 4, "an HDF5 file"},
    {"\x7f"
     "ELF",
     4, "an ELF program"},
};

const char *hk_sniff(const uint8_t *p, uint64_t n)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].n && memcmp(p, kinds[i].magic, kinds[i].n) == 0)
            return kinds[i].what;
    if (n >= 9 && p[8] == '{' && le64(p) <= n - 8)
        return "a safetensors file";
    if (n >= 10 && p[8] == '{' && (p[9] == '"' || p[9] == '}' || p[9] == ' '))
        return "a safetensors file whose header is not all there";
    return NULL;
}

enum hk_format hk_format_of(const uint8_t *p, uint64_t n)
{
    if (n >= 4 && memcmp(p, "GGUF", 4) == 0)
        return HK_FORMAT_GGUF;
    bool hk = n >= 4 && memcmp(p, HK_MAGIC, 4) == 0;
    if (!hk && n > 8 && p[8] == '{' && le64(p) <= n - 8)
        return HK_FORMAT_SAFETENSORS;
    return HK_FORMAT_HK;
}

/* bytes that tell */

bool hk_starts_model(const uint8_t *p, uint64_t n)
{
    enum { ST_MOST = 100000000 }; /* bytes that a safetensors header may have */
    if (n < HK_MODEL_START)
        return false;
    if (memcmp(p, HK_MAGIC, 4) == 0)
        return le16(p + 4) == 1;
    if (memcmp(p, "GGUF", 4) == 0)
        return le32(p + 4) >= 1 && le32(p + 4) <= 3;
    const uint64_t header = le64(p);
    return header >= 2 && header <= ST_MOST && header <= n - 8 && p[8] == '{' &&
           (p[9] == '"' || p[9] == '}');
}
