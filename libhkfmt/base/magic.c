/* The formats: what they are called, and what a file is by its first bytes. */
#include "libhkfmt/base/magic.h"

#include <string.h>

#include "libhkfmt/base/format_list.h"
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

/* ---- the formats ---- */

enum { MAX_JSON_HEADER = 100 * 1000 * 1000 }; /* bytes that a safetensors header may have */

/* Whether a file of SIZE bytes (UINT64_MAX: unknown) at P, of which HK_MODEL_START are looked at,
 * begins as one. SURE: enough of it that other bytes would hardly look so. */
typedef bool hk_begins_fn(const uint8_t *p, uint64_t size, bool sure);

static bool begins_hk(const uint8_t *p, uint64_t size, bool sure)
{
    return size >= 4 && memcmp(p, HK_MAGIC, 4) == 0 && (!sure || le16(p + 4) == 1);
}

static bool begins_gguf(const uint8_t *p, uint64_t size, bool sure)
{
    return size >= 4 && memcmp(p, "GGUF", 4) == 0 &&
           (!sure || (le32(p + 4) >= 1 && le32(p + 4) <= 3));
}

static bool begins_safetensors(const uint8_t *p, uint64_t size, bool sure)
{
    if (size <= 8 || p[8] != '{' || le64(p) > size - 8)
        return false;
    return !sure || (le64(p) >= 2 && le64(p) <= MAX_JSON_HEADER && (p[9] == '"' || p[9] == '}'));
}

static const struct hk_format_names {
    const char *name, *extension;
    unsigned traits;
    hk_begins_fn *begins;
} formats[] = {
#define X(symbol, name, extension, traits, begins, ...)                                            \
    [HK_FORMAT_##symbol] = {name, extension, traits, begins},
    HK_FORMATS(X)
#undef X
};

enum { FORMATS = sizeof formats / sizeof *formats };

const char *hk_format_name(enum hk_format f)
{
    return (size_t)f < FORMATS ? formats[f].name : NULL;
}

unsigned hk_format_traits(enum hk_format f)
{
    return (size_t)f < FORMATS ? formats[f].traits : 0;
}

const char *hk_format_extension(enum hk_format f)
{
    return (size_t)f < FORMATS ? formats[f].extension : NULL;
}

bool hk_format_by_name(const char *name, enum hk_format *out)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (strcmp(name, formats[i].name) == 0) {
            *out = (enum hk_format)i;
            return true;
        }
    return false;
}

bool hk_format_by_extension(const char *path, enum hk_format *out)
{
    const size_t n = strlen(path);
    for (size_t i = 0; i < FORMATS; i++) {
        const char *extension = formats[i].extension;
        const size_t m = extension != NULL ? strlen(extension) : SIZE_MAX;
        if (n >= m && strcmp(path + n - m, extension) == 0) {
            *out = (enum hk_format)i;
            return true;
        }
    }
    return false;
}

/* The first row that SIZE bytes at P begin as. */
static bool find_format(const uint8_t *p, uint64_t size, bool sure, enum hk_format *out)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (formats[i].begins != NULL && formats[i].begins(p, size, sure)) {
            *out = (enum hk_format)i;
            return true;
        }
    return false;
}

bool hk_format_by_start(const void *p, size_t n, enum hk_format *out)
{
    uint8_t start[HK_MODEL_START] = {0};
    memcpy(start, p, n < sizeof start ? n : sizeof start);
    return find_format(start, MAX_JSON_HEADER + 8, false, out);
}

enum hk_format hk_format_of(const uint8_t *p, uint64_t n)
{
    enum hk_format format = HK_FORMAT_HK;
    find_format(p, n, false, &format);
    return format;
}

bool hk_starts_model(const uint8_t *p, uint64_t n)
{
    enum hk_format format;
    return n >= HK_MODEL_START && find_format(p, n, true, &format);
}
