/* Inputs of several parts. */
#include <ctype.h>

#include "tests/fuzz/fuzz.h"

struct hk_bytes fuzz_part(struct hk_bytes *rest)
{
    static const uint8_t separator[] = {0xf5, 0xf6, 0xf7, 0xf8};
    const uint8_t *end = memmem(rest->p, rest->n, separator, sizeof separator);
    struct hk_bytes part = {rest->p, end != NULL ? (size_t)(end - rest->p) : rest->n};
    size_t used = part.n + (end != NULL ? sizeof separator : 0);
    rest->p += used;
    rest->n -= used;
    return part;
}

uint8_t fuzz_byte(struct hk_bytes *rest)
{
    if (rest->n == 0)
        return 0;
    rest->n--;
    return *rest->p++;
}

bool fuzz_line(struct hk_bytes *rest, struct hk_bytes *line)
{
    if (rest->n == 0)
        return false;
    const uint8_t *end = memchr(rest->p, '\n', rest->n);
    *line = (struct hk_bytes){rest->p, end != NULL ? (size_t)(end - rest->p) : rest->n};
    size_t used = line->n + (end != NULL);
    rest->p += used;
    rest->n -= used;
    return true;
}

/* The largest number that stands behind "data_offsets" anywhere in TEXT, but not above LIMIT. */
static size_t data_size(struct hk_bytes text, size_t limit)
{
    static const char word[] = "data_offsets";
    size_t most = 0;
    const uint8_t *end = text.p + text.n, *p = text.p;
    while (p < end && (p = memmem(p, (size_t)(end - p), word, sizeof word - 1)) != NULL) {
        p += sizeof word - 1;
        while (p < end && *p != ']') {
            size_t number = 0;
            while (p < end && isdigit(*p) && number <= limit)
                number = number * 10 + (size_t)(*p++ - '0');
            most = number > most ? number : most;
            p += p < end && *p != ']';
        }
    }
    return most < limit ? most : limit;
}

void fuzz_safetensors(struct hk_bytes header, struct hk_bytes *out)
{
    static const uint8_t value[] = {0x0a, 0xd7, 0x23, 0x3c}; /* 0.01 as f32 */
    size_t data = data_size(header, 1 << 16), n = 8 + header.n + data;
    uint8_t *p = malloc(n);
    fuzz_require(p != NULL, "memory");
    for (size_t i = 0; i < 8; i++)
        p[i] = (uint8_t)((uint64_t)header.n >> 8 * i);
    if (header.n > 0)
        memcpy(p + 8, header.p, header.n);
    for (size_t i = 0; i < data; i++)
        p[8 + header.n + i] = value[i % sizeof value];
    *out = (struct hk_bytes){p, n};
}
